"""Rank filters: the median of every window, and any other quantile, or several.

What a quantile is says `_ranks/quantile_methods`, and where it is in windows of different numbers of cells,
`_ranks/order_statistics`. Like an extreme it only reads cells: forward mode averages the tangents at the chosen cells,
and reverse mode sends the cotangent to them in proportion to the weights of the mean. Several quantiles have one
selection, of all ranks that any of them reads, and one map back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._call import LESS_PADDING, core, extended, sliding
from jaxpool._checks import Rule
from jaxpool._jax.linear_map import CellSelector, LinearMap, ValuesAndResiduals, selected_values
from jaxpool._kernels import KernelSize
from jaxpool._ranks import order_statistics as statistics
from jaxpool._ranks.order_statistics import Counts, Quantiles
from jaxpool._ranks.quantile_methods import Quantile, QuantileMethod, is_several, make_quantiles
from jaxpool._sizes import Axes, Padding, Sizes
from jaxpool._window import Window
from jaxpool._windows.cells import is_looped
from jaxpool._windows.choices import on_every_platform, reduce_windows
from jaxpool._windows.operations import Arrays, identity


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
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32).

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y/∂x[i] = 1 if i is the middle cell, 1/2 if it is one of the middle two, else 0; higher derivatives are 0.
        Ties: equal cells are sorted in row-major order. +0 and -0 tie. NaN: a window with NaN is NaN, and its first NaN
        takes all. A mean of infinities of both signs is NaN. A window that `where` empties is 0 with derivative 0.

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
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

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
        methods that do not average); higher derivatives are 0. Ties: equal cells are sorted in row-major order, so that
        q = 1 takes the last of equal maxima. +0 and -0 tie. NaN: a window with NaN is NaN, and its first NaN takes all.
        A mean of infinities of both signs is NaN. A window that `where` empties is 0 with derivative 0.

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
    array, mask, window = sliding(function, x, sizes, where, rule, only_padding=LESS_PADDING)
    window.check_counts_fit(function)
    return _quantiles(array, mask, window, quantiles, rule)


@core
def _quantiles(
    x: jax.Array, mask: jax.Array | None, window: Window, quantiles: Quantiles, rule: str
) -> list[jax.Array]:
    """The quantiles of every window, over the cells that the mask holds; 0 without any."""
    dtype, counts = x.dtype, None
    x, mask, window = extended(x, mask, window)
    if mask is not None:
        x = jnp.where(mask, x, identity(lax.min, x.dtype))
        counts = reduce_windows(mask.astype(np.int32), window, lax.add)
    values = selected_values(_Chosen(window, quantiles), rule, x, mask, counts)
    if jnp.issubdtype(dtype, jnp.inexact):
        values = [each.astype(dtype) for each in values]
    return [each if counts is None else jnp.where(counts > 0, each, jnp.zeros_like(each)) for each in values]


# Notation: c(o) and d(o) are the cells of window o at the two ranks around a quantile, sorted by value and then by
# offset; w(o) is the weight of the second, which depends only on the number of cells. If the quantile is at one rank,
# or one is asked for, there is no d. A dot marks a tangent, a bar a cotangent; the first sum is over the quantiles.
#
#     y(o) = (1-w(o))·x(c(o)) + w(o)·x(d(o))        ẏ(o) = (1-w(o))·ẋ(c(o)) + w(o)·ẋ(d(o))
#     x̄(i) = Σ (Σ_{o : c(o) = i} (1-w(o))·ȳ(o) + Σ_{o : d(o) = i} w(o)·ȳ(o))
#
# c and d are locally constant where no two cells are equal. There these are the derivatives, and all higher ones are
# zero. At ties they are the derivatives for one order of the equal cells. The second and third formulas are the two
# directions of `_MeansOfChosen`. Both need the offsets of the cells, one for each rank, but not x. In a window with
# NaN, all cells are its first NaN. Masked cells are replaced by the largest value of the dtype, and are never chosen.


@dataclass(frozen=True)
class _Chosen(CellSelector):
    window: Window
    quantiles: Quantiles

    def values(self, x: jax.Array, mask: jax.Array | None, counts: Counts, /) -> Arrays:
        select = partial(statistics.chosen_cells, window=self.window, quantiles=self.quantiles)
        cells = on_every_platform(select, x, counts, like=self._each_like(x, counts, x.dtype))
        return statistics.means_of_chosen(cells, counts, self.window, self.quantiles)

    def select(self, x: jax.Array, mask: jax.Array | None, counts: Counts, /) -> ValuesAndResiduals:
        select = partial(statistics.chosen, window=self.window, quantiles=self.quantiles)
        like = tuple(
            self._each_like(x, counts, dtype) for dtype in (x.dtype, np.min_scalar_type(self.window.cells - 1))
        )
        cells, offsets = on_every_platform(select, x, mask, counts, like=like)
        return statistics.means_of_chosen(cells, counts, self.window, self.quantiles), (offsets, counts)

    def _each_like(self, x: jax.Array, counts: Counts, dtype: Any) -> tuple[jax.ShapeDtypeStruct, ...]:
        """An array of windows for each rank."""
        like = jax.ShapeDtypeStruct(self.window.output_shape(x.shape), dtype)
        return (like,) * statistics.rank_count(counts, self.window, self.quantiles)

    @property
    def read(self) -> LinearMap:
        return _MeansOfChosen(self.window, self.quantiles)


@dataclass(frozen=True)
class _MeansOfChosen(LinearMap):
    """The means of the cells at the offsets of all ranks."""

    window: Window
    quantiles: Quantiles

    def forward(self, x: jax.Array, offsets: Arrays, counts: Counts, /) -> Arrays:
        cells = statistics.read_ranks(x, offsets, self.window)
        means = statistics.ranks_in(counts, self.window, self.quantiles, x.ndim).means
        return tuple(statistics.weighted(cells, mean) for mean in means)

    def transpose(self, cotangents: Arrays, offsets: Arrays, counts: Counts, /) -> jax.Array:
        def route(cotangents: Arrays, offsets: Arrays, counts: Counts) -> jax.Array:
            means = statistics.ranks_in(counts, self.window, self.quantiles, cotangents[0].ndim).means
            shares = statistics.shares_of_ranks(cotangents, means, len(offsets))
            return statistics.route_ranks(shares, offsets, self.window).astype(cotangents[0].dtype)

        return on_every_platform(route, cotangents, offsets, counts, in_stage=not is_looped(self.window))
