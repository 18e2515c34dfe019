"""Ranks: networks and bisections against sorting, even on windows for which the other is faster."""

import itertools
import math
from typing import Any

import jax
import numpy as np
import pytest

from jaxpool._geometry.window import make_window
from jaxpool._ranks.bisection import select_by_bisection
from jaxpool._ranks.networks import Exchange, selection_network
from jaxpool._ranks.selection import Rank, select_by_network
from tests.harness.compilation import compiled_fast

pytestmark = pytest.mark.usefixtures("for_this_platform")


def through(network: tuple[Exchange, ...], cells: np.ndarray) -> np.ndarray:
    """Apply a network to the columns of `cells`; a side that is not read becomes NaN."""
    places = list(cells.astype(np.float64))
    for first, second, first_read, second_read in network:
        pair = places[first], places[second]
        places[first] = np.minimum(*pair) if first_read else np.full_like(pair[0], math.nan)
        places[second] = np.maximum(*pair) if second_read else np.full_like(pair[0], math.nan)
    return np.array(places)


@pytest.mark.parametrize("cells", range(1, 13))
def test_networks_select_every_rank(cells: int) -> None:
    # A network that sorts all inputs of zeros and ones sorts every input.
    inputs = np.array(list(itertools.product((0, 1), repeat=cells))).T
    ordered = np.sort(inputs, axis=0)
    for ranks in ({rank} for rank in range(cells)):
        found = through(selection_network(cells, frozenset(ranks)), inputs)
        np.testing.assert_array_equal(found[list(ranks)], ordered[list(ranks)])
    np.testing.assert_array_equal(through(selection_network(cells, frozenset(range(cells))), inputs), ordered)


@pytest.mark.parametrize("cells", [25, 36, 49])
def test_large_networks_select_on_random_inputs(cells: int) -> None:
    inputs = np.random.default_rng(0).integers(0, 30, (cells, 3000))
    ranks = [cells // 2 - 1, cells // 2]
    found = through(selection_network(cells, frozenset(ranks)), inputs)
    np.testing.assert_array_equal(found[ranks], np.sort(inputs, axis=0)[ranks])


def test_networks_are_short() -> None:
    medians = {cells: selection_network(cells, frozenset({cells // 2})) for cells in (3, 9, 25)}
    operations = {cells: sum(one.first_read + one.second_read for one in medians[cells]) for cells in medians}
    assert operations == {3: 4, 9: 30, 25: operations[25]}
    assert operations[25] < 25 * 25 / 2


# No numbers so small that the CPU flushes them to zero.
SPECIAL = (-math.inf, -1.0, -0.0, 0.0, 1.0, 1.5, math.inf)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16", "int64", "int8", "uint32", "bool"])
def test_bisections_are_networks(dtype: str) -> None:
    random = np.random.default_rng(0)
    if "float" in dtype:
        x = np.where(random.random((40, 9)) < 0.02, math.nan, random.choice(SPECIAL, (40, 9))).astype(dtype)
        ordered = np.sort(np.where(np.isnan(x).any(1, keepdims=True), math.nan, x.astype(np.float64)), axis=1)
    else:
        limits = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        x = random.choice([*limits, 0, 1, limits[1] // 2 + 1], (40, 9)).astype(dtype)
        ordered = np.sort(x, axis=1)
    window = make_window("test", x.shape, (9,), None, 0, 1, False, None)
    ranks = [0, 3, 4, 8]

    def both(x: jax.Array) -> Any:
        bisected = select_by_bisection(x, window, ranks, 4)
        return bisected, select_by_network(x, window, [Rank(rank, frozenset({rank})) for rank in ranks])

    for found in compiled_fast(both)(x):
        assert {each.dtype for each in found} == {np.dtype(dtype)}
        for rank, values in zip(ranks, found, strict=True):
            np.testing.assert_array_equal(values[:, 0].astype(ordered.dtype), ordered[:, rank])
