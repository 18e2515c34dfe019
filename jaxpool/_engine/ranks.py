"""Cells of given ranks: their values in every window, their offsets, and the way back for their cotangents.

The cell of rank r in a window is the one at place r, counted from 0, when the cells are sorted by value and, where
values are equal, by their offset in the window. Zeros of either sign are equal. Absent cells, padding and masked ones,
hold the largest value there is: in whatever order they come among real cells of that value, ranks below the number of
cells present have the right values. A window with NaN has NaN at every rank, whose cell is the first NaN.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine import choose
from jaxpool._engine.bisection import select_by_bisection
from jaxpool._engine.gather import Held, gather_windows
from jaxpool._engine.networks import selection_network
from jaxpool._engine.operations import Arrays, accumulation_dtype, identity
from jaxpool._engine.taps import at_tap, pad_windows, taps
from jaxpool._window import Window


class Rank(NamedTuple):
    """The rank wanted: one of all windows, or one of each, known while tracing or not; and which ones there may be."""

    wanted: int | np.ndarray | jax.Array
    possible: frozenset[int]


def values_at_ranks(x: jax.Array, window: Window, ranks: Sequence[Rank]) -> list[jax.Array]:
    """The values of these ranks in every window of x, whose absent cells hold the largest value there is."""
    padded = pad_windows(x, window, identity(lax.min, x.dtype))
    if choose.selects_by_network(window):
        # Wide, as platforms without arithmetic in 16 bits would widen and round for each of the many operations.
        wide = padded.astype(accumulation_dtype(x.dtype))
        return [values.astype(x.dtype) for values in select_by_network(wide, window, ranks)]
    return [select_by_bisection(padded, window, rank.wanted) for rank in ranks]


def select_by_network(padded: jax.Array, window: Window, ranks: Sequence[Rank]) -> list[jax.Array]:
    """Minima and maxima of shifted slices. They keep NaN, as every cell has a way to every rank."""
    places = [at_tap(padded, window, tap) for tap in taps(window)]
    possible = frozenset[int]().union(*(rank.possible for rank in ranks))
    for first, second, first_read, second_read in selection_network(window.cells, possible):
        pair = places[first], places[second]
        if first_read:
            places[first] = lax.min(*pair)
        if second_read:
            places[second] = lax.max(*pair)
    return [_pick(places, rank) for rank in ranks]


def _pick(places: Sequence[jax.Array], rank: Rank) -> jax.Array:
    first, *others = sorted(rank.possible)
    value = places[first]
    for other in others:
        value = jnp.where(rank.wanted == other, places[other], value)
    return value


def offsets_at_rank(
    x: jax.Array, present: jax.Array | None, window: Window, rank: Rank, values: jax.Array
) -> jax.Array:
    """The offset in every window of the cell of that rank, which has the value given.

    With b cells below that value, it is the one number rank - b among the cells that equal it. Its offset is the number
    of offsets up to which no more than rank - b cells have been met that equal it.
    """
    padded = pad_windows(x, window, identity(lax.min, x.dtype))
    padded_present = None if present is None else pad_windows(present, window, False)
    # In int32: counts in bytes compile to slower code.
    below, equal = jnp.zeros(values.shape, np.int32), []
    for tap in taps(window):
        cells = at_tap(padded, window, tap)
        below += (cells < values).astype(np.int32)
        # The value is NaN where a cell is, and no cell is below it.
        same = (cells == values) | (cells != cells)
        equal.append(same if padded_present is None else same & at_tap(padded_present, window, tap))
    number = jnp.where(values != values, 0, rank.wanted - below)
    met, offsets = jnp.zeros_like(below), jnp.zeros_like(below)
    for same in equal:
        met += same.astype(np.int32)
        offsets += (met <= number).astype(np.int32)
    return offsets.astype(np.min_scalar_type(window.cells - 1))


def route_to_cells(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array], window: Window) -> jax.Array:
    """Send, for each of the cells chosen, each window's cotangent to the cell at its offset.

    All axes at once: windows that choose cells of the same row need not agree on which, as those do that look for
    an extreme, so that the row alone does not say where to go on.
    """
    count = len(offsets)

    def contribution(numbers: jax.Array | int, held: Held, windows: Arrays, cells: Arrays) -> jax.Array:
        total = None
        for cotangent, place in zip(windows[:count], windows[count:], strict=True):
            chosen = held & (place == lax.convert_element_type(numbers, place.dtype))
            sent = jnp.where(chosen, cotangent, jnp.zeros_like(cotangent))
            total = sent if total is None else total + sent
        assert total is not None
        return total

    return gather_windows(contribution, [(array, 0) for array in (*cotangents, *offsets)], window)
