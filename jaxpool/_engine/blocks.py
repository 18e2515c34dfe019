"""Windows that share no cells, seen as blocks: an axis of windows and an axis of cells, which is folded.

A fold combines up to 15 slices at a time until one is left. Every slice is contiguous. Elementwise operations combine
the slices, so NaN is kept at any size, where the platform's own reduction may drop it. A sum of n cells becomes a tree
of about log n levels, so its rounding error grows slowly with n.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import (
    Operation,
    combine,
    identity,
    keys_of,
    merge_axis,
    numbers_of,
    split_axis,
    values_of,
)
from jaxpool._engine.stages import materialize
from jaxpool._platforms import most_devices
from jaxpool._window import Window, WindowAxis

# A loop that reads an activation in more places has it computed in a pass of its own, or again for every slice: global
# averages then take 2 to 8 times as long.
MOST_COMBINED = 15


def reduce_blocks(padded: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce windows that tile an array, by `lax.max`, `lax.min` or `lax.add`."""
    cells, axes = split_blocks(padded, window)
    return join_blocks(_fold_windows(cells, axes, window, op), axes, window)


def first_in_blocks(padded: jax.Array, window: Window, op: Operation) -> tuple[jax.Array, jax.Array]:
    """The extreme of windows that tile an array, and the lowest number of a cell that has it."""
    cells, axes = split_blocks(padded, window)
    best = materialize(_fold_windows(cells, axes, window, op))
    # In 32 bits: their minimum compiles to faster code than that of bytes. The best of a window that holds NaN is NaN.
    numbers, found = numbers_of(cells.shape, axes, np.uint32), (cells == best) | (cells != cells)
    first = jnp.where(found, numbers, np.uint32(np.iinfo(np.uint32).max)).min(axes, keepdims=True)
    offsets = first.astype(np.min_scalar_type(window.cells - 1))
    return join_blocks(best, axes, window), join_blocks(offsets, axes, window)


def fold(array: jax.Array, axes: Sequence[int], op: Operation) -> jax.Array:
    """Combine all cells along `axes`, which keep size 1: slices far apart in memory, at most `MOST_COMBINED` a step."""
    reads = 1
    for axis in axes:
        while (cells := array.shape[axis]) > 1:
            width = -(-cells // MOST_COMBINED)
            if axis == array.ndim - 1 and cells > 63:
                # Rows that fill vectors: at the end of others what the loop reads is computed cell by cell.
                width = -(-width // 8) * 8
            count = -(-cells // width)
            if reads * count > MOST_COMBINED:
                array, reads = materialize(array), 1
            array, reads = combine(op, _slices(array, axis, width, op)), reads * count
    return array


def _fold_windows(cells: jax.Array, axes: Sequence[int], window: Window, op: Operation) -> jax.Array:
    return (combine_devices if is_shared(window) else fold)(cells, axes, op)


def is_shared(window: Window) -> bool:
    """Whether several devices may share the cells of a window: of one that is the only one along an axis."""
    return most_devices() > 1 and any(axis.output == 1 for axis in window.axes)


def combine_devices(array: jax.Array, axes: Sequence[int], op: Operation) -> jax.Array:
    """Combine all cells along `axes`, which keep size 1, in one exchange between the devices that share them."""
    keys = _to_ordered(array, op)
    total = lax.reduce(keys, identity(op, keys.dtype), op, axes)
    return lax.expand_dims(total if total.dtype == array.dtype else values_of(total, array.dtype), axes)


def _to_ordered(array: jax.Array, op: Operation) -> jax.Array:
    """For a maximum or minimum of floats, integers in the same order, where NaN wins: devices may drop NaN."""
    if op is lax.add or not jnp.issubdtype(array.dtype, jnp.floating):
        return array
    keys = keys_of(array)
    limits = jnp.iinfo(keys.dtype)
    return jnp.where(array != array, np.array(limits.max if op is lax.max else limits.min, keys.dtype)[()], keys)


def _slices(array: jax.Array, axis: int, width: int, op: Operation) -> list[jax.Array]:
    """Cut the array into slices; a short last one starts earlier, and a sum sets the cells it repeats to 0."""
    cells = array.shape[axis]
    short = cells % width
    *slices, last = lax.split(array, [width] * (cells // width) + [short] * (short > 0), axis)
    if short:
        last = lax.slice_in_dim(array, cells - width, cells, 1, axis)
        if op is lax.add:
            shape = [width if number == axis else 1 for number in range(array.ndim)]
            repeated = lax.broadcasted_iota(np.int32, shape, axis) < width - short
            last = jnp.where(repeated, jnp.zeros_like(last), last)
    return [*slices, last]


def split_blocks(array: jax.Array, window: Window) -> tuple[jax.Array, tuple[int, ...]]:
    """Split every pooled axis into windows and cells; the axes of cells are returned, adjacent unshared ones merged."""
    axes: list[int] = []
    added = 0
    for before, axis in zip((None, *window.axes), window.axes, strict=False):
        number = axis.axis + added
        if axis.output > 1:
            array = split_axis(array, number, axis.kernel)
            axes.append(number + 1)
            added += 1
        elif _merges(before, axis):
            array = merge_axis(array, number - 1)
            added -= 1
        else:
            axes.append(number)
    return array, tuple(axes)


def _merges(before: WindowAxis | None, axis: WindowAxis) -> bool:
    """Whether the cells of an axis with one window are merged with those of the pooled axis before it."""
    return before is not None and before.axis == axis.axis - 1 and most_devices() == 1


def join_blocks(array: jax.Array, axes: Sequence[int], window: Window) -> jax.Array:
    """Drop the axes of cells, which have size 1, and keep those of windows, even of a single window."""
    return lax.expand_dims(lax.squeeze(array, axes), [axis.axis for axis in window.axes if axis.output == 1])
