"""The program that is traced: its platform and its devices, known inside a lowering, and where a caller names them.

What a rule keeps for its backward pass is chosen while tracing, for the named platform or JAX's default one. Every
platform can evaluate the formats of all platforms.
"""

import threading
from contextlib import AbstractContextManager
from typing import Any

import jax
from jax.core import ShapedArray
from jax.sharding import AxisType

PLATFORMS = ("cpu", "gpu", "tpu")
# As users name them: by these, and by JAX's own names for GPUs.
_NAMES = {"cpu": "cpu", "gpu": "gpu", "tpu": "tpu", "cuda": "gpu", "rocm": "gpu"}
# Stands for all of them, in programs of plain operations that JAX differentiates itself.
PORTABLE = "portable"


# Parts of the key of JAX's tracing cache: the only platform of the program, if a caller names one; and the platform of
# a lowering, or of a portable program, which is made like one, with the number of its devices, 0 if unknown. Each
# remains as it is in contexts of the other.
_named = jax.make_user_context(None)
_lowering = jax.make_user_context((None, 0))


class _Context(AbstractContextManager[None]):
    """A value of a context of JAX, whose own contexts must be entered only once, and by one thread."""

    def __init__(self, context: Any, value: Any) -> None:
        self._context, self._value, self._entered = context, value, threading.local()

    def __enter__(self) -> None:
        context = self._context(self._value)
        context.__enter__()
        self._entered.__dict__.setdefault("contexts", []).append(context)

    def __exit__(self, *exception: Any) -> None:
        self._entered.contexts.pop().__exit__(*exception)


def compiling_for(platform: str) -> AbstractContextManager[None]:
    """Trace pools for one platform, whatever machine traces them.

    What a pool keeps for its gradient, and in what format, suits JAX's default platform. A program that is traced on a
    CPU, to be compiled ahead of time or exported for a GPU or a TPU, is correct without this context, but slower: on a
    TPU the gradient of 2×2 maxima takes twice the cycles. Inside `with jaxpool.compiling_for("tpu"):` you get the
    program that a machine with a TPU would trace. Such a program holds only that platform's operations, so tracing
    takes less time. The context takes effect where a pool is traced, and makes `jax.jit` trace a function again. Of
    nested contexts, the innermost decides. Inside `portable` it changes nothing.

    Args:
        platform: "cpu", "gpu" or "tpu"; "cuda" and "rocm" are GPUs.

    Returns:
        A context manager. Pools traced in it run on every platform, but run best on this one.

    Raises:
        ValueError: there is no such platform.

    Derivative:
        The same as outside, up to rounding.

    Example:
        >>> step = jax.jit(jax.grad(lambda x: jaxpool.max_pool(x, (2, 2)).sum()))
        >>> with jaxpool.compiling_for("tpu"):
        ...     traced = step.trace(jax.ShapeDtypeStruct((8, 64), jnp.float32))
        >>> program = traced.lower(lowering_platforms=("tpu",))
    """
    if platform not in _NAMES:
        raise ValueError(f"compiling_for: platform must be one of {', '.join(_NAMES)}, got {platform!r}")
    return _Context(_named, _NAMES[platform])


def portable() -> AbstractContextManager[None]:
    """Trace pools as plain `lax` operations, for transformations that know only JAX's own primitives.

    Inside `with jaxpool.portable():` every pool consists of slices, comparisons, arithmetic and gathers, whose
    derivatives are JAX's own: there is no custom primitive, no `jax.custom_jvp`, no `jax.custom_vjp` and no barrier. So
    Taylor mode (`jax.experimental.jet`), forward Laplacians (folx) and exports to ONNX work (jax2onnx, with JAX before
    0.12; but not yet for `roi_pool` and `top_k_pool`). The context takes effect where a pool is traced, and makes
    `jax.jit` trace a function again; `compiling_for`, inside or around it, changes nothing. Compiled programs are
    longer and slower than without it, and are meant for arrays on one device.

    Returns:
        A context manager. The values of pools in it are the same up to rounding.

    Derivative:
        That of each pool, of every order, by JAX from plain operations; `rule` changes nothing. Ties: selections follow
        the first winner, as without it. At zeros, infinities and NaN, where a pool's own rule gives 0, the derivative
        may be NaN; so may that of a norm near the ends of the range of its dtype.

    Example:
        >>> from jax.experimental.jet import jet
        >>> x = jnp.array([1.0, 3.0, 2.0, 2.0])
        >>> with jaxpool.portable():
        ...     value, (slope, _) = jet(lambda x: jaxpool.max_pool(x, (2,)), (x,), ([x, jnp.zeros(4)],))
        >>> slope
        Array([3., 2.], dtype=float32)
    """
    return inside(PORTABLE, 1)


def inside(platform: str, devices: int | None = None) -> AbstractContextManager[None]:
    """Trace inside a lowering for a platform, and for so many devices, if given; for one inside `jax.shard_map`."""
    known = _lowering.value[1] if devices is None else 1 if _inside_shard_map() else devices
    return _Context(_lowering, (platform, known))


def known_platform() -> str | None:
    """The platform of the program being traced, or None if it is for all of them."""
    return lowering_platform() or _named.value


def lowering_platform() -> str | None:
    """The platform whose lowering is being traced, or None outside lowerings."""
    return _lowering.value[0]


def is_portable() -> bool:
    """Whether plain operations are traced, without rules of ours."""
    return known_platform() == PORTABLE


def on_one_device() -> bool:
    """Whether all arrays are known to be on one device, as inside `jax.shard_map` over all axes; for lowerings only."""
    return _lowering.value[1] == 1 or _inside_shard_map()


def _inside_shard_map() -> bool:
    mesh = jax.sharding.get_abstract_mesh()
    return not mesh.empty and all(kind == AxisType.Manual for kind in mesh.axis_types)


def in_no_mesh(*arrays: Any) -> bool:
    """Whether types say nothing about several devices."""
    kinds = map(jax.typeof, arrays)
    plain = all(kind == ShapedArray(kind.shape, kind.dtype, weak_type=kind.weak_type) for kind in kinds)
    return plain and jax.sharding.get_abstract_mesh().empty


def most_devices() -> int:
    """The most devices that can share an array of the program, 1 if that is unknown; for use in lowerings only."""
    return 1 if on_one_device() else max(1, _lowering.value[1])


def default_platform() -> str:
    """The platform for which formats are chosen: the known one, or JAX's default."""
    backend = known_platform() or jax.default_backend()
    return backend if backend in PLATFORMS else "gpu"
