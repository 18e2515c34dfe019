"""Windows that several devices hold: every device evaluates the parts that it has, and then parts are combined.

A part is what a window holds of a shard. Devices exchange one value for each part, and no cells, however many shards a
window reaches over. The parts on a device are laid out as windows of one size that tile an axis, as `bins_as_tiles`
does for bins, so that any code for windows evaluates them. So are then the parts of each window. For maps back to the
cells, every device gets the windows of its parts. Offsets in a part are counted from its first cell.

This is for windows that share no cells, and for bins. For other windows that cross from shard to shard see `shards`.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.bins_as_tiles import take
from jaxpool._engine.blocks import fold
from jaxpool._engine.operations import Operation, barrier
from jaxpool._engine.shards import join_shards, split_shards
from jaxpool._geometry.window import Window, WindowAxis


@dataclass(frozen=True)
class Parts:
    """The parts of the windows along an axis that devices share."""

    along: WindowAxis

    @property
    def devices(self) -> int:
        return self.along.devices

    @property
    def cells(self) -> int:
        """The cells of a device."""
        return -(-self.along.size // self.devices)

    @cached_property
    def _first_cells(self) -> np.ndarray:
        """The first real cell of each window."""
        return np.maximum(self.along.starts, 0)

    @cached_property
    def _ends(self) -> np.ndarray:
        """The first cell after the real ones of each window."""
        return self._first_cells + self.along.counts(padding=False)

    @property
    def _first_devices(self) -> np.ndarray:
        """The device that has the first part of each window."""
        return self._first_cells // self.cells

    @cached_property
    def counts(self) -> np.ndarray:
        """The number of parts of each window."""
        return np.where(self._ends > self._first_cells, (self._ends - 1) // self.cells - self._first_devices + 1, 0)

    @cached_property
    def _first_windows(self) -> np.ndarray:
        """The window of the first part of each device: windows of its other parts follow."""
        return np.searchsorted(self._ends, np.arange(self.devices) * self.cells, "right")

    @cached_property
    def _windows(self) -> np.ndarray:
        """The window of each part; beyond all windows where a device has fewer parts than others."""
        ends = np.searchsorted(self._first_cells, np.arange(1, self.devices + 1) * self.cells)
        numbers = np.arange(np.max(ends - self._first_windows))
        windows = self._first_windows[:, None] + numbers
        return np.where(windows < ends[:, None], windows, self.along.output)

    def _of_parts(self, values: np.ndarray) -> np.ndarray:
        """Of values for each window, that of the window of each part."""
        return values[np.minimum(self._windows, self.along.output - 1)]

    @property
    def _shards(self) -> np.ndarray:
        """The first cell of each device, in a shape that broadcasts against parts."""
        return np.arange(self.devices)[:, None] * self.cells

    def offsets(self, rank: int) -> np.ndarray:
        """The offset of the first cell of each part in its window; broadcasts against parts of arrays of this rank."""
        offsets = np.maximum(self._of_parts(self._first_cells), self._shards) - self._of_parts(self.along.starts)
        return offsets.reshape(*[1] * self.along.axis, *offsets.shape, *[1] * (rank - self.along.axis - 1))

    @cached_property
    def _cells_of_parts(self) -> np.ndarray:
        """The cells of each part, counted from the first of the device; beyond them where it has fewer than others."""
        first = np.maximum(self._of_parts(self._first_cells) - self._shards, 0)
        counts = np.minimum(self._of_parts(self._ends) - self._shards, self.cells) - first
        counts = np.where(self._windows < self.along.output, counts, 0)[..., None]
        numbers = np.arange(counts.max())
        return np.where(numbers < counts, first[..., None] + numbers, self.cells)

    @property
    def tiles(self) -> WindowAxis:
        """The parts of a device, side by side."""
        _, parts, cells = self._cells_of_parts.shape
        return _tiles(self.along.axis + 1, parts, cells)

    @property
    def together(self) -> WindowAxis:
        """The parts of each window, side by side."""
        return _tiles(self.along.axis, self.along.output, int(self.counts.max()))

    def of_device(self, window: Window) -> Window:
        """The parts of a device as windows."""
        behind = self.along.axis
        axes = (
            self.tiles if axis == self.along else replace(axis, axis=axis.axis + (axis.axis > behind))
            for axis in window.axes
        )
        return replace(window, axes=tuple(axes))

    def split_cells(self, array: jax.Array, fill: Any) -> jax.Array:
        """The cells of the parts of each device; `fill` where a part has fewer than others."""
        each = split_shards(array, self.along.axis, self.devices, self.cells, fill)
        return _merge(self._take_on_each(each, self._cells_of_parts, fill), self.along.axis + 1)

    def join_cells(self, array: jax.Array, op: Operation) -> jax.Array:
        """The cells of each device, from those of its parts; what a cell has in several parts is combined by `op`."""
        cells = self._shards + np.arange(self.cells)
        first, ends = (np.searchsorted(bound, cells, "right") for bound in (self._ends, self._first_cells))
        windows = first + np.arange(np.max(ends - first))[:, None, None]
        parts = windows - self._first_windows[:, None]
        places = cells - np.maximum(self._first_cells[np.minimum(windows, self.along.output - 1)], self._shards)
        positions = np.where(windows < ends, parts * self.tiles.kernel + places, self.tiles.size)
        array = self._take_on_each(array, np.moveaxis(positions, 0, 1), 0)
        along = self.along.axis + 1
        array = lax.squeeze(fold(array, (along,), op), (along,))
        return join_shards(array, self.along.axis, self.along.size)

    def split_windows(self, array: jax.Array) -> jax.Array:
        """The windows of the parts of each device."""
        return take(array, self._windows, self.along.axis, 0, unique=False)

    def join_windows(self, array: jax.Array, fill: Any) -> jax.Array:
        """The parts of each window, from those of each device; `fill` where a window has fewer than others."""
        parts = np.arange(self.together.kernel)
        devices = np.minimum(self._first_devices[:, None] + parts, self.devices - 1)
        numbers = np.arange(self.along.output)[:, None] - self._first_windows[devices]
        positions = devices * self._windows.shape[1] + numbers
        positions = np.where(parts < self.counts[:, None], positions, self._windows.size)
        array = barrier(_merge(array, self.along.axis))
        if not jnp.issubdtype(array.dtype, jnp.floating):
            return _merge(take(array, positions, self.along.axis, fill, unique=False), self.along.axis)
        # As integers: devices may add what they have to the zeros of others, which loses the sign of -0.
        bits = np.dtype(f"int{8 * array.dtype.itemsize}")
        fill = int(np.array(fill, array.dtype).view(bits))
        parts = take(lax.bitcast_convert_type(array, bits), positions, self.along.axis, fill, unique=False)
        return lax.bitcast_convert_type(_merge(parts, self.along.axis), array.dtype)

    def _take_on_each(self, array: jax.Array, positions: np.ndarray, fill: Any) -> jax.Array:
        """The entries of each device at positions of its own, which have two axes."""
        axis = self.along.axis
        if positions.shape[1:] == (1, array.shape[axis + 1]) and (positions == np.arange(positions.shape[2])).all():
            return jnp.expand_dims(array, axis + 1)

        def of_device(array: jax.Array, positions: Any) -> jax.Array:
            return take(array, positions, axis, fill, unique=False)

        return jax.vmap(of_device, (axis, 0), axis)(barrier(array), positions)


def _merge(array: jax.Array, axis: int) -> jax.Array:
    return lax.collapse(array, axis, axis + 2)


def _tiles(axis: int, windows: int, cells: int) -> WindowAxis:
    return WindowAxis(axis, windows * cells, cells, cells, 1, 0, 0, windows, devices=1)
