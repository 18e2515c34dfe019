"""Variances of bfloat16 by two plain sums over windows, of the cells and of their squares, on TPUs.

A variance is a difference of these sums. In float32 that loses digits where the mean is far from 0; but cells of eight
digits that lie so close together have sums and squares without any rounding, and so has the difference.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jaxpool._derivatives.moderate_sums import SumsOfCells, Terms
from jaxpool._derivatives.powers import corrected_share
from jaxpool._derivatives.rules import custom_rule
from jaxpool._geometry.window import Window
from jaxpool._moments.moderate_variances import Variances

# The squares of nonzero cells are at least this large, so that only a window of zeros has the sum 0.
_LEAST_SQUARE = 2.0**-120
# In sums of this size, squares that underflow, or are raised to the least one, are lost in rounding.
_LEAST_SUM, _LARGEST_SUM = 2.0**-80, 2.0**80
# The most cells of a window: as many integers of nine bits have a sum of squares below 2^24.
_MOST_CELLS = 64


# Notation: as in `moderate_sums`; window o holds n cells, T = Σ x(i), S = Σ x(i)², and c is the correction.
#
#     D = n·S - T²      V = D/(n·(n - c))      x̄(i) = 2·x(i)·Σ_o ∂V/∂D·n·V̄(o) - 2·Σ_o ∂V/∂D·T·V̄(o)
#
# Cells that are within a factor of 2 are integers of nine bits times a number, so that T and S are exact. If others are
# in the window, D is at least T²/8n. The gradient is a difference of terms that are up to 2^9·√n deviations large. Of a
# window of equal cells, D is 0, and so is what it sends.


@dataclass(frozen=True)
class VariancesBySums(SumsOfCells):
    """Variances or deviations as functions of two sums, with all that is said by the exact pool."""

    pool: Variances

    kept = 2

    @property
    def platforms(self) -> tuple[str, ...]:
        return ("tpu",)

    def exact(self, x: jax.Array, /) -> jax.Array:
        return self.pool(x, None, "jvp")

    def terms(self, x: jax.Array, /) -> Terms:
        return x, jnp.where(x == 0, 0, jnp.maximum(x * x, _LEAST_SQUARE))

    def kept_terms(self, x: jax.Array, /) -> Terms:
        return x, x * x

    def is_moderate(self, sums: Terms) -> jax.Array:
        _, squares = sums
        return (squares == 0) | ((squares >= _LEAST_SUM) & (squares <= _LARGEST_SUM))

    def value_of_sums(self, sums: Terms, counts: ArrayLike, *_: Any) -> jax.Array:
        total, squares = sums
        count = jnp.asarray(counts)
        difference = jnp.maximum(_difference(squares, total, count), 0)
        share = corrected_share(count, self.pool.correction) / (count * count)
        # 0 for equal cells. A mask would be stored for the derivative.
        differs = jnp.sign(difference)
        if not self.pool.root:
            return differs * difference * share
        return differs * jnp.sqrt(difference + (1 - differs)) * jnp.sqrt(share)


def sums_are_exact(dtype: Any, window: Window) -> bool:
    """Whether sums of such cells and of their squares are exact where the variance is much less than their mean."""
    return dtype == jnp.bfloat16 and window.cells <= _MOST_CELLS


@custom_rule()
def _difference(squares: jax.Array, total: jax.Array, count: jax.Array) -> jax.Array:
    """n·S - T², in products of parts of twelve bits, which are exact; large ones are subtracted first."""
    (square, rest), (high, low) = _in_parts(squares), _in_parts(total)
    return (count * square - high * high) + (count * rest - 2 * high * low) - low * low


@_difference.defjvp
def _difference_jvp(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (_, total, count), (squares_dot, total_dot, _) = primals, tangents
    return _difference(*primals), count * squares_dot - 2 * total * total_dot


def _in_parts(array: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A float32 as the sum of two numbers of twelve bits."""
    high = lax.reduce_precision(array, 8, 11)
    return high, array - high
