"""Stages: steps of a program that the compiler for the CPU keeps apart.

It fuses what is elementwise, padding and slicing included, into everything that reads it, across optimization barriers
too. A chain of windowed steps then becomes one loop that evaluates the first step anew for each cell of the last one,
with a branch for each cell of padding: 5 to 10 times the time. A call that it may not inline ends a loop. The calls
here return what they are given and copy nothing. Other platforms get the plain step: what calls cost there is not
known.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxpool._engine.platforms import may_be_cpu


def stage(step: Callable[..., Any], *arrays: Any, mark: str | None = None) -> Any:
    """Evaluate `step(*arrays)` as a stage of its own: neither what it reads nor what reads it is fused into it.

    What it does to floats, often the cotangents, starts after its integers, often the offsets, are there. Else padding
    that nothing needs for long would lie in memory. Stages of different marks share nothing, where the compiler would
    keep in memory what two of them compute of the same arrays.
    """
    if not may_be_cpu():
        return step(*arrays)
    leaves, structure = jax.tree.flatten(arrays)
    marks = [] if mark is None else [jnp.int32(zlib.crc32(mark.encode()) % 2**31)]
    numbers = [leaf for leaf in leaves if not jnp.issubdtype(leaf.dtype, jnp.inexact)]
    finished = [finish(leaf, *(numbers if jnp.issubdtype(leaf.dtype, jnp.inexact) else ()), *marks) for leaf in leaves]
    return jax.tree.map(finish, step(*jax.tree.unflatten(structure, finished)))


def finish(array: jax.Array, *others: jax.Array) -> jax.Array:
    """The array, with all of it and of the others, which do not depend on it, computed before what reads it starts."""
    return _finish.bind(array, *others) if may_be_cpu() else array


def _lower(context: mlir.LoweringRuleContext, array: Any, *others: Any) -> Any:
    # How JAX represents a program while it is lowered may change with any of its versions.
    try:
        return _call(context, array, *others)
    except (AttributeError, IndexError, TypeError):
        return _branch(context, array, *others)


def _call(context: mlir.LoweringRuleContext, array: Any, *others: Any) -> Any:
    """A call that returns the array, marked for the compiler as one that stays."""
    first = jax.make_jaxpr(lambda array, *_: array)(*context.avals_in)
    results = mlir.core_call_lowering(context, array, *others, name="stage", call_jaxpr=first)
    call = results[0].owner
    # In an explicit mesh an operation that follows gives the result its sharding.
    while call.name != "func.call":
        call = call.operands[0].owner
    call.attributes["mhlo.frontend_attributes"] = mlir.ir.DictAttr.get({"inlineable": mlir.ir.StringAttr.get("false")})
    return results


def _branch_of_one_side(array: jax.Array, *_: jax.Array) -> jax.Array:
    """The array, by a condition that always holds, which the compiler does not see: up to 2.5 times a call's time."""
    anything_else = lax.neg if jnp.issubdtype(array.dtype, jnp.inexact) else lax.bitwise_not
    return lax.cond(lax.optimization_barrier(True), lambda array: array, anything_else, array)


_branch = mlir.lower_fun(_branch_of_one_side, multiple_results=False)


def _differentiate(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    _, *others = primals
    return _finish.bind(*primals), _finish_linear(tangents[0], others)


def _transpose(cotangent: Any, _: Any, *others: Any) -> list[Any]:
    return [_finish_linear(cotangent, others), *(None for _ in others)]


def _finish_linear(array: Any, others: Sequence[Any]) -> Any:
    return array if isinstance(array, ad.Zero) else _finish.bind(array, *others)


# Linear in the array, and constant in the others.
_finish = Primitive("finish")
_finish.def_impl(lambda array, *_: array)
_finish.def_abstract_eval(lambda array, *_: array)
ad.primitive_jvps[_finish] = _differentiate
ad.primitive_transposes[_finish] = _transpose
batching.primitive_batchers[_finish] = lambda arrays, axes: (_finish.bind(*arrays), axes[0])
mlir.register_lowering(_finish, lambda _, array, *others: [array])
mlir.register_lowering(_finish, _lower, platform="cpu")
