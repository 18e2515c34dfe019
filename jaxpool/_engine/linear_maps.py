"""Linear maps whose transposes are written out.

The derivatives of a pool are linear in the tangent or the cotangent. JAX can transpose one into the other, but makes
scatters of what gathers read, and takes branches apart on the way. Here both directions are written out, as the two
methods of a `LinearMap`, and a primitive evaluates one and transposes into the other: forward mode gets a tangent map
as good as the cotangent map, reverse mode keeps the residuals of the map and nothing else, and a linear pool is linear
to JAX. Both are traced while the program is lowered, for one platform alone. Derivatives with respect to the residuals,
which some maps have, are JAX's own.
"""

import abc
import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxpool._engine.platforms import inside, known_platform, lowered_for


@dataclasses.dataclass(frozen=True)
class LinearMap(abc.ABC):
    """A map that is linear in its first argument, and its transpose, each written out.

    The argument and the result are an array or a tuple of them. Both directions get the same residuals after it, which
    are constants to all derivatives (winners' offsets, say) unless a map says that they vary.
    """

    residuals_vary: ClassVar[bool] = False

    @abc.abstractmethod
    def forward(self, *arrays: Any, **_: Any) -> Any:
        """The map of the vector, which is followed by the residuals."""

    @abc.abstractmethod
    def transpose(self, *arrays: Any, **_: Any) -> Any:
        """The cotangent of the vector from that of the result, which is followed by the residuals."""

    def behind_one_axis(self) -> "LinearMap":
        """The same map of arrays that have one more axis in front."""
        behind = {field.name: _behind_one_axis(getattr(self, field.name)) for field in dataclasses.fields(self)}
        return dataclasses.replace(self, **behind)


def _behind_one_axis(static: Any) -> Any:
    if isinstance(static, tuple):
        return tuple(map(_behind_one_axis, static))
    return static.behind_one_axis() if hasattr(static, "behind_one_axis") else static


@dataclasses.dataclass(frozen=True)
class _Direction:
    """A map or its transpose, with the structures of what is given to it, for a platform or for any."""

    linear_map: LinearMap
    vector: Any
    residuals: Any
    result: Any
    transposed: bool
    platform: str | None

    def evaluate(self, *arrays: jax.Array) -> list[jax.Array]:
        """The result, flat, of the flat vector and residuals."""
        count = self.vector.num_leaves
        vector = jax.tree.unflatten(self.vector, arrays[:count])
        residuals = jax.tree.unflatten(self.residuals, arrays[count:])
        direction = self.linear_map.transpose if self.transposed else self.linear_map.forward
        return jax.tree.leaves(direction(vector, *residuals))

    def types(self, *arrays: jax.Array) -> tuple[Any, ...]:
        """Those of the result."""
        with inside(self.platform or "gpu"):
            return tuple(jax.make_jaxpr(self.evaluate)(*arrays).out_avals)

    def turned(self) -> "_Direction":
        """The transpose of this."""
        return dataclasses.replace(self, vector=self.result, result=self.vector, transposed=not self.transposed)


def apply_linear_map(linear_map: LinearMap, vector: Any, *residuals: Any, like: Any = None) -> Any:
    """The map of a vector, which JAX transposes into the map's own transpose; its result has the type of `like`.

    Batches stay one array, so that what a map decides by a look at the values is decided for all of them, instead of
    evaluating both sides. The map is traced while the program is lowered, for one platform alone.
    """
    vectors, given = jax.tree.flatten(vector)
    arrays, structure = jax.tree.flatten(residuals)
    result = jax.tree.structure(vector if like is None else like)
    direction = _Direction(linear_map, given, structure, result, False, known_platform())
    likes = jax.tree.leaves(like)
    types = tuple(map(jax.typeof, likes)) if likes else direction.types(*vectors, *arrays)
    return jax.tree.unflatten(result, _linear_map.bind(*vectors, *arrays, direction=direction, types=types))


def _lower_linear_map(
    default: str, context: mlir.LoweringRuleContext, *arrays: Any, direction: _Direction, **_: Any
) -> Any:
    with lowered_for(direction.platform or default, context):
        return mlir.lower_fun(direction.evaluate, multiple_results=True)(context, *arrays)


def _differentiate_linear_map(
    primals: Sequence[Any], tangents: Sequence[Any], *, direction: _Direction, **static: Any
) -> tuple[Any, Any]:
    bind = partial(_linear_map.bind, direction=direction, **static)
    results, count = bind(*primals), direction.vector.num_leaves
    dots = [ad.Zero(jax.typeof(result)) for result in results]
    if not all(isinstance(tangent, ad.Zero) for tangent in tangents[:count]):
        dots = bind(*map(ad.instantiate_zeros, tangents[:count]), *primals[count:])
    if direction.linear_map.residuals_vary:
        varying = [n for n in range(count, len(primals)) if not isinstance(tangents[n], ad.Zero)]

        def of_residuals(*residuals: Any) -> list[jax.Array]:
            arrays = dict(enumerate(primals)) | dict(zip(varying, residuals, strict=True))
            return direction.evaluate(*arrays.values())

        if varying:
            _, others = jax.jvp(of_residuals, [primals[n] for n in varying], [tangents[n] for n in varying])
            dots = list(map(ad.add_tangents, dots, others))
    return results, dots


def _transpose_linear_map(cotangents: Sequence[Any], *arrays: Any, direction: _Direction, **_: Any) -> list[Any]:
    count = direction.vector.num_leaves
    types = tuple(array.aval if ad.is_undefined_primal(array) else jax.typeof(array) for array in arrays[:count])
    back: Sequence[Any] = list(map(ad.Zero, types))
    if not all(isinstance(cotangent, ad.Zero) for cotangent in cotangents):
        given = map(ad.instantiate_zeros, cotangents)
        back = _linear_map.bind(*given, *arrays[count:], direction=direction.turned(), types=types)
    is_linear = map(ad.is_undefined_primal, arrays[:count])
    return [one if linear else None for one, linear in zip(back, is_linear, strict=True)] + [None] * len(arrays[count:])


def _batch_linear_map(
    arrays: Sequence[jax.Array], axes: Sequence[int | None], *, direction: _Direction, **_: Any
) -> tuple[Any, Any]:
    size = next(array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None)
    batched = [
        jnp.broadcast_to(array, (size, *array.shape)) if axis is None else jnp.moveaxis(array, axis, 0)
        for array, axis in zip(arrays, axes, strict=True)
    ]
    direction = dataclasses.replace(direction, linear_map=direction.linear_map.behind_one_axis())
    results = _linear_map.bind(*batched, direction=direction, types=direction.types(*batched))
    return results, [0] * len(results)


_linear_map = Primitive("linear_map")
_linear_map.multiple_results = True
_linear_map.def_impl(jax.jit(_linear_map.bind, static_argnames=("direction", "types")))
_linear_map.def_abstract_eval(lambda *_, types, **__: types)
ad.primitive_jvps[_linear_map] = _differentiate_linear_map
ad.primitive_transposes[_linear_map] = _transpose_linear_map
batching.primitive_batchers[_linear_map] = _batch_linear_map
mlir.register_lowering(_linear_map, partial(_lower_linear_map, "gpu"))
for _name in ("cpu", "tpu"):
    mlir.register_lowering(_linear_map, partial(_lower_linear_map, _name), platform=_name)
