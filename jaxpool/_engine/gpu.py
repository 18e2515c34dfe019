"""Lowerings for GPUs, and for TPUs where they have no other: which one evaluates which window, and what they share.

Loops are bound by memory bandwidth. A loop's repeated reads come from a cache, about nine times as fast as memory: up
to about fifty reads per result cost less than writing and reading one more array. All numbers here follow from that,
none from a measurement.
"""

import math
from collections.abc import Sequence

import jax
import numpy as np
from jax import lax

from jaxpool._engine import winners
from jaxpool._engine.blocks import combine_devices, is_shared, join_blocks, split_blocks
from jaxpool._engine.loops import reduce_footprint, route_to_chosen, select_footprint, spread_footprint
from jaxpool._engine.operations import Arrays, Operation, identity, numbers_of, reduction_dtype
from jaxpool._engine.pieces import reduce_in_pieces, route_in_pieces, select_in_pieces, spread_in_pieces
from jaxpool._engine.reductions import (
    reduce_by_reduce_window,
    reduce_by_slices,
    spread_by_reduce_window,
    spread_by_windows,
)
from jaxpool._engine.slices import (
    Winner,
    better,
    number_dtype,
    route_by_comparison,
    select_by_slices,
    select_present_by_slices,
)
from jaxpool._engine.window_offsets import pad_windows
from jaxpool._engine.winners import Masked, Winners
from jaxpool._kernels import FootprintWindow
from jaxpool._window import Window

# The most reads per result in one loop: windows of 7×7 cells.
MOST_READS = 49
# The most terms per result that are unrolled, or that are powers or exponentials.
MOST_TERMS = 16


def order(window: Window) -> tuple[Window, ...]:
    """The windows that a reduction or a selection applies one after the other, the last axes first."""
    at_once = window.cells <= MOST_READS or reduces_whole_axes(window)
    return (window,) if at_once else window.split()


def correlation_order(window: Window) -> tuple[Window, ...]:
    """The windows that a weighted sum is taken over, one after the other, the last one first."""
    return (window,) if window.cells <= MOST_READS else window.split()


def reduces_whole_axes(window: Window) -> bool:
    """Whether windows are reduced as whole axes: large windows that share no cells."""
    return window.tiles and window.cells > MOST_READS and not window.has_bins


def takes_pieces(part: Window) -> bool:
    """Whether windows are assembled from pieces: beyond 64 cells along an axis, so that work grows logarithmically."""
    return len(part.axes) == 1 and part.cells > 64 and not (part.tiles or part.has_footprint)


def reduce_windows(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window of x by `op`: `lax.max`, `lax.min` or `lax.add`. Sums of 16-bit floats are float32."""
    x = x.astype(reduction_dtype(op, x.dtype))
    for part in order(window):
        if isinstance(part, FootprintWindow):
            x = reduce_footprint(x, part, op)
        elif reduces_whole_axes(part):
            x = reduce_by_axes(x, part, op)
        elif takes_pieces(part):
            x = reduce_in_pieces(x, part, op)
        elif part.cells <= MOST_TERMS:
            x = reduce_by_slices(x, part, op)
        else:
            # It computes four results at once.
            x = reduce_by_reduce_window(x, part, op)
    return x


def reduce_by_axes(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce whole axes, for windows that share no cells: each axis becomes one of windows and one of their cells."""
    fill = identity(op, x.dtype)
    cells, axes = split_blocks(pad_windows(x, window, fill), window)
    if is_shared(window):
        reduced = combine_devices(cells, axes, op)
    else:
        reduced = lax.expand_dims(lax.reduce(cells, fill, op, axes), axes)
    return join_blocks(reduced, axes, window)


def spread(cotangent: jax.Array, window: Window) -> jax.Array:
    """Send each output's cotangent to every cell of its window: the transpose of the windowed sum."""
    if isinstance(window, FootprintWindow):
        return spread_footprint(cotangent, window)
    for part in reversed(order(window)):
        # The windows that hold a cell are added one by one if they are few.
        overlap = math.prod(-(-axis.extent // axis.stride) for axis in part.axes)
        if takes_pieces(part):
            cotangent = spread_in_pieces(cotangent, part)
        elif overlap <= MOST_TERMS:
            cotangent = spread_by_windows(cotangent, part)
        else:
            cotangent = spread_by_reduce_window(cotangent, part)
    return cotangent


def first_winners(x: jax.Array, masked: Masked | None, windows: Sequence[Window], op: Operation) -> Winners:
    """The extreme of every window by `op` and the offset of its cell; see `winners.first_winners`.

    Small windows read a mask at every cell, instead of filling masked cells beforehand.
    """
    if masked is None or len(windows) > 1 or windows[0].cells > MOST_READS:
        return winners.first_winners(x, masked, select, windows, op)
    (window,) = windows
    values, offsets = select_present_by_slices(x, masked[0], winners.no_offset(window), window, op)
    return values, (offsets,)


def select(x: jax.Array, window: Window, op: Operation) -> Winner:
    """The extreme of every window, and the offset of the first cell that has it."""
    if reduces_whole_axes(window):
        return select_by_axes(x, window, op)
    if isinstance(window, FootprintWindow):
        return select_footprint(x, window, op)
    return (select_in_pieces if takes_pieces(window) else select_by_slices)(x, window, op)


def select_by_axes(x: jax.Array, window: Window, op: Operation) -> Winner:
    """Reduce whole axes of pairs of a cell and its number, for windows that share no cells."""
    cells, axes = split_blocks(pad_windows(x, window, identity(op, x.dtype)), window)
    # Zeros with the sharding of the cells, which vary over the same devices.
    found = (cells != cells).astype(np.int32) * np.int32(0) + numbers_of(cells.shape, axes, np.int32)

    def first(one: Arrays, other: Arrays) -> Winner:
        # Whatever the order of the pairs, the one with the lower number counts as the first.
        swapped = one[1] > other[1]
        early = lax.select(swapped, other[0], one[0]), lax.min(one[1], other[1])
        late = lax.select(swapped, one[0], other[0]), lax.max(one[1], other[1])
        return better(early, late, op)

    start = (identity(op, x.dtype), np.int32(np.iinfo(np.int32).max))
    values, found = (lax.expand_dims(each, axes) for each in lax.reduce((cells, found), start, first, axes))
    return join_blocks(values, axes, window), join_blocks(found, axes, window).astype(number_dtype(window))


def route(cotangent: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """Send each window's cotangent to the cell at its offset."""
    if isinstance(window, FootprintWindow):
        return route_to_chosen([cotangent], [offsets], window)
    if takes_pieces(window):
        return route_in_pieces(cotangent, offsets, window)
    return route_by_comparison([cotangent], [offsets], window)
