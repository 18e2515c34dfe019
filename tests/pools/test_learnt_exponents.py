"""Norms and power means with a learnt exponent by sums of powers: as exact as the exact pools, which float64 takes.

Sums are taken only if every exponent is from 1 to 8, and the sums of all windows are of moderate size.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.harness.parts import case_row, crossed

POOLS: dict[str, Callable[..., jax.Array]] = {
    "norms": jaxpool.lp_pool,
    "means": jaxpool.gem_pool,
    "means of cells": partial(jaxpool.gem_pool, count_include_pad=False),
}
WINDOWS: dict[str, dict[str, Any]] = {
    "strides": {"kernel_size": (3, 3), "stride": 2, "padding": 1},
    "gaps": {"kernel_size": (2, 3), "stride": (3, 2), "padding": (0, 1)},
    "tiles": {"kernel_size": (2, 2)},
    "footprint": {"kernel_size": jaxpool.footprint([[True, False, True], [True, True, False]]), "stride": 1},
    "bins": {"kernel_size": jaxpool.bins(3, 2)},
}
LAYOUTS = {"first": ((2, 3, 9, 8), (2, 3)), "last": ((2, 9, 8, 3), (1, 2))}
EXPONENTS = 1.0, 2.5, 8.0


@pytest.mark.parametrize(
    ("window", "layout"),
    [case_row(*one[:2], id="-".join(one[:2]), kept=one[2]) for one in crossed([*WINDOWS], [*LAYOUTS], 2)],
)
@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("platform", ["cpu", "tpu"])
def test_sums_of_powers_are_the_exact_pool(name: str, window: str, layout: str, platform: str) -> None:
    shape, axis = LAYOUTS[layout]
    pool = partial(POOLS[name], axis=axis, **WINDOWS[window])
    p = np.array(EXPONENTS).reshape([3 if size == 3 else 1 for size in shape[1:]])
    x, direction = np.random.default_rng(0).normal(size=(2, *shape))
    x[:, :3, :4] = 0

    def derivatives(x: jax.Array, p: jax.Array, direction: jax.Array) -> Any:
        # Slopes of exponents are of the size of values.
        values, pull_back = jax.vjp(pool, x, p)
        values_dot = jax.jvp(pool, (x, p), (direction, jnp.ones_like(p)))[1]
        return values, *pull_back(jnp.ones_like(values)), values_dot

    for scale in (1e-5, 1.0, 1e5):
        arrays = (scale * x).astype(np.float32), p.astype(np.float32), (scale * direction).astype(np.float32)
        with jaxpool.compiling_for(platform):
            found = compiled_as_usual(derivatives)(*arrays)
        expected = compiled_as_usual(derivatives)(*(array.astype(np.float64) for array in arrays))
        sizes = scale, 1, scale * expected[0].size / 3, scale
        for one, other, size in zip(found, expected, sizes, strict=True):
            np.testing.assert_allclose(one / size, other / size, rtol=3e-6, atol=1e-6)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)


@pytest.mark.parametrize("p", [0.9, 1.0, 7.9, 8.1, 40.0])
@pytest.mark.parametrize("name", ["norms", "means"])
def test_exponents_and_cells_on_both_sides_of_the_limits(name: str, p: float) -> None:
    random = np.random.default_rng(6).normal(size=(2, 31, 2))
    random[0, :12] = 0

    @compiled_as_usual
    def everything(x: jax.Array, p: jax.Array) -> Any:
        values, pull_back = jax.vjp(lambda x, p: POOLS[name](x, p, (11,), 4, padding=1, axis=1), x, p)
        return values, *pull_back(jnp.ones_like(values))

    for scale in (1e-30, 1e-18, 1e-9, 1e-3, 1.0, 1e3, 1e9, 1e18, 1e36):
        x = (random * scale).astype(np.float32)
        # A cell far below the others, which is all there is in its window of zeros.
        x[0, 0, 0] = 1e-6 * scale
        exponents = np.array([p, 2], np.float32)
        found = everything(x, exponents)
        expected = everything(x.astype(np.float64), exponents.astype(np.float64))
        for one, other, size in zip(found, expected, (scale, 1, scale), strict=True):
            np.testing.assert_allclose(one / np.float32(size), other / size, rtol=3e-6, atol=3e-6)


def test_derivatives_of_tiny_cells_beside_exponents_near_one() -> None:
    # Their powers vanish beside those of the largest cells, but not the powers in their derivatives.
    rows = [1e-14, -1e-15, 1e-3, 0.5], [1e-9, 0, -1e-12, 0], [1e-15, 1e15, -1e-14, 1]

    @compiled_as_usual
    def derivatives(x: jax.Array, p: jax.Array) -> tuple[jax.Array, jax.Array]:
        _, slopes = jax.jvp(lambda x: jaxpool.lp_pool(x, p, (3,), 1), (x,), (jnp.sign(x),))
        return jax.grad(lambda x: jaxpool.lp_pool(x, p, (3,), 1).sum())(x), slopes

    for p in (1.0, 1.01, 1.1):
        cells, exponent = np.array(rows), np.array([p], np.float32)
        for one, other in zip(derivatives(np.float32(cells), exponent), derivatives(cells, exponent), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (1,), (3, 1, 1), (2, 1, 1, 1), (2, 3, 1, 1)])
def test_exponents_of_channels_items_and_all_cells(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).normal(size=(2, 3, 7, 6)) * np.array([1e-4, 1, 1e4]).reshape(3, 1, 1)
    p = np.linspace(2.0, 2.5, math.prod(shape)).reshape(shape)

    @compiled_fast
    def derivatives(x: jax.Array, p: jax.Array) -> Any:
        values, pull_back = jax.vjp(lambda x, p: jaxpool.gem_pool(x, p, (3, 3), 2), x, p)
        # So that all values count alike.
        x_bar, p_bar = pull_back(1 / values)
        values_dot = jax.jvp(lambda p: jaxpool.gem_pool(x, p, (3, 3), 2), (p,), (jnp.ones_like(p),))[1]
        return values / values.max((0, 2, 3), keepdims=True), x_bar * jnp.abs(x), p_bar, values_dot / values

    found = derivatives(x.astype(np.float32), p.astype(np.float32))
    for one, other in zip(found, derivatives(x, p), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=3e-6, atol=5e-6)


def test_slopes_of_exponents_of_cells_far_from_1() -> None:
    # Differences of logarithms, which would lose the digits that log(1000) has before the point.
    x = 1000 * np.random.default_rng(0).uniform(0.5, 1, (4, 256))
    p = np.array([[1.3], [2.3], [3.7], [5.0]])

    @compiled_as_usual
    def slopes(p: jax.Array, x: jax.Array) -> Any:
        values, pull_back = jax.vjp(lambda p: jaxpool.gem_pool(x, p, (5,), 3), p)
        return pull_back(jnp.ones_like(values))[0] * p / values.sum(-1, keepdims=True)

    found, expected = slopes(p.astype(np.float32), x.astype(np.float32)), slopes(p, x)
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-7)


def test_slopes_of_windows_far_below_others() -> None:
    x = np.array([1e6, 1e-8, -2e-8, 3e-8, -1e6, 0])
    p = np.array([3.0])

    @compiled_as_usual
    def derivatives(x: jax.Array, p: jax.Array) -> Any:
        values, pull_back = jax.vjp(lambda x: jaxpool.lp_pool(x, p, (2,), 2), x)
        slopes = jax.jvp(lambda p: jaxpool.lp_pool(x, p, (2,), 2), (p,), (jnp.ones_like(p),))[1]
        return *pull_back(jnp.ones_like(values)), slopes / values

    for one, other in zip(derivatives(np.float32(x), np.float32(p)), derivatives(x, p), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_second_derivatives_and_batches_of_exponents() -> None:
    x, ps = np.random.default_rng(1).normal(size=(7, 6)), np.array([[1.5], [3.0]])

    def hessians(x: jax.Array, ps: jax.Array) -> Any:
        def total(x: jax.Array, p: jax.Array) -> jax.Array:
            return (jaxpool.gem_pool(x, p, (3, 3), 2) ** 2).sum()

        return jax.vmap(jax.hessian(total, (0, 1)), (None, 0))(x, ps)

    found = compiled_fast(hessians)(x.astype(np.float32), ps.astype(np.float32))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(compiled_fast(hessians)(x, ps)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the GPU's programs have no sums of powers")
def test_one_power_per_cell() -> None:
    # In the loop by sums, and three in that of roots; the exact one has 9 for each window, and one for its root.
    x, p = jnp.zeros((2, 16, 16, 3), np.float32), jnp.ones(3, np.float32)
    pool = partial(jaxpool.gem_pool, kernel_size=(3, 3), stride=1, axis=(1, 2))
    program = compiled_as_usual(pool).lower(x, p).compile().as_text()
    counts = {loop.count(" exponential(") for loop in program.split("\n\n")}
    assert counts == {0, 1, 3, 10}
    assert " conditional(" in program


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
@pytest.mark.parametrize("function", ["lp_pool", "gem_pool", "global_gem_pool"])
def test_exponents_that_are_not_positive_are_nan(function: str, rule: str) -> None:
    """At once, in values and slopes, and in their own channel alone."""
    p = jnp.array([3.0, 0.0, -0.0, -1e-3, -2.0, np.nan, 2.0], np.float32)
    x = np.random.default_rng(0).normal(size=(2, 6, 6, p.size)).astype(np.float32)
    x[0, :3, :3] = 0
    sizes: dict[str, Any] = {"kernel_size": 3, "stride": 1, "padding": 1} if function != "global_gem_pool" else {}
    pool = partial(getattr(jaxpool, function), axis=(1, 2), rule=rule, **sizes)
    values, pull_back = jax.vjp(compiled_fast(lambda x, p: pool(x, norm_type=p)), x, p)
    slopes = pull_back(jnp.ones_like(values))
    assert np.isnan(values[..., 1:-1]).all()
    for array in (values, *slopes):
        is_nan = np.isnan(array).any(tuple(range(array.ndim - 1)))
        np.testing.assert_array_equal(is_nan, [False, True, True, True, True, True, False])
