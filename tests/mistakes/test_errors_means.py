"""Wrong numbers, keys, levels and kinds of the pools between the mean and the maximum."""

import math
import re
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from jaxpool import quantile_pool, stochastic_pool
from tests.mistakes.errors import COMPLEX, Row, Traced, call, check_wrong_call, kernel, zeros

ONLY_PADDING = (
    r"window 0 along axis 1 holds only padding \(padding \(2, 2\), kernel_size 2, .*8 cells\); use less padding"
)
_QUARTILES = partial(quantile_pool, q=(0.25, 0.75))
SHAPE = r"{} of shape \({}\) does not broadcast to the output \(2, 4, 4\); give a number, or an array"

OWN: dict[str, list[Row]] = {
    "gem_pool": [
        (ValueError, r"norm_type must be positive, got 0.0; use 1 for the mean magnitude", {"norm_type": 0.0}),
        (ValueError, SHAPE.format("norm_type", "3, 1, 1"), {"norm_type": zeros(3, 1, 1) + 1}),
        (TypeError, r"count_include_pad must be True or False, got 1", {"count_include_pad": 1}),
        (ValueError, ONLY_PADDING + " or count_include_pad=True", {"padding": 2, "count_include_pad": False}),
    ],
    "mellowmax_pool": [
        (ValueError, r"beta must be finite, got inf; use max_pool or min_pool", {"beta": math.inf}),
        (ValueError, SHAPE.format("beta", "5,"), {"beta": Traced(zeros(5))}),
        (ValueError, ONLY_PADDING, {"padding": 2, "count_include_pad": False}),
    ],
    "soft_pool": [
        (ValueError, r"beta must be finite, got nan; use max_pool or min_pool", {"beta": math.nan}),
        (TypeError, r"beta must be a number or an array, got None", {"beta": None}),
        (ValueError, ONLY_PADDING, {"padding": 2, "count_include_pad": False}),
    ],
    "mixed_pool": [
        (ValueError, r"alpha must be finite, got -inf; use 1 for the maximum", {"alpha": -math.inf}),
        (ValueError, SHAPE.format("alpha", "3, 4"), {"alpha": zeros(3, 4)}),
        (TypeError, r"alpha must be a number or an array, got list; convert it with jnp", {"alpha": [0.5]}),
        (ValueError, ONLY_PADDING, {"padding": 2}),
    ],
    "stochastic_pool": [
        (TypeError, r"key must be a key of jax.random, got 0; make one with jax.random.key", {"key": 0}),
        (TypeError, r"key must be .*, got dtype float32; make one", {"key": zeros(2)}),
        (
            ValueError,
            r"key must be a single key, got an array of shape \(3,\); give one, as key\[0\], or use jax\.vmap",
            {"key": jax.random.split(jax.random.key(0), 3)},
        ),
        (
            ValueError,
            r"key must be a single key, got an array of shape \(3, 4, 2\); give one, as key\[0, 0\]",
            {"key": np.zeros((3, 4, 2), np.uint32)},
        ),
        *(
            (
                ValueError,
                rf"key must be .*, got uint32 numbers of shape {re.escape(str(shape))} in place of \(2,\); "
                r"make one with jax\.random\.key\(0\), or .*wrap_key_data\(key, impl='rbg'\)$",
                {"key": given},
            )
            for shape in ((), (0,), (4,), (2, 3))
            for given in (np.zeros(shape, np.uint32), Traced(np.zeros(shape, np.uint32)))
        ),
    ],
    "global_gem_pool": [
        (ValueError, r"norm_type must be positive, got -1.0; use 1 for the mean", {"norm_type": -1}),
        (ValueError, r"eps must be finite and not negative, got -0.5; use None for no bound", {"eps": -0.5}),
        *(
            (TypeError, rf"eps must be a Python number or None, got {re.escape(repr(e))}", {"eps": e})
            for e in ("1", True)
        ),
        (TypeError, r"keepdims must be True or False, got 0", {"keepdims": 0}),
    ],
    "spatial_pyramid_pool": [
        (ValueError, r"kind 'sum' is unknown; use 'max' or 'avg'", {"kind": "sum"}),
        (TypeError, r"kind returned shape \(2, .*\), not \(.*\); give a pool of one value", {"kind": _QUARTILES}),
        (TypeError, r"levels must be a sequence of output sizes, got 2; write levels=", {"levels": 2}),
        (ValueError, r"levels is empty; give at least one output size", {"levels": ()}),
        (ValueError, r"levels\[0\] must be at least 1, got 0", {"levels": ((0, 1),)}),
        (ValueError, r"levels\[0\] 2 does not say .* axes to pool; write levels\[0\]=\(2, 2\)", {"levels": (2,)}),
        (ValueError, r"levels\[1\] \(2, 3\) has 2 entries but 1 axis is pooled", {"levels": (1, (2, 3)), "axis": 1}),
        (ValueError, r"levels\[1\] \(1, 2, 3, 4\) has 4 entries but x has 3", {"levels": ((1, 1), (1, 2, 3, 4))}),
        (ValueError, r"levels\[1\] \(\) is empty", {"levels": ((1, 1), ())}),
        (TypeError, r"levels\[0\] must be an int, got 2\.0 .*; write 2", {"levels": (2.0,), "axis": 1}),
        (TypeError, r"levels\[0\] must be an int or a sequence of ints, got None", {"levels": (None,), "axis": 1}),
        (
            TypeError,
            r"levels\[1\] must be a Python int, got a traced value; .*static_argnames='levels'",
            {"levels": (1, Traced(2)), "axis": 1},
        ),
        (
            ValueError,
            r"levels\[1\] \(2,\) pools axes \(2,\) but levels\[0\] \(1, 1\) pools \(1, 2\)",
            {"levels": ((1, 1), (2,))},
        ),
    ],
}
ROWS = [
    *((function, *row) for function, rows in OWN.items() for row in rows),
    *((function, TypeError, r"x is complex64, and complex numbers", COMPLEX) for function in ("gem_pool", "soft_pool")),
    ("mixed_pool", ValueError, r"kernel_size 9 along axis 1 spans 9 cells but the input has 8", kernel((9, 9))),
]


@pytest.mark.parametrize(("function", "exception", "message", "arguments"), ROWS)
def test_wrong_values(function: str, exception: type[Exception], message: str, arguments: dict[str, Any]) -> None:
    check_wrong_call(function, exception, message, arguments)


def test_old_keys_are_keys() -> None:
    x = np.arange(8.0, dtype=np.float32)
    old, new = (stochastic_pool(x, (4,), key=key) for key in (jax.random.PRNGKey(3), jax.random.key(3)))
    np.testing.assert_array_equal(old, new)


def test_raw_keys_are_those_of_the_implementation_that_is_set() -> None:
    x, key = np.arange(8.0, dtype=np.float32), jax.random.key(3, impl="rbg")
    numbers = jax.random.key_data(key)
    expected = stochastic_pool(x, (4,), key=key)
    np.testing.assert_array_equal(stochastic_pool(x, (4,), key=jax.random.wrap_key_data(numbers, impl="rbg")), expected)
    with jax.default_prng_impl("rbg"):
        np.testing.assert_array_equal(stochastic_pool(x, (4,), key=numbers), expected)


@pytest.mark.parametrize(("function", "name"), [("lp_pool", "norm_type"), ("smooth_max_pool", "beta")])
def test_random_keys_are_no_parameters(function: str, name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{function}: {name} must be real, got dtype key<fry>"):
        call(function, {name: jax.random.key(0)})
