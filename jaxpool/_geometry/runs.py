"""Footprints of many cells as runs of adjacent ones.

A row of a footprint is what it has at one offset along all axes but one, and consists of runs. Runs of one length are
made of shorter ones, and windows of runs. A disk of r×r cells has r runs of about r/2 lengths.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from jaxpool._geometry.footprint import FootprintWindow

# The offset of the first cell of a run along every axis.
Start = tuple[int, ...]
# Runs of one length, by how much of it they are made of: pairs of a shorter length and where it starts.
Joints = tuple[tuple[int, int], ...]

# What writing a pass to memory costs besides its reads, in reads.
_COST_OF_PASS = 3
# What reading cells that are a stride apart costs, in reads of adjacent ones.
_COST_OF_STRIDE = 3
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
        return passes * strides + _reads_of_windows(sum(len(starts) for _, starts in self.starts), strides)


def _reads_of_windows(cells: int, strides: int) -> int:
    return cells * (_COST_OF_STRIDE if strides > 1 else 1)


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
    return best if best.reads(strides) < _reads_of_windows(window.held, strides) else None


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
