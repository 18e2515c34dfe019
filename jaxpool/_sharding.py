"""Arrays on several devices: axes sharded over explicit mesh axes, and types that vary over devices.

An explicit mesh axis makes the sharding of every array a part of its type. There a pool is `jax.shard_map` of the pool
of each device's own cells and, along pooled axes, of some of its neighbours: see `_engine/shards`. A device then pools
an array of its own by code for one device. Where that is impossible, the pool is evaluated as under automatic sharding,
where the compiler arranges what devices exchange, and only the result gets a sharding in its type again: a pool of
whole axes, in one reduction, of cells that are copied into the padding, and of most bins that cross from shard to
shard. Inside `jax.shard_map`, types say over which devices an array varies.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

from jaxpool._engine.parts import Parts
from jaxpool._engine.shards import Halo
from jaxpool._geometry.bins import BinAxis
from jaxpool._geometry.window import Window

Core = Callable[..., Any]


def shardable(core: Core, by_parts: Core | None = None) -> Core:
    """Let `core(x, mask, *parameters, window, *static)` take x sharded along any axes.

    The mask and parameters, which broadcast against the output, may be None. `by_parts(x, mask, *parameters,
    parts, window, *static)` pools bins that cross from shard to shard, if there is such a way.
    """

    @wraps(core)
    def pool(*arguments: Any) -> Any:
        count = next(number for number, argument in enumerate(arguments) if isinstance(argument, Window))
        arrays, (window, *static) = arguments[:count], arguments[count:]
        x = arrays[0]
        entries = _entries(x, x.ndim, range(x.ndim))
        if any(entries):
            mesh = jax.typeof(x).sharding.mesh
            shared = [(axis, _size(mesh, entries[axis.axis]), entries[axis.axis]) for axis in window.axes]
            shared = [given for given in shared if given[-1] is not None]
            halos = tuple(Halo(*given) for given in shared)
            if by_parts is not None and len(shared) == 1 and _is_in_parts(Parts(*shared[0]), halos[0], window):
                return _by_parts(by_parts, arrays, Parts(*shared[0]), window, tuple(static))
            if all(map(_has_halo, halos)):
                return _by_halos(core, arrays, halos, window, tuple(static))
        shape = window.output_shape(x.shape)
        return evaluate_sharded(lambda *arrays: core(*arrays, window, *static), arrays, window.pooled_axes, shape)

    return pool


def _is_in_parts(parts: Parts, halo: Halo, window: Window) -> bool:
    """Whether devices pool parts of windows: bins that cross from shard to shard, and tiles if that sends less."""
    along = halo.along
    if window.has_footprint:
        return False
    if halo.divides or halo.is_whole or isinstance(along, BinAxis):
        return not (halo.divides or halo.is_whole)
    is_padded = any(axis.low or axis.overhang > 0 for axis in window.axes)
    overlaps = along.stride < along.extent or along.dilation > 1
    return not (is_padded or overlaps) and (parts.slots - 1) * along.output < 2 * sum(halo.reach)


def _has_halo(halo: Halo) -> bool:
    """Whether devices evaluate windows of their own."""
    if isinstance(halo.along, BinAxis):
        return halo.divides
    return halo.along.extension is None and not halo.is_whole and halo.has_cells


@partial(jax.jit, static_argnums=(0, 2, 3, 4))
def _by_halos(core: Core, arrays: Sequence[Any], halos: tuple[Halo, ...], window: Window, static: tuple) -> Any:
    """The pool on every device of its own cells and those of its neighbours."""

    def on_device(cells: Any, parameters: Any) -> Any:
        kind: Any = 0
        for halo in halos:
            cells, parameters = jax.tree.map(halo.cells_of_windows, cells), jax.tree.map(halo.own, parameters)
            kind = kind * len(halo.kinds) + halo.kind()
        cases = [partial(pool_of_kind, paddings) for paddings in itertools.product(*(halo.kinds for halo in halos))]
        result = lax.switch(kind, cases, cells, parameters)
        for halo in halos:
            result = jax.tree.map(halo.everywhere, result)
        return result

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

    whole = [halo.along.axis for halo in halos if not halo.divides]
    return _map_over_devices(on_device, arrays, whole, window)


def _positions_in_array(positions: jax.Array, local: Window, window: Window, first: Mapping[int, Any]) -> jax.Array:
    """Row-major positions among the cells of a device, whose first cells are given, as those in the whole array."""
    rest, total, place_value = positions, jnp.zeros_like(positions), 1
    for own, axis in zip(reversed(local.axes), reversed(window.axes), strict=True):
        size = np.int32(own.size)
        total += (lax.rem(rest, size) + first.get(axis.axis, 0)) * np.int32(place_value)
        rest, place_value = lax.div(rest, size), place_value * axis.size
    return jnp.where(positions < 0, positions, total)


@partial(jax.jit, static_argnums=(0, 2, 3, 4))
def _by_parts(by_parts: Core, arrays: Sequence[Any], parts: Parts, window: Window, static: tuple) -> Any:
    """The pool on every device of the parts of bins that it has, and then of the parts of each bin."""

    def on_device(cells: Any, parameters: Any) -> jax.Array:
        return by_parts(*cells, *parameters, parts, window, *static)

    return _map_over_devices(on_device, arrays, [parts.along.axis], window)


def _map_over_devices(function: Core, arrays: Sequence[Any], whole: Sequence[int], window: Window) -> Any:
    """`jax.shard_map` of `function(cells, parameters)` over all explicit mesh axes; x and the mask are cells.

    All arrays are sharded like x, but not results along the `whole` axes, nor parameters along pooled axes.
    """
    x = arrays[0]
    mesh, entries = jax.typeof(x).sharding.mesh, _entries(x, x.ndim, range(x.ndim))

    def spec_of(array: jax.Array, whole: Sequence[int]) -> PartitionSpec:
        return PartitionSpec(
            *(
                entry if size > 1 and axis not in whole else None
                for axis, (entry, size) in enumerate(zip(entries, array.shape, strict=True))
            )
        )

    given = jax.tree.map(lambda array: lax.expand_dims(array, range(x.ndim - array.ndim)), list(arrays))
    cells, parameters = given[:2], given[2:]
    specs = (
        jax.tree.map(partial(spec_of, whole=()), cells),
        jax.tree.map(partial(spec_of, whole=window.pooled_axes), parameters),
    )
    results = PartitionSpec(*(None if axis in whole else entry for axis, entry in enumerate(entries)))
    explicit = {name for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True) if kind == AxisType.Explicit}
    with jax.sharding.use_abstract_mesh(mesh):
        given = jax.tree.map(jax.sharding.reshard, (cells, parameters), specs)
        return jax.shard_map(function, in_specs=specs, out_specs=results, axis_names=explicit)(*given)


def evaluate_sharded(
    core: Core, arrays: Sequence[Any], pooled: Sequence[int], shape: Sequence[int], leading: int = 0
) -> Any:
    """Evaluate `core(*arrays)`, whose results have this shape, sharded like x along axes that the devices divide.

    The result may have `leading` additional axes, which are not sharded and not in `shape`.
    """
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
    """The same arrays; inside `jax.shard_map` with types that vary over the same devices.

    A backward pass returns cotangents of the types of its arguments. The cotangent of an argument that is the same on
    all devices is a sum over the devices. Here this sum results from multiplying by ones whose types vary.
    """
    return [
        math.prod((jnp.ones_like(other, shape=(), dtype=array.dtype) for other in arrays), start=array)
        for array in arrays
    ]
