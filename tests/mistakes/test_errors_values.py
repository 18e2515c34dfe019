"""Wrong arrays, masks, flags, rules, divisors and learnable parameters, and windows that hold only padding.

Each row has the exception, the message after the function's name, and the wrong arguments. The first tables are run for
every function, or for every function of fixed windows; the last has the mistakes specific to single functions.
"""

import math
import re
from typing import Any

import jax
import numpy as np
import pytest

from tests.mistakes.errors import COMPLEX, OTHERS, REQUIRED, Row, Traced, call, check_wrong_call, kernel, zeros

SHARED: list[Row] = [
    (TypeError, r"x must be a JAX or NumPy array, got list; convert it with jnp\.asarray\(x\)", {"x": [[1.0, 2.0]]}),
    (
        TypeError,
        r"x must be a JAX or NumPy array, got tuple; of \(values, indices\) give the values, x\[0\]$",
        {"x": (zeros(8, 8), zeros(8, 8))},
    ),
    *(
        (TypeError, rf"x must be a JAX or NumPy array, got {type(given).__name__}; convert it", {"x": given})
        for given in ((1.0, 2.0), 1.0, 1, None, "ab")
    ),
    *(
        (
            TypeError,
            rf"x has dtype .*{re.escape(dtype)}.*, which cannot be pooled; allowed are .*bfloat16",
            {"x": zeros(8, 8).astype(dtype)},
        )
        for dtype in ("float8_e4m3fn", "int4", "object", "U1", "datetime64[D]")
    ),
    (TypeError, r"x has dtype float8_e5m2, which cannot be pooled", {"x": Traced(np.zeros((8, 8), "float8_e5m2"))}),
    *(
        (ValueError, rf"rule {re.escape(repr(given))} is unknown; use 'jvp' .* or 'vjp'", {"rule": given})
        for given in ("forward", "JVP", None, 1, ["jvp"])
    ),
]

MASKS: list[Row] = [
    *(
        (TypeError, rf"where must be a bool array, got {type(given).__name__}; convert it with jnp", {"where": given})
        for given in ([True] * 8, (True, False), 1, 0, 1.0, np.float32(1), "True")
    ),
    *(
        (TypeError, rf"where must be bool, got dtype {re.escape(str(given.dtype))}; compare it first", {"where": given})
        for given in (zeros(8), np.ones(8, int), np.ones(8, np.uint8), np.array("a"), np.array(None))
    ),
    (TypeError, r"where must be bool, got dtype float32; compare .*, as in where != 0", {"where": Traced(zeros(8))}),
    *(
        (
            ValueError,
            rf"where of shape {re.escape(str(shape))} does not broadcast to x \(2, 8, 8\); "
            "give a bool for every cell, or an array with 1 along",
            {"where": mask},
        )
        for shape in ((3,), (0,), (2,), (2, 8), (3, 8, 8), (16, 1), (1, 2, 8, 8), (1, 1, 1, 1))
        for mask in (np.ones(shape, bool), Traced(np.ones(shape, bool)))
    ),
    # An axis of x with a single cell is not stretched to that of the mask.
    (
        ValueError,
        r"where of shape \(2, 1, 1\) does not broadcast to x \(1, 8, 8\)",
        {"x": zeros(1, 8, 8), "where": np.ones((2, 1, 1), bool)},
    ),
]

FLAGS: list[Row] = [
    *(
        (TypeError, rf"ceil_mode must be True or False, got {re.escape(repr(given))}", {"ceil_mode": given})
        for given in (1, 0, "yes", None, np.array(True))
    ),
    (TypeError, r"ceil_mode must be True or False, got a traced value; .*static", {"ceil_mode": Traced(True)}),
]

ONLY_PADDING = (
    r"window 0 along axis 1 holds only padding \(padding \(2, 2\), kernel_size 2, .*8 cells\); use less padding"
)
POSITIVE = r"norm_type must be positive, got {}; use 1 .* 2 .* float\('inf'\)"
FINITE = r"{} must be finite and not 0, got {}"
SHAPE = r"{} of shape \({}\) does not broadcast to the output \(2, 4, 4\); give a number, or an array"
nan, inf = math.nan, math.inf

