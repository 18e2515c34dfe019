"""Linear maps with explicit transposes.

The derivatives of a pool are linear in the tangent or the cotangent. JAX can transpose one into the other, but turns
gathers into scatters and evaluates both sides of branches. Here both directions are explicit, as the two methods of a
`LinearMap`; a primitive evaluates one and transposes into the other. So forward mode gets a tangent map as good as the
cotangent map, reverse mode keeps only the residuals of the map, and a linear pool is linear to JAX. Both are traced
while the program is lowered, for one platform only. Some maps also have derivatives with respect to the residuals;
JAX derives these.
"""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
from jax import lax

from jaxpool._engine import primitives


@dataclass(frozen=True)
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
    `stages.any_in_batch`): otherwise both of its sides would be evaluated.
    The map is traced while the program is lowered, for one platform only. Without primitives, and in portable
    programs, JAX transposes `forward`.
    """
    if not primitives.available():
        constants = residuals if linear_map.residuals_vary else jax.tree.map(lax.stop_gradient, residuals)
        return linear_map.forward(vector, *constants)
    return primitives.call(
        _Direction(linear_map, False),
        vector,
        *residuals,
        like=like,
        transposed=_Direction(linear_map, True),
        others_vary=linear_map.residuals_vary,
    )


@dataclass(frozen=True)
class _Direction:
    """A map or its transpose, on every platform; equal for equal maps, which JAX then lowers once."""

    linear_map: LinearMap
    transposed: bool

    def __call__(self, platform: str, *arrays: Any) -> Any:
        return (self.linear_map.transpose if self.transposed else self.linear_map.forward)(*arrays)
