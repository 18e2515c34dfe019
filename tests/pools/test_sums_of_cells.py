"""Pools by sums of one exponential, power or weight per cell: as exact as the others, and used only if they are.

A large number anywhere in the batch makes a pool evaluate all of it exactly.
"""

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

EXPONENTIALS = {"smooth": jaxpool.smooth_max_pool, "mellowmax": jaxpool.mellowmax_pool, "soft": jaxpool.soft_pool}
POOLS = {**{name: partial(pool, beta=-1.7) for name, pool in EXPONENTIALS.items()}, "shares": jaxpool.stochastic_pool}
WINDOWS: dict[str, dict[str, Any]] = {
    "zeros": {"kernel_size": (3, 3), "stride": 2, "padding": 1},
    "no zeros": {"kernel_size": (3, 3), "stride": 1, "padding": 1, "count_include_pad": False},
    "by axis": {"kernel_size": (5, 4), "stride": (1, 3), "padding": (2, 0)},
}
LAYOUTS = {"first": ((4, 2, 9, 8), (2, 3)), "last": ((3, 9, 8, 2), (1, 2)), "no batch": ((9, 8), (0, 1))}


in_every_window = pytest.mark.parametrize(
    ("window", "layout"),
    [case_row(*one[:2], id="-".join(one[:2]), kept=one[2]) for one in crossed([*WINDOWS], [*LAYOUTS], 3)],
)


def check_sums(function: Callable[..., Any], *arguments: Any) -> None:
    """Compare a function by sums, on a CPU and a TPU, with the exact one, which is traced for a GPU."""
    with jaxpool.compiling_for("gpu"):
        expected = compiled_fast(function)(*arguments)
    for platform in ("cpu", "tpu"):
        with jaxpool.compiling_for(platform):
            found = compiled_fast(function)(*arguments)
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


@in_every_window
@pytest.mark.parametrize("name", POOLS)
def test_sums_of_cells_are_the_exact_pool(name: str, window: str, layout: str) -> None:
    shape, axis = LAYOUTS[layout]
    x, direction = np.random.default_rng(0).normal(size=(2, *shape))
    window_of_all = {key: option for key, option in WINDOWS[window].items() if key != "count_include_pad"}
    pool = partial(POOLS[name], axis=axis, **(window_of_all if name == "shares" else WINDOWS[window]))

    def derivatives(x: jax.Array, direction: jax.Array) -> Any:
        def gradient(x: jax.Array) -> jax.Array:
            return jax.grad(lambda x: jnp.sin(pool(x)).sum())(x)

        second = jax.jvp(gradient, (x,), (direction,)) if window == "zeros" else gradient(x)
        return jax.jvp(pool, (x,), (direction,)), second

    check_sums(derivatives, x, direction)


@pytest.mark.parametrize("name", EXPONENTIALS)
def test_float32_is_near_float64_on_both_sides_of_the_limit(name: str) -> None:
    @compiled_as_usual
    def everything(x: jax.Array) -> Any:
        values, pull_back = jax.vjp(lambda x: EXPONENTIALS[name](x, 1.0, (3, 3), 1, axis=(1, 2)), x)
        return values, pull_back(jnp.ones_like(values))[0]

    random = np.random.default_rng(1).uniform(-1, 1, (2, 16, 16, 3))
    for exponent in (1e-3, 1.0, 7.9, 8.1, 63.0, 65.0, 1e4):
        x = (random * exponent / np.abs(random).max()).astype(np.float32)
        (values, gradient), (exact_values, exact_gradient) = everything(x), everything(x.astype(np.float64))
        np.testing.assert_allclose(values, exact_values, rtol=0, atol=5e-7 * max(exponent, 1))
        np.testing.assert_allclose(gradient, exact_gradient, rtol=0, atol=2e-5)


def test_smooth_maxima_of_one_cell_are_that_cell() -> None:
    # Windows in the corners hold a single cell, whose exponential is 1 and a few bits.
    x = np.random.default_rng(1).uniform(-1, 1, (2, 4, 4)).astype(np.float32)
    pool = compiled_fast(
        partial(jaxpool.smooth_max_pool, beta=1e-3, kernel_size=(2, 2), padding=1, count_include_pad=False)
    )
    np.testing.assert_array_equal(pool(x)[:, ::2, ::2], x[:, ::3, ::3])


