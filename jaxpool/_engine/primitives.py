"""Operations with custom rules, as JAX primitives: the only module that uses interfaces JAX does not guarantee.

With `jax.extend.core` and `jax.interpreters` an operation can be lowered differently for each platform, while the
program is lowered, and its derivatives and batching can be written by hand. JAX makes no promise about them, so only
this module uses them. All primitives are registered in one attempt. If anything fails in it, `AVAILABLE` is false, and
every user of a `CustomPrimitive` falls back on documented JAX: the same results, from programs that JAX differentiates
itself.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import jax

from jaxpool._engine.platforms import PLATFORMS, default_platform, inside


class CustomPrimitive(abc.ABC):
    """The static part of an operation, and its rules: an instance enters the traced program with the arrays.

    Attributes:
        lowered: Lowerings by platform, as functions of a lowering context and compiler values. On other platforms
            `evaluate` is traced.
    """

    lowered: ClassVar[Mapping[str, Callable[..., Any]]] = {}
    _primitive: ClassVar[Any] = None

    def __init_subclass__(cls, name: str) -> None:
        """Give every subclass its own primitive, with this name in traced programs."""
        super().__init_subclass__()
        if AVAILABLE:
            cls._primitive = _PRIMITIVES[name]

    @abc.abstractmethod
    def evaluate(self, platform: str, *arrays: Any) -> Sequence[Any]:
        """The results on a platform, in terms of other operations."""

    def differentiate(self, primals: Sequence[Any], tangents: Sequence[Any], types: tuple[Any, ...]) -> Any:
        """The results, of these types, and their tangents; any tangent may be a symbolic zero (`is_zero`)."""
        raise NotImplementedError(f"{self} has no derivative")

    def transpose(self, cotangents: Sequence[Any], arrays: Sequence[Any]) -> Sequence[Any]:
        """The cotangents of the arrays for which `is_unknown` holds, and None for the others."""
        raise NotImplementedError(f"{self} has no transpose")

    def batch(self, arrays: Sequence[Any], axes: Sequence[int | None]) -> tuple[Sequence[Any], Sequence[Any]]:
        """The results for arrays batched along these axes, and the batch axes of the results."""
        raise NotImplementedError(f"{self} has no batches")

    def bind(self, *arrays: Any, types: Sequence[Any]) -> list[Any]:
        """Add the operation, whose results have these types, to the traced program."""
        return self._primitive.bind(*arrays, operation=self, types=tuple(types))


def is_zero(tangent: Any) -> bool:
    """Whether a tangent or cotangent is a symbolic zero."""
    return isinstance(tangent, ad.Zero)


def zero_like(result: Any) -> Any:
    """The symbolic zero for the tangent of a result or the cotangent of a type."""
    return ad.Zero(jax.typeof(result) if isinstance(result, jax.Array) else result)


def without_symbols(tangents: Sequence[Any]) -> list[Any]:
    """The tangents, with symbolic zeros replaced by arrays of zeros."""
    return list(map(ad.instantiate_zeros, tangents))


def sum_of_tangents(first: Any, second: Any) -> Any:
    """The sum of two tangents, either of which may be a symbolic zero."""
    return ad.add_tangents(first, second)


def is_unknown(array: Any) -> bool:
    """Whether a transpose rule has to find the cotangent of this array, of which only the type is known."""
    return ad.is_undefined_primal(array)


def type_of(array: Any) -> Any:
    """The type of an array, known or not."""
    return array.aval if is_unknown(array) else jax.typeof(array)


def lower_as_call(name: str, function: Callable[..., Any], context: Any, *arrays: Any) -> Any:
    """Lower an operation to a call of a function of its arrays, which the compiler must not inline."""
    program = jax.make_jaxpr(function)(*context.avals_in)
    results = mlir.core_call_lowering(context, *arrays, name=name, call_jaxpr=program)
    call = results[0].owner
    # In an explicit mesh, a later operation gives the result its sharding.
    while call.name != "func.call":
        call = call.operands[0].owner
    call.attributes["mhlo.frontend_attributes"] = mlir.ir.DictAttr.get({"inlineable": mlir.ir.StringAttr.get("false")})
    return results


def lower_by(function: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    """Lower an operation by tracing a function of its arrays."""
    return mlir.lower_fun(function, multiple_results=True)


def _evaluate(*arrays: Any, operation: CustomPrimitive, types: Any) -> Sequence[Any]:
    """Evaluate an operation outside any traced program, as `jax.disable_jit` does, where its arrays are."""
    platforms = {device.platform for array in arrays if isinstance(array, jax.Array) for device in array.devices()}
    return operation.evaluate(next((one for one in PLATFORMS if one in platforms), default_platform()), *arrays)


def _differentiate(primals: Any, tangents: Any, *, operation: CustomPrimitive, types: tuple[Any, ...]) -> Any:
    return operation.differentiate(primals, tangents, types)


def _lower(platform: str, context: Any, *arrays: Any, operation: CustomPrimitive, types: Any) -> Any:
    """Lower an operation for a platform: by its own lowering, or by tracing it while the program is lowered."""
    if lowering := operation.lowered.get(platform):
        return lowering(context, *arrays, operation=operation)
    with inside(platform, devices_of(context)):
        return lower_by(partial(operation.evaluate, platform))(context, *arrays)


def devices_of(context: Any) -> int:
    """The number of devices of the program to which an operation is lowered; 0 if unknown."""
    try:
        module = context.module_context
        # A program exported for one device may be called with arrays on several.
        return 0 if module.lowering_parameters.for_export else module.axis_context.num_devices or 0
    except AttributeError:
        return 0


def _registered() -> dict[str, Any]:
    """A primitive for each name, with rules that leave everything to its operation."""
    found = {}
    for name in ("choice_of_lowering", "linear_map", "materialize", "call", "constant"):
        primitive = found[name] = jax.extend.core.Primitive(name)
        primitive.multiple_results = True
        primitive.def_impl(_evaluate)
        primitive.def_abstract_eval(lambda *_, operation, types: types)
        ad.primitive_jvps[primitive] = _differentiate
        ad.primitive_transposes[primitive] = lambda bars, *arrays, operation, types: operation.transpose(bars, arrays)
        batching.primitive_batchers[primitive] = lambda arrays, axes, operation, types: operation.batch(arrays, axes)
        for platform in PLATFORMS:
            # A lowering registered without a platform serves all others.
            mlir.register_lowering(
                primitive, partial(_lower, platform), platform=None if platform == "gpu" else platform
            )
    return found


try:
    import jax.extend.core
    from jax.interpreters import ad, batching, mlir

    # Those that are used later than here.
    _USED = ad.Zero, ad.add_tangents, ad.instantiate_zeros, ad.is_undefined_primal, mlir.lower_fun
    _USED += (jax.make_user_context,)
    _PRIMITIVES, AVAILABLE = _registered(), True
except Exception:  # whatever a version of JAX raises
    ad: Any = None
    batching: Any = None
    mlir: Any = None
    _PRIMITIVES, AVAILABLE = {}, False
