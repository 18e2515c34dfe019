"""One pooled axis that devices share: which windows each evaluates, and what it is sent for them; in `jax.shard_map`.

A device evaluates windows that start among its cells, or an equal share of all windows if there is one. It gets the
cells that these reach beyond its own from its neighbours, by `lax.ppermute`, which JAX differentiates. Then it pools an
array of its own by code for one device. Only the padding differs between devices: the first has that below the array,
the last that above. `Halo.kinds` are these cases, of which every device takes one. Windows that the devices do not
divide come back whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from jaxpool._window import BinAxis, WindowAxis


@dataclass(frozen=True)
class Halo:
    """An axis of windows that so many devices along mesh axes of this name, or these names, share.

    Each evaluates windows on its own cells and some of its neighbours.
    """

    along: WindowAxis
    devices: int
    name: Any

    @property
    def cells(self) -> int:
        """The cells of each device."""
        return self.along.size // self.devices

    def of_device(self, values: Any) -> Any:
        """What this device has in a table with a row for each; a number if all rows are one."""
        table = np.asarray(values, np.int32)
        return table[0] if (table == table[0]).all() else jnp.asarray(table)[lax.axis_index(self.name)]

    def padded(self, array: jax.Array, low: int, high: int) -> jax.Array:
        """The array with so many zeros below and above it along the axis."""
        config = [(low, high, 0) if number == self.along.axis else (0, 0, 0) for number in range(array.ndim)]
        return lax.pad(array, np.zeros((), array.dtype)[()], config)

    def in_order(self, array: jax.Array, runs: Sequence[tuple[int, int]]) -> jax.Array:
        """All devices' results along the axis, no longer sharded, in runs with these starts and lengths."""
        axis, sharding = self.along.axis, jax.typeof(array).sharding
        spec = [None if number == axis else entry for number, entry in enumerate(sharding.spec)]
        with jax.sharding.use_abstract_mesh(sharding.mesh):
            array = jax.sharding.reshard(array, PartitionSpec(*spec))
        # Not a gather, whose type has no rule for axes that are sharded, and which would be transposed into a scatter.
        return lax.concatenate([lax.slice_in_dim(array, first, first + count, 1, axis) for first, count in runs], axis)

    @property
    def divides(self) -> bool:
        """Whether every device has equally many windows, which then stay there."""
        return self.along.output % self.devices == 0

    @property
    def is_whole(self) -> bool:
        """Whether a single window holds all cells, which are rather reduced at once."""
        return self.along.output == 1 and self.along.held_by(0, padding=False) == self.along.size

    @cached_property
    def bounds(self) -> np.ndarray:
        """The first window of each device, and the number of all."""
        along, numbers = self.along, np.arange(self.devices + 1)
        if self.divides:
            return numbers * (along.output // self.devices)
        between = [along.first_from(number * self.cells) for number in range(1, self.devices)]
        return np.array([0, *between, along.output])

    @property
    def windows(self) -> int:
        """The windows that each device evaluates: some are those of another one if it has fewer."""
        return int(np.diff(self.bounds).max())

    @cached_property
    def first(self) -> np.ndarray:
        """The first window that each device evaluates."""
        return np.minimum(self.bounds[:-1], self.along.output - self.windows)

    @property
    def length(self) -> int:
        """The cells of these windows, padding included."""
        along = self.along
        return self.cells if isinstance(along, BinAxis) else (self.windows - 1) * along.stride + along.extent

    @cached_property
    def origins(self) -> np.ndarray:
        """The first cell of these windows, on each device."""
        return self.along.start(self.first)

    @cached_property
    def reach(self) -> tuple[int, int]:
        """The cells below and above its own that a device needs at most, for the windows that it has."""
        has = np.diff(self.bounds) > 0
        edges = np.arange(self.devices)[has] * self.cells
        lowest = np.maximum(self.along.start(self.bounds[:-1][has]), 0)
        highest = np.minimum(self.along.end(self.bounds[1:][has] - 1), self.along.size)
        return max(0, int((edges - lowest).max())), max(0, int((highest - edges).max()) - self.cells)

    @cached_property
    def paddings(self) -> list[tuple[int, int]]:
        """How many cells of `length` lie below and above the array, on each device."""
        low, high = -self.origins, self.origins + self.length - self.along.size
        return list(zip(np.maximum(low, 0).tolist(), np.maximum(high, 0).tolist(), strict=True))

    @property
    def kinds(self) -> list[tuple[int, int]]:
        """The different paddings of devices."""
        return sorted(set(self.paddings))

    def kind(self) -> Any:
        """The number of this device's padding among them."""
        return self.of_device([self.kinds.index(padding) for padding in self.paddings])

    @property
    def is_possible(self) -> bool:
        """Whether devices evaluate windows of their own: bins if none crosses, others unless one has only padding.

        Not where the padding holds copies of cells, which may be far away.
        """
        if isinstance(self.along, BinAxis):
            return self.divides
        is_near = self.along.extension is None and not self.is_whole
        return is_near and all(low + high < self.length for low, high in self.kinds)

    def local(self, kind: tuple[int, int]) -> WindowAxis:
        """The windows of a device with this padding."""
        low, high = kind
        size = self.length - low - high
        return replace(self.along, size=size, low=low, high=min(high, self.along.high), output=self.windows)

    def cells_of_windows(self, array: jax.Array) -> jax.Array:
        """The cells of the windows of this device; any numbers in place of padding, or if another has the window."""
        axis, cells, (below, above) = self.along.axis, self.cells, self.reach
        near = []
        for distance in range(-below // cells, -(-above // cells) + 1):
            # What windows here hold of the cells of the device that is so many places above.
            start, end = max(0, -below - distance * cells), min(cells, above + (1 - distance) * cells)
            pairs = [(there, there - distance) for there in range(self.devices) if 0 <= there - distance < self.devices]
            sent = lax.slice_in_dim(array, start, end, 1, axis)
            near.append(lax.ppermute(sent, self.name, pairs) if distance else array)
        starts = self.origins - np.arange(self.devices) * cells + below
        low, high = max(0, -int(starts.min())), max(0, int(starts.max()) + self.length - below - cells - above)
        start = self.of_device(starts + low)
        return lax.dynamic_slice_in_dim(self.padded(lax.concatenate(near, axis), low, high), start, self.length, axis)

    def own(self, array: jax.Array) -> jax.Array:
        """The windows that this device evaluates, of an array of all windows."""
        if array.shape[self.along.axis] == 1 < self.along.output:
            return array
        return lax.dynamic_slice_in_dim(array, self.of_device(self.first), self.windows, self.along.axis)

    def everywhere(self, array: jax.Array) -> jax.Array:
        """All windows, from those that each device evaluated; on every device, unless they may stay there."""
        if self.divides:
            return array
        starts = np.arange(self.devices) * self.windows + self.bounds[:-1] - self.first
        runs = zip(starts.tolist(), np.diff(self.bounds).tolist(), strict=True)
        return self.in_order(array, [(first, count) for first, count in runs if count])
