"""Sums over windows of cells weighted by an exponential times a factor, with their derivatives."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._derivatives.in_turn import extremes_with_zeros
from jaxpool._derivatives.pairs import Filled, PairMap, Weights, sum_pairs
from jaxpool._derivatives.rules import apply_linear_map, custom_rule, is_symbolic_zero
from jaxpool._engine.maps import on_every_platform
from jaxpool._engine.operations import Arrays
from jaxpool._geometry.window import Window

# An elementwise function of a cell and of the arrays of a window; finite even if the window does not hold the cell.
Elementwise = Callable[..., jax.Array]


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

    def fill_cells(self, cells: Arrays, window: Window) -> list[Filled]:
        return [(array, 0.0) for array in cells]

    def fill_windows(self, windows: Arrays) -> list[Filled]:
        return [(array, 0.0) for array in windows]

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


# Notation: as in `pairs`, where v(o) are a shift c(o) and β, with a dot for tangents.
#
#     y_k(o) = Σ_{i ∈ W(o)} k(x(i), c(o), β)·a(i)
#     ẏ_k(o) = Σ_{i ∈ W(o)} k·ȧ(i) + Σ_{i ∈ W(o)} ∂k/∂x·a(i)·ẋ(i) + β̇·Σ_{i ∈ W(o)} ∂k/∂β·a(i)
#     x̄(i) = a(i)·Σ_k Σ_{o : i ∈ W(o)} ∂k/∂x·ȳ_k(o)
#
# All are sums of the same form, with weights k or its derivatives; the same holds for every order.


@custom_rule((0, 5, 6))
def weighted_sums(
    weights: ExponentialWeights,
    cells: jax.Array,
    shift: jax.Array | None,
    beta: jax.Array,
    multiplicities: jax.Array | None,
    window: Window,
    mark: str = "",
) -> tuple[jax.Array, Arrays]:
    """The shift, constant under differentiation, and Σ weight(cell, `finite` shift, β)·multiplicity over every window.

    The shift is the largest cell if there is none. Any array may have size 1 along an axis. Padded cells have
    multiplicity 0. Without multiplicities every cell counts once, and padded cells are -inf, whose weight must be 0.
    Padded cells that are zeros count once in either case. Sums with different marks share nothing: otherwise the CPU
    compiler would keep the exponentials of both in memory.
    """
    fill = 0.0 if window.zeros or multiplicities is not None else -jnp.inf
    fills = fill, float(window.zeros)

    def sum_on_platform(cells: jax.Array, multiplicities: Any, shift: Any, beta: jax.Array) -> Any:
        if shift is None:
            shift = extremes_with_zeros(lax.stop_gradient(cells), window, lax.max)
        of_cells = list(zip((cells, multiplicities), fills, strict=True))
        return shift, sum_pairs(weights, of_cells, (finite(shift), beta), window, mark)

    like = jax.ShapeDtypeStruct(window.output_shape(cells.shape), cells.dtype)
    likes = like if shift is None else shift, (like,) * len(weights.each)
    return on_every_platform(sum_on_platform, cells, multiplicities, shift, beta, like=likes)


def finite(extremes: jax.Array) -> jax.Array:
    """The extremes, or 0 where they are infinite."""
    return jnp.where(jnp.isinf(extremes), 0, extremes)


@partial(weighted_sums.defjvp, symbolic_zeros=True)
def _weighted_sums_jvp(weights: ExponentialWeights, window: Window, mark: str, primals: Any, tangents: Any) -> Any:
    (cells, _, beta, multiplicities), (cells_dot, _, beta_dot, multiplicities_dot) = primals, tangents
    shift, y = weighted_sums(weights, *primals, window, mark)
    # Padded cells have no tangents.
    real, given = replace(window, zeros=False), ((cells,), (finite(shift), beta))
    terms = []
    if multiplicities is not None and not is_symbolic_zero(multiplicities_dot):
        terms.append(apply_linear_map(PairMap(weights, real, mark), multiplicities_dot, *given, like=y))
    if not is_symbolic_zero(cells_dot):
        weighed = cells_dot if multiplicities is None else cells_dot * multiplicities
        terms.append(apply_linear_map(PairMap(weights.slopes(0), real, mark), weighed, *given, like=y))
    if not is_symbolic_zero(beta_dot):
        _, slopes = weighted_sums(weights.slopes(2), cells, shift, beta, multiplicities, window, mark)
        terms.append(tuple(slope * beta_dot for slope in slopes))
    y_dot = terms[0] if terms else tuple(map(jnp.zeros_like, y))
    for term in terms[1:]:
        y_dot = tuple(map(jnp.add, y_dot, term))
    return (shift, y), (jnp.zeros_like(shift), y_dot)
