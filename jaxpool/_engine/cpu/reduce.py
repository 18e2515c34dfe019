"""Reductions and the transpose of windowed sums on the CPU, and which lowering evaluates which window.

The maximum, minimum or sum over a window of several axes can be taken over one axis after the other, which costs the
sum of the kernel sizes per output instead of their product. All thresholds are from measurements.
"""

from collections.abc import Sequence
from functools import partial

import jax
from jax import lax

from jaxpool._engine.bins_as_tiles import by_table, in_periods
from jaxpool._engine.blocks import reduce_blocks
from jaxpool._engine.operations import Operation, identity
from jaxpool._engine.overlaps import spread_by_windows
from jaxpool._engine.pieces import reduce_in_pieces, spread_in_pieces
from jaxpool._engine.reduce_window import reduce_by_reduce_window
from jaxpool._engine.slices import reduce_by_slices
from jaxpool._engine.stages import barrier, materialize
from jaxpool._engine.window_offsets import is_innermost, pad_windows
from jaxpool._geometry.window import Window


def reduce_windows(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window of x by `op`, one of `lax.max`, `lax.min` and `lax.add`."""
    for part in reduction_order(window, op, x.shape):
        if by_table(part):
            x = barrier(in_periods(partial(reduce_by_slices, op=op), part, x))
        elif folds_blocks(part):
            # A dozen slices of the cells of all windows at a time.
            x = reduce_blocks(pad_windows(x, part, identity(op, x.dtype)), part, op)
        elif folds_pieces(part):
            x = reduce_in_pieces(x, part, op)
        elif reduces_by_slices(part, op, x.shape):
            x = reduce_by_slices(x, part, op)
        else:
            x = reduce_by_reduce_window(x, part, op)
    return x


def spread(cotangent: jax.Array, window: Window) -> jax.Array:
    """Send each output's cotangent to every cell of its window: the transpose of the windowed sum."""
    for part in reversed(reduction_order(window, lax.add, cotangent.shape)):
        if spreads_pieces(part):
            cotangent = spread_in_pieces(cotangent, part)
        else:
            cotangent = spread_by_windows(materialize(cotangent) if by_table(part) else cotangent, part)
    return cotangent


def reduction_order(window: Window, op: Operation, shape: Sequence[int]) -> tuple[Window, ...]:
    """The windows that a reduction applies one after the other: one axis at a time, the last one first.

    Windows that share no cells are folded as blocks along all axes, the first one first, in longer slices. Small
    windows are reduced along all axes at once, up to 3 times faster. Bins are taken the first axis first.
    """
    if window.has_bins:
        return window.split()[::-1]
    return (window,) if folds_blocks(window) or reduces_at_once(window, op, shape) else window.split()


def reduces_at_once(window: Window, op: Operation, shape: Sequence[int]) -> bool:
    """Whether one pass over slices reduces all axes: up to 9 cells, and only with strides of 1 if channels are last.

    There maxima of 9 cells take 0.6 to 0.9 times as long along one axis after the other, sums 1.1 to 1.8 times.
    """
    if len(window.axes) == 1 or window.cells > 9:
        return False
    strides_are_1 = all(axis.stride == 1 for axis in window.axes)
    return is_innermost(window, shape) or (strides_are_1 and (op is lax.add or window.cells <= 4))


def reduces_by_slices(part: Window, op: Operation, shape: Sequence[int]) -> bool:
    """Whether shifted slices reduce this window, instead of `lax.reduce_window`.

    For windows that do not overlap, including a single window, slices are faster; for sums, up to 16 cells. For maxima
    and minima correctness decides: there `lax.reduce_window` may drop NaN on the CPU, for 4096 elements and more. For
    overlapping windows slices are up to 4 times faster along the innermost axis at strides of 1 and 2, and elsewhere up
    to 3 times slower.
    """
    if reduces_at_once(part, op, shape):
        return True
    overlap = any(axis.output > 1 and axis.extent > axis.stride for axis in part.axes)
    if not overlap and (op is not lax.add or part.cells <= 16):
        return True
    return is_innermost(part, shape) and part.axes[-1].stride <= 2 and part.cells <= 16


def folds_blocks(part: Window) -> bool:
    """Whether a reduction folds windows that share no cells as blocks, instead of strided slices."""
    return part.tiles and part.cells > 1


def folds_pieces(part: Window) -> bool:
    """Whether a sum, or an extreme and its winner, comes from pieces of the window, instead of one cell at a time.

    All steps but the last are evaluated at every cell, whatever the stride, so this pays off only if windows overlap
    strongly; sums round less. Beyond 64 cells the program would otherwise be long and slow to compile.
    """
    return len(part.axes) == 1 and all(axis.kernel > min(64, max(16, 8 * axis.stride)) for axis in part.axes)


def spreads_pieces(part: Window) -> bool:
    """Whether the transpose of a sum adds the windows that hold a cell in pieces, instead of one by one.

    Up to 32 windows that is no faster and makes the program no shorter; beyond, it rounds less and compiles faster.
    """
    return len(part.axes) == 1 and all(
        axis.kernel > 32 * axis.stride and 1 in (axis.stride, axis.dilation) for axis in part.axes
    )
