"""Which lowering evaluates which window on the CPU, by numbers that come from measurements."""

import math
from collections.abc import Sequence

import numpy as np
from jax import lax

from jaxpool._engine.operations import Operation
from jaxpool._geometry.bins import BinAxis
from jaxpool._geometry.window import Window


def reduction_order(window: Window, shape: Sequence[int]) -> tuple[Window, ...]:
    """The windows that a reduction of an array applies one after the other: one axis at a time, the last one first.

    Where windows share no cells, blocks are folded along all axes, the first one first, in longer slices. Small windows
    are reduced along all axes at once, up to 2.5 times faster.
    """
    if any(isinstance(axis, BinAxis) for axis in window.axes):
        return window.split()[::-1]
    return (window,) if folds_blocks(window) or reduces_at_once(window, shape) else window.split()


def reduces_at_once(window: Window, shape: Sequence[int]) -> bool:
    """Whether one step of slices reduces all axes: up to 9 cells, but without strides where channels come last."""
    strides_are_1 = all(axis.stride == 1 for axis in window.axes)
    return len(window.axes) > 1 and window.cells <= 9 and (strides_are_1 or is_innermost(window, shape))


def is_innermost(part: Window, shape: Sequence[int]) -> bool:
    """Whether the windows run along the axis of an array whose cells are neighbours in memory, or nearly."""
    behind = shape[part.axes[-1].axis + 1 :]
    # A symbolic size may be any.
    return all(isinstance(size, int) for size in behind) and math.prod(behind) < 16


def reduces_by_slices(part: Window, op: Operation, shape: Sequence[int]) -> bool:
    """Whether shifted slices reduce this window, instead of `lax.reduce_window`.

    For windows that do not overlap, a single one included, they are faster, up to 16 cells of a sum. For maxima and
    minima it is not a matter of speed: the CPU may drop NaN from those in `lax.reduce_window`, at 4096 elements and
    more. On the innermost axis they are 1.3 to 4 times faster at strides of 1 and 2; elsewhere up to 2 times slower.
    """
    if reduces_at_once(part, shape):
        return True
    overlap = any(axis.output > 1 and axis.extent > axis.stride for axis in part.axes)
    if not overlap and (op is not lax.add or part.cells <= 16):
        return True
    return is_innermost(part, shape) and part.axes[-1].stride <= 2 and part.cells <= 16


def folds_blocks(part: Window) -> bool:
    """Whether a reduction over windows that share no cells folds them as blocks, instead of slices with a stride."""
    return part.tiles and part.cells > 1


def slices_at_once(cells: int) -> int:
    """How many slices a step of a fold of so many cells combines."""
    return 12 if cells <= 256 else 16


def selects_in_blocks(part: Window) -> bool:
    """Whether a selection among windows that share no cells folds them as blocks, instead of slices with a stride.

    That is faster from 4 cells on, and always for a single window. Bins, which are laid out anew anyway, gain from it
    where it keeps the program short.
    """
    if any(isinstance(axis, BinAxis) for axis in part.axes):
        return part.cells > 12
    return part.tiles and (part.is_single or (part.cells >= 4 and len(part.axes) == 1))


def folds_pieces(part: Window) -> bool:
    """Whether an extreme and its winner come from pieces of the window, instead of one cell at a time.

    The steps before the last one are for every cell, whatever the stride, so that windows have to overlap much. Beyond
    64 cells the program would be long otherwise, and slow to compile.
    """
    return len(part.axes) == 1 and all(axis.kernel > min(64, max(16, 8 * axis.stride)) for axis in part.axes)


def sums_pieces(part: Window) -> bool:
    """Whether sums come from pieces of the window, instead of one cell at a time: faster, and they round less."""
    return not part.tiles and all(axis.kernel > 64 or axis.kernel > max(16, 8 * axis.stride) for axis in part.axes)


def spreads_pieces(part: Window) -> bool:
    """Whether the transpose of a sum sums the windows that hold a cell by halves, instead of one by one.

    Up to 32 windows that is no faster, and the program no longer; beyond, it rounds less and compiles sooner.
    """
    return len(part.axes) == 1 and all(
        not isinstance(axis, BinAxis) and axis.kernel > 32 * axis.stride and 1 in (axis.stride, axis.dilation)
        for axis in part.axes
    )


