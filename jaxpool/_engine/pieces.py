"""Large windows assembled from pieces: log(kernel) steps instead of one per cell.

With M(w, i) the result for the w cells from i on, a window of k cells is M(k, i) = M(w, i) ∘ M(w, i+w) ∘ … ∘
M(w, i+k-w): a few pieces of w cells, each made of smaller pieces, down to single cells. The last two pieces of a window
may overlap, so ∘ must be idempotent: a maximum, a minimum, or a choice of the better cell. A sum is not: its windows
are made of sums of 1, b, b², … cells, as many of each as the digits of k in base b say. Each step adds its pieces
pairwise, so the rounding error of a sum grows with log2(k). Up to 8 pieces per step cost less than two, as every step
reads and writes whole arrays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import Arrays, Operation, identity
from jaxpool._engine.slices import Numbers, Winner, better, number_dtype, pad_winners
from jaxpool._engine.stages import stage
from jaxpool._engine.window_offsets import pad_windows
from jaxpool._geometry.window import Window, WindowAxis

_MOST_PIECES = 8


@dataclass(frozen=True)
class Step:
    """One step: windows of `kernel` cells made of pieces of `width` cells that start at `starts`."""

    kernel: int
    width: int

    @property
    def starts(self) -> tuple[int, ...]:
        """The first cell of every piece in the window."""
        return tuple(min(start, self.kernel - self.width) for start in range(0, self.kernel, self.width))


def steps(kernel: int) -> list[Step]:
    """The steps that make windows of `kernel` cells from single cells, with about the same number of pieces each."""
    pieces = _pieces(kernel)
    made = []
    while kernel > 1:
        width = -(-kernel // pieces)
        made.append(Step(kernel, width))
        kernel = width
    return made[::-1]


def _pieces(kernel: int) -> int:
    """The least number of pieces per step that makes a window in the least number of steps."""
    count = 1
    while _MOST_PIECES**count < kernel:
        count += 1
    return next(number for number in range(2, _MOST_PIECES + 1) if number**count >= kernel)


def fold_in_pieces(padded: Arrays, part: Window, join: Callable[[Arrays, Arrays, int], Arrays]) -> Arrays:
    """Combine the cells of every window along one axis, of two cells or more.

    `join(first, later, start)` combines the result so far with a piece that starts `start` cells into the window.
    """
    (axis,) = part.axes
    for step in steps(axis.kernel):

        def combine(*arrays: jax.Array, step: Step = step) -> Arrays:
            is_last = step.kernel == axis.kernel
            count = axis.output if is_last else arrays[0].shape[axis.axis] - step.starts[-1] * axis.dilation
            result = None
            for start in step.starts:
                piece = tuple(_pieces_at(array, axis, start, count, axis.stride if is_last else 1) for array in arrays)
                result = piece if result is None else join(result, piece, start)
            assert result is not None
            return result

        padded = stage(combine, *padded)
    return padded


def sum_in_pieces(padded: jax.Array, part: Window) -> jax.Array:
    """The sum of the cells of every window along one axis."""
    (axis,) = part.axes
    base = _pieces(axis.kernel)
    # Sums of 1, base, base², … cells, starting at every cell that has so many after it.
    sums, width = [padded], 1
    while width * base <= axis.kernel:

        def widen(narrow: jax.Array, width: int = width) -> jax.Array:
            count = narrow.shape[axis.axis] - (base - 1) * width * axis.dilation
            return _total([_pieces_at(narrow, axis, number * width, count, 1) for number in range(base)])

        sums.append(stage(widen, sums[-1]))
        width *= base

    def combine(*sums: jax.Array) -> jax.Array:
        terms, start = [], 0
        for power, array in reversed(list(enumerate(sums))):
            while start + base**power <= axis.kernel:
                terms.append(_pieces_at(array, axis, start, axis.output, axis.stride))
                start += base**power
        return _total(terms)

    return stage(combine, *sums)


def _pieces_at(array: jax.Array, axis: WindowAxis, start: int, count: int, stride: int) -> jax.Array:
    """The pieces that start `start` cells into each of `count` windows."""
    first = start * axis.dilation
    return lax.slice_in_dim(array, first, first + (count - 1) * stride + 1, stride, axis.axis)


def _total(terms: Sequence[jax.Array]) -> jax.Array:
    """The pairwise sum."""
    middle = len(terms) // 2
    return lax.add(_total(terms[:middle]), _total(terms[middle:])) if middle else terms[0]


def reduce_in_pieces(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine the results of a few pieces of the window, themselves made of pieces, log8(kernel) times."""
    padded = pad_windows(x, window, identity(op, x.dtype))
    if op is lax.add:
        return sum_in_pieces(padded, window)
    (result,) = fold_in_pieces((padded,), window, lambda first, later, _: (op(first[0], later[0]),))
    return result


def select_in_pieces(x: jax.Array, numbers: Numbers, part: Window, op: Operation) -> Winner:
    """Take the best winner of a few pieces, log8(kernel) times; a cell in two pieces may be the winner of both."""

    def join(first: Arrays, later: Arrays, start: int) -> Winner:
        candidate = later[0], later[1] + np.array(start, later[1].dtype)[()]
        return better((first[0], first[1]), candidate, op, by_number=numbers is not None)

    padded, added = pad_winners(x, numbers, part, op)
    if added is None:
        added = jnp.zeros_like(padded, number_dtype(numbers, part))
    values, winners = fold_in_pieces((padded, added), part, join)
    return values, winners
