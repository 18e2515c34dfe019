"""What the functions have in common: arrays with or without a batch, sizes for all axes or each axis, indices."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jaxpool._call import Call, binned, sliding
from jaxpool._checks import check_array, check_flag
from jaxpool._extremes import extremes, extremes_with_indices
from jaxpool._sizes import OutputSizes, Sizes, sizes

_LETTERS = {1: "L", 2: "H, W", 3: "D, H, W"}


def spatial(function: str, input: ArrayLike, rank: int, *, complex_allowed: bool = False) -> jax.Array:
    """Return the array, or raise unless it has one or two axes (channels, batch) before the `rank` pooled ones."""
    array = check_array(function, input, "input", complex_allowed=complex_allowed)
    if array.ndim in (rank + 1, rank + 2):
        return array
    letters = _LETTERS[rank]
    fix = "give all axes that are not pooled as one of them"
    if array.ndim == rank:
        fix = "add the axis of channels, as in input[None]"
    elif array.ndim > rank:
        fix = f"merge the first axes, as in input.reshape(-1, *input.shape[-{rank + 1}:])"
    raise ValueError(
        f"{function}: input must have the axes (N, C, {letters}) or (C, {letters}), got {array.shape}; {fix}"
    )


def per_axis(function: str, name: str, given: Sizes, rank: int, *, least: int = 1) -> tuple[int, ...]:
    """One int for each pooled axis. PyTorch accepts a sequence of one in place of an int."""
    if isinstance(given, str) or (isinstance(given, Sequence) and any(isinstance(one, Sequence) for one in given)):
        raise TypeError(f"{function}: {name} must be an int or {_counted(rank)}, got {given!r}; each is for both sides")
    if isinstance(given, Sequence):
        if len(given) not in (1, rank):
            raise ValueError(
                f"{function}: {name} {tuple(given)} has {len(given)} entries; give an int or {_counted(rank)}"
            )
        if len(given) == 1:
            given = given[0]
    return sizes(function, name, given, rank, least=least)


def window_call(
    function: str,
    input: ArrayLike,
    rank: int,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    **options: Any,
) -> Call:
    """Parse the call of a sliding-window pool along the last axes; `options` are those of `sliding`."""
    array = spatial(function, input, rank, complex_allowed=options.get("complex_allowed", False))
    kernels = per_axis(function, "kernel_size", kernel_size, rank)
    strides = kernels
    # Exported models write an empty list for None.
    if stride is not None and not (isinstance(stride, Sequence) and not stride):
        strides = per_axis(function, "stride", stride, rank)
    pads = per_axis(function, "padding", padding, rank, least=0)
    dilations = per_axis(function, "dilation", dilation, rank)
    for kernel, pad in zip(kernels, pads, strict=True):
        if 2 * pad > kernel:
            raise ValueError(
                f"{function}: padding {pad} is more than half of a window of {kernel} cells; give at most "
                f"{kernel // 2}, or pool with jaxpool.{function[:-2]}, which takes any padding"
            )
    return sliding(function, array, (kernels, strides, pads, dilations, ceil_mode, None), None, "jvp", **options)


def bin_call(
    function: str, input: ArrayLike, rank: int, output_size: OutputSizes, *, complex_allowed: bool = False
) -> Call:
    """Parse the call of a pool with a given number of bins along each of the last axes."""
    array = spatial(function, input, rank, complex_allowed=complex_allowed)
    axes = tuple(range(-rank, 0))
    return binned(function, array, output_size, axes, None, "jvp", complex_allowed=complex_allowed)


def maxima(function: str, call: Call, return_indices: bool) -> jax.Array | tuple[jax.Array, jax.Array]:
    """The largest cell of every window or bin of a call and, on request, its index."""
    array, mask, window = call
    if not check_flag(function, "return_indices", return_indices):
        return extremes(array, mask, window, lax.max, "jvp")
    window.check_positions_fit(function)
    values, indices = extremes_with_indices(array, mask, window, lax.max, "jvp")
    return values, indices.astype(jnp.result_type(int))


def _counted(rank: int) -> str:
    return f"{rank} ints" if rank > 1 else "a tuple of one"
