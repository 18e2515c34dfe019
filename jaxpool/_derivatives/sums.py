"""Sums over windows of cells weighted by an exponential times a factor, with their derivatives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._derivatives.padded_zeros import extremes_with_zeros
from jaxpool._derivatives.rules import is_symbolic_zero
from jaxpool._engine.custom_rules import custom_rule
from jaxpool._engine.gather import Covered
from jaxpool._engine.linear_maps import LinearMap, apply_linear_map
from jaxpool._engine.maps import gather_windows, on_every_platform
from jaxpool._engine.operations import Arrays
from jaxpool._engine.stages import marked, materialize
from jaxpool._engine.window_offsets import sum_over_offsets
from jaxpool._geometry.window import Window

# An elementwise function of a cell and of the arrays of a window; finite even if the window does not hold the cell.
Elementwise = Callable[..., jax.Array]
Sums = tuple[jax.Array, ...]


@dataclass(frozen=True)
class Weight:
    """The weight exp(exponent)·factor; its derivatives have the same exponent.

    The CPU compiler stores expensive results that are read twice. So each exponential is read only once, whatever
    factors it multiplies.
    """

    exponent: Elementwise
    factor: Elementwise

    def __call__(self, *arguments: jax.Array) -> jax.Array:
        exponent = self.exponent(*arguments)
        return jnp.exp(exponent) * self.under(exponent, *arguments)

    def under(self, exponent: jax.Array, *arguments: jax.Array) -> jax.Array:
        """The factor, or 0 where the exponential is 0, as products in the factor may overflow there."""
        return jnp.where(exponent < jnp.log(jnp.finfo(exponent.dtype).tiny), 0, self.factor(*arguments))

    def slope(self, argument: int) -> "Weight":
        """The derivative with respect to one of the arguments."""
        return Weight(self.exponent, _Slope(self, argument))

    @property
    def name(self) -> str:
        """A name that is different for every weight."""
        return f"{self.exponent.__name__} {_name(self.factor)}"


@dataclass(frozen=True)
class _Slope:
    """The factor f' + f·z' of the derivative of f·exp(z) with respect to one argument."""

    weight: Weight
    argument: int

    def __call__(self, *arguments: jax.Array) -> jax.Array:
        before, here, after = arguments[: self.argument], arguments[self.argument], arguments[self.argument + 1 :]

        def along(function: Elementwise) -> tuple[jax.Array, jax.Array]:
            return jax.jvp(lambda here: function(*before, here, *after), (here,), (jnp.ones_like(here),))

        (factor, slope), (_, steepness) = along(self.weight.factor), along(self.weight.exponent)
        return slope + factor * steepness


def _name(factor: Elementwise) -> str:
    return f"{_name(factor.weight.factor)} by {factor.argument}" if isinstance(factor, _Slope) else factor.__name__


# Notation: window o holds the cells W(o); k are the weights, x(i) the cells, v(o) the arrays of the windows, a(i) the
# multiplicities; a dot marks a tangent, a bar a cotangent.
#
#     y_k(o) = Σ_{i ∈ W(o)} k(x(i), v(o))·a(i)
#     ẏ_k(o) = Σ_{i ∈ W(o)} k·ȧ(i) + Σ_{i ∈ W(o)} ∂k/∂x·a(i)·ẋ(i) + v̇(o)·Σ_{i ∈ W(o)} ∂k/∂v·a(i)
#     ā(i) = Σ_k Σ_{o : i ∈ W(o)} k·ȳ_k(o)        x̄(i) = a(i)·Σ_k Σ_{o : i ∈ W(o)} ∂k/∂x·ȳ_k(o)
#
# All are sums of the same form, with weights k or its derivatives; the same holds for every order. The first two sums
# of the second line and the sums of the third are the two directions of `_WeightedSums`, for all weights at once, so
# the backward pass reads the cells once.


@custom_rule((0, 4, 5))
def weighted_sums(
    weights: tuple[Weight, ...],
    cells: jax.Array,
    outputs: Sequence[jax.Array],
    multiplicities: jax.Array | None,
    window: Window,
    mark: str = "",
) -> Sums:
    """Σ weight(cell, *outputs)·multiplicity over every window, for each of the weights, which share an exponent.

    `outputs` have the output's shape, `multiplicities` the input's; any may have size 1 along an axis. Padded cells
    have multiplicity 0. Without multiplicities every cell counts once, and padded cells are -inf, whose weight must be
    0. Padded cells that are zeros count once in either case. Sums with different marks share nothing: otherwise the CPU
    compiler would keep the exponentials of both in memory.
    """
    evaluated = partial(_sums, weights, window=window, mark=mark)
    return on_every_platform(evaluated, cells, outputs, multiplicities)


@custom_rule((0, 3))
def sums_about_largest(
    weights: tuple[Weight, ...], cells: jax.Array, parameter: jax.Array, window: Window
) -> tuple[jax.Array, Sums]:
    """The largest cells, constant under differentiation, and `weighted_sums` with `finite` ones and the parameter."""

    def evaluated(cells: jax.Array, parameter: jax.Array) -> tuple[jax.Array, Sums]:
        largest = extremes_with_zeros(lax.stop_gradient(cells), window, lax.max)
        return largest, _sums(weights, cells, (finite(largest), parameter), None, window, "")

    return on_every_platform(evaluated, cells, parameter)


def finite(extremes: jax.Array) -> jax.Array:
    """The extremes, or 0 where they are infinite."""
    return jnp.where(jnp.isinf(extremes), 0, extremes)


def _fill(window: Window) -> float:
    return 0.0 if window.zeros else -jnp.inf


def _sums(
    weights: tuple[Weight, ...],
    cells: jax.Array,
    outputs: Sequence[jax.Array],
    multiplicities: jax.Array | None,
    window: Window,
    mark: str,
) -> Sums:
    """`weighted_sums`, inside a lowering."""

    def total(
        cells: jax.Array, outputs: Sequence[jax.Array], multiplicities: jax.Array | None, weight: Weight
    ) -> jax.Array:
        if multiplicities is None:
            return sum_over_offsets(lambda cells: weight(cells, *outputs), [(cells, _fill(window))], window)
        filled = [(cells, 0.0), (multiplicities, float(window.zeros))]
        return sum_over_offsets(lambda cells, multiplicities: weight(cells, *outputs) * multiplicities, filled, window)

    arrays = cells, outputs, multiplicities
    totals = [(partial(total, weight=each), mark + each.name) for each in weights]
    return tuple(on_every_platform(one, *arrays, in_stage=True, mark=name) for one, name in totals)


@partial(weighted_sums.defjvp, symbolic_zeros=True)
def _weighted_sums_jvp(
    weights: tuple[Weight, ...], window: Window, mark: str, primals: Any, tangents: Any
) -> tuple[Sums, Sums]:
    y = weighted_sums(weights, *primals, window, mark)
    return y, _tangents(weights, window, mark, primals, tangents, y)


@partial(sums_about_largest.defjvp, symbolic_zeros=True)
def _sums_about_largest_jvp(weights: tuple[Weight, ...], window: Window, primals: Any, tangents: Any) -> Any:
    (cells, parameter), (cells_dot, parameter_dot) = primals, tangents
    largest, y = sums_about_largest(weights, cells, parameter, window)
    of_sums = (cells, (finite(largest), parameter), None), (cells_dot, (None, parameter_dot), None)
    return (largest, y), (jnp.zeros_like(largest), _tangents(weights, window, "", *of_sums, y))


def _tangents(weights: tuple[Weight, ...], window: Window, mark: str, primals: Any, tangents: Any, y: Sums) -> Sums:
    """The tangents of y = `weighted_sums`; that of an output that does not vary is None."""
    (cells, outputs, multiplicities), (cells_dot, outputs_dot, multiplicities_dot) = primals, tangents
    # Padded cells have no tangents.
    real = replace(window, zeros=0)
    terms = []
    if multiplicities is not None and not is_symbolic_zero(multiplicities_dot):
        terms.append(apply_linear_map(_WeightedSums(weights, real, mark), multiplicities_dot, cells, outputs, like=y))
    if not is_symbolic_zero(cells_dot):
        weighed = cells_dot if multiplicities is None else cells_dot * multiplicities
        slopes = _slopes(weights, 0)
        terms.append(apply_linear_map(_WeightedSums(slopes, real, mark), weighed, cells, outputs, like=y))
    for number, output_dot in enumerate(outputs_dot):
        if output_dot is not None and not is_symbolic_zero(output_dot):
            slopes = weighted_sums(_slopes(weights, number + 1), cells, outputs, multiplicities, window, mark)
            terms.append(tuple(slope * output_dot for slope in slopes))
    y_dot = tuple(map(jnp.zeros_like, y)) if not terms else terms[0]
    for term in terms[1:]:
        y_dot = tuple(map(jnp.add, y_dot, term))
    return y_dot


def _slopes(weights: Sequence[Weight], argument: int) -> tuple[Weight, ...]:
    return tuple(weight.slope(argument) for weight in weights)


@dataclass(frozen=True)
class _WeightedSums(LinearMap):
    """The weighted sums, linear in the multiplicities, and their transpose."""

    weights: tuple[Weight, ...]
    window: Window
    mark: str

    residuals_vary = True

    def forward(self, multiplicities: jax.Array, cells: jax.Array, outputs: Sequence[jax.Array], /) -> Sums:
        return weighted_sums(self.weights, cells, outputs, multiplicities, self.window, self.mark)

    def transpose(self, cotangents: Sums, cells: jax.Array, outputs: Sequence[jax.Array], /) -> jax.Array:
        count = len(self.weights)

        def contribution(_: jax.Array | int, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
            arguments = cells[0], *windows[count:]
            exponent = self.weights[0].exponent(*arguments)
            pairs = zip(windows[:count], self.weights, strict=True)
            sent = [cotangent * weight.under(exponent, *arguments) for cotangent, weight in pairs]
            total = jnp.exp(exponent) * sum(sent[1:], sent[0])
            return total if covered is True else jnp.where(covered, total, 0)

        cotangents = tuple(map(materialize, cotangents))
        # After the cotangents: arrays padded earlier would fill memory.
        around = [(array, 0) for array in (*cotangents, *(materialize(each, *cotangents) for each in outputs))]
        mark = f"back {self.mark} {self.weights[0].name}"
        return gather_windows(contribution, around, self.window, [(marked(cells, mark), 0)])
