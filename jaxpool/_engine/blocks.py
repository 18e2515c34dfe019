"""Windows that share no cells, seen as blocks: an axis of windows and an axis of cells, which is folded.

A fold combines a dozen slices at a time until one is left. Every slice is contiguous and elementwise operations combine
them, so that NaN is kept whatever the size, where a reduction of the platform may drop it; and a sum of n cells is a
tree of log n levels, whose rounding does not grow with n.
"""

import math
from collections.abc import Sequence
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine import choose
from jaxpool._engine.operations import Arrays, Operation, computed_once
from jaxpool._window import Window


def reduce_blocks(padded: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce windows that tile an array by `lax.max`, `lax.min` or `lax.add`."""
    cells, axes = _split(padded, window)
    return _join(fold(cells, axes, op), axes, window)


def first_in_blocks(padded: Arrays, inner_cells: int, window: Window, op: Operation) -> tuple[jax.Array, jax.Array]:
    """The extreme of windows that tile an array, and the first offset of a cell that has it.

    `padded` holds the cells and offsets that they bring along, below `inner_cells`.
    """
    cells, axes = _split(padded[0], window)
    best = fold(cells, axes, op)
    # A window that holds NaN has NaN as its best.
    found = (cells == computed_once(best)) | (cells != cells)
    # In int32, whose minimum compiles to faster code than that of bytes.
    offsets = _split(padded[1], window)[0].astype(np.int32)
    place = inner_cells * math.prod(cells.shape[axis] for axis in axes)
    for axis in axes:
        place //= cells.shape[axis]
        shape = [cells.shape[axis] if number == axis else 1 for number in range(cells.ndim)]
        offsets += lax.broadcasted_iota(np.int32, shape, axis) * np.int32(place)
    first = jnp.where(found, offsets, np.int32(np.iinfo(np.int32).max)).min(axes, keepdims=True)
    return _join(best, axes, window), _join(first.astype(padded[1].dtype), axes, window)


def fold(array: jax.Array, axes: Sequence[int], op: Operation) -> jax.Array:
    """Combine all cells along `axes`, which stay with size 1."""
    for axis in axes:
        while (cells := array.shape[axis]) > 1:
            width = -(-cells // choose.slices_at_once(cells))
            array = lax.optimization_barrier(reduce(op, _slices(array, axis, width, op)))
    return array


def _slices(array: jax.Array, axis: int, width: int, op: Operation) -> list[jax.Array]:
    """The array cut into slices; a last one that is short starts earlier, and only a sum minds the cells it repeats."""
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


def _split(array: jax.Array, window: Window) -> tuple[jax.Array, tuple[int, ...]]:
    """Split every pooled axis into windows and their cells, and say which axes are of cells: neighbours become one."""
    axes: list[int] = []
    added = 0
    for axis in window.axes:
        number = axis.axis + added
        if axis.output > 1:
            shape = (*array.shape[:number], axis.output, axis.kernel, *array.shape[number + 1 :])
            array = array.reshape(shape)
            axes.append(number + 1)
            added += 1
        elif axes and axes[-1] == number - 1:
            array = lax.collapse(array, number - 1, number + 1)
            added -= 1
        else:
            axes.append(number)
    return array, tuple(axes)


def _join(array: jax.Array, axes: Sequence[int], window: Window) -> jax.Array:
    """Drop the axes of cells, of which one is left each, and keep those of windows, a single window too."""
    return lax.expand_dims(lax.squeeze(array, axes), [axis.axis for axis in window.axes if axis.output == 1])
