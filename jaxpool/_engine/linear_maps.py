"""Linear maps with explicit transposes.

The derivatives of a pool are linear in the tangent or the cotangent. JAX can transpose one into the other, but turns
gathers into scatters and evaluates both sides of branches. Here both directions are explicit, as the two methods of a
`LinearMap`; a primitive evaluates one and transposes into the other. So forward mode gets a tangent map as good as the
cotangent map, reverse mode keeps only the residuals of the map, and a linear pool is linear to JAX. Both are traced
while the program is lowered, for one platform only. Some maps also have derivatives with respect to the residuals;
JAX derives these.
"""

import abc
import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._engine import primitives
from jaxpool._engine.platforms import inside, is_portable, known_platform


@dataclasses.dataclass(frozen=True)
class LinearMap(abc.ABC):
    """A map that is linear in its first argument, with an explicit transpose.

    The argument and the result are an array or a tuple of arrays. Both directions get the same residuals after it.
    Derivatives treat residuals (such as winners' offsets) as constants, unless the map declares that they vary.
    """

    residuals_vary: ClassVar[bool] = False

    @abc.abstractmethod
    def forward(self, *arrays: Any, **_: Any) -> Any:
        """Apply the map to the vector; the arguments are the vector, then the residuals."""

    @abc.abstractmethod
    def transpose(self, *arrays: Any, **_: Any) -> Any:
        """Map the cotangent of the result, followed by the residuals, to that of the vector."""


def apply_linear_map(linear_map: LinearMap, vector: Any, *residuals: Any, like: Any = None) -> Any:
    """Apply a map to a vector, so that JAX transposes it into the map's own transpose; the result has `like`'s type.

    Arrays that are the same for a whole batch stay single. A branch on values asks for one answer for the batch (see
    `operations.any_in_batch`): otherwise both of its sides would be evaluated.
    The map is traced while the program is lowered, for one platform only. Without primitives, and in portable
    programs, JAX transposes `forward`.
    """
    if is_portable() or not primitives.AVAILABLE:
        constants = residuals if linear_map.residuals_vary else jax.tree.map(lax.stop_gradient, residuals)
        return linear_map.forward(vector, *constants)
    vectors, given = jax.tree.flatten(vector)
    arrays, structure = jax.tree.flatten(residuals)
    result = jax.tree.structure(vector if like is None else like)
    direction = _Direction(linear_map, given, structure, result, False, known_platform())
    likes = jax.tree.leaves(like)
    types = map(jax.typeof, likes) if likes else direction.types(*vectors, *arrays)
    return jax.tree.unflatten(result, direction.bind(*vectors, *arrays, types=tuple(types)))


@dataclasses.dataclass(frozen=True)
class _Direction(primitives.CustomPrimitive, name="linear_map"):
    """A map or its transpose, with the structures of its arguments, for one platform or for all.

    Attributes:
        batches: The axes along which the residuals are batched, in turn; vectors are batched along their first axis.
    """

    linear_map: LinearMap
    vector: Any
    residuals: Any
    result: Any
    transposed: bool
    known: str | None
    batches: tuple[tuple[int | None, ...], ...] = ()

    def evaluate(self, platform: str, *arrays: jax.Array) -> list[jax.Array]:
        with inside(self.known or platform):
            return self.results(*arrays)

    def results(self, *arrays: jax.Array) -> list[jax.Array]:
        """The flat result for a flat vector and flat residuals."""
        function = self._apply
        for axes in self.batches:
            function = jax.vmap(function, (*[0] * self.vector.num_leaves, *axes))
        return function(*arrays)

    def _apply(self, *arrays: jax.Array) -> list[jax.Array]:
        vector = jax.tree.unflatten(self.vector, arrays[: self.vector.num_leaves])
        residuals = jax.tree.unflatten(self.residuals, arrays[self.vector.num_leaves :])
        direction = self.linear_map.transpose if self.transposed else self.linear_map.forward
        return jax.tree.leaves(direction(vector, *residuals))

    def types(self, *arrays: jax.Array) -> Sequence[Any]:
        """The types of the result."""
        return jax.make_jaxpr(partial(self.evaluate, "gpu"))(*arrays).out_avals

    def differentiate(self, primals: Sequence[Any], tangents: Sequence[Any], types: tuple[Any, ...]) -> Any:
        count = self.vector.num_leaves
        results: Sequence[Any] = self.bind(*primals, types=types)
        dots: Sequence[Any] = list(map(primitives.zero_like, results))
        if not all(map(primitives.is_zero, tangents[:count])):
            dots = self.bind(*primitives.without_symbols(tangents[:count]), *primals[count:], types=types)
        varying = [n for n in range(count, len(primals)) if not primitives.is_zero(tangents[n])]
        if self.linear_map.residuals_vary and varying:

            def of_residuals(*residuals: Any) -> list[jax.Array]:
                arrays = dict(enumerate(primals)) | dict(zip(varying, residuals, strict=True))
                return self.results(*arrays.values())

            _, others = jax.jvp(of_residuals, [primals[n] for n in varying], [tangents[n] for n in varying])
            dots = list(map(primitives.sum_of_tangents, dots, others))
        return results, dots

    def transpose(self, cotangents: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        count = self.vector.num_leaves
        types = tuple(map(primitives.type_of, arrays[:count]))
        back: Sequence[Any] = list(map(primitives.zero_like, types))
        if not all(map(primitives.is_zero, cotangents)):
            other = dataclasses.replace(self, vector=self.result, result=self.vector, transposed=not self.transposed)
            back = other.bind(*primitives.without_symbols(cotangents), *arrays[count:], types=types)
        sent = [one if primitives.is_unknown(array) else None for one, array in zip(back, arrays, strict=False)]
        return sent + [None] * (len(arrays) - count)

    def batch(self, arrays: Sequence[jax.Array], axes: Sequence[int | None]) -> tuple[list[Any], list[int]]:
        count = self.vector.num_leaves
        size = next(array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None)
        vectors = [
            jnp.broadcast_to(array, (size, *array.shape)) if axis is None else jnp.moveaxis(array, axis, 0)
            for array, axis in zip(arrays[:count], axes[:count], strict=True)
        ]
        batched = dataclasses.replace(self, batches=(*self.batches, tuple(axes[count:])))
        results = batched.bind(*vectors, *arrays[count:], types=batched.types(*vectors, *arrays[count:]))
        return results, [0] * len(results)
