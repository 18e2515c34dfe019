"""Long windows along one axis as windows of windows, so that work and programs grow with the logarithm of their length.

The cells are pooled in windows of a few cells, the pieces; these in windows of a few pieces; and so on. A window of k
cells consists of as many of the longest pieces as fit, then of shorter ones, down to single cells. No two of them share
a cell, so any pool that may be taken over one axis after the other may be taken over pieces, and then over their
groups.
"""

import itertools
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from jaxpool._window import Window, WindowAxis

_MOST_PIECES = 16
# What a result costs besides its terms, in terms.
_COST_OF_RESULT = 10


@dataclass(frozen=True)
class Pieces:
    """Windows of cells, or of pieces of one kind.

    Attributes:
        kind: Which pieces: how many kinds are shorter, cells included.
        first, end: The pieces that the windows reach, of all those along the axis.
        window: The windows of these pieces.
        width: The cells of a piece.
        start: The first cell of the pieces in a long window.
    """

    kind: int
    first: int
    end: int
    window: Window
    width: int
    start: int

    @property
    def cells(self) -> int:
        """The cells of one window."""
        return self.width * self.window.cells


@dataclass(frozen=True)
class Division:
    """Long windows, divided into pieces.

    Attributes:
        kinds: What makes each kind of pieces, the shortest first.
        groups: The pieces that make up every window, those at its start first.
    """

    kinds: tuple[Pieces, ...]
    groups: tuple[Pieces, ...]


@lru_cache(maxsize=1024)
def divide_window(window: Window) -> Division:
    """The division of windows along one axis that takes the fewest terms."""
    (axis,) = window.axes
    return _divide(window, min(_choices(axis.kernel), key=partial(_terms, axis)))


def _choices(kernel: int) -> Iterator[tuple[int, ...]]:
    """How many pieces of each kind make one of the next."""
    if kernel <= _MOST_PIECES:
        yield ()
    for count in range(1, math.ceil(math.log(kernel, _MOST_PIECES)) + 1):
        # All but one alike: the number of choices grows with the logarithm of the kernel.
        for most, last in itertools.product(range(2, _MOST_PIECES + 1), repeat=2):
            for factors in ((*[most] * (count - 1), last), (last, *[most] * (count - 1))):
                if kernel // _MOST_PIECES <= math.prod(factors) <= kernel:
                    yield factors


def _terms(axis: WindowAxis, factors: tuple[int, ...]) -> int:
    """The terms of the division by these factors."""
    widths = [1, *itertools.accumulate(factors, operator.mul)]
    terms = 0
    for factor, width in zip(factors, widths[1:], strict=True):
        _, count = _distance_and_count(axis, width)
        terms += count * (factor + _COST_OF_RESULT)
    groups, rest = [], axis.kernel
    for width in reversed(widths):
        count, rest = divmod(rest, width)
        groups += [count] if count else []
    if len(groups) > 1:
        groups.append(len(groups))
    return terms + sum(axis.output * (count + _COST_OF_RESULT) for count in groups)


def _distance_and_count(axis: WindowAxis, width: int) -> tuple[int, int]:
    """The distance between the first cells of two pieces of so many cells, and how many pieces there are."""
    stride = _stride(axis)
    # Windows start at multiples of the stride, and pieces in them at multiples of their own extent.
    distance = math.gcd(stride, width * axis.dilation)
    reached = (axis.output - 1) * stride + axis.extent
    return distance, (reached - (width - 1) * axis.dilation - 1) // distance + 1


def _stride(axis: WindowAxis) -> int:
    """The stride, 0 for a single window, which has any."""
    return axis.stride if axis.output > 1 else 0


def _divide(window: Window, factors: tuple[int, ...]) -> Division:
    (axis,) = window.axes
    # Of every kind: the pieces as an axis, the length of a piece, and the distance between the first cells of two.
    sources = [(axis, 1, 1)]

    def windows(kind: int, start: int, count: int, distance: int, output: int) -> Pieces:
        """Windows of so many pieces, the first one from cell `start` on, the padding included."""
        pieces, width, step = sources[kind]
        spacing, skipped = width * axis.dilation // step, start * axis.dilation // step - pieces.low
        stride = distance // step or (count - 1) * spacing + 1
        end = skipped + (output - 1) * stride + (count - 1) * spacing + 1
        first, low, high = max(0, skipped), max(0, -skipped), max(0, end - pieces.size)
        end = min(end, pieces.size)
        along = WindowAxis(pieces.axis, end - first, count, stride, spacing, low, high, output)
        made = Window((along,))
        return Pieces(kind, first, end, made, width, start)

    kinds: list[Pieces] = []
    for kind, factor in enumerate(factors):
        longer = sources[kind][1] * factor
        distance, count = _distance_and_count(axis, longer)
        kinds.append(windows(kind, 0, factor, distance, count))
        sources.append((replace(axis, size=count, low=0, high=0), longer, distance))
    groups: list[Pieces] = []
    done = 0
    for kind, (_, width, _) in reversed(list(enumerate(sources))):
        count = (axis.kernel - done) // width
        if count:
            groups.append(windows(kind, done, count, _stride(axis), axis.output))
            done += count * width
    # Others hold padding only.
    return Division(tuple(kinds), tuple(group for group in groups if group.first < group.end))
