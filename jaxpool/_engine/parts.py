"""Bins, or other windows without overlap, that cross from shard to shard, by the parts that each device has of them.

Inside `jax.shard_map` each device pools its parts, which are laid out as windows of one size. Every device gets the
values of all parts, and then pools those of each window. So no cells are sent, however many shards a window reaches
over, and a derivative sends nothing.
"""

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import merge_axis
from jaxpool._engine.shards import Shared
from jaxpool._geometry.window import Window, WindowAxis


@dataclass(frozen=True)
class Parts(Shared):
    """The parts of windows that each device has, as windows of one size that tile an axis."""

    @cached_property
    def first(self) -> np.ndarray:
        """The first window that has cells on each device."""
        return np.searchsorted(self.ends, np.arange(self.devices) * self.cells, "right")

    @cached_property
    def bound(self) -> np.ndarray:
        """The window after the last one that has cells on each device."""
        return np.searchsorted(self.along.starts, np.arange(1, self.devices + 1) * self.cells)

    @cached_property
    def windows(self) -> np.ndarray:
        """The window of each part; beyond all windows where a device has fewer parts than others."""
        windows = self.first[:, None] + np.arange((self.bound - self.first).max())
        return np.where(windows < self.bound[:, None], windows, self.along.output)

    @cached_property
    def cells_of_parts(self) -> tuple[np.ndarray, np.ndarray]:
        """The first cell of each part on its device, and the number of its cells."""
        edges = np.arange(self.devices)[:, None] * self.cells
        bounds = (np.append(bound, 0)[self.windows] - edges for bound in (self.along.starts, self.ends))
        first, end = (np.clip(bound, 0, self.cells) for bound in bounds)
        return first, np.maximum(end - first, 0)

    @property
    def kernel(self) -> int:
        """The cells of the largest part."""
        return int(self.cells_of_parts[1].max())

    @property
    def slots(self) -> int:
        """The most parts of a window."""
        return int(((self.ends - 1) // self.cells - self.along.starts // self.cells).max()) + 1

    def tiles(self, window: Window) -> Window:
        """The windows, with the parts of a device along this axis."""
        parts = _tiles(self.along, self.windows.shape[1], self.kernel)
        return Window(tuple(parts if axis == self.along else axis for axis in window.axes))

    @property
    def together(self) -> Window:
        """The parts of each window, side by side, as windows."""
        return Window((_tiles(self.along, self.along.output, self.slots),))

    def split(self, array: jax.Array) -> jax.Array:
        """The cells of the parts of this device, side by side; any cells where a part has fewer than others."""
        axis, kernel = self.along.axis, self.kernel
        padded = self.padded(array, 0, kernel)
        starts = self.of_device(self.cells_of_parts[0])
        parts = [lax.dynamic_slice_in_dim(padded, starts[number], kernel, axis) for number in range(starts.size)]
        return lax.concatenate(parts, axis)

    def present(self, rank: int, mask: jax.Array | None, window: Window) -> jax.Array:
        """Which of the cells that `split` returns are those of a part and in the mask: a mask of them."""
        sizes = {axis.axis: axis.size for axis in self.tiles(window).axes}
        counts = self.of_device(self.cells_of_parts[1])
        present = (np.arange(self.kernel) < counts[:, None]).reshape(-1)
        shape = [sizes.get(axis, 1) for axis in range(rank)]
        present = lax.broadcast_in_dim(present, shape, (self.along.axis,))
        return present if mask is None else present & self.split(mask)

    def join(self, array: jax.Array) -> jax.Array:
        """The parts of each window, side by side, on every device; 0 where a window has fewer than others."""
        axis = self.along.axis
        # Whether a part is the first one of its window, the second one, and so on.
        slots = self.of_device(
            np.arange(self.devices)[:, None] - np.append(self.along.starts, 0)[self.windows] // self.cells
        )
        at = [*[1] * axis, -1, self.slots, *[1] * (array.ndim - axis - 1)]
        is_here = (slots[:, None] == np.arange(self.slots)).reshape(at)
        own = jnp.where(is_here, jnp.expand_dims(array, axis + 1), jnp.zeros_like(array, shape=()))
        return merge_axis(self.on_all(own, (self.first, self.first, self.bound)), axis)


def _tiles(along: WindowAxis, windows: int, cells: int) -> WindowAxis:
    return WindowAxis(along.axis, windows * cells, cells, cells, 1, 0, 0, windows)
