"""Reductions of windows, and the transposes of their sums: by slices, by `lax.reduce_window`, by blocks, by pieces.

`lax.reduce_window` is the reference. Shifted slices are combined elementwise, which keeps NaN. Windows that share no
cells are folded as blocks. The transpose of a sum adds, for every cell, the windows that hold it, or is a windowed sum
of the cotangents with zeros between them.

*Pieces.* Long windows along one axis are pooled in windows of a few cells, the pieces; these in windows of a few
pieces; and so on. A window consists of as many of the longest pieces as fit, then of shorter ones, down to single
cells; no two share a cell. So it takes log(kernel) steps instead of one per cell. Every step combines its pieces
pairwise, so the rounding error of a sum grows with log2(kernel).
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

from jaxpool._jax.stages import materialize, private_copy, stage
from jaxpool._window import Window, WindowAxis
from jaxpool._windows.cells import (
    cells_at_offsets,
    combine_devices,
    fold_offsets,
    fold_windows,
    in_tiles,
    is_shared,
    join_blocks,
    pad_windows,
    split_blocks,
)
from jaxpool._windows.gather import Covered, gather_windows, where_covered
from jaxpool._windows.operations import Arrays, Operation, combine, identity, pad, reduction_dtype


def reduce_by_slices(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine one shifted slice per cell of the window elementwise, which keeps NaN whatever the overlap."""
    return reduce(op, cells_at_offsets(x, window, identity(op, x.dtype)))


