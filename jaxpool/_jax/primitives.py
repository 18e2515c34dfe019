"""One JAX primitive: a call that each platform evaluates in its own way, and whose transpose may be written by hand.

It enters a traced program once for all platforms, to which that can be exported. It is lowered by tracing its function
for a platform while the program is lowered, batched by `jax.vmap` of the function, and differentiated by JAX, or into
its own transpose where it is linear. This is the only module that uses interfaces which JAX does not guarantee. They
are registered in one attempt. If anything fails in it, `AVAILABLE` is false, and documented JAX takes the place of
calls: the same results, from programs that JAX differentiates itself.
"""

import abc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray
from jax.sharding import PartitionSpec

from jaxpool._jax import platforms
from jaxpool._jax.platforms import PLATFORMS, inside, known_platform


def available() -> bool:
    """Whether calls can be added to the program being traced; never to portable ones, which have plain operations."""
    return AVAILABLE and not platforms.is_portable()


def by_platform(*trees: Any, like: Any = None, **lowerings: Callable[..., Any]) -> Any:
    """Apply the lowering named after the platform, or that for GPUs, to trees of arrays; see `call`.

    Inside a lowering, where the platform is known, this is a plain call, so choices never nest.
    """

    def apply(platform: str, *trees: Any) -> Any:
        return lowerings.get(platform, lowerings["gpu"])(*trees)

    known = platforms.lowering_platform()
    return call(apply, *trees, like=like) if known is None else apply(known, *trees)


def call(
    function: Callable[..., Any],
    *trees: Any,
    like: Any = None,
    transposed: Callable[..., Any] | None = None,
) -> Any:
    """Add a call of `function(platform, *trees)` to the traced program, with the other arguments of `PlatformCall`.

    Its results are like `like`, a tree of arrays or of `jax.ShapeDtypeStruct`; without it they are traced once more.
    """
    (vectors, first), (arrays, others) = jax.tree.flatten(trees[0]), jax.tree.flatten(trees[1:])
    types = _types(partial(_inside, function, known_platform() or "gpu"), *trees, like=like)
    static = PlatformCall(function, first, others, jax.tree.structure(types), transposed)
    return jax.tree.unflatten(static.result, _bind(static, [*vectors, *arrays], jax.tree.leaves(types)))


@dataclass(frozen=True)
class PlatformCall:
    """The static part of a call, which enters the traced program with flat arrays.

    Attributes:
        function: Of the platform, inside which it is evaluated, and of trees; it closes over no traced array.
        first, others, result: The structures of its first tree, of the tuple of the others, and of its result.
        transposed: The transpose, if the function is linear in its first tree: of cotangents in place of this tree. The
            other trees are then constants; without it JAX derives the function in all of them.
        known: The only platform that the program is for, if one is named.
        batches: The axes along which arrays are batched, in turn; 0 for results, and for what the call is linear in.
    """

    function: Callable[..., Any]
    first: Any
    others: Any
    result: Any
    transposed: Callable[..., Any] | None
    known: str | None = field(default_factory=known_platform)
    batches: tuple[tuple[int | None, ...], ...] = ()

    @property
    def vectors(self) -> int:
        """In how many arrays, the first ones, the call is linear."""
        return 0 if self.transposed is None else self.first.num_leaves

    def evaluate(self, platform: str, *arrays: Any) -> Sequence[Any]:
        """The flat results, in operations for a platform."""

        def function(*arrays: Any) -> Sequence[Any]:
            first = jax.tree.unflatten(self.first, arrays[: self.first.num_leaves])
            others = jax.tree.unflatten(self.others, arrays[self.first.num_leaves :])
            return jax.tree.leaves(_inside(self.function, self.known or platform, first, *others))

        for axes in self.batches:
            function = jax.vmap(function, axes)
        return function(*arrays)

    def evaluate_everywhere(self, *arrays: Any) -> Sequence[Any]:
        """The same as branches that JAX differentiates; a program compiled for a platform keeps only its own branch."""
        if self.known is not None:
            return self.evaluate(self.known, *arrays)
        cpu, gpu, tpu = (partial(self.evaluate, platform) for platform in PLATFORMS)
        return lax.platform_dependent(*arrays, cpu=cpu, tpu=tpu, default=gpu)


