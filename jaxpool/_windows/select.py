"""Selections: the extreme of every window and where it is, reading the cells found, and routing to them.

A winner is recorded as its row-major offset in the window, in the smallest unsigned dtype that numbers its cells: one
byte per output up to 256 cells. Only a strictly better cell replaces an earlier one, so the first of several equal
cells wins. NaN wins over every number, and the first NaN over later ones.

Windows may be taken in turn, the last axes first: the first winner of a window in row-major order is the winner of the
first row that has the best winner. All windows that pick the same row share its winner, and so does the way back:
cotangents go from the last of these windows to the first, each along offsets of its own.

Reading the cell at every window's recorded offset is the tangent map of every pool that selects; its transpose routes
cotangents to these cells. Both compare the offsets with the numbers of the cells, so each is one loop over slices, and
data along sharded axes stays in place. Cells chosen at random or by rank are different from winners: two windows may
choose different cells of the same row, so all axes are handled at once.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._jax.stages import materialize, stage
from jaxpool._window import Window, WindowAxis
from jaxpool._windows.cells import (
    MOST_UNROLLED,
    as_tiles,
    cells_at_offsets,
    copy_to_tiles,
    fold_offsets,
    fold_windows,
    is_looped,
    join_blocks,
    most_holders,
    pad_windows,
    put_between,
    reduce_axes,
    split_blocks,
    zeros_after,
)
from jaxpool._windows.gather import Covered, gather_windows
from jaxpool._windows.operations import Arrays, Operation, accumulation_dtype, decode, encode, identity, numbers_of, pad
from jaxpool._windows.reduce import equal_steps, join_pieces

# The extreme of every window, and the row-major offset of the first cell that has it.
Winner = tuple[jax.Array, jax.Array]
# One array for each of the windows that are taken in turn.
Offsets = tuple[jax.Array, ...]
Winners = tuple[jax.Array, Offsets]
# A mask that broadcasts against the cells, and the offsets of the first cells that it holds; for an empty window the
# last of them is the offset of no cell.
Masked = tuple[jax.Array, Offsets]


def select_by_slices(x: jax.Array, window: Window, op: Operation) -> Winner:
    """Compare one shifted slice per cell of the window with the winner of those before it."""
    values, dtype = cells_at_offsets(x, window, identity(op, x.dtype)), number_dtype(window)
    candidates = (
        (cells, jnp.full_like(cells, number, dtype)) for cells, number in zip(values, window.numbers, strict=True)
    )
    return reduce(partial(better, op=op), candidates)


def number_dtype(window: Window) -> np.dtype:
    """The smallest dtype that numbers the cells of a window."""
    return np.min_scalar_type(window.cells - 1)


def select_by_blocks(x: jax.Array, window: Window, op: Operation) -> Winner:
    """Find the extreme, then the lowest number of the cells that equal it; for windows that share no cells."""
    # Read more than once: for the extreme, and again for the cell that has it.
    cells, axes = split_blocks(materialize(pad_windows(x, window, identity(op, x.dtype))), window)
    best = materialize(fold_windows(cells, axes, window, op))
    # In 32 bits: their minimum compiles to faster code than that of bytes. The best of a window that holds NaN is NaN.
    numbers, found = numbers_of(cells.shape, axes, np.uint32), (cells == best) | (cells != cells)
    first = jnp.where(found, numbers, np.uint32(np.iinfo(np.uint32).max)).min(axes, keepdims=True)
    offsets = first.astype(number_dtype(window))
    return join_blocks(best, axes, window), join_blocks(offsets, axes, window)


def better(first: Winner, later: Winner, op: Operation) -> Winner:
    """The winner of an earlier and a later candidate: only a strictly better one replaces the first."""
    is_better = replaces(first[0], later[0], op)
    return lax.select(is_better, later[0], first[0]), lax.select(is_better, later[1], first[1])


def replaces(first: jax.Array, later: jax.Array, op: Operation) -> jax.Array:
    """Whether a later cell is strictly better than the first."""
    ordered = lax.gt if op is lax.max else lax.lt
    if not jnp.issubdtype(first.dtype, jnp.floating):
        return ordered(later, first)
    unordered = lax.le if op is lax.max else lax.ge
    return ~unordered(later, first) & (first == first)


def select_in_pieces(x: jax.Array, window: Window, op: Operation) -> Winner:
    """Take the best of the winners of the pieces."""

    def join(pieces: Sequence[tuple[int, Arrays]]) -> Arrays:
        winners = [(values, within + np.array(start, within.dtype)[()]) for start, (values, within) in pieces]
        return reduce(partial(better, op=op), winners)

    padded = pad_windows(x, window, identity(op, x.dtype))
    values, offsets = join_pieces(join, (padded, jnp.zeros_like(padded, number_dtype(window))), window)
    return values, offsets


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


def select_footprint(x: jax.Array, window: Window, op: Operation) -> Winner:
    """The extreme of every window by `op`, and its row-major offset, one cell after the other."""
    fill, shape = identity(op, x.dtype), window.output_shape(x.shape)

    def take_better(best: Arrays, cells: Arrays, number: Any) -> Arrays:
        return better((best[0], best[1]), (cells[0], jnp.full_like(best[1], number)), op)

    start = jnp.full(shape, fill), jnp.full(shape, window.numbers[0], number_dtype(window))
    values, offsets = fold_offsets(take_better, start, (pad_windows(x, window, fill),), window)
    return values, offsets


def no_offset(window: Window) -> Any:
    """An offset that no cell has."""
    return np.array(window.cells, np.min_scalar_type(window.cells))[()]


def first_real_offsets(rank: int, window: Window, dtype: np.dtype) -> jax.Array:
    """The offset of the first cell of every window that is not low padding, broadcastable against the output."""
    # One for each axis, joined in the program, which need not read a table of them all.
    along = (jnp.asarray(axis.first_real_offsets(rank), dtype) for axis in window.axes)
    return encode(along, [axis.kernel for axis in window.axes[1:]])


def composed(*offsets: jax.Array, windows: Sequence[Window]) -> jax.Array:
    """The row-major offsets of winners among all cells, from those in windows that are taken in turn."""
    (numbers, *others), cells = offsets, windows[0].cells
    for window, own in zip(windows[1:], others, strict=True):
        inner = read_winners(numbers, (own,), (window,))
        numbers = encode((own, inner.astype(np.min_scalar_type(window.cells * cells - 1))), (cells,))
        cells *= window.cells
    return numbers


def winner_positions(offsets: jax.Array, window: Window) -> jax.Array:
    """The int32 row-major position of each winner, or of the cell it copies, among the cells of the pooled axes."""
    positions = []
    along = decode(offsets.astype(jnp.int32), [axis.kernel for axis in window.axes[1:]])
    for axis, offset in zip(window.axes, along, strict=True):
        position = offset * axis.dilation + axis.starts(offsets.ndim)
        if axis.extension is not None:
            position = axis.copied(position)
        positions.append(position)
    return encode(positions, [axis.size for axis in window.axes[1:]])


def read_winners(x: jax.Array, offsets: Sequence[jax.Array], windows: Sequence[Window]) -> jax.Array:
    """Read the cell at each winner's offsets, in one window after the other, as recorded."""
    for window, own in zip(windows, offsets, strict=True):
        x = _read_at_offsets(x, own, window)
    return x


