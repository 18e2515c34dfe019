"""One variant on one picture: compiled, timed against plain JAX, and compared with its float64 evaluation.

Times are wall-clock medians of compiled programs, after a warm-up. The contenders (jaxpool by each rule, plain JAX in
each way that it can be written) take turns, so that other load on the machine affects all of them alike; the quickest
way counts. `gradient` is what a training step needs: values and gradient from one program.
"""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from examples.demonstration.size import Rule, Size
from examples.demonstration.variant import Outputs, Variant

Timing = tuple[float, ...]  # milliseconds for one call of jaxpool, then of plain JAX where that can do the same

_ROUNDS_AT_MOST = 15
_ROUNDS_ENOUGH = 3
_SECONDS_ENOUGH, _SECONDS_TOO_MANY = 0.3, 4.0


@dataclass(frozen=True)
class Measurement:
    """The table's entries for a variant and a rule; differences are relative to the largest exact magnitude."""

    name: str
    rule: Rule
    output_shape: tuple[int, ...]
    compile_milliseconds: float
    forward: Timing
    gradient: Timing
    value_difference: float
    gradient_difference: float


@dataclass(frozen=True)
class Drawing:
    """What the figure shows of a variant: the pooled picture, and the gradient if each value is sent back.

    `values` are scaled: 0 is the pool of a black picture, 1 that of a white one. `landing` is the gradient for these
    values as the cotangent, and `indices` are present if the variant returns them.
    """

    name: str
    detail: str
    values: np.ndarray
    indices: np.ndarray | None
    landing: np.ndarray


@dataclass(frozen=True)
class _Program:
    """The compiled functions of one contender: outputs, and values with gradient, or None where JAX has no gradient."""

    outputs: Callable[..., Any]
    with_gradient: Any
    compile_milliseconds: float


def measure(
    variant: Variant, picture: np.ndarray, size: Size, announce: Callable[[str], None]
) -> tuple[list[Measurement], Drawing]:
    """Run one variant by every rule; `announce` is told of each step before it begins."""
    x = jax.numpy.asarray(picture)
    announce(f"{variant.name}: compiling")
    contenders = [_compiled(lambda x, rule=rule: variant.pool(x, size, rule), x, True) for rule in variant.rules]
    contenders += [_compiled(lambda x, way=way: way(x, size), x, variant.plain_gradient) for way in variant.ways(size)]
    announce(f"{variant.name}: timing")
    shape = contenders[0].outputs(x)[0].shape
    cotangent = jax.numpy.asarray(np.random.default_rng(0).uniform(-1, 1, shape).astype(picture.dtype))
    forwards = _timings([program.outputs for program in contenders], len(variant.rules), x)
    gradients = [program.with_gradient for program in contenders if program.with_gradient is not None]
    gradients = _timings(gradients, len(variant.rules), x, cotangent)
    announce(f"{variant.name}: comparing with NumPy")
    exact_outputs, exact_gradient = variant.exact(picture, np.asarray(cotangent), size)
    measurements: list[Measurement] = []
    for rule, program, forward, gradient in zip(variant.rules, contenders, forwards, gradients, strict=False):
        of_values = max(difference(*pair) for pair in zip(program.outputs(x), exact_outputs, strict=True))
        of_gradient = difference(program.with_gradient(x, cotangent)[1], exact_gradient)
        took = program.compile_milliseconds
        measurements.append(Measurement(variant.name, rule, shape, took, forward, gradient, of_values, of_gradient))
    return measurements, _drawing(variant, contenders[0], x)


def difference(found: jax.typing.ArrayLike, exact: np.ndarray) -> float:
    """The largest difference over the largest exact magnitude; positions must agree, else it is infinite."""
    if np.issubdtype(exact.dtype, np.integer):
        return 0.0 if np.array_equal(found, exact) else np.inf
    largest = np.abs(np.asarray(found, np.float64) - exact).max()
    return float(largest / (np.abs(exact).max() or 1))


def _compiled(pool: Callable[[jax.Array], Outputs], x: jax.Array, differentiable: bool) -> _Program:
    def outputs(x: jax.Array) -> tuple[jax.Array, ...]:
        pooled = pool(x)
        return pooled if isinstance(pooled, tuple) else (pooled,)

    def with_gradient(x: jax.Array, cotangent: jax.Array) -> tuple[jax.Array, jax.Array]:
        values, pullback = jax.vjp(lambda x: outputs(x)[0], x)
        return values, pullback(cotangent)[0]

    started = time.perf_counter()
    programs = [jax.jit(outputs).lower(x)]
    if differentiable:
        programs.append(jax.jit(with_gradient).lower(x, jax.eval_shape(outputs, x)[0]))
    # The compiler releases Python's lock: both programs together take little longer than the gradient alone.
    with ThreadPoolExecutor() as threads:
        forward, *gradient = threads.map(lambda program: program.compile(), programs)
    return _Program(forward, gradient[0] if gradient else None, 1000 * (time.perf_counter() - started))


def _timings(functions: list[Callable[..., Any]], rules: int, *arguments: jax.Array) -> list[Timing]:
    """The median times of jaxpool's `rules` programs, each next to the best of plain JAX's, which may follow them."""
    seconds: list[list[float]] = [[] for _ in functions]
    begun = time.perf_counter()
    for round_number in range(1 + _ROUNDS_AT_MOST):
        limit = _SECONDS_ENOUGH if round_number > _ROUNDS_ENOUGH else _SECONDS_TOO_MANY
        if time.perf_counter() - begun > limit:
            break
        for function, measured in zip(functions, seconds, strict=True):
            started = time.perf_counter()
            jax.block_until_ready(function(*arguments))
            measured.append(time.perf_counter() - started)
    # The first round is the warm-up, and counts only if it is so slow that no second one follows.
    medians = [1000 * statistics.median(measured[1:] or measured) for measured in seconds]
    return [(milliseconds, *sorted(medians[rules:])[:1]) for milliseconds in medians[:rules]]


def _drawing(variant: Variant, program: _Program, x: jax.Array) -> Drawing:
    (values, *indices), *ends = (jax.device_get(program.outputs(shown)) for shown in (x, x * 0, x * 0 + 1))
    # One pair for all outputs: a cell that no window wrote, or an empty window, is 0 for both black and white.
    black, white = ends[0][0].min(), ends[1][0].max()
    if black == white:
        # How much cells vary is 0 in both.
        black, white = values.min(), values.max()
    stretched = (values - black) / (white - black)
    landing = jax.device_get(program.with_gradient(x, stretched)[1])
    return Drawing(variant.name, variant.detail, stretched, indices[0] if indices else None, landing)