@pytest.mark.parametrize("channels", [3, 8])
@pytest.mark.parametrize("scale", [1e-5, 1e-3, 0.1])
def test_small_cells_keep_their_digits(scale: float, channels: int) -> None:
    # There the mean of exp(β·x) rounds to 1 plus a few bits.
    x = (np.random.default_rng(1).uniform(-1, 1, (2, 16, 16, channels)) * scale).astype(np.float32)
    pool = compiled_as_usual(lambda x: jaxpool.mellowmax_pool(x, 1.0, (3, 3), 2, axis=(1, 2)))
    np.testing.assert_allclose(pool(x), pool(x.astype(np.float64)), rtol=0, atol=5e-7 * scale)


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
@pytest.mark.parametrize("name", POOLS)
def test_a_large_cell_or_nan_changes_no_other_item(name: str, platform: str) -> None:
    with jaxpool.compiling_for(platform):
        _check_a_large_cell_or_nan(name)


def _check_a_large_cell_or_nan(name: str) -> None:
    x = np.random.default_rng(2).normal(size=(4, 7, 7, 2)).astype(np.float32)
    pool = partial(POOLS[name], kernel_size=(3, 3), stride=1, axis=(-3, -2))
    gradient = compiled_as_usual(jax.grad(lambda x: jnp.where(jnp.isnan(pool(x)), 0, pool(x)).sum()))
    clean = gradient(x)
    for number in (1e30, np.nan, np.inf, -np.inf):
        spoilt = x.copy()
        spoilt[1, 3, 3, 0] = number
        assert np.isnan(pool(spoilt)).any() == np.isnan(number)
        found = gradient(spoilt)
        np.testing.assert_allclose(found[::2], clean[::2], rtol=1e-5, atol=1e-6)
        in_batches = jax.vmap(jax.grad(lambda x: pool(x).sum()))(spoilt)
        np.testing.assert_allclose(in_batches[::2], clean[::2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", POOLS)
def test_cells_in_no_window_have_no_derivative(name: str) -> None:
    # Their terms are in no sum that could show how large they are.
    x = np.random.default_rng(7).normal(size=(2, 7)).astype(np.float32)
    x[:, 2::3] = [[np.inf, np.nan], [-np.inf, 1e30]]
    gradient = compiled_as_usual(jax.grad(lambda x: POOLS[name](x, kernel_size=(2,), stride=3).sum()))(x)
    np.testing.assert_array_equal(gradient[:, 2::3], 0)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("kind", [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit])
def test_meshes_of_one_device(kind: Any) -> None:
    # In an explicit mesh, and in `shard_map`, the types of arrays include their sharding.
    x = jnp.asarray(np.random.default_rng(5).normal(size=(2, 5, 5)), np.float32)

    def gradient(x: jax.Array) -> jax.Array:
        return jax.grad(lambda x: (jaxpool.smooth_max_pool(x, 2.0, (3, 3), 1) ** 2).sum())(x)

    expected = gradient(x)
    with jax.set_mesh(jax.make_mesh((1,), ("items",), axis_types=(kind,))):
        items = jax.device_put(x, jax.P("items"))
        shards = jax.shard_map(gradient, in_specs=jax.P("items"), out_specs=jax.P("items"))
        for function in (gradient, shards):
            np.testing.assert_allclose(jax.jit(function)(items), expected, rtol=1e-5, atol=1e-6)


def test_pieces_of_large_arrays() -> None:
    # Four pieces: two items, and two halves of the channels. The last one needs the exact pool.
    x = np.random.default_rng(4).normal(size=(2, 64, 65, 16)).astype(np.float32)
    x[1, 3, 4, 15] = 1e3

    @compiled_as_usual
    def gradient(x: jax.Array) -> jax.Array:
        return jax.grad(lambda x: (jaxpool.smooth_max_pool(x, 2.0, (2, 2), 1, axis=(1, 2)) ** 2).sum())(x)

    found = gradient(x)
    for item in (slice(0, 1), slice(1, 2)):
        for channels in (slice(0, 8), slice(8, 16)):
            here = item, slice(None), slice(None), channels
            np.testing.assert_allclose(found[here], gradient(x[here]), rtol=1e-5, atol=1e-6)


def test_shares_of_numbers_near_the_ends_of_the_range() -> None:
    random = np.random.default_rng(3).normal(size=(1, 8, 8, 2))
    random[0, :4, :4] = 0

    @compiled_as_usual
    def everything(x: jax.Array) -> Any:
        values, pull_back = jax.vjp(lambda x: jaxpool.stochastic_pool(x, (3, 3), 1, axis=(1, 2)), x)
        return values, pull_back(jnp.ones_like(values))[0]

    for scale in (1e-15, 1e-12, 1.0, 1e12, 1e15):
        x = (random * scale).astype(np.float32)
        (values, gradient), (exact_values, exact_gradient) = everything(x), everything(x.astype(np.float64))
        np.testing.assert_allclose(values / np.float32(scale), exact_values / scale, rtol=1e-5)
        np.testing.assert_allclose(gradient, exact_gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the GPU's programs have no sums of cells")
@pytest.mark.parametrize("name", EXPONENTIALS)
def test_one_exponential_per_cell(name: str) -> None:
    # In the loop by sums; the exact one has 9 for each window.
    x = jnp.zeros((2, 16, 16, 3), np.float32)
    pool = partial(EXPONENTIALS[name], beta=2.0, kernel_size=(3, 3), stride=1, axis=(1, 2))
    program = compiled_as_usual(pool).lower(x).compile().as_text()
    counts = sorted(loop.count(" exponential(") for loop in program.split("\n\n"))
    assert 1 in counts
    assert {count for count in counts if count} <= {1, 2, 9}
    assert " conditional(" in program


@pytest.mark.parametrize("p", [1, 1.3, 2, 2.5, 3, 7.9, 8])
@pytest.mark.parametrize("name", ["windows", "whole"])
def test_norms_on_both_sides_of_the_limits(p: int, name: str) -> None:
    # The powers of the last ones overflow, and those of the first ones vanish.
    random = np.random.default_rng(6).normal(size=(2, 31, 2))
    random[0, :12] = 0

    @compiled_as_usual
    def everything(x: jax.Array) -> Any:
        def norms(x: jax.Array) -> jax.Array:
            if name == "whole":
                return jaxpool.global_gem_pool(x, p, axis=1, eps=None)
            return jaxpool.lp_pool(x, p, (11,), 4, padding=1, axis=1)

        values, pull_back = jax.vjp(norms, x)
        return values, pull_back(jnp.ones_like(values))[0]

    for scale in (1e-30, 1e-18, 1e-9, 1e-3, 1.0, 1e3, 1e9, 1e18, 1e36):
        x = (random * scale).astype(np.float32)
        # A cell far below the others, which is all there is in its window of zeros.
        x[0, 0, 0] = 1e-6 * scale
        (values, gradient), (exact_values, exact_gradient) = everything(x), everything(x.astype(np.float64))
        np.testing.assert_allclose(values / np.float32(scale), exact_values / scale, rtol=1e-6)
        np.testing.assert_allclose(gradient, exact_gradient, rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("p", [1.3, 1.99, 2.5, 3.9, 7.9])
def test_powers_far_from_1_keep_their_digits(p: float) -> None:
    # exp(p·log(x)) has an error of as many units in the last place as its logarithm.
    random = np.random.default_rng(7).uniform(0.5, 1, (4, 64))
    norms = compiled_as_usual(lambda x: jaxpool.lp_pool(x, p, (3,), 1))
    for size in (2.0**-76, 2.0**-40, 2.0**40, 2.0**76):
        x = (random * size ** (1 / p)).astype(np.float32)
        np.testing.assert_allclose(norms(x), norms(x.astype(np.float64)), rtol=2.5e-7)


@pytest.mark.parametrize("pool", [*POOLS.values(), partial(jaxpool.lp_pool, norm_type=3.0)])
def test_large_arrays_are_pooled_exactly_in_slabs(pool: Any) -> None:
    x = np.random.default_rng(0).normal(size=(6, 48, 32, 4)).astype(np.float32)
    x[4, 3, 5, 2] = 1e20

    def value_and_gradient(x: Any) -> Any:
        def total(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            values = pool(x, kernel_size=(3, 3), stride=1, axis=(1, 2))
            return jnp.tanh(values).sum(), values

        return jax.value_and_grad(total, has_aux=True)(x)

    (_, values), gradient = jax.jit(value_and_gradient)(x)
    for number in range(len(x)):
        (_, expected), slopes = jax.jit(value_and_gradient)(x[number : number + 1])
        np.testing.assert_allclose(values[number], expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(gradient[number], slopes[0], rtol=1e-4, atol=1e-6)
