"""Which lowering of a map runs on which platform.

A map of the engine, such as a reduction or the routing of cotangents to winners, has a lowering for the CPU and one for
GPUs, and may have one for TPUs. `by_platform` puts one operation for all of them into the traced program, which can
then be exported to every platform; JAX traces the lowering of a platform when it lowers the program for it. Inside a
lowering the platform is known to everything that asks for it, so choices never nest. Under differentiation the
operation becomes branches, one per platform.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
from jax import lax
from jax.core import Tracer

from jaxpool._engine import primitives
from jaxpool._engine.platforms import PLATFORMS, PORTABLE, inside, is_inside_lowering, known_platform


def by_platform(
    *arrays: Any,
    cpu: Callable[..., Any],
    gpu: Callable[..., Any],
    tpu: Callable[..., Any] | None = None,
    portable: Callable[..., Any] | None = None,
) -> Any:
    """Apply the platform's lowering to the arrays, any of which may be None; the default is the lowering for GPUs."""
    lowerings = {"cpu": cpu, "gpu": gpu, "tpu": tpu or gpu, PORTABLE: portable or gpu}
    known = known_platform()
    if known is not None and is_inside_lowering():
        return lowerings[known](*arrays)
    leaves, structure = jax.tree.flatten(arrays)
    choice = _Choice(lowerings, structure, known)
    with inside(known or "gpu"):
        traced, results = jax.make_jaxpr(lowerings[known or "gpu"], return_shape=True)(*arrays)
    if primitives.AVAILABLE and not any(isinstance(constant, Tracer) for constant in traced.consts):
        values = choice.bind(*leaves, types=traced.out_avals)
    else:
        # Arrays that a lowering closes over no longer exist when it is traced again.
        values = choice.everywhere(*leaves)
    return jax.tree.unflatten(jax.tree.structure(results), values)


@dataclasses.dataclass(frozen=True, eq=False)
class _Choice(primitives.CustomPrimitive, name="choice_of_lowering"):
    """The lowerings of a map by platform, for arrays in this structure, batched along these axes in turn."""

    by_platform: dict[str, Callable[..., Any]]
    structure: Any
    known: str | None
    batches: tuple[tuple[int | None, ...], ...] = ()

    def evaluate(self, platform: str, *arrays: Any) -> list[Any]:
        """The flat results of the platform's lowering."""
        platform = self.known or platform

        def lowering(*arrays: Any) -> list[Any]:
            with inside(platform):
                return jax.tree.leaves(self.by_platform[platform](*jax.tree.unflatten(self.structure, arrays)))

        for axes in self.batches:
            lowering = jax.vmap(lowering, axes)
        return lowering(*arrays)

    def everywhere(self, *arrays: Any) -> list[Any]:
        """The same as branches that JAX differentiates; a program compiled for a platform keeps only its own branch."""
        if self.known is not None:
            return self.evaluate(self.known, *arrays)
        branches = {platform: partial(self.evaluate, platform) for platform in PLATFORMS}
        return lax.platform_dependent(*arrays, cpu=branches["cpu"], tpu=branches["tpu"], default=branches["gpu"])

    def differentiate(self, primals: Sequence[Any], tangents: Sequence[Any], types: tuple[Any, ...]) -> Any:
        return jax.jvp(self.everywhere, tuple(primals), tuple(primitives.without_symbols(tangents)))

    def batch(self, arrays: Sequence[Any], axes: Sequence[int | None]) -> tuple[list[Any], list[int]]:
        batched = dataclasses.replace(self, batches=(*self.batches, tuple(axes)))
        types = jax.make_jaxpr(partial(batched.evaluate, self.known or "gpu"))(*arrays).out_avals
        return batched.bind(*arrays, types=types), [0] * len(types)

    def transpose(self, cotangents: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        unknown = [primitives.is_unknown(array) for array in arrays]
        vectors = [primitives.type_of(array) for array, is_unknown in zip(arrays, unknown, strict=True) if is_unknown]
        constants = [array for array, is_unknown in zip(arrays, unknown, strict=True) if not is_unknown]

        def transposed(platform: str, cotangents: list[Any], constants: list[Any]) -> list[Any]:
            def of_vectors(*vectors: Any) -> list[Any]:
                given = {True: iter(vectors), False: iter(constants)}
                return self.evaluate(platform, *(next(given[is_unknown]) for is_unknown in unknown))

            return list(jax.linear_transpose(of_vectors, *vectors)(cotangents))

        lowerings = {platform: partial(transposed, platform) for platform in PLATFORMS}
        back = iter(by_platform(primitives.without_symbols(cotangents), constants, **lowerings))
        return [next(back) if is_unknown else None for is_unknown in unknown]
