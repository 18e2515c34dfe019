"""The linear maps along windows: cotangents of the outputs to the inputs, and tangents of the inputs to the outputs.

The cotangent map is written in gather form: every input cell sums over the windows that hold it. Nothing is
scattered, so nothing depends on the order in which a device does its work. Its transpose, the tangent map, is
derived from it by JAX, so that reverse mode gives back exactly the map written here.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine import choose
from jaxpool._engine.phases import gather_windows, interleave_zeros
from jaxpool._engine.reduce import reduce_windows
from jaxpool._engine.select import doubling_shifts
from jaxpool._window import Window


def transposed(
    cotangent_map: Callable[[jax.Array, Any], jax.Array], tangent: jax.Array, residuals: Any, output: jax.Array
) -> jax.Array:
    """Apply the transpose of `cotangent_map(cotangent, residuals)`, linear in the cotangent, to the tangent.

    `output` has the shape and dtype of the cotangent. The checkpoint makes what reverse mode keeps exactly the
    residuals: without it the transposition of the transpose would keep arrays computed from them as well.
    """
    cotangent = jax.ShapeDtypeStruct(output.shape, output.dtype)

    def tangent_map(tangent: jax.Array, residuals: Any) -> jax.Array:
        return jax.linear_transpose(lambda c: cotangent_map(c, residuals), cotangent)(tangent)[0]

    return jax.checkpoint(tangent_map, prevent_cse=False)(tangent, residuals)


def accumulation_dtype(dtype: Any) -> Any:
    """The dtype in which values of `dtype` are summed: float32 for the 16-bit floats, the dtype itself otherwise."""
    return np.dtype(np.float32) if dtype in (jnp.bfloat16, jnp.float16) else np.dtype(dtype)


def spread(cotangent: jax.Array, window: Window) -> jax.Array:
    """Send each output's cotangent to every cell of its window: the transpose of the windowed sum."""
    for part in reversed(choose.reduction_order(window)):
        cotangent = _spread_along(cotangent, part)
    return cotangent


def _spread_along(cotangent: jax.Array, part: Window) -> jax.Array:
    (routed,) = gather_windows(lambda number, outputs, inputs: outputs, [(cotangent, 0)], part)
    return routed


def route_to_winners(cotangent: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """Send each output's cotangent to the cell at its winner's offset.

    The offset is undone one axis at a time, the first axis first: its quotient by the cells of the inner axes
    picks the row of the window, and its remainder is the winner's offset in that row. All outputs that picked
    the same row at the same inner position agree on that remainder, as they share the row's winner: the
    maximum over them, 0 where none did, hands it to the next axis.
    """
    dtype = cotangent.dtype
    cotangent = cotangent.astype(accumulation_dtype(dtype))
    inner_cells = window.cells
    parts = choose.selection_order(window)[::-1]
    for part in parts:
        inner_cells //= part.cells
        divisor = np.array(inner_cells, offsets.dtype)[()]
        outer, inner = (offsets, None) if part is parts[-1] else (offsets // divisor, offsets % divisor)
        lowering = route_by_doubling if choose.doubles(part) else route_by_phases
        cotangent, offsets = _each_behind_barrier(lowering(cotangent, outer, inner, part))
    return cotangent.astype(dtype)


def route_by_phases(
    cotangent: jax.Array, offsets: jax.Array, inner: jax.Array | None, part: Window
) -> tuple[jax.Array, jax.Array | None]:
    """Compare the offset of every window that holds a cell with that cell's place in it."""

    def contribution(number: int, outputs: tuple[jax.Array, ...], inputs: tuple[()]) -> tuple[jax.Array, ...]:
        chosen = outputs[1] == np.array(number, offsets.dtype)[()]
        return tuple(jnp.where(chosen, array, jnp.zeros_like(array)) for array in (outputs[0], *outputs[2:]))

    carried = [] if inner is None else [(inner, 0)]
    routed = gather_windows(contribution, [(cotangent, 0), (offsets, 0), *carried], part, combine=(lax.add, lax.max))
    return routed[0], routed[1] if carried else None


def route_by_doubling(
    cotangent: jax.Array, offsets: jax.Array, inner: jax.Array | None, part: Window
) -> tuple[jax.Array, jax.Array | None]:
    """Undo the steps of `select_by_doubling`, the last one first: each halves the window that the winner is in.

    An offset within the first half stays there, a later one moves to the second half. A node of a step is
    shared by the windows that pass it, and they agree on its winner, so that one offset per node is enough.
    """
    (axis,) = part.axes
    state = [cotangent, offsets] + ([] if inner is None else [inner])
    if axis.stride > 1:
        state = [interleave_zeros(array, axis.axis, axis.stride) for array in state]
    width = axis.kernel
    for shift in reversed(doubling_shifts(axis.kernel)):
        width -= shift
        later = state[1] >= np.array(width, offsets.dtype)[()]
        moved = [state[0], state[1] - np.array(shift, offsets.dtype)[()], *state[2:]]
        state = [
            join(_shift(jnp.where(later, 0, stays), axis.axis, 0, reach), _shift(jnp.where(later, goes, 0), axis.axis, reach, 0))
            for join, stays, goes, reach in zip((lax.add, lax.max, lax.max), state, moved, [shift * axis.dilation] * 3, strict=False)
        ]
        state = _each_behind_barrier(state)
    routed = [_shift(array, axis.axis, -axis.low, -axis.beyond) for array in (state[0], *state[2:])]
    return routed[0], routed[1] if inner is not None else None


def _shift(array: jax.Array, axis: int, low: int, high: int) -> jax.Array:
    config = [(0, 0, 0)] * array.ndim
    config[axis] = (low, high, 0)
    return lax.pad(array, np.array(0, array.dtype)[()], config)


def _each_behind_barrier(arrays):
    """A barrier for each array: one for all of them would tie the linear cotangent to the offsets, which are not."""
    return [array if array is None else lax.optimization_barrier(array) for array in arrays]
