"""Reductions of windows, and the transposes of their sums: by slices, by `lax.reduce_window`, by blocks, by pieces.

`lax.reduce_window` is the reference. Shifted slices are combined elementwise, which keeps NaN. Windows that share no
cells are folded as blocks. The transpose of a sum adds, for every cell, the windows that hold it, or is a windowed sum
of the cotangents with zeros between them.

*Pieces.* Long windows along one axis are pooled in windows of a few cells, the pieces; these in windows of a few
pieces; and so on. A window consists of as many of the longest pieces as fit, then of shorter ones, down to single
cells; no two share a cell. It takes log(kernel) steps instead of one per cell. Every step combines its pieces
pairwise, so the rounding error of a sum grows with log2(kernel).
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._jax.stages import materialize, private_copy, stage
from jaxpool._window import Window
from jaxpool._windows.cells import (
    as_tiles,
    cells_at_offsets,
    copy_to_tiles,
    fold,
    fold_offsets,
    fold_windows,
    join_blocks,
    pad_windows,
    split_blocks,
)
from jaxpool._windows.gather import Covered, gather_windows, where_covered
from jaxpool._windows.operations import Arrays, Operation, combine, identity, reduction_dtype


def reduce_by_slices(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine one shifted slice per cell of the window elementwise, which keeps NaN whatever the overlap."""
    return reduce(op, cells_at_offsets(x, window, identity(op, x.dtype)))


