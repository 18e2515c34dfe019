"""Wrong arguments of fractional pooling: its sizes and ratios, keys and samples."""

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from jaxpool import fractional_max_pool_with_indices
from tests.mistakes.errors import Row, Traced, check_wrong_call, kernel, zeros

BOTH = r"give a key or samples, got {}; write key=jax\.random\.key\(0\)"
WRONG: list[Row] = [
    (ValueError, BOTH.format("neither"), {"samples": None}),
    (ValueError, BOTH.format("both"), {"key": np.zeros(2, np.uint32)}),
    (ValueError, r"give output_size or output_ratio, got neither; write output_size=\(4, 4\)", {"output_size": None}),
    (ValueError, r"give output_size or output_ratio, got both; write .* or output_ratio=0\.5$", {"output_ratio": 0.5}),
    (ValueError, r"output_size 8 windows of 2 cells along axis 1, which has 8; give 1 to 7$", {"output_size": (8, 2)}),
    (ValueError, r"output_size must be at least 1, got 0", {"output_size": (0, 2)}),
    (ValueError, r"output_size \(2,\) has 1 entry but 2 axes are pooled", {"output_size": (2,)}),
    (TypeError, r"output_size must be an int, got 2\.0 .*write 2", {"output_size": 2.0}),
    (TypeError, r"output_size must be a Python int, got a traced value", {"output_size": Traced(2)}),
    (
        ValueError,
        r"kernel_size 9 along axis 1 spans 9 cells but the input has 8; use a smaller window$",
        kernel((9, 2)),
    ),
    (ValueError, r"output_size 2 windows of 8 cells .* has 8; use a kernel_size below 8$", kernel((8, 2))),
    (ValueError, r"kernel_size 2 does not say how many axes to pool; write", kernel(2)),
    (TypeError, r"x is complex64, and complex numbers are not supported", {"x": zeros(2, 8, 8).astype(np.complex64)}),
    (TypeError, r"samples must be floats in \[0, 1\), got dtype int32", {"samples": np.zeros((2, 2), np.int32)}),
    (TypeError, r"samples must be a JAX or NumPy array, got float; convert", {"samples": 0.5}),
    (
        ValueError,
        r"samples of shape \(2,\) do not match x \(2, 8, 8\) .*; give the shape \(2, 2\)",
        {"samples": zeros(2)},
    ),
    (ValueError, r"rule 'jpv' is unknown", {"rule": "jpv"}),
]
RATIO = {"output_size": None}
WRONG += [
    (ValueError, r"output_ratio must be between 0 and 1, got 1\.0; write 0\.5", {**RATIO, "output_ratio": 1.0}),
    (ValueError, r"output_ratio must be between 0 and 1, got -0\.5", {**RATIO, "output_ratio": (0.5, -0.5)}),
    (ValueError, r"output_ratio must be between 0 and 1, got nan", {**RATIO, "output_ratio": np.nan}),
    (
        ValueError,
        r"output_ratio \(0\.5,\) has 1 entry but .*; give one float for all axes or 2",
        {**RATIO, "output_ratio": (0.5,)},
    ),
    (ValueError, r"output_ratio 0\.1 gives 0 windows .*; give 1 to 7$", {**RATIO, "output_ratio": 0.1}),
    (
        TypeError,
        r"output_ratio must be a float or a sequence of floats, got 'half'; .*=\(0\.5, 0\.5\)$",
        {**RATIO, "output_ratio": "half"},
    ),
    (TypeError, r"output_ratio must be a float, got 'half'", {**RATIO, "output_ratio": ("half", 0.5)}),
    (TypeError, r"output_ratio must be a Python float, got a traced value", {**RATIO, "output_ratio": Traced(0.5)}),
]
KEY = {"samples": None}
WRONG += [
    (TypeError, r"key must be a key of jax\.random, got 0; make one with jax\.random\.key\(0\)", {**KEY, "key": 0}),
    (TypeError, r"key must be a key of jax\.random, got dtype float32", {**KEY, "key": zeros(2)}),
    (
        ValueError,
        r"key must be a single key, got an array of shape \(3, 2\)",
        {**KEY, "key": np.zeros((3, 2), np.uint32)},
    ),
    (
        ValueError,
        r"key must be a key of jax\.random, got uint32 numbers of shape \(3,\) in place of \(2,\); make one",
        {**KEY, "key": np.zeros(3, np.uint32)},
    ),
]


@pytest.mark.parametrize("function", ["fractional_max_pool", "fractional_max_pool_with_indices"])
@pytest.mark.parametrize(("exception", "message", "arguments"), WRONG)
def test_wrong_arguments(function: str, exception: type[Exception], message: str, arguments: dict[str, Any]) -> None:
    check_wrong_call(function, exception, message, arguments)


def test_indices_number_int32_cells() -> None:
    x = jax.ShapeDtypeStruct((2**16, 2**15), np.float32)
    with pytest.raises(ValueError, match=r"hold 2147483648 cells, but int32 indices number 2147483647 at most"):
        jax.eval_shape(
            partial(fractional_max_pool_with_indices, kernel_size=(2, 2), output_size=(4, 4), key=jax.random.key(0)),
            x,
        )
