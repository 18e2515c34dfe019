"""Which lowering of a map runs on which platform.

A map of the engine, such as a reduction or the routing of cotangents to winners, has a lowering for the CPU and one for
GPUs, and may have one for TPUs. `by_platform` puts one operation for all of them into the traced program, which can
then be exported to every platform; JAX traces the lowering of a platform when it lowers the program for it. Inside a
lowering the platform is known to everything that asks for it, so choices never nest. Under differentiation the
operation becomes branches, one per platform.
"""

from collections.abc import Callable
from typing import Any

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
