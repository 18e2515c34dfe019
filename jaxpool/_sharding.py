"""Arrays on several devices: axes sharded over explicit mesh axes, and types that vary over devices.

An explicit mesh axis makes the sharding of every array a part of its type. There a pool is `jax.shard_map` of the pool
of each device's own cells and, along pooled axes, of some of its neighbours, which it gets by `lax.ppermute`. So it
pools an array of its own by code for one device. Only the padding differs between devices: the first has that below
the array, the last that above. `Halo.kinds` are these cases, of which every device takes one. A device evaluates
windows that start among its cells, or an equal share of all windows if there is one; others come back whole.

Where that is impossible, the pool is evaluated as under automatic sharding, where the compiler arranges what devices
exchange, and only the result gets a sharding in its type again: a pool of whole axes, in one reduction, of cells that
are copied into the padding, and of bins that cross from shard to shard. Inside `jax.shard_map`, types say over which
devices an array varies.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, wraps
from itertools import starmap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

from jaxpool._window import BinAxis, Window, WindowAxis
from jaxpool._windows.operations import decode, encode

Core = Callable[..., Any]


def shardable(core: Core) -> Core:
    """Let `core(x, mask, *parameters, window, *static)` take x sharded along any axes; the other arrays may be None."""

    @wraps(core)
    def pool(*arguments: Any) -> Any:
        count = next(number for number, argument in enumerate(arguments) if isinstance(argument, Window))
        arrays, (window, *static) = arguments[:count], arguments[count:]
        x = arrays[0]
        entries = _entries(x, x.ndim, range(x.ndim))
        if any(entries):
            mesh = jax.typeof(x).sharding.mesh
            shared = [(axis, _size(mesh, entry), entry) for axis in window.axes if (entry := entries[axis.axis])]
            halos = tuple(starmap(Halo, shared))
            if all(halo.is_possible for halo in halos):
                return _by_halos(core, arrays, halos, window, tuple(static))
        shape = window.output_shape(x.shape)
        return evaluate_sharded(lambda *arrays: core(*arrays, window, *static), arrays, window.pooled_axes, shape)

    return pool


@partial(jax.jit, static_argnums=(0, 2, 3, 4))
def _by_halos(core: Core, arrays: Sequence[Any], halos: "tuple[Halo, ...]", window: Window, static: tuple) -> Any:
    """The pool on every device of its own cells and those of its neighbours, by `jax.shard_map` over explicit axes.

    The mask may have size 1 along some axes; parameters have their whole size along the pooled axes.
    """

    def on_device(cells: Any, parameters: Any) -> Any:
        kind: Any = 0
        for halo in halos:
            cells, parameters = jax.tree.map(halo.cells_of_windows, cells), jax.tree.map(halo.own, parameters)
            kind = kind * len(halo.kinds) + halo.of_device([halo.kinds.index(padding) for padding in halo.paddings])
        cases = [partial(pool_of_kind, paddings) for paddings in itertools.product(*(halo.kinds for halo in halos))]
        return lax.switch(kind, cases, cells, parameters)

    def pool_of_kind(paddings: Sequence[tuple[int, int]], cells: Any, parameters: Any) -> Any:
        axes = {halo.along: halo.local(padding) for halo, padding in zip(halos, paddings, strict=True)}
        for (low, _), along in zip(paddings, axes.values(), strict=True):
            real = partial(lax.slice_in_dim, start_index=low, limit_index=low + along.size, axis=along.axis)
            cells = jax.tree.map(real, cells)
        local = replace(window, axes=tuple(axes.get(axis, axis) for axis in window.axes))
        result = core(*cells, *parameters, local, *static)
        if not isinstance(result, tuple):
            return result
        values, positions = result
        first = {halo.along.axis: jnp.maximum(halo.of_device(halo.origins), 0) for halo in halos}
        return values, jax.tree.map(lambda each: _positions_in_array(each, local, window, first), positions)

    x, mask, *parameters = arrays
    mesh, entries = jax.typeof(x).sharding.mesh, _entries(x, x.ndim, range(x.ndim))

    def spec_of(array: jax.Array, whole: Sequence[int] = ()) -> PartitionSpec:
        sharded = [array.shape[axis] == x.shape[axis] and axis not in whole for axis in range(x.ndim)]
        return PartitionSpec(*(entry if kept else None for entry, kept in zip(entries, sharded, strict=True)))

    given = [x, mask], jax.tree.map(lambda each: lax.expand_dims(each, range(x.ndim - each.ndim)), parameters)
    specs = jax.tree.map(spec_of, given[0]), jax.tree.map(partial(spec_of, whole=window.pooled_axes), given[1])
    explicit = {name for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True) if kind == AxisType.Explicit}
    with jax.sharding.use_abstract_mesh(mesh):
        given = jax.tree.map(jax.sharding.reshard, given, specs)
        result = jax.shard_map(on_device, in_specs=specs, out_specs=spec_of(x), axis_names=explicit)(*given)
    for halo in halos:
        result = jax.tree.map(halo.everywhere, result)
    return result


def _positions_in_array(positions: jax.Array, local: Window, window: Window, first: Mapping[int, Any]) -> jax.Array:
    """Row-major positions among the cells of a device, whose first cells are given, as those in the whole array."""
    own, whole = ([axis.size for axis in each.axes[1:]] for each in (local, window))
    indices = zip(decode(positions, own), window.axes, strict=True)
    total = encode([index + first.get(axis.axis, 0) for index, axis in indices], whole)
    return jnp.where(positions < 0, positions, total)


def evaluate_sharded(
    core: Core, arrays: Sequence[Any], pooled: Sequence[int], shape: Sequence[int], leading: int = 0
) -> Any:
    """Evaluate `core(*arrays)`, of this shape behind `leading` axes, sharded like x along axes that devices divide."""
    x = arrays[0]
    sharded = [array for array in jax.tree.leaves(list(arrays)) if any(_entries(array, x.ndim, pooled))]
    if not sharded:
        return core(*arrays)
    mesh = jax.typeof(sharded[0]).sharding.mesh
    spec = _entries(x, x.ndim, range(x.ndim))
    for axis in pooled:
        if shape[axis] % _size(mesh, spec[axis]):
            spec[axis] = None
    with jax.sharding.use_abstract_mesh(mesh):
        return jax.sharding.auto_axes(core, out_sharding=PartitionSpec(*[None] * leading, *spec))(*arrays)


def _entries(array: Any, rank: int, axes: Sequence[int]) -> list[Any]:
    """What an array of this rank is sharded over, along some axes; empty if it is None or has another rank."""
    if array is None or array.ndim != rank:
        return []
    spec = tuple(jax.typeof(array).sharding.spec)
    return [spec[axis] if axis < len(spec) else None for axis in axes]


def _size(mesh: AbstractMesh, entry: Any) -> int:
    """The number of devices along the mesh axis, or the mesh axes, that an entry of a sharding names."""
    names = entry if isinstance(entry, tuple) else (entry,)
    return math.prod(mesh.shape[name] for name in names if name is not None)


def vary_together(*arrays: jax.Array) -> list[jax.Array]:
    """The same arrays; inside `jax.shard_map` with types that vary over the same devices."""
    return [vary_with(array, *arrays) for array in arrays]


def vary_with(array: jax.Array, *others: jax.Array) -> jax.Array:
    """The same array; inside `jax.shard_map` with a type that varies over the devices of the others too.

    A backward pass returns cotangents of the types of its arguments. The cotangent of an argument that is the same on
    all devices is a sum over the devices. Here this sum results from multiplying by ones whose types vary.
    """
    if AxisType.Manual not in jax.sharding.get_abstract_mesh().axis_types:
        return array
    return math.prod((jnp.ones_like(other, shape=(), dtype=array.dtype) for other in others), start=array)


@dataclass(frozen=True)
class Halo:
    """An axis of windows that devices along some mesh axes share: each evaluates some, on cells near its own."""

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

    @property
    def divides(self) -> bool:
        """Whether every device has equally many windows, which then stay there."""
        return self.along.output % self.devices == 0

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

    @property
    def is_possible(self) -> bool:
        """Whether devices evaluate windows of their own: bins if none crosses, others unless one has only padding."""
        if isinstance(self.along, BinAxis):
            return self.divides
        # A single window of all cells is rather reduced at once, and copies of cells may be far away.
        is_whole = self.along.output == 1 and self.along.held_by(0, padding=False) == self.along.size
        is_near = self.along.extension is None and not is_whole
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
        widths = [(low, high, 0) if number == axis else (0, 0, 0) for number in range(array.ndim)]
        padded = lax.pad(lax.concatenate(near, axis), np.zeros((), array.dtype)[()], widths)
        return lax.dynamic_slice_in_dim(padded, self.of_device(starts + low), self.length, axis)

    def own(self, array: jax.Array) -> jax.Array:
        """The windows that this device evaluates, of an array of all windows."""
        if array.shape[self.along.axis] == 1 < self.along.output:
            return array
        return lax.dynamic_slice_in_dim(array, self.of_device(self.first), self.windows, self.along.axis)

    def everywhere(self, array: jax.Array) -> jax.Array:
        """All windows, from those that each device evaluated; on every device, unless they may stay there."""
        if self.divides:
            return array
        axis, sharding = self.along.axis, jax.typeof(array).sharding
        spec = [None if number == axis else entry for number, entry in enumerate(sharding.spec)]
        with jax.sharding.use_abstract_mesh(sharding.mesh):
            array = jax.sharding.reshard(array, PartitionSpec(*spec))
        starts, counts = np.arange(self.devices) * self.windows + self.bounds[:-1] - self.first, np.diff(self.bounds)
        runs = [(first, count) for first, count in zip(starts.tolist(), counts.tolist(), strict=True) if count]
        # Not a gather, whose type has no rule for axes that are sharded, and which would be transposed into a scatter.
        return lax.concatenate([lax.slice_in_dim(array, first, first + count, 1, axis) for first, count in runs], axis)
