"""The linear maps along windows: cotangents of the outputs to the inputs, and tangents of the inputs to the outputs.

The cotangent map is written in gather form: every input cell sums over the windows that hold it. Nothing is
scattered, so nothing depends on the order in which a device does its work. Its transpose, the tangent map, is
derived from it by JAX, so that reverse mode gives back exactly the map written here.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine import choose
from jaxpool._engine.doubling import doubling_shifts, sum_by_doubling
from jaxpool._engine.gather import Held, gather_windows, interleave_zeros
from jaxpool._engine.operations import Arrays, accumulation_dtype, pad
from jaxpool._window import Window, WindowAxis


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
    for part in reversed(choose.reduction_order(window)):
        if choose.spreads_by_doubling(part):
            cotangent = spread_by_doubling(cotangent, part)
        else:
            cotangent = spread_by_windows(cotangent, part)
    return cotangent


def spread_by_windows(cotangent: jax.Array, part: Window) -> jax.Array:
    """Add the windows that hold a cell one by one."""

    def contribution(_: jax.Array | int, held: Held, windows: Arrays, cells: Arrays) -> Arrays:
        return windows if held is True else (jnp.where(held, windows[0], jnp.zeros_like(windows[0])),)

    return gather_windows(contribution, [(cotangent, 0)], part)[0]


def spread_by_doubling(cotangent: jax.Array, part: Window) -> jax.Array:
    """Add the windows that hold a cell by halves; for a stride or a dilation of 1.

    A window of kernel = blocks·stride + rest cells is so many blocks of `stride` cells and the rest. Block o' of the
    axis lies in the windows from o' - blocks + 1 to o': its cells get the sum over those, a windowed sum of the
    cotangents, and the cells of the rests get theirs as from windows of their own.
    """
    (axis,) = part.axes
    blocks, rest = divmod(axis.kernel, axis.stride)
    reach = (blocks - 1) * axis.dilation
    length = axis.output + 2 * reach
    windows = WindowAxis(axis.axis, length, blocks, 1, axis.dilation, 0, 0, axis.output + reach)
    sums = sum_by_doubling(pad(cotangent, {axis.axis: (reach, reach)}, 0), Window((windows,)))
    whole = replace(axis, kernel=axis.stride, dilation=1, output=axis.output + reach)
    result = spread_by_windows(sums, Window((whole,)))
    if rest:
        last = replace(axis, kernel=rest, low=axis.low - blocks * axis.stride)
        result += spread_by_windows(cotangent, Window((last,)))
    return result


def route_to_winners(cotangent: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """Send each output's cotangent to the cell at its winner's offset.

    The offset is undone one axis at a time, the first axis first: its quotient by the cells of the inner axes
    picks the row of the window, and its remainder is the winner's offset in that row. All outputs that picked
    the same row at the same inner position agree on that remainder, as they share the row's winner: the
    maximum over them, 0 where none did, carries it to the next axis.
    """
    dtype = cotangent.dtype
    cotangent = cotangent.astype(accumulation_dtype(dtype))
    inner_cells = window.cells
    *outer_parts, last_part = choose.selection_order(window)[::-1]
    for part in outer_parts:
        inner_cells //= part.cells
        divisor = np.array(inner_cells, offsets.dtype)[()]
        row, rest = lax.div(offsets, divisor), lax.rem(offsets, divisor)
        cotangent, (offsets,) = _route(cotangent, row, (rest,), part)
    cotangent, _ = _route(cotangent, offsets, (), last_part)
    return cotangent.astype(dtype)


def _route(cotangent: jax.Array, offsets: jax.Array, carried: Arrays, part: Window) -> tuple[jax.Array, Arrays]:
    lowering = route_by_doubling if choose.routes_by_doubling(part) else route_by_comparison
    cotangent, carried = lowering(cotangent, offsets, carried, part)
    return _barrier(cotangent), tuple(map(_barrier, carried))


def route_by_comparison(
    cotangent: jax.Array, offsets: jax.Array, carried: Arrays, part: Window
) -> tuple[jax.Array, Arrays]:
    """Compare the offset of every window that holds a cell with that cell's number in it."""

    def contribution(numbers: jax.Array | int, held: Held, windows: Arrays, cells: Arrays) -> Arrays:
        chosen = held & (windows[0] == lax.convert_element_type(numbers, offsets.dtype))
        return tuple(jnp.where(chosen, array, jnp.zeros_like(array)) for array in windows[1:])

    outputs = [(offsets, 0), (cotangent, 0), *((array, 0) for array in carried)]
    combine = [lax.add, *(lax.max for _ in carried)]
    routed, *others = gather_windows(contribution, outputs, part, combine=combine)
    return routed, tuple(others)


def route_by_doubling(
    cotangent: jax.Array, offsets: jax.Array, carried: Arrays, part: Window
) -> tuple[jax.Array, Arrays]:
    """Undo the steps of `select_by_doubling`, the last one first: each halves the window that the winner is in.

    An offset within the first half stays there, a later one moves to the second half. A node of a step is
    shared by the windows that pass through it, and they agree on its winner, so one offset per node is enough.
    """
    (axis,) = part.axes
    if axis.stride > 1:
        cotangent, offsets, *others = (
            interleave_zeros(array, axis.axis, axis.stride) for array in (cotangent, offsets, *carried)
        )
        carried = tuple(others)
    width = axis.kernel
    for shift in reversed(doubling_shifts(axis.kernel)):
        width -= shift
        later = offsets >= np.array(width, offsets.dtype)[()]
        reach = shift * axis.dilation

        def join(op: Callable[..., jax.Array], stays: jax.Array, moves: jax.Array) -> jax.Array:
            zero = np.array(0, stays.dtype)[()]
            first_half = _extend(jnp.where(later, zero, stays), axis.axis, 0, reach)  # noqa: B023
            second_half = _extend(jnp.where(later, moves, zero), axis.axis, reach, 0)  # noqa: B023
            return _barrier(op(first_half, second_half))

        cotangent = join(lax.add, cotangent, cotangent)
        carried = tuple(join(lax.max, array, array) for array in carried)
        offsets = join(lax.max, offsets, offsets - np.array(shift, offsets.dtype)[()])
    routed, *others = (_extend(array, axis.axis, -axis.low, -axis.beyond) for array in (cotangent, *carried))
    return routed, tuple(others)


def _extend(array: jax.Array, axis: int, low: int, high: int) -> jax.Array:
    return pad(array, {axis: (low, high)}, 0)


def _barrier(array: jax.Array) -> jax.Array:
    # One array at a time: a barrier around several would tie the cotangent, in which the map is linear, to the
    # offsets, in which it is not, and could not be transposed.
    return lax.optimization_barrier(array)
