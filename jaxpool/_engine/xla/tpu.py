"""Lowerings for TPUs where they differ from a GPU's: native windowed operations, of which TPUs make better programs."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.bins import even, expand
from jaxpool._engine.operations import Operation, accumulation_dtype, identity
from jaxpool._engine.overlaps import route_by_comparison, route_in_pieces, spread_by_windows
from jaxpool._engine.platforms import on_one_device
from jaxpool._engine.reduce_window import native_reduce_window, reduce_by_reduce_window, spread_by_reduce_window
from jaxpool._engine.taps import taps
from jaxpool._engine.winners import Selection, first_winners
from jaxpool._engine.xla import choose
from jaxpool._engine.xla.reduce import reduce_by_axes
from jaxpool._engine.xla.select import select
from jaxpool._geometry.window import Window


def reduce_windows(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window of x by `op`, one of `lax.max`, `lax.min` and `lax.add`."""
    for part in choose.order(window):
        if choose.reduces_whole_axes(part):
            x = reduce_by_axes(x, part, op)
        else:
            x = reduce_by_reduce_window(expand(x, part, identity(op, x.dtype)), even(part), op)
    return x


def spread(cotangent: jax.Array, window: Window) -> jax.Array:
    """Send each output's cotangent to every cell of its window: the transpose of the windowed sum."""
    for part in reversed(choose.order(window)):
        lowering = spread_by_reduce_window if even(part) == part else spread_by_windows
        cotangent = lowering(cotangent, part)
    return cotangent


def send_to_winners(
    cotangent: jax.Array, x: jax.Array, values: jax.Array, *, window: Window, op: Operation
) -> jax.Array:
    """Send each output's cotangent to its winner by `select-and-scatter`, where that keeps the contract.

    It takes the first of equal cells, but the cell after a NaN for the NaN, and padding for a cell as low. So where an
    extreme is NaN or infinite, the winners are found by a look at every cell and routed to, as without this lowering.
    So are they in arrays that may be sharded, unless windows reach the next one alone: else it is wrong at the edges.
    """

    def native(cotangent: jax.Array) -> jax.Array:
        wide = accumulation_dtype(x.dtype)
        _, pull_back = jax.vjp(partial(native_reduce_window, window=window, op=op), x.astype(wide))
        return pull_back(cotangent.astype(wide))[0].astype(cotangent.dtype)

    def exact(cotangent: jax.Array) -> jax.Array:
        wide = cotangent.astype(accumulation_dtype(cotangent.dtype))
        _, (offsets,) = first_winners(x, None, SELECTION, (window,), op)
        return route_between_zeros(wide, offsets, window, lax.add).astype(cotangent.dtype)

    if not (on_one_device() or choose.reaches_next_alone(window)):
        return exact(cotangent)
    return lax.cond((~jnp.isfinite(values)).any(), exact, native, cotangent)


def route_between_zeros(array: jax.Array, offsets: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Compare the offsets of the windows that hold a cell with its numbers in them, over outputs with zeros between.

    With stride - 1 zeros after each, cell i is the one at offset j of the window at the place i + low - j·dilation.
    """
    config, sizes = [(0, 0, 0)] * array.ndim, list(array.shape)
    for axis in window.axes:
        sizes[axis.axis] = axis.size
        before = axis.extent - 1 - axis.low
        after = axis.size + axis.low - (axis.output - 1) * axis.stride - 1
        config[axis.axis] = before, after, axis.stride - 1
    array, offsets = (lax.pad(each, np.zeros((), each.dtype)[()], config) for each in (array, offsets))
    total = None
    for number, tap in enumerate(taps(window)):
        starts = [0] * array.ndim
        for axis, offset in zip(window.axes, tap, strict=True):
            starts[axis.axis] = axis.extent - 1 - offset * axis.dilation
        limits = [start + size for start, size in zip(starts, sizes, strict=True)]
        chosen = lax.slice(offsets, starts, limits) == np.array(number, offsets.dtype)[()]
        sent = jnp.where(chosen, lax.slice(array, starts, limits), np.zeros((), array.dtype)[()])
        total = sent if total is None else op(total, sent)
    assert total is not None
    return total


def _route(array: jax.Array, offsets: jax.Array, part: Window, op: Operation) -> jax.Array:
    if choose.is_in_pieces(part):
        return route_in_pieces(array, offsets, part, op)
    lowering = route_between_zeros if choose.is_written_out(part) and even(part) == part else route_by_comparison
    return lowering(array, offsets, part, op)


SELECTION = Selection(choose.order, select, _route)
