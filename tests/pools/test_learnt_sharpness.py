"""Pools with a learnt number: by sums of exponentials as exact as the exact pools, and right beside absent cells."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_fast
from tests.pools.test_sums_of_cells import EXPONENTIALS, LAYOUTS, WINDOWS, in_every_window


@pytest.mark.slow
@in_every_window
@pytest.mark.parametrize("name", EXPONENTIALS)
def test_sums_of_cells_with_a_learnt_number_are_the_exact_pool(name: str, window: str, layout: str) -> None:
    shape, axis = LAYOUTS[layout]
    random = np.random.default_rng(0)
    x = random.normal(size=shape)
    # A number for all, and one for every channel, of both signs.
    betas = np.array(1.3), random.uniform(-3, 3, [1 if number in axis else size for number, size in enumerate(shape)])

    def derivatives(x: jax.Array, beta: jax.Array) -> Any:
        pool = partial(EXPONENTIALS[name], axis=axis, **WINDOWS[window])
        gradient = jax.grad(lambda x, beta: jnp.sin(pool(x, beta)).sum(), (0, 1))
        # The second derivatives of all three are those of the exact pools.
        second = jax.jvp(gradient, (x, beta), (x, beta)) if name == "smooth" else gradient(x, beta)
        return jax.jvp(pool, (x, beta), (jnp.cos(x), jnp.cos(beta))), second

    for beta in betas if name == "smooth" else betas[1:]:
        with jaxpool.compiling_for("gpu"):
            expected = compiled_fast(derivatives)(x, beta)
        for platform in ("cpu", "tpu"):
            with jaxpool.compiling_for(platform):
                program = compiled_fast(derivatives)
                found, narrow = program(x, beta), program(x.astype(np.float32), beta.astype(np.float32))
            for one, other, exact in zip(*map(jax.tree.leaves, (found, narrow, expected)), strict=True):
                np.testing.assert_allclose(one, exact, rtol=1e-11, atol=1e-12)
                np.testing.assert_allclose(other, exact, rtol=0, atol=5e-5 * max(1, np.abs(exact).max()))


@pytest.mark.parametrize("name", ["mellowmax", "soft"])
@pytest.mark.parametrize("size", [3, 8])
def test_slopes_of_a_learnt_number_far_from_zero_keep_their_digits(name: str, size: int) -> None:
    # Differences of sums would lose the square of 100, and of exponentials that of β.
    x = (100 + np.random.default_rng(1).uniform(-1, 1, (2, 8, 8, 3))).astype(np.float32)
    x[0, 0, 0, 0] = -np.inf if name == "mellowmax" else -1e30
    slopes = compiled_fast(jax.jacfwd(lambda beta, x: EXPONENTIALS[name](x, beta, (size, size), 1, axis=(1, 2))))
    for beta in (1e-5, -1e-3, 0.1):
        x = np.where(np.abs(x) > 1e3, np.copysign(x, -beta), x)
        found, exact = slopes(np.float32(beta), x), slopes(float(np.float32(beta)), x.astype(np.float64))
        np.testing.assert_allclose(found, exact, rtol=2e-5)
        assert np.isfinite(found).all()


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["mellowmax", "soft"])
def test_slopes_of_a_learnt_number_are_from_values_before_they_are_rounded(
    name: str, dtype: str, platform: str
) -> None:
    # A step of bfloat16 is as large as the differences of these cells.
    x = jnp.array([100.0, 100.5, 100.0, 101.0, 100.5], dtype)
    with jaxpool.compiling_for(platform):
        slope = compiled_fast(jax.grad(lambda beta, x: EXPONENTIALS[name](x, beta, (2,), 1).astype(beta.dtype).sum()))
        found, exact = slope(np.float32(0.1), x), slope(0.1, x.astype(np.float64))
    np.testing.assert_allclose(found, exact, rtol=1e-3)


@pytest.mark.parametrize("name", EXPONENTIALS)
def test_slopes_beside_infinite_cells_without_weight(name: str) -> None:
    x = np.array([1.0, 2.0, np.inf, 0.5, -3.0, 1.0])
    for beta in (np.array(0.5), np.array(-0.5)):
        infinite = np.where(np.isinf(x), np.copysign(x, -beta), x)

        def values(beta: Any, x: np.ndarray = infinite) -> jax.Array:
            return EXPONENTIALS[name](x, beta, (2,))

        found, exact = (jax.jacfwd(values)(beta, infinite.astype(dtype)) for dtype in (np.float32, np.float64))
        np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-6)
        # An array with a number for every window is taken by the exact pool.
        of_each = jax.jacfwd(values)(np.full(3, beta)).diagonal()
        np.testing.assert_allclose(exact, of_each, rtol=1e-12, atol=1e-12)
        assert np.isfinite(found[::2]).all()
        step = 1e-5
        difference = (values(beta + step) - values(beta - step)) / (2 * step)
        np.testing.assert_allclose(exact, difference, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", EXPONENTIALS)
def test_weights_of_a_huge_learnt_number_add_up_to_1(name: str) -> None:
    gradient = jax.grad(lambda x, beta: EXPONENTIALS[name](x, beta, (9,)).sum())
    for beta in (1e30, -1e37, 3e38):
        np.testing.assert_allclose(gradient(jnp.zeros(9), np.float32(beta)), np.full(9, 1 / 9), rtol=1e-6)


@pytest.mark.parametrize("name", EXPONENTIALS)
def test_batches_without_items(name: str) -> None:
    x, beta = jnp.zeros((0, 3, 6, 6)), jnp.ones((3, 1, 1))
    values, pull_back = jax.vjp(lambda x, beta: EXPONENTIALS[name](x, beta, (3, 3)), x, beta)
    of_x, of_beta = pull_back(values)
    assert (values.shape, of_x.shape) == ((0, 3, 2, 2), x.shape)
    np.testing.assert_array_equal(of_beta, np.zeros((3, 1, 1)))


def test_second_derivatives_beside_absent_cells() -> None:
    x, mask = np.array([1.3, 0.7, 2.1, 0.4]), np.array([True, True, True, False])

    def hessian(pool: Callable[[jax.Array, jax.Array], jax.Array]) -> Any:
        def gradient(x: jax.Array, p: jax.Array) -> tuple[jax.Array, jax.Array]:
            return jax.grad(lambda x, p: pool(x, p).sum(), (0, 1))(x, p)

        return compiled_fast(jax.jacrev(gradient, (0, 1)))(x, np.array(2.5))

    def mean(x: jax.Array, p: jax.Array) -> jax.Array:
        return (x**p).mean() ** (1 / p)

    masked, expected = (
        hessian(lambda x, p: jaxpool.gem_pool(x, p, (4,), where=mask)),
        hessian(lambda x, p: mean(x[:3], p)),
    )
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12), masked, expected)
    # The last of two windows ends beyond the cells.
    ended, expected = (
        hessian(lambda x, p: jaxpool.gem_pool(x, p, (3,), 2, ceil_mode=True)),
        hessian(lambda x, p: mean(x[:3], p) + mean(x[2:], p)),
    )
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12), ended, expected)


# Numbers and weights that are constant, and whose own derivatives overflow.
CONSTANT: dict[str, tuple[Any, list[float], list[float]]] = {
    "smooth": (jaxpool.smooth_max_pool, [1.0, 2.0], [1e-20]),
    "mellowmax": (jaxpool.mellowmax_pool, [1e20, -1e20], [1e-20]),
    "soft": (jaxpool.soft_pool, [1e20, -1e20], [1e-20]),
    "weighted": (jaxpool.weighted_pool, [1e10, 2e10], [1e-30, 1e-30]),
    "attention": (jaxpool.attention_pool, [3e38, -3e38], [1.0, 1.0]),
}


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.parametrize("name", CONSTANT)
def test_tangents_leave_out_slopes_of_constants(name: str, platform: str) -> None:
    pool, cells, constants = CONSTANT[name]
    # A window of two cells, and one that is merged from parts.
    for kernel_size in ((1, 2), (10, 2)):
        x = np.broadcast_to(np.asarray(cells, np.float32), kernel_size)
        with jaxpool.compiling_for(platform):
            tangent = jax.jvp(partial(pool_of_cells, pool, constants, kernel_size), (x,), (np.ones_like(x),))[1]
        np.testing.assert_allclose(tangent, 1, rtol=1e-5)


def pool_of_cells(pool: Any, constants: list[float], kernel_size: tuple[int, int], x: jax.Array) -> jax.Array:
    return pool(x, np.asarray(constants, np.float32), kernel_size)
