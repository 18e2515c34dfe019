"""Smooth maxima, mellowmax and soft means: logarithms of sums and means of exponentials, and means weighted by them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._call import core, padding_counts, sliding, widened
from jaxpool._checks import Rule, check_parameter
from jaxpool._jax.linear_map import custom_rule, is_symbolic_zero, with_rule
from jaxpool._kernels import KernelSize
from jaxpool._sharding import vary_together
from jaxpool._sizes import Axes, Padding, Sizes
from jaxpool._window import Window
from jaxpool._windows.cells import with_zeros_in_padding
from jaxpool._windows.choices import reduce_windows
from jaxpool._windows.operations import Arrays, in_range, is_infinite
from jaxpool._windows.pairs import MOST_AT_ONCE, Product, Term, reciprocal, sum_over_cells, weighed


def smooth_max_pool(
    x: ArrayLike,
    beta: float | ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Log-sum-exp pooling: the smooth maximum of every window, or the smooth minimum for negative β.

    Formula along an axis: y[o] = log(Σ_j exp(β·x[o·stride - low + j·dilation]))/β, 0 ≤ j < kernel_size. It exceeds the
    maximum (for β < 0: it is below the minimum) by at most log(cells)/|β|, and tends to it as |β| grows. Computed
    relative to the extreme of each window, it does not overflow. Masked cells take no part.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        beta: Sharpness β ≠ 0, in units of 1/x. A finite number, or a learnable array that broadcasts to the output (one
            per channel, say). Traced values are not checked.
        kernel_size, stride, padding, dilation, ceil_mode: As in `max_pool`.
        count_include_pad: Whether padded cells take part, as zeros. If not, the limits are `max_pool` and `min_pool`.
        axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `beta` is 0 or not finite, `rule` is unknown, or a window holds only
            padding, without `count_include_pad`.

    Derivative:
        ∂y/∂x[i] = w[i] = exp(β·(x[i] - y)), the softmax of β·x, and ∂y/∂β = Σ w[i]·(x[i] - y)/β, exact at every order.
        Computed relative to the extreme of the window, weights add up to 1 for every β, to rounding. Ties share
        equally; zeros are ordinary. A cell of -inf (for β < 0: +inf) has weight 0; a window whose value is infinite has
        derivative 0. NaN stays in its windows. A window where no cell or padding takes part is 0 with derivative 0.

    Example:
        >>> x = jnp.array([0.0, 1.0, 2.0, 3.0])
        >>> [jaxpool.smooth_max_pool(x, beta, (2,)).tolist() for beta in (1.0, -1.0)]
        [[1.31326, 3.31326], [-0.31326, 1.68674]]

    Source: Boyd and Vandenberghe, "Convex optimization", 2004, section 3.1.5; as pooling: Pinheiro and Collobert, "From
    image-level to pixel-level labeling with convolutional networks", CVPR 2015.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _parse("smooth_max_pool", x, beta, sizes, where, rule, count_include_pad, _log_sum_exp)


def mellowmax_pool(
    x: ArrayLike,
    beta: float | ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Mellowmax pooling: the log-mean-exp of every window, between its minimum, mean and maximum.

    Formula along an axis: y[o] = log(Σ_j exp(β·x[o·stride - low + j·dilation])/n[o])/β, 0 ≤ j < kernel_size, with n[o]
    the cells that take part. At β = 0 it is, smoothly, the mean; elsewhere it is between the mean and the maximum (for
    β < 0: the minimum). It equals `smooth_max_pool` - log(n)/β.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        beta: Sharpness β of any sign, 0 included, in units of 1/x. A finite number, or a learnable array that
            broadcasts to the output (one per channel, say). Traced values are not checked.
        kernel_size, stride, padding, dilation, ceil_mode: As in `max_pool`.
        count_include_pad: Whether padded cells take part, as zeros.
        axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `beta` is not finite, `rule` is unknown, or a window holds only padding,
            without `count_include_pad`.

    Derivative:
        ∂y/∂x[i] = w[i] = exp(β·(x[i] - y))/n, the softmax of β·x, and ∂y/∂β = Σ w[i]·(x[i] - y)/β, exact at every
        order; at β = 0 they are 1/n and half the variance of the window. Ties share equally; zeros are ordinary. A cell
        of -inf (for β < 0: +inf) has weight 0; a window whose value is infinite has derivative 0. NaN stays in its
        windows. A window that `where` empties is 0 with derivative 0.

    Example:
        >>> x = jnp.array([0.0, 1.0, 2.0, 3.0])
        >>> [jaxpool.mellowmax_pool(x, beta, (4,)).round(3).item() for beta in (-100.0, -1.0, 0.0, 1.0, 100.0)]
        [0.014, 0.946, 1.5, 2.054, 2.986]

    Source: Asadi and Littman, "An alternative softmax operator for reinforcement learning", ICML 2017.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _parse("mellowmax_pool", x, beta, sizes, where, rule, count_include_pad, _log_mean_exp)


def soft_pool(
    x: ArrayLike,
    beta: float | ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Softmax-weighted pooling (SoftPool): the mean of each window, weighted by the softmax of its own cells.

    Formula along an axis: y[o] = Σ_j w[j]·x[j] over the cells of window o, w[j] = exp(β·x[j])/Σ_k exp(β·x[k]). It is
    the mean for β = 0, and tends to the maximum for β → ∞, to the minimum for β → -∞.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        beta: Sharpness β of any sign, 0 included, in units of 1/x (1 in the source). A finite number, or a learnable
            array that broadcasts to the output (one per channel, say). Traced values are not checked.
        kernel_size, stride, padding, dilation, ceil_mode: As in `max_pool`.
        count_include_pad: Whether padded cells take part, as zeros.
        axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `beta` is not finite, `rule` is unknown, or a window holds only padding,
            without `count_include_pad`.

    Derivative:
        ∂y/∂x[i] = w[i]·(1 + β·(x[i] - y)) and ∂y/∂β = Σ w[i]·(x[i] - y)², exact at every order. Ties share equally;
        zeros are ordinary. A cell of -inf (for β < 0: +inf) has weight 0; a window whose value is infinite has
        derivative 0. NaN stays in its windows. A window that `where` empties is 0 with derivative 0.

    Example:
        >>> x = jnp.array([0.0, 1.0, 2.0, 3.0])
        >>> [jaxpool.soft_pool(x, beta, (4,)).round(3).item() for beta in (-100.0, -1.0, 0.0, 1.0, 100.0)]
        [0.0, 0.507, 1.5, 2.493, 3.0]

    Source: Stergiou, Poppe and Kalliatakis, "Refining activation downsampling with SoftPool", ICCV 2021.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _parse("soft_pool", x, beta, sizes, where, rule, count_include_pad, _soft_mean)


# The pool of x, β and the mask; the windows, and whether β is known to be positive (1), negative (-1) or neither (0).
_Family = Callable[..., jax.Array]


def _parse(
    function: str,
    x: ArrayLike,
    beta: float | ArrayLike,
    sizes: Sequence[Any],
    where: ArrayLike | None,
    rule: str,
    count_include_pad: bool,
    family: _Family,
) -> jax.Array:
    include_pad, only_padding = padding_counts(function, count_include_pad)
    array, mask, window = sliding(function, x, sizes, where, rule, only_padding=only_padding)
    words, fix, zero_allowed = "finite", "use max_pool or min_pool for an infinite beta", family is not _log_sum_exp
    if not zero_allowed:
        words, fix = f"{words} and not 0", f"{fix}, avg_pool for the mean"
    shape = window.output_shape(array.shape)
    parameter, number = check_parameter(
        function, "beta", beta, shape, lambda beta: np.isfinite(beta) & (zero_allowed | (beta != 0)), words, fix
    )
    return _pool(array, mask, parameter, window, number, include_pad, rule, family)


@core
def _pool(
    x: jax.Array,
    mask: jax.Array | None,
    beta: jax.Array | None,
    window: Window,
    number: float | None,
    include_pad: bool,
    rule: str,
    family: _Family,
) -> jax.Array:
    """Pool every window with `beta`, or with `number` if that is None."""
    x, mask, window, dtype = widened(x, mask, window)
    if include_pad and window.has_padding:
        x, mask, window = with_zeros_in_padding(x, mask, window)
    if beta is None:
        assert number is not None
        constant, sign = np.full((1,) * x.ndim, in_range(number, x.dtype), x.dtype), -1 if number < 0 else 1
        values = with_rule(rule, lambda x, mask: family(x, jnp.asarray(constant), mask, window, sign))(x, mask)
    else:
        x, beta = vary_together(x, lax.expand_dims(beta.astype(x.dtype), range(x.ndim - beta.ndim)))
        values = with_rule(rule, partial(family, window=window, sign=0))(x, beta, mask)
    return values.astype(dtype)


# Notation: x(i) the n cells of one window, c the cell for which β·x is largest, e(i) = exp(β·(x(i) - c)), S = Σ e(i),
# w(i) = e(i)/S. No exponential overflows, and S ≥ 1. c is constant under differentiation, as no pool depends on it: a
# smooth maximum is s, a mellowmax m, and a soft mean y,
#
#     s = c + log(S)/β        ṡ = Σ w(i)·ẋ(i) + β̇·Σ w(i)·(x(i) - s)/β
#     m = c + log(S/n)/β      ṁ = Σ w(i)·ẋ(i) + β̇·Σ (x(i) - m)²·μ(β·(x(i) - m))/n
#     y = Σ w(i)·x(i)         ẏ = Σ w(i)·(1 + β·(x(i) - y))·ẋ(i) + β̇·Σ w(i)·(x(i) - y)²
#
# All are sums over pairs, and so are their derivatives. As e(i) is the product of exp(β·x(i)) and exp(-β·c), they may
# be added up as plain sums where neither factor is large or small. ∂m/∂β has no cancellation: with z = β·(x - m), for
# which mean exp(z) = 1, it is mean z·exp(z)/β² = mean (z·exp(z) - exp(z) + 1)/β² = mean (x - m)²·μ(z), where μ(z) is
# the integral of t·exp(t·z) over t from 0 to 1. An infinite cell that is not c has weight 0. If c is infinite, so is
# the value, and all derivatives are 0.


def _most_weighty(x: jax.Array, beta: jax.Array, present: jax.Array | None, window: Window, sign: int) -> jax.Array:
    """The cell c of every window: the largest, or for β < 0 the smallest; 0 where none is present."""

    def extreme(op: Any, absent: float) -> jax.Array:
        cells = lax.stop_gradient(x)
        return reduce_windows(cells if present is None else jnp.where(present, cells, absent), window, op)

    if sign:
        near = extreme(lax.max, -np.inf) if sign > 0 else extreme(lax.min, np.inf)
    else:
        near = jnp.where(beta < 0, extreme(lax.min, np.inf), extreme(lax.max, -np.inf))
    if present is not None:
        return jnp.where(reduce_windows(present, window, lax.max), near, 0)
    # Windows of a footprint may end beyond the padding, without a cell.
    return jnp.where(window.counts(x.ndim, padding=False) > 0, near, 0) if window.has_footprint else near


def _gap(x: jax.Array, near: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The distance x - c, and whether neither is infinite; 0 if one is."""
    is_finite = ~(is_infinite(x) | is_infinite(near))
    return jnp.where(is_finite, x - near, 0), is_finite