OWN: dict[str, list[Row]] = {
    "max_pool": [
        (ValueError, ONLY_PADDING, {"padding": 2}),
        (
            ValueError,
            r"window 1 along axis 0 holds only padding .*dilation 3",
            kernel((2,), x=zeros(2), stride=1, padding=(2,), dilation=3),
        ),
        (TypeError, r"x is complex64, and complex numbers are not supported; pool x\.real", COMPLEX),
    ],
    "min_pool": [
        (ValueError, ONLY_PADDING, {"padding": 2}),
        (TypeError, r"x is complex64, and complex numbers are not supported; pool x\.real", COMPLEX),
    ],
    "max_pool_with_indices": [
        (ValueError, ONLY_PADDING, {"padding": 2}),
        (TypeError, r"x is complex64, and complex numbers are not supported; pool x\.real", COMPLEX),
        (
            ValueError,
            r"the pooled axes \(65536, 65536\) hold 4294967296 cells, but int32 indices number 2147483647 at most",
            {"x": Traced(jax.ShapeDtypeStruct((65536, 65536), np.float32))},
        ),
    ],
    "min_pool_with_indices": [(ValueError, ONLY_PADDING, {"padding": 2})],
    "sum_pool": [],
    "avg_pool": [
        (ValueError, ONLY_PADDING + ", count_include_pad=True or", {"padding": 2, "count_include_pad": False}),
        *(
            (ValueError, FINITE.format("divisor_override", given), {"divisor_override": given})
            for given in (0, 0.0, nan, inf, -inf)
        ),
        *(
            (
                TypeError,
                rf"divisor_override must be a Python number or None, got {re.escape(repr(given))}",
                {"divisor_override": given},
            )
            for given in ("4", True, 2j, (2, 2))
        ),
        *(
            (
                TypeError,
                rf"divisor_override must be a Python number, got {words}; divide the result of sum_pool by it instead",
                {"divisor_override": given},
            )
            for words, given in (
                ("an array", np.ones(3)),
                ("an array", jax.numpy.ones((4, 4))),
                ("a traced value", Traced(2.0)),
            )
        ),
        (ValueError, r"divisor_override must be finite", {"divisor_override": 10**400}),
        (TypeError, r"count_include_pad must be True or False, got 1", {"count_include_pad": 1}),
        (
            TypeError,
            r"count_include_pad must be True or False, got a traced value",
            {"count_include_pad": Traced(True)},
        ),
    ],
    "lp_pool": [
        *((ValueError, POSITIVE.format(given), {"norm_type": given}) for given in (0.0, -1.0, -inf, nan)),
        (ValueError, POSITIVE.format(0.0), {"norm_type": np.array(0.0)}),
        *(
            (TypeError, rf"norm_type must be a number or an array, got {re.escape(repr(given))}", {"norm_type": given})
            for given in ("2", None, True, 2j)
        ),
        (
            TypeError,
            r"norm_type must be a number or an array, got list; convert it with jnp\.asarray\(norm_type\)",
            {"norm_type": [2.0, 2.0]},
        ),
        *(
            (ValueError, SHAPE.format("norm_type", words) + fix + "$", {"norm_type": np.ones(shape)})
            for words, shape, fix in (
                ("2,", (2,), r" .*, as in norm_type\.reshape\(2, 1, 1\)"),
                ("2, 4", (2, 4), " with 1 along the axes that share a value"),  # which 4 is unsure
                ("3, 4", (3, 4), " with 1 along the axes that share a value"),
            )
        ),
        (ValueError, r"norm_type must be .*", {"norm_type": 10**400}),
        *(
            (
                ValueError,
                rf"norm_type must be positive, and finite in an array, got {given}",
                {"norm_type": np.full(4, given)},
            )
            for given in (inf, -1.0)
        ),
        (TypeError, r"norm_type must be real, got dtype complex64", {"norm_type": np.ones(4, np.complex64)}),
        (TypeError, r"norm_type must be real, got dtype bool", {"norm_type": np.ones(4, bool)}),
        (TypeError, r"norm_type must be real, got dtype <U1", {"norm_type": np.array("2")}),
        (ValueError, SHAPE.format("norm_type", "3,"), {"norm_type": zeros(3) + 1}),
        (ValueError, SHAPE.format("norm_type", "0,"), {"norm_type": zeros(0)}),
        (ValueError, SHAPE.format("norm_type", "1, 1, 1, 1"), {"norm_type": Traced(zeros(1, 1, 1, 1) + 1)}),
        (TypeError, r"x is complex64, and complex numbers are not supported; pool .*abs\(x\)", COMPLEX),
    ],
    "smooth_max_pool": [
        *((ValueError, FINITE.format("beta", given), {"beta": given}) for given in (0.0, nan, inf, -inf)),
        (ValueError, FINITE.format("beta", "0"), {"beta": np.float32(0)}),
        *(
            (TypeError, rf"beta must be a number or an array, got {re.escape(repr(given))}", {"beta": given})
            for given in ("2", None, False, 2j)
        ),
        (TypeError, r"beta must be .*, got tuple; convert it with jnp\.asarray\(beta\)$", {"beta": (2.0,)}),
        (TypeError, r"beta must be real, got dtype complex64", {"beta": np.ones(4, np.complex64)}),
        (ValueError, SHAPE.format("beta", "3, 1, 1"), {"beta": zeros(3, 1, 1)}),
        (ValueError, SHAPE.format("beta", "5,"), {"beta": Traced(zeros(5))}),
        (ValueError, ONLY_PADDING + " or count_include_pad=True", {"padding": 2, "count_include_pad": False}),
        (TypeError, r"count_include_pad must be True or False, got 0", {"count_include_pad": 0}),
        (TypeError, r"x is complex64, and complex numbers are not supported; pool", COMPLEX),
    ],
    **{
        name: [(ValueError, ONLY_PADDING, {"padding": 2}), (TypeError, r"x is complex64, .*x\.real", COMPLEX)]
        for name in ("median_pool", "top_k_pool", "top_k_pool_with_indices")
    },
    "quantile_pool": [
        (ValueError, ONLY_PADDING, {"padding": 2}),
        (TypeError, r"x is complex64, and complex numbers are not supported; pool x\.real", COMPLEX),
        *(
            (ValueError, rf"q must be from 0 to 1, got {q}; use 0\.5 for the median", {"q": q})
            for q in (-0.1, nan, inf)
        ),
        *((ValueError, rf"q must be from 0 to 1, got {q}; percent {q} is q=0\.{q}$", {"q": q}) for q in (25, 75)),
        (ValueError, r"q must be from 0 to 1, got 1.*; use", {"q": 10**400}),
        *(
            (TypeError, rf"q must be a number from 0 to 1, got {re.escape(repr(q))}; use 0\.5", {"q": q})
            for q in (None, "0.5", True, 0.5j)
        ),
        (TypeError, r"q must be a Python .*, got an array; .* in tuple\(q\)$", {"q": np.array([0.25, 0.75])}),
        (TypeError, r"q must be a Python number or .*, got a traced value; give", {"q": Traced(np.array(0.5))}),
        *(
            (ValueError, rf"method {re.escape(repr(given))} is unknown; use 'linear' .*'lower' or", {"method": given})
            for given in ("closest", "mid", None, 1, ["lower"])
        ),
    ],
}

for function in OTHERS:
    OWN[function] = (
        []
        if "avg" in function or function == "blur_pool"
        else [(TypeError, r"x is complex64, and complex numbers are not supported; pool x\.", COMPLEX)]
    )

ROWS = [
    *((function, *row) for function in REQUIRED for row in SHARED + MASKS + FLAGS + OWN.get(function, [])),
    *((function, *row) for function in OTHERS for row in SHARED + MASKS + OWN[function]),
]


@pytest.mark.parametrize(("function", "exception", "message", "arguments"), ROWS)
def test_wrong_values(function: str, exception: type[Exception], message: str, arguments: dict[str, Any]) -> None:
    check_wrong_call(function, exception, message, arguments)


@pytest.mark.parametrize("function", [*REQUIRED, *OTHERS])
def test_random_keys_are_no_numbers(function: str) -> None:
    keys = jax.random.split(jax.random.key(0), (8, 8))
    with pytest.raises(TypeError, match=rf"^{function}: x has dtype key<fry>, which cannot be pooled; allowed are"):
        call(function, {"x": keys})
    with pytest.raises(TypeError, match=rf"^{function}: where must be bool, got dtype key<fry>; compare it first"):
        call(function, {"where": keys})
