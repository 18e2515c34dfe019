"""Logarithms of sums and means of exponentials: differences from a shift, the largest cell of a window.

A value m is kept as a pair of the shift c and its excess r = m - c; their sum is rounded once, at the end. These pairs
are the cells for the next axis. So the exponent β·(x - m) = β·((x - c) - r) of a weight has no rounding error on the
scale of m, which a large β would magnify.
"""

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arguments import check_parameter
from jaxpool._call import core, padding_counts, sliding, widened
from jaxpool._derivatives.in_turn import (
    any_present,
    exponentials_order,
    extremes_with_zeros,
    is_shared,
    with_zeros,
    without_uncovered,
)
from jaxpool._derivatives.moderate_sums import SumsOfCells, Terms, pool_by_sums_of_cells
from jaxpool._derivatives.pairs import Filled
from jaxpool._derivatives.parametric import Cells, Parameter, ParametricPool, parametric_pool
from jaxpool._derivatives.rules import custom_rule
from jaxpool._engine.operations import Arrays, accumulation_dtype
from jaxpool._engine.platforms import is_portable
from jaxpool._engine.stages import materialize
from jaxpool._engine.window_offsets import present_cells
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
    # Whether the derivative with respect to β loses no digits as a difference of sums: not if it is a variance.
    sums_learnt: ClassVar[bool] = False
    # The largest β, as a share of the largest number.
    largest_beta: ClassVar[float] = 1.0
    largest_exponent: ClassVar[float] = 40.0

    @abc.abstractmethod
    def pool_present(self, x: jax.Array, mask: jax.Array | None, beta: jax.Array | None, rule: str) -> jax.Array:
        """The pool of the cells that the mask holds."""

    def exact(self, x: jax.Array, *beta: jax.Array) -> jax.Array:
        return self.pool_signed(x, None, beta[0], "jvp") if beta else self.pool_present(x, None, None, "jvp")

    def pool_signed(self, x: jax.Array, mask: jax.Array | None, beta: jax.Array, rule: str) -> jax.Array:
        """The pool for β of any sign; for β < 0 it is that of -x with -β, negated."""
        limits = jnp.finfo(x.dtype)
        # The derivative at 0 is that of β.
        magnitude = jnp.minimum(jnp.where(beta < 0, -beta, beta), float(limits.max) * self.largest_beta)
        magnitude = magnitude if self.zero_allowed else jnp.maximum(magnitude, float(limits.tiny))

        def pool(sign: float | jax.Array) -> jax.Array:
            return sign * self.pool_present(sign * x, mask, magnitude, rule)

        if is_shared(beta, self.window):
            return pool(jnp.where(beta < 0, -1, 1).astype(x.dtype))
        return jnp.where(beta < 0, pool(-1.0), pool(1.0))

    def parameters(self, *cells: jax.Array) -> Terms:
        return cells[1:]

    def is_moderate(self, sums: Terms) -> jax.Array:
        least, most = math.exp(-self.largest_exponent), math.exp(self.largest_exponent)
        mass, *others = sums[: self.kept]
        return reduce(jnp.logical_and, map(jnp.isfinite, others), (mass >= least) & (mass <= most))

    def are_moderate(self, x: jax.Array, *beta: jax.Array) -> jax.Array:
        # For a smaller β, sums are close to the number of cells, and their logarithms lose digits.
        return jnp.abs(jnp.asarray(beta[0] if beta else self.beta)) >= 2.0**-10

    @property
    def beta(self) -> float:
        assert self.number is not None
        return self.number


