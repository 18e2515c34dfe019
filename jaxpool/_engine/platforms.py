"""The platform that a program is traced for: known inside a lowering, and where a caller names one, or none at all.

What a rule keeps for its backward pass is chosen while tracing, for the named platform or JAX's default one. Every
platform can evaluate the formats of all platforms.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

PLATFORMS = ("cpu", "gpu", "tpu")
# Stands for all of them, in programs of plain operations that JAX differentiates itself.
PORTABLE = "portable"


class Layout(NamedTuple):
    """Where the arrays of a program are.

    Attributes:
        devices: The number of devices; 0 if unknown.
        sharded: Axes along which the program's arguments are sharded, each with the rank of the array. Intermediate
            arrays are mostly sharded alike, which is decided when the program is compiled.
    """

    devices: int = 0
    sharded: frozenset[tuple[int, int]] = frozenset()


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
_platform, _inside_lowering, _layout = _context(None), _context(False), _context(Layout())


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
    with inside(platform, Layout(1)) if platform == PORTABLE else _platform(platform):
        if not keyed:
            jax.clear_caches()
        yield
    if not keyed:
        jax.clear_caches()


@contextmanager
def inside(platform: str, layout: Layout | None = None) -> Iterator[None]:
    """Trace inside a lowering for a platform, and possibly for a layout of arrays, both then known to all functions."""
    with _platform(platform), _inside_lowering(True):
        if layout is None:
            yield
        else:
            with _layout(layout):
                yield


def on_each_device(axis: int, rank: int) -> AbstractContextManager[None]:
    """Trace what every device does by itself, inside a lowering, for arrays whose axis is split into devices and cells.

    The arrays then have one more axis, and none of these two counts as sharded.
    """
    others = {one + (one > axis) for one, of_rank in _layout.value.sharded if of_rank == rank and one != axis}
    return _layout(_layout.value._replace(sharded=frozenset((one, rank + 1) for one in others)))


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
    """Whether all arrays are known to be on one device; for use in lowerings only."""
    return _layout.value.devices == 1


def on_one_cpu(*arrays: jax.Array) -> bool:
    """Whether this is a lowering for a CPU with all arrays on one device, and these in no mesh."""
    in_no_mesh = all(jax.typeof(array) == jax.typeof(jnp.zeros(array.shape, array.dtype)) for array in arrays)
    return known_platform() == "cpu" and on_one_device() and in_no_mesh


def devices_along(axis: int, rank: int) -> int:
    """How many devices may share this axis of arrays of this rank, as far as lowerings know; 1 if none seem to."""
    return _layout.value.devices if (axis, rank) in _layout.value.sharded else 1


def divided_evenly(array: Any) -> bool:
    """Whether all axes that devices may share are multiples of the number of devices; for use in lowerings only."""
    return all(size % devices_along(axis, len(array.shape)) == 0 for axis, size in enumerate(array.shape))


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
