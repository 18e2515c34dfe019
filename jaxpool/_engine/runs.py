"""Footprints of many cells as runs of adjacent ones: about a pass for each length of a run, not a read for each cell.

A row of a footprint is what it has at one offset along all axes but one, and consists of runs. One pass over the cells
combines all runs of one length, from shorter ones. Then every window combines its runs. A disk of r×r cells has r runs
of about r/2 lengths, and takes about 4·r reads for a window at a stride of 1, where cell by cell it takes r²·π/4.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce

import jax
import numpy as np
from jax import lax

from jaxpool._engine.operations import Operation, combine, identity
from jaxpool._engine.reductions import reduce_by_slices, spread_by_windows
from jaxpool._engine.stages import stage
from jaxpool._engine.window_offsets import at_offset, pad_windows
from jaxpool._geometry.footprint import FootprintWindow

# The offset of the first cell of a run along every axis.
Start = tuple[int, ...]
# Runs of one length, by how much of it they are made of: pairs of a shorter length and where it starts.
Joints = tuple[tuple[int, int], ...]

# What writing a pass to memory costs besides its reads, in reads.
_COST_OF_PASS = 3
# Up to so many cells, one loop reads them all.
_MOST_READS = 16


@dataclass(frozen=True)
class Runs:
    """A footprint as runs.

    Attributes:
        axis: The number of the axis that they run along, among those of the window.
        lengths: What runs of each length are made of, in ascending order, single cells left out.
        starts: By length, the first cells of the runs of the footprint.
    """

    axis: int
    lengths: tuple[tuple[int, Joints], ...]
    starts: tuple[tuple[int, tuple[Start, ...]], ...]

    def reads(self, strides: int) -> int:
        """Reads for each window, if there is one for so many cells."""
        passes = sum(len(joints) + _COST_OF_PASS for _, joints in self.lengths)
        return passes * strides + sum(len(starts) for _, starts in self.starts)


def reduce_footprint(x: jax.Array, window: FootprintWindow, op: Operation) -> jax.Array:
    """Combine the cells of every window by `op`, one of `lax.max`, `lax.min` and `lax.add`."""
    runs = runs_of(window, op is lax.add)
    return reduce_by_slices(x, window, op) if runs is None else reduce_by_runs(x, window, runs, op)


def spread_footprint(cotangent: jax.Array, window: FootprintWindow) -> jax.Array:
    """Send each output's cotangent to every cell of its window."""
    holders = window.holders()
    if holders is None or runs_of(window, True) is None:
        return spread_by_windows(cotangent, window)
    return reduce_footprint(cotangent, holders, lax.add)


@lru_cache(maxsize=1024)
def runs_of(window: FootprintWindow, disjoint: bool) -> Runs | None:
    """The runs that take the fewest reads, if they are fewer than a read for each cell.

    Joints of `disjoint` runs share no cells, as those of a sum must not.
    """
    strides = int(np.prod([axis.stride for axis in window.axes if axis.output > 1]))
    if window.held <= _MOST_READS:
        return None
    choices = [_along(window, axis, disjoint) for axis in reversed(range(len(window.axes)))]
    best = min(choices, key=lambda runs: runs.reads(strides))
    return best if best.reads(strides) < window.held else None


def _along(window: FootprintWindow, axis: int, disjoint: bool) -> Runs:
    by_length: dict[int, list[Start]] = {}
    for start, length in _runs(window.footprint.held, axis):
        by_length.setdefault(length, []).append(start)
    lengths: list[tuple[int, Joints]] = []
    known = [1]
    for length in sorted(by_length):
        # Lengths in between, so that none is made of many.
        while length > 8 * known[-1]:
            lengths.append((4 * known[-1], _joints(4 * known[-1], known, disjoint)))
            known.append(4 * known[-1])
        if length not in known:
            lengths.append((length, _joints(length, known, disjoint)))
            known = sorted([*known, length])
    starts = tuple((length, tuple(by_length[length])) for length in sorted(by_length))
    return Runs(axis, tuple(lengths), starts)


def _runs(held: np.ndarray, axis: int) -> Iterator[tuple[Start, int]]:
    """The first cell and the length of every run along an axis."""
    before = np.roll(held, 1, axis)
    after = np.roll(held, -1, axis)
    place: list[slice | int] = [slice(None)] * held.ndim
    place[axis] = 0
    before[tuple(place)] = False
    place[axis] = -1
    after[tuple(place)] = False
    firsts, lasts = (np.moveaxis(ends, axis, -1) for ends in (held & ~before, held & ~after))
    for (*others, first), (*_, last) in zip(np.argwhere(firsts).tolist(), np.argwhere(lasts).tolist(), strict=True):
        yield (*others[:axis], first, *others[axis:]), last - first + 1


def _joints(length: int, known: Sequence[int], disjoint: bool) -> Joints:
    """Runs of this length from known ones, as few as possible from the longest on."""
    made, done = [], 0
    while done < length:
        rest = length - done
        # Extremes of runs that overlap may take the longest ones up to the end.
        longest = max(each for each in known if each <= (rest if disjoint or not made else known[-1]))
        start = done if longest <= rest else length - longest
        made.append((longest, start))
        done = start + longest
    return tuple(made)


def reduce_by_runs(x: jax.Array, window: FootprintWindow, runs: Runs, op: Operation) -> jax.Array:
    """Combine runs of each length, and then those of every window.

    What is known of the windows is brought up to date for each length, so that few arrays are in memory at a time.
    """
    along = window.axes[runs.axis]
    known, starts = {1: pad_windows(x, window, identity(op, x.dtype))}, dict(runs.starts)
    size = known[1].shape[along.axis]

    def join(*arrays: jax.Array, joints: Joints, length: int) -> jax.Array:
        count = size - (length - 1) * along.dilation
        given = dict(zip(dict.fromkeys(each for each, _ in joints), arrays, strict=True))
        cells = [
            lax.slice_in_dim(given[each], start * along.dilation, start * along.dilation + count, 1, along.axis)
            for each, start in joints
        ]
        return combine(op, cells)

    def add_runs(array: jax.Array, *total: jax.Array, length: int) -> jax.Array:
        return combine(op, [*total, *(at_offset(array, window, start) for start in starts[length])])

    total = [stage(partial(add_runs, length=1), known[1])] if 1 in starts else []
    for length, joints in runs.lengths:
        used = dict.fromkeys(each for each, _ in joints)
        known[length] = stage(partial(join, joints=joints, length=length), *(known[each] for each in used))
        if length in starts:
            total = [stage(partial(add_runs, length=length), known[length], *total)]
    return reduce(op, total)
