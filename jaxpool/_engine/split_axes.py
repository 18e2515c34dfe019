"""An axis of cells split into rows of one stride each, and the outputs of the windows that hold the cells of each row.

In the notation of `gather`, a row holds the cells of one q. Rows start at the first real cell, so that a sharded axis
stays cut at the same cells, unless starting in the padding saves a term. In that case, if devices may share the axis,
rows still start at the first real cell, and the last cells of a row belong to the next q.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._engine.borders import Sliced, slices_of
from jaxpool._engine.operations import barrier, constant, pad
from jaxpool._engine.platforms import numbers_along
from jaxpool._geometry.window import WindowAxis

Covered = jax.Array | bool


@dataclass(frozen=True)
class SplitAxis:
    """One pooled axis split into q and r: the range of q that covers its real cells."""

    along: WindowAxis
    rank: int

    @property
    def behind(self) -> int:
        """How many cells the first real cell is after that at q = r = 0."""
        shift = self.along.low % self.along.stride
        return shift if len(self._steps(0)) < len(self._steps(shift)) else 0

    @property
    def shift(self) -> int:
        return (self.along.low - self.behind) % self.along.stride

    @property
    def first(self) -> int:
        return (self.along.low - self.behind) // self.along.stride

    @property
    def is_shared(self) -> bool:
        """Whether devices may share the axis; if so, the first row always starts at the first real cell."""
        rows, rest = divmod(self.along.size, self.along.stride)
        starts = tuple(start for step in self.steps for start in self._starts(step))
        return (
            rest == 0
            and self.along.output <= rows
            and Sliced(self.rank, self.along.axis, rows, rows, 1, starts).is_shared
        )

    def starts(self, step: int) -> tuple[int, ...]:
        """The window of the first row for t = step, and that of its last cells if these belong to the next q."""
        return self._starts(step) if self.is_shared else (self.first - step,)

    def _starts(self, step: int) -> tuple[int, ...]:
        return (self.first - step, self.first - step + 1) if self.behind else (self.first - step,)

    @property
    def before(self) -> int:
        """Cells of the first row before the first real cell."""
        return 0 if self.is_shared else self.behind

    @property
    def count(self) -> int:
        """The number of rows, one for each q unless rows straddle two."""
        return -(-(self.before + self.along.size) // self.along.stride)

    @property
    def around(self) -> tuple[int, int]:
        """Windows before the first output and after the last that some q reaches with some t."""
        return self.steps[-1] - self.first, self.first + self.count - self.steps[0] - self.along.output

    @property
    def sliced(self) -> Sliced:
        """The slices of the outputs, which are padded to the number of rows if the axis is shared."""
        size = self.count if self.is_shared else self.along.output
        starts = tuple(start for step in self.steps for start in self.starts(step))
        return Sliced(self.rank, self.along.axis, size, self.count, 1, starts)

    @property
    def steps(self) -> range:
        """The values of t."""
        return self._steps(self.shift)

    def _steps(self, shift: int) -> range:
        return range(-1 if shift else 0, (self.along.extent - 1 - shift) // self.along.stride + 1)

    def offsets(self, step: int, shape: Sequence[int], r_axis: int) -> tuple[jax.Array | int, Covered]:
        """The offset j of every r for t = step, and whether it exists."""
        along = self.along
        start = step * along.stride + self.shift
        if along.stride == 1:
            return start // along.dilation, start % along.dilation == 0
        numbers = numbers_along(shape, r_axis)
        distances = start + ((numbers + self.behind) % along.stride if self.behind > self.before else numbers)
        covered: Covered = distances < along.extent if start + along.stride > along.extent else True
        if start < 0:
            covered = covered & (distances >= 0)
        if along.dilation == 1:
            return distances, covered
        return distances // along.dilation, covered & (distances % along.dilation == 0)


def _of_this_q(axis: SplitAxis, number: int, rank: int) -> Any:
    """Which cells of every row belong to the q that it starts with; `number` is the axis of r."""
    shape = [axis.along.stride if n == number else 1 for n in range(rank)]
    return constant(numbers_along(shape, number) < axis.along.stride - axis.behind)


def outputs_at(array: jax.Array, fill: Any, axes: Sequence[SplitAxis]) -> Callable[[tuple[int, ...]], jax.Array]:
    """Return a function from t along every axis to the outputs at the windows of all rows; outside they are `fill`."""
    if not any(axis.is_shared for axis in axes):
        around = _cover_outputs(array, fill, axes)
        return lambda steps: _windows_at(around, axes, steps)
    # An array that is constant along an axis has size 1 there.
    sliced = [axis for axis in axes if array.shape[axis.along.axis] == axis.along.output]
    widths = {axis.along.axis: (0, axis.count - axis.along.output) for axis in sliced if axis.is_shared}
    slices = cache(slices_of(pad(array, widths, fill), [axis.sliced for axis in sliced], fill))

    def choose(starts: tuple[int, ...], others: Sequence[tuple[SplitAxis, tuple[int, ...]]]) -> jax.Array:
        """The windows from these starts along the first axes, and from either start along the rest."""
        if not others:
            return _expand(slices(starts), axes)
        (axis, either), *others = others
        here, *following = (choose((*starts, start), others) for start in either)
        if not following:
            return here
        number = axis.along.axis + axes.index(axis) + 1
        return jnp.where(_of_this_q(axis, number, here.ndim), here, following[0])

    return lambda steps: choose((), [(a, a.starts(t)) for a, t in zip(axes, steps, strict=True) if a in sliced])


def _cover_outputs(array: jax.Array, fill: Any, axes: Sequence[SplitAxis]) -> jax.Array:
    """The outputs that some q reaches with some t; the lowest o has the largest t."""
    widths = {axis.along.axis: axis.around for axis in axes if array.shape[axis.along.axis] == axis.along.output}
    return pad_and_keep(array, fill, widths)


def _windows_at(array: jax.Array, axes: Sequence[SplitAxis], steps: Sequence[int]) -> jax.Array:
    for axis, step in zip(axes, steps, strict=True):
        if array.shape[axis.along.axis] > 1:
            start = axis.steps[-1] - step
            array = lax.slice_in_dim(array, start, start + axis.count, 1, axis.along.axis)
    return _expand(array, axes)


def _expand(array: jax.Array, axes: Sequence[SplitAxis]) -> jax.Array:
    return lax.expand_dims(array, [axis.along.axis + position + 1 for position, axis in enumerate(axes)])


def pad_and_keep(array: jax.Array, fill: Any, widths: dict[int, tuple[int, int]]) -> jax.Array:
    """Pad the array, followed by a barrier on the CPU."""
    return barrier(pad(array, widths, fill)) if any(map(any, widths.values())) else array
