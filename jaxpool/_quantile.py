"""Rank filters: the median of every window, and any other quantile. Rules in `_rules/ranks`."""

from typing import Any, Literal

import jax
import jax.core
import numpy as np
from jax.typing import ArrayLike

from jaxpool._arguments import Rule, check_array, check_mask, check_rule
from jaxpool._geometry.sizes import Padding, Sizes
from jaxpool._geometry.window import make_window
from jaxpool._rules.quantile_places import Quantile
from jaxpool._rules.ranks import quantiles

QuantileMethod = Literal["linear", "lower", "higher"]


def median_pool(
    x: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Sizes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Median of the cells of every window.

    Formula: with the n cells of a window sorted, s[0] ≤ … ≤ s[n-1], y = (s[⌊(n-1)/2⌋] + s[⌈(n-1)/2⌉])/2: the cell in
    the middle, or the mean of the two there. Padded and masked cells are left out, so that n may differ among windows.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side: an int, an int per axis, a (low, high) pair per axis, "VALID", "SAME" or
            "SAME_LOWER"; or, as in `max_pool`, copies of cells of x: "WRAP", "REFLECT" or "EDGE".
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window starting before the high padding may extend past it; cells there never count.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. With channels last, (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for a hand-written backward pass only.

    Returns:
        Array of x's dtype (float32 for integers and bool) and `max_pool`'s shape: a pooled axis of n cells becomes
        floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without `ceil_mode`.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: x, sizes, axes and `where` do not match, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y/∂x[i] = 1 if i is the cell in the middle, 1/2 if it is one of two, 0 elsewhere; all higher derivatives are 0.
        Ties: equal cells are sorted in the row-major order of x. +0 and -0 tie. NaN: a window with NaN is NaN, and its
        first NaN takes all. A mean of infinities of both signs is NaN. A window that `where` leaves empty is 0 with
        derivative 0.

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
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    method: QuantileMethod = "linear",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Sizes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Quantile of the cells of every window.

    Formula: with the n cells of a window sorted, s[0] ≤ … ≤ s[n-1], and h = q·(n-1), y = (1-t)·s[⌊h⌋] + t·s[⌈h⌉] with
    t = h - ⌊h⌋; `method` "lower" is s[⌊h⌋] and "higher" s[⌈h⌉]. q = 0 is the minimum, 1/2 the median, 1 the maximum.
    Padded and masked cells are left out, so that n may differ among windows.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        q: The quantile, a Python number from 0 to 1. A q·(n-1) within rounding of an integer is taken as that integer.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side: an int, an int per axis, a (low, high) pair per axis, "VALID", "SAME" or
            "SAME_LOWER"; or, as in `max_pool`, copies of cells of x: "WRAP", "REFLECT" or "EDGE".
        method: "linear" for the weighted mean of the two cells around h, "lower" or "higher" for one of them.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window starting before the high padding may extend past it; cells there never count.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. With channels last, (-3, -2).
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
    quantile = Quantile(_check_q("quantile_pool", q), _check_method("quantile_pool", method))
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _pool("quantile_pool", x, quantile, where, rule, *sizes)


def _pool(
    function: str, x: ArrayLike, quantile: Quantile, where: ArrayLike | None, rule: Rule, *sizes: Any
) -> jax.Array:
    array = check_array(function, x)
    window = make_window(function, array.shape, *sizes)
    window.check_no_window_of_padding(function, "use less padding, a smaller stride or a larger kernel_size")
    mask = check_mask(function, where, array.shape, window.pooled_axes)
    return quantiles(array, mask, window, quantile, check_rule(function, rule))


def _check_q(function: str, q: Any) -> float:
    """Return q as a float, or raise where it is no number that is known while tracing, or not from 0 to 1."""
    if isinstance(q, (jax.Array, np.ndarray)):
        given = "a traced value" if isinstance(q, jax.core.Tracer) else "an array"
        raise TypeError(f"{function}: q must be a Python number, got {given}; call it once for every quantile")
    if isinstance(q, (bool, np.bool_)) or not isinstance(q, (int, float, np.integer, np.floating)):
        raise TypeError(f"{function}: q must be a number from 0 to 1, got {q!r}; use 0.5 for the median")
    if not 0 <= q <= 1:
        hint = f"; percent {q} is q={float(q) / 100:g}" if 1 < q <= 100 else "; use 0.5 for the median"
        raise ValueError(f"{function}: q must be from 0 to 1, got {q}{hint}")
    return float(q)


def _check_method(function: str, method: Any) -> str:
    """Return the method, or raise where it names none."""
    if not isinstance(method, str) or method not in ("linear", "lower", "higher"):
        raise ValueError(
            f"{function}: method {method!r} is unknown; use 'linear' (a weighted mean of two), 'lower' or 'higher'"
        )
    return method
