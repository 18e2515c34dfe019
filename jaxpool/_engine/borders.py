"""Shifted slices of arrays along sharded axes, for which devices exchange only the cells at the borders of shards.

Padding or cropping a sharded axis gives a size that the devices do not divide. The compiler then moves all rows of the
shards by a few places, and does so again for every slice. A shift keeps the size and fills in the cells from outside:
cells stay where they are, except those that the next shard reads. Every shift starts from the previous one, so that no
cell is sent twice. Arrays are padded as on one device where slices reach beyond the next shard; along all other axes,
where one padding costs a branch per cell and so would every shift; and on TPUs, whose windowed operations exchange what
they need.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np
from jax import lax

from jaxpool._engine.operations import barrier, pad, private_copy
from jaxpool._engine.platforms import devices_along, known_platform


@dataclass(frozen=True)
class Sliced:
    """An axis of `size` cells and the wanted slices: `count` cells at a `stride`, from each of `starts`."""

    rank: int
    axis: int
    size: int
    count: int
    stride: int
    starts: tuple[int, ...]

    @property
    def length(self) -> int:
        """Cells from the first to the last cell of a slice."""
        return (self.count - 1) * self.stride + 1

    @property
    def shifts(self) -> dict[int, int]:
        """For every start, the least shift after which the slice is within the array."""
        return {start: min(start, 0) or max(0, start + self.length - self.size) for start in self.starts}

    @property
    def around(self) -> tuple[int, int]:
        """The padding that all slices need; negative for cells that no slice has."""
        return -min(self.starts), max(self.starts) + self.length - self.size

    @property
    def is_shared(self) -> bool:
        """Whether devices share the axis and exchange cells with their immediate neighbours only."""
        reach, devices = max(map(abs, self.shifts.values())), devices_along(self.axis, self.rank)
        fits = self.length <= self.size and 0 < reach <= self.size // devices
        return devices > 1 and fits and known_platform() != "tpu"


def slices_of(array: jax.Array, axes: Sequence[Sliced], fill: Any) -> Callable[[tuple[int, ...]], jax.Array]:
    """Return a function from a start along each axis to that slice of the array; cells outside hold `fill`."""
    fill = np.array(fill, array.dtype)[()]
    # Cells are exchanged before any padding is added.
    shared, others = ([axis for axis in axes if axis.is_shared == wanted] for wanted in (True, False))
    around = {axis.axis: axis.around for axis in others}

    @cache
    def shifted(starts: tuple[int, ...]) -> dict[int, jax.Array]:
        """For every amount, the array sliced along the first shared axes and shifted along the next one."""
        return _shift(along_shared(starts), shared[len(starts)], fill)

    @cache
    def along_shared(starts: tuple[int, ...]) -> jax.Array:
        if not starts:
            return private_copy(array, fill)
        *before, start = starts
        axis = shared[len(before)]
        amount = axis.shifts[start]
        return _slice(shifted(tuple(before))[amount], axis, start - amount)

    @cache
    def padded(starts: tuple[int, ...]) -> jax.Array:
        return barrier(pad(along_shared(starts), around, fill))

    def sliced(starts: tuple[int, ...]) -> jax.Array:
        of_axis = dict(zip(axes, starts, strict=True))
        result = padded(tuple(of_axis[axis] for axis in shared))
        for axis in others:
            result = _slice(result, axis, of_axis[axis] + axis.around[0])
        return result

    return sliced


def _slice(array: jax.Array, axis: Sliced, first: int) -> jax.Array:
    # Along a sharded axis the compiler loses a single cell that is taken with a stride.
    return lax.slice_in_dim(array, first, first + axis.length, axis.stride if axis.count > 1 else 1, axis.axis)


def _shift(array: jax.Array, axis: Sliced, fill: Any) -> dict[int, jax.Array]:
    """For every amount, the array whose cell i along the axis is cell i + amount of the given one."""
    found = {0: array}
    amounts = sorted({*axis.shifts.values()} - {0}, key=abs)
    for one_way in ([amount for amount in amounts if amount < 0], [amount for amount in amounts if amount > 0]):
        for last, amount in itertools.pairwise([0, *one_way]):
            config = [(0, 0, 0)] * array.ndim
            config[axis.axis] = last - amount, amount - last, 0
            found[amount] = barrier(lax.pad(found[last], fill, config))
    return found