@dataclass(frozen=True)
class LogExponentials(ExponentialPool, ParametricPool):
    """A family with weights exp(β·(x - y)), whose values are excesses over the largest cells, exact in `dtype`.

    Excesses, which are of the size of 1/β, are normal numbers.
    """

    kept = 1
    largest_beta = 2.0**-28

    @property
    def in_turn(self) -> tuple[Window, ...]:
        return exponentials_order(self.window)

    def pool_present(self, x: jax.Array, mask: jax.Array | None, beta: jax.Array | None, rule: str) -> jax.Array:
        cells = x if mask is None else jnp.where(mask, x, -jnp.inf)
        present = present_cells(mask, self.window, x.ndim) if self.is_mean else None
        return parametric_pool(cells, beta, self, rule, None if present is None else present.astype(x.dtype))

    @property
    def shift_dtype(self) -> np.dtype:
        return self.dtype

    def shift(self, cells: Cells, part: Window) -> jax.Array:
        # Constant under differentiation, as values do not depend on it.
        largest = extremes_with_zeros(lax.stop_gradient(cells[-1]), part, lax.max)
        return materialize(largest.astype(self.dtype))

    def fill_cells(self, cells: Cells, window: Window) -> list[Filled]:
        """Padded cells are absent or zeros."""
        return [*((excess, 0.0) for excess in cells[:-1]), (cells[-1], 0.0 if window.zeros else -math.inf)]

    def fill_windows(self, windows: Arrays) -> list[Filled]:
        return list(zip(windows, (0.0, math.inf, 1.0), strict=False))

    def weight(self, cells: Arrays, outputs: Arrays, parameter: Parameter) -> jax.Array:
        gap, dead = gap_to_value(cells, outputs)
        return jnp.where(dead, 0, jnp.exp(parameter * gap))


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
    x, mask, window, dtype = widened(x, mask, window)
    if include_pad and window.has_padding:
        x, mask, window = with_zeros(x, mask, window)
    x = without_uncovered(x, window, learnt=beta is not None)
    if number is not None:
        limits, sign = jnp.finfo(x.dtype), math.copysign(1, number)
        least = 0.0 if family.zero_allowed else float(limits.tiny)
        pool = family(window, min(max(abs(number), least), float(limits.max) * family.largest_beta), dtype)
        if mask is None:
            values = sign * pool_by_sums_of_cells(pool, rule, sign * x)
        else:
            values = sign * pool.pool_present(sign * x, mask, None, rule)
    else:
        assert beta is not None
        pool, beta = family(window, None, dtype), lax.expand_dims(beta.astype(x.dtype), range(x.ndim - beta.ndim))
        if mask is None and family.sums_learnt and is_shared(beta, window):
            # As many as slabs of x may be cut into.
            batch = 1 if 0 in window.pooled_axes else x.shape[0]
            beta = jnp.broadcast_to(beta, (batch, *beta.shape[1:]))
            values = pool_by_sums_of_cells(pool, rule, x, vary_with(beta, x))
        else:
            values = pool.pool_signed(x, mask, beta, rule)
    if mask is not None:
        values = jnp.where(any_present(mask, window), values, 0)
    elif window.has_footprint and not (held := window.counts(x.ndim, padding=True)).all():
        # In windows that end beyond the padding.
        values = jnp.where(held > 0, values, 0)
    return values.astype(dtype)


def gap_to_shift(cells: Cells, shift: jax.Array) -> jax.Array:
    """The distances of cells from the shift of a window that holds them; 0 for an infinite cell that is the largest."""
    near, shift = _wide(cells[-1]), _wide(shift)
    same = (near == shift) & jnp.isinf(near) if is_portable() else near == shift
    gap = jnp.where(same, 0, near - shift)
    return gap + cells[0] if len(cells) > 1 else gap


def gap_to_value(cells: Cells, value: Cells) -> tuple[jax.Array, jax.Array]:
    """The distances of cells from the value of a window, which need not hold them, and which cells have no weight.

    Infinite cells, and cells of windows with an infinite value, have no weight; they are replaced by 0 here.
    """
    excess, shift = value[0], _wide(value[1])
    near = _wide(cells[-1])
    dead = jnp.isinf(near) | jnp.isinf(shift)
    gap = difference(jnp.where(dead, 0, near), jnp.where(dead, 0, shift), True)
    if len(cells) > 1:
        gap += cells[0]
    return gap - excess, dead


def _wide(array: jax.Array) -> jax.Array:
    return array.astype(accumulation_dtype(array.dtype))


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
