"""The linear maps along windows: cotangents of the outputs to the inputs, and tangents of the inputs to the outputs.

The cotangent map is written in gather form: every input cell sums over the windows that hold it. Nothing is
scattered, so nothing depends on the order in which a device does its work. Its transpose, the tangent map, is
derived from it by JAX, so that reverse mode gives back exactly the map written here.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine import choose
from jaxpool._engine.gather import Held, gather_windows, interleave_zeros
from jaxpool._engine.operations import Arrays, Operation, accumulation_dtype, pad
from jaxpool._engine.pieces import Step, steps, sum_in_pieces
from jaxpool._engine.stages import stage
from jaxpool._geometry.window import Window, WindowAxis


def transposed(
    cotangent_map: Callable[[jax.Array, Any], jax.Array], tangent: jax.Array, residuals: Any, output: jax.Array
) -> jax.Array:
    """Apply the transpose of `cotangent_map(cotangent, residuals)`, linear in the cotangent, to the tangent.

    `output` has the shape and dtype of the cotangent. The checkpoint makes what reverse mode keeps exactly the
    residuals: without it the transposition of the transpose would keep arrays computed from them as well.
    """
    cotangent = jax.typeof(output)

    def tangent_map(tangent: jax.Array, residuals: Any) -> jax.Array:
        return jax.linear_transpose(lambda c: cotangent_map(c, residuals), cotangent)(tangent)[0]

    return jax.checkpoint(tangent_map, prevent_cse=False)(tangent, residuals)


def spread(cotangent: jax.Array, window: Window) -> jax.Array:
    """Send each output's cotangent to every cell of its window: the transpose of the windowed sum."""
    for part in reversed(choose.reduction_order(window, cotangent.shape)):
        if choose.spreads_pieces(part):
            cotangent = spread_in_pieces(cotangent, part)
        else:
            cotangent = spread_by_windows(cotangent, part)
    return cotangent


def spread_by_windows(cotangent: jax.Array, part: Window) -> jax.Array:
    """Add the windows that hold a cell one by one."""

    def contribution(_: jax.Array | int, held: Held, windows: Arrays, cells: Arrays) -> jax.Array:
        return windows[0] if held is True else jnp.where(held, windows[0], jnp.zeros_like(windows[0]))

    return gather_windows(contribution, [(cotangent, 0)], part)


def spread_in_pieces(cotangent: jax.Array, part: Window) -> jax.Array:
    """Add the windows that hold a cell by pieces; for a stride or a dilation of 1.

    A window of kernel = blocks·stride + rest cells is so many blocks of `stride` cells and the rest. Block o' of the
    axis lies in the windows from o' - blocks + 1 to o': its cells get the sum over those, a windowed sum of the
    cotangents, and the cells of the rests get theirs as from windows of their own.
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


def route_to_winners(cotangent: jax.Array, offsets: Sequence[jax.Array], groups: Sequence[Window]) -> jax.Array:
    """Send each output's cotangent to the cell at its winner's offsets, in one group of axes after the other."""
    dtype = cotangent.dtype
    cotangent = cotangent.astype(accumulation_dtype(dtype))
    for group, group_offsets in zip(reversed(groups), reversed(offsets), strict=True):
        cotangent = _route_in_group(cotangent, group_offsets, group)
    return cotangent.astype(dtype)


def _route_in_group(cotangent: jax.Array, offsets: jax.Array, group: Window) -> jax.Array:
    """Send each output's cotangent to the cell at its winner's offset.

    The offset is undone one axis at a time, the first axis first: its quotient by the cells of the inner axes
    picks the row of the window, and its remainder is the winner's offset in that row. All outputs that picked
    the same row at the same inner position agree on that remainder, as they share the row's winner: the
    maximum over them, 0 where none did, carries it to the next axis.
    """
    inner_cells = group.cells
    *outer_parts, last_part = choose.selection_order(group)[::-1]
    for part in outer_parts:
        inner_cells //= part.cells
        divisor = np.array(inner_cells, offsets.dtype)[()]
        row, rest = lax.div(offsets, divisor), lax.rem(offsets, divisor)
        cotangent = _route(cotangent, row, part, lax.add)
        offsets = _route(rest, row, part, lax.max)
    return _route(cotangent, offsets, last_part, lax.add)


def _route(array: jax.Array, offsets: jax.Array, part: Window, op: Operation) -> jax.Array:
    if choose.routes_in_pieces(part):
        return route_in_pieces(array, offsets, part, op)
    # The offsets and what is sent along them are different stages: the map is linear in the latter alone.
    step = partial(route_by_comparison, part=part, op=op)
    if choose.is_stage(part, array.shape):
        return stage(step, array, offsets)
    return lax.optimization_barrier(step(array, offsets))


def route_by_comparison(array: jax.Array, offsets: jax.Array, part: Window, op: Operation) -> jax.Array:
    """Compare the offset of every window that holds a cell with that cell's number in it."""

    def contribution(numbers: jax.Array | int, held: Held, windows: Arrays, cells: Arrays) -> jax.Array:
        chosen = held & (windows[0] == lax.convert_element_type(numbers, offsets.dtype))
        return jnp.where(chosen, windows[1], jnp.zeros_like(windows[1]))

    return gather_windows(contribution, [(offsets, 0), (array, 0)], part, combine=op)


