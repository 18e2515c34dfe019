"""Wrong arrays, masks, flags, rules, numbers, keys and indices, and similar arguments that are right."""

import inspect
import math
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from jaxpool import quantile_pool, stochastic_pool
from tests.mistakes.errors import (
    COMPLEX,
    IMAGE,
    Row,
    Traced,
    call,
    check_right_calls,
    check_wrong_calls,
    wrong_type,
    wrong_value,
    zeros,
)
from tests.mistakes.test_errors_sizes import UNKNOWN, shaped
from tests.registry.records import RECORDS, names

nan, inf = math.nan, math.inf
NO_ARRAY = r"{0} must be a JAX or NumPy array, got {1}; convert it with jnp\.asarray\({0}\)"
SHAPE = r"{} of shape \({}\) does not broadcast to the output \(2, 4, 4\); give a number, or an array"

ARRAYS: list[Row] = [
    *(wrong_type(NO_ARRAY.format("x", type(x).__name__), x=x) for x in ([[1.0]], (1.0, 2.0), 1.0, 1, None, "ab")),
    wrong_type(r"x must be .*, got tuple; of \(values, indices\) give the values, x\[0\]$", x=(IMAGE, IMAGE)),
    *(
        wrong_type(rf"x has dtype .*{re.escape(dtype)}.*, which cannot be pooled; allowed are .*bfloat16", x=x)
        for dtype in ("float8_e4m3fn", "int4", "object", "U1", "datetime64[D]")
        for x in (zeros(8, 8).astype(dtype),)
    ),
    wrong_type("x has dtype float8_e5m2, which cannot be pooled", x=Traced(np.zeros((8, 8), "float8_e5m2"))),
    wrong_type("x has dtype key<fry>, which cannot be pooled; allowed are", x=jax.random.split(jax.random.key(0), 8)),
]
NO_MASK = r"where of shape {} does not broadcast to x \(2, 8, 8\); give a bool for every cell, or an array with 1 along"
RULES: list[Row] = [
    wrong_value(f"rule {re.escape(repr(given))} is unknown; use 'jvp' .* or 'vjp'", rule=given)
    for given in ("forward", "JVP", None, 1, ["jvp"])
]
MASKS: list[Row] = [
    *(
        wrong_type(NO_ARRAY.format("where", type(given).__name__), where=given)
        for given in ([True] * 8, (True, False), 1, 0, 1.0, "True")
    ),
    *(
        wrong_type(f"where must be bool, got dtype {re.escape(str(given.dtype))}; compare it first", where=given)
        for given in (zeros(8), np.ones(8, int), np.ones(8, np.uint8), np.array("a"), np.array(None), np.float32(1))
    ),
    wrong_type("where must be bool, got dtype key<fry>; compare it", where=jax.random.split(jax.random.key(0), 8)),
    wrong_type("where must be bool, got dtype float32; compare .*, as in where != 0", where=Traced(zeros(8))),
    *(
        wrong_value(NO_MASK.format(re.escape(str(shape))), where=mask)
        for shape in ((3,), (0,), (2,), (2, 8), (3, 8, 8), (16, 1), (1, 2, 8, 8), (1, 1, 1, 1))
        for mask in (np.ones(shape, bool), Traced(np.ones(shape, bool)))
    ),
    # An axis of x with a single cell is not stretched to that of the mask.
    wrong_value("where of shape .* does not broadcast to x", x=zeros(1, 8, 8), where=np.ones((2, 1, 1), bool)),
]


def flags(name: str) -> list[Row]:
    """What is neither True nor False."""
    return [
        *(
            wrong_type(f"{name} must be True or False, got {re.escape(repr(given))}", **{name: given})
            for given in (2, -1, 1.0, "yes", None, np.array(True))
        ),
        wrong_type(f"{name} must be True or False, got a traced value; .*static", **{name: Traced(True)}),
    ]


