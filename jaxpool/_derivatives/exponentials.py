"""Pools with weights exp(β·x): their call, sums of the exponentials of cells, and ∂y/∂β of a learnt β by pairs.

For any β, the exact pools take exponentials of differences from a number of each window. In sums of moderate size the
exponentials of the cells themselves do.
"""

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arguments import check_parameter
from jaxpool._call import core, in_floats, padding_counts, sliding
from jaxpool._derivatives.in_turn import any_present, in_slabs_of, is_shared, sum_shared, with_zeros, without_uncovered
from jaxpool._derivatives.moderate_sums import SumsOfCells, Terms, pool_by_sums_of_cells
from jaxpool._derivatives.rules import custom_rule
from jaxpool._engine.maps import sum_terms
from jaxpool._engine.operations import Arrays, accumulation_dtype
from jaxpool._geometry.window import Window
from jaxpool._platforms import is_portable


@dataclass(frozen=True)
class ExponentialPool(SumsOfCells):
    """A pool of x with the number β ≥ 0, or with an array β if that is None; `dtype` is the original one of x.

    The first of its sums is of exp(β·x), for any sign of β. A sum is moderate if its logarithm is at most the largest
    exponent in magnitude. An exponential that vanishes has a weight below exp(-47) in a sum of exp(-40).
    """

    number: float | None
    dtype: np.dtype

    zero_allowed: ClassVar[bool] = True
    # The largest β, as a share of the largest number.
    largest_beta: ClassVar[float] = 1.0
    largest_exponent: ClassVar[float] = 40.0

    @abc.abstractmethod
    def pool_present(self, x: jax.Array, mask: jax.Array | None, beta: jax.Array | None, rule: str) -> jax.Array:
        """The pool of the cells that the mask holds."""

    @classmethod
    def bounds(cls, dtype: np.dtype) -> tuple[float, float]:
        """The least and the largest magnitude of β."""
        limits = jnp.finfo(dtype)
        return 0.0 if cls.zero_allowed else float(limits.tiny), float(limits.max) * cls.largest_beta

    def exact(self, x: jax.Array, *beta: jax.Array) -> jax.Array:
        return self.pool_signed(x, None, beta[0], "jvp") if beta else self.pool_present(x, None, None, "jvp")

    def pool_signed(self, x: jax.Array, mask: jax.Array | None, beta: jax.Array, rule: str) -> jax.Array:
        """The pool for β of any sign; for β < 0 it is that of -x with -β, negated."""
        least, most = self.bounds(x.dtype)
        # The derivative at 0 is that of β.
        magnitude = jnp.minimum(jnp.where(beta < 0, -beta, beta), most)
        magnitude = jnp.maximum(magnitude, least) if least else magnitude

        def pool(sign: float | jax.Array) -> jax.Array:
            return sign * self.pool_present(sign * x, mask, magnitude, rule)

        if is_shared(beta, self.window):
            return pool(jnp.where(beta < 0, -1, 1).astype(x.dtype))
        return jnp.where(beta < 0, pool(-1.0), pool(1.0))

    def sharpness(self, beta: Terms) -> float | jax.Array:
        """The β of terms and values."""
        if beta:
            return beta[0]
        assert self.number is not None
        return self.number

    def are_moderate(self, x: jax.Array, *beta: jax.Array) -> jax.Array:
        # Products with a smaller β may be subnormal, and so may quotients by a larger one.
        limits = jnp.finfo(x.dtype)
        magnitude = jnp.abs(jnp.asarray(self.sharpness(beta)))
        return ((magnitude >= float(limits.tiny / limits.eps)) & (magnitude <= self.bounds(x.dtype)[1])).all()

    def is_moderate(self, sums: Terms) -> jax.Array:
        least, most = math.exp(-self.largest_exponent), math.exp(self.largest_exponent)
        mass, *others = sums[: self.kept]
        return reduce(jnp.logical_and, map(jnp.isfinite, others), (mass >= least) & (mass <= most))


# Notation: window o holds the n(o) cells W(o) with exponentials e(i) = exp(β·x(i)) and their sum S(o); w(i, o) is the
# weight e(i)/S(o). A derivative by sums of e(i) and e(i)·x(i) loses digits where it is a difference of nearly equal
# sums, as variances of cells far from 0 are. With the value y(o), these have only positive terms:
#
#     soft means: ∂y/∂β = Σ_{i ∈ W(o)} w(i, o)·(x(i) - y(o))²
#     mellowmax:  ∂y/∂β = Σ_{i ∈ W(o)} (x(i) - y(o))²·μ(β·(x(i) - y(o)))/n(o)
#
# Each is a sum over pairs of a cell and a window, but needs no exponential of a pair.