def _exponential(x: jax.Array, near: jax.Array, beta: jax.Array) -> jax.Array:
    """Exponentials e of cells; 0 for infinite ones, unless β is 0."""
    gap, is_finite = _gap(x, near)
    return jnp.where(is_finite, jnp.exp(beta * gap), (beta == 0).astype(x.dtype))


def _as_product(term: Product, beta: jax.Array, window: Window) -> Term:
    """The term as a product, if β is one number along the pooled axes, on which exp(β·x) then depends."""
    return term if all(beta.shape[axis] == 1 for axis in window.pooled_axes) else term.direct


# The terms get arrays of cells, and then of windows.

_MASS = Product(
    lambda x, near, beta: (_exponential(x, near, beta),),
    lambda x, near, beta: (jnp.exp(beta * x),),
    lambda sums, x, near, beta: (jnp.exp(-beta * near) * sums[0],),
    lambda x, near, beta: jnp.abs(beta * near) <= 40,
)


def _log_sum_exp(x: jax.Array, beta: jax.Array, present: jax.Array | None, window: Window, sign: int) -> jax.Array:
    near = _most_weighty(x, beta, present, window, sign)
    return near + _excess(window, False, x, near, beta, jnp.ones_like(beta), present)


def _log_mean_exp(x: jax.Array, beta: jax.Array, present: jax.Array | None, window: Window, sign: int) -> jax.Array:
    near = _most_weighty(x, beta, present, window, sign)
    # Exponentials that are neither large nor all small need no c.
    near = jnp.where(((beta * near >= -2) & (beta * near <= 40)) | (_is_tiny(beta) & ~jnp.isnan(near)), 0, near)
    if present is None:
        count = jnp.asarray(window.counts(x.ndim, padding=False), x.dtype)
    else:
        count = reduce_windows(present.astype(x.dtype), window, lax.add)
    return near + _excess(window, True, x, near, beta, jnp.maximum(count, 1), present)


