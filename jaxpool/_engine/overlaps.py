"""Maps from windows back to the cells, through all windows that hold a cell: sums of cotangents, and winners."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.gather import Covered, gather_windows, interleave_zeros
from jaxpool._engine.operations import Arrays, Operation, barrier, pad
from jaxpool._engine.pieces import Step, steps, sum_in_pieces
from jaxpool._engine.platforms import known_platform, on_one_device
from jaxpool._engine.stages import stage
from jaxpool._geometry.bins import has_bins
from jaxpool._geometry.window import Window, WindowAxis


def spread_by_windows(cotangent: jax.Array, part: Window) -> jax.Array:
    """For every cell, add the windows that hold it one by one."""

    def contribution(_: jax.Array | int, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
        return windows[0] if covered is True else jnp.where(covered, windows[0], jnp.zeros_like(windows[0]))

    return gather_windows(contribution, [(cotangent, 0)], part)


def adds_offsets(window: Window) -> bool:
    """Whether a CPU adds what the windows send to each offset, instead of the windows of each cell.

    For up to 2×2 cells and strides of 1 this takes half to two thirds of the time: one loop pads all terms. Each term
    divides the cotangents again, so more cells take up to three times as long.
    """
    strides_are_1 = all(axis.stride == 1 for axis in window.axes)
    few_cells = len(window.axes) > 1 and window.cells <= 4 and not has_bins(window)
    return strides_are_1 and few_cells and known_platform() == "cpu" and on_one_device()


def spread_by_offsets(cotangent: jax.Array, window: Window, weights: np.ndarray | None = None) -> jax.Array:
    """Add what windows with strides of 1 send to their cells at each offset, times a weight: padded cotangents."""
    total = None
    for number, offset in enumerate(itertools.product(*(range(axis.kernel) for axis in window.axes))):
        widths = {}
        for axis, place in zip(window.axes, offset, strict=True):
            start = place * axis.dilation - axis.low
            widths[axis.axis] = (start, axis.size - axis.output - start)
        sent = pad(cotangent if weights is None else cotangent * weights[number], widths, 0)
        total = sent if total is None else total + sent
    assert total is not None
    return total


def spread_in_pieces(cotangent: jax.Array, part: Window) -> jax.Array:
    """For every cell, add the windows that hold it, in pieces; for a stride or a dilation of 1.

    A window of kernel = blocks·stride + rest cells consists of `blocks` blocks of `stride` cells, and a rest. Block o'
    of the axis is in the windows from o' - blocks + 1 to o', so its cells get the sum over these, a windowed sum of the
    cotangents. The cells of the rests get theirs as from separate windows.
    """
    (axis,) = part.axes
    blocks, rest = divmod(axis.kernel, axis.stride)
    reach = (blocks - 1) * axis.dilation
    length = axis.output + 2 * reach
    windows = WindowAxis(axis.axis, length, blocks, 1, axis.dilation, 0, 0, axis.output + reach)
    sums = sum_in_pieces(pad(cotangent, {axis.axis: (reach, reach)}, 0), Window((windows,)))
    whole = replace(axis, kernel=axis.stride, dilation=1, output=axis.output + reach)
    result = spread_by_windows(sums, Window((whole,)))
    if rest:
        last = replace(axis, kernel=rest, low=axis.low - blocks * axis.stride)
        result += spread_by_windows(cotangent, Window((last,)))
    return result


def route_by_comparison(array: jax.Array, offsets: jax.Array, part: Window, op: Operation) -> jax.Array:
    """Compare the offset of every window that holds a cell with the number of the cell in that window."""

    def contribution(numbers: jax.Array | int, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
        chosen = covered & (windows[0] == lax.convert_element_type(numbers, offsets.dtype))
        return jnp.where(chosen, windows[1], jnp.zeros_like(windows[1]))

    return gather_windows(contribution, [(offsets, 0), (array, 0)], part, combine=op)


def route_in_pieces(array: jax.Array, offsets: jax.Array, part: Window, op: Operation) -> jax.Array:
    """Undo the steps of `select_in_pieces`, the last one first: each finds the piece that holds the winner.

    Several windows share a piece. Those with their winner in it agree on which of its cells that is, so one offset per
    piece is enough.
    """
    (axis,) = part.axes
    if axis.stride > 1:
        array, offsets = (interleave_zeros(each, axis.axis, axis.stride) for each in (array, offsets))
    for step in reversed(steps(axis.kernel)):
        cells = step.width == 1
        count = axis.size if cells else array.shape[axis.axis] + step.starts[-1] * axis.dilation
        common = {"step": step, "axis": axis, "first": axis.low if cells else 0, "count": count}
        # The offsets and the values sent to them are separate stages, as in `_route`.
        array, offsets = (
            stage(partial(_send_to_pieces, op=op, **common), array, offsets),
            offsets if cells else stage(partial(_send_offsets_to_pieces, **common), offsets),
        )
    return array


def _send_to_pieces(
    array: jax.Array, offsets: jax.Array, *, step: Step, axis: WindowAxis, op: Operation, first: int, count: int
) -> jax.Array:
    """What the windows with their winner in a piece send to it, for `count` pieces from number `first` on."""
    return _send(array, offsets, lambda here, _: here, step, axis, op, first, count)


def _send_offsets_to_pieces(offsets: jax.Array, *, step: Step, axis: WindowAxis, first: int, count: int) -> jax.Array:
    """The winner's offset in every piece that holds a window's winner; 0 in others."""
    return _send(offsets, offsets, lambda here, start: here - start, step, axis, lax.max, first, count)


def _send(
    array: jax.Array,
    offsets: jax.Array,
    into: Callable[[jax.Array, Any], jax.Array],
    step: Step,
    axis: WindowAxis,
    op: Operation,
    first: int,
    count: int,
) -> jax.Array:
    """For every piece, combine `into(array, start)` over the windows that have their winner in it."""
    reach = step.starts[-1] * axis.dilation
    widths = {axis.axis: (reach - first, first + count - array.shape[axis.axis])}
    array, offsets = (barrier(pad(each, widths, 0)) for each in (array, offsets))
    total = None
    for number, start in enumerate(step.starts):
        begin = reach - start * axis.dilation
        here, offset = (lax.slice_in_dim(each, begin, begin + count, 1, axis.axis) for each in (array, offsets))
        low, high = (np.array(min(n * step.width, step.kernel), offsets.dtype)[()] for n in (number, number + 1))
        if step.width == 1:
            chosen = offset == low
        else:
            chosen = (offset >= low) & (offset < high) if number + 1 < len(step.starts) else offset >= low
        sent = into(here, np.array(start, offsets.dtype)[()])
        sent = jnp.where(chosen, sent, jnp.zeros_like(sent))
        total = sent if total is None else op(total, sent)
    assert total is not None
    return total
