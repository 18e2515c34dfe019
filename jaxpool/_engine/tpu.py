"""Lowerings for TPUs where they differ from a GPU's: native windowed operations."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxpool._engine import gpu
from jaxpool._engine.operations import Operation, accumulation_dtype, if_all, reduction_dtype
from jaxpool._engine.reductions import (
    native_reduce_window,
    reduce_by_reduce_window,
    spread_by_reduce_window,
    spread_by_windows,
)
from jaxpool._engine.window_offsets import holds_all_cells
from jaxpool._platforms import on_one_device
from jaxpool._window import Window


def reduce_windows(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window of x by `op`: `lax.max`, `lax.min` or `lax.add`. Sums of 16-bit floats are float32."""
    x = x.astype(reduction_dtype(op, x.dtype))
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
    for part in reversed(gpu.order(window)):
        # Of whole axes it is a broadcast, which readers make themselves; a windowed sum would be in memory.
        lowering = spread_by_windows if part.has_bins or holds_all_cells(part) else spread_by_reduce_window
        cotangent = lowering(cotangent, part)
    return cotangent


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
    cotangent: jax.Array,
    x: jax.Array,
    values: jax.Array,
    *,
    exact: Callable[..., jax.Array],
    window: Window,
    op: Operation,
) -> jax.Array:
    """Send each output's cotangent to its winner by `select-and-scatter`, where that keeps the contract.

    It picks the first of equal cells, but the cell after a NaN in place of the NaN, and padding in place of a cell that
    is as low. So if any extreme is NaN or infinite, the `exact` lowering finds winners and routes to them. The same
    holds where devices may share an axis, unless windows overlap only their neighbours: it would be wrong at the edges.
    """

    def native(cotangent: jax.Array) -> jax.Array:
        wide = accumulation_dtype(x.dtype)
        _, pull_back = jax.vjp(partial(native_reduce_window, window=window, op=op), x.astype(wide))
        return pull_back(cotangent.astype(wide))[0].astype(cotangent.dtype)

    if not (on_one_device() or all(axis.extent < 2 * axis.stride for axis in window.axes)):
        return exact(cotangent, x, values)
    return if_all(jnp.isfinite(values), native, lambda cotangent: exact(cotangent, x, values), cotangent)