@custom_rule((0, 1))
def _excess(
    window: Window,
    is_mean: bool,
    x: jax.Array,
    near: jax.Array,
    beta: jax.Array,
    count: jax.Array,
    present: jax.Array | None,
) -> jax.Array:
    """The value r of the pool less c, log(S/n)/β; n is 1 for a sum."""

    def total(term: Product) -> jax.Array:
        return sum_over_cells(_as_product(term, beta, window), (x,), (near, beta), window, present)[0]

    if not is_mean:
        mass = total(_MASS)
        # A window whose value is infinite, or that has no cell, has no exponentials.
        return jnp.log(jnp.where(mass == 0, 1, mass)) / beta
    # log(1 + mean (e - 1)), which has no cancellation for small β, and for β = 0 the mean of the cells themselves. Of
    # few cells that mean is not so close to -1 that digits are lost.
    mean, is_tiny = total(_LESS_ONE) / count, _is_tiny(beta)
    mass = 1 + mean if window.cells <= MOST_AT_ONCE else total(_MASS) / count
    is_small = mean < -0.5
    logarithm = jnp.where(is_small, jnp.log(jnp.where(mass > 0, mass, 1)), jnp.log1p(jnp.where(is_small, 0, mean)))
    excess = jnp.where(is_tiny, mean, logarithm / jnp.where(is_tiny, 1, beta))
    return jnp.where(is_infinite(near), 0, excess)


