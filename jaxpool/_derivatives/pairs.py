"""Sums over the cells of windows, in which every pair of a window and a cell has a weight, and their derivatives.

Norms, log-sum-exp and soft means are roots, logarithms or ratios of such sums. Here are the sums, for several weights
with one exponential, the linear map of both modes, and weights with derivatives of the same kind.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._derivatives.in_turn import extremes_with_zeros
from jaxpool._derivatives.rules import LinearMap, apply_linear_map, custom_rule, is_symbolic_zero
from jaxpool._engine.gather import Covered, where_covered
from jaxpool._engine.maps import gather_windows, on_every_platform
from jaxpool._engine.operations import Arrays
from jaxpool._engine.reductions import sum_over_offsets
from jaxpool._engine.stages import marked, materialize
from jaxpool._geometry.window import Window

# An array and its value outside.
Filled = tuple[Any, Any]
# An elementwise function of a cell and of the arrays of a window; finite even if the window does not hold the cell.
Elementwise = Callable[..., jax.Array]


class Weights(abc.ABC):
    """Weights of pairs: elementwise functions of arrays of cells and of windows; static in the traced program."""

    @property
    def each(self) -> "tuple[Weights, ...]":
        """The weights one by one."""
        return (self,)

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name of the first one, different from those of all other weights of the same cells."""

    def fill_cells(self, cells: Arrays, window: Window) -> list[Filled]:
        """The arrays of cells, with their values in the padding."""
        return [(array, 0.0) for array in cells]

    def fill_windows(self, windows: Arrays) -> list[Filled]:
        """The arrays of windows, with their values for windows outside, of which all weights are finite."""
        return [(array, 0.0) for array in windows]

    def prepared(self, cells: Arrays, windows: Arrays) -> tuple[Arrays, Arrays]:
        """What the weights are computed from: elementwise functions of the arrays, which have the same fills."""
        return cells, windows

    @abc.abstractmethod
    def exponent_and_factors(self, cells: Arrays, windows: Arrays) -> tuple[jax.Array | None, Arrays]:
        """The exponent z and factors f from prepared arrays: weights are exp(z)·f, or f itself without an exponent."""


# Notation: window o holds the cells W(o); k are the weights, x(i) the arrays of cells, v(o) those of windows, a(i) the
# multiplicities; a bar marks a cotangent.
#
#     y_k(o) = Σ_{i ∈ W(o)} k(x(i), v(o))·a(i)        ā(i) = Σ_k Σ_{o : i ∈ W(o)} k(x(i), v(o))·ȳ_k(o)
#
# The CPU compiler stores expensive results that are read twice. So each exponential is read only once: the sums are
# stages, one after the other to save memory, and in ā the factors are added first.


