"""The logarithm of the mean exponential of every window, and the mean under its weights: mellowmax and soft pooling."""

import jax
import numpy as np
from jax.typing import ArrayLike

from jaxpool._arguments import Rule, check_array, check_mask, check_parameter, check_rule
from jaxpool._geometry.sizes import Padding, Sizes, check_flag
from jaxpool._geometry.window import make_window
from jaxpool._rules.log_mean_exponentials import log_mean_exponentials
from jaxpool._rules.soft_means import soft_means


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
    """Logarithm of the mean exponential of every window: a smooth step from the minimum over the mean to the maximum.

    Formula, for one pooled axis: y[o] = log(Σ_j exp(β·x[o·stride - low + j·dilation])/n[o])/β, 0 ≤ j < kernel_size,
    with n[o] the cells that take part; the mean for β = 0, smoothly. It lies between the mean and the maximum (for
    β < 0: the minimum), and is `smooth_max_pool` less log(n)/β.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        beta: Sharpness β of any sign, 0 included, in units of 1/x. A finite number, or an array that broadcasts to the
            output (one per channel, say) and may be learnt. Traced values are not checked.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side: an int, an int per axis, a (low, high) pair per axis, "VALID", "SAME" or
            "SAME_LOWER"; or, as in `max_pool`, copies of cells of x: "WRAP", "REFLECT" or "EDGE".
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window starting before the high padding may extend past it; cells there never count.
        count_include_pad: Whether padded cells take part, as zeros.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. With channels last, (-3, -2).
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
        β = 0 they are 1/n and half the variance of the window. Ties share equally; zeros are not special. A cell of
        -inf (for β < 0: +inf) has weight 0, and a window whose value is infinite has derivative 0. NaN stays in the
        windows that hold it. A window that `where` leaves empty is 0 with derivative 0.

    Example:
        >>> x = jnp.array([0.0, 1.0, 2.0, 3.0])
        >>> [jaxpool.mellowmax_pool(x, beta, (4,)).round(3).item() for beta in (-100.0, -1.0, 0.0, 1.0, 100.0)]
        [0.014, 0.946, 1.5, 2.054, 2.986]

    Source: Asadi and Littman, "An alternative softmax operator for reinforcement learning", ICML 2017.
    """
    return _pool(
        "mellowmax_pool",
        x,
        beta,
        kernel_size,
        stride,
        padding,
        dilation,
        ceil_mode,
        count_include_pad,
        axis,
        where,
        rule,
    )


def soft_pool(
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
    """Mean of the cells of every window under the softmax of their own values.

    Formula, for one pooled axis: y[o] = Σ_j w[j]·x[j] over the cells of window o, w[j] = exp(β·x[j])/Σ_k exp(β·x[k]).
    The mean for β = 0; it tends to the maximum for β → ∞ and to the minimum for β → -∞.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        beta: Sharpness β of any sign, 0 included, in units of 1/x (1 in the source). A finite number, or an array that
            broadcasts to the output (one per channel, say) and may be learnt. Traced values are not checked.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side: an int, an int per axis, a (low, high) pair per axis, "VALID", "SAME" or
            "SAME_LOWER"; or, as in `max_pool`, copies of cells of x: "WRAP", "REFLECT" or "EDGE".
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window starting before the high padding may extend past it; cells there never count.
        count_include_pad: Whether padded cells take part, as zeros.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. With channels last, (-3, -2).
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
        ∂y/∂x[i] = w[i]·(1 + β·(x[i] - y)) and ∂y/∂β = Σ w[i]·(x[i] - y)², of every order. Ties share equally; zeros are
        not special. A cell of -inf (for β < 0: +inf) has weight 0, and a window whose value is infinite has derivative
        0. NaN stays in the windows that hold it. A window that `where` leaves empty is 0 with derivative 0.

    Example:
        >>> x = jnp.array([0.0, 1.0, 2.0, 3.0])
        >>> [jaxpool.soft_pool(x, beta, (4,)).round(3).item() for beta in (-100.0, -1.0, 0.0, 1.0, 100.0)]
        [0.0, 0.507, 1.5, 2.493, 3.0]

    Source: Stergiou, Poppe and Kalliatakis, "Refining activation downsampling with SoftPool", ICCV 2021.
    """
    return _pool(
        "soft_pool", x, beta, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad, axis, where, rule
    )


def _pool(
    function: str,
    x: ArrayLike,
    beta: float | ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Padding,
    dilation: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    axis: Sizes | None,
    where: ArrayLike | None,
    rule: Rule,
) -> jax.Array:
    array = check_array(function, x)
    window = make_window(function, array.shape, kernel_size, stride, padding, dilation, ceil_mode, axis)
    include_pad = check_flag(function, "count_include_pad", count_include_pad)
    if not include_pad:
        window.check_no_window_of_padding(function, "use less padding or count_include_pad=True")
    shape = window.output_shape(array.shape)
    fix = "use max_pool or min_pool for an infinite beta"
    parameter, number = check_parameter(function, "beta", beta, shape, np.isfinite, "finite", fix)
    mask = check_mask(function, where, array.shape, window.pooled_axes)
    check_rule(function, rule)
    pool = soft_means if function == "soft_pool" else log_mean_exponentials
    return pool(array, mask, parameter, window, number, include_pad, rule)
