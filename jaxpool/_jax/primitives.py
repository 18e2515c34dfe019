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

from jaxpool._jax import platforms
from jaxpool._jax.platforms import PLATFORMS, inside, known_platform


def available() -> bool:
    """Whether calls can be added to the program being traced; never to portable ones, which have plain operations."""
    return AVAILABLE and not platforms.is_portable()


def by_platform(*trees: Any, like: Any = None, **lowerings: Callable[..., Any]) -> Any:
    """Apply the lowering named after the platform, or that for GPUs, to trees of arrays: a plain call in a lowering."""

    def apply(platform: str, *trees: Any) -> Any:
        return lowerings.get(platform, lowerings["gpu"])(*trees)

    known = platforms.lowering_platform()
    return call(apply, *trees, like=like) if known is None else apply(known, *trees)


def call(
    function: Callable[..., Any], *trees: Any, like: Any = None, transposed: Callable[..., Any] | None = None
) -> Any:
    """Add a call of `function(platform, *trees)` to the traced program; it closes over no traced array.

    Its results are like `like`, a tree of arrays or of `jax.ShapeDtypeStruct`; without it they are traced once more. If
    the function is linear in its first tree, `transposed` is its transpose, of cotangents in place of this tree; the
    other trees are then constants.
    """
    types = _types(partial(_inside, function, known_platform() or "gpu"), *trees, like=like)
    arrays, structure = jax.tree.flatten(trees)
    static = PlatformCall(_OfTrees(function, structure))
    if transposed is not None:
        given = jax.tree.structure((types, *trees[1:]))
        static = replace(static, transposed=_OfTrees(transposed, given), vectors=len(jax.tree.leaves(trees[0])))
    return jax.tree.unflatten(jax.tree.structure(types), _bind(static, arrays, jax.tree.leaves(types)))


@dataclass(frozen=True)
class _OfTrees:
    """A function of the platform and of trees, as one of flat arrays; equal for equal functions."""

    function: Callable[..., Any]
    trees: Any

    def __call__(self, platform: str, *arrays: Any) -> Sequence[Any]:
        return jax.tree.leaves(self.function(platform, *jax.tree.unflatten(self.trees, arrays)))


class ClosedMap(abc.ABC):
    """A map of arrays, static in the traced program, whose tangent and transpose are such maps again.

    So derivatives of every order are maps of the same kind, and JAX differentiates none of their programs.
    """

    @abc.abstractmethod
    def __call__(self, platform: str, *arrays: jax.Array) -> Sequence[jax.Array]:
        """The results, in operations for a platform."""

    @abc.abstractmethod
    def tangent(self, active: tuple[int, ...]) -> "ClosedMap":
        """The tangent as a map of the arrays, and then of the tangents of the active ones, in which it is linear."""

    @abc.abstractmethod
    def transposed(self, number: int, linear: tuple[int, ...], given: tuple[int, ...], shape: Any) -> "ClosedMap":
        """The cotangent, of this shape, of a `linear` array: of the other arrays, then of given results' cotangents."""


def apply_closed_map(closed: ClosedMap, *arrays: jax.Array, like: Sequence[Any]) -> Sequence[jax.Array]:
    """Apply a map, whose results are like these; without primitives and in portable programs JAX differentiates it."""
    static = PlatformCall(closed)
    return _bind(static, arrays, _types(partial(static.evaluate, "gpu"), *arrays, like=list(like)))


@dataclass(frozen=True)
class PlatformCall:
    """The static part of a call, which enters the traced program with flat arrays.

    Attributes:
        function: Of the platform and of flat arrays. JAX derives it, unless it is a `ClosedMap` or has a transpose.
        transposed: The transpose, if the function is linear in its first arrays, which are so many `vectors`.
        known: The only platform that the program is for, if one is named.
        batches: For every batch in turn, which arrays and which results have a first axis for it, 0 or None, and its
            size. Results without are summed: cotangents of arrays that are the same for the batch.
    """

    function: Callable[..., Sequence[Any]]
    transposed: Callable[..., Sequence[Any]] | None = None
    vectors: int = 0
    known: str | None = field(default_factory=known_platform)
    batches: tuple[tuple[tuple[int | None, ...], tuple[int | None, ...], Any], ...] = ()

    def evaluate(self, platform: str, *arrays: Any) -> Sequence[Any]:
        """The results, in operations for a platform."""
        function = partial(_inside, self.function, self.known or platform)
        for batch in self.batches:
            function = partial(_over_batch, function, *batch)
        return function(*arrays)

    def evaluate_everywhere(self, *arrays: Any) -> Sequence[Any]:
        """The same as branches that JAX differentiates; a program compiled for a platform keeps only its own branch."""
        if self.known is not None:
            return self.evaluate(self.known, *arrays)
        cpu, gpu, tpu = (partial(self.evaluate, platform) for platform in PLATFORMS)
        return lax.platform_dependent(*arrays, cpu=cpu, tpu=tpu, default=gpu)


def _over_batch(function: Callable[..., Any], axes: Any, of_results: Any, size: Any, *arrays: Any) -> Sequence[Any]:
    results = jax.vmap(function, axes, axis_size=size)(*arrays)
    return [each.sum(0) if axis is None else each for each, axis in zip(results, of_results, strict=True)]


def _bind(call: PlatformCall, arrays: Sequence[Any], types: Sequence[Any]) -> Sequence[Any]:
    return _PRIMITIVE.bind(*arrays, call=call, types=tuple(types)) if available() else call.evaluate_everywhere(*arrays)


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
    """Evaluate a call outside any traced program, as `jax.disable_jit` does, where its arrays are."""
    found = {device.platform for array in arrays if isinstance(array, jax.Array) for device in array.devices()}
    return call.evaluate(next((one for one in PLATFORMS if one in found), platforms.default_platform()), *arrays)


