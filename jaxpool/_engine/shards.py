"""Windows along a sharded axis: each device evaluates its own windows, on its cells and on those that it is sent.

The axis is split into one of shards and one of the cells of a shard. A device gets the cells that its windows reach
beyond its shard from its neighbours, by a shift along the axis of shards; at the ends of the array padding takes their
place. Then every shard is an array of its own, to which any code for windows applies. Maps back to the cells send what
arrived at a neighbour's cells to the neighbour. So no cell is sent twice, whatever the map does with it, and cells stay
where they are.

With m windows on D devices, device d has the ⌈m/D⌉ windows from d·⌈m/D⌉ on, as compilers divide an axis. If the stride
does not divide the shards, the first of these starts at another cell of every shard.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import Operation, pad
from jaxpool._engine.platforms import devices_along, known_platform, on_each_device
from jaxpool._engine.split_axes import SplitAxis
from jaxpool._geometry.bins import BinAxis
from jaxpool._geometry.window import Window, WindowAxis

# An array and its value outside.
Filled = tuple[jax.Array, Any]


@dataclass(frozen=True)
class Shards:
    """The cells and the windows that each of some devices has along an axis."""

    along: WindowAxis
    devices: int

    @property
    def cells(self) -> int:
        return -(-self.along.size // self.devices)

    @property
    def windows(self) -> int:
        return -(-self.along.output // self.devices)

    @property
    def length(self) -> int:
        """The cells from the first to the last one in the windows of a device."""
        return (self.windows - 1) * self.along.stride + self.along.extent

    @property
    def starts(self) -> np.ndarray:
        """The first cell in the windows of every device that has any, counted from the first cell of its shard."""
        numbers = np.arange(-(-self.along.output // self.windows))
        return numbers * (self.windows * self.along.stride - self.cells) - self.along.low

    @property
    def below(self) -> int:
        """The cells before its shard that a device needs."""
        return max(0, -int(self.starts.min()))

    @property
    def above(self) -> int:
        """The cells after its shard that a device needs."""
        return max(0, int(self.starts.max()) + self.length - self.cells)

    @property
    def offsets(self) -> np.ndarray:
        """Where the windows of every device start in its shard with the cells around it."""
        missing = self.devices - self.starts.size
        return np.append(self.starts, [self.starts[-1]] * missing).astype(np.int32) + self.below

    @property
    def total(self) -> int:
        """The cells of a shard with those around it."""
        return self.below + self.cells + self.above

    @property
    def exchange(self) -> bool:
        """Whether devices send each other cells, and only immediate neighbours do."""
        return 0 < max(self.below, self.above) <= self.cells

    @property
    def window_axis(self) -> WindowAxis:
        """The windows of a device on the cells that it then has."""
        return replace(
            self.along, axis=self.along.axis + 1, size=self.length, low=0, high=0, output=self.windows
        )

    def split_cells(self, array: jax.Array, fill: Any) -> jax.Array:
        """The cells in the windows of each device."""
        axis = self.along.axis
        array = self._split(array, self.cells, fill)
        parts = [array]
        if self.below:
            last = lax.slice_in_dim(array, self.cells - self.below, self.cells, 1, axis + 1)
            parts.insert(0, self._filled(self._from_neighbour(last, 1), 0, fill))
        if self.above:
            first = lax.slice_in_dim(array, 0, self.above, 1, axis + 1)
            parts.append(self._filled(self._from_neighbour(first, -1), self.devices - 1, fill))
        return self._cut(lax.concatenate(parts, axis + 1), self.offsets, self.length)

    def split_windows(self, array: jax.Array, fill: Any) -> jax.Array:
        """The windows of each device; those beyond the last one hold `fill`."""
        if array.shape[self.along.axis] == 1 < self.along.output:
            return jnp.expand_dims(array, self.along.axis)
        return self._split(array, self.windows, fill)

    def join_windows(self, array: jax.Array) -> jax.Array:
        return self._join(array, self.along.output)

    def join_cells(self, array: jax.Array, combine: Operation) -> jax.Array:
        """Combine what each device has for its own cells with what its neighbours have for them."""
        axis = self.along.axis + 1
        room = self.total - self.length
        array = self._cut(_pad_zeros(array, axis, room, room), room - self.offsets, self.total)
        own = lax.slice_in_dim(array, self.below, self.below + self.cells, 1, axis)
        if self.below:
            sent = self._from_neighbour(lax.slice_in_dim(array, 0, self.below, 1, axis), -1)
            own = combine(own, _pad_zeros(sent, axis, self.cells - self.below, 0))
        if self.above:
            sent = lax.slice_in_dim(array, self.below + self.cells, self.total, 1, axis)
            own = combine(own, _pad_zeros(self._from_neighbour(sent, 1), axis, 0, self.cells - self.above))
        return self._join(own, self.along.size)

    def _split(self, array: jax.Array, each: int, fill: Any) -> jax.Array:
        axis = self.along.axis
        array = pad(array, {axis: (0, self.devices * each - array.shape[axis])}, fill)
        return array.reshape(*array.shape[:axis], self.devices, each, *array.shape[axis + 1 :])

    def _join(self, array: jax.Array, size: int) -> jax.Array:
        axis = self.along.axis
        return lax.slice_in_dim(lax.collapse(array, axis, axis + 2), 0, size, 1, axis)

    def _from_neighbour(self, array: jax.Array, distance: int) -> jax.Array:
        """What the device so many places before has; zeros where there is none."""
        return _pad_zeros(array, self.along.axis, distance, -distance)

    def _filled(self, array: jax.Array, device: int, fill: Any) -> jax.Array:
        """The array, with `fill` on one device."""
        fill = np.array(fill, array.dtype)[()]
        if fill == 0:
            return array
        return jnp.where(lax.broadcasted_iota(np.int32, array.shape, self.along.axis) == device, fill, array)

    def _cut(self, array: jax.Array, starts: np.ndarray, length: int) -> jax.Array:
        """So many cells of every shard, from a start for each."""
        axis = self.along.axis
        if (starts == starts[0]).all():
            return lax.slice_in_dim(array, int(starts[0]), int(starts[0]) + length, 1, axis + 1)

        def cut(shard: jax.Array, start: jax.Array) -> jax.Array:
            return lax.dynamic_slice_in_dim(shard, start, length, axis)

        return jax.vmap(cut, (axis, 0), axis)(array, starts)


def _pad_zeros(array: jax.Array, axis: int, low: int, high: int) -> jax.Array:
    config = [(low, high, 0) if number == axis else (0, 0, 0) for number in range(array.ndim)]
    return lax.pad(array, np.zeros((), array.dtype)[()], config)


def shards_of(window: Window, rank: int) -> Shards | None:
    """The shards of the only pooled axis that devices share, if they exchange cells with their neighbours only."""
    shared = [axis for axis in window.axes if devices_along(axis.axis, rank) > 1]
    if len(shared) != 1 or isinstance(shared[0], BinAxis) or known_platform() == "tpu":
        return None
    shards = Shards(shared[0], devices_along(shared[0].axis, rank))
    return shards if shards.exchange else None


def _exchanges_windows(along: WindowAxis, rank: int) -> bool:
    """Whether maps back to the cells read the windows of other devices instead: fewer bytes, as there are fewer."""
    return along.stride > 1 and along.kernel <= 8 * along.stride and SplitAxis(along, rank).is_shared


def by_shards(
    step: Callable[[Sequence[Any], Sequence[Any], Window], Any],
    window: Window,
    cells: Sequence[Filled],
    windows: Sequence[Filled] = (),
    combine: Operation | None = None,
) -> Any:
    """Evaluate `step(cells, windows, window)` for arrays of cells and of windows, any of which may be None.

    Its results are arrays of windows, or, with `combine`, an array of cells, where cells that get nothing hold 0.
    """
    rank = next(array.ndim for array, _ in itertools.chain(cells, windows) if array is not None)
    shards = shards_of(window, rank)
    if shards is None or (combine is not None and _exchanges_windows(shards.along, rank)):
        return step([array for array, _ in cells], [array for array, _ in windows], window)
    axes = (
        shards.window_axis if axis == shards.along else replace(axis, axis=axis.axis + (axis.axis > shards.along.axis))
        for axis in window.axes
    )
    with on_each_device():
        result = step(
            [None if array is None else shards.split_cells(array, fill) for array, fill in cells],
            [None if array is None else shards.split_windows(array, fill) for array, fill in windows],
            replace(window, axes=tuple(axes)),
        )
        if combine is not None:
            return shards.join_cells(result, combine)
        return jax.tree.map(shards.join_windows, result)