NO_COMPLEX = wrong_type(r"x is complex64, and complex numbers are not supported; pool (x\.real|abs\(x\))", **COMPLEX)
EMPTY = r"window 0 along axis 1 holds only padding \(padding \(2, 2\), kernel_size 2, .*8 cells\); use less padding"


def numbers(name: str) -> list[Row]:
    """Wrong types and shapes of a number that may be an array, and be learnt."""
    return [
        *(
            wrong_type(f"{name} must be a number or an array, got {re.escape(repr(given))}", **{name: given})
            for given in ("2", None, True, 2j)
        ),
        *(
            wrong_type(rf"{name} must be .*, got {kind}; convert it with jnp\.asarray\({name}\)$", **{name: given})
            for kind, given in (("list", [2.0, 2.0]), ("tuple", (2.0,)))
        ),
        *(
            wrong_type(f"{name} must be real, got dtype {dtype}", **{name: given})
            for dtype, given in (
                ("complex64", np.ones(4, np.complex64)),
                ("bool", np.ones(4, bool)),
                ("<U1", np.array("2")),
                ("key<fry>", jax.random.key(0)),
            )
        ),
        wrong_value(SHAPE.format(name, "2,") + rf" .*{name}\.reshape\(2, 1, 1\) for axis 0$", **{name: np.ones(2)}),
        # Which axis of 4 is meant is unsure.
        wrong_value(
            SHAPE.format(name, "2, 4") + " with 1 along the axes that share a value$", **{name: np.ones((2, 4))}
        ),
        *(
            wrong_value(SHAPE.format(name, str(shape)[1:-1]), **{name: given})
            for shape in ((3, 4), (3,), (0,), (3, 1, 1), (1, 1, 1, 1))
            for given in (np.ones(shape), Traced(np.ones(shape)))
        ),
        wrong_value(f"{name} must be .*", **{name: 10**400}),
    ]


