"""Logarithms of sums and means of exponentials: differences from a shift, the largest cell of a window.

A value m is kept as a pair of the shift c and its excess r = m - c; their sum is rounded once, at the end. These pairs
are the cells for the next axis. So the exponent β·(x - m) = β·((x - c) - r) of a weight has no rounding error on the
scale of m, which a large β would magnify.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arguments import check_parameter
from jaxpool._call import core, padding_counts, sliding, widened
from jaxpool._derivatives.covered_cells import without_uncovered
from jaxpool._derivatives.padded_zeros import any_present, extremes_with_zeros, with_zeros
from jaxpool._derivatives.parameters import Parameter, expand_rank, shared_along_windows
from jaxpool._derivatives.sums_of_cells import ExactPool, SumsOfCells, Terms, pool_by_sums_of_cells
from jaxpool._derivatives.weighted_pool import weighted_pool
from jaxpool._derivatives.weights import Cells, Filled, Multiplicities, Shift, WeightedPool
from jaxpool._engine.custom_rules import custom_rule
from jaxpool._engine.operations import accumulation_dtype
from jaxpool._engine.platforms import is_portable
from jaxpool._geometry.window import Window


def log_exponentials(
    value: Callable[[Cells, Parameter, Window, Multiplicities, Shift], jax.Array],
    slope: Callable[[Cells, Cells, Parameter], jax.Array],
    slope_factor: Callable[[jax.Array, Parameter], jax.Array],
    is_mean: bool = False,
) -> WeightedPool:
    """A family with weights exp(β·(x - y)), given the excess of y over the largest cell and the slope in β."""
    return WeightedPool(
        value, with_fills, _values_outside, _weight, slope, slope_factor, shift=_largest, is_mean=is_mean
    )


def call_of_exponentials(
    function: str,
    x: ArrayLike,
    beta: float | ArrayLike,
    sizes: Sequence[Any],
    where: ArrayLike | None,
    rule: str,
    count_include_pad: bool,
    zero_allowed: bool = True,
) -> tuple[Any, ...]:
    """Check the call of a sliding-window pool with a β, and return the arguments of its core."""
    include_pad, only_padding = padding_counts(function, count_include_pad)
    array, mask, window = sliding(function, x, sizes, where, rule, only_padding=only_padding)
    words, fix = "finite", "use max_pool or min_pool for an infinite beta"
    if not zero_allowed:
        words, fix = f"{words} and not 0", f"{fix}, avg_pool for the mean"
    shape = window.output_shape(array.shape)
    allowed = partial(_is_sharpness, zero_allowed=zero_allowed)
    parameter, number = check_parameter(function, "beta", beta, shape, allowed, words, fix)
    return array, mask, parameter, window, number, include_pad, rule


def sums_of_exponentials(
    terms: Callable[[jax.Array, float], Terms],
    value: Callable[[Terms, ArrayLike, float], jax.Array],
    kept: int,
    largest_exponent: float = 40.0,
) -> SumsOfCells:
    """A family with parameter β as a function of sums, of which the first is of exp(β·x).

    A sum is moderate if its logarithm is at most the largest exponent in magnitude. An exponential that vanishes has a
    weight below exp(-47) in a sum of exp(-40).
    """
    least, most = math.exp(-largest_exponent), math.exp(largest_exponent)

    def is_moderate(sums: Terms, beta: float) -> jax.Array:
        # For a smaller β, sums are close to the number of cells, and their logarithms lose digits.
        mass, *others = sums[:kept]
        moderate = (mass >= least) & (mass <= most) & (beta >= 2.0**-10)
        return functools.reduce(jnp.logical_and, map(jnp.isfinite, others), moderate)

    return SumsOfCells(terms, value, kept, is_moderate)


def _is_sharpness(beta: np.ndarray, zero_allowed: bool) -> np.ndarray:
    return np.isfinite(beta) & (zero_allowed | (beta != 0))


@core
def pool_log_exponentials(
    x: jax.Array,
    mask: jax.Array | None,
    beta: jax.Array | None,
    window: Window,
    number: float | None,
    include_pad: bool,
    rule: str,
    pool: WeightedPool,
    sums: SumsOfCells,
) -> jax.Array:
    """Pool every window with `beta`, or with `number` if that is None; β < 0 is the pool of -x with -β, negated.

    The magnitude of β is capped, so that excesses, which are of the size of 1/β, are normal numbers.
    """
    x, mask, window, dtype = widened(x, mask, window)
    if include_pad and window.has_padding:
        x, mask, window = with_zeros(x, mask, window)
    x = without_uncovered(x, window, learnt=beta is not None)
    limit = float(jnp.finfo(x.dtype).max) * 2.0**-28

    def one(sign: float | jax.Array, learnt: jax.Array | None, fixed: float | None = None) -> jax.Array:
        return sign * _of_present(sign * x, mask, learnt, fixed, window, pool, rule, dtype)

    if beta is None:
        assert number is not None
        sign, magnitude = math.copysign(1, number), min(abs(number), limit)
        if mask is None:
            exact = _UnderNumber(window, pool, magnitude, dtype)
            values = sign * pool_by_sums_of_cells(sign * x, sums, exact, magnitude, rule)
        else:
            values = one(sign, None, magnitude)
    else:
        beta = expand_rank(beta.astype(x.dtype), x.ndim)
        # The derivative at 0 is that of β.
        magnitude = jnp.minimum(jnp.where(beta < 0, -beta, beta), limit)
        if shared_along_windows(beta, window):
            values = one(jnp.where(beta < 0, -1, 1).astype(x.dtype), magnitude)
        else:
            values = jnp.where(beta < 0, one(-1.0, magnitude), one(1.0, magnitude))
    if mask is not None:
        values = jnp.where(any_present(mask, window), values, 0)
    return values.astype(dtype)


@dataclass(frozen=True)
class _UnderNumber(ExactPool):
    """The pool with a number β > 0 of an array without absent cells; `dtype` is the array's original dtype."""

    pool: WeightedPool
    beta: float
    dtype: np.dtype

    def __call__(self, x: jax.Array, /) -> jax.Array:
        return _of_present(x, None, None, self.beta, self.window, self.pool, "jvp", self.dtype)