def _bind(call: PlatformCall, arrays: Sequence[Any], types: Sequence[Any]) -> Sequence[Any]:
    return _PRIMITIVE.bind(*arrays, call=call, types=tuple(types)) if AVAILABLE else call.evaluate_everywhere(*arrays)


def _inside(function: Callable[..., Any], platform: str, *trees: Any) -> Any:
    with inside(platform):
        return function(platform, *trees)


def _types(function: Callable[..., Any], *arrays: Any, like: Any) -> Any:
    """The types of the results of a function; in a mesh, the shapes and dtypes of `like` say too little."""
    exact = all(isinstance(one, jax.Array) for one in jax.tree.leaves(like))
    if like is None or not (exact or platforms.in_no_mesh(*jax.tree.leaves(arrays))):
        program, results = jax.make_jaxpr(function, return_shape=True)(*arrays)
        return jax.tree.unflatten(jax.tree.structure(results), program.out_avals)
    return jax.tree.map(jax.typeof if exact else lambda one: ShapedArray(one.shape, one.dtype), like)


def _impl(*arrays: Any, call: PlatformCall, types: Any) -> Sequence[Any]:
    """Evaluate a call outside any traced program, as `jax.disable_jit` does."""
    return call.evaluate(_platform_of(arrays), *arrays)


def _platform_of(arrays: Sequence[Any]) -> str:
    """Where arrays are."""
    found = {device.platform for array in arrays if isinstance(array, jax.Array) for device in array.devices()}
    return next((one for one in PLATFORMS if one in found), platforms.default_platform())


def _differentiate(primals: Any, tangents: Any, *, call: PlatformCall, types: Any) -> Any:
    varying = [number for number, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]
    if call.transposed is None:
        function = partial(_evaluate_with, call, primals, varying)
        return jax.jvp(function, [primals[n] for n in varying], [tangents[n] for n in varying])
    dots = map(ad.instantiate_zeros, tangents[: call.vectors])
    return _bind(call, primals, types), _bind(call, [*dots, *primals[call.vectors :]], types)


def _transpose(cotangents: Sequence[Any], *arrays: Any, call: PlatformCall, types: Any) -> Sequence[Any]:
    unknown = {number: array.aval for number, array in enumerate(arrays) if ad.is_undefined_primal(array)}
    if all(isinstance(cotangent, ad.Zero) for cotangent in cotangents):
        return [None] * len(arrays)
    cotangents = list(map(ad.instantiate_zeros, cotangents))
    if call.transposed is None:
        function = partial(_evaluate_with, call, arrays, unknown)
        sent = dict(zip(unknown, jax.linear_transpose(function, *unknown.values())(cotangents), strict=True))
    else:
        count = call.vectors
        back = replace(
            call,
            function=call.transposed,
            transposed=call.function,
            first=call.result,
            result=call.first,
            batches=tuple((*[0] * len(types), *axes[count:]) for axes in call.batches),
        )
        vectors = [unknown[n] if n in unknown else jax.typeof(arrays[n]) for n in range(count)]
        sent = dict(enumerate(_bind(back, [*cotangents, *arrays[count:]], vectors)))
    return [sent[number] if number in unknown else None for number in range(len(arrays))]


def _evaluate_with(call: PlatformCall, arrays: Sequence[Any], numbers: Iterable[int], *others: Any) -> Sequence[Any]:
    """The results with other arrays in place of those with these numbers."""
    return call.evaluate_everywhere(*(dict(enumerate(arrays)) | dict(zip(numbers, others, strict=True))).values())


