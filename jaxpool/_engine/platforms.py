"""The platform that a program is traced for: known inside a lowering, and where a caller names one, or none at all.

What a rule keeps for its backward pass is chosen while tracing, for the named platform or JAX's default one. Every
platform can evaluate the formats of all platforms.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType

PLATFORMS = ("cpu", "gpu", "tpu")
# Stands for all of them, in programs of plain operations that JAX differentiates itself.
PORTABLE = "portable"


class _Context:
    """What `jax.make_user_context` returns, for a JAX that lacks it: the value is no part of the keys of caches."""

    def __init__(self, default: Any) -> None:
        self._variable = ContextVar("context", default=default)

    @property
    def value(self) -> Any:
        return self._variable.get()

    @contextmanager
    def __call__(self, value: Any) -> Iterator[None]:
        token = self._variable.set(value)
        try:
            yield
        finally:
            self._variable.reset(token)


# Parts of the key of JAX's tracing cache.
_context = getattr(jax, "make_user_context", _Context)
_platform, _inside_lowering, _devices = _context(None), _context(False), _context(0)


def only_for(platform: str) -> AbstractContextManager[None]:
    """Trace for one of `PLATFORMS` only: to compile ahead of time, or to run its lowerings on another platform."""
    if platform not in PLATFORMS:
        raise ValueError(f"only_for: platform is one of {PLATFORMS}, got {platform!r}")
    return _named(platform)


def portable() -> AbstractContextManager[None]:
    """Trace plain operations, which suit every platform and every interpreter of programs."""
    return _named(PORTABLE)


@contextmanager
def _named(platform: str) -> Iterator[None]:
    keyed = not isinstance(_platform, _Context)
    with inside(platform, 1) if platform == PORTABLE else _platform(platform):
        if not keyed:
            jax.clear_caches()
        yield
    if not keyed:
        jax.clear_caches()


@contextmanager
def inside(platform: str, devices: int | None = None) -> Iterator[None]:
    """Trace inside a lowering for a platform, and possibly for so many devices, both then known to all functions."""
    with _platform(platform), _inside_lowering(True):
        if devices is None:
            yield
        else:
            with _devices(devices):
                yield


def known_platform() -> str | None:
    """The platform of the program being traced, or None if it is for all of them."""
    return _platform.value


def is_inside_lowering() -> bool:
    """Whether a lowering is being traced, for the known platform."""
    return _inside_lowering.value


def is_portable() -> bool:
    """Whether plain operations are traced, without rules of ours."""
    return known_platform() == PORTABLE


def may_be_cpu() -> bool:
    """Whether the program may run on a CPU, whose compiler needs special care."""
    return known_platform() in (None, "cpu")


def on_one_device() -> bool:
    """Whether all arrays are known to be on one device; for use in lowerings only.

    They are if the program runs on one, and inside `jax.shard_map`, if it maps over all axes of the mesh.
    """
    mesh = jax.sharding.get_abstract_mesh()
    return _devices.value == 1 or (not mesh.empty and all(kind == AxisType.Manual for kind in mesh.axis_types))


def on_one_cpu(*arrays: jax.Array) -> bool:
    """Whether this is a lowering for a CPU with all arrays on one device, and these in no mesh."""
    in_no_mesh = all(jax.typeof(array) == jax.typeof(jnp.zeros(array.shape, array.dtype)) for array in arrays)
    return known_platform() == "cpu" and on_one_device() and in_no_mesh


def most_devices() -> int:
    """The most devices that can share an array of the program, 1 if that is unknown; for use in lowerings only."""
    return 1 if on_one_device() else max(1, _devices.value)


def may_be_shared() -> bool:
    """Whether several devices may share an array, as far as it is known while a pool is traced."""
    return jax.device_count() > 1


def default_platform() -> str:
    """The platform for which formats are chosen: the known one, or JAX's default."""
    backend = known_platform() or jax.default_backend()
    return backend if backend in PLATFORMS else "gpu"


def numbers_along(shape: Sequence[int], axis: int) -> Any:
    """The int32 numbers 0, 1, … along an axis: an iota if it may be a CPU or the axis is long, else a table.

    On GPUs an iota, with everything computed from it, becomes a separate kernel.
    """
    if may_be_cpu() or shape[axis] > 64:
        return lax.broadcasted_iota(np.int32, shape, axis)
    return np.arange(shape[axis], dtype=np.int32).reshape([-1 if n == axis else 1 for n in range(len(shape))])
