"""The cells at one offset of all windows, as an array of the output's shape: what everything elementwise rests on.

An *offset* identifies a cell of a window: by an int for each pooled axis, or by its row-major number. Whatever
`lax.reduce_window` cannot do, the engine does with a loop over offsets, unrolled in the traced program. The cells are a
strided slice of the padded array or, for bins of unequal sizes, a gather from a table of their places; `loops` cuts
them out of a block of a large window.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._engine.bins_as_tiles import as_tiles, by_table, cells_at_place, copy_to_tiles
from jaxpool._engine.operations import Arrays, pad
from jaxpool._engine.stages import materialize
from jaxpool._platforms import known_platform
from jaxpool._window import Window

# The most cells of a window that are unrolled.
_MOST_UNROLLED = 64


def is_looped(window: Window) -> bool:
    """Whether the program loops over blocks of the window, as `loops` does, if it has more than 64 cells."""
    return window.held > _MOST_UNROLLED


def holds_all_cells(window: Window) -> bool:
    """Whether there is only one window, which holds all cells along the pooled axes and no padding."""
    whole = all(axis.output == 1 and axis.kernel == axis.size and not (axis.low or axis.high) for axis in window.axes)
    return whole and not window.has_footprint


def offsets_in(window: Window) -> Iterator[tuple[int, ...]]:
    """Every offset in the window, in row-major order."""
    offsets = itertools.product(*(range(axis.kernel) for axis in window.axes))
    if not window.has_footprint:
        return offsets
    held = set(window.numbers)
    return (offset for number, offset in enumerate(offsets) if number in held)


def pad_windows(x: jax.Array, window: Window, fill: Any) -> jax.Array:
    """Extend x by `fill`, and crop the cells that no window reaches, so that the windows cover it exactly.

    Bins that are not gathered by tables become tiles, so that the result is the same as for other windows.
    The barrier keeps the compiler's simplifier from merging the padding with the slices that read it. It does not
    restrict fusion on the CPU, which drops barriers first.
    """
    # On a TPU a crop is a pass over the array, and slices do not need it.
    crops = known_platform() != "tpu" or window.tiles
    above = {axis.axis: axis.overhang if crops else max(axis.overhang, 0) for axis in window.axes}
    if window.has_bins:
        x = materialize(x) if by_table(window) else copy_to_tiles(x, window, fill)
    padded = pad(x, {axis.axis: (axis.low, above[axis.axis]) for axis in window.axes}, fill)
    grown = any(max(axis.low, axis.overhang) > 0 for axis in window.axes)
    return materialize(padded) if grown else padded


def pad_in_tiles(filled: Sequence[tuple[jax.Array, Any]], window: Window) -> tuple[Arrays, Window]:
    """Arrays, each with its fill, as `pad_windows` returns them, and the windows on them; bins become tiles."""
    if window.has_bins:
        filled = [(copy_to_tiles(array, window, fill), fill) for array, fill in filled]
        window = as_tiles(window)
    return tuple(pad_windows(array, window, fill) for array, fill in filled), window


def cells_at_offsets(x: jax.Array, window: Window, fill: Any) -> Iterator[jax.Array]:
    """The cells of all windows at every offset, in row-major order; padded and absent cells hold `fill`."""
    padded = pad_windows(x, window, fill)
    return (at_offset(padded, window, offset, fill) for offset in offsets_in(window))


def slices_at_offsets(x: jax.Array, window: Window, fill: Any) -> Iterator[jax.Array]:
    """The same, without bins; each slice is of real cells and padded itself, so that no padded array is in memory."""
    for offset in offsets_in(window):
        starts, limits, strides, widths = [0] * x.ndim, list(x.shape), [1] * x.ndim, {}
        for axis, along in zip(window.axes, offset, strict=True):
            # The cell of window o is real, 0 ≤ o·stride + start < size, for windows from the first to the end.
            start = along * axis.dilation - axis.low
            first = min(max(-(start // axis.stride), 0), axis.output)
            end = min((axis.size - 1 - start) // axis.stride + 1, axis.output)
            if first < end:
                starts[axis.axis] = first * axis.stride + start
                limits[axis.axis] = (end - 1) * axis.stride + start + 1
            else:
                limits[axis.axis], end = 0, first
            strides[axis.axis] = axis.stride
            widths[axis.axis] = first, axis.output - end
        yield pad(lax.slice(x, starts, limits, strides), widths, fill)


def at_offset(padded: jax.Array, window: Window, offset: tuple[int, ...], fill: Any = 0) -> jax.Array:
    """The cells of all windows at an offset, from the result of `pad_windows`; `fill` where a bin has no such cell."""
    if window.has_bins and by_table(window):
        return cells_at_place(padded, window, offset[0], fill)
    starts, limits, strides = [0] * padded.ndim, list(padded.shape), [1] * padded.ndim
    for axis, along in zip(window.axes, offset, strict=True):
        start = along * axis.dilation
        starts[axis.axis] = start
        limits[axis.axis] = start + (axis.output - 1) * axis.stride + 1
        # Along a sharded axis the compiler loses a single cell that is taken with a stride.
        strides[axis.axis] = axis.stride if axis.output > 1 else 1
    return lax.slice(padded, starts, limits, strides)


def is_innermost(window: Window, shape: Sequence[int], *, channels: int = 16) -> bool:
    """Whether windows run along the axis whose cells are adjacent in memory, or with fewer channels behind it."""
    behind = shape[window.axes[-1].axis + 1 :]
    # A symbolic size may have any value.
    return all(isinstance(size, int) for size in behind) and math.prod(behind) < channels


def present_cells(mask: jax.Array | None, window: Window, rank: int) -> jax.Array | None:
    """Which cells are present; None if windows hold no others."""
    if mask is not None or window.is_full:
        return mask
    sizes = {axis.axis: axis.size for axis in window.axes}
    return jnp.ones([sizes.get(axis, 1) for axis in range(rank)], bool)


def pad_real(x: jax.Array, window: Window, fill: Any) -> jax.Array:
    """Turn the declared padding into real cells that hold `fill`; `window.after_padding()` then applies."""
    return pad(x, {axis.axis: (axis.low, axis.high) for axis in window.axes}, fill)


def with_zeros_in_padding(
    x: jax.Array, mask: jax.Array | None, window: Window
) -> tuple[jax.Array, jax.Array | None, Window]:
    """The array and the mask with the declared padding as real zeros, unmasked, and the windows of the result."""
    return pad_real(x, window, 0), None if mask is None else pad_real(mask, window, True), window.after_padding()
