"""An axis of cells split into rows of one stride each, and the outputs of the windows that hold the cells of each row.

In the notation of `gather`, a row holds the cells of one q. Rows start at the first real cell, so that a sharded axis
stays cut at the same cells, unless starting in the padding saves a term.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax import lax

from jaxpool._engine.operations import barrier, pad
from jaxpool._engine.stages import numbers_along
from jaxpool._geometry.window import WindowAxis

Covered = jax.Array | bool


@dataclass(frozen=True)
class SplitAxis:
    """One pooled axis split into q and r: the range of q that covers its real cells."""

    along: WindowAxis

    @property
    def before(self) -> int:
        """Cells of the first row before the first real cell."""
        shift = self.along.low % self.along.stride
        return shift if len(self._steps(0)) < len(self._steps(shift)) else 0

    @property
    def shift(self) -> int:
        return (self.along.low - self.before) % self.along.stride

    @property
    def first(self) -> int:
        return (self.along.low - self.before) // self.along.stride

    @property
    def count(self) -> int:
        """The number of rows, one for each q."""
        return -(-(self.before + self.along.size) // self.along.stride)

    @property
    def around(self) -> tuple[int, int]:
        """Windows before the first output and after the last that some q reaches with some t."""
        return self.steps[-1] - self.first, self.first + self.count - self.steps[0] - self.along.output

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
        distances = start + numbers_along(shape, r_axis)
        covered: Covered = distances < along.extent if start + along.stride > along.extent else True
        if start < 0:
            covered = covered & (distances >= 0)
        if along.dilation == 1:
            return distances, covered
        return distances // along.dilation, covered & (distances % along.dilation == 0)


def outputs_at(array: jax.Array, fill: Any, axes: Sequence[SplitAxis]) -> Callable[[tuple[int, ...]], jax.Array]:
    """Return a function from t along every axis to the outputs at the windows of all rows; outside they are `fill`."""
    # An array that is constant along an axis has size 1 there. The lowest o has the largest t.
    widths = {axis.along.axis: axis.around for axis in axes if array.shape[axis.along.axis] == axis.along.output}
    around = pad_and_keep(array, fill, widths)
    return lambda steps: _windows_at(around, axes, steps)


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
