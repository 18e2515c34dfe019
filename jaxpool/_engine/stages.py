"""Stages: steps of a program that the CPU compiler keeps separate.

The compiler fuses elementwise operations, padding and slicing into every consumer, even across optimization barriers. A
chain of windowed steps then becomes one loop that evaluates the first step again for each cell of the last one, with a
branch for each cell of padding, and takes 5 to 10 times as long. A call that the compiler may not inline ends a loop.
The calls here return their argument and copy nothing. Other platforms get the plain step, as the cost of calls there is
not known.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._engine import primitives
from jaxpool._engine.platforms import inside, may_be_cpu, most_devices, on_one_cpu


def stage(step: Callable[..., Any], *arrays: Any, mark: str | None = None) -> Any:
    """Evaluate `step(*arrays)` as a separate stage: neither its inputs nor its consumers are fused into it.

    Its floats, often cotangents, wait for its integers, often offsets: otherwise padding would fill memory long before
    it is needed. Stages with different marks share nothing: otherwise the compiler would keep in memory what two of
    them compute from the same arrays.
    """
    if not may_be_cpu():
        return step(*arrays)
    leaves, structure = jax.tree.flatten(arrays)
    marks = [] if mark is None else [_number(mark)]
    numbers = [leaf for leaf in leaves if not jnp.issubdtype(leaf.dtype, jnp.inexact)]
    finished = [
        materialize(leaf, *(numbers if jnp.issubdtype(leaf.dtype, jnp.inexact) else ()), *marks) for leaf in leaves
    ]
    return jax.tree.map(materialize, step(*jax.tree.unflatten(structure, finished)))


def materialize(array: jax.Array, *others: jax.Array) -> jax.Array:
    """Materialize the array, together with the others, which do not depend on it, before anything reads it."""
    if not (primitives.AVAILABLE and may_be_cpu()):
        return array
    return _STAGE.bind(array, *others, types=[jax.typeof(array)])[0]


def marked(array: jax.Array, mark: str) -> jax.Array:
    """Materialize the array under a mark: results computed from it are not shared with those under another mark."""
    return materialize(array, _number(mark))


def as_call(step: Callable[..., Any], *arrays: jax.Array) -> Any:
    """Evaluate `step(*arrays)`, results with at least one axis, as a call on a CPU: nothing in it moves out of it.

    From the body of a loop the compiler would move tables and masks, and then read them from memory where they cost
    nothing to compute. Not differentiable: calls are made while a rule is lowered.
    """
    if not (primitives.AVAILABLE and may_be_cpu()):
        return step(*arrays)
    program, results = jax.make_jaxpr(step, return_shape=True)(*arrays)
    values = _Call(step).bind(*arrays, types=program.out_avals)
    return jax.tree.unflatten(jax.tree.structure(results), values)


def in_one_row(function: Callable[..., Any], *arrays: jax.Array) -> Any:
    """Evaluate an elementwise function of arrays of one shape in memory: as one long row if rows do not fill vectors.

    On a CPU exponentials, logarithms and powers are computed in vectors, but cell by cell at the end of a row, and of
    cells that are read with a stride. Arrays in a mesh stay as they are, as a reshape might have to gather them.
    """
    (shape,) = {array.shape for array in arrays}
    if not on_one_cpu(*arrays):
        return function(*arrays)
    arrays = tuple(map(materialize, arrays))
    if not shape or shape[-1] % 8 == 0:
        return function(*arrays)
    # After the reshape too, so that results share work.
    results = function(*(materialize(array.reshape(-1)) for array in arrays))
    return jax.tree.map(lambda result: materialize(result).reshape(shape), results)


def _number(mark: str) -> jax.Array:
    return jnp.int32(zlib.crc32(mark.encode()) % 2**31)


def _lower_stage(context: Any, *arrays: Any, **_: Any) -> Any:
    with inside("cpu", primitives.devices_of(context)):
        if most_devices() > 1:
            # Where they do not divide an axis that they share, every device would get the whole array.
            return arrays[:1]
    return _lower("stage", lambda array, *_: [array], _branch_of_one_side, context, *arrays)


def _lower_call(context: Any, *arrays: Any, operation: "_Call", **_: Any) -> Any:
    step = partial(operation.evaluate, "cpu")
    return _lower("step", step, step, context, *arrays)


def _lower(name: str, step: Callable[..., Any], without_call: Callable[..., Any], context: Any, *arrays: Any) -> Any:
    # JAX's representation of a program being lowered may change with any version.
    try:
        return primitives.lower_as_call(name, step, context, *arrays)
    except (AttributeError, IndexError, TypeError):
        return primitives.lower_by(without_call)(context, *arrays)


def _branch_of_one_side(array: jax.Array, *_: jax.Array) -> list[jax.Array]:
    """The array, by a condition that always holds, unknown to the compiler: takes up to 2.5 times as long as a call."""
    anything_else = lax.neg if jnp.issubdtype(array.dtype, jnp.inexact) else lax.bitwise_not
    return [lax.cond(lax.optimization_barrier(True), lambda array: array, anything_else, array)]


class _Stage(primitives.CustomPrimitive, name="materialize"):
    """The first of some arrays: linear in the first, and constant in the others."""

    lowered = {"cpu": _lower_stage}  # noqa: RUF012

    def evaluate(self, platform: str, *arrays: Any) -> list[Any]:
        return [arrays[0]]

    def differentiate(self, primals: Sequence[Any], tangents: Sequence[Any], types: tuple[Any, ...]) -> Any:
        return self.bind(*primals, types=types), [self._send(tangents[0], primals[1:])]

    def transpose(self, cotangents: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        return [self._send(cotangents[0], arrays[1:]), *(None for _ in arrays[1:])]

    def batch(self, arrays: Sequence[Any], axes: Sequence[int | None]) -> tuple[list[Any], list[Any]]:
        return self.bind(*arrays, types=[jax.typeof(arrays[0])]), [axes[0]]

    def _send(self, array: Any, others: Sequence[Any]) -> Any:
        return array if primitives.is_zero(array) else materialize(array, *others)


_STAGE = _Stage()


@dataclass(frozen=True)
class _Call(primitives.CustomPrimitive, name="call"):
    """A step that is evaluated as a call; its results are batched along their first axis."""

    step: Callable[..., Any]

    lowered = {"cpu": _lower_call}  # noqa: RUF012

    def evaluate(self, platform: str, *arrays: Any) -> list[Any]:
        return jax.tree.leaves(self.step(*arrays))

    def batch(self, arrays: Sequence[Any], axes: Sequence[int | None]) -> tuple[list[Any], list[int]]:
        results = jax.tree.leaves(as_call(jax.vmap(self.step, tuple(axes)), *arrays))
        return results, [0] * len(results)
