"""Reductions and the transpose of windowed sums on GPUs and TPUs."""

import jax
from jax import lax

from jaxpool._engine.bins_as_tiles import as_tiles, copy_to_tiles
from jaxpool._engine.blocks import combine_devices, devices_of, join_blocks, split_blocks
from jaxpool._engine.operations import Operation, identity
from jaxpool._engine.overlaps import spread_by_windows
from jaxpool._engine.pieces import reduce_in_pieces, spread_in_pieces
from jaxpool._engine.reduce_window import reduce_by_reduce_window, spread_by_reduce_window
from jaxpool._engine.slices import reduce_by_slices
from jaxpool._engine.window_offsets import pad_windows
from jaxpool._engine.xla import choose
from jaxpool._geometry.window import Window


def reduce_windows(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window of x by `op`, one of `lax.max`, `lax.min` and `lax.add`."""
    for part in choose.order(window):
        if choose.reduces_whole_axes(part):
            x = reduce_by_axes(x, part, op)
            continue
        x, part = copy_to_tiles(x, part, identity(op, x.dtype)), as_tiles(part)
        if choose.is_in_pieces(part):
            x = reduce_in_pieces(x, part, op)
        elif choose.is_written_out(part):
            x = reduce_by_slices(x, part, op)
        else:
            x = reduce_by_reduce_window(x, part, op)
    return x


def reduce_by_axes(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce whole axes, for windows that share no cells: each axis becomes one of windows and one of their cells."""
    fill = identity(op, x.dtype)
    cells, axes = split_blocks(pad_windows(x, window, fill), window)
    if max(devices_of(window)) > 1:
        reduced = combine_devices(cells, axes, op)
    else:
        reduced = lax.expand_dims(lax.reduce(cells, fill, op, axes), axes)
    return join_blocks(reduced, axes, window)


def spread(cotangent: jax.Array, window: Window) -> jax.Array:
    """Send each output's cotangent to every cell of its window: the transpose of the windowed sum."""
    for part in reversed(choose.order(window)):
        if choose.is_in_pieces(part):
            cotangent = spread_in_pieces(cotangent, part)
        elif choose.gathers(part):
            cotangent = spread_by_windows(cotangent, part)
        else:
            cotangent = spread_by_reduce_window(cotangent, part)
    return cotangent
