"""Windowed reductions: one associative operation over every window, on `lax.reduce_window` and its equivalents.

Maximum, minimum and sum over a window of several axes are folds of the same reduction over one axis after the
other, which costs the sum of the kernel sizes per output instead of their product.
"""

import jax
from jax import lax

from jaxpool._engine import choose
from jaxpool._engine.bins import even, expand
from jaxpool._engine.blocks import reduce_blocks
from jaxpool._engine.operations import Operation, apart, identity
from jaxpool._engine.pieces import fold_in_pieces, sum_in_pieces
from jaxpool._engine.taps import at_tap, pad_windows, taps
from jaxpool._geometry.window import Window


def reduce_windows(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window of x by `op`, one of `lax.max`, `lax.min` and `lax.add`; padded cells change nothing."""
    for part in choose.reduction_order(window, x.shape):
        x, part = expand(x, part, identity(op, x.dtype)), even(part)
        if choose.folds_blocks(part):
            x = reduce_by_blocks(x, part, op)
        elif choose.sums_pieces(part) if op is lax.add else choose.folds_pieces(part):
            x = reduce_in_pieces(x, part, op)
        elif choose.reduces_by_slices(part, op, x.shape):
            x = reduce_by_slices(x, part, op)
        else:
            x = reduce_by_reduce_window(x, part, op)
    return x


def reduce_by_reduce_window(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """The reference: `lax.reduce_window`, every cell of the window for every output.

    Not for maxima and minima of windows that do not overlap, a single one included: there the CPU's reduction may drop
    NaN.
    """
    rank = x.ndim
    dimensions, strides, dilations, padding = [1] * rank, [1] * rank, [1] * rank, [(0, 0)] * rank
    for axis in window.axes:
        dimensions[axis.axis] = axis.kernel
        strides[axis.axis] = axis.stride
        dilations[axis.axis] = axis.dilation
        padding[axis.axis] = (axis.low, max(axis.beyond, 0))
    if any(max(amounts) > 0 for amounts in padding):
        x = apart(x)
    return lax.reduce_window(x, identity(op, x.dtype), op, dimensions, strides, padding, window_dilation=dilations)


def reduce_by_slices(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """One shifted slice per cell of the window, combined elementwise: keeps NaN whatever the overlap."""
    padded = pad_windows(x, window, identity(op, x.dtype))
    result = None
    for tap in taps(window):
        cells = at_tap(padded, window, tap)
        result = cells if result is None else op(result, cells)
    assert result is not None
    return result


def reduce_by_blocks(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """A dozen slices of the cells of all windows at a time, where every window has cells of its own."""
    return reduce_blocks(pad_windows(x, window, identity(op, x.dtype)), window, op)


def reduce_in_pieces(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """The results of a few pieces of the window, themselves made of pieces, log8(kernel) times."""
    padded = pad_windows(x, window, identity(op, x.dtype))
    if op is lax.add:
        return sum_in_pieces(padded, window)
    (result,) = fold_in_pieces((padded,), window, lambda first, later, _: (op(first[0], later[0]),))
    return result
