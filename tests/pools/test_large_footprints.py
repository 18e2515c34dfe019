"""Footprints of many cells, which are reduced, searched for winners and sent back by runs or in blocks."""

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from jaxpool._geometry.footprint import FootprintWindow
from jaxpool._geometry.runs import runs_of
from jaxpool._kernels import make_windows
from tests.harness.compilation import compiled_fast
from tests.pools.test_kernel_sizes import call, check_outputs, cotangent_of, disk, values_and_gradient
from tests.reference import oracle
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

DISKS = {
    "slices": (disk(3), 1),
    "runs": (disk(9), 1),
    "runs-apart": (disk(9), 2),
    "blocks": (disk(10), 1),
    "long-runs": (np.pad(np.ones((2, 19), bool), ((0, 1), (3, 0))), 1),
    "runs-along-rows": (np.ones((19, 3), bool) & (np.arange(3) != 1), 1),
    # The number behind the last cell, of a window without cells, is that of a cell where the first axis comes last.
    "columns": (np.arange(41 * 3).reshape(41, 3) > 0, 1),
    "row": (np.arange(23) % 7 < 5, 1),
    "cells-left-over": (disk(9), 2),
    "offsets-beyond-256": (np.arange(17 * 17).reshape(17, 17) % 9 > 0, 3),
}


def _in_disk(shape: str) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The shape of an array, and how it is pooled in windows of one of the disks."""
    cells, stride = DISKS[shape]
    arguments = {
        "kernel_size": jaxpool.footprint(cells),
        "stride": stride,
        "padding": 0 if shape == "cells-left-over" else tuple(each // 2 for each in cells.shape),
    }
    return (2, *(max(each + 3, 8) for each in cells.shape)), arguments


@pytest.mark.parametrize("shape", DISKS)
@pytest.mark.parametrize("function", ["max_pool_with_indices", "min_pool", "sum_pool", "avg_pool"])
def test_large_footprints(function: str, shape: str) -> None:
    array_shape, arguments = _in_disk(shape)
    x = distinct(array_shape, shape)
    expected = oracle.evaluate(function, x, **arguments)
    outputs, gradient = compiled_fast(partial(values_and_gradient, partial(call, function, **arguments)))(x)
    check_outputs(outputs, gradient, expected, atol=1e-8)


@pytest.mark.parametrize("shape", DISKS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("function", ["max_pool_with_indices", "min_pool_with_indices"])
def test_winners_among_ties_in_large_footprints(function: str, masked: bool, shape: str) -> None:
    array_shape, arguments = _in_disk(shape)
    draws = np.random.default_rng(len(shape))
    x = draws.integers(0, 4, array_shape).astype(float)
    kind = draws.uniform(size=array_shape)
    x[kind < 0.01] = np.nan
    # Half of the array, so that some windows hold nothing else.
    x[1][kind[1] < 0.98] = -np.inf if function == "max_pool_with_indices" else np.inf
    if masked:
        arguments["where"] = draws.uniform(size=array_shape) < 0.1
    with np.errstate(invalid="ignore"):
        expected = oracle.evaluate(function, x, **arguments)
    (values, indices), gradient = compiled_fast(partial(values_and_gradient, partial(call, function, **arguments)))(x)
    np.testing.assert_array_equal(values, expected.values)
    np.testing.assert_array_equal(indices, expected.indices)
    np.testing.assert_allclose(gradient, expected.backward(cotangent_of(expected)), atol=1e-12)


@pytest.mark.parametrize("shape", DISKS)
def test_windows_without_cells_in_large_footprints_send_nothing(shape: str) -> None:
    array_shape, arguments = _in_disk(shape)
    x, where = np.ones(array_shape), np.zeros(array_shape, bool)
    pool = partial(jaxpool.max_pool, where=where, **arguments)
    gradient = compiled_fast(jax.grad(lambda x: pool(x).sum()))(x)
    assert not np.any(gradient)


def test_disks_take_passes_in_proportion_to_their_width() -> None:
    for size, reads in ((7, 37), (15, 90), (31, 190)):
        window = make_windows("test", (64, 64), jaxpool.footprint(disk(size)), 1, 0, 1, False, None)
        assert isinstance(window, FootprintWindow)
        every = [runs_of(window, disjoint) for disjoint in (False, True)]
        assert max(window.held if runs is None else runs.reads(1) for runs in every) <= reads