@dataclass(frozen=True)
class SlopesByPairs(ExponentialPool):
    """A pool whose values are by sums of exponentials, and whose ∂y/∂β is by pairs."""

    @abc.abstractmethod
    def slope_of_pair(self, x: jax.Array, weight: jax.Array, y: jax.Array, count: ArrayLike, beta: Any) -> jax.Array:
        """The terms of ∂y/∂β: of cells and their weights, and of windows, their values and numbers of cells."""

    def sharpness(self, beta: Terms) -> float | jax.Array:
        """The β of terms and values, constant under differentiation."""
        return lax.stop_gradient(beta[0]) if beta else super().sharpness(beta)

    @property
    def has_derivative(self) -> bool:
        # In longer windows, pairs would take longer than one axis after the other.
        return self.number is not None or self.window.is_single or self.window.cells <= 64

    @property
    def keeps_values(self) -> bool:
        return self.number is None and self.has_derivative

    def push_forward(self, cells: Terms, dots: Mapping[int, jax.Array], sums: Terms) -> jax.Array:
        values_dot = super().push_forward(cells, dots, sums[: self.kept])
        return values_dot + self._slopes(cells, sums) * dots[1] if self.keeps_values and 1 in dots else values_dot

    def pull_back(self, cells: Terms, values_bar: jax.Array, sums: Terms) -> Terms:
        x_bar, *others_bar = super().pull_back(cells, values_bar, sums[: self.kept])
        if not self.keeps_values:
            return x_bar, *others_bar
        return x_bar, sum_shared(values_bar * self._slopes(cells, sums), cells[1])

    def _slopes(self, cells: Terms, sums: Terms) -> jax.Array:
        """∂y/∂β of every window."""
        (x, beta), (mass, *_, values) = cells, sums
        # A padded cell that is not a zero is known by its weight, which is negative.
        fills = 0.0, 1.0 if self.window.zeros else -1.0

        def slope(cells: Arrays, windows: Arrays) -> jax.Array:
            (x, exponential), (y, inverse, beta) = cells, windows
            return self.slope_of_pair(x, exponential * inverse, y, self.counts(sums), beta)

        exponentials, *_ = self.kept_terms(*cells)
        filled = list(zip((x, exponentials), fills, strict=True))
        return sum_terms(slope, filled, self.window, None, (values, 1 / mass, beta), in_stage=True)


def pool_exponentials(
    function: str,
    x: ArrayLike,
    beta: float | ArrayLike,
    sizes: Sequence[Any],
    where: ArrayLike | None,
    rule: str,
    count_include_pad: bool,
    family: type[ExponentialPool],
) -> jax.Array:
    """The call of a sliding-window pool with a β."""
    include_pad, only_padding = padding_counts(function, count_include_pad)
    array, mask, window = sliding(function, x, sizes, where, rule, only_padding=only_padding)
    words, fix = "finite", "use max_pool or min_pool for an infinite beta"
    if not family.zero_allowed:
        words, fix = f"{words} and not 0", f"{fix}, avg_pool for the mean"
    shape = window.output_shape(array.shape)
    allowed = partial(_is_sharpness, zero_allowed=family.zero_allowed)
    parameter, number = check_parameter(function, "beta", beta, shape, allowed, words, fix)
    return _pool(array, mask, parameter, window, number, include_pad, rule, family)


def _is_sharpness(beta: np.ndarray, zero_allowed: bool) -> np.ndarray:
    return np.isfinite(beta) & (zero_allowed | (beta != 0))


@core
def _pool(
    x: jax.Array,
    mask: jax.Array | None,
    beta: jax.Array | None,
    window: Window,
    number: float | None,
    include_pad: bool,
    rule: str,
    family: type[ExponentialPool],
) -> jax.Array:
    """Pool every window with `beta`, or with `number` if that is None; β < 0 is the pool of -x with -β, negated."""
    x, mask, window, dtype = in_floats(x, mask, window)
    if include_pad and window.has_padding:
        x, mask, window = with_zeros(x, mask, window)
    wide = accumulation_dtype(dtype)
    if number is not None:
        (least, most), sign = family.bounds(wide), math.copysign(1, number)
        pool = family(window, min(max(abs(number), least), most), dtype)
        if mask is None:
            values = sign * pool_by_sums_of_cells(pool, rule, sign * x)
        else:
            cells = without_uncovered(x.astype(wide), window, learnt=False)
            values = sign * pool.pool_present(sign * cells, mask, None, rule)
    else:
        assert beta is not None
        pool, beta = family(window, None, dtype), lax.expand_dims(beta.astype(wide), range(x.ndim - beta.ndim))
        if mask is None and is_shared(beta, window):
            values = pool_by_sums_of_cells(pool, rule, x, *in_slabs_of(x, beta, window))
        else:
            values = pool.pool_signed(without_uncovered(x.astype(wide), window, learnt=True), mask, beta, rule)
    if mask is not None:
        values = jnp.where(any_present(mask, window), values, 0)
    elif window.has_footprint and not (held := window.counts(x.ndim, padding=True)).all():
        # In windows that end beyond the padding.
        values = jnp.where(held > 0, values, 0)
    return values.astype(dtype)


@custom_rule((2,))
def difference(cells: jax.Array, shift: jax.Array, above: bool) -> jax.Array:
    """The distance of cells from a shift, clipped to the range of the dtype, and to at most 0 unless `above`.

    A cell whose distance overflows has no weight. A cell above the largest cell of a window is outside it, or inf.
    """
    largest = jnp.finfo(cells.dtype).max
    if is_portable():
        # Where a cell equals a bound, JAX halves the derivative of a clipped one.
        gap = jnp.where(cells - shift < -largest, -largest, cells - shift)
        return gap if above else jnp.where(gap > 0, 0, gap)
    return jnp.clip(cells - shift, -largest, largest if above else 0)


@difference.defjvp
def _difference_jvp(above: bool, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    return difference(*primals, above), tangents[0] - tangents[1]
