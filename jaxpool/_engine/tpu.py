"""Lowerings for TPUs where they differ from a GPU's: native windowed operations, and slices in place of gathers.

Bins of unequal sizes are sliced one by one. Copies of all bins side by side take 2 to 7 times the cycles.
"""

import itertools
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine import gpu, winners
from jaxpool._engine.operations import Operation, accumulation_dtype, identity, if_all, reduction_dtype
from jaxpool._engine.reductions import (
    native_reduce_window,
    reduce_by_reduce_window,
    spread_by_reduce_window,
    spread_by_windows,
)
from jaxpool._engine.window_offsets import holds_all_cells
from jaxpool._platforms import on_one_device
from jaxpool._window import Window

# The most bins along an axis that are sliced one by one.
_MOST_SLICES = 64


def reduce_windows(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window of x by `op`: `lax.max`, `lax.min` or `lax.add`. Sums of 16-bit floats are float32."""
    dtype = reduction_dtype(op, x.dtype)
    if _slices_bins(window):
        # The first axis first: rows are then added whole. The other order takes 4 to 7 times the cycles. Bins are
        # widened after they are sliced, as a wider array would be in memory.
        for part in reversed(window.split()):
            if part.has_bins:
                x = _reduce_bins(x, part, op, dtype)
            else:
                x = reduce_by_reduce_window(x.astype(dtype), part, op)
        return x
    x = x.astype(dtype)
    if window.has_footprint:
        return gpu.reduce_windows(x, window, op)
    for part in gpu.order(window):
        if gpu.reduces_whole_axes(part):
            x = gpu.reduce_by_axes(x, part, op)
        else:
            x = reduce_by_reduce_window(x, part, op)
    return x


def spread(cotangent: jax.Array, window: Window) -> jax.Array:
    """Send each output's cotangent to every cell of its window: the transpose of the windowed sum."""
    if window.has_footprint:
        return gpu.spread(cotangent, window)
    if _slices_bins(window):
        for part in window.split():
            cotangent = _spread_bins(cotangent, part) if part.has_bins else spread_by_reduce_window(cotangent, part)
        return cotangent
    for part in reversed(gpu.order(window)):
        # Of whole axes it is a broadcast, which readers make themselves; a windowed sum would be in memory.
        lowering = spread_by_windows if part.has_bins or holds_all_cells(part) else spread_by_reduce_window
        cotangent = lowering(cotangent, part)
    return cotangent


def _slices_bins(window: Window) -> bool:
    """Whether bins are sliced one by one: not where devices may share their axis, nor if the program would be long."""
    return window.has_bins and on_one_device() and all(axis.output <= _MOST_SLICES for axis in window.axes)


def _reduce_bins(x: jax.Array, part: Window, op: Operation, dtype: Any) -> jax.Array:
    """Reduce every bin along one axis, in this dtype."""
    (axis,) = part.axes
    bins = [
        lax.slice_in_dim(x, start, start + count, 1, axis.axis)
        for start, count in ((axis.start(bin), axis.held_by(bin, padding=False)) for bin in range(axis.output))
    ]
    reduced = [lax.reduce(cells.astype(dtype), identity(op, dtype), op, (axis.axis,)) for cells in bins]
    return lax.concatenate([lax.expand_dims(each, (axis.axis,)) for each in reduced], axis.axis)


def _spread_bins(cotangent: jax.Array, part: Window) -> jax.Array:
    """The transpose of the sum of every bin along one axis: cells between two edges are in the same bins."""
    (axis,) = part.axes
    starts, ends = axis.start(np.arange(axis.output)), axis.end(np.arange(axis.output))
    edges = np.union1d(starts, ends).tolist()
    stretches = []
    for first, end in itertools.pairwise(edges):
        holders = np.flatnonzero((starts <= first) & (end <= ends)).tolist()
        total = reduce(lax.add, [lax.slice_in_dim(cotangent, bin, bin + 1, 1, axis.axis) for bin in holders])
        shape = list(total.shape)
        shape[axis.axis] = end - first
        stretches.append(jnp.broadcast_to(total, shape))
    return lax.concatenate(stretches, axis.axis)


def keeps_cells(window: Window, dtype: Any) -> bool:
    """Whether a selection keeps its cells instead of offsets, and routes cotangents by `select-and-scatter`.

    `select-and-scatter` has no dilation and handles all axes at once.
    """
    return (
        dtype in (jnp.float32, jnp.bfloat16)
        and window.cells <= gpu.MOST_READS
        and not (window.has_bins or window.has_footprint)
        and all(axis.dilation == 1 for axis in window.axes)
    )


def send_to_winners(
    cotangent: jax.Array, x: jax.Array, values: jax.Array, *, window: Window, op: Operation
) -> jax.Array:
    """Send each output's cotangent to its winner by `select-and-scatter`, where that keeps the contract.

    It picks the first of equal cells, but the cell after a NaN in place of the NaN, and padding in place of a cell that
    is as low. So if any extreme is NaN or infinite, winners are found and routed to as without this lowering. The same
    holds where devices may share an axis, unless windows overlap only their neighbours: it would be wrong at the edges.
    """

    def native(cotangent: jax.Array) -> jax.Array:
        wide = accumulation_dtype(x.dtype)
        _, pull_back = jax.vjp(partial(native_reduce_window, window=window, op=op), x.astype(wide))
        return pull_back(cotangent.astype(wide))[0].astype(cotangent.dtype)

    exact = partial(winners.send_to_winners, x=x, selection=gpu.SELECTION, window=window, op=op)
    if not (on_one_device() or all(axis.extent < 2 * axis.stride for axis in window.axes)):
        return exact(cotangent)
    return if_all(jnp.isfinite(values), native, exact, cotangent)
