"""Mellowmax pooling: the logarithm of the mean exponential of every window, for β of any sign and 0."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxpool._arguments import Rule
from jaxpool._derivatives.exponentials import (
    call_of_exponentials,
    gap_to_shift,
    gap_to_value,
    log_exponentials,
    pool_log_exponentials,
    sums_of_exponentials,
    with_fills,
)
from jaxpool._derivatives.moments import exponential_less_one, exponential_moment
from jaxpool._derivatives.parameters import Parameter
from jaxpool._derivatives.sums_of_cells import Terms
from jaxpool._derivatives.weights import Cells, Multiplicities, Shift
from jaxpool._engine.maps import sum_terms
from jaxpool._engine.operations import Arrays
from jaxpool._engine.stages import in_one_row
from jaxpool._geometry.sizes import Padding, Sizes
from jaxpool._geometry.window import Window


def mellowmax_pool(
    x: ArrayLike,
    beta: float | ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    axis: Sizes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Mellowmax pooling: the log-mean-exp of every window, between its minimum, mean and maximum.

    Formula, for one pooled axis: y[o] = log(Σ_j exp(β·x[o·stride - low + j·dilation])/n[o])/β, 0 ≤ j < kernel_size,
    with n[o] the cells that take part; the mean for β = 0, smoothly. It is between the mean and the maximum (for β < 0:
    the minimum), and equals `smooth_max_pool` - log(n)/β.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        beta: Sharpness β of any sign, 0 included, in units of 1/x. A finite number, or an array that broadcasts to the
            output (one per channel, say) and may be learnt. Traced values are not checked.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        count_include_pad: Whether padded cells take part, as zeros.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. For channels last: (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for a hand-written backward pass only.

    Returns:
        Array of x's dtype (float32 for integers and bool) and `max_pool`'s shape: a pooled axis of n cells becomes
        floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without `ceil_mode`. float16 and bfloat16
        are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: x, sizes, axes, `beta` and `where` do not match, `beta` is not finite, `rule` is unknown, or a
            window holds only padding, without `count_include_pad`.

    Derivative:
        ∂y/∂x[i] = w[i] = exp(β·(x[i] - y))/n, the softmax of β·x, and ∂y/∂β = Σ w[i]·(x[i] - y)/β, of every order; at
        β = 0 they are 1/n and half the variance of the window. Ties share equally; zeros need no special handling. A
        cell of -inf (for β < 0: +inf) has weight 0, and a window whose value is infinite has derivative 0. NaN stays in
        the windows that hold it. A window that `where` leaves empty is 0 with derivative 0.

    Example:
        >>> x = jnp.array([0.0, 1.0, 2.0, 3.0])
        >>> [jaxpool.mellowmax_pool(x, beta, (4,)).round(3).item() for beta in (-100.0, -1.0, 0.0, 1.0, 100.0)]
        [0.014, 0.946, 1.5, 2.054, 2.986]

    Source: Asadi and Littman, "An alternative softmax operator for reinforcement learning", ICML 2017.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    call = call_of_exponentials("mellowmax_pool", x, beta, sizes, where, rule, count_include_pad)
    return pool_log_exponentials(*call, _LOG_MEAN_EXP, _SUMS)


def _log_mean_exp(
    cells: Cells, beta: Parameter, window: Window, multiplicities: Multiplicities, shift: Shift
) -> jax.Array:
    """The excess of m over its shift c, log(mean exp(β·d))/β with d = x - c, for β ≥ 0.

    With e = mean (exp(β·d) - 1) this is log(1 + e)/β, which has no cancellation for small β, and mean d for β = 0. If e
    is near -1, as it may be in large windows, the first form is used.
    """
    assert shift is not None
    beta = jnp.asarray(beta, cells[0].dtype)
    limits = jnp.finfo(beta.dtype)
    # For a smaller β, products with differences of cells below 1/β would be subnormal.
    is_mean = beta < limits.tiny / limits.eps
    # The largest of a few values may be that of a small share of the cells.
    is_large = window.cells > 16 or (multiplicities is not None and len(cells) > 1)

    def terms(cells: Cells, _: Arrays) -> Arrays:
        gap = jnp.where(jnp.isinf(shift) & ~jnp.isinf(cells[-1]), 0, gap_to_shift(cells, shift))
        product = jnp.where(is_mean, 0, beta) * jnp.where(is_mean, 0, gap)
        return jnp.where(is_mean, gap, exponential_less_one(product)), *([jnp.exp(product)] if is_large else [])

    multiplicity, total = (
        (None, float(window.cells))
        if multiplicities is None
        else (multiplicities[0], jnp.maximum(multiplicities[1], 1))
    )
    mean, *powers = (sums / total for sums in sum_terms(terms, with_fills(cells, window), window, multiplicity))
    logarithm = in_one_row(jnp.log1p, jnp.where(is_mean, 0, mean))
    if is_large:
        logarithm = jnp.where(mean < -0.5, in_one_row(jnp.log, powers[0]), logarithm)
    return jnp.where(is_mean, mean, logarithm / jnp.where(is_mean, 1, beta))


# Notation: x(i) the n cells of one window, β ≥ 0 (a negative β is the same pool of -x with -β, negated),
# m = log(mean exp(β·x(i)))/β, z(i) = β·(x(i) - m), so that mean exp(z) = 1. Then
#
#     ∂m/∂x(i) = exp(z(i))/n
#     ∂m/∂β = (mean x(i)·exp(z(i)) - m)/β = mean z(i)·exp(z(i))/β² = mean (z(i)·exp(z(i)) - exp(z(i)) + 1)/β²
#           = mean (x(i) - m)²·μ(z(i)),     μ(z) = ((z - 1)·exp(z) + 1)/z² = ∫ t·exp(t·z) dt, t from 0 to 1
#
# which has no cancellation, and is half the variance at β = 0. A cell of -inf has weight 0 and adds 1/(n·β²) to the
# second. If m is infinite, all derivatives are 0. +inf marks a cell that is absent.


def _slope(cells: Cells, m: Cells, beta: Parameter) -> jax.Array:
    gap, dead = gap_to_value(cells, m)
    # A cell so far below that gap² overflows adds the same as -inf.
    vanishes = beta * gap < 2 * jnp.log(jnp.finfo(gap.dtype).tiny)
    lowest = (jnp.isneginf(cells[-1]) & ~jnp.isinf(m[-1])) | vanishes
    dead, gap = dead | vanishes, jnp.where(vanishes, 0, gap)
    limit = 1 / jnp.square(jnp.where(lowest, beta, 1))
    return jnp.where(dead, jnp.where(lowest, limit, 0), jnp.square(gap) * exponential_moment(beta * gap, 1))


_LOG_MEAN_EXP = log_exponentials(_log_mean_exp, _slope, lambda m, beta: jnp.ones_like(m), is_mean=True)


def _terms(x: jax.Array, beta: float) -> Terms:
    return jnp.exp(beta * x), exponential_less_one(beta * x)


def _value(sums: Terms, counts: ArrayLike, beta: float) -> jax.Array:
    """log(mean exp(β·x))/β, from the mean of exp(β·x) - 1 if that is given and more accurate.

    That is log(1 + e), which for u = 1 + e, rounded, is log(u)·e/(u - 1), or e if u is 1: a single logarithm for both.
    """
    mean, *less_one = (total / counts for total in sums)
    if not less_one:
        return jnp.log(mean) / beta
    (e,) = less_one
    u = jnp.where(e > -0.5, 1 + e, mean)
    corrected = jnp.where(u == 1, e, jnp.log(u) * e / (u - 1))
    return jnp.where(e > -0.5, corrected, jnp.log(u)) / beta


_SUMS = sums_of_exponentials(_terms, _value, kept=1)
