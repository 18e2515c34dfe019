"""`max_pool1d`, `max_pool2d` and `max_pool3d` of `torch.nn.functional`: the largest cell of every window."""

from __future__ import annotations

from typing import Literal, overload

import jax
from jax.typing import ArrayLike

from jaxpool._call import LESS_PADDING
from jaxpool._sizes import Sizes
from jaxpool.compat.torch._arguments import maxima, window_call


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
    """As `torch.nn.functional.max_pool1d`; see `max_pool2d`. Differs in the same ways.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.max_pool1d(jnp.array([[3.0, 1.0, 2.0, 5.0]]), 2, return_indices=True)
        (Array([[3., 5.]], dtype=float32), Array([[0, 3]], dtype=int32))
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode)
    return maxima("max_pool1d", window_call("max_pool1d", input, 1, *sizes, only_padding=LESS_PADDING), return_indices)


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
    """As `torch.nn.functional.max_pool2d`; see `jaxpool.max_pool`.

    Differs in indices (int32 unless `jax_enable_x64`), NaN (the first of several wins), windows of only padding
    (refused), dtypes (any real one), channels (may be 0) and errors.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.max_pool2d(jnp.arange(16.0).reshape(1, 1, 4, 4), 3, 2, 1)[0, 0]
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode)
    return maxima("max_pool2d", window_call("max_pool2d", input, 2, *sizes, only_padding=LESS_PADDING), return_indices)


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
    """As `torch.nn.functional.max_pool3d`; see `max_pool2d`. Differs in the same ways.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.max_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 2)
        Array([[[[7.]]]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode)
    return maxima("max_pool3d", window_call("max_pool3d", input, 3, *sizes, only_padding=LESS_PADDING), return_indices)
