"""Rank filters: the median of every window, and any other quantile, or several. Their rules: `_derivatives/quantiles`.

What a quantile is says `_quantile_methods`, and where it is in windows of different numbers of cells,
`_order_statistics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxpool._arguments import Rule
from jaxpool._call import LESS_PADDING, sliding
from jaxpool._derivatives.quantiles import quantiles_of_windows
from jaxpool._geometry.kernels import KernelSize
from jaxpool._geometry.sizes import Axes, Padding, Sizes
from jaxpool._order_statistics import Quantiles
from jaxpool._quantile_methods import Quantile, QuantileMethod, is_several, make_quantiles


def median_pool(
    x: ArrayLike,
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
    """Median pooling, or median filtering: the median of the cells of every window.

    Formula: with the n cells of a window sorted, s[0] ≤ … ≤ s[n-1], y = (s[⌊(n-1)/2⌋] + s[⌈(n-1)/2⌉])/2: the middle
    cell, or the mean of the middle two. Padded and masked cells are left out, so that n may differ between windows.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`. Or
            `bins`, `whole` or a `footprint`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for a hand-written backward pass only.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32).

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y/∂x[i] = 1 if i is the middle cell, 1/2 if it is one of the middle two, else 0; higher derivatives are 0.
        Ties: equal cells are sorted in x's row-major order. +0 and -0 tie. NaN: a window with NaN is NaN, and its first
        NaN takes all. A mean of infinities of both signs is NaN. A window that `where` empties is 0 with derivative 0.

    Example:
        >>> jaxpool.median_pool(jnp.array([[1.0, 9.0, 2.0, 2.0], [3.0, 4.0, 5.0, 80.0]]), (2, 3), stride=1)
        Array([[3.5, 4.5]], dtype=float32)

    Source: Tukey, "Exploratory data analysis", 1977; Huang, Yang and Tang, "A fast two-dimensional median filtering
    algorithm", IEEE Transactions on Acoustics, Speech and Signal Processing 1979.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    (values,) = _pool("median_pool", x, (Quantile(0.5, "linear"),), where, rule, *sizes)
    return values


def quantile_pool(
    x: ArrayLike,
    q: float | Sequence[float],
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    method: QuantileMethod = "linear",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Quantile pooling, or rank filtering: a quantile of the cells of every window, or several.

    Formula: with the n cells of a window sorted, s[0] ≤ … ≤ s[n-1], and a place h = ⌊h⌋ + t among them, y =
    (1-w)·s[⌊h⌋] + w·s[⌊h⌋ + 1], where ranks below 0 and above n-1 are 0 and n-1; `method` says h and w, by default h =
    q·(n-1) and w = t. There q = 0 is the minimum, 1/2 the median, 1 the maximum. Padded and masked cells are left out,
    so that n may differ between windows.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        q: The quantile, a Python number from 0 to 1, or a sequence of quantiles, which share one selection of cells. An
            h within rounding of an integer is taken as that integer.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`. Or
            `bins`, `whole` or a `footprint`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
        method: Those of `np.quantile`. With h = q·(n-1): "linear" (w = t), "lower" (0), "higher" (1 if t > 0),
            "midpoint" (1/2 if t > 0), "nearest" (1 if t > 1/2; halfway the even rank). With h = q·n - 1: "inverted_cdf"
            (1 if t > 0), "averaged_inverted_cdf" (1/2 if t = 0, else 1), "interpolated_inverted_cdf" (t). With h = q·n
            - 3/2: "closest_observation" (1, but 0 if t = 0 and ⌊h⌋ is odd). With h = q·(n + 1 - 2a) + a - 1 and w = t:
            "hazen" (a = 1/2), "weibull" (0), "median_unbiased" (1/3), "normal_unbiased" (3/8).
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for a hand-written backward pass only.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (if `method` averages, integers and bool: float32). A sequence of quantiles adds a
        first axis, with an entry for each, as in `np.quantile`.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: q is not in [0, 1], arguments do not fit x, `method` or `rule` is unknown, or a window holds only
            padding.

    Derivative:
        ∂y/∂x[i] = 1-w at the cell that is s[⌊h⌋], w at the one that is s[⌊h⌋ + 1], 0 elsewhere (1 at the one cell of
        methods that do not average); higher derivatives are 0. Ties: equal cells are sorted in x's row-major order, so
        that q = 1 takes the last of equal maxima. +0 and -0 tie. NaN: a window with NaN is NaN, and its first NaN takes
        all. A mean of infinities of both signs is NaN. A window that `where` empties is 0 with derivative 0.

    Example:
        >>> x = jnp.array([0.0, 10.0, 20.0, 30.0, 40.0, 90.0])
        >>> jaxpool.quantile_pool(x, 0.75, (4,), stride=2)
        Array([22.5, 52.5], dtype=float32)
        >>> jaxpool.quantile_pool(x, (0.25, 0.75), (4,), stride=2, method="nearest")
        Array([[10., 30.],
               [20., 40.]], dtype=float32)

    Source: Justusson, "Median filtering: statistical properties", Topics in Applied Physics 43, 1981 (rank filters);
    Hyndman and Fan, "Sample quantiles in statistical packages", The American Statistician 1996 (nine of the methods).
    """
    quantiles = make_quantiles("quantile_pool", q, method)
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    values = _pool("quantile_pool", x, quantiles, where, rule, *sizes)
    return jnp.stack(values) if is_several(q) else values[0]


def _pool(
    function: str, x: ArrayLike, quantiles: Quantiles, where: ArrayLike | None, rule: Rule, *sizes: Any
) -> list[jax.Array]:
    call = sliding(function, x, sizes, where, rule, only_padding=LESS_PADDING)
    return quantiles_of_windows(*call, quantiles, rule)