def _differentiate(primals: Any, tangents: Any, *, call: PlatformCall, types: Any) -> Any:
    active = tuple(number for number, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero))
    dots = [tangents[number] for number in active]
    if isinstance(call.function, ClosedMap):
        batches = tuple(((*axes, *(axes[n] for n in active)), *others) for axes, *others in call.batches)
        tangent = replace(call, function=call.function.tangent(active), batches=batches)
        return _bind(call, primals, types), _bind(tangent, (*primals, *dots), types)
    if call.transposed is None:
        return jax.jvp(partial(_evaluate_with, call, primals, active), [primals[n] for n in active], dots)
    vectors = map(ad.instantiate_zeros, tangents[: call.vectors])
    return _bind(call, primals, types), _bind(call, [*vectors, *primals[call.vectors :]], types)


def _transpose(bars: Sequence[Any], *arrays: Any, call: PlatformCall, types: Any) -> Sequence[Any]:
    unknown = {number: array.aval for number, array in enumerate(arrays) if ad.is_undefined_primal(array)}
    given = tuple(number for number, bar in enumerate(bars) if not isinstance(bar, ad.Zero))
    sent: dict[int, Any] = {}
    if given and isinstance(call.function, ClosedMap):
        known = [number for number in range(len(arrays)) if number not in unknown]
        operands = [*(arrays[n] for n in known), *(bars[n] for n in given)]
        for number, kind in unknown.items():
            shape = kind.shape[sum(axes[number] == 0 for axes, *_ in call.batches) :]
            back = replace(
                call,
                function=call.function.transposed(number, tuple(unknown), given, shape),
                batches=tuple(
                    ((*(axes[n] for n in known), *(of_results[n] for n in given)), (axes[number],), size)
                    for axes, of_results, size in call.batches
                ),
            )
            (sent[number],) = _bind(back, operands, [kind])
    elif given:
        bars, count = list(map(ad.instantiate_zeros, bars)), call.vectors
        if call.transposed is None:
            function = partial(_evaluate_with, call, arrays, unknown)
            sent = dict(zip(unknown, jax.linear_transpose(function, *unknown.values())(bars), strict=True))
        else:
            batches = tuple(((*bars, *axes[count:]), axes[:count], size) for axes, bars, size in call.batches)
            back = replace(
                call, function=call.transposed, transposed=call.function, vectors=len(types), batches=batches
            )
            kinds = [unknown[n] if n in unknown else jax.typeof(arrays[n]) for n in range(count)]
            sent = dict(enumerate(_bind(back, [*bars, *arrays[count:]], kinds)))
    return [sent.get(number) if number in unknown else None for number in range(len(arrays))]


def _evaluate_with(call: PlatformCall, arrays: Sequence[Any], numbers: Iterable[int], *others: Any) -> Sequence[Any]:
    """The results with other arrays in place of those with these numbers."""
    return call.evaluate_everywhere(*(dict(enumerate(arrays)) | dict(zip(numbers, others, strict=True))).values())


def _batch(arrays: Sequence[Any], axes: Sequence[int | None], *, call: PlatformCall, types: Any) -> Any:
    pairs = [*zip(arrays, axes, strict=True)]
    size = next(array.shape[axis] for array, axis in pairs if axis is not None)
    arrays = [array if axis is None else jnp.moveaxis(array, axis, 0) for array, axis in pairs]
    moved, results = tuple(None if axis is None else 0 for axis in axes), (0,) * len(types)
    batched = replace(call, batches=(*call.batches, (moved, results, size)))
    like = [jax.ShapeDtypeStruct((size, *each.shape), each.dtype) for each in types]
    return _bind(batched, arrays, _types(partial(batched.evaluate, "gpu"), *arrays, like=like)), results


def _lower(platform: str, context: Any, *arrays: Any, call: PlatformCall, types: Any) -> Any:
    with inside(platform, _device_count(context)):
        return mlir.lower_fun(partial(call.evaluate, platform))(context, *arrays)


def _device_count(context: Any) -> int:
    """The number of devices of the program to which a call is lowered; 0 if unknown."""
    try:
        module = context.module_context
        # A program exported for one device may be called with arrays on several.
        return 0 if module.lowering_parameters.for_export else module.axis_context.num_devices or 0
    except AttributeError:
        return 0


def _registered() -> Any:
    """The primitive, with all its rules."""
    primitive = jax.extend.core.Primitive("platform_call")
    primitive.multiple_results = True
    primitive.def_impl(_impl)
    primitive.def_abstract_eval(lambda *_, types, **__: types)
    ad.primitive_jvps[primitive] = _differentiate
    ad.primitive_transposes[primitive] = _transpose
    batching.primitive_batchers[primitive] = _batch
    for platform in PLATFORMS:
        # A lowering registered without a platform serves all others.
        mlir.register_lowering(primitive, partial(_lower, platform), platform=None if platform == "gpu" else platform)
    return primitive


try:
    import jax.extend.core
    from jax.interpreters import ad, batching, mlir

    # Those that are used later than here.
    _USED = ad.Zero, ad.instantiate_zeros, ad.is_undefined_primal, mlir.lower_fun
    _PRIMITIVE = _registered()
    AVAILABLE = True
except Exception:  # whatever a version of JAX raises
    ad = batching = mlir = _PRIMITIVE = cast(Any, None)
    AVAILABLE = False