def _read_at_offsets(x: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """Read the cell of every window at its row-major offset; 0 at the offset that no cell has."""
    x, window = copy_to_tiles(x, window, 0), as_tiles(window)
    if not is_looped(window):
        result = jnp.zeros(offsets.shape, x.dtype)
        for number, cells in zip(window.numbers, cells_at_offsets(x, window, 0), strict=True):
            result = jnp.where(offsets == np.array(number, offsets.dtype)[()], cells, result)
        return result
    # Reading more cells at a position that is data is faster than a comparison for each.
    return (_read_in_blocks if window.tiles else _read_at_positions)(pad_windows(x, window, 0), offsets, window)


def _read_in_blocks(padded: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """Sum the cells of every window, with all but one set to 0; for windows that share no cells."""
    cells, axes = split_blocks(padded, window)
    one_cell_each = (replace(axis, size=axis.output, kernel=1, stride=1, low=0, high=0) for axis in window.axes)
    wanted, _ = split_blocks(offsets, Window(tuple(one_cell_each)))
    is_wanted = numbers_of(cells.shape, axes, np.int32) == wanted.astype(np.int32)
    return join_blocks(reduce_axes(jnp.where(is_wanted, cells, jnp.zeros_like(cells)), axes, lax.add), axes, window)


def _read_at_positions(padded: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    positions: list[jax.Array] = [lax.broadcasted_iota(np.int32, offsets.shape, axis) for axis in range(padded.ndim)]
    along = decode(offsets.astype(np.int32), [axis.kernel for axis in window.axes[1:]])
    for axis, offset in zip(window.axes, along, strict=True):
        positions[axis.axis] = positions[axis.axis] * axis.stride + offset * axis.dilation
    cells = padded.at[tuple(positions)].get(mode="clip")
    return jnp.where(offsets.astype(np.int32) < window.cells, cells, jnp.zeros_like(cells))


def _sent(windows: Arrays, numbers: Any, covered: Covered = True) -> jax.Array:
    """The sum of the cotangents of windows, which come after their offsets, where these are the numbers of a cell."""
    sent = []
    for offset, cotangent in zip(windows[: len(windows) // 2], windows[len(windows) // 2 :], strict=True):
        chosen = covered & (offset == lax.convert_element_type(numbers, offset.dtype))
        # Widened after it is sliced: on a TPU a wider array would be in memory.
        term = jnp.where(chosen, cotangent, jnp.zeros_like(cotangent))
        sent.append(term.astype(accumulation_dtype(cotangent.dtype)))
    return reduce(lax.add, sent)


def route_in_pieces(cotangent: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """Send each window's cotangent to the cell at its offset: to the piece that holds it, then to a piece of that.

    Several windows share a piece. Those with their winner in it agree on which of its cells that is, so one offset per
    piece is enough. Here pieces start at every cell, and the last one in a window may overlap the one before: if it
    reached beyond the window, other windows could have a better cell of it.
    """
    (axis,) = window.axes
    cotangent = cotangent.astype(accumulation_dtype(cotangent.dtype))
    cotangent, offsets = (put_between(each, window, 0) for each in (cotangent, offsets))
    kernel = axis.kernel
    # Up to 8 pieces per step cost less than two, as every step reads and writes whole arrays.
    _, most = equal_steps(kernel, 8)
    while kernel > most:
        width = -(-kernel // most)
        starts = [min(start, kernel - width) for start in range(0, kernel, width)]
        # The offsets and the values sent to them are separate stages: the map is linear only in the latter.
        route = partial(_route_to_pieces, starts, width, axis)
        sent = stage(partial(route, lax.add), offsets, cotangent)
        cotangent, offsets, kernel = sent, stage(partial(route, lax.max), offsets), width
    cells = replace(axis, kernel=kernel, stride=1, output=cotangent.shape[axis.axis])
    return stage(partial(add_to_chosen, window=Window((cells,))), [cotangent], [offsets])


def _route_to_pieces(
    starts: Sequence[int], width: int, axis: WindowAxis, op: Operation, offsets: jax.Array, *cotangent: jax.Array
) -> jax.Array:
    """The cotangents of the windows with their winner in a piece, or else the winner's offset in it; 0 in others."""
    reach, count = starts[-1] * axis.dilation, offsets.shape[axis.axis] + starts[-1] * axis.dilation
    arrays = [materialize(pad(each, {axis.axis: (reach, reach)}, 0)) for each in (offsets, *cotangent)]
    sent = []
    for start in starts:
        place = reach - start * axis.dilation
        offset, *entry = (lax.slice_in_dim(each, place, place + count, 1, axis.axis) for each in arrays)
        # A cell in the last two pieces counts as one of the first of them.
        low = -(-start // width) * width
        chosen = offset >= np.array(low, offset.dtype)[()]
        if start < starts[-1]:
            chosen &= offset < np.array(low + width, offset.dtype)[()]
        found = entry[0] if entry else offset - np.array(start, offset.dtype)[()]
        sent.append(jnp.where(chosen, found, jnp.zeros_like(found)))
    return reduce(op, sent)


def add_to_chosen(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array], window: Window) -> jax.Array:
    """For each of the chosen cells, send each window's cotangent to the cell at its offset; in the dtype of sums."""
    arrays = (*offsets, *cotangents)
    if not is_looped(window) or window.has_bins or most_holders(window) <= MOST_UNROLLED:

        def contribution(numbers: Any, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
            return _sent(windows, numbers, covered)

        return gather_windows(contribution, [(each, 0) for each in arrays], window)
    holders = window.holders()
    padded = tuple(pad_windows(put_between(each, window, 0), holders, 0) for each in arrays)

    def add(total: jax.Array, windows: Arrays, number: Any) -> jax.Array:
        # At the first place that holds a cell is the window whose last cell it is.
        return total + _sent(windows, window.cells - 1 - number)

    dtype = accumulation_dtype(cotangents[0].dtype)
    shape = holders.output_shape(cotangents[0].shape)
    return fold_offsets(add, zeros_after(shape, dtype, window, *offsets), padded, holders)
