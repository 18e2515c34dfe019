"""`fractional_max_pool2d` and `fractional_max_pool3d` of `torch.nn.functional`: windows at random positions."""

from __future__ import annotations

from typing import Literal, overload

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

import jaxpool
from jaxpool._call import check_is_array
from jaxpool._geometry.sizes import Ratios, Sizes, check_flag
from jaxpool.compat.torch._arguments import per_axis, spatial


@overload
def fractional_max_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: Literal[False] = False,
    _random_samples: ArrayLike | None = None,
) -> jax.Array: ...
@overload
def fractional_max_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    *,
    return_indices: Literal[True],
    _random_samples: ArrayLike | None = None,
) -> tuple[jax.Array, jax.Array]: ...
@overload
def fractional_max_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: ArrayLike | None = None,
) -> jax.Array | tuple[jax.Array, jax.Array]: ...
def fractional_max_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: ArrayLike | None = None,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Fractional max pooling along two axes: random windows, as `torch.nn.functional.fractional_max_pool2d`.

    Formula, for one axis of n cells, m windows of k cells and a sample u: y[o] = max over j of input[s(o) + j],
    0 ≤ j < k, with s(o) = ⌊(o + u)·α⌋ - ⌊u·α⌋ for o < m - 1, α = (n - k)/(m - 1), and s(m - 1) = n - k.

    Args:
        input: Array of shape (N, C, H, W) or (C, H, W); bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Window size, an int for all axes or one per axis.
        output_size: Number of windows, an int for all axes or one per axis. Give this or `output_ratio`.
        output_ratio: Windows per cell of the input: a float between 0 and 1, or one float per axis.
        return_indices: Whether to return the position of every value too.
        _random_samples: Required: floats in [0, 1) of shape (N, C, 2), with N = 1 where input has none, as drawn by
            `jax.random.uniform`.

    Returns:
        Array of input's dtype; an axis of n cells becomes `output_size`, or ⌊n·output_ratio⌋. With `return_indices` a
        pair: these values, and as int32 (int64 under `jax_enable_x64`) the row-major position of each in the pooled
        axes.

    Raises:
        TypeError: input is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match, `_random_samples` or the number of windows is missing, or the pooled
            axes have too many cells for int32.

    Derivative:
        That of `jaxpool.fractional_max_pool`: ∂y[o]/∂x[i] = 1 where i is the first cell of window o to hold its
        maximum, or its first NaN, 0 elsewhere.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> x, samples = jnp.arange(16.0).reshape(1, 1, 4, 4), jnp.full((1, 1, 2), 0.5)
        >>> F.fractional_max_pool2d(x, 2, (2, 3), _random_samples=samples)[0, 0]
        Array([[ 5.,  6.,  7.],
               [13., 14., 15.]], dtype=float32)
    """
    sizes = (kernel_size, output_size, output_ratio)
    return _maxima("fractional_max_pool2d", 2, input, sizes, return_indices, _random_samples)


@overload
def fractional_max_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: Literal[False] = False,
    _random_samples: ArrayLike | None = None,
) -> jax.Array: ...
@overload
def fractional_max_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    *,
    return_indices: Literal[True],
    _random_samples: ArrayLike | None = None,
) -> tuple[jax.Array, jax.Array]: ...
@overload
def fractional_max_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: ArrayLike | None = None,
) -> jax.Array | tuple[jax.Array, jax.Array]: ...
def fractional_max_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: ArrayLike | None = None,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Fractional max pooling along three axes: random windows, as `torch.nn.functional.fractional_max_pool3d`.

    The formula is that of `fractional_max_pool2d`, along each axis.

    Args:
        input: Array of shape (N, C, D, H, W) or (C, D, H, W); bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Window size, an int for all axes or one per axis.
        output_size: Number of windows, an int for all axes or one per axis. Give this or `output_ratio`.
        output_ratio: Windows per cell of the input: a float between 0 and 1, or one float per axis.
        return_indices: Whether to return the position of every value too.
        _random_samples: Required: floats in [0, 1) of shape (N, C, 3), with N = 1 where input has none, as drawn by
            `jax.random.uniform`.

    Returns:
        Array of input's dtype; an axis of n cells becomes `output_size`, or ⌊n·output_ratio⌋. With `return_indices` a
        pair: these values, and as int32 (int64 under `jax_enable_x64`) the row-major position of each in the pooled
        axes.

    Raises:
        TypeError: input is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: input and sizes do not match, `_random_samples` or the number of windows is missing, or the pooled
            axes have too many cells for int32.

    Derivative:
        That of `jaxpool.fractional_max_pool`: ∂y[o]/∂x[i] = 1 where i is the first cell of window o to hold its
        maximum, or its first NaN, 0 elsewhere.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> x, samples = jnp.arange(8.0).reshape(1, 1, 2, 2, 2), jnp.full((1, 1, 3), 0.5)
        >>> F.fractional_max_pool3d(x, 2, 1, _random_samples=samples)
        Array([[[[[7.]]]]], dtype=float32)
    """
    sizes = (kernel_size, output_size, output_ratio)
    return _maxima("fractional_max_pool3d", 3, input, sizes, return_indices, _random_samples)


def _maxima(
    function: str,
    rank: int,
    input: ArrayLike,
    sizes: tuple[Sizes, Sizes | None, Ratios | None],
    indices: bool,
    samples: ArrayLike | None,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    array = spatial(function, input, rank)
    kernel_size, output_size, output_ratio = sizes
    batch = array.shape[:-rank] if array.ndim > rank + 1 else (1, *array.shape[:-rank])
    if samples is None:
        raise ValueError(
            f"{function}: _random_samples is needed, since JAX draws no numbers without a key; write "
            f"_random_samples=jax.random.uniform(key, {(*batch, rank)})"
        )
    check_is_array(function, "_random_samples", samples)
    drawn = jnp.asarray(samples)
    if drawn.shape != (*batch, rank):
        raise ValueError(
            f"{function}: _random_samples of shape {drawn.shape} do not match input {array.shape}; give the shape "
            f"{(*batch, rank)}"
        )
    # In two dimensions only, PyTorch has the sample of the last axis first.
    drawn = (drawn[..., ::-1] if rank == 2 else drawn).reshape(*array.shape[:-rank], rank)
    kernels = per_axis(function, "kernel_size", kernel_size, rank)
    counts = None if output_size is None else per_axis(function, "output_size", output_size, rank)
    ratios = None if counts else output_ratio  # the size that is given wins
    if not check_flag(function, "return_indices", indices):
        return jaxpool.fractional_max_pool(array, kernels, counts, output_ratio=ratios, samples=drawn)
    values, places = jaxpool.fractional_max_pool_with_indices(
        array, kernels, counts, output_ratio=ratios, samples=drawn
    )
    return values, places.astype(jnp.result_type(int))
