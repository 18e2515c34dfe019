"""Arrays on several devices: pooled axes sharded over explicit mesh axes, and types that vary over devices.

An explicit mesh axis makes the sharding of every intermediate array a part of its type, and no type can describe an
axis whose size the devices do not divide. A pool pads and slices its axes all the time. So if a pooled axis is sharded
explicitly, the pool is evaluated as under automatic sharding, where the compiler arranges the exchange between
neighbours, and only the result gets a sharding in its type again. Inside `jax.shard_map`, types say over which devices
an array varies.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

from jaxpool._geometry.window import Window


def shardable(core: Callable[..., Any]) -> Callable[..., Any]:
    """Let `core(x, *arrays, window, *static)`, whose arrays may be None, take x sharded along any axes."""

    @wraps(core)
    def pool(*arguments: Any) -> Any:
        count = next(number for number, argument in enumerate(arguments) if isinstance(argument, Window))
        arrays, (window, *static) = arguments[:count], arguments[count:]
        shape = window.output_shape(arrays[0].shape)
        devices = devices_along(arrays)
        static = [shared_by(one, devices) if isinstance(one, Window) else one for one in (window, *static)]
        return evaluate_sharded(lambda *arrays: core(*arrays, *static), arrays, window.pooled_axes, shape)

    return pool


def evaluate_sharded(
    core: Callable[..., Any], arrays: Sequence[Any], pooled: Sequence[int], shape: Sequence[int], leading: int = 0
) -> Any:
    """Evaluate `core(*arrays)`, whose results have this shape, sharded like x along axes that the devices divide.

    The result may have `leading` additional axes, which are not sharded and not in `shape`.
    """
    x = arrays[0]
    sharded = [array for array in arrays if any(_entries(array, x.ndim, pooled))]
    if not sharded:
        return core(*arrays)
    mesh = jax.typeof(sharded[0]).sharding.mesh
    spec = _entries(x, x.ndim, range(x.ndim))
    for axis in pooled:
        if shape[axis] % _size(mesh, spec[axis]):
            spec[axis] = None
    with jax.sharding.use_abstract_mesh(mesh):
        return jax.sharding.auto_axes(core, out_sharding=PartitionSpec(*[None] * leading, *spec))(*arrays)


def shared_by(window: Window, devices: Sequence[int]) -> Window:
    """The same windows, where so many devices share each axis of the array; 0 changes nothing."""
    axes = (replace(axis, devices=devices[axis.axis] or axis.devices) for axis in window.axes)
    return replace(window, axes=tuple(axes))


def devices_along(arrays: Sequence[Any]) -> list[int]:
    """How many devices share each axis of the first of some arrays, or of others of its rank; 0 if that is unknown.

    In an explicit mesh the types say it. In an automatic one the compiler decides, after everything is traced.
    """
    rank, kinds = arrays[0].ndim, jax.typeof(arrays[0]).sharding.mesh.axis_types
    devices = [int(bool(kinds) and AxisType.Auto not in kinds)] * rank
    for array in arrays:
        for axis, entry in enumerate(_entries(array, rank, range(rank))):
            if entry is not None:
                devices[axis] = max(devices[axis], _size(jax.typeof(array).sharding.mesh, entry))
    return devices


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