POSITIVE = r"norm_type must be positive, got {}; use 1 .* 2 .* float\('inf'\)"
FINITE = "{} must be finite and not 0, got {}"
RAW_KEY = r"key must be .*, got uint32 numbers of shape {} in place of \(2,\); make one .*key\(0\), or .*impl='rbg'\)$"
ONE_KEY = r"key must be a single key, got an array of shape \({}\); give one, as key\[{}\]"
KEYS: list[Row] = [
    wrong_type(r"key must be a key of jax\.random, got 0; make one with jax\.random\.key\(0\)", key=0),
    wrong_type(r"key must be a key of jax\.random, got dtype float32; make one", key=zeros(2)),
    wrong_value(ONE_KEY.format("3,", "0") + r", or use jax\.vmap", key=jax.random.split(jax.random.key(0), 3)),
    wrong_value(ONE_KEY.format("3, 4, 2", "0, 0"), key=np.zeros((3, 4, 2), np.uint32)),
    *(
        wrong_value(RAW_KEY.format(re.escape(str(shape))), key=given)
        for shape in ((), (0,), (4,), (2, 3))
        for given in (np.zeros(shape, np.uint32), Traced(np.zeros(shape, np.uint32)))
    ),
]
BOTH = r"give a key or samples, got {}; write key=jax\.random\.key\(0\)"
SAMPLES: list[Row] = [
    *((exception, message, {**arguments, "samples": None}) for exception, message, arguments in KEYS),
    wrong_value(BOTH.format("neither"), samples=None),
    wrong_value(BOTH.format("both"), key=np.zeros(2, np.uint32)),
    wrong_type(r"samples must be floats in \[0, 1\), got dtype int32", samples=np.zeros((2, 2), np.int32)),
    wrong_type("samples must be a JAX or NumPy array, got float; convert", samples=0.5),
    wrong_value(r"samples of shape \(2,\) do not match x \(2, 8, 8\) .*; give the shape \(2, 2\)", samples=zeros(2)),
]
INDICES: list[Row] = [
    wrong_type(NO_ARRAY.format("values", "list"), values=[1]),
    wrong_type("values has dtype float8_e5m2, which .*; allowed are .*", values=IMAGE.astype("float8_e5m2")),
    wrong_value(r"output_size \(16, 16\) has 2 entries but values has 0 axes", values=zeros(), indices=np.array(0)),
    wrong_value("axis 0 is out of .* 0 axes", values=zeros(), indices=np.array(0), output_size=2, axis=0),
    wrong_value("axis 1 is pooled but has no cells", values=zeros(8, 0, 8), indices=np.zeros((8, 0, 8), np.int32)),
    wrong_type("axis 1 has the symbolic", values=shaped(*UNKNOWN), indices=shaped(*UNKNOWN, dtype=np.int32)),
    *(wrong_type(NO_ARRAY.format("indices", type(given).__name__), indices=given) for given in ([[0]], None, 0)),
    *(
        wrong_type(f"indices must be integers, got dtype {dtype}; give those of the max pool", indices=given)
        for dtype in ("float32", "bool", "complex64")
        for given in (np.zeros((2, 8, 8), dtype), Traced(np.zeros((2, 8, 8), dtype)))
    ),
    *(
        wrong_value(f"indices of shape {re.escape(str(shape))} do not match .*; give one per value", indices=given)
        for shape in ((8, 8), (2, 8, 4), (1, 8, 8), (1, 2, 8, 8), ())
        for given in (np.zeros(shape, np.int32), Traced(np.zeros(shape, np.int32)))
    ),
    wrong_type("output_size must be an int, got None", output_size=(None, 16)),
    *(
        wrong_value(f"output_size {re.escape(str(given))} is smaller than values .* Name the axes", output_size=given)
        for given in ((2, 2), (8, 7), (7, 16), (1,))
    ),
    *(
        wrong_value(r"output_size .* has an entry for every axis of .*axis=\(-3, -2, -1\)$", output_size=given)
        for given in ((2, 16, 16), (2, 2, 2))
    ),
    wrong_value("output_size .* hold 2147483712 cells, .*; .* parts", output_size=(2**16, 2**15), axis=(2, 1)),
    wrong_value(r"output_size \(2147483640,\) and .* hold 2147483648 cells", output_size=2**31 - 8, axis=1),
]

