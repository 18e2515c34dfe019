"""`adaptive_max_pool1d` to `adaptive_avg_pool3d` of `torch.nn.functional`: the last axes in a given number of bins."""

from __future__ import annotations

from typing import Literal, overload

import jax
from jax.typing import ArrayLike

from jaxpool._average import averages
from jaxpool._sizes import OutputSizes
from jaxpool.compat.torch._arguments import bin_call, maxima


@overload
def adaptive_max_pool1d(
    input: ArrayLike, output_size: OutputSizes, return_indices: Literal[False] = False
) -> jax.Array: ...
@overload
def adaptive_max_pool1d(
    input: ArrayLike, output_size: OutputSizes, return_indices: Literal[True]
) -> tuple[jax.Array, jax.Array]: ...
@overload
def adaptive_max_pool1d(
    input: ArrayLike, output_size: OutputSizes, return_indices: bool = False
) -> jax.Array | tuple[jax.Array, jax.Array]: ...
def adaptive_max_pool1d(
    input: ArrayLike, output_size: OutputSizes, return_indices: bool = False
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """As `torch.nn.functional.adaptive_max_pool1d`; see `adaptive_max_pool2d`. Differs in the same ways.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.adaptive_max_pool1d(jnp.array([[1.0, 2.0, 5.0, 4.0, 3.0]]), 3, return_indices=True)
        (Array([[2., 5., 4.]], dtype=float32), Array([[1, 2, 3]], dtype=int32))
    """
    return maxima("adaptive_max_pool1d", bin_call("adaptive_max_pool1d", input, 1, output_size), return_indices)


@overload
def adaptive_max_pool2d(
    input: ArrayLike, output_size: OutputSizes, return_indices: Literal[False] = False
) -> jax.Array: ...
@overload
def adaptive_max_pool2d(
    input: ArrayLike, output_size: OutputSizes, return_indices: Literal[True]
) -> tuple[jax.Array, jax.Array]: ...
@overload
def adaptive_max_pool2d(
    input: ArrayLike, output_size: OutputSizes, return_indices: bool = False
) -> jax.Array | tuple[jax.Array, jax.Array]: ...
def adaptive_max_pool2d(
    input: ArrayLike, output_size: OutputSizes, return_indices: bool = False
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """As `torch.nn.functional.adaptive_max_pool2d`; see `jaxpool.adaptive_max_pool`.

    Differs in indices (int32 unless `jax_enable_x64`), NaN (the first of several wins), `output_size=0` (refused),
    dtypes (any real one), channels (may be 0) and errors.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.adaptive_max_pool2d(jnp.arange(16.0).reshape(1, 1, 4, 4), (2, None))[0, 0]
        Array([[ 4.,  5.,  6.,  7.],
               [12., 13., 14., 15.]], dtype=float32)
    """
    return maxima("adaptive_max_pool2d", bin_call("adaptive_max_pool2d", input, 2, output_size), return_indices)


@overload
def adaptive_max_pool3d(
    input: ArrayLike, output_size: OutputSizes, return_indices: Literal[False] = False
) -> jax.Array: ...
@overload
def adaptive_max_pool3d(
    input: ArrayLike, output_size: OutputSizes, return_indices: Literal[True]
) -> tuple[jax.Array, jax.Array]: ...
@overload
def adaptive_max_pool3d(
    input: ArrayLike, output_size: OutputSizes, return_indices: bool = False
) -> jax.Array | tuple[jax.Array, jax.Array]: ...
def adaptive_max_pool3d(
    input: ArrayLike, output_size: OutputSizes, return_indices: bool = False
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """As `torch.nn.functional.adaptive_max_pool3d`; see `adaptive_max_pool2d`. Differs in the same ways.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.adaptive_max_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 1)
        Array([[[[7.]]]], dtype=float32)
    """
    return maxima("adaptive_max_pool3d", bin_call("adaptive_max_pool3d", input, 3, output_size), return_indices)


def adaptive_avg_pool1d(input: ArrayLike, output_size: OutputSizes) -> jax.Array:
    """As `torch.nn.functional.adaptive_avg_pool1d`; see `adaptive_avg_pool2d`. Differs in the same ways.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.adaptive_avg_pool1d(jnp.array([[1.0, 2.0, 5.0, 4.0, 3.0]]), 3).round(2)
        Array([[1.5 , 3.67, 3.5 ]], dtype=float32)
    """
    return averages(*bin_call("adaptive_avg_pool1d", input, 1, output_size, complex_allowed=True), True, None, "jvp")


def adaptive_avg_pool2d(input: ArrayLike, output_size: OutputSizes) -> jax.Array:
    """As `torch.nn.functional.adaptive_avg_pool2d`; see `jaxpool.adaptive_avg_pool`.

    Differs in averages of integers (float32), `output_size=0` (refused), dtypes (any), channels (may be 0) and errors.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.adaptive_avg_pool2d(jnp.arange(16.0).reshape(1, 1, 4, 4), (2, 1))[0, 0]
        Array([[ 3.5],
               [11.5]], dtype=float32)
    """
    return averages(*bin_call("adaptive_avg_pool2d", input, 2, output_size, complex_allowed=True), True, None, "jvp")


def adaptive_avg_pool3d(input: ArrayLike, output_size: OutputSizes) -> jax.Array:
    """As `torch.nn.functional.adaptive_avg_pool3d`; see `adaptive_avg_pool2d`. Differs in the same ways.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.adaptive_avg_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 1)
        Array([[[[3.5]]]], dtype=float32)
    """
    return averages(*bin_call("adaptive_avg_pool3d", input, 3, output_size, complex_allowed=True), True, None, "jvp")
