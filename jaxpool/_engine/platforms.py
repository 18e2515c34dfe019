"""Which lowering of a map runs on which platform, and what the compilers of the platforms are told.

A map of the engine, such as a reduction or the way back from winners to cells, has a lowering for the CPU and one for
GPUs, and may have one for TPUs. `by_platform` puts them all into the traced program, so that one program can be
exported to every platform; what is compiled for one holds the branch of that platform alone. Inside of a branch the
platform is known, and everything that asks again gets an answer while tracing: choices are never nested.

What a rule keeps for its backward pass is chosen while tracing, for the platform that JAX runs on by default. Every
platform evaluates the formats of all of them.

Primitives are made by parts of JAX that it keeps open without a promise: `jax.extend.core` and `jax.interpreters`.
They are used here and in `stages` alone.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

PLATFORMS = ("cpu", "gpu", "tpu")

# Part of the key under which JAX keeps what it has traced.
_platform = jax.make_user_context(None)


def only_for(platform: str) -> AbstractContextManager[None]:
    """Trace for one of `PLATFORMS` alone: for compiling ahead of time, and to run its lowerings on another platform."""
    if platform not in PLATFORMS:
        raise ValueError(f"only_for: platform is one of {PLATFORMS}, got {platform!r}")
    return _platform(platform)


def known_platform() -> str | None:
    """The platform that what is traced is for, or None where it is for all of them."""
    return _platform.value


def may_be_cpu() -> bool:
    """Whether what is traced may run on a CPU, and must keep its compiler's habits in mind."""
    return known_platform() in (None, "cpu")


def default_platform() -> str:
    """The platform for which formats are chosen: the known one, or that of JAX's default devices."""
    backend = known_platform() or jax.default_backend()
    return backend if backend in PLATFORMS else "gpu"


def by_platform(
    *arrays: Any, cpu: Callable[..., Any], gpu: Callable[..., Any], tpu: Callable[..., Any] | None = None
) -> Any:
    """The lowering of the platform applied to the arrays, any of which may be None; a TPU takes a GPU's by default."""
    lowerings = {"cpu": cpu, "gpu": gpu, "tpu": tpu or gpu}
    known = known_platform()
    if known is not None:
        return lowerings[known](*arrays)

    def branch(platform: str) -> Callable[..., Any]:
        def lowering(*arrays: Any) -> Any:
            with only_for(platform):
                return lowerings[platform](*arrays)

        return lowering

    others = {} if tpu is None else {"tpu": branch("tpu")}
    return lax.platform_dependent(*arrays, cpu=branch("cpu"), default=branch("gpu"), **others)


class LinearMap(Protocol):
    """A map that is linear in its first argument, of the type of the third one; its result is of the second one's."""

    def __call__(self, vector: jax.Array, source: jax.Array, target: jax.Array, /, *, whole: bool) -> jax.Array:
        """The map of the vector; the other two are constants. Arrays are `whole` where they are on one device."""
        ...

    def batched(self) -> "LinearMap":
        """The same map of arrays that have one more axis in front."""
        ...


def apply_linear_map(
    linear_map: LinearMap, vector: jax.Array, source: jax.Array, target: jax.Array, *, transposed: bool = False
) -> jax.Array:
    """The map of a vector, or the transpose of the map of one, whose own transpose is the map itself.

    JAX would transpose what it transposed, and take branches apart on the way. Batches stay one array, so that what the
    map decides by a look at the values is decided for all of them, instead of evaluating both sides.
    """
    return _linear_map.bind(vector, source, target, linear_map=linear_map, transposed=transposed)


def _evaluate_linear_map(
    vector: jax.Array,
    source: jax.Array,
    target: jax.Array,
    *,
    linear_map: LinearMap,
    transposed: bool,
    whole: bool = False,
) -> jax.Array:
    def forward(vector: jax.Array) -> jax.Array:
        return linear_map(vector, source, target, whole=whole)

    return jax.linear_transpose(forward, jax.typeof(target))(vector)[0] if transposed else forward(vector)


def _lower_linear_map(context: mlir.LoweringRuleContext, *arrays: Any, **static: Any) -> Any:
    try:
        module = context.module_context
        # What is exported for one device may be called with arrays on several.
        devices = getattr(module.axis_context, "num_devices", None)
        whole = devices == 1 and not module.lowering_parameters.for_export
    except AttributeError:
        whole = False
    return mlir.lower_fun(_evaluate_linear_map, multiple_results=False)(context, *arrays, **static, whole=whole)


def _differentiate_linear_map(primals: Sequence[Any], tangents: Sequence[Any], **static: Any) -> tuple[Any, Any]:
    result = _linear_map.bind(*primals, **static)
    if isinstance(tangents[0], ad.Zero):
        return result, ad.Zero(jax.typeof(result))
    return result, _linear_map.bind(tangents[0], *primals[1:], **static)


def _transpose_linear_map(
    cotangent: Any, _: Any, source: jax.Array, target: jax.Array, *, linear_map: LinearMap, transposed: bool
) -> list[Any]:
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(jax.typeof(source if transposed else target)), None, None]
    back = _linear_map.bind(cotangent, source, target, linear_map=linear_map, transposed=not transposed)
    return [back, None, None]


def _batch_linear_map(
    arrays: Sequence[jax.Array], axes: Sequence[int | None], *, linear_map: LinearMap, transposed: bool
) -> tuple[jax.Array, int]:
    size = next(array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None)
    batched = [
        jnp.broadcast_to(array, (size, *array.shape)) if axis is None else jnp.moveaxis(array, axis, 0)
        for array, axis in zip(arrays, axes, strict=True)
    ]
    return _linear_map.bind(*batched, linear_map=linear_map.batched(), transposed=transposed), 0


_linear_map = Primitive("linear_map")
_linear_map.def_impl(jax.jit(_linear_map.bind, static_argnames=("linear_map", "transposed")))
_linear_map.def_abstract_eval(lambda vector, source, target, *, transposed, **_: target if transposed else source)
ad.primitive_jvps[_linear_map] = _differentiate_linear_map
ad.primitive_transposes[_linear_map] = _transpose_linear_map
batching.primitive_batchers[_linear_map] = _batch_linear_map
mlir.register_lowering(_linear_map, _lower_linear_map)


def numbers_along(shape: Sequence[int], axis: int) -> Any:
    """The numbers 0, 1, … along an axis, in int32: on the CPU, or if they are many, an iota, else a table.

    On GPUs an iota, and all that is computed of it, becomes a kernel of its own.
    """
    if may_be_cpu() or shape[axis] > 64:
        return lax.broadcasted_iota(np.int32, shape, axis)
    return np.arange(shape[axis], dtype=np.int32).reshape([-1 if n == axis else 1 for n in range(len(shape))])


def constant(table: Any) -> Any:
    """A table as an array of the program that differentiation does not keep; what is none stays as it is."""
    if not isinstance(table, np.ndarray):
        return table
    return _constant.bind(dtype=table.dtype.name, shape=table.shape, values=table.tobytes())


def _constant_array(*, dtype: str, shape: tuple[int, ...], values: bytes) -> jax.Array:
    return jnp.asarray(np.frombuffer(values, dtype).reshape(shape))


_constant = Primitive("constant")
_constant.def_impl(_constant_array)
_constant.def_abstract_eval(lambda *, dtype, shape, values: jax.typeof(np.frombuffer(values, dtype).reshape(shape)))
mlir.register_lowering(_constant, mlir.lower_fun(_constant_array, multiple_results=False))
