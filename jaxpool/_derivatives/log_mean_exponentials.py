"""The logarithm of the mean exponential of every window, for β of any sign and 0. Rules in `_derivatives/weights`."""

import jax
import jax.numpy as jnp

from jaxpool._derivatives.exponentials import (
    gap_to_shift,
    gap_to_value,
    log_exponentials,
    pool_log_exponentials,
    with_fills,
)
from jaxpool._derivatives.moments import exponential_less_one, exponential_moment
from jaxpool._derivatives.weights import Amounts, Cells, Parameter, Shift
from jaxpool._engine.maps import sum_terms
from jaxpool._geometry.window import Window


def log_mean_exponentials(
    x: jax.Array,
    mask: jax.Array | None,
    beta: jax.Array | None,
    window: Window,
    number: float | None,
    include_pad: bool,
    rule: str,
) -> jax.Array:
    """The mellowmax of every window under `beta`, or under `number` if that is None."""
    return pool_log_exponentials(x, mask, beta, window, number, include_pad, rule, _LOG_MEAN_EXP)


def _log_mean_exp(cells: Cells, beta: Parameter, window: Window, amounts: Amounts, shift: Shift) -> jax.Array:
    """What m exceeds its shift c by, log(mean exp(β·d))/β with d = x - c, for β ≥ 0.

    With e = mean (exp(β·d) - 1) that is log(1 + e)/β, in which nothing cancels for small β, and mean d for β = 0.
    Where e is near -1, as it may be in large windows, the first form is taken.
    """
    assert shift is not None
    beta = jnp.asarray(beta, cells[0].dtype)
    limits = jnp.finfo(beta.dtype)
    # No product with a smaller one, short of a difference of cells beyond its inverse, would be a normal number.
    is_mean = beta < limits.tiny / limits.eps
    is_large = window.cells > 16

    def terms(*cells: jax.Array) -> tuple[jax.Array, ...]:
        gap = jnp.where(jnp.isinf(shift) & ~jnp.isinf(cells[-1]), 0, gap_to_shift(cells, shift))
        product = jnp.where(is_mean, 0, beta) * jnp.where(is_mean, 0, gap)
        return jnp.where(is_mean, gap, exponential_less_one(product)), *([jnp.exp(product)] if is_large else [])

    amount, total = (None, float(window.cells)) if amounts is None else (amounts[0], jnp.maximum(amounts[1], 1))
    mean, *powers = (sums / total for sums in sum_terms(terms, with_fills(cells), window, amount))
    logarithm = jnp.log1p(jnp.where(is_mean, 0, mean))
    if is_large:
        logarithm = jnp.where(mean < -0.5, jnp.log(powers[0]), logarithm)
    return jnp.where(is_mean, mean, logarithm / jnp.where(is_mean, 1, beta))


# Notation: x(i) the cells of one window, n of them, β ≥ 0 (a negative β is the same pool of -x under -β, negated),
# m = log(mean exp(β·x(i)))/β, z(i) = β·(x(i) - m), so that mean exp(z) = 1. Then
#
#     ∂m/∂x(i) = exp(z(i))/n
#     ∂m/∂β = (mean x(i)·exp(z(i)) - m)/β = mean z(i)·exp(z(i))/β² = mean (z(i)·exp(z(i)) - exp(z(i)) + 1)/β²
#           = mean (x(i) - m)²·μ(z(i)),     μ(z) = ((z - 1)·exp(z) + 1)/z² = ∫ t·exp(t·z) dt, t from 0 to 1
#
# in which nothing cancels, and which is half the variance at β = 0. A cell of -inf has weight 0 and adds 1/(n·β²) to
# the second. Where m is infinite all derivatives are 0; and +inf stands for a cell that is absent.


def _slope(cells: Cells, m: Cells, beta: Parameter) -> jax.Array:
    gap, dead = gap_to_value(cells, m)
    # Far below, where gap² overflows, a cell adds what -inf does.
    vanishes = beta * gap < 2 * jnp.log(jnp.finfo(gap.dtype).tiny)
    lowest = (jnp.isneginf(cells[-1]) & ~jnp.isinf(m[-1])) | vanishes
    dead, gap = dead | vanishes, jnp.where(vanishes, 0, gap)
    limit = 1 / jnp.square(jnp.where(lowest, beta, 1))
    return jnp.where(dead, jnp.where(lowest, limit, 0), jnp.square(gap) * exponential_moment(beta * gap, 1))


_LOG_MEAN_EXP = log_exponentials(_log_mean_exp, _slope, lambda m, beta: jnp.ones_like(m), is_mean=True)
