"""`adaptive_avg_pool1d`, `adaptive_avg_pool2d` and `adaptive_avg_pool3d` of `torch.nn.functional`."""

from __future__ import annotations

import jax
from jax.typing import ArrayLike

from jaxpool._average import averages
from jaxpool._geometry.sizes import OutputSizes
from jaxpool.compat.torch._arguments import bins


def adaptive_avg_pool1d(
    input: ArrayLike,
    output_size: OutputSizes,
) -> jax.Array:
    """Adaptive average pooling: average of every bin along one axis, as `torch.nn.functional.adaptive_avg_pool1d`.

    Formula, for one axis of n cells in m bins: y[o] = Σ input[i] / d[o], ⌊o·n/m⌋ ≤ i < ⌈(o+1)·n/m⌉, d[o] the number
    of cells of bin o.

    Args:
        input: Array of shape (N, C, L) or (C, L); bool, integers, float16, bfloat16, float32, float64, complex64 or
            complex128.
        output_size: Number of bins, an int for all axes or one per axis; None keeps an axis as it is.

    Returns:
        Array of input's dtype (float32 for integers and bool); the pooled axes have the sizes in `output_size`.

    Raises:
        TypeError: input is not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match.

    Derivative:
        That of `jaxpool.adaptive_avg_pool`: ∂y[o]/∂x[i] = 1/d[o] where bin o holds cell i, 0 elsewhere.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.adaptive_avg_pool1d(jnp.array([[1.0, 2.0, 5.0, 4.0, 3.0]]), 3).round(2)
        Array([[1.5 , 3.67, 3.5 ]], dtype=float32)
    """
    return averages(*bins("adaptive_avg_pool1d", input, 1, output_size, complex_allowed=True), True, None, "jvp")


def adaptive_avg_pool2d(
    input: ArrayLike,
    output_size: OutputSizes,
) -> jax.Array:
    """Adaptive average pooling: average of every bin along two axes, as `torch.nn.functional.adaptive_avg_pool2d`.

    The formula is that of `adaptive_avg_pool1d`, along each axis.

    Args:
        input: Array of shape (N, C, H, W) or (C, H, W); bool, integers, float16, bfloat16, float32, float64, complex64
            or complex128.
        output_size: Number of bins, an int for all axes or one per axis; None keeps an axis as it is.

    Returns:
        Array of input's dtype (float32 for integers and bool); the pooled axes have the sizes in `output_size`.

    Raises:
        TypeError: input is not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match.

    Derivative:
        That of `jaxpool.adaptive_avg_pool`: ∂y[o]/∂x[i] = 1/d[o] where bin o holds cell i, 0 elsewhere.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.adaptive_avg_pool2d(jnp.arange(16.0).reshape(1, 1, 4, 4), (2, 1))[0, 0]
        Array([[ 3.5],
               [11.5]], dtype=float32)
    """
    return averages(*bins("adaptive_avg_pool2d", input, 2, output_size, complex_allowed=True), True, None, "jvp")


def adaptive_avg_pool3d(
    input: ArrayLike,
    output_size: OutputSizes,
) -> jax.Array:
    """Adaptive average pooling: average of every bin along three axes, as `torch.nn.functional.adaptive_avg_pool3d`.

    The formula is that of `adaptive_avg_pool1d`, along each axis.

    Args:
        input: Array of shape (N, C, D, H, W) or (C, D, H, W); bool, integers, float16, bfloat16, float32, float64,
            complex64 or complex128.
        output_size: Number of bins, an int for all axes or one per axis; None keeps an axis as it is.

    Returns:
        Array of input's dtype (float32 for integers and bool); the pooled axes have the sizes in `output_size`.

    Raises:
        TypeError: input is not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match.

    Derivative:
        That of `jaxpool.adaptive_avg_pool`: ∂y[o]/∂x[i] = 1/d[o] where bin o holds cell i, 0 elsewhere.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.adaptive_avg_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 1)
        Array([[[[3.5]]]], dtype=float32)
    """
    return averages(*bins("adaptive_avg_pool3d", input, 3, output_size, complex_allowed=True), True, None, "jvp")
