"""Stages: steps of a program that the compiler for the CPU keeps apart.

It fuses what is elementwise, padding and slicing included, into everything that reads it, across optimization barriers
too. A chain of windowed steps then becomes one loop that evaluates the first step anew for each cell of the last one,
with a branch for each cell of padding: 5 to 10 times the time. A call that it may not inline ends a loop. Other
platforms get the plain step: what calls cost there is not known.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

try:
    from jax.experimental.scheduling_groups import xla_metadata_call
except ImportError:
    xla_metadata_call = None

# Before, such calls could be neither differentiated nor batched.
_call = xla_metadata_call if jax.__version_info__ >= (0, 10) else None


def stage(step: Callable[..., Any], *arrays: Any) -> Any:
    """Evaluate `step(*arrays)` as a stage of its own.

    Where the result is linear in an array, all of it has to be: what is not belongs into another stage.
    """
    if _call is None:
        return step(*arrays)
    return lax.platform_dependent(*arrays, cpu=_call(step, inlineable="false"), default=step)


def finish(array: jax.Array) -> jax.Array:
    """The array, all of it computed before what reads it starts: a stage that can be transposed wherever it stands."""
    return array if _call is None else _finish.bind(array)


# As a call it would become one of both the array and its tangent when differentiated, and a call can be transposed
# only if all its results are linear. A primitive is differentiated into two, and transposed into itself.
_finish = Primitive("finish")
_finish.def_impl(lambda array: array)
_finish.def_abstract_eval(lambda array: array)
ad.deflinear2(_finish, lambda cotangent, _: [_finish.bind(cotangent)])
batching.primitive_batchers[_finish] = lambda arrays, axes: (_finish.bind(*arrays), axes[0])
mlir.register_lowering(_finish, mlir.lower_fun(lambda array: stage(lambda array: array, array), multiple_results=False))
