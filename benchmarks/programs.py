"""Compiled pools: programs for values, gradient, tangent and values of activations, with compile times and memory."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.pools import Pool

_SECONDS_EASILY_DISTURBED = 0.2


@dataclass(frozen=True)
class Program:
    """A compiled function, the seconds to trace and compile it, and the bytes that it needs besides its results.

    The seconds to compile include those to trace.
    """

    call: Any  # A compiled function of JAX, whose type is not public.
    trace_seconds: float
    compile_seconds: float
    temporary_bytes: int

    def is_same_as(self, other: "Program") -> bool:
        """Whether both have the same instructions, apart from names; false if large constants are not shown."""
        own, others = (_without_names(program.call.as_text()) for program in (self, other))
        return own == others and "constant({...})" not in own


def forward(pool: Pool) -> Callable[..., Any]:
    """Values of x."""
    return pool


def gradient(pool: Pool) -> Callable[..., Any]:
    """The gradient with respect to x for a cotangent, including the forward pass."""
    return lambda x, cotangent: jax.vjp(pool, x)[1](cotangent)[0]


def tangent(pool: Pool) -> Callable[..., Any]:
    """Values of x, and their tangent for a tangent of x."""
    return lambda x, direction: jax.jvp(pool, (x,), (direction,))


def activated(pool: Pool) -> Callable[..., Any]:
    """Values of relu(x): a compiler can compute an activation in the loops of the pool, once or again and again."""
    return lambda x: pool(jnp.maximum(x, jnp.zeros_like(x)))


FUNCTIONS: dict[str, Callable[[Pool], Callable[..., Any]]] = {
    "forward": forward,
    "gradient": gradient,
    "tangent": tangent,
    "activated": activated,
}


def build(function: Callable[..., Any], *arguments: jax.Array) -> Program:
    """Trace and compile from scratch, as in a fresh process: no cache holds any part of the function."""
    compiled, tracing, seconds = _compile(function, *arguments)
    if seconds < _SECONDS_EASILY_DISTURBED:
        tracing, seconds = map(min, (tracing, seconds), _compile(function, *arguments)[1:])
    analysis = compiled.memory_analysis()
    return Program(compiled, tracing, seconds, 0 if analysis is None else analysis.temp_size_in_bytes)


def _without_names(text: str) -> str:
    """The instructions of a compiled program, with names replaced by numbers in the order in which they occur."""
    text = re.sub(r', metadata=\{(?:"(?:[^"\\]|\\.)*"|[^"}])*\}', "", text)
    # Headings of computations repeat the types of their parameters.
    lines = [re.sub(r"\(.*\{$", "{", line) for line in text.splitlines()]
    start = next(number for number, line in enumerate(lines) if line.startswith(("%", "ENTRY")))
    numbers: dict[str, str] = {}
    return re.sub(r"%[\w.-]+", lambda name: numbers.setdefault(name[0], f"%{len(numbers)}"), "\n".join(lines[start:]))


def residual_bytes(pool: Pool, x: jax.Array) -> int:
    """Bytes kept from the forward to the backward pass, including the input if it is among them."""
    backward = jax.eval_shape(lambda x: jax.vjp(pool, x)[1], x)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(backward))


def _compile(function: Callable[..., Any], *arguments: jax.Array) -> tuple[Any, float, float]:
    """The compiled function, the seconds to trace it, and those to trace and compile it."""
    jax.clear_caches()
    start = time.perf_counter()
    traced = jax.jit(function).trace(*arguments)
    tracing = time.perf_counter() - start
    compiled = traced.lower().compile()
    return compiled, tracing, time.perf_counter() - start
