"""Linear maps whose transposes are written out.

The derivatives of a pool are linear in the tangent or the cotangent. JAX can transpose one into the other, but makes
scatters of what gathers read, and takes branches apart on the way. Here both directions are written out, as the two
methods of a `LinearMap`, and a primitive evaluates one and transposes into the other: forward mode gets a tangent map
as good as the cotangent map, reverse mode keeps the residuals of the map and nothing else, and a linear pool is linear
to JAX. Both are traced while the program is lowered, for one platform alone.
"""

import abc
import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxpool._engine.platforms import inside, known_platform, lowered_for


@dataclasses.dataclass(frozen=True)
class LinearMap(abc.ABC):
    """A map that is linear in its first argument, and its transpose, each written out.

    Both get the same residuals after the vector, which are constants to all derivatives: winners' offsets, say.
    """

    @abc.abstractmethod
    def forward(self, *arrays: Any, **_: Any) -> jax.Array:
        """The map of the vector, which is followed by the residuals."""

    @abc.abstractmethod
    def transpose(self, *arrays: Any, **_: Any) -> jax.Array:
        """The cotangent of the vector from that of the result, which is followed by the residuals."""

    def behind_one_axis(self) -> "LinearMap":
        """The same map of arrays that have one more axis in front."""
        behind = {field.name: _behind_one_axis(getattr(self, field.name)) for field in dataclasses.fields(self)}
        return dataclasses.replace(self, **behind)


def _behind_one_axis(static: Any) -> Any:
    if isinstance(static, tuple):
        return tuple(map(_behind_one_axis, static))
    return static.behind_one_axis() if hasattr(static, "behind_one_axis") else static


def apply_linear_map(
    linear_map: LinearMap, vector: jax.Array, *residuals: Any, like: jax.Array | None = None
) -> jax.Array:
    """The map of a vector, which JAX transposes into the map's own transpose; its result has the type of `like`.

    Batches stay one array, so that what a map decides by a look at the values is decided for all of them, instead of
    evaluating both sides. The map is traced while the program is lowered, for one platform alone.
    """
    arrays, structure = jax.tree.flatten(residuals)
    static = {"linear_map": linear_map, "structure": structure, "transposed": False, "platform": known_platform()}
    result = _type_of_result((vector, *arrays), static) if like is None else jax.typeof(like)
    return _linear_map.bind(vector, *arrays, result=result, **static)


def _type_of_result(arrays: Sequence[jax.Array], static: dict[str, Any]) -> Any:
    with inside(static["platform"] or "gpu"):
        return jax.make_jaxpr(partial(evaluate, **static))(*arrays).out_avals[0]


def evaluate(
    vector: jax.Array, *arrays: jax.Array, linear_map: LinearMap, structure: Any, transposed: bool, **_: Any
) -> jax.Array:
    """The map, or its transpose, of a vector, as the primitive's parameters say."""
    residuals = jax.tree.unflatten(structure, arrays)
    return (linear_map.transpose if transposed else linear_map.forward)(vector, *residuals)


def _lower_linear_map(default: str, context: mlir.LoweringRuleContext, *arrays: Any, **static: Any) -> Any:
    with lowered_for(static["platform"] or default, context):
        return mlir.lower_fun(evaluate, multiple_results=False)(context, *arrays, **static)


def _differentiate_linear_map(primals: Sequence[Any], tangents: Sequence[Any], **static: Any) -> tuple[Any, Any]:
    result = _linear_map.bind(*primals, **static)
    if isinstance(tangents[0], ad.Zero):
        return result, ad.Zero(jax.typeof(result))
    return result, _linear_map.bind(tangents[0], *primals[1:], **static)


def _transpose_linear_map(cotangent: Any, vector: Any, *arrays: Any, transposed: bool, **static: Any) -> list[Any]:
    back = ad.Zero(vector.aval)
    if not isinstance(cotangent, ad.Zero):
        static["result"] = vector.aval
        back = _linear_map.bind(cotangent, *arrays, transposed=not transposed, **static)
    return [back, *(None for _ in arrays)]


def _batch_linear_map(
    arrays: Sequence[jax.Array], axes: Sequence[int | None], *, linear_map: LinearMap, **static: Any
) -> tuple[jax.Array, int]:
    size = next(array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None)
    batched = [
        jnp.broadcast_to(array, (size, *array.shape)) if axis is None else jnp.moveaxis(array, axis, 0)
        for array, axis in zip(arrays, axes, strict=True)
    ]
    static["linear_map"] = linear_map.behind_one_axis()
    static["result"] = _type_of_result(batched, static)
    return _linear_map.bind(*batched, **static), 0


_linear_map = Primitive("linear_map")
_linear_map.def_impl(
    jax.jit(_linear_map.bind, static_argnames=("linear_map", "structure", "transposed", "platform", "result"))
)
_linear_map.def_abstract_eval(lambda *_, result, **__: result)
ad.primitive_jvps[_linear_map] = _differentiate_linear_map
ad.primitive_transposes[_linear_map] = _transpose_linear_map
batching.primitive_batchers[_linear_map] = _batch_linear_map
mlir.register_lowering(_linear_map, partial(_lower_linear_map, "gpu"))
for _name in ("cpu", "tpu"):
    mlir.register_lowering(_linear_map, partial(_lower_linear_map, _name), platform=_name)
