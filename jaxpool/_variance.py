"""The variance and the standard deviation of every window. What merges them is in `_moments/variances`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.typing import ArrayLike

from jaxpool._arguments import Rule, check_number
from jaxpool._call import core, in_floats, padding_counts, sliding
from jaxpool._derivatives.in_turn import without_uncovered
from jaxpool._derivatives.moderate_sums import pool_by_sums_of_cells
from jaxpool._engine.operations import accumulation_dtype
from jaxpool._engine.window_offsets import with_zeros_in_padding
from jaxpool._geometry.sizes import Axes, Padding, Sizes
from jaxpool._geometry.window import Window
from jaxpool._kernels import KernelSize
from jaxpool._moments.moderate_variances import Variances
from jaxpool._moments.variances_by_sums import VariancesBySums, sums_are_exact


def var_pool(
    x: ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    correction: float = 0,
    count_include_pad: bool = False,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Variance pooling: the variance of the cells of every window.

    Formula along an axis: y[o] = Σ_j (x[o·stride - low + j·dilation] - m[o])²/(n[o] - c), 0 ≤ j < kernel_size,
    with n[o] the cells that take part and m[o] their mean. It is never negative and exactly 0 for equal cells. A cell
    of the window is first subtracted from all its cells, so that a mean far from 0 costs no digits. If n ≤ c and all
    cells are finite, y is 0.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`. Or
            `bins`, `whole` or a `footprint`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
        correction: Number c ≥ 0 that is subtracted from the number of cells: 0 for the variance of the cells, 1 for an
            unbiased estimate of that of a population, PyTorch's default.
        count_include_pad: Whether padded cells take part, as zeros.
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
        ValueError: arguments do not fit x, `correction` is negative or not finite, `rule` is unknown, or a window holds
            only padding, without `count_include_pad`.

    Derivative:
        ∂y/∂x[i] = 2·(x[i] - m)/(n - c), and the second derivatives are 2·([i = k] - 1/n)/(n - c); all higher ones are
        0. Ties share equally; zeros are ordinary. NaN stays in its windows. A window that holds an infinity is NaN,
        too. A window that has no more than c cells, or that `where` empties, is 0 with derivative 0.

    Example:
        >>> x = jnp.array([10000.0, 10002.0, 5.0, 5.0])
        >>> jaxpool.var_pool(x, (2,))
        Array([1., 0.], dtype=float32)
        >>> jaxpool.var_pool(x, (2,), correction=1)
        Array([2., 0.], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _pool("var_pool", x, sizes, correction, count_include_pad, where, rule)


def std_pool(
    x: ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    correction: float = 0,
    count_include_pad: bool = False,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Standard deviation pooling: that of the cells of every window, as in statistics pooling.

    Formula along an axis: y[o] = (Σ_j (x[o·stride - low + j·dilation] - m[o])²/(n[o] - c))^½, 0 ≤ j <
    kernel_size, with n[o] the cells that take part and m[o] their mean: the root of `var_pool`. Squares are scaled, so
    that y overflows only if it is too large itself. If n ≤ c and all cells are finite, y is 0.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`. Or
            `bins`, `whole` or a `footprint`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
        correction: Number c ≥ 0 that is subtracted from the number of cells: 0 for the variance of the cells, 1 for an
            unbiased estimate of that of a population, PyTorch's default.
        count_include_pad: Whether padded cells take part, as zeros.
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
        ValueError: arguments do not fit x, `correction` is negative or not finite, `rule` is unknown, or a window holds
            only padding, without `count_include_pad`.

    Derivative:
        ∂y/∂x[i] = (x[i] - m)/((n - c)·y), of every order. A window whose cells are equal is 0 with derivative 0 at
        every order, where the standard deviation has a corner. Ties share equally; zeros are ordinary. NaN stays in its
        windows. A window that holds an infinity is NaN, too. A window that has no more than c cells, or that `where`
        empties, is 0 with derivative 0.

    Example:
        >>> x = jnp.array([10000.0, 10002.0, 5.0, 5.0])
        >>> jaxpool.std_pool(x, (2,))
        Array([1., 0.], dtype=float32)
        >>> jax.grad(lambda x: jaxpool.std_pool(x, (2,)).sum())(x).tolist()
        [-0.5, 0.5, 0.0, 0.0]

    Source: Snyder, Garcia-Romero, Povey and Khudanpur, "Deep neural network embeddings for text-independent speaker
    verification", Interspeech 2017.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _pool("std_pool", x, sizes, correction, count_include_pad, where, rule)


def _pool(
    function: str,
    x: ArrayLike,
    sizes: Sequence[Any],
    correction: float,
    count_include_pad: bool,
    where: ArrayLike | None,
    rule: str,
) -> jax.Array:
    include_pad, only_padding = padding_counts(function, count_include_pad)
    array, mask, window = sliding(function, x, sizes, where, rule, only_padding=only_padding)
    if correction is None:
        raise TypeError(f"{function}: correction must be a Python number, got None; use 0 for the variance itself")
    words = "finite and not negative"
    number = check_number(function, "correction", correction, lambda number: number >= 0, words, "; use 0 or 1")
    return _variances(array, mask, window, include_pad, number or 0.0, function == "std_pool", rule)


# Notation: x(i) the n cells of one window with mean m, c the correction, v = Σ (x(i) - m)²/(n - c), y = √v. Then
#
#     ∂v/∂x(i) = 2·(x(i) - m)/(n - c)                     as Σ (x(i) - m) = 0, so that m adds nothing
#     ∂²v/∂x(i)∂x(k) = 2·([i = k] - 1/n)/(n - c)          and nothing of higher order
#     ∂y/∂x(i) = (x(i) - m)/((n - c)·y)
#
# The derivatives of v are those of `variances`, whose first one is a sum over pairs. y = 0 is a corner, where the
# subgradient 0 is taken at every order: a window without deviations is left out of the root. A window of n ≤ c cells
# has the factor 0, which NaN survives.


@core
def _variances(
    x: jax.Array,
    mask: jax.Array | None,
    window: Window,
    include_pad: bool,
    correction: float,
    root: bool,
    rule: str,
) -> jax.Array:
    x, mask, window, dtype = in_floats(x, mask, window)
    if include_pad and window.has_padding:
        x, mask, window = with_zeros_in_padding(x, mask, window)
    pool = Variances(window, correction, root)
    if mask is None and sums_are_exact(dtype, window):
        return pool_by_sums_of_cells(VariancesBySums(window, pool), rule, x)
    x = without_uncovered(x.astype(accumulation_dtype(dtype)), window, learnt=False)
    return pool(x, mask, rule).astype(dtype)
