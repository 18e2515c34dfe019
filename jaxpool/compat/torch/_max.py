"""`max_pool1d`, `max_pool2d` and `max_pool3d` of `torch.nn.functional`: the largest cell of every window."""

from __future__ import annotations

from typing import Literal, overload

import jax
from jax.typing import ArrayLike

from jaxpool._call import LESS_PADDING
from jaxpool._geometry.sizes import Sizes
from jaxpool.compat.torch._arguments import maxima, windows


@overload
def max_pool1d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> jax.Array: ...
@overload
def max_pool1d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[jax.Array, jax.Array]: ...
@overload
def max_pool1d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]: ...
def max_pool1d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Max pooling: the largest cell of every window along one axis, as `torch.nn.functional.max_pool1d`.

    Formula, for one axis: y[o] = max over j of input[o·stride - padding + j·dilation], 0 ≤ j < kernel_size, padded
    cells left out.

    Args:
        input: Array of shape (N, C, L) or (C, L); bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis; `kernel_size` if None.
        padding: Cells added on both sides, an int or one per axis; at most half a window.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        return_indices: Whether to return the position of every value too.

    Returns:
        Array of input's dtype; an axis of n cells becomes floor((n + 2·padding - e)/stride) + 1, where
        e = dilation·(kernel_size - 1) + 1; with `ceil_mode`, ceil replaces floor, less one if the last window would
        start in the high padding. With `return_indices` a pair: these values, and as int32 (int64 under
        `jax_enable_x64`) the row-major position of each in the pooled axes.

    Raises:
        TypeError: input is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match, `padding` is more than half a window, a window holds only padding, or
            the pooled axes have too many cells for int32.

    Derivative:
        That of `jaxpool.max_pool`: ∂y[o]/∂x[i] = 1 where i is the first cell of window o to hold its maximum, or its
        first NaN, 0 elsewhere.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.max_pool1d(jnp.array([[3.0, 1.0, 2.0, 5.0]]), 2, return_indices=True)
        (Array([[3., 5.]], dtype=float32), Array([[0, 3]], dtype=int32))
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode)
    return maxima("max_pool1d", windows("max_pool1d", input, 1, *sizes, only_padding=LESS_PADDING), return_indices)


@overload
def max_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> jax.Array: ...
@overload
def max_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[jax.Array, jax.Array]: ...
@overload
def max_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]: ...
def max_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Max pooling: the largest cell of every window along two axes, as `torch.nn.functional.max_pool2d`.

    The formula is that of `max_pool1d`, along each axis.

    Args:
        input: Array of shape (N, C, H, W) or (C, H, W); bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis; `kernel_size` if None.
        padding: Cells added on both sides, an int or one per axis; at most half a window.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        return_indices: Whether to return the position of every value too.

    Returns:
        Array of input's dtype; an axis of n cells becomes floor((n + 2·padding - e)/stride) + 1, where
        e = dilation·(kernel_size - 1) + 1; with `ceil_mode`, ceil replaces floor, less one if the last window would
        start in the high padding. With `return_indices` a pair: these values, and as int32 (int64 under
        `jax_enable_x64`) the row-major position of each in the pooled axes.

    Raises:
        TypeError: input is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match, `padding` is more than half a window, a window holds only padding, or
            the pooled axes have too many cells for int32.

    Derivative:
        That of `jaxpool.max_pool`: ∂y[o]/∂x[i] = 1 where i is the first cell of window o to hold its maximum, or its
        first NaN, 0 elsewhere.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.max_pool2d(jnp.arange(16.0).reshape(1, 1, 4, 4), 3, 2, 1)[0, 0]
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode)
    return maxima("max_pool2d", windows("max_pool2d", input, 2, *sizes, only_padding=LESS_PADDING), return_indices)


@overload
def max_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> jax.Array: ...
@overload
def max_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[jax.Array, jax.Array]: ...
@overload
def max_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]: ...
def max_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Max pooling: the largest cell of every window along three axes, as `torch.nn.functional.max_pool3d`.

    The formula is that of `max_pool1d`, along each axis.

    Args:
        input: Array of shape (N, C, D, H, W) or (C, D, H, W); bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis; `kernel_size` if None.
        padding: Cells added on both sides, an int or one per axis; at most half a window.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        return_indices: Whether to return the position of every value too.

    Returns:
        Array of input's dtype; an axis of n cells becomes floor((n + 2·padding - e)/stride) + 1, where
        e = dilation·(kernel_size - 1) + 1; with `ceil_mode`, ceil replaces floor, less one if the last window would
        start in the high padding. With `return_indices` a pair: these values, and as int32 (int64 under
        `jax_enable_x64`) the row-major position of each in the pooled axes.

    Raises:
        TypeError: input is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match, `padding` is more than half a window, a window holds only padding, or
            the pooled axes have too many cells for int32.

    Derivative:
        That of `jaxpool.max_pool`: ∂y[o]/∂x[i] = 1 where i is the first cell of window o to hold its maximum, or its
        first NaN, 0 elsewhere.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.max_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 2)
        Array([[[[7.]]]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode)
    return maxima("max_pool3d", windows("max_pool3d", input, 3, *sizes, only_padding=LESS_PADDING), return_indices)
