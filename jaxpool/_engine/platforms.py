"""Which lowering of a map runs on which platform, and what the compilers of the platforms are told.

A map of the engine, such as a reduction or the way back from winners to cells, has a lowering for the CPU and one for
GPUs, and may have one for TPUs. `by_platform` puts one operation for all of them into the traced program, so that it
can be exported to every platform, and the lowering of a platform is traced when the program is lowered for it. Inside
of a lowering the platform is known, and everything that asks again gets an answer: choices are never nested. An
operation that is differentiated becomes branches, one for each platform.

What a rule keeps for its backward pass is chosen while tracing, for the platform that JAX runs on by default. Every
platform evaluates the formats of all of them.

Primitives are made by parts of JAX that it keeps open without a promise: `jax.extend.core` and `jax.interpreters`.
They are used here, in `linear_maps` and in `stages` alone.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

PLATFORMS = ("cpu", "gpu", "tpu")

# Parts of the key under which JAX keeps what it has traced.
_platform = jax.make_user_context(None)
_inside_lowering = jax.make_user_context(False)
_one_device = jax.make_user_context(False)


def only_for(platform: str) -> AbstractContextManager[None]:
    """Trace for one of `PLATFORMS` alone: for compiling ahead of time, and to run its lowerings on another platform."""
    if platform not in PLATFORMS:
        raise ValueError(f"only_for: platform is one of {PLATFORMS}, got {platform!r}")
    return _platform(platform)


@contextmanager
def inside(platform: str) -> Iterator[None]:
    """Inside of a lowering for a platform, where whatever asks again gets an answer while tracing."""
    with _platform(platform), _inside_lowering(True):
        yield


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


@dataclasses.dataclass(frozen=True, eq=False)
class _Lowerings:
    """The lowerings of a map, by platform, of arrays in this structure; batches are taken along these axes, in turn."""

    by_platform: dict[str, Callable[..., Any]]
    structure: Any
    platform: str | None
    batches: tuple[tuple[int | None, ...], ...] = ()

    def evaluate(self, platform: str, *arrays: Any) -> list[Any]:
        """What the lowering of the platform makes of the arrays, flat."""

        def lowering(*arrays: Any) -> list[Any]:
            with inside(platform):
                return jax.tree.leaves(self.by_platform[platform](*jax.tree.unflatten(self.structure, arrays)))

        for axes in self.batches:
            lowering = jax.vmap(lowering, axes)
        return lowering(*arrays)

    def everywhere(self, *arrays: Any) -> list[Any]:
        """The same, as branches that JAX differentiates, of which what is compiled for a platform keeps its own."""
        if self.platform is not None:
            return self.evaluate(self.platform, *arrays)
        branches = {platform: partial(self.evaluate, platform) for platform in PLATFORMS}
        return lax.platform_dependent(*arrays, cpu=branches["cpu"], tpu=branches["tpu"], default=branches["gpu"])


def by_platform(
    *arrays: Any, cpu: Callable[..., Any], gpu: Callable[..., Any], tpu: Callable[..., Any] | None = None
) -> Any:
    """The lowering of the platform applied to the arrays, any of which may be None; a TPU takes a GPU's by default."""
    lowerings = {"cpu": cpu, "gpu": gpu, "tpu": tpu or gpu}
    if _inside_lowering.value:
        return lowerings[_platform.value](*arrays)
    leaves, structure = jax.tree.flatten(arrays)
    choice = _Lowerings(lowerings, structure, known_platform())
    with inside(choice.platform or "gpu"):
        traced, results = jax.make_jaxpr(lowerings[choice.platform or "gpu"], return_shape=True)(*arrays)
    if any(isinstance(constant, Tracer) for constant in traced.consts):
        # Arrays that a lowering closes over are gone when it is traced again.
        values = choice.everywhere(*leaves)
    else:
        values = _choice.bind(*leaves, choice=choice, results=tuple(traced.out_avals))
    return jax.tree.unflatten(jax.tree.structure(results), values)


def _lower_choice(platform: str, context: mlir.LoweringRuleContext, *arrays: Any, choice: _Lowerings, **_: Any) -> Any:
    platform = choice.platform or platform
    with lowered_for(platform, context):
        return mlir.lower_fun(partial(choice.evaluate, platform), multiple_results=True)(context, *arrays)


def _differentiate_choice(primals: Sequence[Any], tangents: Sequence[Any], choice: _Lowerings, **_: Any) -> Any:
    return jax.jvp(choice.everywhere, tuple(primals), tuple(map(ad.instantiate_zeros, tangents)))


def _batch_choice(arrays: Sequence[Any], axes: Sequence[int | None], choice: _Lowerings, **_: Any) -> tuple[Any, Any]:
    choice = dataclasses.replace(choice, batches=(*choice.batches, tuple(axes)))
    results = tuple(jax.make_jaxpr(partial(choice.evaluate, choice.platform or "gpu"))(*arrays).out_avals)
    return _choice.bind(*arrays, choice=choice, results=results), [0] * len(results)


def _transpose_choice(cotangents: Sequence[Any], *arrays: Any, choice: _Lowerings, **_: Any) -> list[Any]:
    is_linear = [ad.is_undefined_primal(array) for array in arrays]
    vectors = [array.aval for array, linear in zip(arrays, is_linear, strict=True) if linear]
    constants = [array for array, linear in zip(arrays, is_linear, strict=True) if not linear]

    def transpose(platform: str, cotangents: list[Any], constants: list[Any]) -> list[Any]:
        def of_vectors(*vectors: Any) -> list[Any]:
            pools = {True: iter(vectors), False: iter(constants)}
            return choice.evaluate(platform, *(next(pools[linear]) for linear in is_linear))

        return list(jax.linear_transpose(of_vectors, *vectors)(cotangents))

    transposes = {platform: partial(transpose, platform) for platform in PLATFORMS}
    back = iter(by_platform(list(map(ad.instantiate_zeros, cotangents)), constants, **transposes))
    return [next(back) if linear else None for linear in is_linear]


_choice = Primitive("choice_of_lowering")
_choice.multiple_results = True
_choice.def_impl(lambda *arrays, choice, **_: choice.evaluate(choice.platform or default_platform(), *arrays))
_choice.def_abstract_eval(lambda *_, results, **__: results)
ad.primitive_jvps[_choice] = _differentiate_choice
ad.primitive_transposes[_choice] = _transpose_choice
batching.primitive_batchers[_choice] = _batch_choice
mlir.register_lowering(_choice, partial(_lower_choice, "gpu"))
for _name in ("cpu", "tpu"):
    mlir.register_lowering(_choice, partial(_lower_choice, _name), platform=_name)


@contextmanager
def lowered_for(platform: str, context: mlir.LoweringRuleContext) -> Iterator[None]:
    """Trace for a platform while a program is lowered."""
    try:
        module = context.module_context
        # What is exported for one device may be called with arrays on several.
        devices = getattr(module.axis_context, "num_devices", None)
        whole = devices == 1 and not module.lowering_parameters.for_export
    except AttributeError:
        whole = False
    with inside(platform), _one_device(whole):
        yield


def on_one_device() -> bool:
    """Whether all arrays are known to be on one device: asked by lowerings, while they are lowered."""
    return _one_device.value


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
