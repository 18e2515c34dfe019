"""Windows along a sharded axis: each device evaluates its own windows, on its cells and on those that it is sent.

The axis is split into one of shards and one of the cells of a shard. A device gets the cells that its windows reach
beyond its shard from its neighbours, by a shift along the axis of shards; at the ends of the array padding takes their
place. Then every shard is an array of its own, to which any code for windows applies. In the same way, for maps back to
the cells, a device gets the windows that hold its cells. So no cell is sent twice, whatever the map does with it, and
cells stay where they are.

With m windows on D devices, device d has the ⌈m/D⌉ windows from d·⌈m/D⌉ on, as compilers divide an axis. If the stride
does not divide the shards, the first of these starts at another cell of every shard.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.blocks import holds_all
from jaxpool._engine.operations import pad
from jaxpool._engine.platforms import known_platform
from jaxpool._geometry.bins import BinAxis
from jaxpool._geometry.window import Window, WindowAxis

# An array and its value outside.
Filled = tuple[Any, Any]


@dataclass(frozen=True)
class Reach:
    """What each device needs of an axis with `size` entries: `length` of them from a start of its own.

    Attributes:
        starts: Counted from the first entry of each device.
    """

    axis: int
    size: int
    length: int
    starts: tuple[int, ...]

    @property
    def count(self) -> int:
        """The entries of each device."""
        return -(-self.size // len(self.starts))

    @property
    def below(self) -> int:
        """The entries that a device needs of the one before it."""
        return max(0, -min(self.starts))

    @property
    def above(self) -> int:
        """The entries that a device needs of the one after it."""
        return max(0, max(self.starts) + self.length - self.count)

    def split(self, array: jax.Array, fill: Any) -> jax.Array:
        """The entries that each device needs; `fill` outside the array."""
        if array.shape[self.axis] == 1 < self.size:
            # Constant along the axis.
            return jnp.expand_dims(array, self.axis)
        each = split_shards(array, self.axis, len(self.starts), self.count, fill)
        parts = [each]
        if self.below:
            last = lax.slice_in_dim(each, self.count - self.below, self.count, 1, self.axis + 1)
            parts.insert(0, self._from_neighbour(last, 1, fill))
        if self.above:
            first = lax.slice_in_dim(each, 0, self.above, 1, self.axis + 1)
            parts.append(self._from_neighbour(first, -1, fill))
        return self._cut(lax.concatenate(parts, self.axis + 1), [start + self.below for start in self.starts])

    def without_neighbours(self, array: jax.Array, fill: Any) -> jax.Array:
        """The same, with `fill` in place of what other devices have."""
        each = split_shards(array, self.axis, len(self.starts), self.count, fill)
        around = {self.axis + 1: (self.below, self.above)}
        return self._cut(pad(each, around, fill), [start + self.below for start in self.starts])

    def _from_neighbour(self, array: jax.Array, distance: int, fill: Any) -> jax.Array:
        """What the device so many places before has."""
        # The compiler may confuse exchanges of the same array with different fills.
        config = [(distance, -distance, 0) if axis == self.axis else (0, 0, 0) for axis in range(array.ndim)]
        zero, fill = (np.array(value, array.dtype)[()] for value in (0, fill))
        array = lax.pad(array, zero, config)
        if fill == zero:
            return array
        end = 0 if distance > 0 else len(self.starts) - 1
        return jnp.where(lax.broadcasted_iota(np.int32, array.shape, self.axis) == end, fill, array)

    def _cut(self, array: jax.Array, starts: Sequence[int]) -> jax.Array:
        return _cut(array, self.axis, starts, self.length)


@dataclass(frozen=True)
class Shards:
    """The windows along an axis, and the cells and the windows that each of the devices has."""

    along: WindowAxis

    @property
    def devices(self) -> int:
        return self.along.devices

    @property
    def cells(self) -> int:
        return -(-self.along.size // self.devices)

    @property
    def windows(self) -> int:
        return -(-self.along.output // self.devices)

    @property
    def evaluated(self) -> Reach:
        """The windows of a device."""
        return Reach(self.along.axis, self.along.output, self.windows, (0,) * self.devices)

    @property
    def own_windows(self) -> Reach:
        """The cells that the windows of a device hold."""
        along = self.along
        length = (self.windows - 1) * along.stride + along.extent
        first = np.arange(-(-along.output // self.windows)) * (self.windows * along.stride - self.cells) - along.low
        # Devices without windows evaluate any.
        starts = np.append(first, np.repeat(first[-1:], self.devices - first.size))
        return Reach(along.axis, along.size, length, tuple(starts.tolist()))

    @property
    def _first_holding(self) -> np.ndarray:
        """The first window that may hold a cell of each device, or one before it, which starts no later than the cells.

        In a gap between windows the first one that may hold a cell starts later.
        """
        along, cells = self.along, np.arange(self.devices) * self.cells
        first, before = -((along.extent - 1 - along.low - cells) // along.stride), (cells + along.low) // along.stride
        return np.minimum(first, before)

    @property
    def holding(self) -> Reach:
        """The windows that hold the cells of a device."""
        along, numbers = self.along, np.arange(self.devices)
        first = self._first_holding
        last = (numbers * self.cells + self.cells - 1 + along.low) // along.stride
        starts = first - numbers * self.windows
        return Reach(along.axis, along.output, int((last - first).max()) + 1, tuple(starts.tolist()))

    @property
    def held(self) -> Reach:
        """The cells of a device among those from the first cell of these windows on."""
        along = self.along
        starts = self._first_holding * along.stride - along.low - np.arange(self.devices) * self.cells
        length = max((self.holding.length - 1) * along.stride + along.extent, self.cells - int(starts.min()))
        return Reach(along.axis, along.size, length, tuple(starts.tolist()))

    @property
    def cross(self) -> bool:
        """Whether devices need cells or windows of others."""
        return any(reach for _, reach in self._needed)

    @property
    def exchange(self) -> bool:
        """Whether devices send each other cells or windows, and only immediate neighbours do."""
        return self.cross and all(reach <= count for count, reach in self._needed)

    @property
    def _needed(self) -> list[tuple[int, int]]:
        """The entries of every device, and those that it needs of one side."""
        return [(one.count, reach) for one in (self.own_windows, self.holding) for reach in (one.below, one.above)]

    def window_axis(self, cells: Reach, windows: int) -> WindowAxis:
        """So many windows of a device on the cells that it needs."""
        return replace(
            self.along, axis=self.along.axis + 1, size=cells.length, low=0, high=0, output=windows, devices=1
        )

    def join_windows(self, array: jax.Array) -> jax.Array:
        return join_shards(array, self.along.axis, self.along.output)

    def join_cells(self, array: jax.Array) -> jax.Array:
        """The cells of each device among those that the windows hold."""
        own = _cut(array, self.along.axis, [-start for start in self.held.starts], self.cells)
        return join_shards(own, self.along.axis, self.along.size)


def split_shards(array: jax.Array, axis: int, devices: int, each: int, fill: Any) -> jax.Array:
    array = pad(array, {axis: (0, devices * each - array.shape[axis])}, fill)
    return array.reshape(*array.shape[:axis], devices, each, *array.shape[axis + 1 :])


def join_shards(array: jax.Array, axis: int, size: int) -> jax.Array:
    return lax.slice_in_dim(lax.collapse(array, axis, axis + 2), 0, size, 1, axis)


def _cut(array: jax.Array, axis: int, starts: Sequence[int], length: int) -> jax.Array:
    """So many cells of every device, whose number is along `axis`, from a start for each."""
    if len(set(starts)) == 1:
        return lax.slice_in_dim(array, starts[0], starts[0] + length, 1, axis + 1)

    def cut(cells: jax.Array, start: Any) -> jax.Array:
        return lax.dynamic_slice_in_dim(cells, start, length, axis)

    return jax.vmap(cut, (axis, 0), axis)(array, np.array(starts, np.int32))


def shards_of(window: Window) -> Shards | None:
    """The shards of the first pooled axis that devices share, if they exchange cells with their neighbours only.

    A window that holds all cells is rather folded on each device, and then over the devices.
    """
    if known_platform() == "tpu":
        return None
    shared = (Shards(axis) for axis in window.axes if axis.devices > 1 and not holds_all(axis))
    return next((one for one in shared if not isinstance(one.along, BinAxis) and one.exchange), None)


def by_shards(
    step: Callable[..., Any],
    window: Window,
    cells: Sequence[Filled],
    windows: Sequence[Filled] = (),
    *,
    to_cells: bool = False,
) -> Any:
    """Evaluate `step(*cells, *windows, window)` for arrays of cells and of windows, any of which may be None.

    Its results are arrays of windows, or, with `to_cells`, an array of cells, each computed from its own cell and from
    the windows that hold it.
    """
    shards = shards_of(window)
    if shards is None:
        return step(*(array for array, _ in (*cells, *windows)), window)
    if to_cells:
        of_cells, split_cells, split_windows = shards.held, shards.held.without_neighbours, shards.holding.split
        along = shards.window_axis(of_cells, shards.holding.length)
    else:
        of_cells, split_cells = shards.own_windows, shards.own_windows.split
        along = shards.window_axis(of_cells, shards.windows)
        split_windows = shards.evaluated.split
    behind = shards.along.axis
    axes = (
        along if axis == shards.along else replace(axis, axis=axis.axis + (axis.axis > behind)) for axis in window.axes
    )
    arguments = (
        [(None if array is None else split(array, fill), fill) for array, fill in arrays]
        for arrays, split in ((cells, split_cells), (windows, split_windows))
    )
    result = by_shards(step, replace(window, axes=tuple(axes)), *arguments, to_cells=to_cells)
    return shards.join_cells(result) if to_cells else jax.tree.map(shards.join_windows, result)