OWN: dict[str, list[Row]] = {
    "max_pool": [
        wrong_value("window 1 .* only .*dilation 3", x=zeros(2), kernel_size=(2,), stride=1, padding=2, dilation=3),
    ],
    "avg_pool": [
        *(
            wrong_value(FINITE.format("divisor_override", given), divisor_override=given)
            for given in (0, 0.0, nan, inf, -inf)
        ),
        wrong_value("divisor_override must be finite", divisor_override=10**400),
        *(
            wrong_type(f"divisor_override must be a Python number{message}", divisor_override=given)
            for message, given in (
                *((f" or None, got {re.escape(repr(given))}", given) for given in ("4", True, 2j, (2, 2))),
                (", got an array; divide the result of sum_pool by it instead", np.ones(3)),
                (", got an array; divide", jax.numpy.ones((4, 4))),
                (", got a traced value; divide", Traced(2.0)),
            )
        ),
    ],
    "lp_pool": [
        *numbers("norm_type"),
        *(wrong_value(POSITIVE.format(given), norm_type=given) for given in (0.0, -1.0, -inf, nan, np.array(0.0))),
        *(
            wrong_value(f"norm_type must be positive, and finite in an array, got {given}", norm_type=np.full(4, given))
            for given in (inf, -1.0)
        ),
    ],
    "gem_pool": [
        *numbers("norm_type"),
        wrong_value(r"norm_type must be positive, got 0\.0; use 1 for the mean magnitude", norm_type=0.0),
    ],
    "smooth_max_pool": [
        *numbers("beta"),
        *(wrong_value(FINITE.format("beta", given), beta=given) for given in (0.0, nan, inf, -inf, np.float32(0))),
    ],
    **{
        name: [
            *numbers("beta"),
            *(wrong_value(f"beta must be finite, got {b}; use max_pool or min_pool", beta=b) for b in (inf, nan)),
        ]
        for name in ("mellowmax_pool", "soft_pool")
    },
    "mixed_pool": [
        *numbers("alpha"),
        wrong_value("alpha must be finite, got -inf; use 1 for the maximum", alpha=-inf),
        wrong_value(EMPTY, padding=2),
    ],
    "stochastic_pool": KEYS,
    "quantile_pool": [
        *(wrong_value(rf"q must be from 0 to 1, got {q}; use 0\.5 for the median", q=q) for q in (-0.1, nan, inf)),
        *(wrong_value(rf"q must be from 0 to 1, got {q}; percent {q} is q=0\.{q}$", q=q) for q in (25, 75)),
        wrong_value("q must be from 0 to 1, got 1.*; use", q=10**400),
        *(
            wrong_type(rf"q must be a number from 0 to 1, got {re.escape(repr(q))}; use 0\.5", q=q)
            for q in (None, "0.5", True, 0.5j)
        ),
        wrong_type(r"q must be a Python .*, got an array; .* in tuple\(q\)$", q=np.array([0.25, 0.75])),
        wrong_type("q must be a Python number or .*, got a traced value; give", q=Traced(np.array(0.5))),
        *(
            wrong_value(f"method {re.escape(repr(given))} is unknown; use one .*'linear', .*'lower',", method=given)
            for given in ("closest", "mid", None, 1, ["lower"])
        ),
    ],
    "global_gem_pool": [
        wrong_value(r"norm_type must be positive, got -1; use 1 for the mean", norm_type=-1),
        wrong_value(r"eps must be finite and not negative, got -0\.5; use None for no bound", eps=-0.5),
        *(wrong_type(f"eps must be a Python number or None, got {e!r}", eps=e) for e in ("1", True)),
    ],
    "spatial_pyramid_pool": [
        wrong_value("kind 'sum' is unknown; use 'max' or 'avg'", kind="sum"),
        wrong_type("kind returned shape .2, .*, not .*; give a pool", kind=partial(quantile_pool, q=(0.25, 0.75))),
    ],
    **dict.fromkeys(("fractional_max_pool", "fractional_max_pool_with_indices"), SAMPLES),
    "max_unpool": INDICES,
}
# Of sums and means, complex numbers have some.
TAKES_COMPLEX = {name for name, record in RECORDS.items() if record.linear} - {"roi_align"}
# A window without cells has a sum and a norm, and draws 0.
EMPTY_IS_0 = {"sum_pool", "lp_pool", "stochastic_pool"}


def rows(function: str) -> Iterator[Row]:
    """All that is wrong for the function, by the arguments that it has."""
    parameters = inspect.signature(getattr(jaxpool, function)).parameters
    yield from (*OWN.get(function, []), *(NO_COMPLEX for _ in {function} - TAKES_COMPLEX))
    for name, wrong in (("x", ARRAYS), ("rule", RULES), ("where", MASKS)):
        yield from wrong if name in parameters else []
    for name in {"ceil_mode", "count_include_pad", "keepdims", "aligned"} & parameters.keys():
        yield from flags(name)
    if "count_include_pad" in parameters:
        given = {"padding": 2, "count_include_pad": False}
        divides = {"avg_pool": ", count_include_pad=True or", "mixed_pool": ""}
        yield wrong_value(EMPTY + divides.get(function, " or count_include_pad=True"), **given)
    elif RECORDS[function].windows == "fixed" and function not in EMPTY_IS_0:
        yield wrong_value(EMPTY + ", a smaller stride or a larger kernel_size$", padding=2)


@pytest.mark.parametrize("function", RECORDS)
def test_wrong_values(function: str) -> None:
    check_wrong_calls(function, rows(function))


