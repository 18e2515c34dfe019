"""Adaptive and global pools: where bins begin and end, what is in their programs, and relations to other pools.

The files that run over the registry compare values and derivatives of single calls with the reference.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxpool
from jaxpool._engine.bins_as_tiles import as_tiles, combine_copies, copy_to_tiles
from jaxpool._geometry.bins import BinAxis, make_bins
from tests.harness.checks import equations
from tests.reference import oracle
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

ADAPTIVE = (jaxpool.adaptive_max_pool, jaxpool.adaptive_avg_pool)


def test_bins_are_exact_for_every_pair_of_sizes() -> None:
    for size in range(1, 41):
        for bins in range(1, 61):
            (axis,) = make_bins("test", (size,), (bins,), None).axes
            starts = [math.floor(Fraction(i * size, bins)) for i in range(bins)]
            ends = [math.ceil(Fraction((i + 1) * size, bins)) for i in range(bins)]
            np.testing.assert_array_equal(axis.start(np.arange(bins)), starts)
            np.testing.assert_array_equal(axis.held_by(np.arange(bins), padding=True), np.subtract(ends, starts))
            assert axis.kernel == max(np.subtract(ends, starts))
            # The cost: at most one shared cell per bin, and one to fill up smaller bins.
            assert axis.kernel * bins <= size + 2 * bins


@pytest.mark.parametrize(("size", "bins"), [(11, 4), (5, 13), (7, 6), (40, 3), (3, 7)])
def test_expand_and_collect_are_transposes(size: int, bins: int) -> None:
    window = make_bins("test", (2, size, 3), bins, 1)
    (axis,) = window.axes
    assert isinstance(axis, BinAxis)
    (even_axis,) = as_tiles(window).axes
    assert even_axis.size == bins * axis.kernel
    there = jax.jacobian(lambda x: copy_to_tiles(x, window, 0.0))(jnp.zeros((2, size, 3)))
    back = jax.jacobian(lambda x: combine_copies(x, window, lax.add))(jnp.zeros((2, bins * axis.kernel, 3)))
    np.testing.assert_array_equal(there, jnp.transpose(back, (3, 4, 5, 0, 1, 2)))
    filled = copy_to_tiles(jnp.zeros((2, size, 3)), window, -1.0)
    assert (filled == -1).sum() == 6 * (bins * axis.kernel - axis.held_by(np.arange(bins), padding=False).sum())


def program(pool: Callable[..., jax.Array], size: int, bins: int, platform: str) -> list[Any]:
    x = jnp.zeros((2, size, size, 3), jnp.float32)
    with jaxpool.compiling_for(platform):
        return list(equations(jax.make_jaxpr(partial(pool, output_size=(bins, bins), axis=(1, 2)))(x).jaxpr))


@pytest.mark.parametrize("pool", ADAPTIVE, ids=lambda pool: pool.__name__)
def test_programs_are_short_and_do_not_grow_with_the_output(pool: Callable[..., jax.Array]) -> None:
    def length(size: int, bins: int, platform: str = "cpu") -> int:
        return len(program(pool, size, bins, platform))

    assert length(224, 7) <= 120
    assert length(225, 13) <= 130
    for size in (224, 225):
        assert length(size, 101) <= length(size, 13)
    assert length(5, 301) <= length(5, 13)
    # On other platforms small bins are unrolled, and large ones are one operation.
    for platform in ("gpu", "tpu"):
        assert max(length(size, bins, platform) for size in (224, 225) for bins in (7, 13, 101)) <= 120
        assert length(5, 301, platform) <= length(5, 13, platform)


def gradient(pool: Callable[..., jax.Array], **sizes: Any) -> Callable[[jax.Array], jax.Array]:
    return jax.grad(lambda x: pool(x, **sizes).sum())


def test_programs_of_gradients_are_short_and_scatter_nothing() -> None:
    # Bins of 32 cells are written out for GPUs and TPUs, where equal ones may be routed to in two ways.
    limits = {"cpu": (380, 130), "gpu": (280, 130), "tpu": (500, 130)}
    rows = [(platform, *row) for platform, most in limits.items() for row in zip(ADAPTIVE, most, strict=True)]
    for platform, pool, limit in rows:
        for rule in ("jvp", "vjp"):
            lengths = []
            for size, bins in ((224, 7), (225, 13), (225, 101), (5, 13), (5, 301)):
                x = jnp.zeros((2, size, 3), jnp.float32)
                with jaxpool.compiling_for(platform):
                    jaxpr = jax.make_jaxpr(gradient(pool, output_size=bins, axis=1, rule=rule))(x)
                found = [equation.primitive.name for equation in equations(jaxpr.jaxpr)]
                if platform == "tpu":
                    # Its own operation, for bins of equal length that share no cells.
                    found = [name for name in found if name != "select_and_scatter_add"]
                assert not [name for name in found if "scatter" in name or name in ("while", "scan")]
                lengths.append(len(found))
            assert max(lengths) <= limit, lengths
            assert platform != "cpu" or lengths[2] <= lengths[1]


@pytest.mark.every_platform
def test_bins_that_divide_are_fixed_windows() -> None:
    x = distinct((2, 12, 8), "bins")
    for adaptive, fixed in zip(ADAPTIVE, (jaxpool.max_pool, jaxpool.avg_pool), strict=True):
        found, expected = partial(adaptive, output_size=(4, 2)), partial(fixed, kernel_size=(3, 4))
        assert str(jax.make_jaxpr(found)(x)) == str(jax.make_jaxpr(expected)(x))


def test_global_pools_are_one_bin_and_one_window() -> None:
    x = distinct((2, 5, 7), "whole")
    for whole, adaptive, fixed in [
        (jaxpool.global_max_pool, jaxpool.adaptive_max_pool, jaxpool.max_pool),
        (jaxpool.global_avg_pool, jaxpool.adaptive_avg_pool, jaxpool.avg_pool),
    ]:
        expected = whole(x, axis=(1, 2))
        np.testing.assert_array_equal(adaptive(x, 1, axis=(1, 2)), expected)
        np.testing.assert_array_equal(fixed(x, (5, 7)), expected)
        np.testing.assert_array_equal(whole(x, axis=(2, 1), keepdims=False), expected[:, 0, 0])


@pytest.mark.parametrize("cells", [64, 20000])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
def test_nan_stays_in_its_bins(cells: int, dtype: Any) -> None:
    x = distinct((4, cells // 4), "nan").astype(dtype)
    x[0, ::5] = x[2, 7] = np.nan
    x[3] = -np.inf

    @jax.jit
    def everything(x: jax.Array) -> Any:
        pools = [
            lambda x: jaxpool.global_max_pool(x, axis=1),
            lambda x: jaxpool.adaptive_max_pool(x, (5,)),
            lambda x: jaxpool.adaptive_avg_pool(x, (5,)),
        ]
        values, gradients = zip(*((pool(x), jax.grad(lambda x: pool(x).sum())(x)) for pool in pools), strict=True)  # noqa: B023
        return values, gradients

    (whole, most, mean), (whole_gradient, most_gradient, _) = everything(x)
    np.testing.assert_array_equal(np.isnan(whole[:, 0]), [True, False, True, False])
    expected = oracle.adaptive(oracle.largest, x, (5,))
    np.testing.assert_array_equal(most.astype(np.float64), expected.values)
    np.testing.assert_array_equal(np.isnan(mean), np.isnan(expected.values))
    np.testing.assert_array_equal(most_gradient.astype(np.float64), expected.backward(np.ones((4, 5))))
    # The first NaN, the only one, the largest cell, and the first of equal ones.
    winners = [0, int(np.argmax(x[1].astype(np.float64))), 7, 0]
    np.testing.assert_array_equal(np.argmax(whole_gradient.astype(np.float32), 1), winners)
    assert (whole_gradient.sum(1) == 1).all()


def test_sums_of_a_million_cells_keep_their_precision() -> None:
    x = (np.random.default_rng(0).random(2**20) + 1).astype(np.float32)
    mean = x.astype(np.float64).mean()
    for found in (jaxpool.global_avg_pool(x, axis=0)[0], jaxpool.adaptive_avg_pool(x[:-3], (1,))[0]):
        assert abs(float(found) - mean) <= 1e-6 * mean


# With a term for every offset, over outputs with zeros between them, gradients of bins take a TPU twice the cycles.
@pytest.mark.parametrize(("size", "dilates"), [(jaxpool.bins(4, 4), False), ((3, 3), True)], ids=["bins", "windows"])
def test_a_tpu_dilates_outputs_of_windows_alone(size: Any, dilates: bool) -> None:
    with jaxpool.compiling_for("tpu"):
        gradient = jax.grad(lambda x: jaxpool.lp_pool(x, 2.5, size).sum())
        found = equations(jax.make_jaxpr(gradient)(np.ones((10, 10), np.float32)).jaxpr)
        pads = [each.params["padding_config"] for each in found if each.primitive is lax.pad_p]
    assert any(between > 0 for config in pads for *_, between in config) == dilates
