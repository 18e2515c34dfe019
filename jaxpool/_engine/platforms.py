"""The platform that a program is traced for: known inside of a lowering, and where a caller names one.

What a rule keeps for its backward pass is chosen while tracing, for the platform that is named or that JAX runs on by
default. Every platform evaluates the formats of all of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

PLATFORMS = ("cpu", "gpu", "tpu")


class Layout(NamedTuple):
    """Where a program has its arrays.

    Attributes:
        devices: On how many devices; 0 where nobody knows.
        sharded: Axes along which devices share arrays that the program is given, each with the rank of the array.
            Those that it makes of them are mostly sharded alike, which is settled when it is compiled.
    """

    devices: int = 0
    sharded: frozenset[tuple[int, int]] = frozenset()


# Parts of the key under which JAX keeps what it has traced.
_platform = jax.make_user_context(None)
_inside_lowering = jax.make_user_context(False)
_layout = jax.make_user_context(Layout())


def only_for(platform: str) -> AbstractContextManager[None]:
    """Trace for one of `PLATFORMS` alone: for compiling ahead of time, and to run its lowerings on another platform."""
    if platform not in PLATFORMS:
        raise ValueError(f"only_for: platform is one of {PLATFORMS}, got {platform!r}")
    return _platform(platform)


@contextmanager
def inside(platform: str, layout: Layout | None = None) -> Iterator[None]:
    """Inside of a lowering for a platform, and maybe for arrays in a layout, where whatever asks gets an answer."""
    with _platform(platform), _inside_lowering(True):
        if layout is None:
            yield
        else:
            with _layout(layout):
                yield


def known_platform() -> str | None:
    """The platform that what is traced is for, or None where it is for all of them."""
    return _platform.value


def is_inside_lowering() -> bool:
    """Whether what is traced is a lowering, for the known platform."""
    return _inside_lowering.value


def may_be_cpu() -> bool:
    """Whether what is traced may run on a CPU, and must keep its compiler's habits in mind."""
    return known_platform() in (None, "cpu")


def on_one_device() -> bool:
    """Whether all arrays are known to be on one device: asked by lowerings, while they are lowered."""
    return _layout.value.devices == 1


def devices_along(axis: int, rank: int) -> int:
    """How many devices may share that axis of arrays of that rank, as far as lowerings know; 1 where none seems to."""
    return _layout.value.devices if (axis, rank) in _layout.value.sharded else 1


def default_platform() -> str:
    """The platform for which formats are chosen: the known one, or that of JAX's default devices."""
    backend = known_platform() or jax.default_backend()
    return backend if backend in PLATFORMS else "gpu"


def numbers_along(shape: Sequence[int], axis: int) -> Any:
    """The numbers 0, 1, … along an axis, in int32: where it may be a CPU, or if they are many, an iota, else a table.

    On GPUs an iota, and all that is computed of it, becomes a kernel of its own.
    """
    if may_be_cpu() or shape[axis] > 64:
        return lax.broadcasted_iota(np.int32, shape, axis)
    return np.arange(shape[axis], dtype=np.int32).reshape([-1 if n == axis else 1 for n in range(len(shape))])
