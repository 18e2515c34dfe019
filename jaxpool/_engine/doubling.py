"""Windows put together from halves: log2(kernel) steps instead of one per cell.

With M(w, i) the result for the w cells from i on, M(2w, i) = M(w, i) ∘ M(w, i+w), and for the last step
M(k, i) = M(w, i) ∘ M(w, i+k-w). The halves of the last step may overlap, so ∘ must not mind to meet a cell twice:
a maximum, a minimum, a choice of the better one. A sum does mind: its windows are put together from one or two of each
width 1, 2, 4, …, as the binary digits of the kernel size say. That is a tree, so that the rounding of a sum grows with
log2(kernel) too.
"""

from collections.abc import Callable
from functools import reduce

import jax
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


def sum_by_doubling(padded: jax.Array, part: Window) -> jax.Array:
    """The sum of the cells of every window of one axis."""
    (axis,) = part.axes
    length = (axis.output - 1) * axis.stride + 1
    sums, width, left, terms = padded, 1, axis.kernel, []
    while True:
        for _ in range(left % 2 if left > 3 else left):
            # The next cells of the window that no term holds yet.
            start = (axis.kernel - left * width) * axis.dilation
            terms.append(lax.slice_in_dim(sums, start, start + length, axis.stride, axis.axis))
            left -= 1
        if left == 0:
            return reduce(lax.add, terms)
        reach = width * axis.dilation
        first = lax.slice_in_dim(sums, 0, sums.shape[axis.axis] - reach, 1, axis.axis)
        later = lax.slice_in_dim(sums, reach, None, 1, axis.axis)
        sums, width, left = lax.optimization_barrier(first + later), 2 * width, left // 2
