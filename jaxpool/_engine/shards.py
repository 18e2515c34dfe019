"""One pooled axis that devices share: which windows each evaluates, and what it is sent for them; in `jax.shard_map`.

A device evaluates windows that start among its cells, or an equal share of all windows if there is one. It gets the
cells that these reach beyond its own from its neighbours, by `lax.ppermute`, which JAX differentiates. Then it pools an
array of its own by code for one device. Only the padding differs between devices: the first has that below the array,
the last that above. `Halo.kinds` are these cases, of which every device takes one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._geometry.bins import BinAxis
from jaxpool._geometry.window import WindowAxis


@dataclass(frozen=True)
class Shared:
    """An axis of windows whose cells so many devices share along mesh axes of this name, or these names."""

    along: WindowAxis
    devices: int
    name: Any

    @property
    def cells(self) -> int:
        """The cells of each device."""
        return self.along.size // self.devices

    @cached_property
    def ends(self) -> np.ndarray:
        """The cell after the last one of each window."""
        along = self.along
        return along.starts + (along.counts(padding=False) if isinstance(along, BinAxis) else along.extent)

    def of_device(self, values: Any) -> jax.Array:
        """What this device has in a table with a row for each."""
        return jnp.asarray(np.asarray(values, np.int32))[lax.axis_index(self.name)]

    def padded(self, array: jax.Array, low: int, high: int) -> jax.Array:
        """The array with so many zeros below and above it along the axis."""
        config = [(low, high, 0) if number == self.along.axis else (0, 0, 0) for number in range(array.ndim)]
        return lax.pad(array, np.zeros((), array.dtype)[()], config)

    def on_all(self, array: jax.Array, tables: Sequence[np.ndarray]) -> jax.Array:
        """All windows on every device, of which each has those between two numbers, in an array of those from another.

        The tables hold these three numbers for each device: the first window of the array, and the bounds of its own.
        """
        first, begin, end = map(self.of_device, tables)
        axis, count = self.along.axis, self.along.output
        placed = lax.dynamic_slice_in_dim(self.padded(array, count, count), count - first, count, axis)
        numbers = lax.broadcasted_iota(np.int32, placed.shape, axis)
        return _sum_of_one(jnp.where((numbers >= begin) & (numbers < end), placed, jnp.zeros_like(placed)), self.name)


def _sum_of_one(array: jax.Array, name: Any) -> jax.Array:
    """The sum over devices, of which at most one has another number than 0 at each place; -0 is such a number."""
    if array.dtype == np.bool_:
        return lax.psum(array.astype(np.int8), name) > 0
    if jnp.iscomplexobj(array):
        return lax.complex(_sum_of_one(array.real, name), _sum_of_one(array.imag, name))
    return _sum_of_floats(array, name) if jnp.issubdtype(array.dtype, jnp.floating) else lax.psum(array, name)


# In portable programs too, as integers have no derivative of their own.
@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _sum_of_floats(array: jax.Array, name: Any) -> jax.Array:
    # As integers: 0 + -0 is 0.
    bits = lax.bitcast_convert_type(array, np.dtype(f"int{8 * array.dtype.itemsize}"))
    return lax.bitcast_convert_type(lax.psum(bits, name), array.dtype)


@_sum_of_floats.defjvp
def _sum_of_floats_jvp(name: Any, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (array,), (dot,) = primals, tangents
    return _sum_of_floats(array, name), lax.psum(dot, name)


@dataclass(frozen=True)
class Halo(Shared):
    """Windows that each device evaluates on its own cells and some of its neighbours."""

    @property
    def divides(self) -> bool:
        """Whether every device has equally many windows, which then stay there."""
        return self.along.output % self.devices == 0

    @property
    def is_whole(self) -> bool:
        """Whether a single window holds all cells, which are rather reduced at once."""
        return self.along.output == 1 and self.along.counts(padding=False)[0] == self.along.size

    @cached_property
    def bounds(self) -> np.ndarray:
        """The first window of each device, and the number of all."""
        along, numbers = self.along, np.arange(self.devices + 1)
        if self.divides:
            return numbers * (along.output // self.devices)
        between = np.searchsorted(along.starts, numbers[1:-1] * self.cells)
        return np.concatenate([[0], between, [along.output]])

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
        return self.along.starts[self.first]

    @cached_property
    def reach(self) -> tuple[int, int]:
        """The cells below and above its own that a device needs at most, for the windows that it has."""
        has = np.diff(self.bounds) > 0
        edges = np.arange(self.devices)[has] * self.cells
        lowest = np.maximum(self.along.starts[self.bounds[:-1][has]], 0)
        highest = np.minimum(self.ends[self.bounds[1:][has] - 1], self.along.size)
        return max(0, int((edges - lowest).max())), max(0, int((highest - edges).max()) - self.cells)

    @cached_property
    def padding(self) -> list[tuple[int, int]]:
        """How many cells of `length` lie below and above the array, on each device."""
        low, high = -self.origins, self.origins + self.length - self.along.size
        return list(zip(np.maximum(low, 0).tolist(), np.maximum(high, 0).tolist(), strict=True))

    @property
    def kinds(self) -> list[tuple[int, int]]:
        """The different paddings of devices."""
        return sorted(set(self.padding))

    def kind(self) -> Any:
        """The number of this device's padding among them."""
        return self.of_device([self.kinds.index(padding) for padding in self.padding]) if len(self.kinds) > 1 else 0

    @property
    def has_cells(self) -> bool:
        """Whether every device has a window that is not all padding; otherwise it would pool an empty array."""
        return all(low + high < self.length for low, high in self.kinds)

    def local(self, kind: tuple[int, int]) -> WindowAxis:
        """The windows of a device with this padding."""
        low, high = kind
        size = self.length - low - high
        return replace(self.along, size=size, low=low, high=min(high, self.along.high), output=self.windows)

    def cells_of_windows(self, array: jax.Array) -> jax.Array:
        """The cells of the windows of this device; any numbers in place of padding, or if another has the window."""
        axis, (below, above) = self.along.axis, self.reach
        starts = self.origins - np.arange(self.devices) * self.cells
        near = [*self._from(-1, below, array), array, *self._from(1, above, array)]
        low, high = max(0, -int(starts.min()) - below), max(0, int(starts.max()) + self.length - self.cells - above)
        whole = self.padded(lax.concatenate(near, axis), low, high)
        starts = starts + below + low
        start = int(starts[0]) if (starts == starts[0]).all() else self.of_device(starts)
        return lax.dynamic_slice_in_dim(whole, start, self.length, axis)

    def _from(self, side: int, count: int, array: jax.Array) -> list[jax.Array]:
        """So many cells of the devices on one side, in order; zeros beyond the array."""
        found: list[jax.Array] = []
        for distance in range(1, -(-count // self.cells) + 1):
            size = min(self.cells, count - (distance - 1) * self.cells)
            start = 0 if side > 0 else self.cells - size
            there = lax.slice_in_dim(array, start, start + size, 1, self.along.axis)
            pairs = [(source, source - side * distance) for source in range(self.devices)]
            inside = [pair for pair in pairs if 0 <= pair[1] < self.devices]
            found.insert(0 if side < 0 else len(found), lax.ppermute(there, self.name, inside))
        return found

    def own(self, array: jax.Array) -> jax.Array:
        """The windows that this device evaluates, of an array of all windows."""
        if array.shape[self.along.axis] == 1 < self.along.output:
            return array
        return lax.dynamic_slice_in_dim(array, self.of_device(self.first), self.windows, self.along.axis)

    def everywhere(self, array: jax.Array) -> jax.Array:
        """All windows on every device, from those that each has, unless they may stay there."""
        if self.divides:
            return array
        return self.on_all(array, (self.first, self.bounds[:-1], self.bounds[1:]))
