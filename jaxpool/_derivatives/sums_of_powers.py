"""Norms and power means of float32 as roots of plain sums of powers, with a number or a learnt array as exponent.

A power of a cell is one number, whatever windows hold it; the exact pools take powers of ratios to the largest cell of
each window instead. Exponents are from 1 to 8: for smaller ones slopes at 0 are infinite, for larger ones few sums are
of moderate size.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._derivatives.in_turn import sum_shared
from jaxpool._derivatives.moderate_sums import SumsOfCells, Terms
from jaxpool._derivatives.powers import (
    LARGEST_EXPONENT,
    LEAST_EXPONENT,
    Exponent,
    even_power,
    log_magnitude,
    positive_power,
    power_of_two,
)
from jaxpool._derivatives.rules import custom_rule
from jaxpool._engine.maps import spread
from jaxpool._engine.stages import materialize

# Terms of nonzero cells are at least this large, so that only a window of zeros has the sum 0.
_LEAST_TERM = 2.0**-120
# In sums of this size, terms that underflow, or are raised to the least term, are lost in rounding.
_LEAST_SUM, _LARGEST_SUM = 2.0**-80, 2.0**80


# Notation: as in `moderate_sums`; n(o) is 1 for norms, and the number of cells for means. With a learnt exponent p,
#
#     t(i) = |x(i)|^p    T(o) = Σ t(i)    y(o) = (T(o)/n(o))^(1/p)    h(i) = |x(i)|^(p-1)
#     x̄(i) = sign(x(i))·p·h(i)·Σ_o ∂y/∂T(o)·ȳ(o)
#     p̄ = Σ_i t(i)·log|x(i)|·Σ_o ∂y/∂T(o)·ȳ(o) - Σ_o ȳ(o)·y(o)·log(y(o))/p
#       = Σ_i x̄(i)·x(i)·log|x(i)|/p - Σ_o ȳ(o)·y(o)·log(y(o))/p
#
# so that one power h is enough, which does not underflow where t does. The difference loses digits of the logarithms of
# cells far from 1. But y/s is the pool of x/s for any number s > 0, with the same x̄, and p̄/s.


@dataclass(frozen=True)
class SumsOfPowers(SumsOfCells):
    """The norm with the exponent `number`, or with an array if that is None; moderate powers lose no digits."""

    number: float | None

    kept = 1
    # On a CPU ratios take 0.6 of the time for small tiles, and up to three times as long for other windows.
    sums_small_tiles = False

    def power(self, x: jax.Array, p: Terms) -> jax.Array:
        """The powers of magnitudes, to a few units in the last place."""
        if self.number is not None and self.number.is_integer():
            return even_power(x, self.number)
        return _power_of_cells(x, *(p or (None,)), self.number)

    def terms(self, x: jax.Array, *p: jax.Array) -> Terms:
        return (jnp.where(x == 0, 0, jnp.maximum(self.power(x, p), _LEAST_TERM)),)

    def kept_terms(self, x: jax.Array, *p: jax.Array) -> Terms:
        return (self.power(x, p),)

    def are_moderate(self, x: jax.Array, *p: jax.Array) -> jax.Array | bool:
        return True if not p else ((p[0] >= LEAST_EXPONENT) & (p[0] <= LARGEST_EXPONENT)).all()

    def is_moderate(self, sums: Terms) -> jax.Array:
        return (sums[0] == 0) | ((sums[0] >= _LEAST_SUM) & (sums[0] <= _LARGEST_SUM))

    def value_of_sums(self, sums: Terms, counts: ArrayLike, *p: jax.Array) -> jax.Array:
        dead = sums[0] == 0
        total, exponent = jnp.where(dead, 1, sums[0]), self.number if self.number is not None else p[0]
        root = positive_power(total, 1 / exponent)
        if self.number not in (1, 2):
            # Only near 1 are powers by logarithms exact to the last digits.
            scale = power_of_two(lax.stop_gradient(root))
            root = scale * positive_power(total * self.power(1 / scale, p), 1 / exponent)
        return jnp.where(dead, 0, root)

    def push_forward(self, cells: Terms, dots: Mapping[int, jax.Array], sums: Terms) -> jax.Array:
        if 1 not in dots:
            return super().push_forward(cells, dots, sums)
        scale, cells, sums = self._near_1(cells, sums)
        return super().push_forward(cells, {**dots, 1: scale * dots[1]}, sums)

    def pull_back(self, cells: Terms, values_bar: jax.Array, sums: Terms) -> Terms:
        if self.number is not None:
            return super().pull_back(cells, values_bar, sums)
        scale, (x, p), sums = self._near_1(cells, sums)
        (_, direct), (total_bar,) = jax.vjp(self.value_of_kept, (x, p), sums)[1](values_bar)
        spread_bar = materialize(spread(materialize(total_bar), self.window))
        magnitudes = jnp.abs(x)
        # Materialized, as a CPU would compute each term of a sum by itself.
        magnitudes_bar = materialize(p * _moderate_power(magnitudes, p - 1) * spread_bar)
        slopes = materialize(magnitudes_bar * magnitudes * log_magnitude(x)).sum(self.window.pooled_axes, keepdims=True)
        return jnp.sign(x) * magnitudes_bar, sum_shared(scale * (slopes / p + direct), cells[1])

    def _near_1(self, cells: Terms, sums: Terms) -> tuple[jax.Array, Terms, Terms]:
        """A power of two s near the largest value along the pooled axes; the cells and sums of the pool of x/s."""
        (x, p), (total,) = cells, sums
        largest = total.max(self.window.pooled_axes, keepdims=True)
        p = jnp.broadcast_to(p, largest.shape)
        # Within bounds, so that the powers of no moderate window vanish or overflow.
        scale = power_of_two(positive_power(jnp.clip(jnp.where(largest == 0, 1, largest), 2.0**-40, 2.0**20), 1 / p))
        inverse = 1 / scale
        # A ratio that underflows keeps its sign, which is the whole derivative for p = 1.
        near_1 = jnp.sign(x) * jnp.maximum(jnp.abs(x) * inverse, jnp.finfo(x.dtype).tiny)
        return scale, (near_1, p), (total * self.power(inverse, (p,)),)


@custom_rule((2,))
def _power_of_cells(x: jax.Array, p: jax.Array | None, number: float | None) -> jax.Array:
    magnitude, exponent = jnp.abs(x), p if number is None else number
    assert exponent is not None
    return magnitude * _moderate_power(magnitude, exponent - 1)


@_power_of_cells.defjvp
def _power_of_cells_jvp(number: float | None, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (x, p), (x_dot, p_dot) = primals, tangents
    exponent = p if number is None else number
    less_one = _moderate_power(jnp.abs(x), exponent - 1)
    power, power_dot = jnp.abs(x) * less_one, jnp.sign(x) * exponent * less_one * x_dot
    return power, power_dot if p is None else power_dot + power * log_magnitude(x) * p_dot


def _moderate_power(base: jax.Array, exponent: Exponent) -> jax.Array:
    """base^exponent for float32 base ≥ 0 and exponents from 0 to 7, not to be differentiated in the base.

    exp(exponent·log(base)) has an error of |log(result)| units in the last place. So with base = 2^e·m and m from √½ to
    √2, the whole part of exponent·e, a product of few bits and so exact, is a power of two. A root is cheaper.
    """
    if isinstance(exponent, float) and exponent % 1 == 0.5:
        return lax.integer_pow(base, int(exponent)) * lax.sqrt(base)
    root_half = 0x3F3504F3
    bits = lax.bitcast_convert_type(base, np.int32) + (0x3F800000 - root_half)
    e = ((bits >> 23) - 127).astype(base.dtype)
    mantissa = lax.bitcast_convert_type((bits & 0x7FFFFF) + root_half, base.dtype)
    short = (round if isinstance(exponent, float) else jnp.round)(exponent * 2.0**12) * 2.0**-12
    whole = jnp.round(short * e)
    rest = (short * e - whole) + (exponent - short) * e
    # A power beyond these belongs to sums that are not moderate, or is lost in them.
    scale = lax.bitcast_convert_type((jnp.clip(whole, -126, 127).astype(np.int32) + 127) << 23, base.dtype)
    return jnp.exp(exponent * jnp.log(mantissa) + math.log(2) * rest) * scale
