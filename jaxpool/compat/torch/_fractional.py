"""`fractional_max_pool2d` and `fractional_max_pool3d` of `torch.nn.functional`: windows at random positions."""

from __future__ import annotations

from typing import Literal, overload

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

import jaxpool
from jaxpool._checks import as_array, check_flag
from jaxpool._sizes import Ratios, Sizes
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
    """As `torch.nn.functional.fractional_max_pool2d`; see `jaxpool.fractional_max_pool`.

    Differs in indices (int32 unless `jax_enable_x64`), NaN (the first of several wins), `_random_samples` (required:
    (N, C, pooled axes) floats in [0, 1)), `output_ratio` (may be one float), dtypes (any real one), channels (may be 0)
    and errors.

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
    """As `torch.nn.functional.fractional_max_pool3d`; see `fractional_max_pool2d`. Differs in the same ways.

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
    drawn = jnp.asarray(as_array(function, "_random_samples", samples))
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
