"""Selections by shifted slices, the cells at one offset of all windows at a time; reading winners, and routing to them.

A winner is recorded as its row-major offset in the window. Only a strictly better cell replaces an earlier one, so the
first of several equal cells wins. NaN wins over every number, and the first NaN over later ones.

Reading the cell at every window's recorded offset is the tangent map of every pool that selects; its transpose routes
cotangents to these cells. Both compare the offsets with the numbers of the cells, so each is one loop over slices, and
data along sharded axes stays in place.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.bins_as_tiles import in_tiles
from jaxpool._engine.blocks import first_in_blocks, join_blocks, split_blocks
from jaxpool._engine.gather import Covered, gather_windows
from jaxpool._engine.operations import (
    Arrays,
    Operation,
    accumulation_dtype,
    decode,
    identity,
    numbers_of,
    reduction_dtype,
)
from jaxpool._engine.stages import materialize
from jaxpool._engine.window_offsets import cells_at_offsets, pad_windows
from jaxpool._window import Window

# The extreme of every window, and the row-major offset of the first cell that has it.
Winner = tuple[jax.Array, jax.Array]
# With more cells, reading at a position that is data is faster than a comparison for each cell.
_MOST_COMPARISONS = 64


def select_by_slices(x: jax.Array, window: Window, op: Operation) -> Winner:
    """Compare one shifted slice per cell of the window with the winner of those before it."""
    values, dtype = cells_at_offsets(x, window, identity(op, x.dtype)), number_dtype(window)
    candidates = (
        (cells, jnp.full_like(cells, number, dtype)) for cells, number in zip(values, window.numbers, strict=True)
    )
    return reduce(partial(better, op=op), candidates)


def reduce_by_comparison(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window of x by plain operations, for interpreters of programs that know no windowed ones.

    JAX's own derivative of a maximum shares ties, and that of a windowed one scatters. Here a cell replaces another
    only if it is strictly better, by `select`: so the derivative of the program is that of the first winner.
    """

    def best(first: jax.Array, later: jax.Array) -> jax.Array:
        return lax.select(replaces(first, later, op), later, first)

    x = x.astype(reduction_dtype(op, x.dtype))
    for part in window.split():
        x = reduce(lax.add if op is lax.add else best, cells_at_offsets(x, part, identity(op, x.dtype)))
    return x


def number_dtype(window: Window) -> np.dtype:
    """The smallest dtype that numbers the cells of a window."""
    return np.min_scalar_type(window.cells - 1)


def select_present_by_slices(x: jax.Array, mask: jax.Array, none: Any, part: Window, op: Operation) -> Winner:
    """The winner among the cells that a mask holds; the offset is `none` if there are none.

    The mask is read at every cell of the window: an array with masked cells filled in, which windows read many times,
    would be a separate kernel on a GPU.
    """
    values, mask_cells = cells_at_offsets(x, part, identity(op, x.dtype)), cells_at_offsets(mask, part, False)
    best = None
    for number, cells, present in zip(part.numbers, values, mask_cells, strict=True):
        index = np.array(number, none.dtype)[()]
        if best is None:
            best = cells, jnp.broadcast_to(jnp.where(present, index, none), cells.shape)
        else:
            wins = jnp.where(best[1] == none, True, replaces(best[0], cells, op))
            wins = jnp.where(present, wins, False)
            best = jnp.where(wins, cells, best[0]), jnp.where(wins, index, best[1])
    assert best is not None
    return best


def select_by_blocks(x: jax.Array, window: Window, op: Operation) -> Winner:
    """Find the extreme, then the lowest number of the cells that equal it; for windows that share no cells."""
    # Read more than once: for the extreme, and again for the cell that has it.
    return first_in_blocks(materialize(pad_windows(x, window, identity(op, x.dtype))), window, op)


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


def read_winners(x: jax.Array, offsets: Sequence[jax.Array], windows: Sequence[Window]) -> jax.Array:
    """Read the cell at each winner's offsets, in one window after the other, as recorded."""
    for window, own in zip(windows, offsets, strict=True):
        x = _read_at_offsets(x, own, window)
    return x


def _read_at_offsets(x: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """Read the cell of every window at its row-major offset; 0 at the offset that no cell has."""
    if window.has_bins:
        x, window = in_tiles(x, window, 0)
    if window.held <= _MOST_COMPARISONS:
        return _read_by_comparison(x, offsets, window)
    return (_read_in_blocks if window.tiles else _read_at_positions)(pad_windows(x, window, 0), offsets, window)


def _read_by_comparison(x: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    result = jnp.zeros(offsets.shape, x.dtype)
    for number, cells in zip(window.numbers, cells_at_offsets(x, window, 0), strict=True):
        result = jnp.where(offsets == np.array(number, offsets.dtype)[()], cells, result)
    return result


def _read_in_blocks(padded: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """Sum the cells of every window, with all but one set to 0; for windows that share no cells."""
    cells, axes = split_blocks(padded, window)
    one_cell_each = (replace(axis, size=axis.output, kernel=1, stride=1, low=0, high=0) for axis in window.axes)
    wanted, _ = split_blocks(offsets, Window(tuple(one_cell_each)))
    is_wanted = numbers_of(cells.shape, axes, np.int32) == wanted.astype(np.int32)
    read = jnp.where(is_wanted, cells, jnp.zeros_like(cells))
    total = lax.reduce(read, np.zeros((), read.dtype)[()], lax.add, axes)
    return join_blocks(lax.expand_dims(total, axes), axes, window)


def _read_at_positions(padded: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    positions: list[jax.Array] = [lax.broadcasted_iota(np.int32, offsets.shape, axis) for axis in range(padded.ndim)]
    along = decode(offsets.astype(np.int32), [axis.kernel for axis in window.axes[1:]])
    for axis, offset in zip(window.axes, along, strict=True):
        positions[axis.axis] = positions[axis.axis] * axis.stride + offset * axis.dilation
    cells = padded.at[tuple(positions)].get(mode="clip")
    return jnp.where(offsets.astype(np.int32) < window.cells, cells, jnp.zeros_like(cells))


def route_by_comparison(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array], window: Window) -> jax.Array:
    """Send each window's cotangents to the cells at its offsets; 16-bit floats are added in float32.

    Every offset of a window that holds a cell is compared with the number of the cell in that window.
    """

    def contribution(numbers: Any, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
        sent = []
        for offset, cotangent in zip(windows[: len(offsets)], windows[len(offsets) :], strict=True):
            chosen = covered & (offset == lax.convert_element_type(numbers, offset.dtype))
            # Widened after it is sliced: on a TPU a wider array would be in memory.
            term = jnp.where(chosen, cotangent, jnp.zeros_like(cotangent))
            sent.append(term.astype(accumulation_dtype(cotangent.dtype)))
        return reduce(lax.add, sent)

    return gather_windows(contribution, [(each, 0) for each in (*offsets, *cotangents)], window)
