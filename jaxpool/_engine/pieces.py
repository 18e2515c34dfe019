"""Long windows along one axis taken over pieces: log(kernel) steps instead of one per cell, to the windows and back.

The cells are pooled in windows of a few cells, the pieces; these in windows of a few pieces; and so on. A window
consists of as many of the longest pieces as fit, then of shorter ones, down to single cells; no two share a cell. Every
step combines its pieces pairwise, so the rounding error of a sum grows with log2(kernel). The transpose of a sum
is itself a windowed sum. On the way back from a window to its winner every step finds the piece that holds it.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.gather import Covered, gather_windows
from jaxpool._engine.operations import Arrays, Operation, accumulation_dtype, combine, identity, merge_axis
from jaxpool._engine.reductions import spread_by_windows
from jaxpool._engine.slices import Winner, better, number_dtype, route_by_comparison
from jaxpool._engine.stages import stage
from jaxpool._engine.window_offsets import cells_at_offsets, pad_windows
from jaxpool._window import Window, WindowAxis

# The most pieces that make a longer one.
_MOST_PIECES = 16

# Makes one piece of several, from the number of the first cell of each, and what is known of it for all windows.
Join = Callable[[Sequence[tuple[int, Arrays]]], Arrays]


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


def _equal_steps(kernel: int, most: int) -> tuple[int, int]:
    """How many steps of at most so many pieces make so many cells, and the least number of pieces that does."""
    steps = next(steps for steps in itertools.count(1) if most**steps >= kernel)
    return steps, next(pieces for pieces in itertools.count(1) if pieces**steps >= kernel)


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


def divide_window(axis: WindowAxis) -> Division:
    """The division of windows along an axis, in which 16 pieces at most make a longer one."""
    steps, factor = _equal_steps(axis.kernel, _MOST_PIECES)
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
    for kind in range(steps - 1):
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


def reduce_in_pieces(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine the cells of every window by `op`, in pairs of pieces."""
    padded = pad_windows(x, window, identity(op, x.dtype))
    (result,) = _join_pieces(partial(join_cells, op=op), (padded,), window)
    return result


def select_in_pieces(x: jax.Array, window: Window, op: Operation) -> Winner:
    """Take the best of the winners of the pieces."""
    padded = pad_windows(x, window, identity(op, x.dtype))
    first = jnp.zeros_like(padded, number_dtype(window))
    values, offsets = _join_pieces(partial(join_winners, op=op), (padded, first), window)
    return values, offsets


def join_cells(pieces: Sequence[tuple[int, Arrays]], op: Operation) -> Arrays:
    return (combine(op, [cells for _, (cells,) in pieces]),)


def join_winners(pieces: Sequence[tuple[int, Arrays]], op: Operation) -> Arrays:
    winners = [(values, within + np.array(start, within.dtype)[()]) for start, (values, within) in pieces]
    return reduce(partial(better, op=op), winners)


def _join_pieces(join: Join, padded: Arrays, window: Window) -> Arrays:
    """Combine the cells of every window by `join`, in steps."""
    (axis,) = window.axes
    division = divide_window(replace(axis, size=padded[0].shape[axis.axis], low=0, high=0))

    def joined(*sources: Arrays, groups: Sequence[Pieces]) -> Arrays:
        pieces = []
        for group, arrays in zip(groups, sources, strict=True):
            reached = (lax.slice_in_dim(array, group.first, group.end, 1, axis.axis) for array in arrays)
            of_windows = zip(*(cells_at_offsets(array, group.window, 0) for array in reached), strict=True)
            pieces += [(group.start + number * group.width, known) for number, known in enumerate(of_windows)]
        return join(pieces)

    kinds = [padded]
    for pieces in division.kinds:
        kinds.append(stage(partial(joined, groups=(pieces,)), kinds[pieces.kind]))
    return stage(partial(joined, groups=division.groups), *(kinds[pieces.kind] for pieces in division.groups))