def route_in_pieces(array: jax.Array, offsets: jax.Array, part: Window, op: Operation) -> jax.Array:
    """Undo the steps of `select_in_pieces`, the last one first: each finds the piece that the winner is in.

    A piece is shared by the windows that it is a part of, and those that have their winner in it agree on which of its
    cells that is, so that one offset per piece is enough.
    """
    (axis,) = part.axes
    if axis.stride > 1:
        array, offsets = (interleave_zeros(each, axis.axis, axis.stride) for each in (array, offsets))
    for step in reversed(steps(axis.kernel)):
        cells = step.width == 1
        count = axis.size if cells else array.shape[axis.axis] + step.starts[-1] * axis.dilation
        place = {"step": step, "axis": axis, "first": axis.low if cells else 0, "count": count}
        # The offsets and what is sent along them are different stages, as in `_route`.
        array, offsets = (
            stage(partial(_send_to_pieces, op=op, **place), array, offsets),
            offsets if cells else stage(partial(_send_offsets_to_pieces, **place), offsets),
        )
    return array


def _send_to_pieces(
    array: jax.Array, offsets: jax.Array, *, step: Step, axis: WindowAxis, op: Operation, first: int, count: int
) -> jax.Array:
    """What the windows that have their winner in a piece send, for `count` pieces from number `first` on."""
    return _send(array, offsets, lambda here, _: here, step, axis, op, first, count)


def _send_offsets_to_pieces(offsets: jax.Array, *, step: Step, axis: WindowAxis, first: int, count: int) -> jax.Array:
    """The offset of its winner in every piece that has a window's winner in it, 0 in others."""
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
    """Combine, for every piece, `into(array, start)` of those windows that have their winner in it."""
    reach = step.starts[-1] * axis.dilation
    amounts = {axis.axis: (reach - first, first + count - array.shape[axis.axis])}
    array, offsets = (lax.optimization_barrier(pad(each, amounts, 0)) for each in (array, offsets))
    total = None
    for number, start in enumerate(step.starts):
        begin = reach - start * axis.dilation
        here, place = (lax.slice_in_dim(each, begin, begin + count, 1, axis.axis) for each in (array, offsets))
        low, high = (np.array(min(n * step.width, step.kernel), offsets.dtype)[()] for n in (number, number + 1))
        if step.width == 1:
            chosen = place == low
        else:
            chosen = (place >= low) & (place < high) if number + 1 < len(step.starts) else place >= low
        sent = into(here, np.array(start, offsets.dtype)[()])
        sent = jnp.where(chosen, sent, jnp.zeros_like(sent))
        total = sent if total is None else op(total, sent)
    assert total is not None
    return total
