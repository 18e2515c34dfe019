"""`adaptive_max_pool1d`, `adaptive_max_pool2d` and `adaptive_max_pool3d` of `torch.nn.functional`."""

from __future__ import annotations

from typing import Literal, overload

import jax
from jax.typing import ArrayLike

from jaxpool._geometry.sizes import OutputSizes
from jaxpool.compat.torch._arguments import bins, maxima


@overload
def adaptive_max_pool1d(
    input: ArrayLike,
    output_size: OutputSizes,
    return_indices: Literal[False] = False,
) -> jax.Array: ...
@overload
def adaptive_max_pool1d(
    input: ArrayLike,
    output_size: OutputSizes,
    return_indices: Literal[True],
) -> tuple[jax.Array, jax.Array]: ...
@overload
def adaptive_max_pool1d(
    input: ArrayLike,
    output_size: OutputSizes,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]: ...
def adaptive_max_pool1d(
    input: ArrayLike,
    output_size: OutputSizes,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Adaptive max pooling: largest cell of every bin along one axis, as `torch.nn.functional.adaptive_max_pool1d`.

    Formula, for one axis of n cells in m bins: y[o] = max of input[i], ⌊o·n/m⌋ ≤ i < ⌈(o+1)·n/m⌉.

    Args:
        input: Array of shape (N, C, L) or (C, L); bool, integers, float16, bfloat16, float32 or float64.
        output_size: Number of bins, an int for all axes or one per axis; None keeps an axis as it is.
        return_indices: Whether to return the position of every value too.

    Returns:
        Array of input's dtype; the pooled axes have the sizes in `output_size`. With `return_indices` a pair: these
        values, and as int32 (int64 under `jax_enable_x64`) the row-major position of each in the pooled axes.

    Raises:
        TypeError: input is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match, or the pooled axes have too many cells for int32.

    Derivative:
        That of `jaxpool.adaptive_max_pool`: ∂y[o]/∂x[i] = 1 where i is the first cell of bin o to hold its maximum, or
        its first NaN, 0 elsewhere.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.adaptive_max_pool1d(jnp.array([[1.0, 2.0, 5.0, 4.0, 3.0]]), 3, return_indices=True)
        (Array([[2., 5., 4.]], dtype=float32), Array([[1, 2, 3]], dtype=int32))
    """
    return maxima("adaptive_max_pool1d", bins("adaptive_max_pool1d", input, 1, output_size), return_indices)


@overload
def adaptive_max_pool2d(
    input: ArrayLike,
    output_size: OutputSizes,
    return_indices: Literal[False] = False,
) -> jax.Array: ...
@overload
def adaptive_max_pool2d(
    input: ArrayLike,
    output_size: OutputSizes,
    return_indices: Literal[True],
) -> tuple[jax.Array, jax.Array]: ...
@overload
def adaptive_max_pool2d(
    input: ArrayLike,
    output_size: OutputSizes,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]: ...
def adaptive_max_pool2d(
    input: ArrayLike,
    output_size: OutputSizes,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Adaptive max pooling: largest cell of every bin along two axes, as `torch.nn.functional.adaptive_max_pool2d`.

    The formula is that of `adaptive_max_pool1d`, along each axis.

    Args:
        input: Array of shape (N, C, H, W) or (C, H, W); bool, integers, float16, bfloat16, float32 or float64.
        output_size: Number of bins, an int for all axes or one per axis; None keeps an axis as it is.
        return_indices: Whether to return the position of every value too.

    Returns:
        Array of input's dtype; the pooled axes have the sizes in `output_size`. With `return_indices` a pair: these
        values, and as int32 (int64 under `jax_enable_x64`) the row-major position of each in the pooled axes.

    Raises:
        TypeError: input is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match, or the pooled axes have too many cells for int32.

    Derivative:
        That of `jaxpool.adaptive_max_pool`: ∂y[o]/∂x[i] = 1 where i is the first cell of bin o to hold its maximum, or
        its first NaN, 0 elsewhere.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.adaptive_max_pool2d(jnp.arange(16.0).reshape(1, 1, 4, 4), (2, None))[0, 0]
        Array([[ 4.,  5.,  6.,  7.],
               [12., 13., 14., 15.]], dtype=float32)
    """
    return maxima("adaptive_max_pool2d", bins("adaptive_max_pool2d", input, 2, output_size), return_indices)


@overload
def adaptive_max_pool3d(
    input: ArrayLike,
    output_size: OutputSizes,
    return_indices: Literal[False] = False,
) -> jax.Array: ...
@overload
def adaptive_max_pool3d(
    input: ArrayLike,
    output_size: OutputSizes,
    return_indices: Literal[True],
) -> tuple[jax.Array, jax.Array]: ...
@overload
def adaptive_max_pool3d(
    input: ArrayLike,
    output_size: OutputSizes,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]: ...
def adaptive_max_pool3d(
    input: ArrayLike,
    output_size: OutputSizes,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Adaptive max pooling: largest cell of every bin along three axes, as `torch.nn.functional.adaptive_max_pool3d`.

    The formula is that of `adaptive_max_pool1d`, along each axis.

    Args:
        input: Array of shape (N, C, D, H, W) or (C, D, H, W); bool, integers, float16, bfloat16, float32 or float64.
        output_size: Number of bins, an int for all axes or one per axis; None keeps an axis as it is.
        return_indices: Whether to return the position of every value too.

    Returns:
        Array of input's dtype; the pooled axes have the sizes in `output_size`. With `return_indices` a pair: these
        values, and as int32 (int64 under `jax_enable_x64`) the row-major position of each in the pooled axes.

    Raises:
        TypeError: input is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match, or the pooled axes have too many cells for int32.

    Derivative:
        That of `jaxpool.adaptive_max_pool`: ∂y[o]/∂x[i] = 1 where i is the first cell of bin o to hold its maximum, or
        its first NaN, 0 elsewhere.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.adaptive_max_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 1)
        Array([[[[7.]]]], dtype=float32)
    """
    return maxima("adaptive_max_pool3d", bins("adaptive_max_pool3d", input, 3, output_size), return_indices)
