"""Means of windows with weights from another array, merged from those of parts, as sums of their masses.

A weight is a mass times a scale, of which only ratios enter: to the largest scale of a window. So weights may be as
large or as small as their dtype, and exponentials of any number. The scale of a weight is near its magnitude, and that
of exp(l) is l, with the mass 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._derivatives.in_turn import exponentials_order, last_state
from jaxpool._derivatives.pairs import Filled, PairMap, Weights
from jaxpool._derivatives.powers import power_of_two, reciprocal
from jaxpool._derivatives.rules import apply_linear_map, custom_rule, is_symbolic_zero
from jaxpool._engine.maps import on_every_platform
from jaxpool._engine.operations import Arrays
from jaxpool._engine.reductions import sum_over_offsets
from jaxpool._geometry.window import Window
from jaxpool._moments.variances import largest_cells, moments_order
from jaxpool._platforms import is_portable

# Notation: window o holds the cells, or parts, i with the scale h(i), the mass t(i) and the mean c(i); for a cell the
# last is x(i). H, T and C are those of the window; ρ(i) is the ratio of h(i) to H; a dot marks a tangent.
#
#     H = max h(i)      T = Σ ρ(i)·t(i)      C = Σ ρ(i)·t(i)·c(i)/T
#
# Scales are constant under differentiation. For derivatives a mean is c + m/t with a constant c and a moment m about
# it, whose value is 0 and whose tangent, for a cell, is t(i)·ẋ(i). So M = Σ ρ(i)·(m(i) + t(i)·(c(i) - C)) is 0, and
#
#     Ṫ = Σ ρ(i)·ṫ(i)      Ṁ = Σ ρ(i)·ṁ(i) + Σ ρ(i)·(c(i) - C)·ṫ(i)
#
# are linear, with constant weights of pairs of a part and a window; derivatives of every order are those of C + M/T.
# They are differences from the mean, however far from 0 that is, and right for parts without mass, too.
#
# Values and Ṫ of cells are computed from the weights or logits themselves: a GPU would store h and t for every cell.
# Only t(i)·ẋ(i), which might overflow, needs them.

# h and c; t; m of x and of weights (where c is finite), for derivatives alone; the weights or logits, of cells alone.
_State = tuple[Arrays, jax.Array, Arrays, jax.Array | None]


@dataclass(frozen=True)
class Ratios(Weights):
    """The weights ρ, ρ·(c - C), or both; without `scaled` as for a scale of 1; scales are exponents, or magnitudes."""

    exponents: bool
    powers: tuple[int, ...] = (0,)
    scaled: bool = True

    @property
    def each(self) -> "tuple[Ratios, ...]":
        return tuple(replace(self, powers=(power,)) for power in self.powers)

    @property
    def name(self) -> str:
        return f"ratios {self.exponents} {self.powers[0]} {self.scaled}"

    @property
    def absent(self) -> float:
        """The scale of cells that are absent."""
        return -np.inf if self.exponents else 0.0

    def fill_cells(self, cells: Arrays, window: Window) -> list[Filled]:
        return list(zip(cells, (self.absent, 0.0), strict=True))

    def fill_windows(self, windows: Arrays) -> list[Filled]:
        return list(zip(windows, (np.inf if self.exponents else 0.0, 0.0), strict=True))

    def prepared(self, cells: Arrays, windows: Arrays) -> tuple[Arrays, Arrays]:
        """With a scale for weights that are 0, which have derivatives too."""
        (scales, means), (largest, mean) = cells, windows
        scales = scales if self.exponents else jnp.where(scales == 0, 1, scales)
        return (scales, means), (self.divisor_of_slopes(largest), mean)

    def exponent_and_factors(self, cells: Arrays, windows: Arrays) -> tuple[jax.Array | None, Arrays]:
        (scale, mean), (largest, centre) = cells, windows
        # Infinities and NaN pass no derivative to weights.
        gap = mean - centre
        gap = jnp.where(jnp.isfinite(gap), gap, 0)
        factors = tuple(gap if power else jnp.ones_like(gap) for power in self.powers)
        if self.exponents:
            return scale - largest, factors
        ratio = scale * largest if self.scaled else largest
        return None, tuple(ratio * factor for factor in factors)

    def divisor(self, largest: jax.Array) -> jax.Array:
        """What the scales of cells are compared to: the largest exponent, or the reciprocal of the largest scale."""
        if self.exponents:
            return jnp.where(jnp.isneginf(largest), 0, largest)
        # Constant: 0 times its derivative is NaN if its square overflows.
        return 1 / jnp.where(largest == 0, 1, lax.stop_gradient(largest))

    def divisor_of_slopes(self, largest: jax.Array) -> jax.Array:
        """The same for derivatives: windows that hold a weight that is NaN pass nothing to cells."""
        divisor = self.divisor(largest)
        return divisor if self.exponents else jnp.where(largest > 1 / _least(largest.dtype), 0, divisor)

    def largest(self, given: jax.Array, part: Window) -> jax.Array:
        """The largest scale of every window, from the logits or weights of its cells; beside NaN no other counts."""
        largest = largest_cells(given if self.exponents else jnp.abs(given), part)
        most = float(jnp.finfo(given.dtype).max) if self.exponents else 2 / _least(given.dtype)
        return jnp.where(jnp.isnan(largest), most, largest if self.exponents else _scale(largest))

    def ratio(self, scale: jax.Array, divisor: jax.Array) -> jax.Array:
        return jnp.exp(scale - divisor) if self.exponents else scale * divisor


@custom_rule((0, 5))
def _merge(
    ratios: Ratios, cells: Arrays, mass: jax.Array, moments: Arrays, given: jax.Array | None, part: Window
) -> tuple[Arrays, jax.Array, Arrays]:
    """H and C, T, and M of every window."""
    fills, of_cells = (ratios.absent, 0.0), given is not None

    def merge_on_platform(cells: Arrays, mass: jax.Array, given: jax.Array | None) -> tuple[Arrays, jax.Array]:
        in_stage, weights = partial(on_every_platform, in_stage=True), (cells[0], mass) if given is None else (given,)
        largest = in_stage(largest_on_platform, cells[0], given, mark="largest")
        divisor = ratios.divisor(largest)
        total = in_stage(total_on_platform, divisor, *weights, mark="total")
        means = in_stage(means_on_platform, divisor, reciprocal(total), cells[1], *weights, mark="means")
        # A mass that is not 0, for the mean that is NaN.
        return (largest, means), total if given is None else jnp.where(jnp.isnan(total), 1, total)

    def largest_on_platform(scales: jax.Array, given: jax.Array | None) -> jax.Array:
        return largest_cells(scales, part) if given is None else ratios.largest(lax.stop_gradient(given), part)

    def total_on_platform(divisor: jax.Array, *weights: jax.Array) -> jax.Array:
        return sum_over_offsets(partial(added, divisor), list(zip(weights, fills, strict=False)), part)

    def means_on_platform(divisor: jax.Array, inverse: jax.Array, means: jax.Array, *weights: jax.Array) -> jax.Array:
        def weighed(mean: jax.Array, *weight: jax.Array) -> jax.Array:
            share = added(divisor, *weight) * inverse
            return jnp.where(share == 0, 0, share * mean)

        return sum_over_offsets(weighed, [(means, 0.0), *zip(weights, fills, strict=False)], part)

    def added(divisor: jax.Array, *weight: jax.Array) -> jax.Array:
        ratio = ratios.ratio(weight[0], divisor)
        return ratio if of_cells else ratio * weight[1]

    like = jax.ShapeDtypeStruct(part.output_shape(mass.shape), mass.dtype)
    constants = lax.stop_gradient(cells)
    near, total = on_every_platform(merge_on_platform, constants, mass, given, like=((like, like), like))
    near = lax.stop_gradient(near)
    if is_portable():
        return near, total, _moments(ratios, mass, moments, constants, near, of_cells, part)[1]
    return near, total, (_constant(0.0, near[1]),) * 2


@partial(_merge.defjvp, symbolic_zeros=True)
def _merge_jvp(ratios: Ratios, part: Window, primals: Any, tangents: Any) -> Any:
    (cells, _, _, given), (_, mass_dot, moments_dot, _) = primals, tangents
    near, total, moments = _merge(ratios, *primals, part)
    dots = _moments(ratios, mass_dot, moments_dot, cells, near, given is not None, part)
    return (near, total, moments), (jax.tree.map(jnp.zeros_like, near), *dots)


def _moments(
    ratios: Ratios, mass: jax.Array, moments: Arrays, cells: Arrays, near: Arrays, of_cells: bool, part: Window
) -> tuple[jax.Array, Arrays]:
    """Σ ρ·t, and Σ ρ·m and Σ ρ·(m + t·(c - C)), linear in t and m; the t of cells are weights, of scale 1."""

    def sums(pairs: PairMap, array: jax.Array, count: int = 1) -> Arrays:
        # A tangent of 0 would meet reciprocals of scales, which may overflow.
        if is_symbolic_zero(array):
            return (jax.custom_derivatives.zero_from_primal(near[1], symbolic_zeros=True),) * count
        return apply_linear_map(pairs, array, cells, near, like=(near[1],) * count)

    both = PairMap(replace(ratios, powers=(0, 1), scaled=ratios.exponents or not of_cells), part)
    masses, of_masses = sums(both, mass, 2)
    of_x, *of_weights = (sums(PairMap(ratios, part, "moments"), each)[0] for each in moments[: 2 - of_cells])
    if of_weights and not is_symbolic_zero(of_weights[0]):
        # Of parts whose means are finite, too.
        of_masses += jnp.where(jnp.isfinite(near[1]), of_weights[0], 0)
    return masses, (of_x, of_masses)


def exact_means(x: jax.Array, weights: jax.Array, window: Window, exponents: bool) -> jax.Array:
    """The mean of every window of x by the weights, or by the exponentials of these; 0 where they add up to 0."""
    ratios = Ratios(exponents)
    parts = exponentials_order(window) if exponents else moments_order(window)
    known = jnp.where(jnp.isnan(weights), 0, weights)
    if exponents:
        scales, mass = lax.stop_gradient(known), _one(known)
    else:
        scales, mass = _scale(lax.stop_gradient(jnp.abs(known))), known
    # A product with x neither overflows nor vanishes.
    scaled = mass if exponents else known * (1 / jnp.where(scales == 0, 1, scales))
    moment = scaled * _offset(x)
    cells = (scales, lax.stop_gradient(x)), mass, (moment, jnp.zeros_like(moment)), weights
    return _value(last_state(partial(_merge_state, ratios=ratios), cells, parts))


def _merge_state(state: _State, part: Window, _: Sequence[int] = (), *, ratios: Ratios) -> _State:
    return *_merge(ratios, *state, part), None


def _value(state: _State) -> jax.Array:
    (_, mean), mass, (of_x, of_weights), _ = state
    return jnp.where(mass == 0, 0, mean + (of_x + of_weights) / jnp.where(mass == 0, 1, mass))


def _scale(magnitude: jax.Array) -> jax.Array:
    """The scale of a weight near its magnitude, with which it grows; its reciprocal is a normal number."""
    least = _least(magnitude.dtype)
    scale = jnp.clip(magnitude, least, 1 / least)
    # Not for float64, whose bits TPUs do not expose.
    return jnp.where(magnitude == 0, 0, power_of_two(scale) if magnitude.dtype == np.float32 else scale)


def _least(dtype: Any) -> float:
    return float(4 * jnp.finfo(dtype).tiny)


@custom_rule()
def _one(exponents: jax.Array) -> jax.Array:
    """The value exp(l - l), and its derivatives with respect to the first l."""
    return jnp.exp(_offset(exponents)) if is_portable() else _constant(1.0, exponents)


@_one.defjvp
def _one_jvp(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    one = _one(*primals)
    return one, one * tangents[0]


def _constant(number: float, array: jax.Array) -> jax.Array:
    """The number for every entry, batched if the array is: JAX expects that of values whose tangents are."""
    each = jnp.full_like(array, number)
    return lax.select(array == array, each, each)


@custom_rule()
def _offset(x: jax.Array) -> jax.Array:
    """The value x - x, 0 for NaN and infinities too, and its derivative with respect to the first x."""
    if is_portable():
        return jnp.where(jnp.isfinite(x), x - lax.stop_gradient(x), 0)
    return _constant(0.0, x)


@_offset.defjvp
def _offset_jvp(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    return _offset(*primals), tangents[0]
