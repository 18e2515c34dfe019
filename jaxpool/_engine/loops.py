"""Loops over the taps of large windows, and the way back for cells that every window chooses for itself.

Small windows are written out. Of larger ones the last axis alone is, and the rows of the window are a loop in the
program, which compiles in the time of one row.

Where the winner of a window is the winner of its row, and windows that share a row share that winner, one axis after
the other leads back to it. Cells chosen at random or by a rank are no such winners: two windows may choose different
cells of the same row, and all axes go at once.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.gather import Held, gather_windows
from jaxpool._engine.operations import Arrays, pad
from jaxpool._engine.taps import at_tap, taps
from jaxpool._sharding import vary_together
from jaxpool._window import Window


def is_looped(window: Window) -> bool:
    """Whether the rows of a window are a loop in the program: beyond 64 cells, if it has more than one row."""
    return window.cells > max(64, window.axes[-1].kernel)


def fold_taps(step: Callable[[Any, Arrays, Any], Any], start: Any, padded: Arrays, window: Window) -> Any:
    """`step(result, cells, number)` for the cells at every tap, numbered in row-major order, from `start` on.

    `padded` are arrays that `pad_windows` made, and `cells` has an entry for each.
    """
    if not is_looped(window):
        result = start
        for number, tap in enumerate(taps(window)):
            result = step(result, tuple(at_tap(array, window, tap) for array in padded), number)
        return result
    rows, row_cells = Window(window.axes[:-1]), window.axes[-1].kernel

    def body(row: jax.Array, result: Any) -> Any:
        starts = _row_starts(row, rows, padded[0].ndim)
        for number, tap in enumerate(taps(Window(window.axes[-1:]))):
            cells = tuple(_at_row(array, window, rows, starts, tap) for array in padded)
            result = step(result, cells, row * row_cells + number)
        return result

    start = jax.tree.map(lambda leaf: vary_together(leaf, *padded)[0], start)
    return lax.fori_loop(0, window.cells // row_cells, body, start)


def _at_row(array: jax.Array, window: Window, rows: Window, starts: Sequence[Any], tap: tuple[int, ...]) -> jax.Array:
    """The cells at one offset of the last axis, in the rows that begin at `starts`."""
    sizes = list(array.shape)
    for axis in rows.axes:
        # An array that is the same along an axis may have size 1 there.
        sizes[axis.axis] = (axis.output - 1) * axis.stride + 1
    row = lax.dynamic_slice(array, starts, sizes)
    return at_tap(row, window, (*(0 for _ in rows.axes), *tap))


def _row_starts(row: jax.Array, rows: Window, rank: int) -> list[jax.Array]:
    """Where the cells of a row of the windows start along each axis, by the row-major number of the row."""
    starts, place = [jnp.zeros_like(row)] * rank, rows.cells
    for axis in rows.axes:
        place //= axis.kernel
        starts[axis.axis] = row // place % axis.kernel * axis.dilation
    return starts


def route_apart(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array], window: Window) -> jax.Array:
    """Send, for each of the cells chosen, each window's cotangent to the cell at its offset."""
    if not is_looped(window) or window.tiles:
        return _route_at_once(cotangents, offsets, window)
    rows, last = Window(window.axes[:-1]), Window(window.axes[-1:])
    shape, gaps = list(cotangents[0].shape), [(0, 0, 0)] * cotangents[0].ndim
    shape[last.axes[0].axis] = last.axes[0].size
    for axis in rows.axes:
        shape[axis.axis] = axis.low + axis.size + axis.beyond
        gaps[axis.axis] = (0, 0, axis.stride - 1)
    row_cells = np.array(last.cells, offsets[0].dtype)[()]
    zero = np.zeros((), cotangents[0].dtype)[()]

    def body(row: jax.Array, total: jax.Array) -> jax.Array:
        here = [lax.div(each, row_cells) == lax.convert_element_type(row, each.dtype) for each in offsets]
        sent = [jnp.where(chosen, each, zero) for chosen, each in zip(here, cotangents, strict=True)]
        sums = lax.pad(_route_at_once(sent, [lax.rem(each, row_cells) for each in offsets], last), zero, gaps)
        starts = _row_starts(row, rows, sums.ndim)
        return lax.dynamic_update_slice(total, lax.dynamic_slice(total, starts, sums.shape) + sums, starts)

    total, *_ = vary_together(jnp.zeros(shape, zero.dtype), *cotangents, *offsets)
    total = lax.fori_loop(0, rows.cells, body, total)
    return pad(total, {axis.axis: (-axis.low, -axis.beyond) for axis in rows.axes}, 0)


def _route_at_once(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array], window: Window) -> jax.Array:
    """Compare the offsets of every window that holds a cell with that cell's number in it."""
    count = len(offsets)

    def contribution(numbers: jax.Array | int, held: Held, windows: Arrays, cells: Arrays) -> jax.Array:
        total = None
        for cotangent, place in zip(windows[:count], windows[count:], strict=True):
            chosen = held & (place == lax.convert_element_type(numbers, place.dtype))
            sent = jnp.where(chosen, cotangent, jnp.zeros_like(cotangent))
            total = sent if total is None else total + sent
        assert total is not None
        return total

    return gather_windows(contribution, [(array, 0) for array in (*cotangents, *offsets)], window)
