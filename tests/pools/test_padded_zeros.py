"""Zeros in the padding that count: the pool is the same as for an array with these zeros as cells.

Beyond the padding there are none, even if a window has no other cells.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_fast
from tests.harness.parts import case_row, crossed
from tests.random.call_checks import compare, outcome
from tests.registry.calls import Call
from tests.registry.records import RECORDS

POOLS = {"smooth": jaxpool.smooth_max_pool, "mellowmax": jaxpool.mellowmax_pool, "soft": jaxpool.soft_pool}
# Channels are last, as a CPU extends arrays whose last axis is pooled. Cells are mostly below 0, so that zeros are the
# largest ones of many windows.
X, DIRECTION = np.random.default_rng(0).uniform(-3, 1, (2, 6, 5, 3))
MASK = np.random.default_rng(1).random((6, 5, 3)) < 0.5
BETA = np.array([0.7, -1.5, 2.0])


# Mellowmax is a smooth maximum but for a constant.
crossed_pools = pytest.mark.parametrize(
    ("name", "masked"),
    [
        case_row(name, masked, id=f"{name}-{masked}", kept=kept and name != "mellowmax")
        for name, masked, kept in crossed(list(POOLS), [False, True], 2)
    ],
)


@crossed_pools
def test_zeros_in_the_padding_are_cells(name: str, masked: bool) -> None:
    check_zeros(name, masked, 3, 1)


@crossed_pools
def test_zeros_are_cells_along_one_axis_after_the_other(name: str, masked: bool) -> None:
    check_zeros(name, masked, 5, 2)


def check_zeros(name: str, masked: bool, kernel: int, padding: int) -> None:
    """Compare windows with padding and those of an array surrounded by zeros."""

    def derivatives(padded: int) -> list[Any]:
        """Values, gradients and a second derivative; so much of the padding is declared."""
        around = [(padding - padded, padding - padded)] * 2 + [(0, 0)]
        where = np.pad(MASK, around, constant_values=True) if masked else None

        def values(x: Any, beta: Any) -> jax.Array:
            return POOLS[name](jnp.pad(x, around), beta, kernel, 2, padded, axis=(0, 1), where=where)

        gradient = jax.grad(lambda x, beta: (values(x, beta) ** 2).sum(), (0, 1))
        return [values(X, BETA), *jax.jvp(lambda x: gradient(x, BETA), (X,), (DIRECTION,))]

    padded, extended = (jax.tree.leaves(compiled_fast(lambda n=n: derivatives(n))()) for n in (padding, 0))
    for one, other in zip(padded, extended, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", POOLS)
def test_zeros_far_above_all_cells_are_the_largest_ones(name: str) -> None:
    # The first window of 9 cells has 5 zeros, next to which the other cells have no weight.
    closed = {"smooth": np.log(5) / 2, "mellowmax": np.log(5 / 9) / 2, "soft": 0.0}
    found = POOLS[name](jnp.full((6, 6, 1), -1e4), 2.0, 3, 2, 1, axis=(0, 1))
    np.testing.assert_allclose(found[0, 0, 0], closed[name], rtol=1e-12)


@pytest.mark.parametrize("name", [case_row(name, id=name, kept=name != "mellowmax") for name in POOLS])
def test_zeros_are_cells_of_large_windows_of_one_axis(name: str) -> None:
    # Windows of many cells are taken one axis after the other; here there is only one axis.
    # Cells are moderate, and too large to be pooled by sums, where zeros are the only cells with a weight.
    for x in np.random.default_rng(0).normal(size=(20, 2)), np.linspace(-2000, -1000, 40).reshape(20, 2):
        for beta in (2.0, np.array([2.0, -1.0])):
            found = POOLS[name](x, beta, (31,), 15, 15, axis=(0,))
            extended = POOLS[name](np.pad(x, [(15, 15), (0, 0)]), beta, (31,), 15, axis=(0,))
            np.testing.assert_allclose(found, extended, rtol=1e-12)


def test_zeros_have_no_room_for_another_window() -> None:
    # Of the last two windows, which start beyond the cells, `ceil_mode` leaves out one.
    window: dict[str, Any] = {"kernel_size": (1, 2), "padding": 2, "dilation": 3, "ceil_mode": True}
    call = Call("soft_pool", (6, 3), {**window, "beta": 0.5})
    for platform in ("cpu", "tpu"):
        with jaxpool.compiling_for(platform):
            compare(call, outcome(call))


@pytest.mark.parametrize("function", ["avg_pool", "gem_pool", "smooth_max_pool", "mellowmax_pool", "soft_pool"])
def test_windows_without_a_cell_are_0(function: str) -> None:
    # What `ceil_mode` adds beyond the padding is no cell, and here the footprint has no other.
    window: dict[str, Any] = {"kernel_size": jaxpool.footprint(np.array([False, True])), "ceil_mode": True}
    pool = partial(getattr(jaxpool, function), **window, **RECORDS[function].options)
    values, pull_back = jax.vjp(pool, np.array([5.0, 7.0, 3.0]))
    np.testing.assert_array_equal(values, [7, 0])
    np.testing.assert_array_equal(pull_back(np.ones(2))[0], [0, 1, 0])
