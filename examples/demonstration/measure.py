"""One variant on one picture: compiled, evaluated in float64, timed against plain JAX, and compared.

`prepare` compiles and evaluates, and several variants may be prepared at once in threads, as the compiler and NumPy
release Python's lock. `measure` times, which only means something while nothing else runs.

Times are wall-clock medians of compiled programs, after a warm-up. The contenders (jaxpool by each rule, plain JAX in
each way that it can be written) take turns, so that other load on the machine affects all of them alike; the quickest
way counts. `gradient` is what a training step needs: values and gradient from one program.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from examples.demonstration.exact import Evaluation
from examples.demonstration.size import Rule, Size
from examples.demonstration.variant import Outputs, Variant

Timing = tuple[float, ...]  # milliseconds for one call of jaxpool, then of plain JAX where that can do the same

_ROUNDS_AT_MOST = 15
_ROUNDS_ENOUGH = 2
_SECONDS_ENOUGH, _SECONDS_TOO_MANY = 0.1, 2.0
# The program that is drawn runs three times, over a few cells.
_UNOPTIMISED: dict[str, bool | int | str] = {"xla_backend_optimization_level": 0}


@dataclass(frozen=True)
class Measurement:
    """The table's entries for a variant and a rule; differences are relative to the largest exact magnitude."""

    name: str
    rule: Rule
    output_shape: tuple[int, ...]
    forward: Timing
    gradient: Timing
    value_difference: float
    gradient_difference: float


@dataclass(frozen=True, eq=False)
class Drawing:
    """What the figure shows of a variant: the pooled detail, and the gradient of the sum of all its outputs.

    `values` are scaled: 0 is the pool of a black picture, 1 that of a white one. `indices` are present if the variant
    returns them.
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


@dataclass(frozen=True)
class Prepared:
    """A variant with all that can be done in advance: programs of jaxpool by each rule, and then those of plain JAX."""

    variant: Variant
    rules: tuple[Rule, ...]
    programs: list[_Program]
    cotangent: np.ndarray
    exact: Evaluation
    drawing: Drawing


def prepare(variant: Variant, picture: np.ndarray, detail: np.ndarray, size: Size, both_rules: bool) -> Prepared:
    """Compile a variant for the picture, evaluate it in float64, and pool the detail that is drawn."""
    x = jax.numpy.asarray(picture)
    rules = variant.rules if both_rules else variant.rules[:1]
    programs = [_compiled(lambda x, rule=rule: variant.pool(x, size, rule), x, True) for rule in rules]
    programs += [_compiled(lambda x, way=way: way(x, size), x, variant.plain_gradient) for way in variant.ways(size)]
    shape = programs[0].outputs(x)[0].shape
    cotangent = np.random.default_rng(0).uniform(-1, 1, shape).astype(picture.dtype)
    exact = variant.exact(picture, cotangent, size)
    return Prepared(variant, rules, programs, cotangent, exact, _drawing(variant, detail, size))


def measure(prepared: Prepared, picture: np.ndarray) -> list[Measurement]:
    """Time a variant, and compare its results with the float64 evaluation."""
    x, cotangent = jax.numpy.asarray(picture), jax.numpy.asarray(prepared.cotangent)
    programs, rules = prepared.programs, prepared.rules
    (exact_outputs, exact_gradient), name = prepared.exact, prepared.variant.name
    forwards = _timings([program.outputs for program in programs], len(rules), x)
    gradients = [program.with_gradient for program in programs if program.with_gradient is not None]
    gradients = _timings(gradients, len(rules), x, cotangent)
    measurements: list[Measurement] = []
    for rule, program, forward, gradient in zip(rules, programs, forwards, gradients, strict=False):
        of_values = max(difference(*pair) for pair in zip(program.outputs(x), exact_outputs, strict=True))
        of_gradient = difference(program.with_gradient(x, cotangent)[1], exact_gradient)
        measurements.append(Measurement(name, rule, cotangent.shape, forward, gradient, of_values, of_gradient))
    return measurements


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

    forward = jax.jit(outputs).lower(x).compile()
    if not differentiable:
        return _Program(forward, None)
    return _Program(forward, jax.jit(with_gradient).lower(x, jax.eval_shape(outputs, x)[0]).compile())


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


def _drawing(variant: Variant, detail: np.ndarray, size: Size) -> Drawing:
    def total(x: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
        pooled = variant.pool(x, size, variant.rules[0])
        values, *indices = pooled if isinstance(pooled, tuple) else (pooled,)
        return values.sum(), [values, *indices]

    pooled = jax.jit(jax.value_and_grad(total, has_aux=True), compiler_options=_UNOPTIMISED)
    shown = detail, detail * 0, detail * 0 + 1
    ((_, (values, *indices)), landing), *ends = (jax.device_get(pooled(x)) for x in shown)
    # One pair for all outputs: a cell that no window wrote, or an empty window, is 0 for both black and white.
    black, white = ends[0][0][1][0].min(), ends[1][0][1][0].max()
    if black == white:
        # How much cells vary is 0 in both.
        black, white = values.min(), values.max()
    stretched = (values - black) / ((white - black) or 1)
    return Drawing(variant.name, variant.detail, stretched, indices[0] if indices else None, landing)
