"""Footprints: which cells of a box are in a window, for windows of any shape, such as disks and crosses.

The offsets of cells, and their row-major numbers, are those in the box. Where a cell of it is real depends on one axis
at a time, so what there is to know of all windows are sums of products of one matrix for each axis.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._arrays import as_jax_takes, check_no_mask
from jaxpool._window import Window, WindowAxis, numbers


@dataclass(frozen=True, repr=False)
class Footprint:
    """A box of this shape, and for each of its cells a byte in row-major order: 1 for those that are in the window."""

    shape: tuple[int, ...]
    cells: bytes

    def __repr__(self) -> str:
        return f"footprint({'×'.join(map(str, self.shape))}, {len(self.numbers)} cells)"

    @cached_property
    def held(self) -> np.ndarray:
        """Which cells are in the window, as a bool array."""
        return np.frombuffer(self.cells, np.bool_).reshape(self.shape)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The row-major numbers, in the box, of the cells."""
        return tuple(np.flatnonzero(self.held).tolist())

    @property
    def is_full(self) -> bool:
        """Whether the whole box is in the window."""
        return len(self.numbers) == math.prod(self.shape)

    def in_order(self, axes: Sequence[int]) -> "Footprint":
        """The footprint whose axes are these of this one."""
        return _of(self.held.transpose(axes))

    def mirrored(self) -> "Footprint":
        """The footprint in the opposite direction along every axis."""
        return _of(np.flip(self.held))

    def sums(self, along: Sequence[np.ndarray]) -> np.ndarray:
        """Σ over the offsets j of the window of Π along[a][j_a, ·]: an entry for each product of columns."""
        total = self.held.astype(np.int64)
        for matrix in along:
            total = np.tensordot(total, matrix.astype(np.int64), (0, 0))
        return total

    def first_numbers(self, along: Sequence[np.ndarray]) -> np.ndarray:
        """The row-major number of the first offset j of the window with Π along[a][j_a, ·], or 0; as in `sums`."""
        found = np.zeros([matrix.shape[1] for matrix in along], np.int64)
        for place in np.ndindex(found.shape):
            present = self.held
            for axis, (matrix, column) in enumerate(zip(along, place, strict=True)):
                present = present & matrix[:, column].reshape([-1 if a == axis else 1 for a in range(present.ndim)])
            found[place] = np.argmax(present)
        return found


def _of(held: np.ndarray) -> Footprint:
    return Footprint(held.shape, np.ascontiguousarray(held).tobytes())


@dataclass(frozen=True)
class FootprintWindow(Window):
    """Windows that have only the cells of a footprint, whose axes are those of the window."""

    footprint: Footprint = field(kw_only=True)

    has_footprint = True

    @property
    def numbers(self) -> Sequence[int]:
        return self.footprint.numbers

    @property
    def tiles(self) -> bool:
        return False

    def split(self) -> tuple[Window, ...]:
        """The windows themselves, which are no product of windows along each axis."""
        return (self,)

    def holders(self) -> "FootprintWindow":
        return FootprintWindow(super().holders().axes, footprint=self.footprint.mirrored())

    def counts(self, rank: int, *, padding: bool) -> Any:
        counts = self._counts_of_kinds(padding=padding)
        return int(counts.flat[0]) if (counts == counts.flat[0]).all() else self._of_windows(counts, rank)

    def possible_counts(self) -> tuple[int, ...]:
        return tuple(np.unique(self._counts_of_kinds(padding=False)).tolist())

    def _counts_of_kinds(self, *, padding: bool) -> np.ndarray:
        return self.footprint.sums([_present(axis, padding=padding) for axis in self.axes])

    def uncovered_axes(self) -> tuple[WindowAxis, ...]:
        return () if self._covered_kinds().all() else self.axes

    def covered(self, rank: int) -> tuple[Any, ...]:
        kinds = self._covered_kinds()
        return () if kinds.all() else (_expanded(kinds, [_kind_of_cells(axis, rank) for axis in self.axes]),)

    def _covered_kinds(self) -> np.ndarray:
        return self.footprint.sums([_holders(axis) for axis in self.axes]) > 0

    def first_real_numbers(self, rank: int) -> Any:
        """The row-major number, in the box, of the first real cell of each window; 0 if there is none."""
        numbers = self.footprint.first_numbers([_present(axis, padding=False) for axis in self.axes])
        return self._of_windows(numbers, rank)

    def _of_windows(self, values: np.ndarray, rank: int) -> Any:
        """The values of all windows, from those of each kind along the pooled axes."""
        return _expanded(values, [axis.kind(rank) for axis in self.axes])

    def check_no_window_of_padding(self, function: str, fix: str) -> None:
        counts = self.footprint.sums([_present(axis, padding=axis.extension is not None) for axis in self.axes])
        if not counts.all():
            kinds = np.unravel_index(np.argmin(counts), counts.shape)
            place = tuple(int(axis.kinds()[kind]) for axis, kind in zip(self.axes, kinds, strict=True))
            raise ValueError(
                f"{function}: window {place} along axes {self.pooled_axes} holds only padding with kernel_size "
                f"{self.footprint}; {fix}"
            )


