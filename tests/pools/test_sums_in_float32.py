"""Norms and weighted means by sums of one term per cell, which are for float32: near those of double precision."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_as_usual, compiled_fast

# The second array is the cells' weights, or their logarithms.
SINGLE: dict[str, Any] = {
    "norm": lambda x, y, **sizes: jaxpool.lp_pool(x + y, 3.0, **sizes),
    "norm 1": lambda x, y, **sizes: jaxpool.lp_pool(x + y, 1, **sizes),
    "attention": jaxpool.attention_pool,
    "weighted": jaxpool.weighted_pool,
}


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
@pytest.mark.parametrize("name", SINGLE)
def test_single_precision_by_sums_is_near_double(name: str, platform: str) -> None:
    x, y, x_dot, y_dot = np.random.default_rng(0).normal(size=(4, 2, 9, 8, 3))
    # Zeros, and a whole window without weight.
    x[0, :4, :4], y[1, :4, :4] = 0, -np.inf if name == "attention" else 0
    y = np.abs(y) if name == "weighted" else y

    def everything(x: jax.Array, y: jax.Array, x_dot: jax.Array, y_dot: jax.Array) -> Any:
        def pool(x: jax.Array, y: jax.Array) -> jax.Array:
            return SINGLE[name](x, y, kernel_size=(3, 3), stride=1, axis=(1, 2))

        values, pull_back = jax.vjp(pool, x, y)
        return jax.jvp(pool, (x, y), (x_dot, y_dot)), pull_back(jnp.cos(values)), jax.vjp(lambda x: pool(x, y), x)[0]

    with jaxpool.compiling_for("gpu"):
        expected = compiled_fast(everything)(x, y, x_dot, y_dot)
    with jaxpool.compiling_for(platform):
        found = compiled_fast(everything)(*(each.astype(np.float32) for each in (x, y, x_dot, y_dot)))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["attention", "weighted"])
def test_differences_from_a_mean_far_from_zero(name: str) -> None:
    x, y = np.random.default_rng(1).normal(size=(2, 1, 16, 16, 8))
    x, y = (4096 + x / 64).astype(np.float32), np.exp(y).astype(np.float32)

    @compiled_as_usual
    def slopes(x: jax.Array, y: jax.Array) -> jax.Array:
        return jax.grad(lambda y: SINGLE[name](x, y, kernel_size=(3, 3), stride=1, axis=(1, 2)).sum())(y)

    exact = slopes(x.astype(np.float64), y.astype(np.float64))
    # Not better than x less a rounded mean, nor much worse.
    np.testing.assert_allclose(slopes(x, y), exact, rtol=0, atol=9 * 2.0**-11)
