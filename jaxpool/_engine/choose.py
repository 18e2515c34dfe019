"""Which lowering evaluates which window: the only place with numbers that come from measurements."""

import math

from jax import lax

from jaxpool._bins import BinAxis
from jaxpool._engine.operations import Operation
from jaxpool._window import Window


def reduction_order(window: Window) -> tuple[Window, ...]:
    """The windows that a reduction applies one after the other: one axis at a time, the last one first.

    Where windows share no cells, blocks are folded along all axes, the first one first, in longer slices.
    """
    if any(isinstance(axis, BinAxis) for axis in window.axes):
        return window.split()[::-1]
    return (window,) if folds_blocks(window) else window.split()


def reduces_by_slices(part: Window, op: Operation) -> bool:
    """Whether shifted slices reduce this window, instead of `lax.reduce_window`.

    For windows that do not overlap, a single one included, they are faster, up to 16 cells of a sum. For maxima and
    minima it is not a matter of speed: the CPU may drop NaN from those in `lax.reduce_window`, at 4096 elements and
    more.
    """
    overlap = any(axis.output > 1 and axis.extent > axis.stride for axis in part.axes)
    return not overlap and (op is not lax.add or part.cells <= 16)


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


def doubles(part: Window) -> bool:
    """Whether an extreme and its winner come from log2(kernel) steps of halves, instead of one cell at a time.

    A step of doubling reads every cell twice, a slice one cell in `stride`; beyond 32 slices compiling is slow.
    """
    return len(part.axes) == 1 and all(
        axis.kernel > min(32, max(7, 2 * math.log2(axis.kernel) * axis.stride)) for axis in part.axes
    )


def sums_by_doubling(part: Window) -> bool:
    """Whether sums come from log2(kernel) steps of halves, instead of one cell at a time.

    That is faster from 17 cells on, up to 5 times for 31 cells at stride 1, where windows overlap 8 times and more; for
    larger windows it also rounds less.
    """
    return not part.tiles and all(axis.kernel > 64 or axis.kernel > max(16, 8 * axis.stride - 1) for axis in part.axes)


def spreads_by_doubling(part: Window) -> bool:
    """Whether the transpose of a sum sums the windows that hold a cell by halves, instead of one by one.

    Up to 32 windows that is no faster, and the program no longer; beyond, it rounds less and compiles sooner.
    """
    return len(part.axes) == 1 and all(
        not isinstance(axis, BinAxis) and axis.kernel > 32 * axis.stride and 1 in (axis.stride, axis.dilation)
        for axis in part.axes
    )


def selection_order(window: Window) -> tuple[Window, ...]:
    """The windows that a selection applies one after the other: all axes at once, or each in turn, the last one first.

    All at once is faster for windows of up to 9 cells of which few overlap, 3×3 at stride 2, 2×2 at any, and for a
    single window.
    """
    if window.is_single and window.tiles:
        return (window,)
    overlaps = window.cells / math.prod(axis.stride for axis in window.axes)
    return (window,) if window.cells <= 9 and overlaps <= 4 else window.split()


def routes_by_doubling(part: Window) -> bool:
    """Whether cotangents are routed back through log2(kernel) halvings, instead of one comparison per overlap."""
    return len(part.axes) == 1 and all(axis.extent > 7 * axis.stride for axis in part.axes)
