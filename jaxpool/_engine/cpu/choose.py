"""Which lowering reduces which window on the CPU, with thresholds from measurements."""

import math
from collections.abc import Sequence

from jax import lax

from jaxpool._engine.operations import Operation
from jaxpool._geometry.bins import BinAxis, has_bins
from jaxpool._geometry.window import Window

# The most cells that bisection counts at once. With 32 it takes up to twice as long, with 256 up to 5 times.
MOST_COUNTED_AT_ONCE = 128


def reduction_order(window: Window, op: Operation, shape: Sequence[int]) -> tuple[Window, ...]:
    """The windows that a reduction applies one after the other: one axis at a time, the last one first.

    Windows that share no cells are folded as blocks along all axes, the first one first, in longer slices. Small
    windows are reduced along all axes at once, up to 3 times faster. Bins are taken the first axis first.
    """
    if has_bins(window):
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


def is_innermost(part: Window, shape: Sequence[int], *, channels: int = 16) -> bool:
    """Whether the windows run along the axis whose cells are adjacent in memory, or with fewer channels behind it."""
    behind = shape[part.axes[-1].axis + 1 :]
    # A symbolic size may have any value.
    return all(isinstance(size, int) for size in behind) and math.prod(behind) < channels


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


def gathered_bins(part: Window) -> BinAxis | None:
    """The axis of bins whose cells are gathered place by place, instead of copied to tiles; None for other windows.

    For bins of at most 64 cells, and fewer bins than cells, so that no cell is in more than two.
    """
    axis = part.axes[0]
    if not isinstance(axis, BinAxis) or len(part.axes) > 1 or axis.kernel > 64 or axis.output > axis.size:
        return None
    return axis


def spreads_each_bin(axis: BinAxis, rank: int) -> bool:
    """Whether each bin sends its cotangent to all cells, instead of a gather at each cell.

    Along the last axis gathers are not computed in vectors: up to 8 bins in a period take half to three quarters of the
    time, 20 as long, 50 twice as long.
    """
    return axis.axis == rank - 1 and axis.period().output <= 8


def slices_at_once(cells: int) -> int:
    """How many slices each step combines in a fold of so many cells."""
    return 12 if cells <= 256 else 16


def adjacent_rows(shape: Sequence[int], axis: int) -> int | None:
    """How many adjacent rows of 8 cells each step combines in a fold of an axis; None for slices far apart.

    Memory is then read in order: a last axis of 3136 cells takes 0.6 to 0.75 times as long. Rows of other lengths take
    up to twice as long as slices, and along other axes slices are fast.
    """
    cells = shape[axis]
    if axis != len(shape) - 1 or cells < 256:
        return None
    return max((rows for rows in range(16, 65) if cells % (8 * rows) == 0), default=None)


def folds_pieces(part: Window) -> bool:
    """Whether an extreme and its winner come from pieces of the window, instead of one cell at a time.

    All steps but the last are evaluated at every cell, whatever the stride, so this pays off only if windows overlap
    strongly. Beyond 64 cells the program would otherwise be long and slow to compile.
    """
    return len(part.axes) == 1 and all(axis.kernel > min(64, max(16, 8 * axis.stride)) for axis in part.axes)


def sums_pieces(part: Window) -> bool:
    """Whether sums come from pieces of the window, instead of one cell at a time: faster and with less rounding."""
    return not part.tiles and all(axis.kernel > 64 or axis.kernel > max(16, 8 * axis.stride) for axis in part.axes)


def spreads_pieces(part: Window) -> bool:
    """Whether the transpose of a sum adds the windows that hold a cell in pieces, instead of one by one.

    Up to 32 windows that is no faster and makes the program no shorter; beyond, it rounds less and compiles faster.
    """
    return len(part.axes) == 1 and all(
        not isinstance(axis, BinAxis) and axis.kernel > 32 * axis.stride and 1 in (axis.stride, axis.dilation)
        for axis in part.axes
    )


def terms_order(window: Window) -> tuple[Window, ...]:
    """The windows that a norm is taken over, one after the other, the last one first.

    Up to 9 cells with little overlap, all axes at once are 2 to 4 times faster, as every further axis needs logarithms.
    """
    overlaps = window.cells / math.prod(axis.stride for axis in window.axes)
    return (window,) if window.cells <= 9 and overlaps <= 4 else window.split()


def exponentials_order(window: Window) -> tuple[Window, ...]:
    """The windows that a mean or sum of exponentials is taken over, one after the other, the last one first.

    Up to 16 cells all axes are taken at once: gradients take 0.4 to 1 times as long, as every axis needs its own sums.
    """
    return (window,) if window.cells <= 16 else window.split()


def terms_in_pieces(part: Window) -> bool:
    """Whether a pool of weighted cells is taken over pieces of the window, one after the other.

    Up to 32 cells that is no faster; beyond 64 the program would be long and slow to compile.
    """
    (axis, *others) = part.axes
    long = axis.kernel > 64 or axis.kernel > max(32, 8 * axis.stride)
    return long and not (others or part.tiles or isinstance(axis, BinAxis))


def sums_powers(part: Window) -> bool:
    """Whether norms are roots of sums of powers of cells, instead of powers of ratios to the largest cell.

    This is up to twice as fast if there are many times fewer windows than cells, and slower if there are as many.
    """
    return part.cells > 9 and (part.is_single or math.prod(axis.stride for axis in part.axes) >= 4)


def keeps_terms(window: Window, shape: Sequence[int]) -> bool:
    """Whether terms of cells are computed before the loop that sums them over windows, instead of in it.

    Windows that share cells would compute them again. Without overlap a separate loop takes up to 1.9 times as long,
    except along the innermost axis, where terms of a slice with a stride are not computed in vectors.
    """
    return not window.tiles or is_innermost(window, shape)


def selects_by_network(window: Window) -> bool:
    """Whether a network of minima and maxima finds the cells of given ranks, instead of bisecting their values.

    For 49 cells it takes half to two thirds of the time, for 81 up to 1.4 times, and twice as long to compile.
    """
    return window.cells <= 64