def reduce_by_reduce_window(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every cell of the window for every output.

    Not for maxima and minima of windows that do not overlap on a CPU, not even of a single window: the CPU's reduction
    may drop NaN.
    """
    if window.has_bins:
        x, window = in_tiles(x, window, identity(op, x.dtype))
    if any(axis.low > 0 or axis.overhang > 0 for axis in window.axes):
        x = private_copy(x, identity(op, x.dtype))
    return native_reduce_window(x, window, op)


def native_reduce_window(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Apply `lax.reduce_window`, which JAX can differentiate by its own rules if there is no dilation."""
    rank = x.ndim
    dimensions, strides, dilations, padding = [1] * rank, [1] * rank, [1] * rank, [(0, 0)] * rank
    for axis in window.axes:
        dimensions[axis.axis] = axis.kernel
        # Cells left over after a single window must not make another one.
        strides[axis.axis] = axis.stride if axis.output > 1 else axis.low + axis.size + axis.extent
        dilations[axis.axis] = axis.dilation
        padding[axis.axis] = (axis.low, max(axis.overhang, 0))
    found = lax.reduce_window(x, identity(op, x.dtype), op, dimensions, strides, padding, window_dilation=dilations)
    for axis in window.axes:
        # Padding that became real cells may have room for one more window than `ceil_mode` counts.
        if found.shape[axis.axis] != axis.output:
            found = lax.slice_in_dim(found, 0, axis.output, 1, axis.axis)
    return found


def spread_by_reduce_window(cotangent: jax.Array, window: Window) -> jax.Array:
    """The transpose of the windowed sum: a windowed sum over the cotangents with zeros between them.

    With stride - 1 zeros after each, window o is at position o·stride, and the windows that hold cell i are at the
    positions i + low - j·dilation, 0 ≤ j < kernel: these form a window for every cell.
    """
    rank = cotangent.ndim
    dimensions, spacing, dilations, padding = [1] * rank, [1] * rank, [1] * rank, [(0, 0)] * rank
    for axis in window.axes:
        dimensions[axis.axis], dilations[axis.axis] = axis.kernel, axis.dilation
        # Along a sharded axis the compiler fails for a single output with interior padding.
        spacing[axis.axis] = axis.stride if axis.output > 1 else 1
        before = axis.extent - 1 - axis.low
        length = (axis.output - 1) * axis.stride + 1
        padding[axis.axis] = before, axis.size + axis.extent - 1 - before - length
    zero = identity(lax.add, cotangent.dtype)
    if window.cells == 1:
        # XLA aborts on a window of one cell if negative padding leaves one cell of the array.
        return lax.pad(cotangent, zero, [(*ends, each - 1) for ends, each in zip(padding, spacing, strict=True)])
    return lax.reduce_window(
        cotangent,
        zero,
        lax.add,
        dimensions,
        [1] * rank,
        padding,
        base_dilation=spacing,
        window_dilation=dilations,
    )


def spread_by_windows(cotangent: jax.Array, part: Window, weights: np.ndarray | None = None) -> jax.Array:
    """For every cell, add the windows that hold it one by one, each times a weight for the number of the cell in it."""

    def contribution(numbers: Any, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
        sent = windows[0]
        if weights is not None:
            sent *= (jnp if isinstance(numbers, jax.Array) else np).take(weights, numbers, mode="clip")
        return where_covered(covered, sent, jnp.zeros_like(sent))

    return gather_windows(contribution, [(cotangent, 0)], part)


def reduce_blocks(padded: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce windows that tile an array, by `lax.max`, `lax.min` or `lax.add`."""
    cells, axes = split_blocks(padded, window)
    return join_blocks(fold_windows(cells, axes, window, op), axes, window)


def reduce_by_axes(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce whole axes, for windows that share no cells: each axis becomes one of windows and one of their cells."""
    fill = identity(op, x.dtype)
    cells, axes = split_blocks(pad_windows(x, window, fill), window)
    if is_shared(window):
        reduced = combine_devices(cells, axes, op)
    else:
        reduced = lax.expand_dims(lax.reduce(cells, fill, op, axes), axes)
    return join_blocks(reduced, axes, window)


def reduce_footprint(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine the cells of every window by `op`, one of `lax.max`, `lax.min` and `lax.add`, one after the other."""
    fill = identity(op, x.dtype)
    padded = pad_windows(x, window, fill)
    start = materialize(jnp.full(window.output_shape(x.shape), fill), padded)
    return fold_offsets(lambda total, cells, _: op(total, cells[0]), start, (padded,), window)


def spread_footprint(cotangent: jax.Array, window: Window) -> jax.Array:
    """Send each output's cotangent to every cell of its window."""
    between = pad(cotangent, {axis.axis: (0, 0, axis.stride - 1) for axis in window.axes}, 0)
    return reduce_footprint(between, window.holders(), lax.add)


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


def equal_steps(kernel: int, most: int) -> tuple[int, int]:
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
    steps, factor = equal_steps(axis.kernel, _MOST_PIECES)
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
    (result,) = join_pieces(partial(join_cells, op=op), (padded,), window)
    return result


def join_cells(pieces: Sequence[tuple[int, Arrays]], op: Operation) -> Arrays:
    return (combine(op, [cells for _, (cells,) in pieces]),)


def join_pieces(join: Join, padded: Arrays, window: Window) -> Arrays:
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


def reduce_bins(x: jax.Array, part: Window, op: Operation) -> jax.Array:
    """Reduce every bin along one axis, slice by slice; sums of 16-bit floats are float32."""
    (axis,), dtype = part.axes, reduction_dtype(op, x.dtype)
    # Widened after they are sliced: a wider array would be in memory.
    bins = [
        lax.slice_in_dim(x, start, start + count, 1, axis.axis)
        for start, count in ((axis.start(bin), axis.held_by(bin, padding=False)) for bin in range(axis.output))
    ]
    reduced = [lax.reduce(cells.astype(dtype), identity(op, dtype), op, (axis.axis,)) for cells in bins]
    return lax.concatenate([lax.expand_dims(each, (axis.axis,)) for each in reduced], axis.axis)


def spread_bins(cotangent: jax.Array, part: Window) -> jax.Array:
    """The transpose of the sum of every bin along one axis: cells between two edges are in the same bins."""
    (axis,) = part.axes
    starts, ends = axis.start(np.arange(axis.output)), axis.end(np.arange(axis.output))
    edges = np.union1d(starts, ends).tolist()
    stretches = []
    for first, end in itertools.pairwise(edges):
        holders = np.flatnonzero((starts <= first) & (end <= ends)).tolist()
        total = reduce(lax.add, [lax.slice_in_dim(cotangent, bin, bin + 1, 1, axis.axis) for bin in holders])
        shape = list(total.shape)
        shape[axis.axis] = end - first
        stretches.append(jnp.broadcast_to(total, shape))
    return lax.concatenate(stretches, axis.axis)