def reduce_by_reduce_window(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every cell of the window; not maxima without overlap on a CPU, which may drop NaN."""
    x, window = copy_to_tiles(x, window, identity(op, x.dtype)), as_tiles(window)
    if any(axis.low > 0 or axis.overhang > 0 for axis in window.axes):
        x = private_copy(x, identity(op, x.dtype))
    return native_reduce_window(x, window, op)


def native_reduce_window(x: jax.Array, window: Window, op: Operation, spacing: Sequence[int] = ()) -> jax.Array:
    """Apply `lax.reduce_window`, differentiable without dilation, to cells that are `spacing` places apart."""
    rank = x.ndim
    dimensions, strides, dilations, padding, places = [1] * rank, [1] * rank, [1] * rank, [(0, 0)] * rank, [1] * rank
    for axis in window.axes:
        dimensions[axis.axis] = axis.kernel
        # Cells left over after a single window must not make another one.
        strides[axis.axis] = axis.stride if axis.output > 1 else axis.low + axis.size + axis.extent
        dilations[axis.axis] = axis.dilation
        padding[axis.axis] = (axis.low, max(axis.overhang, 0))
    for axis, distance in zip(window.axes, spacing, strict=False):
        # Along a sharded axis the compiler fails for a single cell with interior padding.
        places[axis.axis] = distance if x.shape[axis.axis] > 1 else 1
    found = lax.reduce_window(
        x, identity(op, x.dtype), op, dimensions, strides, padding, base_dilation=places, window_dilation=dilations
    )
    for axis in window.axes:
        # Padding that became real cells may have room for one more window than `ceil_mode` counts.
        if found.shape[axis.axis] != axis.output:
            found = lax.slice_in_dim(found, 0, axis.output, 1, axis.axis)
    return found


def spread_by_windows(cotangent: jax.Array, part: Window, weights: np.ndarray | None = None) -> jax.Array:
    """For every cell, add the windows that hold it one by one, each times a weight for the number of the cell in it."""

    def contribution(numbers: Any, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
        sent = windows[0]
        if weights is not None:
            sent *= (jnp if isinstance(numbers, jax.Array) else np).take(weights, numbers, mode="clip")
        return where_covered(covered, sent, jnp.zeros_like(sent))

    return gather_windows(contribution, [(cotangent, 0)], part)


def reduce_blocks(x: jax.Array, window: Window, op: Operation, alone: Callable[..., jax.Array] = fold) -> jax.Array:
    """Reduce windows that share no cells; see `fold_windows`."""
    cells, axes = split_blocks(pad_windows(x, window, identity(op, x.dtype)), window)
    return join_blocks(fold_windows(cells, axes, window, op, alone), axes, window)


def reduce_bins(x: jax.Array, part: Window, op: Operation) -> jax.Array:
    """Reduce every bin along one axis, slice by slice."""
    (axis,), dtype = part.axes, reduction_dtype(op, x.dtype)
    ends = ((axis.start(bin), axis.end(bin)) for bin in range(axis.output))
    # Widened after they are sliced: a wider array would be in memory.
    slices = [lax.slice_in_dim(x, start, end, 1, axis.axis).astype(dtype) for start, end in ends]
    reduced = [lax.reduce(cells, identity(op, dtype), op, (axis.axis,)) for cells in slices]
    return lax.concatenate([lax.expand_dims(each, (axis.axis,)) for each in reduced], axis.axis)


def spread_bins(cotangent: jax.Array, part: Window) -> jax.Array:
    """The transpose of the sum of every bin along one axis: cells between two edges are in the same bins."""
    (axis,), stretches = part.axes, []
    starts, ends = axis.start(np.arange(axis.output)), axis.end(np.arange(axis.output))
    for first, end in itertools.pairwise(np.union1d(starts, ends).tolist()):
        holders = np.flatnonzero((starts <= first) & (end <= ends)).tolist()
        total = reduce(lax.add, [lax.slice_in_dim(cotangent, bin, bin + 1, 1, axis.axis) for bin in holders])
        shape = [end - first if number == axis.axis else size for number, size in enumerate(total.shape)]
        stretches.append(jnp.broadcast_to(total, shape))
    return lax.concatenate(stretches, axis.axis)


def reduce_footprint(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine the cells of every window by `op`, one of `lax.max`, `lax.min` and `lax.add`, one after the other."""
    fill = identity(op, x.dtype)
    padded = pad_windows(x, window, fill)
    start = materialize(jnp.full(window.output_shape(x.shape), fill), padded)
    return fold_offsets(lambda total, cells, _: op(total, cells[0]), start, (padded,), window)


# The most pieces that make a longer one.
_MOST_PIECES = 16
# Makes one piece of several, from the number of the first cell of each, and what is known of it for all windows.
Join = Callable[[Sequence[tuple[int, Arrays]]], Arrays]


def equal_steps(kernel: int, most: int) -> tuple[int, int]:
    """How many steps of at most so many pieces make so many cells, and the least number of pieces that does."""
    steps = next(steps for steps in itertools.count(1) if most**steps >= kernel)
    return steps, next(pieces for pieces in itertools.count(1) if pieces**steps >= kernel)


def reduce_in_pieces(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine the cells of every window by `op`, in pairs of pieces."""
    padded = (pad_windows(x, window, identity(op, x.dtype)),)
    (result,) = join_pieces(lambda pieces: (combine(op, [cells for _, (cells,) in pieces]),), padded, window)
    return result


def join_pieces(join: Join, padded: Arrays, window: Window) -> Arrays:
    """Combine the cells of every window along one axis by `join`, in steps of at most 16 pieces."""
    (axis,) = window.axes
    # A single window has any stride.
    stride = axis.stride if axis.output > 1 else 0

    def joined(known: Arrays, width: int, distance: int, first: int, pieces: int, spacing: int, count: int) -> Any:
        """So many pieces, `first` cells after each of `count` starts: the first cell of each, and what is known."""
        for number in range(pieces):
            start, step = (first + number * width) * axis.dilation // distance, max(1, spacing // distance)
            end = start + (count - 1) * step + 1
            yield first + number * width, tuple(lax.slice_in_dim(each, start, end, step, axis.axis) for each in known)

    # Of every kind of pieces: what is known of each, the cells in one, and the distance between the first cells of two.
    kinds = [(padded, 1, 1)]
    steps, factor = equal_steps(axis.kernel, _MOST_PIECES)
    for _ in range(steps - 1):
        known, width, distance = kinds[-1]
        # Windows start at multiples of the stride, and pieces in them at multiples of their own extent.
        spacing = math.gcd(stride, factor * width * axis.dilation)
        count = ((axis.output - 1) * stride + (axis.kernel - factor * width) * axis.dilation) // spacing + 1
        step = partial(joined, width=width, distance=distance, first=0, pieces=factor, spacing=spacing, count=count)
        kinds.append((stage(lambda *known, step=step: join([*step(known)]), *known), factor * width, spacing))

    def whole(*arrays: Arrays) -> Arrays:
        pieces, done = [], 0
        for known, (_, width, distance) in zip(arrays, reversed(kinds), strict=True):
            count = (axis.kernel - done) // width
            pieces += joined(known, width, distance, done, count, stride, axis.output)
            done += count * width
        return join(pieces)

    return stage(whole, *(known for known, _, _ in reversed(kinds)))