@partial(_excess.defjvp, symbolic_zeros=True)
def _excess_jvp(window: Window, is_mean: bool, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (x, near, beta, count, present), (x_dot, _, beta_dot, *_) = primals, tangents
    excess = _excess(window, is_mean, *primals)
    # A value that is infinite, like a c, passes no derivative.
    is_finite, dots = jnp.isfinite(excess), list[jax.Array]()
    near = jnp.where(is_finite | jnp.isnan(near), near, jnp.inf)
    windows = near, jnp.where(is_finite, excess, 0), beta
    if not is_symbolic_zero(x_dot):
        term = _as_product(_EXCESS_BY_CELLS, beta, window)
        dots += sum_over_cells(term, (x, x_dot), windows, window, present)
    if not is_symbolic_zero(beta_dot):
        term = _log_mean_by_beta if is_mean else _log_sum_by_beta
        dots.append(sum_over_cells(term, (x,), windows, window, present)[0] * beta_dot)
    return excess, sum(dots[1:], dots[0]) / count


def _is_tiny(beta: jax.Array) -> jax.Array:
    """Whether products with β may be subnormal."""
    limits = jnp.finfo(beta.dtype)
    return jnp.abs(beta) < float(limits.tiny / limits.eps)


def _exponential_less_one(x: jax.Array, near: jax.Array, beta: jax.Array) -> jax.Array:
    (gap, is_finite), is_tiny = _gap(x, near), _is_tiny(beta)
    less_one = jnp.where(is_finite, jnp.expm1(jnp.where(is_tiny, 0, beta * gap)), -1)
    return jnp.where(is_tiny, x - near, less_one)


def _weight(x: jax.Array, near: jax.Array, excess: jax.Array, beta: jax.Array) -> tuple[jax.Array, jax.Array]:
    """n·w = exp(β·(x - c - r)), and x - c - r, both 0 for a cell without weight."""
    gap, is_finite = _gap(x, near)
    gap -= excess
    has_weight = is_finite & ~(beta * gap <= math.log(float(jnp.finfo(x.dtype).tiny)))
    gap = jnp.where(has_weight, gap, 0)
    return jnp.where(has_weight, jnp.exp(beta * gap), 0), gap


_LESS_ONE = Product(
    lambda x, near, beta: (_exponential_less_one(x, near, beta),),
    lambda x, near, beta: (_exponential_less_one(x, jnp.zeros_like(x), beta),),
    lambda sums, x, near, beta: sums,
    lambda x, near, beta: near == 0,
)
_EXCESS_BY_CELLS = Product(
    lambda x, dot, near, excess, beta: (_weight(x, near, excess, beta)[0] * dot,),
    lambda x, dot, near, excess, beta: (jnp.exp(beta * x) * dot,),
    lambda sums, x, dot, near, excess, beta: (jnp.exp(-beta * (near + excess)) * sums[0],),
    lambda x, dot, near, excess, beta: (jnp.abs(beta * near) <= 40) & jnp.isfinite(excess),
)


def _log_sum_by_beta(x: jax.Array, near: jax.Array, excess: jax.Array, beta: jax.Array) -> Arrays:
    weight, gap = _weight(x, near, excess, beta)
    return (weight * gap / beta,)


def _log_mean_by_beta(x: jax.Array, near: jax.Array, excess: jax.Array, beta: jax.Array) -> Arrays:
    weight, gap = _weight(x, near, excess, beta)
    # Of a cell without weight (x - m)²·μ is 1/β².
    limit = jnp.where(is_infinite(near), 0, jnp.square(reciprocal(beta)))
    return (jnp.where(weight == 0, limit, jnp.square(gap) * _moment(beta * gap, 1)),)


def _soft_mean(x: jax.Array, beta: jax.Array, present: jax.Array | None, window: Window, sign: int) -> jax.Array:
    near = _most_weighty(x, beta, present, window, sign)
    near = jnp.where(is_infinite(near) & (beta == 0), 0, near)
    term = _as_product(_MASS_AND_MOMENT, beta, window)
    mass, moment = sum_over_cells(term, (x,), (near, beta), window, present, results=2)
    mean = _mean_by_exponentials(window, x, near, beta, mass, moment, present)
    return jnp.where(is_infinite(near), near, near + mean)


@custom_rule((0,))
def _mean_by_exponentials(
    window: Window,
    x: jax.Array,
    near: jax.Array,
    beta: jax.Array,
    mass: jax.Array,
    moment: jax.Array,
    present: jax.Array | None,
) -> jax.Array:
    """The mean y less c, which a large β would magnify rounding errors of."""
    return moment * reciprocal(mass)


@partial(_mean_by_exponentials.defjvp, symbolic_zeros=True)
def _mean_by_exponentials_jvp(window: Window, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (x, near, beta, mass, _, present), (x_dot, _, beta_dot, *_) = primals, tangents
    mean = _mean_by_exponentials(window, *primals)
    has_slope = ~(is_infinite(near) | is_infinite(mean))
    windows, dots = (near, beta, jnp.where(has_slope, mean, 0)), list[jax.Array]()
    if not is_symbolic_zero(x_dot):
        term = _as_product(_MEAN_BY_CELLS, beta, window)
        dots += sum_over_cells(term, (x, x_dot), windows, window, present)
    if not is_symbolic_zero(beta_dot):
        dots.append(sum_over_cells(_mean_by_beta, (x,), windows, window, present)[0] * beta_dot)
    return mean, jnp.where(has_slope, reciprocal(mass), 0) * sum(dots[1:], dots[0])


def _moderate_mass_and_moment(sums: Arrays, x: jax.Array, near: jax.Array, beta: jax.Array) -> Arrays:
    mass = jnp.exp(-beta * near) * sums[0]
    return mass, mass * (sums[1] * reciprocal(sums[0]) - near)


_MASS_AND_MOMENT = Product(
    lambda x, near, beta: (_exponential(x, near, beta), weighed(_exponential(x, near, beta), x - near)),
    lambda x, near, beta: (jnp.exp(beta * x), weighed(jnp.exp(beta * x), x)),
    _moderate_mass_and_moment,
    lambda x, near, beta: jnp.abs(beta * near) <= 16,
)
_MEAN_BY_CELLS = Product(
    lambda x, dot, near, beta, mean: (_exponential(x, near, beta) * (1 + beta * (_gap(x, near)[0] - mean)) * dot,),
    lambda x, dot, near, beta, mean: (jnp.exp(beta * x) * dot, weighed(jnp.exp(beta * x), x) * dot),
    lambda sums, x, dot, near, beta, mean: (
        jnp.exp(-beta * near) * ((1 - beta * (near + mean)) * sums[0] + beta * sums[1]),
    ),
    # A difference of terms of order β·x.
    lambda x, dot, near, beta, mean: jnp.abs(beta * near) <= 16,
)


def _mean_by_beta(x: jax.Array, near: jax.Array, beta: jax.Array, mean: jax.Array) -> Arrays:
    weight = _exponential(x, near, beta)
    # A cell without weight may be far away.
    return (weight * jnp.square(jnp.where(weight == 0, 0, _gap(x, near)[0] - mean)),)


# With the moments μ_k(z) = ∫ t^k·exp(t·z) dt for t from 0 to 1, and k = 0, 1, …,
#
#     μ_k' = μ_{k+1}     μ_0 = (exp(z) - 1)/z     μ_k = (exp(z) - k·μ_{k-1})/z     μ_k = Σ_j z^j/(j!·(j + k + 1))
#
# so the derivative of each needs only the next one, and μ = μ_1. The third formula is used upwards for |z| > 1, where
# it is stable for the few k that derivatives need; the fourth for other z, where the third would divide 0 by 0.


@custom_rule((1,))
def _moment(z: jax.Array, order: int) -> jax.Array:
    """The moment μ_order(z), for real z of any sign; differentiable to every order."""
    near = jnp.abs(z) <= 1
    small, large = jnp.where(near, z, 0), jnp.where(near, 1, z)
    series, exponential = _moment_near_0(small, order), jnp.exp(large)
    moment = (exponential - 1) / large
    for k in range(1, order + 1):
        moment = (exponential - k * moment) / large
    return jnp.where(near, series, moment)


def _moment_near_0(z: jax.Array, order: int) -> jax.Array:
    """The moment for |z| ≤ 1, where the first omitted term of the series is below a rounding error."""
    count = 18 if jnp.finfo(z.dtype).bits == 64 else 10
    series = jnp.zeros_like(z)
    for power in reversed(range(count)):
        series = series * z + 1 / (math.factorial(power) * (power + order + 1))
    return series


@_moment.defjvp
def _moment_jvp(order: int, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (z,), (z_dot,) = primals, tangents
    return _moment(z, order), _moment(z, order + 1) * z_dot