# What differs between windows, or between cells, does so near the ends of an axis, or repeats with the stride. So it is
# computed in NumPy for one of each kind, and looked up on the device by the number of the kind.


def _present(axis: WindowAxis, *, padding: bool) -> np.ndarray:
    """Whether the cell at each offset (rows) of each kind of window (columns) is real or, with `padding`, declared."""
    cells = np.arange(axis.kernel)[:, None] * axis.dilation + axis.start(axis.kinds())
    low, high = (axis.low, axis.high) if padding else (0, 0)
    return (cells >= -low) & (cells < axis.size + high)


def _holders(axis: WindowAxis) -> np.ndarray:
    """Whether a window has a cell of each kind (columns) at each offset (rows)."""
    distances = _one_of_each(axis) + axis.low - np.arange(axis.kernel)[:, None] * axis.dilation
    return (distances >= 0) & (distances <= (axis.output - 1) * axis.stride) & (distances % axis.stride == 0)


def _one_of_each(axis: WindowAxis) -> np.ndarray:
    """Cells of all kinds: those near the ends, and one stride of those between, which repeat with it."""
    before, after = _between(axis)
    return np.r_[: min(before + axis.stride, after), after : axis.size]


def _kind_of_cells(axis: WindowAxis, rank: int) -> Any:
    """The number of the kind of each cell along an axis of an array of `rank` axes."""
    before, after = _between(axis)
    cells = numbers([axis.size if a == axis.axis else 1 for a in range(rank)], axis.axis)
    if after - before <= axis.stride:
        return cells
    repeated = before + lax.rem(jnp.maximum(cells - before, 0), np.int32(axis.stride))
    behind = cells - (after - before - axis.stride)
    return jnp.where(cells < before, cells, jnp.where(cells < after, repeated, behind))


def _between(axis: WindowAxis) -> tuple[int, int]:
    """The first cell that windows hold at all offsets, and the first one behind it that they do not."""
    before = min(axis.extent, axis.size)
    return before, min(max(before, (axis.output - 1) * axis.stride - axis.low), axis.size)


def _expanded(values: np.ndarray, kinds: Sequence[Any]) -> Any:
    """The values at these kinds along the axes of the window, each an array that broadcasts against its arrays."""
    number: Any = 0
    for kind, size in zip(kinds, values.shape, strict=True):
        number = number * size + kind
    table = values.ravel().astype(values.dtype if values.dtype == np.bool_ else np.int32)
    return jnp.take(table, number, mode="clip") if isinstance(number, jax.Array) else table[number]


def make_footprint(cells: Any, function: str = "footprint", name: str = "cells") -> Footprint:
    """The footprint of a bool array, or raise if it is not one, or holds no cell; `name` is the function's for it."""
    cells = as_jax_takes(function, name, cells)
    for row in cells if isinstance(cells, (list, tuple)) else ():
        check_no_mask(function, name, row)
    if isinstance(cells, jax.core.Tracer):
        raise TypeError(f"{function}: {name} must be known while tracing, got a traced value; use a NumPy array")
    try:
        array = np.asarray(cells)
    except ValueError:
        raise ValueError(
            f"{function}: {name} has rows of different lengths; give an array, with False to fill them"
        ) from None
    if array.dtype != np.bool_:
        fix = f"compare it first, as in {name} != 0"
        raise TypeError(f"{function}: {name} must be bool, got dtype {array.dtype}; {fix}")
    if not array.ndim:
        raise ValueError(f"{function}: {name} has no axes; give an array with an axis for each pooled axis")
    if not array.any():
        raise ValueError(f"{function}: {name} of shape {array.shape}: all False; set at least one to True")
    return _of(array)
