"""Reductions and the transpose of windowed sums on the CPU.

The maximum, minimum or sum over a window of several axes can be taken over one axis after the other, which costs the
sum of the kernel sizes per output instead of their product.
"""

import jax
from jax import lax

from jaxpool._engine.bins_as_tiles import as_tiles, copy_to_tiles
from jaxpool._engine.blocks import reduce_blocks
from jaxpool._engine.cpu import choose
from jaxpool._engine.cpu.bins import reduce_bins, spread_bins
from jaxpool._engine.operations import Operation, barrier, identity
from jaxpool._engine.overlaps import spread_by_windows
from jaxpool._engine.pieces import reduce_in_pieces, spread_in_pieces
from jaxpool._engine.reduce_window import reduce_by_reduce_window
from jaxpool._engine.slices import reduce_by_slices
from jaxpool._engine.window_offsets import pad_windows
from jaxpool._geometry.window import Window


def reduce_windows(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window of x by `op`, one of `lax.max`, `lax.min` and `lax.add`."""
    for part in choose.reduction_order(window, op, x.shape):
        bins = choose.gathered_bins(part)
        if bins is not None:
            x = barrier(reduce_bins(x, bins, op))
            continue
        x, part = copy_to_tiles(x, part, identity(op, x.dtype)), as_tiles(part)
        if choose.folds_blocks(part):
            x = reduce_by_blocks(x, part, op)
        elif choose.sums_pieces(part) if op is lax.add else choose.folds_pieces(part):
            x = reduce_in_pieces(x, part, op)
        elif choose.reduces_by_slices(part, op, x.shape):
            x = reduce_by_slices(x, part, op)
        else:
            x = reduce_by_reduce_window(x, part, op)
    return x


def reduce_by_blocks(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine a dozen slices of the cells of all windows at a time, where windows share no cells."""
    return reduce_blocks(pad_windows(x, window, identity(op, x.dtype)), window, op)


def spread(cotangent: jax.Array, window: Window) -> jax.Array:
    """Send each output's cotangent to every cell of its window: the transpose of the windowed sum."""
    for part in reversed(choose.reduction_order(window, lax.add, cotangent.shape)):
        bins = choose.gathered_bins(part)
        if bins is not None:
            cotangent = spread_bins(cotangent, bins)
        elif choose.spreads_pieces(part):
            cotangent = spread_in_pieces(cotangent, part)
        else:
            cotangent = spread_by_windows(cotangent, part)
    return cotangent