def _batch(arrays: Sequence[Any], axes: Sequence[int | None], *, call: PlatformCall, types: Any) -> Any:
    count = call.vectors
    of_batch, along = next((array, axis) for array, axis in zip(arrays, axes, strict=True) if axis is not None)
    vectors = [
        _repeat_along(array, of_batch, along) if axis is None else jnp.moveaxis(array, axis, 0)
        for array, axis in zip(arrays[:count], axes[:count], strict=True)
    ]
    arrays = [*vectors, *arrays[count:]]
    batched = replace(call, batches=(*call.batches, (*[0] * count, *axes[count:])))
    like = [jax.ShapeDtypeStruct((of_batch.shape[along], *one.shape), one.dtype) for one in types]
    types = _types(partial(batched.evaluate, "gpu"), *arrays, like=like)
    return _bind(batched, arrays, types), [0] * len(types)


def _repeat_along(array: jax.Array, other: jax.Array, axis: int) -> jax.Array:
    """The array once for each entry along an axis of another one, on a new first axis that devices share like that."""
    sharding = jax.typeof(other).sharding
    entry = [*sharding.spec, *[None] * other.ndim][axis]
    repeated = jnp.broadcast_to(array, (other.shape[axis], *array.shape))
    if entry is None:
        return repeated
    with jax.sharding.use_abstract_mesh(sharding.mesh):
        return jax.sharding.reshard(repeated, PartitionSpec(entry, *jax.typeof(array).sharding.spec))


def _lower(platform: str, context: Any, *arrays: Any, call: PlatformCall, types: Any) -> Any:
    function = partial(call.evaluate, platform)
    with inside(platform, _device_count(context)):
        return mlir.lower_fun(function)(context, *arrays)


def _device_count(context: Any) -> int:
    """The number of devices of the program to which a call is lowered; 0 if unknown."""
    try:
        module = context.module_context
        # A program exported for one device may be called with arrays on several.
        return 0 if module.lowering_parameters.for_export else module.axis_context.num_devices or 0
    except AttributeError:
        return 0


def _registered(name: str, impl: Any, differentiate: Any, transpose: Any, batch: Any, lower: Any) -> Any:
    """A primitive, with all its rules; its results have the `types` among its parameters."""
    primitive = jax.extend.core.Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(impl)
    primitive.def_abstract_eval(lambda *_, types, **__: types)
    ad.primitive_jvps[primitive] = differentiate
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch
    for platform in PLATFORMS:
        # A lowering registered without a platform serves all others.
        mlir.register_lowering(primitive, partial(lower, platform), platform=None if platform == "gpu" else platform)
    return primitive


class ClosedMap(abc.ABC):
    """A map of arrays that comes with its tangent, its transpose and its batched form, which are such maps again.

    So derivatives of every order are maps of the same kind, and JAX differentiates none of their programs. A map is
    static in the traced program. `linear` are the numbers of the arrays in which it is linear, taken together.
    """

    linear: tuple[int, ...]

    @abc.abstractmethod
    def evaluate(self, platform: str, *arrays: jax.Array) -> Sequence[jax.Array]:
        """The results, in operations for a platform."""

    @abc.abstractmethod
    def tangent(self, active: tuple[int, ...]) -> "ClosedMap":
        """The tangent as a map of the arrays, and then of the tangents of the active ones, in which it is linear."""

    @abc.abstractmethod
    def transposed(self, number: int, given: tuple[int, ...], shape: Sequence[int]) -> "ClosedMap":
        """The cotangent, of this shape, of one of the arrays in which it is linear.

        It is a map of the arrays in which this one is not linear, and then of the cotangents of the results given.
        """

    @abc.abstractmethod
    def batched(self, size: int) -> "ClosedMap":
        """The map of arrays with a new first axis of this size, or of size 1 where they are the same for a batch."""


