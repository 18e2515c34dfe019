"""What enters a traced program: maps that each platform evaluates in its own way, and linear maps with transposes.

A map of the engine, such as a reduction or the routing of cotangents to winners, has a lowering for the CPU and one for
GPUs, and may have one for TPUs. `by_platform` puts one operation for all of them into the traced program, which can
then be exported to every platform; JAX traces the lowering of a platform when it lowers the program for it. Inside a
lowering the platform is known to everything that asks for it, so choices never nest. Under differentiation the
operation becomes branches, one per platform.

The derivatives of a pool are linear in the tangent or the cotangent. JAX can transpose one into the other, but turns
gathers into scatters and evaluates both sides of branches. In a `LinearMap` both directions are explicit; a primitive
evaluates one and transposes into the other. So forward mode gets a tangent map as good as the cotangent map, reverse
mode keeps only the residuals of the map, and a linear pool is linear to JAX. Some maps also have derivatives with
respect to the residuals; JAX derives these.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
from jax import lax

from jaxpool._engine import primitives
from jaxpool._engine.platforms import PORTABLE, is_inside_lowering, known_platform


def by_platform(
    *arrays: Any,
    cpu: Callable[..., Any],
    gpu: Callable[..., Any],
    tpu: Callable[..., Any] | None = None,
    portable: Callable[..., Any] | None = None,
    like: Any = None,
) -> Any:
    """Apply the platform's lowering to the arrays, any of which may be None; the default is the lowering for GPUs.

    Results are like `like`, a tree of arrays or of `jax.ShapeDtypeStruct`. Without it a lowering is traced once more
    to find their types.
    """
    lowerings = {"cpu": cpu, "gpu": gpu, "tpu": tpu or gpu, PORTABLE: portable or gpu}
    known = known_platform()
    if known is not None and is_inside_lowering():
        return lowerings[known](*arrays)

    def evaluate(platform: str, *arrays: Any) -> Any:
        return lowerings[platform](*arrays)

    return primitives.call(evaluate, *arrays, like=like)


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
