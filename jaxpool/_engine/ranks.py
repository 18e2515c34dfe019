"""Cells of given ranks: their values in every window, and their offsets.

The cell of rank r in a window is number r, counted from 0, when the cells are sorted by value and, where
values are equal, by their offset in the window. Zeros of either sign are equal. Absent cells, padding and masked ones,
hold the largest value there is: in whatever order they come among real cells of that value, ranks below the number of
cells present have the right values. A window with NaN has NaN at every rank, whose cell is the first NaN.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.bisection import select_by_bisection
from jaxpool._engine.cpu import choose
from jaxpool._engine.loops import fold_offsets
from jaxpool._engine.networks import selection_network
from jaxpool._engine.operations import Arrays, accumulation_dtype, identity
from jaxpool._engine.window_offsets import at_offset, offsets_in, pad_windows
from jaxpool._geometry.window import Window


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
    slots = [at_offset(padded, window, offset) for offset in offsets_in(window)]
    possible = frozenset[int]().union(*(rank.possible for rank in ranks))
    for first, second, first_read, second_read in selection_network(window.cells, possible):
        pair = slots[first], slots[second]
        if first_read:
            slots[first] = lax.min(*pair)
        if second_read:
            slots[second] = lax.max(*pair)
    return [_pick(slots, rank) for rank in ranks]


def _pick(slots: Sequence[jax.Array], rank: Rank) -> jax.Array:
    first, *others = sorted(rank.possible)
    value = slots[first]
    for other in others:
        value = jnp.where(rank.wanted == other, slots[other], value)
    return value


def offsets_at_rank(
    x: jax.Array, present: jax.Array | None, window: Window, rank: Rank, values: jax.Array
) -> jax.Array:
    """The offset in every window of the cell of that rank, which has the value given.

    With b cells below that value, it is the one number rank - b among the cells that equal it. Its offset is the number
    of offsets up to which no more than rank - b cells have been met that equal it.
    """
    arrays = [pad_windows(x, window, identity(lax.min, x.dtype))]
    if present is not None:
        arrays.append(pad_windows(present, window, False))
    padded = tuple(arrays)
    # In int32: counts in bytes compile to slower code.
    none = jnp.zeros(values.shape, np.int32)

    def count(below: jax.Array, cells: Arrays, _: Any) -> jax.Array:
        return below + (cells[0] < values).astype(np.int32)

    is_nan = values != values
    # Compared with the window, not with themselves: elsewhere than on a CPU that would be done for all cells first.
    bound = jnp.where(is_nan, identity(lax.min, values.dtype), values)
    number = jnp.where(is_nan, 0, rank.wanted - fold_offsets(count, none, padded, window))

    def pass_by(found: Arrays, cells: Arrays, _: Any) -> Arrays:
        met, offsets = found
        # The value is NaN where a cell is, and no cell is below it.
        same = (cells[0] == values) | (is_nan & ~(cells[0] <= bound))
        for each in cells[1:]:
            same = same & each
        met = met + same.astype(np.int32)
        return met, offsets + (met <= number).astype(np.int32)

    _, offsets = fold_offsets(pass_by, (none, none), padded, window)
    return offsets.astype(np.min_scalar_type(window.cells - 1))
