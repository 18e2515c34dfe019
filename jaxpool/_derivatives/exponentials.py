"""Pools with weights exp(β·x): their call, sums of the exponentials of cells, and ∂y/∂β of a learnt β by pairs.

For any β, the exact pools take exponentials of differences from a number of each window. In sums of moderate size the
exponentials of the cells themselves do.
"""

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arguments import check_parameter
from jaxpool._call import core, in_floats, padding_counts, sliding
from jaxpool._derivatives import in_turn
from jaxpool._derivatives.moderate_sums import SumsOfCells, Terms, pool_by_sums_of_cells
from jaxpool._engine.maps import sum_terms
from jaxpool._engine.operations import Arrays, accumulation_dtype
from jaxpool._geometry.window import Window
from jaxpool._sharding import vary_with


@dataclass(frozen=True)
class ExponentialPool(SumsOfCells):
    """A pool of x with the number β ≥ 0, or with an array β if that is None; `dtype` is the original one of x.

    The first of its sums is of exp(β·x), for any sign of β. A sum is moderate if its logarithm is at most the largest
    exponent in magnitude. An exponential that vanishes has a weight below exp(-47) in a sum of exp(-40).
    """

    number: float | None
    dtype: np.dtype

    zero_allowed: ClassVar[bool] = True
    # Whether the value of a window with a single cell is that cell by sums, too.
    is_exact_alone: ClassVar[bool] = True
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

        if in_turn.is_shared(beta, self.window):
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


@dataclass(frozen=True)
class _Present(SumsOfCells):
    """The pool of the cells for which a second array is 1; for others, whose cell is 0 or finite, it is 0."""

    pool: ExponentialPool

    arrays, constant = 2, (1,)
    sums_small_tiles = False

    @property
    def kept(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.pool.kept

    def exact(self, x: jax.Array, present: jax.Array) -> jax.Array:
        return self.pool.pool_present(x, present > 0, None, "jvp")

    def terms(self, x: jax.Array, present: jax.Array | float = 1.0) -> Terms:
        return tuple(term * present for term in self.pool.terms(x) + (() if self.pool.is_exact_alone else (x,)))

    def sums(self, *cells: jax.Array) -> Terms:
        mass, *others = super().sums(*cells)
        # A window without cells gets the value of a cell of 0, which is replaced later.
        return jnp.where(self.counts((mass,), *cells) == 0, 1, mass), *others

    def counts(self, sums: Terms, *cells: jax.Array) -> jax.Array:
        return in_turn.sums_with_zeros(cells[1].astype(sums[0].dtype), self.window)

    def value_of_sums(self, sums: Terms, counts: ArrayLike, *_: Any) -> jax.Array:
        value = self.pool.value_of_sums(sums, jnp.maximum(counts, 1))
        has_cell = len(sums) > self.kept and not self.pool.is_exact_alone
        return jnp.where(jnp.asarray(counts) == 1, sums[-1], value) if has_cell else value

    def are_moderate(self, x: jax.Array, _: jax.Array) -> jax.Array:
        return self.pool.are_moderate(x)

    def is_moderate(self, sums: Terms) -> jax.Array:
        return self.pool.is_moderate(sums)


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
        return x_bar, in_turn.sum_shared(values_bar * self._slopes(cells, sums), cells[1])

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
    parameter, number = check_parameter(
        function, "beta", beta, shape, lambda beta: np.isfinite(beta) & (family.zero_allowed | (beta != 0)), words, fix
    )
    return _pool(array, mask, parameter, window, number, include_pad, rule, family)


def _present(x: jax.Array, mask: jax.Array) -> Terms:
    """The cells, 0 where the mask holds none, and which are present, for as many items of a batch."""
    return jnp.where(mask, x, 0), vary_with(jnp.broadcast_to(mask, x.shape[:1] + mask.shape[1:]).astype(x.dtype), x)


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
        x, mask, window = in_turn.with_zeros(x, mask, window)
    wide = accumulation_dtype(dtype)
    if number is not None:
        (least, most), sign = family.bounds(wide), math.copysign(1, number)
        pool = family(window, min(max(abs(number), least), most), dtype)
        by_sums, cells = (pool, (sign * x,)) if mask is None else (_Present(window, pool), _present(sign * x, mask))
        values = sign * pool_by_sums_of_cells(by_sums, rule, *cells)
    else:
        assert beta is not None
        pool, beta = family(window, None, dtype), lax.expand_dims(beta.astype(wide), range(x.ndim - beta.ndim))
        if mask is None and in_turn.is_shared(beta, window):
            values = pool_by_sums_of_cells(pool, rule, x, *in_turn.in_slabs_of(x, beta, window))
        else:
            values = pool.pool_signed(in_turn.without_uncovered(x.astype(wide), window, learnt=True), mask, beta, rule)
    if mask is not None:
        values = jnp.where(in_turn.any_present(mask, window), values, 0)
    elif window.has_footprint:
        # There may be none in windows that end beyond the padding.
        values = jnp.where(window.counts(x.ndim, padding=True) > 0, values, 0)
    return values.astype(dtype)
