"""`lp_pool1d`, `lp_pool2d` and `lp_pool3d` of `torch.nn.functional`: the norm of every window."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxpool._arguments import check_parameter
from jaxpool._engine.operations import accumulation_dtype
from jaxpool._geometry.sizes import Sizes
from jaxpool._lp import norms
from jaxpool.compat.torch._arguments import windows


def lp_pool1d(
    input: ArrayLike,
    norm_type: float | ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> jax.Array:
    """Lp pooling: the Lp norm of every window along one axis, as `torch.nn.functional.lp_pool1d`.

    Formula, for one axis: y[o] = (Σ_j |input[o·stride + j]|^p)^(1/p), 0 ≤ j < kernel_size, times
    (kernel_size/cells)^(1/p) where `ceil_mode` leaves a window fewer cells; p = inf is the largest magnitude.

    Args:
        input: Array of shape (N, C, L) or (C, L); bool, integers, float16, bfloat16, float32 or float64.
        norm_type: Exponent p > 0: a Python number, inf included, or an array of finite numbers that broadcasts to the
            output (one per channel, say) and may be learnt. Traced values are not checked.
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis; `kernel_size` if None.
        ceil_mode: Whether a last window may extend past the end; its norm is scaled to a whole window.

    Returns:
        Array of input's dtype (float32 for integers and bool); an axis of n cells becomes
        floor((n - kernel_size)/stride) + 1 without `ceil_mode`. float16 and bfloat16 are computed in float32 and
        rounded once.

    Raises:
        TypeError: input is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match, or `norm_type` is not positive.

    Derivative:
        That of `jaxpool.lp_pool`: ∂y/∂x[i] = sign(x[i])·(|x[i]|/y)^(p-1), and 0 at a cell of 0 and in a window of
        zeros. Ties: for p = inf, the first of the largest magnitudes in row-major order takes all.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.lp_pool1d(jnp.array([[3.0, -4.0, 0.0, 2.0]]), 2, 2)
        Array([[5., 2.]], dtype=float32)
    """
    return _norms("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: ArrayLike,
    norm_type: float | ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> jax.Array:
    """Lp pooling: the Lp norm of every window along two axes, as `torch.nn.functional.lp_pool2d`.

    The formula is that of `lp_pool1d`, along each axis.

    Args:
        input: Array of shape (N, C, H, W) or (C, H, W); bool, integers, float16, bfloat16, float32 or float64.
        norm_type: Exponent p > 0: a Python number, inf included, or an array of finite numbers that broadcasts to the
            output (one per channel, say) and may be learnt. Traced values are not checked.
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis; `kernel_size` if None.
        ceil_mode: Whether a last window may extend past the end; its norm is scaled to a whole window.

    Returns:
        Array of input's dtype (float32 for integers and bool); an axis of n cells becomes
        floor((n - kernel_size)/stride) + 1 without `ceil_mode`. float16 and bfloat16 are computed in float32 and
        rounded once.

    Raises:
        TypeError: input is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match, or `norm_type` is not positive.

    Derivative:
        That of `jaxpool.lp_pool`: ∂y/∂x[i] = sign(x[i])·(|x[i]|/y)^(p-1), and 0 at a cell of 0 and in a window of
        zeros. Ties: for p = inf, the first of the largest magnitudes in row-major order takes all.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.lp_pool2d(jnp.ones((1, 4, 4)), 2, 2)
        Array([[[2., 2.],
                [2., 2.]]], dtype=float32)
    """
    return _norms("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: ArrayLike,
    norm_type: float | ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> jax.Array:
    """Lp pooling: the Lp norm of every window along three axes, as `torch.nn.functional.lp_pool3d`.

    The formula is that of `lp_pool1d`, along each axis.

    Args:
        input: Array of shape (N, C, D, H, W) or (C, D, H, W); bool, integers, float16, bfloat16, float32 or float64.
        norm_type: Exponent p > 0: a Python number, inf included, or an array of finite numbers that broadcasts to the
            output (one per channel, say) and may be learnt. Traced values are not checked.
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis; `kernel_size` if None.
        ceil_mode: Whether a last window may extend past the end; its norm is scaled to a whole window.

    Returns:
        Array of input's dtype (float32 for integers and bool); an axis of n cells becomes
        floor((n - kernel_size)/stride) + 1 without `ceil_mode`. float16 and bfloat16 are computed in float32 and
        rounded once.

    Raises:
        TypeError: input is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match, or `norm_type` is not positive.

    Derivative:
        That of `jaxpool.lp_pool`: ∂y/∂x[i] = sign(x[i])·(|x[i]|/y)^(p-1), and 0 at a cell of 0 and in a window of
        zeros. Ties: for p = inf, the first of the largest magnitudes in row-major order takes all.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.lp_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 1, 2)
        Array([[[[28.]]]], dtype=float32)
    """
    return _norms("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


def _norms(
    function: str,
    rank: int,
    input: ArrayLike,
    norm_type: float | ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None,
    ceil_mode: bool,
) -> jax.Array:
    array, _, window = windows(function, input, rank, kernel_size, stride, 0, 1, ceil_mode)
    fix = "use 1 for the sum of magnitudes, 2 for the Euclidean norm, float('inf') for the largest magnitude"
    shape = window.output_shape(array.shape)
    p, number = check_parameter(function, "norm_type", norm_type, shape, lambda p: p > 0, "positive", fix)
    scale = np.ones((1,) * array.ndim)
    for axis in window.axes:
        scale = scale * axis.along(axis.kernel / axis.counts(padding=False), array.ndim)
    if (scale == 1).all():
        return norms(array, None, p, window, number, "jvp")
    # PyTorch treats the average of the powers present as that of a whole window.
    dtype = array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else np.dtype(np.float32)
    values = norms(array.astype(accumulation_dtype(dtype)), None, p, window, number, "jvp")
    exponent = 1 / jnp.asarray(number if p is None else p, values.dtype)
    return (values * jnp.asarray(scale, values.dtype) ** exponent).astype(dtype)