def spread_in_pieces(cotangent: jax.Array, part: Window) -> jax.Array:
    """For every cell, add the windows that hold it, in pieces.

    A window of kernel = blocks·stride + rest cells consists of `blocks` blocks of `stride` cells, and a rest. Block b
    of window o is block o + b·dilation of the axis. So the cells of a block get a windowed sum of the cotangents, and
    those of the rests get theirs as from separate windows.
    """
    (axis,) = part.axes
    blocks, rest = divmod(axis.kernel, axis.stride)
    if not blocks:
        return spread_by_windows(cotangent, part)
    reach = (blocks - 1) * axis.dilation
    windows = WindowAxis(axis.axis, axis.output, blocks, 1, axis.dilation, reach, reach, axis.output + reach)
    sums = reduce_in_pieces(cotangent, Window((windows,)), lax.add)
    result = spread_by_windows(sums, Window((replace(axis, kernel=axis.stride, output=axis.output + reach),)))
    if rest:
        last = replace(axis, kernel=rest, low=axis.low - blocks * axis.stride * axis.dilation)
        result += spread_by_windows(cotangent, Window((last,)))
    return result


def route_in_pieces(cotangent: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """Send each window's cotangent to the cell at its offset: to the piece that holds it, then to a piece of that.

    Several windows share a piece. Those with their winner in it agree on which of its cells that is, so one offset per
    piece is enough. Here pieces start at every cell, and the last one in a window may overlap the one before: if it
    reached beyond the window, other windows could have a better cell of it.
    """
    (axis,) = window.axes
    cotangent = cotangent.astype(accumulation_dtype(cotangent.dtype))
    if axis.stride > 1:
        cotangent, offsets = (_interleave_zeros(each, axis.axis, axis.stride) for each in (cotangent, offsets))
    kernel = axis.kernel
    # Up to 8 pieces per step cost less than two, as every step reads and writes whole arrays.
    _, most = _equal_steps(kernel, 8)
    while kernel > most:
        width = -(-kernel // most)
        starts = [min(start, kernel - width) for start in range(0, kernel, width)]
        # The offsets and the values sent to them are separate stages: the map is linear only in the latter.
        route = partial(route_to_pieces, starts=starts, width=width, axis=axis)
        sent = stage(partial(route, op=lax.add), offsets, cotangent)
        cotangent, offsets, kernel = sent, stage(partial(route, op=lax.max), offsets), width
    cells = replace(axis, kernel=kernel, stride=1, output=cotangent.shape[axis.axis])
    return stage(partial(route_by_comparison, window=Window((cells,))), [cotangent], [offsets])


def route_to_pieces(
    *arrays: jax.Array, starts: Sequence[int], width: int, axis: WindowAxis, op: Operation
) -> jax.Array:
    """The entries of the windows with their winner in a piece, or else the winner's offset in the piece; 0 in others.

    The offsets of winners come before the entries. Windows start at every cell along the axis; their pieces have this
    width, and these starts in the window, whose last cell is that of the last piece.
    """
    output = arrays[0].shape[axis.axis]
    size, kernel = output + starts[-1] * axis.dilation, starts[-1] + width
    windows = Window((replace(axis, size=size, kernel=kernel, stride=1, low=0, output=output),))

    def contribution(start: Any, _: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
        offset, *entry = windows
        number = partial(np.full, (), dtype=offset.dtype)
        # A cell in the last two pieces counts as one of the first of them.
        low = -(-start // width) * width
        chosen = offset >= number(low)
        if start < starts[-1]:
            chosen &= offset < number(low + width)
        sent = entry[0] if entry else offset - number(start)
        return jnp.where(chosen, sent, jnp.zeros_like(sent))

    return gather_windows(contribution, [(each, 0) for each in arrays], windows, combine=op, offsets=starts)


def _interleave_zeros(array: jax.Array, axis: int, stride: int) -> jax.Array:
    """Put stride - 1 zeros between the entries of an axis."""
    shape = [1] * (array.ndim + 1)
    shape[axis + 1] = stride
    first = lax.broadcasted_iota(np.int32, shape, axis + 1) == 0
    spaced = jnp.where(first, jnp.expand_dims(array, axis + 1), np.array(0, array.dtype)[()])
    return lax.slice_in_dim(merge_axis(spaced, axis), 0, (array.shape[axis] - 1) * stride + 1, 1, axis)
