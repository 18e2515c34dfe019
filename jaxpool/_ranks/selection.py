"""Cells of given ranks: their values in every window, and their offsets.

The cell of rank r in a window is number r, counted from 0, when the cells are sorted by value and, among equal values,
by their offset in the window. Zeros of either sign are equal. Absent cells (padding and masked cells) hold the largest
value of the dtype: whatever their order among real cells of that value, ranks below the number of present cells have
the right values. A window with NaN has NaN at every rank, and its cell is the first NaN.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._jax.platforms import known_platform
from jaxpool._jax.stages import materialize
from jaxpool._ranks.bisection import select_by_bisection
from jaxpool._ranks.networks import selection_network
from jaxpool._window import Window
from jaxpool._windows.cells import (
    MOST_IN_BLOCK,
    at_offset,
    fold_offsets,
    in_tiles,
    offsets_in,
    pad_in_tiles,
    pad_windows,
    zeros_after,
)
from jaxpool._windows.choices import reduce_windows
from jaxpool._windows.operations import Arrays, accumulation_dtype, identity

# The most cells of windows that a network of minima and maxima selects from on a CPU, instead of bisecting values. For
# 49 cells it takes half to two thirds of the time, for 81 up to 1.4 times, and twice as long to compile.
MOST_IN_NETWORK = 64
# The same elsewhere: one loop reads so many cells from a cache.
_MOST_READS = 49
# The most cells that bisection counts at once on a CPU. With 32 it takes up to twice as long, with 256 up to 5 times.
_MOST_COUNTED_AT_ONCE = 128
# The most ranks that are selected one by one, of windows that share no cells and of those that do.
_MOST_SELECTED, _MOST_SELECTED_OF_SHARED = 8, 16
# The most copies of shared cells for each result.
_MOST_COPIES = 32


class Rank(NamedTuple):
    """A rank in every window, one of several in a row.

    Attributes:
        wanted: the rank, an int for all windows or one for each.
        possible: the ranks that it may be; empty if they are unknown, in windows too large for a network.
        after: the number of an earlier rank in the row that is the same or the one before, in every window, if any.
    """

    wanted: int | np.ndarray | jax.Array
    possible: frozenset[int]
    after: int | None = None


def values_at_ranks(x: jax.Array, window: Window, ranks: Sequence[Rank]) -> Arrays:
    """The values of these ranks in every window of x; absent cells hold the largest value of the dtype."""
    if window.has_bins:
        # Here cells are read more often than once.
        x, window = in_tiles(x, window, identity(lax.min, x.dtype))
    padded = pad_windows(x, window, identity(lax.min, x.dtype))
    on_cpu = known_platform() == "cpu"
    is_large = window.held > (MOST_IN_NETWORK if on_cpu else _MOST_READS)
    if not is_large:
        # Wide: a platform without 16-bit arithmetic would widen and round for each of the many operations.
        padded = padded.astype(accumulation_dtype(x.dtype))
    if not (on_cpu or is_large):
        return tuple(each.astype(x.dtype) for each in select_by_network(padded, window, ranks))
    # One by one: the CPU compiler evaluates a network again for each of its results.
    apart = [rank for rank in ranks if rank.after is None and rank.possible != {0}]
    if not apart:
        selected = []
    elif is_large:
        most_at_once = _MOST_COUNTED_AT_ONCE if on_cpu else MOST_IN_BLOCK
        selected = select_by_bisection(padded, window, [rank.wanted for rank in apart], most_at_once)
    else:
        selected = _in_pairs(select_by_network(padded, window, apart))
    rest, values = iter(selected), list[jax.Array]()
    for rank in ranks:
        if rank.after is not None:
            values.append(_same_or_next(padded, window, values[rank.after], rank.wanted))
        elif rank.possible == {0}:
            values.append(reduce_windows(x, window, lax.min).astype(padded.dtype))
        else:
            values.append(next(rest))
    return tuple(each.astype(x.dtype) for each in values)


def _in_pairs(values: Sequence[jax.Array]) -> list[jax.Array]:
    """Materialize values on a CPU: floats two by two, as complex numbers, for which one loop is evaluated."""
    if not jnp.issubdtype(values[0].dtype, jnp.floating):
        return [materialize(value) for value in values]
    pairs = [materialize(lax.complex(*pair)) for pair in zip(values[::2], values[1::2], strict=False)]
    last = [materialize(values[-1])] if len(values) % 2 else []
    return [part for pair in pairs for part in (lax.real(pair), lax.imag(pair))] + last


def _same_or_next(padded: jax.Array, window: Window, first: jax.Array, rank: Any) -> jax.Array:
    """The value of a rank, given that of the same or the previous rank: the same, or the least value above it."""
    highest = identity(lax.min, padded.dtype)

    def least_above(result: Arrays, cells: Arrays, _: Any) -> Arrays:
        at_most, above = result
        is_above = cells[0] > first
        least = lax.min(above, jnp.where(is_above, cells[0], highest))
        return at_most + (~is_above).astype(np.int32), least

    start = jnp.zeros(first.shape, np.int32), jnp.full(first.shape, highest)
    at_most, above = fold_offsets(least_above, start, (padded,), window)
    # No cell is above NaN. Materialized, or the next rank would evaluate it again for every cell.
    return materialize(jnp.where(at_most > rank, first, above))


def select_by_network(padded: jax.Array, window: Window, ranks: Sequence[Rank]) -> list[jax.Array]:
    """Take minima and maxima of shifted slices. They keep NaN, as every cell can reach every rank."""
    slots = [at_offset(padded, window, offset) for offset in offsets_in(window)]
    possible = frozenset[int]().union(*(rank.possible for rank in ranks))
    for first, second, first_read, second_read in selection_network(window.held, possible):
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


def offsets_at_ranks(
    x: jax.Array,
    present: jax.Array | None,
    values: Sequence[jax.Array],
    window: Window,
    ranks: Sequence[Rank],
    most: int | None = None,
) -> Arrays:
    """The offsets in every window of the cells of these ranks, given their values; of a dtype that holds `most`.

    A rank that a window does not have gets the offset of no cell, the number of offsets, which is then the `most`.

    If b cells are below that value, the wanted cell is number rank - b among those that equal it. Its offset is the
    number of offsets up to which at most rank - b cells equal the value; with a footprint, the sum of the steps from
    each of these to the next.
    """
    highest = identity(lax.min, x.dtype)
    filled = [(x, highest), *([] if present is None else [(present, False)])]
    padded, window = pad_in_tiles(filled, window)

    def zeros(*arrays: jax.Array) -> jax.Array:
        # In int32: counting in bytes compiles to slower code.
        return zeros_after(values[0].shape, np.int32, window, *arrays)

    def count_below(below: Arrays, cells: Arrays, _: Any) -> Arrays:
        return tuple(number + (cells[0] < value).astype(np.int32) for number, value in zip(below, values, strict=True))

    below = fold_offsets(count_below, (zeros(*values),) * len(values), padded, window)
    sought = []
    for value, rank, number in zip(values, ranks, below, strict=True):
        is_nan = value != value
        # Cells are compared with the window's value, not with themselves: off the CPU that is a pass over all cells.
        sought.append((value, is_nan, jnp.where(is_nan, highest, value), jnp.where(is_nan, 0, rank.wanted - number)))

    first, steps = window.numbers[0], None
    if window.has_footprint:
        steps = np.zeros(window.cells, np.int32)
        steps[list(window.numbers)] = np.diff(window.numbers, append=window.cells)

    def count_equal(found: tuple[Arrays, ...], cells: Arrays, number_of_cell: Any) -> tuple[Arrays, ...]:
        step = None if steps is None else jnp.asarray(steps)[number_of_cell]
        results = []
        for (equal, offsets), (value, is_nan, bound, number) in zip(found, sought, strict=True):
            # The value is NaN if some cell is, and then no cell counts as below it.
            same = (cells[0] == value) | (is_nan & ~(cells[0] <= bound))
            equal += functools.reduce(jnp.logical_and, cells[1:], same).astype(np.int32)
            passed = (equal <= number).astype(np.int32)
            results.append((equal, offsets + (passed if step is None else passed * step)))
        return tuple(results)

    start = zeros(*(number for *_, number in sought))
    found = fold_offsets(count_equal, ((start, start + first if first else start),) * len(sought), padded, window)
    dtype = np.min_scalar_type(window.cells - 1 if most is None else most)
    return tuple(offsets.astype(dtype) for _, offsets in found)


def sorts_windows(window: Window, ranks: int) -> bool:
    """Whether so many ranks are found by sorting."""
    if window.tiles or window.has_bins:
        return ranks > _MOST_SELECTED
    return ranks > _MOST_SELECTED_OF_SHARED and window.held <= _MOST_COPIES * ranks