def _of_present(
    x: jax.Array,
    mask: jax.Array | None,
    learnt: jax.Array | None,
    number: float | None,
    window: Window,
    pool: WeightedPool,
    rule: str,
    dtype: np.dtype,
) -> jax.Array:
    """The pool of the cells that the mask holds; `dtype`, their original dtype, represents the largest one exactly."""
    cells = x if mask is None else jnp.where(mask, x, -jnp.inf)
    present = _present(mask, window, x.ndim) if pool.is_mean else None
    multiplicity = None if present is None else present.astype(x.dtype)
    return weighted_pool(cells, learnt, window, pool, number, rule, multiplicity, shift_dtype=dtype)


def _present(mask: jax.Array | None, window: Window, rank: int) -> jax.Array | None:
    """Which cells are present; None if windows hold no others."""
    if (
        mask is not None
        or window.zeros
        or all((axis.counts(padding=False) == axis.kernel).all() for axis in window.axes)
    ):
        return mask
    sizes = {axis.axis: axis.size for axis in window.axes}
    return jnp.ones([sizes.get(axis, 1) for axis in range(rank)], bool)


def _weight(cells: Cells, value: Cells, beta: Parameter) -> jax.Array:
    gap, dead = gap_to_value(cells, value)
    return jnp.where(dead, 0, jnp.exp(beta * gap))


def _largest(cells: Cells, window: Window) -> jax.Array:
    """The shift of every window, constant under differentiation, as values do not depend on it."""
    return extremes_with_zeros(lax.stop_gradient(cells[-1]), window, lax.max)


def with_fills(cells: Cells, window: Window) -> list[Filled]:
    """The arrays that make up the cells, each with its padding value; padded cells are absent or zeros."""
    return [*((excess, 0.0) for excess in cells[:-1]), (cells[-1], 0.0 if window.zeros else -math.inf)]


def gap_to_shift(cells: Cells, shift: jax.Array) -> jax.Array:
    """The distances of cells from the shift of a window that holds them; 0 for an infinite cell that is the largest."""
    near, shift = _wide(cells[-1]), _wide(shift)
    same = (near == shift) & jnp.isinf(near) if is_portable() else near == shift
    gap = jnp.where(same, 0, near - shift)
    return gap + cells[0] if len(cells) > 1 else gap


def _values_outside(excess: jax.Array, shift: Shift) -> list[Filled]:
    """The arrays that make up a value, each with its fill for windows outside, in which no cell has weight."""
    assert shift is not None
    return [(excess, 0.0), (shift, math.inf)]


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
