"""Wrong arguments of unpooling, and similar ones that are correct; sizes and axes as in `test_errors_bins.py`."""

import re
from typing import Any

import jax
import numpy as np
import pytest

from tests.mistakes.errors import IMAGE, Row, Traced, call, check_wrong_call, zeros
from tests.mistakes.test_errors_bins import AXES, SIZES, UNKNOWN, output, shaped

UNPOOLED: list[Row] = [
    (
        TypeError,
        r"values must be a JAX or NumPy array, got list; convert it with jnp\.asarray\(values\)",
        {"values": [1]},
    ),
    (TypeError, r"values has dtype float8_e5m2, which .*; allowed are .*", {"values": IMAGE.astype("float8_e5m2")}),
    *(
        (ValueError, rf"{message} \(\)", {**arguments, "values": zeros(), "indices": np.array(0)})
        for message, arguments in (
            (r"output_size \(2, 2\) has 2 entries but values has 0 axes", output((2, 2))),
            (r"axis 0 is out of range for values with 0 axes", output(2, axis=0)),
        )
    ),
    (
        ValueError,
        r"axis 1 is pooled but has no cells; pool arrays with at least one",
        {"values": zeros(8, 0, 8), "indices": np.zeros((8, 0, 8), np.int32)},
    ),
    (
        TypeError,
        r"axis 1 has the symbolic size n; a pooled axis needs a known size",
        {"values": shaped(*UNKNOWN), "indices": shaped(*UNKNOWN, dtype=np.int32)},
    ),
    *(
        (
            TypeError,
            rf"indices must be a JAX or NumPy array, got {type(given).__name__}; convert it",
            {"indices": given},
        )
        for given in ([[0]], None, 0)
    ),
    *(
        (TypeError, rf"indices must be integers, got dtype {dtype}; give those of the max pool", {"indices": given})
        for dtype in ("float32", "bool", "complex64")
        for given in (np.zeros((2, 8, 8), dtype), Traced(np.zeros((2, 8, 8), dtype)))
    ),
    *(
        (
            ValueError,
            rf"indices of shape {re.escape(str(shape))} do not match values of shape \(2, 8, 8\); give one per value",
            {"indices": given},
        )
        for shape in ((8, 8), (2, 8, 4), (1, 8, 8), (1, 2, 8, 8), ())
        for given in (np.zeros(shape, np.int32), Traced(np.zeros(shape, np.int32)))
    ),
    (TypeError, r"output_size must be an int, got None", output((None, 16))),
    *(
        (
            ValueError,
            rf"output_size {re.escape(str(given))} is smaller than values .* name the axes",
            output(given),
        )
        for given in ((2, 2), (8, 7), (7, 16), (1,))
    ),
    *(
        (
            ValueError,
            rf"output_size {re.escape(str(given))} has an entry for every axis of values .*axis=\(-3, -2, -1\)$",
            output(given),
        )
        for given in ((2, 16, 16), (2, 2, 2))
    ),
    (
        ValueError,
        r"output_size \(65536, 32768\) and the values \(2, 8, 8\) hold 2147483712 cells, but int32 .*; unpool .* parts",
        output((65536, 32768), axis=(2, 1)),
    ),
    (ValueError, r"output_size \(2147483640,\) and .* hold 2147483648 cells", output(2**31 - 8, axis=1)),
]


@pytest.mark.parametrize(("exception", "message", "arguments"), SIZES + AXES + UNPOOLED)
def test_wrong_argument(exception: type[Exception], message: str, arguments: dict[str, Any]) -> None:
    check_wrong_call("max_unpool", exception, message.replace("{array}", "values"), arguments)


# Calls that look like mistakes but are correct, and the shapes of their results.
RIGHT: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    (output([np.int64(9), 20]), (2, 9, 20)),
    (output((4, 7), axis=(1, 2)), (2, 4, 7)),
    (output((2, 16, 16), axis=(0, 1, 2)), (2, 16, 16)),
    (output((8, 8)), (2, 8, 8)),
    ({"values": zeros(8, 8), "indices": np.zeros((8, 8), np.int32), "output_size": (8, 9)}, (8, 9)),
    (output((9, 5), axis=[-1, 0]), (5, 8, 9)),
    (output(np.array(9), axis=np.array([1, 2])), (2, 9, 9)),
    ({"values": np.zeros((2, 8, 8), np.complex64)}, (2, 16, 16)),
    ({"values": zeros(0, 8, 8), "indices": np.zeros((0, 8, 8), np.int32)}, (0, 16, 16)),
    (
        {"values": shaped(8), "indices": shaped(8, dtype=np.int32), "output_size": (2**31 - 9,)},
        (2**31 - 9,),
    ),
]


@pytest.mark.parametrize(("arguments", "shape"), RIGHT)
def test_right_argument(arguments: dict[str, Any], shape: tuple[int, ...]) -> None:
    array = arguments.get("values", IMAGE)
    unpooled = call("max_unpool", {**arguments, "values": array if isinstance(array, Traced) else Traced(array)})
    assert jax.tree.leaves(unpooled)[0].shape == shape


# 256 and 65536 cells are 0 as numbers of 8 and 16 bits.
@pytest.mark.parametrize("cells", [8, 200, 256, 70000])
@pytest.mark.parametrize("dtype", ["uint4", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))])
def test_indices_of_every_dtype(dtype: str, cells: int) -> None:
    indices = np.array([7, 5, 0, 3]).astype(dtype)
    pooled = call("max_unpool", {"values": np.arange(1.0, 5.0), "indices": indices, "output_size": (cells,)})
    np.testing.assert_array_equal(pooled, np.append([3, 0, 0, 4, 0, 2, 0, 1], np.zeros(cells - 8)))


@pytest.mark.parametrize("wide", [False, True])
def test_indices_beyond_int32_write_nothing(wide: bool) -> None:
    beyond = ((np.uint64, 2**63 + 1), (np.uint32, 2**32 - 1), (np.int64, -(2**63) + 1), (np.int64, 2**32 + 1))
    for dtype, largest in beyond:
        indices = np.array([largest, 3], dtype)
        with jax.enable_x64(wide):
            pooled = call("max_unpool", {"values": np.ones(2, np.float32), "indices": indices, "output_size": (8,)})
        np.testing.assert_array_equal(pooled, np.arange(8) == 3)
