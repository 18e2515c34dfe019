"""Windows put together from halves: log2(kernel) steps instead of one per cell.

With M(w, i) the result for the w cells from i on, M(2w, i) = M(w, i) ∘ M(w, i+w), and for the last step
M(k, i) = M(w, i) ∘ M(w, i+k-w). The halves of the last step may overlap, so ∘ must not mind to meet a cell twice:
a maximum, a minimum, a choice of the better one.
"""

from collections.abc import Callable

from jax import lax

from jaxpool._engine.operations import Arrays
from jaxpool._window import Window


def doubling_shifts(kernel: int) -> list[int]:
    """How far apart the two halves lie in each step that makes a window of `kernel` cells from single cells."""
    shifts, width = [], 1
    while width < kernel:
        shifts.append(min(width, kernel - width))
        width += shifts[-1]
    return shifts


def fold_by_doubling(padded: Arrays, part: Window, join: Callable[[Arrays, Arrays, int], Arrays]) -> Arrays:
    """Combine the cells of every window of one axis of two cells or more.

    `join(first, later, shift)` combines two halves, of which the later one starts `shift` cells after the first.
    """
    (axis,) = part.axes
    shifts = doubling_shifts(axis.kernel)
    for step, shift in enumerate(shifts):
        last = step == len(shifts) - 1
        reach = shift * axis.dilation
        length = (axis.output - 1) * axis.stride + 1 if last else padded[0].shape[axis.axis] - reach
        stride = axis.stride if last else 1
        first = tuple(lax.slice_in_dim(array, 0, length, stride, axis.axis) for array in padded)
        later = tuple(lax.slice_in_dim(array, reach, reach + length, stride, axis.axis) for array in padded)
        padded = lax.optimization_barrier(join(first, later, shift))
    return padded
