"""Windows that share no cells, seen as blocks: an axis of windows and an axis of cells, which is folded.

A fold combines up to 15 slices at a time until one is left. Every slice is contiguous. Elementwise operations combine
the slices, so NaN is kept at any size, where the platform's own reduction may drop it. A sum of n cells becomes a tree
of about log n levels, so its rounding error grows slowly with n.
"""

import math
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import (
    Operation,
    combine,
    decode,
    encode,
    identity,
    keys_of,
    merge_axis,
    numbers_of,
    split_axis,
    values_of,
)
from jaxpool._engine.stages import materialize, stage
from jaxpool._platforms import known_platform, most_devices
from jaxpool._window import Window, WindowAxis

# A loop that reads an activation in more places has it computed in a pass of its own, or again for every slice: global
# averages then take 2 to 8 times as long.
MOST_COMBINED = 15
# Cells of rows whose slices are some cache lines long, but no pages.
_LONG_ROWS = range(512, 8192)


def reduce_blocks(padded: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce windows that tile an array, by `lax.max`, `lax.min` or `lax.add`."""
    cells, axes = split_blocks(padded, window)
    return join_blocks(fold(cells, axes, op, devices_of(window)), axes, window)


def first_in_blocks(
    padded: jax.Array, numbers: jax.Array | None, window: Window, op: Operation
) -> tuple[jax.Array, jax.Array]:
    """The extreme of windows that tile an array, and the lowest number of a cell that has it.

    The number of a cell is its offset, added to its entry in `numbers` if there is one.
    """
    cells, axes = split_blocks(padded, window)
    best = stage(lambda cells: fold(cells, axes, op, devices_of(window)), cells)
    added = None if numbers is None else split_blocks(numbers, window)[0]
    first, sign = stage(partial(_first_of_best, axes), cells, best, added)
    if jnp.issubdtype(cells.dtype, jnp.floating):
        zeros = np.array([0.0, -0.0], cells.dtype)
        best = jnp.where(best == 0, jnp.where(sign == 1, zeros[1], zeros[0]), best)
    first = first.astype(np.min_scalar_type(window.cells - 1) if numbers is None else numbers.dtype)
    return join_blocks(best, axes, window), join_blocks(first, axes, window)


def _first_of_best(
    axes: tuple[int, ...], cells: jax.Array, best: jax.Array, added: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """The lowest number of the cells that equal the best, and the sign of that cell: 1 if it is negative."""
    # In 32 bits: their minimum compiles to faster code than that of bytes.
    numbers = numbers_of(cells.shape, axes, np.uint32) + (0 if added is None else added.astype(np.uint32))
    # A last digit for the sign, which an extreme of -0 and 0 does not keep.
    signs = jnp.signbit(cells).astype(np.uint32) if jnp.issubdtype(cells.dtype, jnp.floating) else np.uint32(0)
    # The best of a window that holds NaN is NaN.
    found = (cells == best) | (cells != cells)
    keys = jnp.where(found, encode((numbers, signs), (2,)), np.uint32(np.iinfo(np.uint32).max))
    first, sign = decode(keys.min(axes, keepdims=True), (2,))
    return first, sign


def fold(array: jax.Array, axes: Sequence[int], op: Operation, devices: Sequence[int] = ()) -> jax.Array:
    """Combine all cells along `axes`, which keep size 1; at most so many devices share each of them, 1 by default."""
    counts = [math.gcd(array.shape[axis], count) for axis, count in zip(axes, devices, strict=False)]
    shared = [axis for axis, count in zip(axes, counts, strict=False) if count > 1]
    for axis, count in zip(axes, counts, strict=False):
        if axis in shared:
            array = _fold_shards(array, axis, op, count)
    array = _fold_slices(array, [axis for axis in axes if axis not in shared], op)
    return combine_devices(array, shared, op) if shared else array


def _fold_slices(array: jax.Array, axes: Sequence[int], op: Operation) -> jax.Array:
    """Combine slices far apart in memory, in steps of at most `MOST_COMBINED`; in long rows neighbouring ones first."""
    reads = 1
    for axis in axes:
        if axis == array.ndim - 1 and (stretches := _stretches(array.shape[axis])):
            array, reads = _fold_stretches(array if reads == 1 else materialize(array), *stretches, op), 1
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


def _fold_stretches(array: jax.Array, count: int, width: int, op: Operation) -> jax.Array:
    """Combine so many neighbouring stretches of `width` cells in every row."""
    axis = array.ndim - 1
    split = split_axis(split_axis(array, axis, count * width), axis + 1, width)
    stretches = [lax.index_in_dim(split, number, axis + 1, keepdims=False) for number in range(count)]
    return merge_axis(materialize(combine(op, stretches)), axis)


def _stretches(cells: int) -> tuple[int, int] | None:
    """How many neighbouring stretches of a long row a CPU combines, and the cells in each; None for other rows.

    Slices of a whole row, which are far apart in memory, take up to twice as long to read.
    """
    if known_platform() != "cpu" or cells not in _LONG_ROWS:
        return None
    choices = ((count, width) for width in (32, 16, 8) for count in range(MOST_COMBINED, 7, -1))
    return next((each for each in choices if cells % math.prod(each) == 0 and math.prod(each) < cells), None)


def _fold_shards(array: jax.Array, axis: int, op: Operation, devices: int) -> jax.Array:
    """Combine the cells of an axis on each device, and keep one result from each."""
    each = split_axis(array, axis, array.shape[axis] // devices)
    return lax.squeeze(fold(each, (axis + 1,), op), (axis + 1,))


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


def devices_of(window: Window) -> list[int]:
    """The most devices that may share each axis of cells that `split_blocks` returns."""
    pairs = zip((None, *window.axes), window.axes, strict=False)
    return [most_sharing(axis) for before, axis in pairs if axis.output > 1 or not _merges(before, axis)]


def _merges(before: WindowAxis | None, axis: WindowAxis) -> bool:
    """Whether the cells of an axis with one window are merged with those of the pooled axis before it."""
    return before is not None and before.axis == axis.axis - 1 and most_devices() == 1


def most_sharing(axis: WindowAxis) -> int:
    """The most devices that may share the cells of a window that tiles an axis: one, if there are more windows."""
    return 1 if axis.output > 1 else most_devices()


def join_blocks(array: jax.Array, axes: Sequence[int], window: Window) -> jax.Array:
    """Drop the axes of cells, which have size 1, and keep those of windows, even of a single window."""
    return lax.expand_dims(lax.squeeze(array, axes), [axis.axis for axis in window.axes if axis.output == 1])
