"""Means with weights from another array: the weights themselves, or softmax weights from logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxpool._arguments import Rule
from jaxpool._call import LESS_PADDING, check_array, core, fit_to_cells, in_floats, sliding
from jaxpool._engine.operations import accumulation_dtype
from jaxpool._geometry.sizes import Axes, Padding, Sizes
from jaxpool._geometry.window import Window
from jaxpool._kernels import KernelSize
from jaxpool._moments.means_by_sums import weighted_means
from jaxpool._sharding import vary_together


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
    """Weighted average pooling: the mean of every window with weights from another array, such as confidences.

    Formula along an axis: y[o] = Σ_j w[i]·x[i] / Σ_j w[i] over the cells i = o·stride - low + j·dilation of
    window o, 0 ≤ j < kernel_size. With weights of 0 and 1 it is `avg_pool` of the cells that have 1. Padding has no
    weight. A cell of weight 0 adds nothing, whatever it holds; a window whose weights add up to 0 is 0.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        weights: Weights w ≥ 0, in any unit: floats, integers or bool that broadcast to x.shape, and may be learnt. Only
            their ratios matter, at any size. A negative one is used as it is.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`. Or
            `bins`, `whole` or a `footprint`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y/∂x[i] = w[i]/Σ w and ∂y/∂w[i] = (x[i] - y)/Σ w, of every order. Ties and zeros are ordinary. NaN stays in its
        windows. Where y is not finite, its derivative with respect to the weights is 0, and so is that with respect to
        the weight of a cell that is not finite. Windows with a weight of NaN pass nothing to cells. A window whose
        weights add up to 0, or that `where` empties, is 0 with derivative 0.

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
    """Attention pooling, or local importance pooling (LIP): the mean of every window under a softmax of logits.

    Formula along an axis: y[o] = Σ_j w[i]·x[i], w[i] = exp(l[i])/Σ_j exp(l[i]), over the cells i = o·stride -
    low + j·dilation of window o, 0 ≤ j < kernel_size. With logits β·x it is `soft_pool`, and it is `weighted_pool` with
    the weights exp(l). Padding has no weight.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        logits: Logarithms of weights, in nats: floats, integers or bool that broadcast to x.shape, and may be learnt.
            Of any size, as only differences from the largest one of a window matter; -inf for a weight of 0.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`. Or
            `bins`, `whole` or a `footprint`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y/∂x[i] = w[i] and ∂y/∂l[i] = w[i]·(x[i] - y), of every order. Ties and zeros are ordinary. NaN stays in its
        windows. Where y is not finite, its derivative with respect to the logits is 0. Windows with a logit of NaN pass
        nothing to cells. A window whose logits are all -inf, or that `where` empties, is 0 with derivative 0.

    Example:
        >>> x = jnp.array([1.0, 5.0, 2.0, 8.0])
        >>> jaxpool.attention_pool(x, jnp.array([0.0, 0.0, 1e4, -1e4]), (2,))
        Array([3., 2.], dtype=float32)

    Source: Gao, Wang and Wu, "LIP: Local importance-based pooling", ICCV 2019.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _pool("attention_pool", x, "logits", logits, sizes, where, rule)


def _pool(
    function: str,
    x: ArrayLike,
    name: str,
    weights: ArrayLike,
    sizes: Sequence[Any],
    where: ArrayLike | None,
    rule: str,
) -> jax.Array:
    array, mask, window = sliding(function, x, sizes, where, rule, only_padding=LESS_PADDING)
    given = check_array(function, weights, name)
    if given.shape != array.shape:
        # Cotangents of an entry that cells share are added in the dtype of sums.
        given = given.astype(accumulation_dtype(given.dtype))
    given = fit_to_cells(function, name, given, array.shape, window.pooled_axes, "one")
    return _means(array, (mask, given), window, name == "logits", rule)


# Notation: x(i) the cells of one window, w(i) their weights, S = Σ w(i), y = Σ w(i)·x(i)/S, and for logits l(i) weights
# exp(l(i)). Then
#
#     ∂y/∂x(i) = w(i)/S        ∂y/∂w(i) = (x(i) - y)/S        ∂y/∂l(i) = w(i)·(x(i) - y)/S
#
# All are evaluated with ratios of weights, in `weighted_means`: of the largest weight of a window no sum overflows, and
# no weight that counts vanishes. S = 0 passes nothing to x, nor to the weights, of which y is no function there. What a
# cell of weight 0 holds does not reach y. A weight that is NaN makes its windows NaN, which pass nothing to cells.


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
    cells, weights = vary_together(cells, weights)
    sums = [accumulation_dtype(each.dtype) for each in (cells, weights)]
    if sums[0] != sums[1]:
        # Logits may be far apart only in their own dtype.
        cells, weights = (each.astype(np.promote_types(*sums)) for each in (cells, weights))
    return weighted_means(cells, weights, mask, windows, exponents, rule).astype(dtype)
