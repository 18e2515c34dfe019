"""Bins, or other windows without overlap, that cross from shard to shard, by the parts that each device has of them.

`split` lays the parts out as windows of one size, of which every device has as many: they are pooled where they are.
`join` gives every device the values of all parts, side by side for each window, and pooling these is the second step.
So no cells are sent, however many shards a window reaches over, and a derivative sends nothing.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.shards import Halo, Shared
from jaxpool._geometry.bins import BinAxis
from jaxpool._geometry.window import Window, WindowAxis


@dataclass(frozen=True)
class Parts(Shared):
    """The parts of windows that each device has, as windows of one size that tile an axis."""

    @cached_property
    def starts(self) -> np.ndarray:
        """The first cell of each window."""
        return self.along.start(np.arange(self.along.output))

    @cached_property
    def ends(self) -> np.ndarray:
        """The cell after the last one of each window."""
        return self.along.end(np.arange(self.along.output))

    @cached_property
    def windows(self) -> np.ndarray:
        """The window of each part, for each device; beyond all windows where it has fewer parts than others."""
        edges = np.arange(self.devices + 1) * self.cells
        first = np.searchsorted(self.ends, edges[:-1], "right")
        bound = np.searchsorted(self.starts, edges[1:])
        windows = first[:, None] + np.arange((bound - first).max())
        return np.where(windows < bound[:, None], windows, self.along.output)

    @cached_property
    def cells_of_parts(self) -> tuple[np.ndarray, np.ndarray]:
        """The first cell of each part on its device, and the number of its cells."""
        edges = np.arange(self.devices)[:, None] * self.cells
        bounds = (np.append(bound, 0)[self.windows] - edges for bound in (self.starts, self.ends))
        first, end = (np.clip(bound, 0, self.cells) for bound in bounds)
        return first, np.maximum(end - first, 0)

    @cached_property
    def positions(self) -> np.ndarray:
        """The numbers of the parts of each window, the first one, the second one, and so on; -1 without one."""
        slots = ((self.ends - 1) // self.cells - self.starts // self.cells).max() + 1
        positions = np.full((self.along.output, slots), -1)
        devices, numbers = np.nonzero(self.windows < self.along.output)
        windows = self.windows[devices, numbers]
        slot = devices - self.starts[windows] // self.cells
        positions[windows, slot] = devices * self.windows.shape[1] + numbers
        return positions

    def suit(self, window: Window) -> bool:
        """Whether parts are pooled rather than windows: of bins that cross, and of tiles if that sends less."""
        along, halo = self.along, Halo(self.along, self.devices, self.name)
        if window.has_footprint:
            return False
        if halo.divides or halo.is_whole or isinstance(along, BinAxis):
            return not (halo.divides or halo.is_whole)
        is_padded = any(axis.low or axis.overhang > 0 for axis in window.axes)
        overlaps = along.stride < along.extent or along.dilation > 1
        received = self.positions.size - along.output
        return not (is_padded or overlaps) and received < 2 * sum(halo.reach)

    @property
    def tiles(self) -> WindowAxis:
        """The parts of all devices, on the axis that `split` returns."""
        return _tiles(self.along.axis, self.windows.size, int(self.cells_of_parts[1].max()))

    def steps(self, window: Window, late: Sequence[WindowAxis] = ()) -> tuple[Window, Window]:
        """The windows of the first step, without the `late` axes, and of the second, with these and the parts."""
        first = [self.tiles if axis == self.along else axis for axis in window.axes if axis not in late]
        return Window(tuple(first)), Window((*late, _tiles(self.along.axis, *self.positions.shape)))

    def split(self, array: jax.Array) -> jax.Array:
        """On a device, the cells of its parts, side by side; any cells where a part has fewer than others."""
        axis, kernel = self.along.axis, self.tiles.kernel
        padded = self.padded(array, 0, kernel)
        starts = self.of_device(self.cells_of_parts[0])
        parts = [lax.dynamic_slice_in_dim(padded, starts[number], kernel, axis) for number in range(starts.size)]
        return lax.concatenate(parts, axis)

    def present(self, x: jax.Array, mask: jax.Array | None, first: Window) -> jax.Array:
        """Which of the cells x that `split` returns are those of a part, and in the mask, which is split as well."""
        present = self._mask(np.arange(self.tiles.kernel) < self.cells_of_parts[1][..., None], x, first)
        return present if mask is None else mask & present

    def join(self, array: jax.Array, second: Window) -> tuple[jax.Array, jax.Array]:
        """The values of the parts of each window, side by side, and which there are: others are any values."""
        positions = self.positions.ravel()
        joined = np.maximum(positions, 0)
        ends = [0, *(np.flatnonzero(np.diff(joined) != 1) + 1).tolist(), joined.size]
        runs = [(int(joined[first]), end - first) for first, end in itertools.pairwise(ends)]
        return self.in_order(array, runs), self._mask(positions >= 0, array, second)

    def _mask(self, present: np.ndarray, array: jax.Array, window: Window) -> jax.Array:
        """The mask of an array for some windows, of bools along the axis."""
        others = [axis for axis in window.pooled_axes if axis != self.along.axis]
        shape = [array.shape[axis] if axis in others else 1 for axis in range(array.ndim)]
        return jnp.asarray(self.along.along(present, array.ndim)) & np.ones(shape, bool)


def _tiles(axis: int, windows: int, cells: int) -> WindowAxis:
    return WindowAxis(axis, windows * cells, cells, cells, 1, 0, 0, windows)