@dataclass(frozen=True)
class PairMap(LinearMap):
    """The sums y, linear in a, and their transpose; what several maps compute is shared only under the same `mark`."""

    weights: Weights
    window: Window
    mark: str = ""

    residuals_vary = True

    def forward(self, multiplicity: jax.Array, cells: Arrays, windows: Arrays, /) -> Arrays:
        def sum_on_platform(multiplicity: jax.Array, cells: Arrays, windows: Arrays) -> Arrays:
            of_cells = [*self.weights.fill_cells(cells, self.window), (multiplicity, 0.0)]
            return sum_pairs(self.weights, of_cells, windows, self.window, self.mark)

        return on_every_platform(sum_on_platform, multiplicity, cells, windows)

    def transpose(self, cotangents: Arrays, cells: Arrays, windows: Arrays, /) -> jax.Array:
        count = len(cotangents)

        def send_to_cell(covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
            held = partial(where_covered, covered)
            # For a cell that it does not hold, a window is as one outside, and the factors and the result are 0. Else 0
            # would multiply the infinite weight of a large cell, or a NaN, in a derivative of this or in a cotangent.
            outputs = tuple(held(each, fill) for each, (_, fill) in zip(windows[count:], around[count:], strict=True))
            exponent, factors = self.weights.exponent_and_factors(cells, outputs)
            sent = [cotangent * held(factor, 0) for cotangent, factor in zip(windows[:count], factors, strict=True)]
            total = sum(sent[1:], sent[0])
            return held(total if exponent is None else jnp.exp(exponent) * total, 0)

        # All, and then one after the other: what is padded earlier would fill memory while others are computed.
        cotangents = tuple(materialize(each, *windows) for each in cotangents)
        windows = tuple(materialize(each, *cotangents) for each in windows)
        cells = tuple(marked(each, f"back {self.mark} {self.weights.name}") for each in cells)
        cells, windows = self.weights.prepared(cells, windows)
        around = [*((each, 0.0) for each in cotangents), *self.weights.fill_windows(windows)]
        return gather_windows(send_to_cell, around, self.window, self.weights.fill_cells(cells, self.window))


def sum_pairs(weights: Weights, cells: Sequence[Filled], windows: Arrays, window: Window, mark: str) -> Arrays:
    """The sums; the last of the cells are the multiplicities, or None for 1."""
    *fills, outside = (fill for _, fill in cells)

    def sum_one(cells: Sequence[Any], windows: Arrays, weight: Weights) -> jax.Array:
        *cells, multiplicity = cells
        of_cells, of_windows = weight.prepared(tuple(cells), windows)

        def value(*cells: jax.Array) -> jax.Array:
            exponent, (factor,) = weight.exponent_and_factors(cells, of_windows)
            return factor if exponent is None else jnp.exp(exponent) * factor

        filled = list(zip(of_cells, fills, strict=True))
        if multiplicity is None:
            return sum_over_offsets(value, filled, window)
        filled.append((multiplicity, outside))
        return sum_over_offsets(lambda *cells: value(*cells[:-1]) * cells[-1], filled, window)

    arrays, sums = [array for array, _ in cells], ()
    for one in weights.each:
        arrays[0] = materialize(arrays[0], *sums) if sums else arrays[0]
        sums += (on_every_platform(partial(sum_one, weight=one), arrays, windows, in_stage=True, mark=mark + one.name),)
    return sums


@dataclass(frozen=True)
class ExponentialWeights(Weights):
    """The weights exp(exponent)·factor for each of the factors; their derivatives have the same exponent."""

    exponent: Elementwise
    factors: tuple[Elementwise, ...]

    @property
    def each(self) -> "tuple[ExponentialWeights, ...]":
        return tuple(replace(self, factors=(factor,)) for factor in self.factors)

    @property
    def name(self) -> str:
        return f"{self.exponent.__name__} {_name(self.factors[0])}"

    def exponent_and_factors(self, cells: Arrays, windows: Arrays) -> tuple[jax.Array, Arrays]:
        """The factors are 0 where the exponential is 0, as products in a factor may overflow there."""
        exponent = self.exponent(*cells, *windows)
        vanishes = exponent < jnp.log(jnp.finfo(exponent.dtype).tiny)
        return exponent, tuple(jnp.where(vanishes, 0, factor(*cells, *windows)) for factor in self.factors)

    def slopes(self, argument: int) -> "ExponentialWeights":
        """The derivatives with respect to one of the arguments."""
        return replace(self, factors=tuple(_Slope(self.exponent, factor, argument) for factor in self.factors))


@dataclass(frozen=True)
class _Slope:
    """The factor f' + f·z' of the derivative of f·exp(z) with respect to one argument."""

    exponent: Elementwise
    factor: Elementwise
    argument: int

    def __call__(self, *arguments: jax.Array) -> jax.Array:
        before, argument, after = arguments[: self.argument], arguments[self.argument], arguments[self.argument + 1 :]

        def differentiate(function: Elementwise) -> tuple[jax.Array, jax.Array]:
            return jax.jvp(lambda one: function(*before, one, *after), (argument,), (jnp.ones_like(argument),))

        (factor, slope), (_, steepness) = differentiate(self.factor), differentiate(self.exponent)
        return slope + factor * steepness


def _name(factor: Elementwise) -> str:
    return f"{_name(factor.factor)} by {factor.argument}" if isinstance(factor, _Slope) else factor.__name__


# Notation: as above, where v(o) are a shift c(o) and β; a dot marks a tangent. The first weight alone depends on the
# offset d(i) of a cell, and the second one is its derivative with respect to that.
#
#     y_k(o) = Σ_{i ∈ W(o)} k(x(i), d(i), c(o), β)·a(i)
#     ẏ_k(o) = Σ_{i ∈ W(o)} k·ȧ(i) + Σ_{i ∈ W(o)} a(i)·(∂k/∂x·ẋ(i) + ∂k/∂d·ḋ(i)) + β̇·Σ_{i ∈ W(o)} ∂k/∂β·a(i)
#     x̄(i) = a(i)·Σ_k Σ_{o : i ∈ W(o)} ∂k/∂x·ȳ_k(o)
#
# All are sums of the same form, with weights k or its derivatives; the same holds for every order.


@custom_rule((0, 5))
def weighted_sums(
    weights: ExponentialWeights,
    cells: Arrays,
    shift: jax.Array | None,
    beta: jax.Array,
    multiplicities: jax.Array | None,
    window: Window,
) -> tuple[jax.Array, Arrays]:
    """The shift, constant under differentiation, and Σ weight(cell, `finite` shift, β)·multiplicity over every window.

    A cell is a number, or a number and an offset. Without a shift it is the largest number. Any array may have size 1
    along an axis. Padded cells have multiplicity 0. Without multiplicities every cell counts once, and padded cells are
    -inf, whose weight must be 0. Padded cells that are zeros count once in either case.
    """
    fill = 0.0 if window.zeros or multiplicities is not None else -jnp.inf

    def sum_on_platform(cells: Arrays, multiplicities: Any, shift: Any, beta: jax.Array) -> Any:
        if shift is None:
            shift = extremes_with_zeros(lax.stop_gradient(cells[0]), window, lax.max)
        of_cells = [*zip(cells, (fill, 0.0), strict=False), (multiplicities, float(window.zeros))]
        return shift, sum_pairs(weights, of_cells, (finite(shift), beta), window, "")

    like = jax.ShapeDtypeStruct(window.output_shape(cells[0].shape), cells[0].dtype)
    likes = like if shift is None else shift, (like,) * len(weights.each)
    return on_every_platform(sum_on_platform, cells, multiplicities, shift, beta, like=likes)


def finite(extremes: jax.Array) -> jax.Array:
    """The extremes, or 0 where they are infinite."""
    return jnp.where(jnp.isinf(extremes), 0, extremes)


@partial(weighted_sums.defjvp, symbolic_zeros=True)
def _weighted_sums_jvp(weights: ExponentialWeights, window: Window, primals: Any, tangents: Any) -> Any:
    (cells, _, beta, multiplicities), (cells_dot, _, beta_dot, multiplicities_dot) = primals, tangents
    shift, y = weighted_sums(weights, *primals, window)

    def weighed(each: jax.Array) -> jax.Array:
        return each if multiplicities is None else each * multiplicities

    def applied(weights: Weights, vector: jax.Array, mark: str = "") -> Arrays:
        pairs, windows = PairMap(weights, window, mark), (finite(shift), beta)
        return apply_linear_map(pairs, vector, cells, windows, like=y[: len(weights.each)])

    terms = []
    if multiplicities is not None and not is_symbolic_zero(multiplicities_dot):
        terms.append(applied(weights, multiplicities_dot))
    if not is_symbolic_zero(cells_dot[0]):
        terms.append(applied(weights.slopes(0), weighed(cells_dot[0])))
    if not is_symbolic_zero(beta_dot):
        _, slopes = weighted_sums(weights.slopes(len(cells) + 1), cells, shift, beta, multiplicities, window)
        terms.append(tuple(slope * beta_dot for slope in slopes))
    y_dot = tuple(sum(each[1:], each[0]) for each in zip(*terms, strict=True)) or tuple(map(jnp.zeros_like, y))
    for offset_dot in cells_dot[1:]:
        if not is_symbolic_zero(offset_dot):
            y_dot = (y_dot[0] + applied(weights.each[1], weighed(offset_dot), "offsets")[0], *y_dot[1:])
    return (shift, y), (jnp.zeros_like(shift), y_dot)
