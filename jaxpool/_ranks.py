"""Ranks of cells: the values of given ranks in every window, and the offsets of their cells.

The cell of rank r in a window is number r, counted from 0, when the cells are sorted by value and, among equal values,
by their offset in the window. Zeros of either sign are equal. Absent cells (padding and masked cells) hold the largest
value of the dtype: whatever their order among real cells of that value, ranks below the number of present cells have
the right values. A window with NaN has NaN at every rank, and its cell is the first NaN.

Few cells are sorted by a network, as far as the ranks need it; of many, the bits of a value are found one by one.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._jax.platforms import known_platform
from jaxpool._jax.stages import materialize
from jaxpool._sharding import vary_with
from jaxpool._window import Window
from jaxpool._windows.cells import MOST_IN_BLOCK, at_offset, fold_offsets, offsets_in, pad_in_tiles, zeros_after
from jaxpool._windows.choices import MOST_READS, reduce_windows
from jaxpool._windows.operations import Arrays, accumulation_dtype, identity, keys_of, values_of

# The most cells of windows that a network of minima and maxima selects from on a CPU, instead of bisecting values. For
# 49 cells it takes half to two thirds of the time, for 81 up to 1.4 times, and twice as long to compile. Elsewhere the
# most that one loop reads, `MOST_READS`, is the limit.
MOST_IN_NETWORK = 64
# The most cells that bisection counts at once on a CPU; fewer for several ranks, as the loop takes long to compile.
# With 32 it takes up to twice as long, with 256 up to 5 times.
_MOST_COUNTED_AT_ONCE = 128


class Rank(NamedTuple):
    """A rank in every window."""

    # One for all windows, or one for each.
    wanted: np.ndarray | jax.Array
    # What it may be; empty if that is unknown, in windows too large for a network.
    possible: frozenset[int]


def values_at_ranks(x: jax.Array, window: Window, ranks: Sequence[Rank]) -> Arrays:
    """The values of these ranks in every window of x; absent cells hold the largest value of the dtype."""
    (padded,), windows = pad_in_tiles([(x, identity(lax.min, x.dtype))], window)
    on_cpu = known_platform() == "cpu"
    is_large = window.held > (MOST_IN_NETWORK if on_cpu else MOST_READS)
    if not is_large:
        # Wide: a platform without 16-bit arithmetic would widen and round for each of the many operations.
        padded = padded.astype(accumulation_dtype(x.dtype))
        values = _select_by_network(padded, windows, ranks)
        values = _in_pairs(values) if on_cpu else values
    else:
        values = _select_by_bisection(padded, windows, [rank.wanted for rank in ranks])
        if jnp.issubdtype(x.dtype, jnp.floating):
            largest = reduce_windows(x, window, lax.max)
            values = [jnp.where(largest != largest, largest, each) for each in values]
    return tuple(each.astype(x.dtype) for each in values)


def _in_pairs(values: Sequence[jax.Array]) -> list[jax.Array]:
    """Materialize results of a network, which a CPU would evaluate for each: floats two by two, as complex numbers."""
    count = len(values) // 2 * 2 if jnp.issubdtype(values[0].dtype, jnp.floating) else 0
    pairs = [materialize(lax.complex(*pair)) for pair in zip(values[:count:2], values[1:count:2], strict=True)]
    parts = [part for pair in pairs for part in (lax.real(pair), lax.imag(pair))]
    return [*parts, *map(materialize, values[count:])]


def same_or_next(padded: jax.Array, window: Window, first: jax.Array, rank: Any) -> jax.Array:
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


def offsets_at_ranks(
    x: jax.Array, present: jax.Array | None, values: Sequence[jax.Array], window: Window, ranks: Sequence[Rank]
) -> Arrays:
    """The offsets in every window of the cells of these ranks, given their values."""
    filled = [(x, identity(lax.min, x.dtype)), *([] if present is None else [(present, False)])]
    padded, windows = pad_in_tiles(filled, window)
    # If b cells are below a value, the wanted cell is number rank - b among those that equal it.
    below = _count_below(padded, values, windows, MOST_IN_BLOCK)
    found = zip(values, ranks, below, strict=True)
    numbers = [jnp.where(value != value, 0, rank.wanted - count) for value, rank, count in found]
    dtype = np.min_scalar_type(window.cells - 1)
    return tuple(each.astype(dtype) for each in offsets_of_equal(padded, values, numbers, windows))


def _count_below(padded: Arrays, bounds: Sequence[jax.Array], window: Window, most_in_block: int) -> Arrays:
    """How many cells of every window are below each bound."""

    def count(below: Arrays, cells: Arrays, _: Any) -> Arrays:
        return tuple(number + (cells[0] < bound).astype(np.int32) for number, bound in zip(below, bounds, strict=True))

    # In int32: counting in bytes compiles to slower code.
    start = (zeros_after(bounds[0].shape, np.int32, window, *bounds),) * len(bounds)
    return fold_offsets(count, start, padded, window, most_in_block)


def offsets_of_equal(
    padded: Arrays, values: Sequence[jax.Array], numbers: Sequence[jax.Array], window: Window
) -> Arrays:
    """The int32 offsets in every window of the cells that equal each value and are, of these, number so and so.

    `padded` are the cells and, if some are absent, which are present. A cell's offset is the number of offsets up to
    which at most that number of cells equal the value, without those that a footprint leaves out; of no cell, that of
    all.
    """
    highest, sought = identity(lax.min, padded[0].dtype), []
    for value, number in zip(values, numbers, strict=True):
        is_nan = value != value
        # Cells are compared with the window's value, not with themselves: off the CPU that is a pass over all cells.
        sought.append((value, is_nan, jnp.where(is_nan, highest, value), number))

    def count_equal(found: tuple[Arrays, ...], cells: Arrays, _: Any) -> tuple[Arrays, ...]:
        results = []
        for (equal, passed), (value, is_nan, bound, number) in zip(found, sought, strict=True):
            # The value is NaN if some cell is.
            same = (cells[0] == value) | (is_nan & ~(cells[0] <= bound))
            equal += functools.reduce(jnp.logical_and, cells[1:], same).astype(np.int32)
            results.append((equal, passed + (equal <= number).astype(np.int32)))
        return tuple(results)

    start = zeros_after(values[0].shape, np.int32, window, *numbers)
    found = fold_offsets(count_equal, ((start, start),) * len(sought), padded, window)
    if not window.has_footprint:
        return tuple(passed for _, passed in found)
    table = jnp.array([*window.numbers, window.cells], np.int32)
    return tuple(table[passed] for _, passed in found)


# Selection networks: fixed sequences of compare-exchanges that put the cells of certain ranks in their slots.
#
# An exchange of two slots leaves the smaller cell in the first and the larger one in the second. The sequence does not
# depend on the values, so a network is a chain of minima and maxima of whole arrays. The networks here sort by
# Batcher's odd-even merge exchange, with about n·log²(n)/4 exchanges for n cells. Whatever does not lead to a wanted
# rank is left out: exchanges neither side of which is read later, and the unread side of others.
#
# Source: Batcher, "Sorting networks and their applications", AFIPS 1968, as Algorithm 5.2.2M of Knuth, The Art of
# Computer Programming, volume 3.


def _select_by_network(padded: jax.Array, window: Window, ranks: Sequence[Rank]) -> list[jax.Array]:
    """Take minima and maxima of shifted slices. They keep NaN, as every cell can reach every rank."""
    slots = [at_offset(padded, window, offset) for offset in offsets_in(window)]
    possible = frozenset[int]().union(*(rank.possible for rank in ranks))
    for first, second, first_read, second_read in _selection_network(window.held, possible):
        pair = slots[first], slots[second]
        if first_read:
            slots[first] = lax.min(*pair)
        if second_read:
            slots[second] = lax.max(*pair)

    def pick(rank: Rank) -> jax.Array:
        first, *others = sorted(rank.possible)
        value = slots[first]
        for other in others:
            value = jnp.where(rank.wanted == other, slots[other], value)
        return value

    return [pick(rank) for rank in ranks]


@functools.cache
def _selection_network(cells: int, ranks: frozenset[int]) -> list[tuple[int, int, bool, bool]]:
    """Exchanges that put each wanted rank in its slot: of two slots, and whether their minimum and maximum are read."""
    read, kept = set(ranks), []
    for first, second in reversed([*_merge_exchange(cells)]):
        if first in read or second in read:
            kept.append((first, second, first in read, second in read))
            read |= {first, second}
    return kept[::-1]


def _merge_exchange(cells: int) -> Iterator[tuple[int, int]]:
    highest = 1 << max(cells - 1, 1).bit_length() - 1
    period = highest
    while period:
        merged, wanted, distance = highest, 0, period
        while True:
            for first in range(cells - distance):
                if first & period == wanted:
                    yield first, first + distance
            if merged == period:
                break
            merged, wanted, distance = merged >> 1, period, merged - period
        period >>= 1


def _select_by_bisection(padded: jax.Array, window: Window, ranks: Sequence[Any]) -> Arrays:
    """The value of each rank in every window without NaN.

    The keys of values are signed, which vector units compare in one instruction. The key of rank r is the largest
    number with at most r keys below it. Starting from the highest, a bit is set if the number with that bit has at most
    r keys below it: as many rounds as there are bits, each a count over shifted slices. No array holds more than one
    cell per window, however large the windows are, and each window may have a rank of its own.
    """
    at_once = max(MOST_IN_BLOCK, _MOST_COUNTED_AT_ONCE // len(ranks)) if known_platform() == "cpu" else MOST_IN_BLOCK
    keys, bits = keys_of(padded), 8 * padded.dtype.itemsize

    def set_bit(number: jax.Array, found: Arrays) -> Arrays:
        bit = jnp.asarray(bits - 1 - number, keys.dtype)
        # The highest bit, which all numbers start with, is cleared: the lowest number becomes 0.
        candidates = [each ^ lax.shift_left(np.array(1, keys.dtype)[()], bit) for each in found]
        below = _count_below((keys,), candidates, window, at_once)
        return tuple(
            jnp.where(count <= rank, candidate, each)
            for count, rank, candidate, each in zip(below, ranks, candidates, found, strict=True)
        )

    lowest = vary_with(jnp.full(window.output_shape(padded.shape), np.iinfo(keys.dtype).min, keys.dtype), keys)
    found = lax.fori_loop(0, bits, set_bit, (lowest,) * len(ranks))
    return tuple(values_of(each, padded.dtype) for each in found)
