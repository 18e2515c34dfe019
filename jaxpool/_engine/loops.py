"""Loops over the offsets in large windows, and the way back for cells that every window chooses for itself.

Small windows are written out. Larger ones are written out one row at a time, all cells along the last axis or an equal
part of them, and the program loops over the rows: it compiles in the time of one.

Where the winner of a window is the winner of its row, and windows that share a row share that winner, one axis after
the other leads back to it. Cells chosen at random or by a rank are no such winners: two windows may choose different
cells of the same row, and all axes go at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.gather import Covered, gather_windows
from jaxpool._engine.operations import Arrays, pad
from jaxpool._engine.window_offsets import at_offset, offsets_in
from jaxpool._geometry.window import Window
from jaxpool._sharding import vary_together


def is_looped(window: Window) -> bool:
    """Whether the rows of a window are a loop in the program: beyond 64 cells."""
    return window.cells > 64


def fold_offsets(step: Callable[[Any, Arrays, Any], Any], start: Any, padded: Arrays, window: Window) -> Any:
    """`step(result, cells, number)` for the cells at every offset, numbered in row-major order, from `start` on.

    `padded` are arrays that `pad_windows` made, and `cells` has an entry for each.
    """
    if not is_looped(window):
        result = start
        for number, offset in enumerate(offsets_in(window)):
            result = step(result, tuple(at_offset(array, window, offset) for array in padded), number)
        return result
    row_cells = _row_cells(window)

    def body(row: jax.Array, result: Any) -> Any:
        starts = _row_starts(row * row_cells, window, padded[0].ndim)
        rows = tuple(lax.dynamic_slice(array, starts, _row_shape(array.shape, window)) for array in padded)
        for number in range(row_cells):
            cells = tuple(at_offset(array, window, (*(0 for _ in window.axes[1:]), number)) for array in rows)
            result = step(result, cells, row * row_cells + number)
        return result

    start = jax.tree.map(lambda leaf: vary_together(leaf, *padded)[0], start)
    return lax.fori_loop(0, window.cells // row_cells, body, start)


def _row_cells(window: Window) -> int:
    """How many cells of the last axis are written out: all, or the largest part of 64 that divides them."""
    cells = window.axes[-1].kernel
    return next(part for part in range(min(cells, 64), 0, -1) if cells % part == 0)


def _row_shape(shape: Sequence[int], window: Window) -> list[int]:
    """The shape of the cells of one row of all the windows."""
    sizes = list(shape)
    for axis in window.axes:
        # An array that is the same along an axis may have size 1 there.
        sizes[axis.axis] = (axis.output - 1) * axis.stride + 1
    sizes[window.axes[-1].axis] += (_row_cells(window) - 1) * window.axes[-1].dilation
    return sizes


def _row_starts(number: jax.Array, window: Window, rank: int) -> list[jax.Array]:
    """Where the cells of a row start along each axis, by the row-major number of its first cell in the window."""
    starts, place_value = [jnp.zeros_like(number)] * rank, window.cells
    for axis in window.axes:
        place_value //= axis.kernel
        starts[axis.axis] = number // place_value % axis.kernel * axis.dilation
    return starts


def route_to_chosen(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array], window: Window) -> jax.Array:
    """Send, for each of the cells chosen, each window's cotangent to the cell at its offset."""
    if not is_looped(window) or window.tiles:
        return _route_at_once(cotangents, offsets, window)
    row_cells, row_shape = _row_cells(window), _row_shape(cotangents[0].shape, window)
    shape, gaps = list(cotangents[0].shape), [(0, 0, 0)] * cotangents[0].ndim
    for axis in window.axes:
        shape[axis.axis] = axis.low + axis.size + axis.overhang
        gaps[axis.axis] = (0, 0, axis.stride - 1)
    last = window.axes[-1]
    gaps[last.axis] = (0, 0, 0)
    row_axis = replace(last, size=row_shape[last.axis], kernel=row_cells, low=0, high=0)
    divisor = np.array(row_cells, offsets[0].dtype)[()]
    zero = np.zeros((), cotangents[0].dtype)[()]

    def body(row: jax.Array, total: jax.Array) -> jax.Array:
        here = [lax.div(each, divisor) == lax.convert_element_type(row, each.dtype) for each in offsets]
        sent = [jnp.where(chosen, each, zero) for chosen, each in zip(here, cotangents, strict=True)]
        within = [lax.rem(each, divisor) for each in offsets]
        sums = lax.pad(_route_at_once(sent, within, Window((row_axis,))), zero, gaps)
        starts = _row_starts(row * row_cells, window, sums.ndim)
        return lax.dynamic_update_slice(total, lax.dynamic_slice(total, starts, sums.shape) + sums, starts)

    total, *_ = vary_together(jnp.zeros(shape, zero.dtype), *cotangents, *offsets)
    total = lax.fori_loop(0, window.cells // row_cells, body, total)
    return pad(total, {axis.axis: (-axis.low, -axis.overhang) for axis in window.axes}, 0)


def _route_at_once(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array], window: Window) -> jax.Array:
    """Compare the offsets of every window that holds a cell with that cell's number in it."""
    count = len(offsets)

    def contribution(numbers: jax.Array | int, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
        total = None
        for cotangent, offset in zip(windows[:count], windows[count:], strict=True):
            chosen = covered & (offset == lax.convert_element_type(numbers, offset.dtype))
            sent = jnp.where(chosen, cotangent, jnp.zeros_like(cotangent))
            total = sent if total is None else total + sent
        assert total is not None
        return total

    return gather_windows(contribution, [(array, 0) for array in (*cotangents, *offsets)], window)
