"""Rank filters: the median of every window, and any other quantile.

Like an extreme, a quantile only reads cells: forward mode averages the tangents at the chosen cells, and reverse mode
sends the cotangent to them in proportion to the weights of the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arguments import Rule
from jaxpool._call import LESS_PADDING, core, extended, sliding
from jaxpool._derivatives.rules import CellSelector, LinearMap, ValuesAndResiduals, selected_values
from jaxpool._engine.loops import is_looped
from jaxpool._engine.maps import on_every_platform, read_at_offsets, reduce_windows, route_to_chosen
from jaxpool._engine.operations import Arrays, accumulation_dtype, identity
from jaxpool._engine.stages import separate_term
from jaxpool._geometry.kernels import KernelSize
from jaxpool._geometry.sizes import Axes, Padding, Sizes
from jaxpool._geometry.window import Window
from jaxpool._order_statistics import (
    Counts,
    Quantile,
    chosen,
    chosen_cells,
    make_quantile,
    mean_of_chosen,
    rank_count,
    weight_of_second,
)

QuantileMethod = Literal["linear", "lower", "higher"]


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
        Array of x's dtype (float32 for integers and bool) and `max_pool`'s shape: a pooled axis of n cells becomes
        floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without `ceil_mode`.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: x, sizes, axes and `where` do not match, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y/∂x[i] = 1 if i is the middle cell, 1/2 if it is one of the middle two, 0 elsewhere; all higher derivatives
        are 0. Ties: equal cells are sorted in the row-major order of x. +0 and -0 tie. NaN: a window with NaN is NaN,
        and its first NaN takes all. A mean of infinities of both signs is NaN. A window that `where` leaves empty is 0
        with derivative 0.

    Example:
        >>> x = jnp.array([[1.0, 9.0, 2.0, 2.0], [3.0, 4.0, 5.0, 80.0]])
        >>> jaxpool.median_pool(x, (2, 3), stride=1)
        Array([[3.5, 4.5]], dtype=float32)

    Source: Tukey, "Exploratory data analysis", 1977; Huang, Yang and Tang, "A fast two-dimensional median filtering
    algorithm", IEEE Transactions on Acoustics, Speech and Signal Processing 1979.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _pool("median_pool", x, Quantile(0.5, "linear"), where, rule, *sizes)


def quantile_pool(
    x: ArrayLike,
    q: float,
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
    """Quantile pooling, or rank filtering: a quantile of the cells of every window.

    Formula: with the n cells of a window sorted, s[0] ≤ … ≤ s[n-1], and h = q·(n-1), y = (1-t)·s[⌊h⌋] + t·s[⌈h⌉] with
    t = h - ⌊h⌋; `method` "lower" is s[⌊h⌋] and "higher" s[⌈h⌉]. q = 0 is the minimum, 1/2 the median, 1 the maximum.
    Padded and masked cells are left out, so that n may differ between windows.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        q: The quantile, a Python number from 0 to 1. A q·(n-1) within rounding of an integer is taken as that integer.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`. Or
            `bins`, `whole` or a `footprint`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
        method: "linear" for the weighted mean of the two cells around h, "lower" or "higher" for one of them.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for a hand-written backward pass only.

    Returns:
        Array of x's dtype (with "linear", float32 for integers and bool) and `max_pool`'s shape: a pooled axis of n
        cells becomes floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without `ceil_mode`.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: q is not in [0, 1], x, sizes, axes and `where` do not match, `method` or `rule` is unknown, or a
            window holds only padding.

    Derivative:
        ∂y/∂x[i] = 1-t at the cell that is s[⌊h⌋], t at the one that is s[⌈h⌉], 0 elsewhere (1 at the one cell of
        "lower" and "higher"); all higher derivatives are 0. Ties: equal cells are sorted in the row-major order of x,
        so that q = 1 takes the last of equal maxima. +0 and -0 tie. NaN: a window with NaN is NaN, and its first NaN
        takes all. A mean of infinities of both signs is NaN. A window that `where` leaves empty is 0 with derivative 0.

    Example:
        >>> x = jnp.array([0.0, 10.0, 20.0, 30.0, 40.0, 90.0])
        >>> jaxpool.quantile_pool(x, 0.75, (4,), stride=2)
        Array([22.5, 52.5], dtype=float32)
        >>> jaxpool.quantile_pool(x, 0.75, (4,), stride=2, method="higher")
        Array([30., 90.], dtype=float32)

    Source: Justusson, "Median filtering: statistical properties", Topics in Applied Physics 43, 1981 (rank filters);
    Hyndman and Fan, "Sample quantiles in statistical packages", The American Statistician 1996 (definition 7).
    """
    quantile = make_quantile("quantile_pool", q, method)
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _pool("quantile_pool", x, quantile, where, rule, *sizes)


def _pool(
    function: str, x: ArrayLike, quantile: Quantile, where: ArrayLike | None, rule: Rule, *sizes: Any
) -> jax.Array:
    call = sliding(function, x, sizes, where, rule, only_padding=LESS_PADDING)
    return _quantiles(*call, quantile, rule)


@core
def _quantiles(x: jax.Array, mask: jax.Array | None, window: Window, quantile: Quantile, rule: str) -> jax.Array:
    dtype, counts = x.dtype, None
    x, mask, window = extended(x, mask, window)
    if mask is not None:
        x = jnp.where(mask, x, identity(lax.min, x.dtype))
        counts = reduce_windows(mask.astype(np.int32), window, lax.add)
    values = selected_values(_Chosen(window, quantile), rule, x, mask, counts)
    if jnp.issubdtype(dtype, jnp.inexact):
        values = values.astype(dtype)
    return values if counts is None else jnp.where(counts > 0, values, jnp.zeros_like(values))


# Notation: c(o) and d(o) are the cells of window o at the two ranks around the quantile, sorted by value and then by
# offset; w(o) is the weight of the second, which depends only on the number of cells. If the quantile is at one rank,
# or one is asked for, there is no d. A dot marks a tangent, a bar a cotangent.
#
#     y(o) = (1-w(o))·x(c(o)) + w(o)·x(d(o))        ẏ(o) = (1-w(o))·ẋ(c(o)) + w(o)·ẋ(d(o))
#     x̄(i) = Σ_{o : c(o) = i} (1-w(o))·ȳ(o) + Σ_{o : d(o) = i} w(o)·ȳ(o)
#
# c and d are locally constant where no two cells are equal. There these are the derivatives, and all higher ones are
# zero. At ties they are the derivatives for one order of the equal cells. The second and third formulas are the two
# directions of `_MeanOfChosen`. Both need the offsets of the cells but not x. In a window with NaN, both cells are its
# first NaN. Masked cells are replaced by the largest value of the dtype, and are never chosen.


@dataclass(frozen=True)
class _Chosen(CellSelector):
    window: Window
    quantile: Quantile

    def values(self, x: jax.Array, mask: jax.Array | None, counts: Counts, /) -> jax.Array:
        select = partial(chosen_cells, window=self.window, quantile=self.quantile)
        cells = on_every_platform(select, x, counts, like=self._each_like(x, counts, x.dtype))
        return mean_of_chosen(cells, counts, self.window, self.quantile)

    def select(self, x: jax.Array, mask: jax.Array | None, counts: Counts, /) -> ValuesAndResiduals:
        select = partial(chosen, window=self.window, quantile=self.quantile)
        like = tuple(
            self._each_like(x, counts, dtype) for dtype in (x.dtype, np.min_scalar_type(self.window.cells - 1))
        )
        cells, offsets = on_every_platform(select, x, mask, counts, like=like)
        return mean_of_chosen(cells, counts, self.window, self.quantile), (offsets, counts)

    def _each_like(self, x: jax.Array, counts: Counts, dtype: Any) -> tuple[jax.ShapeDtypeStruct, ...]:
        """An array of windows for c, and one for d if there is one."""
        like = jax.ShapeDtypeStruct(self.window.output_shape(x.shape), dtype)
        return (like,) * rank_count(counts, self.window, self.quantile)

    @property
    def read(self) -> LinearMap:
        return _MeanOfChosen(self.window, self.quantile)


@dataclass(frozen=True)
class _MeanOfChosen(LinearMap):
    """The mean of the cells at the offsets of c and d."""

    window: Window
    quantile: Quantile

    def forward(self, x: jax.Array, offsets: Arrays, counts: Counts, /) -> jax.Array:
        cells = [read_at_offsets(x, each, self.window) for each in offsets]
        if len(cells) == 1:
            return cells[0]
        lower, upper = (each.astype(accumulation_dtype(x.dtype)) for each in cells)
        weight = weight_of_second(counts, self.window, self.quantile, lower)
        return (separate_term((1 - weight) * lower) + weight * upper).astype(x.dtype)

    def transpose(self, cotangent: jax.Array, offsets: Arrays, counts: Counts, /) -> jax.Array:
        def route(cotangent: jax.Array, offsets: Arrays, counts: Counts) -> jax.Array:
            wide = cotangent.astype(accumulation_dtype(cotangent.dtype))
            weight = None if len(offsets) == 1 else weight_of_second(counts, self.window, self.quantile, wide)
            shares = (wide,) if weight is None else ((1 - weight) * wide, weight * wide)
            return route_to_chosen(shares, offsets, self.window).astype(cotangent.dtype)

        return on_every_platform(route, cotangent, offsets, counts, in_stage=not is_looped(self.window))
