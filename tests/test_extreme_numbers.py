"""Numbers at the ends of their dtype, and far beside the others: values and derivatives are right where they can be.

What is expected comes from the definitions, in float64, of the same cells. Compilers rewrite arithmetic on the way to
a device: sums of products by one power of two become a product of the sum, which may overflow.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._arguments import Rule

RULES: tuple[Rule, ...] = ("jvp", "vjp")
LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16, np.float64])
def test_means_of_large_cells_do_not_overflow(dtype: Any, sign: int) -> None:
    x = sign * np.array([[0.875, 0.9375], [0.75, -0.75], [1.0, 1.0], [0.5, math.inf]]) * float(jnp.finfo(dtype).max)
    lower, upper = np.sort(x).T
    for q in (0.5, 0.25):
        expected = np.where(np.isinf(lower), lower, (1 - q) * lower + q * upper)
        found = jax.jit(partial(jaxpool.quantile_pool, q=q, kernel_size=(2,)))(x.astype(dtype))
        np.testing.assert_allclose(found[:, 0].astype(np.float64), expected, rtol=float(jnp.finfo(dtype).eps))


@pytest.mark.parametrize("alpha", [0.5, 0.25])
def test_blends_of_large_cells_do_not_overflow(alpha: float) -> None:
    x = np.array([[3e38, 1.0, -1.0], [-3e38, -2.0, -1e37]], np.float32)
    expected = alpha * x.max(1) + (1 - alpha) * x.astype(np.float64).mean(1)
    found = jax.jit(partial(jaxpool.mixed_pool, alpha=alpha, kernel_size=(3,)))(x)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6)


def test_blurs_of_large_cells_do_not_overflow() -> None:
    x = np.array([[3e38, 3.2e38], [-3e38, -3.2e38]], np.float32)
    for size in (2, 3):
        found = jax.jit(partial(jaxpool.blur_pool, kernel_size=(size,), stride=1, padding="EDGE"))(x)
        assert (np.abs(found) >= 3e38).all()
        assert np.isfinite(found).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_gradients_of_16_bits_are_rounded_once_for_all_levels(kind: Any, rule: Rule) -> None:
    x = np.random.default_rng(0).normal(size=(3, 12, 10)).astype(jnp.bfloat16)
    pool = partial(jaxpool.spatial_pyramid_pool, levels=((1, 1), (2, 2), (3, 4)), kind=kind, rule=rule)
    values, pull_back = jax.vjp(pool, x)
    cotangent = np.random.default_rng(1).normal(size=values.shape).astype(jnp.bfloat16)
    wide_values, wide_pull_back = jax.vjp(pool, x.astype(np.float32))
    assert values.dtype == jnp.bfloat16
    np.testing.assert_array_equal(values, wide_values.astype(jnp.bfloat16))
    (wide,) = wide_pull_back(cotangent.astype(np.float32))
    np.testing.assert_array_equal(pull_back(cotangent)[0], wide.astype(jnp.bfloat16))
