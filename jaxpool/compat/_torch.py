"""How the functions of `jaxpool.compat.torch` are evaluated, each by its name and the number of its pooled axes."""

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
from jaxpool._arguments import check_divisor, check_indices, check_parameter
from jaxpool._arrays import as_array
from jaxpool._average import averages
from jaxpool._call import LESS_PADDING, Call, binned, check_array, sliding
from jaxpool._derivatives.extremes import extremes, extremes_with_indices
from jaxpool._engine.operations import accumulation_dtype
from jaxpool._geometry.sizes import OutputSizes, Ratios, Sizes, check_flag, sizes
from jaxpool._norms import norms


def maxima_of_windows(
    function: str, rank: int, input: ArrayLike, windows: tuple[Any, ...], return_indices: bool
) -> jax.Array | tuple[jax.Array, jax.Array]:
    return _maxima(function, _sliding(function, rank, input, windows), return_indices)


def maxima_of_bins(
    function: str, rank: int, input: ArrayLike, output_size: OutputSizes, return_indices: bool
) -> jax.Array | tuple[jax.Array, jax.Array]:
    array = _spatial(function, rank, input)
    call = binned(function, array, output_size, tuple(range(-rank, 0)), None, "jvp")
    return _maxima(function, call, return_indices)


def _maxima(function: str, call: Call, return_indices: bool) -> jax.Array | tuple[jax.Array, jax.Array]:
    array, mask, window = call
    if not check_flag(function, "return_indices", return_indices):
        return extremes(array, mask, window, lax.max, "jvp")
    window.check_positions_fit(function)
    values, indices = extremes_with_indices(array, mask, window, lax.max, "jvp")
    return values, indices.astype(jnp.result_type(int))


def averages_of_windows(
    function: str, rank: int, input: ArrayLike, windows: tuple[Any, ...], include_pad: bool, divisor: float | None
) -> jax.Array:
    include_pad = check_flag(function, "count_include_pad", include_pad)
    divisor = check_divisor(function, divisor)
    return averages(*_sliding(function, rank, input, windows, complex_allowed=True), include_pad, divisor, "jvp")


def averages_of_bins(function: str, rank: int, input: ArrayLike, output_size: OutputSizes) -> jax.Array:
    array, axes = _spatial(function, rank, input, complex_allowed=True), tuple(range(-rank, 0))
    return averages(*binned(function, array, output_size, axes, None, "jvp", complex_allowed=True), True, None, "jvp")


def norms_of_windows(
    function: str, rank: int, input: ArrayLike, norm_type: ArrayLike, windows: tuple[Any, ...]
) -> jax.Array:
    array, _, window = _sliding(function, rank, input, windows)
    fix = "use 1 for the sum of magnitudes, 2 for the Euclidean norm, float('inf') for the largest magnitude"
    shape = window.output_shape(array.shape)
    p, number = check_parameter(function, "norm_type", norm_type, shape, lambda p: p > 0, "positive", fix)
    dtype = array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else np.dtype(np.float32)
    values = norms(array.astype(accumulation_dtype(dtype)), None, p, window, number, "jvp")
    cells = math.prod(_per_axis(function, "kernel_size", windows[0], rank))
    if not (window.is_full and window.cells == cells):
        # PyTorch treats the average of the powers present as that of a whole window.
        scale = cells / jnp.asarray(window.counts(array.ndim, padding=False), values.dtype)
        values *= scale ** (1 / jnp.asarray(number if p is None else p, values.dtype))
    return values.astype(dtype)


def unpooled(
    function: str,
    rank: int,
    input: ArrayLike,
    indices: ArrayLike,
    windows: tuple[Sizes, Sizes | None, Sizes],
    output_size: Sequence[int] | None,
) -> jax.Array:
    array = _spatial(function, rank, input, complex_allowed=True)
    places = check_indices(function, indices, array.shape)
    kernel_size, stride, padding = windows
    kernels = _per_axis(function, "kernel_size", kernel_size, rank)
    strides = kernels if stride is None else _per_axis(function, "stride", stride, rank)
    pads = _per_axis(function, "padding", padding, rank, least=0)
    pooled = array.shape[-rank:]
    least = tuple((n - 1) * s + k - 2 * p for n, k, s, p in zip(pooled, kernels, strides, pads, strict=True))
    output = least if output_size is None else _output_size(function, output_size, rank)
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