def apply_closed_map(closed: ClosedMap, *arrays: jax.Array, like: Sequence[Any]) -> Sequence[jax.Array]:
    """Apply a map, whose results are like these; without primitives and in portable programs JAX differentiates it."""
    if not available():
        if (known := known_platform()) is not None:
            return _inside(closed.evaluate, known, *arrays)
        cpu, gpu, tpu = (partial(_inside, closed.evaluate, platform) for platform in PLATFORMS)
        return lax.platform_dependent(*arrays, cpu=cpu, tpu=tpu, default=gpu)
    return _bind_closed(closed, arrays, _types_of(closed, arrays, like))


def _types_of(closed: ClosedMap, arrays: Sequence[Any], like: Sequence[Any]) -> Sequence[Any]:
    return _types(partial(_inside, closed.evaluate, known_platform() or "gpu"), *arrays, like=list(like))


def _bind_closed(closed: ClosedMap, arrays: Sequence[Any], types: Sequence[Any]) -> Sequence[Any]:
    return _CLOSED.bind(*arrays, closed=closed, known=known_platform(), types=tuple(types))


def _impl_closed(*arrays: Any, closed: ClosedMap, known: str | None, types: Any) -> Sequence[Any]:
    return _inside(closed.evaluate, known or _platform_of(arrays), *arrays)


def _differentiate_closed(primals: Any, tangents: Any, *, closed: ClosedMap, known: str | None, types: Any) -> Any:
    results = _bind_closed(closed, primals, types)
    active = tuple(number for number, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero))
    dots = [tangents[number] for number in active]
    return results, _bind_closed(closed.tangent(active), (*primals, *dots), types)


def _transpose_closed(bars: Sequence[Any], *arrays: Any, closed: ClosedMap, known: str | None, types: Any) -> Any:
    given = tuple(number for number, bar in enumerate(bars) if not isinstance(bar, ad.Zero))
    constants = [array for number, array in enumerate(arrays) if number not in closed.linear]
    sent: list[Any] = [None] * len(arrays)
    for number in closed.linear if given else ():
        if ad.is_undefined_primal(arrays[number]):
            type_of = arrays[number].aval
            back = closed.transposed(number, given, type_of.shape)
            (sent[number],) = _bind_closed(back, (*constants, *(bars[each] for each in given)), [type_of])
    return sent


def _batch_closed(
    arrays: Sequence[Any], axes: Sequence[int | None], *, closed: ClosedMap, known: str | None, types: Any
) -> Any:
    size = next(array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None)
    arrays = [
        lax.expand_dims(array, (0,)) if axis is None else jnp.moveaxis(array, axis, 0)
        for array, axis in zip(arrays, axes, strict=True)
    ]
    like = [jax.ShapeDtypeStruct((size, *each.shape), each.dtype) for each in types]
    batched = closed.batched(size)
    return _bind_closed(batched, arrays, _types_of(batched, arrays, like)), [0] * len(types)


def _lower_closed(platform: str, context: Any, *arrays: Any, closed: ClosedMap, known: str | None, types: Any) -> Any:
    with inside(known or platform, _device_count(context)):
        return mlir.lower_fun(partial(closed.evaluate, known or platform))(context, *arrays)


try:
    import jax.extend.core
    from jax.interpreters import ad, batching, mlir

    # Those that are used later than here.
    _USED = ad.Zero, ad.instantiate_zeros, ad.is_undefined_primal, mlir.lower_fun
    _PRIMITIVE = _registered("platform_call", _impl, _differentiate, _transpose, _batch, _lower)
    _CLOSED = _registered(
        "closed_map", _impl_closed, _differentiate_closed, _transpose_closed, _batch_closed, _lower_closed
    )
    AVAILABLE = True
except Exception:  # whatever a version of JAX raises
    ad = batching = mlir = _PRIMITIVE = _CLOSED = cast(Any, None)
    AVAILABLE = False