def terms_order(window: Window) -> tuple[Window, ...]:
    """The windows that a norm is taken over, one after the other, the last one first.

    All axes at once for up to 9 cells of which few overlap, 2 to 4 times faster: every axis has its own logarithms.
    """
    overlaps = window.cells / math.prod(axis.stride for axis in window.axes)
    return (window,) if window.cells <= 9 and overlaps <= 4 else window.split()


def exponentials_order(window: Window) -> tuple[Window, ...]:
    """The windows that a mean or sum of exponentials is taken over, one after the other, the last one first.

    All axes at once for up to 16 cells: gradients take 0.4 to 1 times as long, as every axis has sums of its own.
    """
    return (window,) if window.cells <= 16 else window.split()


def shares_terms_of_cells(window: Window) -> bool:
    """Whether terms that are the same for all windows that hold a cell are evaluated once, and then summed.

    A look at the data has to allow it, which costs as much as it saves where windows share no cells.
    """
    return any(axis.output > 1 and axis.extent > axis.stride for axis in window.axes)


def selection_order(window: Window) -> tuple[Window, ...]:
    """The windows that a selection applies one after the other: all axes at once, or each in turn, the last one first.

    All at once is faster for windows of up to 9 cells, and for a single window.
    """
    at_once = window.cells <= 9 or (window.is_single and window.tiles)
    return (window,) if at_once else window.split()


def winner_groups(window: Window) -> tuple[Window, ...]:
    """Groups of axes, the last ones first, of which a selection records the winners' offsets apart.

    An axis of its own takes an offset for each of its outputs, at every cell of the axes before it. That is faster than
    carrying offsets along, and allowed up to two bytes per output where all strides are 1, and four otherwise.
    """
    if len(selection_order(window)) == 1:
        return (window,)
    limit = 2.25 if all(axis.stride == 1 for axis in window.axes) else 4
    for rest in range(len(window.axes)):
        groups = (*Window(window.axes[rest:]).split(), *([Window(window.axes[:rest])] if rest else []))
        if sum(_bytes(groups, number) for number in range(len(groups))) <= limit:
            return groups
    return (window,)


def _bytes(groups: Sequence[Window], number: int) -> float:
    """Bytes per output that the offsets of one group take."""
    cells = math.prod(axis.size / axis.output for group in groups[number + 1 :] for axis in group.axes)
    return cells * np.min_scalar_type(groups[number].cells - 1).itemsize


def is_stage(part: Window, shape: Sequence[int]) -> bool:
    """Whether to keep the step that selects or routes along these axes of an array apart from the next one.

    Where it pads the innermost axis a loop that takes in the step before runs 5 times slower; further out the padding
    of one axis costs nothing. Up to 4 cells it is as fast to select anew while routing, and where no window overlaps
    another faster.
    """
    return part.cells > 4 and (len(part.axes) > 1 or is_innermost(part, shape))


def materializes_offsets(part: Window) -> bool:
    """Whether offsets of a step that is no stage are computed before what reads them.

    A loop that selects along one of several axes, and pads the offsets for the way back, takes 2 to 10 times as long.
    """
    return len(part.axes) == 1 and part.cells > 2


def routes_in_pieces(part: Window) -> bool:
    """Whether cotangents find the piece of the window that the winner is in, and then the cell in that piece.

    The alternative is a comparison for each of the windows that hold a cell.
    """
    return len(part.axes) == 1 and all(axis.kernel > 8 and axis.extent > 16 * axis.stride for axis in part.axes)


def blurs_in_stages(window: Window) -> bool:
    """Whether weighted sums along one axis are kept apart from those along the next one.

    Where they are not, all cells of a window are summed at once. That is up to twice as fast for up to 25 of them.
    """
    return window.cells > 25


def selects_by_network(window: Window) -> bool:
    """Whether a network of minima and maxima finds the cells of given ranks, instead of bisecting their values.

    It is up to twice as fast for 81 cells, where it takes twice as long to compile, and four times for 121.
    """
    return window.cells <= 81
