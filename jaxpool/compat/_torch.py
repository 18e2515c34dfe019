"""How the functions of `jaxpool.compat.torch` are evaluated: each by its name, which tells how many axes it pools."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

import jaxpool
from jaxpool import _average, _norms
from jaxpool._call import LESS_PADDING, Call, binned, sliding
from jaxpool._checks import as_array, check_array, check_divisor, check_flag, check_indices, check_parameter
from jaxpool._extremes import extremes, extremes_with_indices
from jaxpool._sizes import OutputSizes, Sizes, sizes
from jaxpool._windows.operations import accumulation_dtype

# A call, and the name of its function.
NamedCall = tuple[str, Call]


def windows(
    function: str, input: ArrayLike, given: tuple[Any, ...], dilation: Sizes = 1, *, complex_allowed: bool = False
) -> NamedCall:
    """Parse the call of a pool with sliding windows; `given` are kernel_size, stride, padding and ceil_mode."""
    array = _spatial(function, input, complex_allowed=complex_allowed)
    kernel_size, stride, padding, ceil_mode = given
    kernels = strides = _per_axis(function, "kernel_size", kernel_size)
    # Exported models write an empty list for None.
    if stride is not None and not (isinstance(stride, Sequence) and not stride):
        strides = _per_axis(function, "stride", stride)
    pads = _per_axis(function, "padding", padding, least=0)
    for kernel, pad in zip(kernels, pads, strict=True):
        if 2 * pad > kernel:
            raise ValueError(
                f"{function}: padding {pad} is more than half of a window of {kernel} cells; give at most "
                f"{kernel // 2}, or pool with jaxpool.{function[:-2]}, which takes any padding"
            )
    along = (kernels, strides, pads, _per_axis(function, "dilation", dilation), ceil_mode, None)
    return function, sliding(function, array, along, None, "jvp", only_padding=LESS_PADDING, complex_allowed=True)


def bins(function: str, input: ArrayLike, output_size: OutputSizes, *, complex_allowed: bool = False) -> NamedCall:
    """Parse the call of a pool with a given number of bins along each axis."""
    array = _spatial(function, input, complex_allowed=complex_allowed)
    return function, binned(function, array, output_size, _axes(function), None, "jvp", complex_allowed=True)


def maxima(call: NamedCall, return_indices: bool) -> jax.Array | tuple[jax.Array, jax.Array]:
    function, (array, mask, window) = call
    if not check_flag(function, "return_indices", return_indices):
        return extremes(array, mask, window, lax.max, "jvp")
    window.check_positions_fit(function)
    values, indices = extremes_with_indices(array, mask, window, lax.max, "jvp")
    return values, indices.astype(jnp.result_type(int))


def averages(call: NamedCall, count_include_pad: bool, divisor_override: float | None) -> jax.Array:
    function, (array, mask, window) = call
    include_pad = check_flag(function, "count_include_pad", count_include_pad)
    return _average.averages(array, mask, window, include_pad, check_divisor(function, divisor_override), "jvp")


def norms(call: NamedCall, norm_type: ArrayLike, kernel_size: Sizes) -> jax.Array:
    function, (array, mask, window) = call
    fix = "use 1 for the sum of magnitudes, 2 for the Euclidean norm, float('inf') for the largest magnitude"
    shape = window.output_shape(array.shape)
    p, number = check_parameter(function, "norm_type", norm_type, shape, lambda p: p > 0, "positive", fix)
    dtype = array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else np.dtype(np.float32)
    values = _norms.norms(array.astype(accumulation_dtype(dtype)), mask, p, window, number, "jvp")
    cells = math.prod(_per_axis(function, "kernel_size", kernel_size))
    if not (window.is_full and window.cells == cells):
        # PyTorch treats the average of the powers present as that of a whole window.
        scale = cells / jnp.asarray(window.counts(array.ndim, padding=False), values.dtype)
        values *= scale ** (1 / jnp.asarray(number if p is None else p, values.dtype))
    return values.astype(dtype)


def unpooled(
    function: str, input: ArrayLike, indices: ArrayLike, given: tuple[Any, ...], output_size: Sequence[int] | None
) -> jax.Array:
    array, rank = _spatial(function, input, complex_allowed=True), len(_axes(function))
    places = check_indices(function, indices, array.shape)
    kernel_size, stride, padding = given
    kernels = _per_axis(function, "kernel_size", kernel_size)
    strides = kernels if stride is None else _per_axis(function, "stride", stride)
    pads = _per_axis(function, "padding", padding, least=0)
    pooled = array.shape[-rank:]
    output = least = tuple((n - 1) * s + k - 2 * p for n, k, s, p in zip(pooled, kernels, strides, pads, strict=True))
    if output_size is not None:
        if not isinstance(output_size, Sequence) or isinstance(output_size, str):
            raise TypeError(f"{function}: output_size must be a sequence of {rank} ints, got {output_size!r}")
        if len(output_size) not in (rank, rank + 2):
            raise ValueError(
                f"{function}: output_size {tuple(output_size)} has {len(output_size)} entries; give {rank}, or "
                f"{rank + 2} with those of batch and channels in front"
            )
        output = sizes(function, "output_size", tuple(output_size[-rank:]), rank, least=1)
    for size, one, step in zip(output, least, strides, strict=True):
        # Floor and ceil give the same number of windows for all of these sizes.
        if not max(one - step, 0) < size < one + step:
            raise ValueError(
                f"{function}: output_size {output} cannot have been pooled to {pooled} by kernel_size {kernels}, "
                f"stride {strides} and padding {pads}; give about {least}, or use jaxpool.max_unpool, which takes any "
                f"size"
            )
    known = not isinstance(places, jax.core.Tracer) and places.is_fully_addressable and places.size > 0
    if output_size is None and known and (last := int(places.max())) >= math.prod(output):
        raise ValueError(
            f"{function}: index {last} is beyond the output {output}; give output_size, the size before pooling, which "
            f"an odd size needs"
        )
    return jaxpool.max_unpool(array, places, output, axis=_axes(function))


def maxima_at_random(
    function: str, input: ArrayLike, given: tuple[Any, ...], return_indices: bool, samples: ArrayLike | None
) -> jax.Array | tuple[jax.Array, jax.Array]:
    array, rank = _spatial(function, input), len(_axes(function))
    kernel_size, output_size, output_ratio = given
    outer = array.shape[:-rank]
    shape = (*(outer if len(outer) == 2 else (1, *outer)), rank)
    if samples is None:
        raise ValueError(
            f"{function}: _random_samples is needed, since JAX draws no numbers without a key; write "
            f"_random_samples=jax.random.uniform(key, {shape})"
        )
    drawn = jnp.asarray(as_array(function, "_random_samples", samples))
    if drawn.shape != shape:
        raise ValueError(
            f"{function}: _random_samples of shape {drawn.shape} do not match input {array.shape}; give the shape "
            f"{shape}"
        )
    # In two dimensions only, PyTorch has the sample of the last axis first.
    drawn = (drawn[..., ::-1] if rank == 2 else drawn).reshape(*outer, rank)
    kernels = _per_axis(function, "kernel_size", kernel_size)
    counts = None if output_size is None else _per_axis(function, "output_size", output_size)
    ratios = None if counts else output_ratio  # the size that is given wins
    if not check_flag(function, "return_indices", return_indices):
        return jaxpool.fractional_max_pool(array, kernels, counts, output_ratio=ratios, samples=drawn)
    pool = jaxpool.fractional_max_pool_with_indices
    values, indices = pool(array, kernels, counts, output_ratio=ratios, samples=drawn)
    return values, indices.astype(jnp.result_type(int))


def _spatial(function: str, input: ArrayLike, *, complex_allowed: bool = False) -> jax.Array:
    """Return the array, or raise unless it has one or two axes (channels, batch) before the pooled ones."""
    array, rank = check_array(function, input, "input", complex_allowed=complex_allowed), len(_axes(function))
    if array.ndim in (rank + 1, rank + 2):
        return array
    letters = {1: "L", 2: "H, W", 3: "D, H, W"}[rank]
    fix = "give all axes that are not pooled as one of them"
    if array.ndim == rank:
        fix = "add the axis of channels, as in input[None]"
    elif array.ndim > rank:
        fix = f"merge the first axes, as in input.reshape(-1, *input.shape[-{rank + 1}:])"
    raise ValueError(
        f"{function}: input must have the axes (N, C, {letters}) or (C, {letters}), got {array.shape}; {fix}"
    )


def _per_axis(function: str, name: str, given: Sizes, *, least: int = 1) -> tuple[int, ...]:
    """One int for each pooled axis. PyTorch accepts a sequence of one in place of an int."""
    rank = len(_axes(function))
    allowed = f"an int or {rank} ints" if rank > 1 else "an int or a tuple of one"
    if isinstance(given, str) or (isinstance(given, Sequence) and any(isinstance(one, Sequence) for one in given)):
        raise TypeError(f"{function}: {name} must be {allowed}, got {given!r}; each is for both sides")
    if isinstance(given, Sequence) and len(given) not in (1, rank):
        raise ValueError(f"{function}: {name} {tuple(given)} has {len(given)} entries; give {allowed}")
    if isinstance(given, Sequence) and len(given) == 1:
        given = given[0]
    return sizes(function, name, given, rank, least=least)


def _axes(function: str) -> tuple[int, ...]:
    """The last axes, as many as in the name, two in `max_pool2d`."""
    return tuple(range(-int(function[-2]), 0))
