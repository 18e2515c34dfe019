"""`max_unpool1d`, `max_unpool2d` and `max_unpool3d` of `torch.nn.functional`: the partial inverses of max pools."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.core
from jax.typing import ArrayLike

import jaxpool
from jaxpool._checks import check_indices
from jaxpool._sizes import Sizes, sizes
from jaxpool.compat.torch._arguments import per_axis, spatial


def max_unpool1d(
    input: ArrayLike,
    indices: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> jax.Array:
    """As `torch.nn.functional.max_unpool1d`; see `max_unpool2d`. Differs in the same ways.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> values, indices = F.max_pool1d(jnp.array([[3.0, 1.0, 2.0, 5.0]]), 2, return_indices=True)
        >>> F.max_unpool1d(values, indices, 2)
        Array([[3., 0., 0., 5.]], dtype=float32)
    """
    return _unpooled("max_unpool1d", 1, input, indices, (kernel_size, stride, padding), output_size)


def max_unpool2d(
    input: ArrayLike,
    indices: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> jax.Array:
    """As `torch.nn.functional.max_unpool2d`; see `jaxpool.max_unpool`.

    Differs in indices out of range (write nothing if traced, negative or beyond `output_size`), repeated indices (the
    last value is written, and alone has a gradient), dtypes (any), channels (may be 0) and errors.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> x = jnp.arange(9.0).reshape(1, 3, 3)
        >>> values, indices = F.max_pool2d(x, 2, return_indices=True)
        >>> F.max_unpool2d(values, indices, 2, output_size=(3, 3))
        Array([[[0., 0., 0.],
                [0., 4., 0.],
                [0., 0., 0.]]], dtype=float32)
    """
    return _unpooled("max_unpool2d", 2, input, indices, (kernel_size, stride, padding), output_size)


def max_unpool3d(
    input: ArrayLike,
    indices: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> jax.Array:
    """As `torch.nn.functional.max_unpool3d`; see `max_unpool2d`. Differs in the same ways.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> x = jnp.arange(8.0).reshape(1, 2, 2, 2)
        >>> values, indices = F.max_pool3d(x, 2, return_indices=True)
        >>> F.max_unpool3d(values, indices, 2).sum()
        Array(7., dtype=float32)
    """
    return _unpooled("max_unpool3d", 3, input, indices, (kernel_size, stride, padding), output_size)


def _unpooled(
    function: str,
    rank: int,
    input: ArrayLike,
    indices: ArrayLike,
    pool: tuple[Sizes, Sizes | None, Sizes],
    output_size: Sequence[int] | None,
) -> jax.Array:
    array = spatial(function, input, rank, complex_allowed=True)
    places = check_indices(function, indices, array.shape)
    kernel_size, stride, padding = pool
    kernels = per_axis(function, "kernel_size", kernel_size, rank)
    strides = kernels if stride is None else per_axis(function, "stride", stride, rank)
    pads = per_axis(function, "padding", padding, rank, least=0)
    least = tuple(
        (n - 1) * s + k - 2 * p for n, k, s, p in zip(array.shape[-rank:], kernels, strides, pads, strict=True)
    )
    output = least if output_size is None else _output_size(function, output_size, rank)
    for size, one, step in zip(output, least, strides, strict=True):
        # Floor and ceil give the same number of windows for all of these sizes.
        if not max(one - step, 0) < size < one + step:
            raise ValueError(
                f"{function}: output_size {output} cannot have been pooled to {array.shape[-rank:]} by kernel_size "
                f"{kernels}, stride {strides} and padding {pads}; give about {least}, or use jaxpool.max_unpool, which "
                f"takes any size"
            )
    known = not isinstance(places, jax.core.Tracer) and places.is_fully_addressable and places.size > 0
    if output_size is None and known and (last := int(places.max())) >= math.prod(output):
        raise ValueError(
            f"{function}: index {last} is beyond the output {output}; give output_size, the size before pooling, which "
            f"an odd size needs"
        )
    return jaxpool.max_unpool(array, places, output, axis=tuple(range(-rank, 0)))


def _output_size(function: str, given: Sequence[int], rank: int) -> tuple[int, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise TypeError(f"{function}: output_size must be a sequence of {rank} ints, got {given!r}")
    if len(given) not in (rank, rank + 2):
        raise ValueError(
            f"{function}: output_size {tuple(given)} has {len(given)} entries; give {rank}, or {rank + 2} with those "
            f"of batch and channels in front"
        )
    return sizes(function, "output_size", tuple(given[-rank:]), rank, least=1)
