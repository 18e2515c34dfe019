"""Means with weights from another array: the weights themselves, or softmax weights from logits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._call import LESS_PADDING, core, in_floats, sliding
from jaxpool._checks import Rule, check_array, fit_to_cells
from jaxpool._jax.linear_map import custom_rule, is_symbolic_zero, with_rule
from jaxpool._kernels import KernelSize
from jaxpool._sizes import Axes, Padding, Sizes
from jaxpool._window import Window
from jaxpool._windows.choices import reduce_windows
from jaxpool._windows.operations import Arrays, accumulation_dtype
from jaxpool._windows.pairs import Product, Term, finite, in_turn, reciprocal, sum_over_cells, weighed


def weighted_pool(
    x: ArrayLike,
    weights: ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Weighted average pooling: the mean of each window, weighted by another array, such as confidences.

    Formula along an axis: y[o] = Σ_j w[i]·x[i] / Σ_j w[i] over the cells i = o·stride - low + j·dilation of
    window o, 0 ≤ j < kernel_size. With weights of 0 and 1 it is `avg_pool` of the cells that have 1. Padding has no
    weight. A cell of weight 0 adds nothing, whatever it holds; a window whose weights add up to 0 is 0.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        weights: Weights w ≥ 0, in any unit: a learnable array of floats, integers or bool that broadcasts to x.shape.
            Only their ratios matter. Negative weights are used as they are.
        kernel_size, stride, padding, dilation, ceil_mode, axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y/∂x[i] = w[i]/Σ w and ∂y/∂w[i] = (x[i] - y)/Σ w, exact at every order. Ties and zeros are ordinary. NaN stays
        in its windows. Where y is not finite, its derivative with respect to the weights is 0, and so is that with
        respect to the weight of a cell that is not finite. Windows with a NaN weight pass nothing to cells. A window
        whose weights add up to 0, or that `where` empties, is 0 with derivative 0.

    Example:
        >>> x = jnp.array([1.0, 5.0, 2.0, 8.0])
        >>> jaxpool.weighted_pool(x, jnp.array([3.0, 1.0, 0.0, 0.0]), (2,))
        Array([2., 0.], dtype=float32)
        >>> jax.grad(lambda w: jaxpool.weighted_pool(x, w, (2,)).sum())(jnp.array([3.0, 1.0, 0.5, 0.5]))
        Array([-0.25,  0.75, -3.  ,  3.  ], dtype=float32)

    Source: Knutsson and Westin, "Normalized and differential convolution", CVPR 1993.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _pool("weighted_pool", x, "weights", weights, sizes, where, rule)


def attention_pool(
    x: ArrayLike,
    logits: ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Attention pooling, or local importance pooling (LIP): the mean of each window, weighted by the softmax of logits.

    Formula along an axis: y[o] = Σ_j w[i]·x[i], w[i] = exp(l[i])/Σ_j exp(l[i]), over the cells i = o·stride -
    low + j·dilation of window o, 0 ≤ j < kernel_size. With logits β·x it is `soft_pool`, and it is `weighted_pool` with
    the weights exp(l). Padding has no weight.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        logits: Logarithms of weights, in nats: a learnable array of floats, integers or bool that broadcasts to
            x.shape. Logits may be arbitrarily large: only differences within a window matter. -inf gives a weight of 0.
        kernel_size, stride, padding, dilation, ceil_mode, axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y/∂x[i] = w[i] and ∂y/∂l[i] = w[i]·(x[i] - y), exact at every order. Ties and zeros are ordinary. NaN stays in
        its windows. Where y is not finite, its derivative with respect to the logits is 0. Windows with a NaN logit
        pass nothing to cells. A window whose logits are all -inf, or that `where` empties, is 0 with derivative 0.

    Example:
        >>> x = jnp.array([1.0, 5.0, 2.0, 8.0])
        >>> jaxpool.attention_pool(x, jnp.array([0.0, 0.0, 1e4, -1e4]), (2,))
        Array([3., 2.], dtype=float32)

    Source: Gao, Wang and Wu, "LIP: Local importance-based pooling", ICCV 2019.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _pool("attention_pool", x, "logits", logits, sizes, where, rule)


def _pool(
    function: str, x: ArrayLike, name: str, weights: ArrayLike, sizes: Sequence[Any], where: ArrayLike | None, rule: str
) -> jax.Array:
    array, mask, window = sliding(function, x, sizes, where, rule, only_padding=LESS_PADDING)
    given = check_array(function, weights, name)
    if given.shape != array.shape:
        # Cotangents of an entry that cells share are added in the dtype of sums.
        given = given.astype(accumulation_dtype(given.dtype))
    given = fit_to_cells(function, name, given, array.shape, window.pooled_axes, "one")
    return _means(array, (mask, given), window, name == "logits", rule)


# Notation: x(i) the cells of one window, w(i) their weights, S = Σ w(i), y = Σ w(i)·x(i)/S. Logits l(i) are relative to
# their largest one L, which is constant: w(i) = exp(l(i) - L). A dot marks a tangent. Then
#
#     ẏ = Σ (w(i)·ẋ(i) + ẇ(i)·(x(i) - y))/S        ẇ(i) = w(i)·l̇(i) for logits
#
# which is a sum over pairs, whose derivatives are those of w, S and y. S = 0 passes nothing to x, nor to the weights,
# of which y is no function there. What a cell of weight 0 holds does not reach y. A weight that is NaN makes its
# windows NaN, which pass nothing to cells. Axes may be taken in turn: parts have means, and weights S, or log S + L.


@core
def _means(
    x: jax.Array, others: tuple[jax.Array | None, jax.Array], window: Window, exponents: bool, rule: str
) -> jax.Array:
    """The means of x, given the mask and the weights, which are sharded as cells are."""
    mask, weights = others
    cells, mask, windows, dtype = in_floats(x, mask, window)
    if not jnp.issubdtype(weights.dtype, jnp.inexact):
        weights = weights.astype(accumulation_dtype(dtype))
    weights, _, _, _ = in_floats(jnp.broadcast_to(weights, x.shape), None, window)
    # Logits may be far apart only in their own dtype.
    wide = np.promote_types(*(accumulation_dtype(each.dtype) for each in (cells, weights)))
    pool = with_rule(rule, partial(means_by_weights, window=windows, exponents=exponents))
    return pool(cells.astype(wide), weights.astype(wide), mask).astype(dtype)


def means_by_weights(
    x: jax.Array, weights: jax.Array, present: jax.Array | None, *, window: Window, exponents: bool
) -> jax.Array:
    """The mean of every window, by weights or, if they are `exponents`, by their exponentials."""
    for part in in_turn(window):
        if exponents:
            logits = lax.stop_gradient(weights if present is None else jnp.where(present, weights, -jnp.inf))
            top = finite(reduce_windows(logits, part, lax.max))
            x, mass = _mean_and_mass(part, _OF_LOGITS, x, weights, (top,), present)
            weights = jnp.where(mass == 0, -jnp.inf, top + jnp.log(jnp.where(mass == 0, 1, mass)))
        else:
            x, weights = _mean_and_mass(part, _OF_WEIGHTS, x, weights, (), present)
        present = None
    return x


class _Terms(NamedTuple):
    """The terms of Σ w and Σ w·x, and of what ẋ and the tangent of weights, or logits, add to ẏ."""

    mass_and_moment: Term
    of_cells: Term
    of_weights: Term


def _mean_and_mass(
    window: Window, terms: _Terms, x: jax.Array, weights: jax.Array, top: Arrays, present: jax.Array | None
) -> Arrays:
    """The mean of every window, and S."""
    mass, moment = sum_over_cells(terms.mass_and_moment, (x, weights), top, window, present, results=2)
    return _mean(window, terms, x, weights, top, mass, moment, present), mass


@custom_rule((0, 1))
def _mean(
    window: Window,
    terms: _Terms,
    x: jax.Array,
    weights: jax.Array,
    top: Arrays,
    mass: jax.Array,
    moment: jax.Array,
    present: jax.Array | None,
) -> jax.Array:
    """The mean of every window, given S and Σ w·x."""
    return moment / jnp.where(mass == 0, 1, mass)


@partial(_mean.defjvp, symbolic_zeros=True)
def _mean_jvp(window: Window, terms: _Terms, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (x, weights, top, mass, _, present), (x_dot, weights_dot, *_) = primals, tangents
    y = _mean(window, terms, *primals)
    share = jnp.where(jnp.isnan(mass), 0, reciprocal(mass))
    dots = list[jax.Array]()
    if not is_symbolic_zero(x_dot):
        dots += sum_over_cells(terms.of_cells, (weights, x_dot), (*top, share), window, present)
    if not is_symbolic_zero(weights_dot):
        cells = x, weights, weights_dot
        dots += sum_over_cells(terms.of_weights, cells, (*top, share, y), window, present)
    return y, sum(dots[1:], dots[0])


def _with_share(weight: jax.Array, share: jax.Array) -> jax.Array:
    """The share of a weight in S; 0 where nothing is passed on, whatever the weight."""
    return jnp.where(share == 0, 0, weight) * share


def _if_finite(value: jax.Array) -> jax.Array:
    """The value, or 0: infinities and NaN pass no derivative to weights."""
    return jnp.where(jnp.isfinite(value), value, 0)


def _weight_and_moment(x: jax.Array, weight: jax.Array) -> Arrays:
    return weight, weighed(weight, x)


# Sums over cells alone. Weights and cells that are not finite add nothing to derivatives, as windows with them do not.
_OF_WEIGHTS = _Terms(
    Product(_weight_and_moment, _weight_and_moment, lambda sums, x, weight: sums),
    Product(
        lambda weight, dot, share: (_with_share(weight, share) * dot,),
        lambda weight, dot, share: (_if_finite(weight) * dot,),
        lambda sums, weight, dot, share: (share * sums[0],),
    ),
    Product(
        lambda x, weight, dot, share, y: (share * _if_finite(x - y) * dot,),
        lambda x, weight, dot, share, y: (_if_finite(x) * dot, jnp.where(jnp.isfinite(x), dot, 0)),
        lambda sums, x, weight, dot, share, y: (
            jnp.where(jnp.isfinite(y), share, 0) * (sums[0] - _if_finite(y) * sums[1]),
        ),
    ),
)


# Products of exp(l) and exp(-L).
_OF_LOGITS = _Terms(
    Product(
        lambda x, logit, top: (jnp.exp(logit - top), weighed(jnp.exp(logit - top), x)),
        lambda x, logit, top: (jnp.exp(logit), weighed(jnp.exp(logit), x)),
        lambda sums, x, logit, top: (jnp.exp(-top) * sums[0], jnp.exp(-top) * sums[1]),
        lambda x, logit, top: jnp.abs(top) <= 40,
    ),
    Product(
        lambda logit, dot, top, share: (_with_share(jnp.exp(logit - top), share) * dot,),
        lambda logit, dot, top, share: (jnp.exp(logit) * dot,),
        lambda sums, logit, dot, top, share: (jnp.exp(-top) * share * sums[0],),
        lambda logit, dot, top, share: jnp.abs(top) <= 40,
    ),
    Product(
        lambda x, logit, dot, top, share, y: (_with_share(jnp.exp(logit - top), share) * _if_finite(x - y) * dot,),
        lambda x, logit, dot, top, share, y: (weighed(jnp.exp(logit), x) * dot, jnp.exp(logit) * dot),
        lambda sums, x, logit, dot, top, share, y: (jnp.exp(-top) * share * (sums[0] - y * sums[1]),),
        lambda x, logit, dot, top, share, y: (jnp.abs(top) <= 40) & jnp.isfinite(y),
    ),
)