# Calls that look like mistakes but are correct, and the shapes of their results.
WHERE: list[dict[str, Any]] = [
    {"where": mask}
    for mask in (
        *(True, False, np.True_, np.array(True), Traced(np.ones((8, 1), bool))),
        *(np.ones(shape, bool) for shape in ((1,), (8, 1), (2, 1, 1), (1, 1, 8))),
    )
]
WINDOWS: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    ({"x": zeros(0, 8, 8)}, (0, 4, 4)),
    ({"kernel_size": 2, "axis": -1}, (2, 8, 4)),
    ({"stride": np.array(2)}, (2, 4, 4)),
    ({"dilation": np.array(2)}, (2, 3, 3)),
    ({"kernel_size": (2, 4), "axis": "hwc"}, (1, 2, 8)),
    ({"kernel_size": np.array([2, 4])}, (2, 4, 2)),
    ({"kernel_size": np.array(2), "axis": np.array([2, 1])}, (2, 4, 4)),
    ({"kernel_size": [2, 2], "padding": [[0, 1], (1, 0)], "axis": [1, 2]}, (2, 4, 4)),
    ({"kernel_size": (9, 20), "ceil_mode": True}, (2, 1, 1)),
    *(({"kernel_size": 3, "stride": 2, "padding": word, "axis": -1}, (2, 8, 4)) for word in ("same", "Same_Lower")),
    ({"padding": ["SAME", ["EDGE", np.array([1, 2])]]}, (2, 4, 5)),
    ({"x": np.zeros((2, 8, 8), bool)}, (2, 4, 4)),
    *((where, (2, 4, 4)) for where in WHERE),
]
BINS: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    ({"output_size": [np.int64(3), np.array(4)]}, (2, 3, 4)),
    ({"output_size": np.array([3, 4], np.uint8)}, (2, 3, 4)),
    ({"output_size": (None, 3)}, (2, 8, 3)),
    ({"output_size": (None,), "axis": 0}, (2, 8, 8)),
    ({"output_size": (5, None), "axis": [-1, 0]}, (2, 8, 5)),
    ({"output_size": (9, 20)}, (2, 9, 20)),
    ({"output_size": np.int32(3), "axis": np.array([0, 2])}, (3, 8, 3)),
    ({"x": zeros(0, 8, 8)}, (0, 2, 2)),
    ({"x": np.zeros((8, 8), bool)}, (2, 2)),
    *((where, (2, 2, 2)) for where in WHERE),
]
WHOLE: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    ({"axis": 1}, (2, 1, 8)),
    ({"axis": [-1, 0]}, (1, 8, 1)),
    ({"axis": np.array([1, 2])}, (2, 1, 1)),
    ({"axis": np.int64(-3), "keepdims": False}, (8, 8)),
    ({"axis": (0, 1, 2), "keepdims": np.False_}, ()),
    ({"keepdims": np.True_}, (2, 1, 1)),
    ({"x": zeros(0, 8, 8)}, (0, 1, 1)),
    ({"x": np.zeros((8, 8), np.uint8)}, (1, 1)),
    *((where, (2, 1, 1)) for where in WHERE),
]
MASKED: list[tuple[dict[str, Any], tuple[int, ...]]] = [(where, (2, 4, 4)) for where in WHERE]
PADDED = ({"padding": 2}, (2, 6, 6))
RIGHT: dict[str, list[tuple[dict[str, Any], tuple[int, ...]]]] = {
    **dict.fromkeys(names(lambda record: record.windows == "fixed"), WINDOWS),
    **dict.fromkeys(names(lambda record: record.windows == "bins"), BINS),
    **dict.fromkeys(names(lambda record: record.windows == "whole"), WHOLE),
    **dict.fromkeys(names(lambda record: record.windows == "blurred"), MASKED),
    "spatial_pyramid_pool": [(where, (2, 5)) for where in WHERE],
    "sum_pool": [*WINDOWS, PADDED, (COMPLEX, (4, 4))],
    "lp_pool": [*WINDOWS, PADDED, ({"norm_type": Traced(zeros(2, 1, 4) + 1)}, (2, 4, 4))],
    "smooth_max_pool": [*WINDOWS, PADDED],
    "avg_pool": [
        *(*WINDOWS, PADDED, (COMPLEX, (4, 4))),
        ({"padding": 2, "count_include_pad": False, "divisor_override": -2}, (2, 6, 6)),
    ],
    "adaptive_avg_pool": [*BINS, (COMPLEX, (2, 2))],
    "global_avg_pool": [*WHOLE, (COMPLEX, (1, 1))],
    "adaptive_max_pool": [*BINS, ({"output_size": (2, 2), "x": shaped(65536, 65536)}, (2, 2))],
    "adaptive_max_pool_with_indices": [*BINS, ({"output_size": 2, "axis": 1, "x": shaped(2**16, 2**16)}, (2**16, 2))],
    "max_unpool": [
        ({"output_size": [np.int64(9), 20]}, (2, 9, 20)),
        ({"output_size": (2, 16, 16), "axis": (0, 1, 2)}, (2, 16, 16)),
        ({"values": zeros(8, 8), "indices": np.zeros((8, 8), np.int32), "output_size": (8, 9)}, (8, 9)),
        ({"output_size": (9, 5), "axis": [-1, 0]}, (5, 8, 9)),
        ({"output_size": np.array(9), "axis": np.array([1, 2])}, (2, 9, 9)),
        ({"values": np.zeros((2, 8, 8), np.complex64)}, (2, 16, 16)),
        ({"values": zeros(0, 8, 8), "indices": np.zeros((0, 8, 8), np.int32)}, (0, 16, 16)),
        ({"values": shaped(8), "indices": shaped(8, dtype=np.int32), "output_size": (2**31 - 9,)}, (2**31 - 9,)),
    ],
}


