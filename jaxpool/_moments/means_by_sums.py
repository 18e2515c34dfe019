"""Means with weights from another array as ratios of two sums over windows, if these lose nothing, else exactly."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._derivatives.in_turn import merge_whole_axes
from jaxpool._derivatives.moderate_sums import SumsOfCells, Terms, pool_by_sums_of_cells
from jaxpool._derivatives.pairs import PairMap, Weights
from jaxpool._derivatives.powers import reciprocal
from jaxpool._derivatives.rules import with_rule
from jaxpool._engine.maps import reduce_windows, spread
from jaxpool._engine.operations import Arrays, accumulation_dtype
from jaxpool._engine.stages import materialize
from jaxpool._engine.window_offsets import is_looped
from jaxpool._geometry.window import Window
from jaxpool._moments.weighted_means import Ratios, exact_means


def weighted_means(
    x: jax.Array, weights: jax.Array, mask: jax.Array | None, window: Window, exponents: bool, rule: str
) -> jax.Array:
    """The mean of every window of x by the weights, or by the exponentials of these; 0 where they add up to 0."""
    if mask is not None:
        x, weights = jnp.where(mask, x, 0), jnp.where(mask, weights, Ratios(exponents).absent)
    pool = _MeansBySums(window, exponents)
    if accumulation_dtype(weights.dtype) == np.float32:
        return pool_by_sums_of_cells(pool, rule, x, weights)
    return with_rule(rule, pool.exact_values)(x, weights)


@dataclass(frozen=True)
class _Gaps(Weights):
    """The weights x - y of all pairs of a cell and a window."""

    @property
    def name(self) -> str:
        return "gaps"

    def exponent_and_factors(self, cells: Arrays, windows: Arrays) -> tuple[None, Arrays]:
        return None, (cells[0] - windows[0],)


# Notation: as in `moderate_sums`; t(i) is the weight of cell i, a function of l(i), S = Σ t(i), y = Σ t(i)·x(i)/S:
#
#     ẏ(o) = (Σ t(i)·ẋ(i) + Σ t'(i)·l̇(i)·(x(i) - y(o)))/S(o)
#     x̄(i) = t(i)·Σ_o ȳ(o)/S(o)        l̄(i) = t'(i)·Σ_o ȳ(o)/S(o)·(x(i) - y(o))
#
# The differences are those of pairs: two sums over windows, x(i)·Σ - Σ, would lose the digits of a y far from 0.


@dataclass(frozen=True)
class _MeansBySums(SumsOfCells):
    """The means as ratios of two sums, with weights l or exp(l)."""

    exponents: bool

    arrays = 2
    kept = 1
    sums_small_tiles = False

    @property
    def has_derivative(self) -> bool:
        # Differences of all pairs at once; of many windows of many cells the exact derivative is taken in parts.
        return self.window.is_single or not is_looped(self.window)

    @property
    def keeps_values(self) -> bool:
        return True

    def exact(self, x: jax.Array, weights: jax.Array, /) -> jax.Array:
        window = self.window
        if self.exponents:
            window, x, weights = merge_whole_axes(window, x, weights)
        return exact_means(x, weights, window, self.exponents)

    def terms(self, x: jax.Array, weights: jax.Array, /) -> Terms:
        """Weights and products; weights are NaN where these may overflow or vanish, which no pass has to look for."""
        # A weight or product is 0 only where that is exact.
        allowed = (weights == -jnp.inf) | (weights > -80) if self.exponents else _is_moderate(weights)
        weight = self.weight(weights)
        product = weight * x
        vanishes = (jnp.abs(product) < 2.0**-100) & (x != 0) & (weight != 0)
        return jnp.where(allowed & (jnp.abs(x) <= 2.0**50) & ~vanishes, weight, jnp.nan), product

    def weight(self, weights: jax.Array) -> jax.Array:
        return jnp.exp(weights) if self.exponents else weights

    def value_of_sums(self, sums: Terms, counts: ArrayLike, *_: Any) -> jax.Array:
        total, weighed = sums
        return weighed * reciprocal(total)

    def is_moderate(self, sums: Terms) -> jax.Array:
        total, _ = sums
        if not self.exponents:
            return jnp.isfinite(total)
        return (total == 0) | ((total >= math.exp(-40)) & (total <= math.exp(40)))

    def push_forward(self, cells: Terms, dots: Mapping[int, jax.Array], sums: Terms) -> jax.Array:
        (x, weights), (total, means) = cells, sums
        terms = list[jax.Array]()
        if 0 in dots:
            terms.append(reduce_windows(materialize(self.weight(weights) * dots[0]), self.window, lax.add))
        if 1 in dots:
            _, weight_dot = jax.jvp(self.weight, (weights,), (dots[1],))
            terms += PairMap(_Gaps(), self.window).forward(materialize(weight_dot), (x,), (means,))
        return sum(terms[1:], terms[0]) * reciprocal(total)

    def pull_back(self, cells: Terms, values_bar: jax.Array, sums: Terms) -> Terms:
        (x, weights), (total, means) = cells, sums
        weight, pull_weight = jax.vjp(self.weight, weights)
        share = materialize(values_bar * reciprocal(total))
        # One after the other, to pad for one at a time.
        x_bar = materialize(weight * spread(share, self.window))
        share, means = materialize(share, x_bar), materialize(means, x_bar)
        gaps = PairMap(_Gaps(), self.window).transpose((share,), (x,), (means,))
        return x_bar, pull_weight(gaps)[0]


def _is_moderate(array: jax.Array) -> jax.Array:
    magnitude = jnp.abs(array)
    return (array == 0) | ((magnitude >= 2.0**-50) & (magnitude <= 2.0**50))
