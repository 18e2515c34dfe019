"""`avg_pool1d`, `avg_pool2d` and `avg_pool3d` of `torch.nn.functional`: the average of every window."""

from __future__ import annotations

import jax
from jax.typing import ArrayLike

from jaxpool._average import averages, check_divisor
from jaxpool._geometry.sizes import Sizes, check_flag
from jaxpool.compat.torch._arguments import windows


def avg_pool1d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> jax.Array:
    """Average pooling: the average of every window along one axis, as `torch.nn.functional.avg_pool1d`.

    Formula, for one axis: y[o] = Σ_j input[o·stride - padding + j] / d[o], 0 ≤ j < kernel_size, padded cells adding 0.
    d[o] is the number of cells of window o in the input or, with `count_include_pad`, in the padding.

    Args:
        input: Array of shape (N, C, L) or (C, L); bool, integers, float16, bfloat16, float32, float64, complex64 or
            complex128.
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis; `kernel_size` if None.
        padding: Cells added on both sides, an int or one per axis; at most half a window.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        count_include_pad: Whether padded cells count in the divisor.

    Returns:
        Array of input's dtype (float32 for integers and bool); an axis of n cells becomes
        floor((n + 2·padding - kernel_size)/stride) + 1 without `ceil_mode`.

    Raises:
        TypeError: input is not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match, or `padding` is more than half a window.

    Derivative:
        That of `jaxpool.avg_pool`: ∂y[o]/∂x[i] = 1/d[o] where window o holds cell i, 0 elsewhere.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.avg_pool1d(jnp.array([[1.0, 2.0, 3.0, 4.0]]), 3, 1, 1, count_include_pad=False)
        Array([[1.5, 2. , 3. , 3.5]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, 1, ceil_mode)
    return _averages("avg_pool1d", 1, input, sizes, count_include_pad, None)


def avg_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: float | None = None,
) -> jax.Array:
    """Average pooling: the average of every window along two axes, as `torch.nn.functional.avg_pool2d`.

    The formula is that of `avg_pool1d`, along each axis.

    Args:
        input: Array of shape (N, C, H, W) or (C, H, W); bool, integers, float16, bfloat16, float32, float64, complex64
            or complex128.
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis; `kernel_size` if None.
        padding: Cells added on both sides, an int or one per axis; at most half a window.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        count_include_pad: Whether padded cells count in the divisor.
        divisor_override: Number by which every sum is divided instead; finite and not 0.

    Returns:
        Array of input's dtype (float32 for integers and bool); an axis of n cells becomes
        floor((n + 2·padding - kernel_size)/stride) + 1 without `ceil_mode`.

    Raises:
        TypeError: input is not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match, `divisor_override` is 0 or not finite, or `padding` is more than half
            a window.

    Derivative:
        That of `jaxpool.avg_pool`: ∂y[o]/∂x[i] = 1/d[o] where window o holds cell i, 0 elsewhere.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.avg_pool2d(jnp.arange(16.0).reshape(1, 1, 4, 4), 2)[0, 0]
        Array([[ 2.5,  4.5],
               [10.5, 12.5]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, 1, ceil_mode)
    return _averages("avg_pool2d", 2, input, sizes, count_include_pad, divisor_override)


def avg_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: float | None = None,
) -> jax.Array:
    """Average pooling: the average of every window along three axes, as `torch.nn.functional.avg_pool3d`.

    The formula is that of `avg_pool1d`, along each axis.

    Args:
        input: Array of shape (N, C, D, H, W) or (C, D, H, W); bool, integers, float16, bfloat16, float32, float64,
            complex64 or complex128.
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis; `kernel_size` if None.
        padding: Cells added on both sides, an int or one per axis; at most half a window.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        count_include_pad: Whether padded cells count in the divisor.
        divisor_override: Number by which every sum is divided instead; finite and not 0.

    Returns:
        Array of input's dtype (float32 for integers and bool); an axis of n cells becomes
        floor((n + 2·padding - kernel_size)/stride) + 1 without `ceil_mode`.

    Raises:
        TypeError: input is not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match, `divisor_override` is 0 or not finite, or `padding` is more than half
            a window.

    Derivative:
        That of `jaxpool.avg_pool`: ∂y[o]/∂x[i] = 1/d[o] where window o holds cell i, 0 elsewhere.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.avg_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 2, divisor_override=4)
        Array([[[[7.]]]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, 1, ceil_mode)
    return _averages("avg_pool3d", 3, input, sizes, count_include_pad, divisor_override)


def _averages(
    function: str,
    rank: int,
    input: ArrayLike,
    sizes: tuple[Sizes, Sizes | None, Sizes, Sizes, bool],
    count_include_pad: bool,
    divisor_override: float | None,
) -> jax.Array:
    include_pad = check_flag(function, "count_include_pad", count_include_pad)
    divisor = check_divisor(function, divisor_override)
    return averages(*windows(function, input, rank, *sizes, complex_allowed=True), include_pad, divisor, "jvp")