@pytest.mark.parametrize("function", RIGHT)
def test_right_arguments(function: str) -> None:
    check_right_calls(function, RIGHT[function])


def test_raw_keys_are_keys() -> None:
    """Of the implementation that is set."""
    x = np.arange(8.0, dtype=np.float32)
    old, new = (stochastic_pool(x, (4,), key=key) for key in (jax.random.PRNGKey(3), jax.random.key(3)))
    np.testing.assert_array_equal(old, new)
    key = jax.random.key(3, impl="rbg")
    numbers = jax.random.key_data(key)
    expected = stochastic_pool(x, (4,), key=key)
    np.testing.assert_array_equal(stochastic_pool(x, (4,), key=jax.random.wrap_key_data(numbers, impl="rbg")), expected)
    with jax.default_prng_impl("rbg"):
        np.testing.assert_array_equal(stochastic_pool(x, (4,), key=numbers), expected)


# 256 and 65536 cells are 0 as numbers of 8 and 16 bits.
@pytest.mark.parametrize("cells", [8, 200, 256, pytest.param(70000, marks=pytest.mark.slow)])
def test_indices_of_every_dtype(cells: int) -> None:
    for dtype in ("uint4", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))):
        indices = np.array([7, 5, 0, 3]).astype(dtype)
        pooled = call("max_unpool", {"values": np.arange(1.0, 5.0), "indices": indices, "output_size": (cells,)})
        expected = np.append([3, 0, 0, 4, 0, 2, 0, 1], np.zeros(cells - 8))
        np.testing.assert_array_equal(pooled, expected, err_msg=dtype)


@pytest.mark.parametrize("wide", [False, True])
def test_indices_beyond_int32_write_nothing(wide: bool) -> None:
    beyond = ((np.uint64, 2**63 + 1), (np.uint32, 2**32 - 1), (np.int64, -(2**63) + 1), (np.int64, 2**32 + 1))
    for dtype, largest in beyond:
        indices = np.array([largest, 3], dtype)
        with jax.enable_x64(wide):
            pooled = call("max_unpool", {"values": np.ones(2, np.float32), "indices": indices, "output_size": (8,)})
        np.testing.assert_array_equal(pooled, np.arange(8) == 3)
