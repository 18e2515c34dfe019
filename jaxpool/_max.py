"""Max pooling: the largest or smallest cell of every window, and its index. Its rules: `_derivatives/extremes`."""

from __future__ import annotations

import jax
from jax import lax
from jax.typing import ArrayLike

from jaxpool._call import LESS_PADDING, sliding
from jaxpool._checks import Rule
from jaxpool._derivatives.extremes import extremes, extremes_with_indices
from jaxpool._kernels import KernelSize
from jaxpool._sizes import Axes, Padding, Sizes


def max_pool(
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
    """Max pooling: the largest cell of every window.

    Without `axis` it pools the last axes, one per entry of `kernel_size`. For channels last, write axis="NHWC": of
    these letters, one for each axis of x, all but N and C are pooled.

    Formula along an axis: y[o] = max over j of x[o·stride - low + j·dilation], 0 ≤ j < kernel_size, padded and
    masked cells left out. With several pooled axes a window is the product of its axes' windows.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`. Or
            `bins`, `whole` or a `footprint`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side: an int, an int per axis, a (low, high) pair per axis, "VALID" (none), "SAME"
            (n/stride windows, rounded up; an odd cell goes high), "SAME_LOWER" (an odd cell goes low), "CAUSAL" (e - 1
            low) or "SEMICAUSAL" (max(e - stride, 0) low, the rest of e - 1 high), with e as below. Or copies of the
            cells of x, as in `np.pad`: "WRAP" (from the other end), "REFLECT" (mirrored, without repeating the
            outermost cell), "SYMMETRIC" (mirrored with it) or "EDGE" (of the outermost cell), (e - 1)//2 low and e//2
            high. Copies are real cells: they may win, and the derivative with respect to a cell is the sum over its
            copies. An entry for an axis may be a word too, or a word for copies with amounts, as in padding=("CAUSAL",
            ("REFLECT", (2, 1)), (0, 1)). Words may be in lower case.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of x's dtype. A pooled axis of n cells becomes floor((n + low + high - e)/stride) + 1, where
        e = dilation·(kernel_size - 1) + 1; with `ceil_mode`, ceil replaces floor, less one if the last window would
        start in the high padding. Other axes are unchanged.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y[o]/∂x[i] = 1 if i is the winner of window o, else 0; higher derivatives are 0. Ties: the first winner in
        row-major order takes all. NaN wins over numbers; NaNs tie, as +0 and -0 do. Padding and masked cells never win,
        not even against -inf. A window that `where` empties is 0 with derivative 0.

    Example:
        >>> jaxpool.max_pool(jnp.arange(16.0).reshape(4, 4), (2, 2))
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("max_pool", x, sizes, where, rule, only_padding=LESS_PADDING)
    return extremes(array, mask, window, lax.max, rule)


def min_pool(
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
    """Min pooling: the smallest cell of every window.

    Formula along an axis: y[o] = min over j of x[o·stride - low + j·dilation], 0 ≤ j < kernel_size, padded and masked
    cells left out. For floats it is -max_pool(-x).

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
        `ceil_mode`, and x's dtype.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y[o]/∂x[i] = 1 if i is the winner of window o, else 0; higher derivatives are 0. Ties: the first winner in
        row-major order takes all. NaN wins over numbers; NaNs tie, as +0 and -0 do. Padding and masked cells never win,
        not even against +inf. A window that `where` empties is 0 with derivative 0.

    Example:
        >>> jaxpool.min_pool(jnp.arange(16.0).reshape(4, 4), (2, 2))
        Array([[ 0.,  2.],
               [ 8., 10.]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("min_pool", x, sizes, where, rule, only_padding=LESS_PADDING)
    return extremes(array, mask, window, lax.min, rule)


def max_pool_with_indices(
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
) -> tuple[jax.Array, jax.Array]:
    """Max pooling with indices (argmax): the largest cell of every window, and where it is in x.

    Formula: y[o] = x[i[o]] with i[o] the first cell of window o, in row-major order, that holds its maximum.

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
        Values of x's dtype and int32 indices, both of `max_pool`'s shape,
        floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without `ceil_mode`. An index is the
        winner's row-major position in x's pooled axes, without padding, in x's own order; a copy has that of its cell.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, a window holds only padding, or indices exceed int32.

    Derivative:
        That of `max_pool` for the values: 1 at the winner, else 0; none for the indices. Ties: the first winner in
        row-major order takes all. NaN wins over numbers; NaNs tie, as +0 and -0 do. A window that `where` empties has
        the value 0, the index -1 and derivative 0.

    Example:
        >>> jaxpool.max_pool_with_indices(jnp.array([3.0, 1.0, 2.0, 2.0]), (2,))
        (Array([3., 2.], dtype=float32), Array([0, 2], dtype=int32))
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("max_pool_with_indices", x, sizes, where, rule, only_padding=LESS_PADDING)
    window.check_positions_fit("max_pool_with_indices")
    return extremes_with_indices(array, mask, window, lax.max, rule)


def min_pool_with_indices(
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
) -> tuple[jax.Array, jax.Array]:
    """Min pooling with indices (argmin): the smallest cell of every window, and where it is in x.

    Formula: y[o] = x[i[o]] with i[o] the first cell of window o, in row-major order, that holds its minimum.

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
        Values of x's dtype and int32 indices, both of `max_pool`'s shape,
        floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without `ceil_mode`. An index is the
        winner's row-major position in x's pooled axes, without padding, in x's own order; a copy has that of its cell.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, a window holds only padding, or indices exceed int32.

    Derivative:
        That of `min_pool` for the values: 1 at the winner, else 0; none for the indices. Ties: the first winner in
        row-major order takes all. NaN wins over numbers; NaNs tie, as +0 and -0 do. A window that `where` empties has
        the value 0, the index -1 and derivative 0.

    Example:
        >>> values, indices = jaxpool.min_pool_with_indices(jnp.array([1.0, 3.0, 2.0, 2.0]), (2,))
        >>> values, indices
        (Array([1., 2.], dtype=float32), Array([0, 2], dtype=int32))
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("min_pool_with_indices", x, sizes, where, rule, only_padding=LESS_PADDING)
    window.check_positions_fit("min_pool_with_indices")
    return extremes_with_indices(array, mask, window, lax.min, rule)