def maxima_at_random(
    function: str,
    rank: int,
    input: ArrayLike,
    windows: tuple[Sizes, Sizes | None, Ratios | None],
    return_indices: bool,
    samples: ArrayLike | None,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    array = _spatial(function, rank, input)
    kernel_size, output_size, output_ratio = windows
    shape = (*(array.shape[:-rank] if array.ndim > rank + 1 else (1, *array.shape[:-rank])), rank)
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
    drawn = (drawn[..., ::-1] if rank == 2 else drawn).reshape(*array.shape[:-rank], rank)
    kernels = _per_axis(function, "kernel_size", kernel_size, rank)
    counts = None if output_size is None else _per_axis(function, "output_size", output_size, rank)
    ratios = None if counts else output_ratio  # the size that is given wins
    if not check_flag(function, "return_indices", return_indices):
        return jaxpool.fractional_max_pool(array, kernels, counts, output_ratio=ratios, samples=drawn)
    pool = jaxpool.fractional_max_pool_with_indices
    values, indices = pool(array, kernels, counts, output_ratio=ratios, samples=drawn)
    return values, indices.astype(jnp.result_type(int))


def _sliding(
    function: str, rank: int, input: ArrayLike, windows: tuple[Any, ...], *, complex_allowed: bool = False
) -> Call:
    """Parse the call of a sliding-window pool along the last axes; `windows` are its sizes, as in `max_pool2d`."""
    array = _spatial(function, rank, input, complex_allowed=complex_allowed)
    kernel_size, stride, padding, dilation, ceil_mode = windows
    kernels = strides = _per_axis(function, "kernel_size", kernel_size, rank)
    # Exported models write an empty list for None.
    if stride is not None and not (isinstance(stride, Sequence) and not stride):
        strides = _per_axis(function, "stride", stride, rank)
    pads = _per_axis(function, "padding", padding, rank, least=0)
    dilations = _per_axis(function, "dilation", dilation, rank)
    for kernel, pad in zip(kernels, pads, strict=True):
        if 2 * pad > kernel:
            raise ValueError(
                f"{function}: padding {pad} is more than half of a window of {kernel} cells; give at most "
                f"{kernel // 2}, or pool with jaxpool.{function[:-2]}, which takes any padding"
            )
    along = (kernels, strides, pads, dilations, ceil_mode, None)
    return sliding(function, array, along, None, "jvp", only_padding=LESS_PADDING, complex_allowed=complex_allowed)


def _spatial(function: str, rank: int, input: ArrayLike, *, complex_allowed: bool = False) -> jax.Array:
    """Return the array, or raise unless it has one or two axes (channels, batch) before the `rank` pooled ones."""
    array = check_array(function, input, "input", complex_allowed=complex_allowed)
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


def _per_axis(function: str, name: str, given: Sizes, rank: int, *, least: int = 1) -> tuple[int, ...]:
    """One int for each pooled axis. PyTorch accepts a sequence of one in place of an int."""
    allowed = f"an int or {rank} ints" if rank > 1 else "an int or a tuple of one"
    if isinstance(given, str) or (isinstance(given, Sequence) and any(isinstance(one, Sequence) for one in given)):
        raise TypeError(f"{function}: {name} must be {allowed}, got {given!r}; each is for both sides")
    if isinstance(given, Sequence) and len(given) not in (1, rank):
        raise ValueError(f"{function}: {name} {tuple(given)} has {len(given)} entries; give {allowed}")
    if isinstance(given, Sequence) and len(given) == 1:
        given = given[0]
    return sizes(function, name, given, rank, least=least)
