"""Lowerings for the CPU: which one evaluates which window. All thresholds are from measurements.

A reduction over axes in turn costs the sum of the kernel sizes per output, instead of their product. In selections the
steps of a program have to be kept separate.
"""

import math
from collections.abc import Sequence
from functools import partial, reduce

import jax
from jax import lax

from jaxpool._engine.bins_as_tiles import by_table, in_periods
from jaxpool._engine.blocks import MOST_COMBINED, reduce_blocks
from jaxpool._engine.loops import reduce_footprint, route_to_chosen, select_footprint, spread_footprint
from jaxpool._engine.operations import Operation, accumulation_dtype, identity, reduction_dtype
from jaxpool._engine.pieces import reduce_in_pieces, route_in_pieces, select_in_pieces, spread_in_pieces
from jaxpool._engine.reductions import reduce_by_reduce_window, reduce_by_slices, spread_by_windows
from jaxpool._engine.slices import Winner, route_by_comparison, select_by_blocks, select_by_slices
from jaxpool._engine.stages import materialize, stage
from jaxpool._engine.window_offsets import is_innermost, pad_windows, slices_at_offsets
from jaxpool._kernels import FootprintWindow
from jaxpool._platforms import on_one_device
from jaxpool._window import Window


def reduce_windows(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window of x by `op`: `lax.max`, `lax.min` or `lax.add`. Sums of 16-bit floats are float32."""
    x = x.astype(reduction_dtype(op, x.dtype))
    if isinstance(window, FootprintWindow):
        return reduce_footprint(x, window, op)
    for number, part in enumerate(reduction_order(window, op, x.shape)):
        if part.has_bins and by_table(part):
            x = materialize(in_periods(partial(reduce_by_slices, op=op), part, x))
        elif part.tiles:
            # A dozen slices of the cells of all windows at a time.
            x = materialize(x) if number else x
            x = reduce_blocks(pad_windows(x, part, identity(op, x.dtype)), part, op)
        elif folds_pieces(part):
            x = reduce_in_pieces(x, part, op)
        elif not reduces_by_slices(part, op, x.shape):
            x = reduce_by_reduce_window(x, part, op)
        elif part.has_padding and not (on_one_device() and has_strides(part)):
            x = reduce_by_slices(x, part, op)
        else:
            # In memory, as what computes x would be evaluated for every slice.
            x = reduce(op, slices_at_offsets(materialize(x), part, identity(op, x.dtype)))
    return x


def spread(cotangent: jax.Array, window: Window) -> jax.Array:
    """Send each output's cotangent to every cell of its window: the transpose of the windowed sum."""
    if isinstance(window, FootprintWindow):
        return spread_footprint(cotangent, window)
    at_once = not window.has_bins and (window.tiles or adds_at_once(window, cotangent.shape))
    for part in (window,) if at_once else window.split():
        if part.has_bins and by_table(part):
            cotangent = materialize(cotangent)
        spread_along = spread_in_pieces if spreads_pieces(part) else spread_by_windows
        cotangent = spread_along(cotangent, part)
    return cotangent


def reduction_order(window: Window, op: Operation, shape: Sequence[int]) -> tuple[Window, ...]:
    """The windows that a reduction applies one after the other: one axis at a time, the first one first.

    With strides most cells are then reduced in long slices, and those along the innermost axis, where a stride fills no
    vectors, are fewer: with channels first 0.3 to 0.8 times the time. Small windows are reduced along all axes at once,
    up to 3 times faster.
    """
    at_once = folds_at_once(window, shape) if window.tiles else reduces_at_once(window, op, shape)
    return (window,) if at_once and not window.has_bins else window.split()[::-1]


def folds_at_once(window: Window, shape: Sequence[int]) -> bool:
    """Whether windows that share no cells are folded as blocks along all axes at once, in longer slices.

    With channels first, windows of more than 15 cells are not: along the first axis whole rows are combined, which fill
    vectors. That takes 0.5 to 1.2 times as long, behind an exponential 0.2 to 1.
    """
    return window.is_single or window.cells <= MOST_COMBINED or not is_innermost(window, shape)


def reduces_at_once(window: Window, op: Operation, shape: Sequence[int]) -> bool:
    """Whether one loop over slices reduces all axes, in 0.3 to 1 times as long as one axis after the other.

    So it does up to 8 cells; and 9 cells for sums, without padding, or with strides and channels last.
    """
    pays_off = op is lax.add or not window.has_padding or (has_strides(window) and not is_innermost(window, shape))
    return len(window.axes) > 1 and (window.cells <= 8 or (window.cells == 9 and pays_off))


def has_strides(window: Window) -> bool:
    """Whether windows move by more than a cell, along every axis."""
    return all(axis.stride > 1 for axis in window.axes)


def reduces_by_slices(part: Window, op: Operation, shape: Sequence[int]) -> bool:
    """Whether shifted slices reduce this window, instead of `lax.reduce_window`.

    Up to 16 cells slices are faster for windows that do not overlap, and with strides along the innermost axis. For
    maxima correctness decides: without overlap `lax.reduce_window` may drop NaN on the CPU, for 4096 elements and more.
    """
    if not any(axis.output > 1 and axis.extent > axis.stride for axis in part.axes):
        return op is not lax.add or part.cells <= 16
    strided_rows = part.cells <= 16 and has_strides(part) and is_innermost(part, shape)
    return strided_rows or reduces_at_once(part, op, shape)


def adds_at_once(window: Window, shape: Sequence[int]) -> bool:
    """Whether a sum's transpose takes all axes at once: up to 9 cells, with strides of 1 if channels are last."""
    return window.cells <= 9 and (is_innermost(window, shape) or all(axis.stride == 1 for axis in window.axes))


def folds_pieces(part: Window) -> bool:
    """Whether a sum, or an extreme and its winner, comes from pieces of the window, instead of one cell at a time.

    All steps but the last are evaluated at every cell, whatever the stride, so this pays off only if windows overlap
    strongly; sums round less. Beyond 64 cells the program would otherwise be long and slow to compile.
    """
    if part.has_footprint:
        return False
    return len(part.axes) == 1 and all(axis.kernel > min(64, max(16, 8 * axis.stride)) for axis in part.axes)


def spreads_pieces(part: Window) -> bool:
    """Whether the transpose of a sum adds the windows that hold a cell in pieces, instead of one by one.

    Up to 32 windows that is no faster and makes the program no shorter; beyond, it rounds less and compiles faster.
    """
    return len(part.axes) == 1 and all(
        axis.kernel > 32 * axis.stride and 1 in (axis.stride, axis.dilation) for axis in part.axes
    )


def select(x: jax.Array, window: Window, op: Operation) -> Winner:
    """The extreme of every window by `op`, and the offset of the first cell that has it."""
    if window.has_bins and by_table(window):
        values, offsets = in_periods(partial(select_by_slices, op=op), window, materialize(x))
        return materialize(values), materialize(offsets)
    if isinstance(window, FootprintWindow):
        return stage(partial(select_footprint, window=window, op=op), x)
    if window.tiles and (window.cells > 64 or window.is_single):
        # Faster than strided slices for a single window; beyond 64 cells it keeps the program short.
        lowering = select_by_blocks
    else:
        lowering = select_in_pieces if folds_pieces(window) else select_by_slices
    step = partial(lowering, window=window, op=op)
    if is_stage(window, x.shape):
        return stage(step, x)
    values, offsets = step(x)
    if (len(window.axes) == 1 or window.tiles) and window.cells > 2:
        # A loop that selects along one of several axes, and pads the offsets for the backward pass, takes 2 to 10 times
        # as long. So does one that selects again for every cell of windows that share none.
        return materialize(values), materialize(offsets)
    return materialize(values), offsets


def route(cotangent: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """Send each window's cotangent to the cell at its offset."""
    # Widened once, not for every window that holds a cell.
    cotangent = cotangent.astype(accumulation_dtype(cotangent.dtype))
    if window.has_bins and by_table(window):
        return route_by_comparison([materialize(cotangent)], [materialize(offsets)], window)
    if isinstance(window, FootprintWindow):
        return stage(partial(route_to_chosen, window=window), [cotangent], [offsets])
    if routes_in_pieces(window):
        return route_in_pieces(cotangent, offsets, window)
    if len(window.axes) == 1 and window.cells > 8 * window.axes[0].stride:
        # Padded before the winners are found, it would fill memory until then. Other windows take longer this way.
        cotangent = materialize(cotangent, offsets)
    # The offsets and the values sent to them are separate stages: the map is linear only in the latter.
    step = partial(route_by_comparison, window=window)
    if is_stage(window, cotangent.shape):
        return stage(step, [cotangent], [offsets])
    return materialize(step([cotangent], [offsets]))


def selection_order(window: Window, shape: Sequence[int]) -> tuple[Window, ...]:
    """The windows that a selection takes one after the other: all axes at once, or one at a time, the last one first.

    All at once is faster for up to 9 cells, without overlap for up to 64, and for a single window. With 6 channels last
    or more, it is 1.3 to 4 times as fast for windows of up to 27 cells that share few of them.
    """
    few = window.cells <= 9 or (window.tiles and (window.is_single or window.cells <= 64))
    share_few = window.cells <= min(27, 4 * math.prod(axis.stride for axis in window.axes))
    at_once = few or (share_few and not is_innermost(window, shape, channels=6))
    return (window,) if window.has_footprint or (at_once and not window.has_bins) else window.split()


def is_stage(part: Window, shape: Sequence[int]) -> bool:
    """Whether the step that selects or routes along these axes of an array is a separate stage.

    A loop that pads the innermost axis is 5 times slower if the previous step is fused into it; along other axes
    padding costs nothing. Up to 4 cells, selecting again while routing is as fast. If windows share no cells, it is
    enough to materialize the winners.
    """
    several_steps = part.cells > (64 if part.tiles else 4)
    return several_steps and (len(part.axes) > 1 or is_innermost(part, shape))


def routes_in_pieces(part: Window) -> bool:
    """Whether cotangents are routed to the piece of the window that holds the winner, and then to the cell in it.

    The alternative is a comparison for each of the windows that hold a cell.
    """
    axis, *others = part.axes
    return not (others or part.has_footprint) and axis.kernel > 8 and axis.extent > 16 * axis.stride
