"""The gather form of a map from windows to cells: for every cell, a sum over the windows that hold it.

Notation, for one axis: window o holds the real cell i at offset j when i + low = o·stride + j·dilation. Write the
cells as i = q·stride + r with 0 ≤ r < stride, the axis as two, one of q and one of r, and low as first·stride +
shift, with 0 ≤ shift < stride. The windows that hold a cell are among o = first + q - t, each with j = (t·stride + r
+ shift)/dilation where that is a whole number from 0 and below the kernel size. So the map is a sum over t of shifted
slices of the outputs, broadcast along r: as many terms as windows overlap, whatever their size. How an axis is split
is in `split_axes`.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.base_dilation import gather_by_base_dilation
from jaxpool._engine.bins_as_tiles import as_tiles, combine_copies, copy_to_tiles
from jaxpool._engine.operations import Arrays, Operation, constant
from jaxpool._engine.platforms import known_platform
from jaxpool._engine.split_axes import Covered, SplitAxis, outputs_at, pad_and_keep
from jaxpool._engine.xla import choose
from jaxpool._geometry.window import Window

Contribution = Callable[[jax.Array | int, Covered, Arrays, Arrays], jax.Array]


def gather_windows(
    contribution: Contribution,
    outputs: Sequence[tuple[jax.Array, Any]],
    window: Window,
    inputs: Sequence[tuple[jax.Array, Any]] = (),
    combine: Operation = lax.add,
    table: Callable[[Any], Any] | None = None,
) -> jax.Array:
    """Combine, for every input cell, the contributions of the windows that hold it; 0 where none does.

    `contribution(numbers, covered, windows, cells)` gets the row-major numbers of the cells in their windows; which of
    the cells the windows hold at all (the others must get 0); the entries of `outputs` at the windows (arrays of the
    output's shape, or with 1 along the pooled axes, each with the value that it has outside); and those of `inputs` at
    the cells (arrays of the input's shape, each with the value that it has beyond it), all of them broadcastable
    against each other. It returns the array that `combine` adds up. With a `table` it gets what this makes of the
    numbers while tracing, in place of them.
    """
    if known_platform() == "tpu" and choose.dilates_outputs(window):
        return gather_by_base_dilation(contribution, outputs, window, inputs, combine, table)
    axes = [SplitAxis(axis, outputs[0][0].ndim) for axis in as_tiles(window).axes]
    around = [outputs_at(array, fill, axes) for array, fill in outputs]
    cells = tuple(_split(_cover_inputs(copy_to_tiles(array, window, fill), fill, axes), axes) for array, fill in inputs)
    total = None
    for steps in itertools.product(*(axis.steps for axis in axes)):
        numbers, covered = _numbers(axes, steps, outputs[0][0].shape)
        if covered is False:
            continue
        numbers, covered = constant(numbers if table is None else table(numbers)), constant(covered)
        windows = tuple(windows_at(steps) for windows_at in around)
        added = contribution(numbers, covered, windows, cells)
        total = added if total is None else combine(total, added)
    assert total is not None, "every window holds the cell at its offset 0"
    return combine_copies(_merge(total, axes), window, combine)


def interleave_zeros(array: jax.Array, axis: int, stride: int) -> jax.Array:
    """Put stride - 1 zeros between the entries of an axis."""
    shape = [1] * (array.ndim + 1)
    shape[axis + 1] = stride
    first = lax.broadcasted_iota(np.int32, shape, axis + 1) == 0
    spaced = jnp.where(first, jnp.expand_dims(array, axis + 1), np.array(0, array.dtype)[()])
    return lax.slice_in_dim(lax.collapse(spaced, axis, axis + 2), 0, (array.shape[axis] - 1) * stride + 1, 1, axis)


def _numbers(axes: Sequence[SplitAxis], steps: Sequence[int], sizes: Sequence[int]) -> tuple[jax.Array | int, Covered]:
    """Row-major numbers in the window of the cells at all r, and which of them there are."""
    numbers: jax.Array | int = 0
    covered: Covered = True
    for position, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        shape = [1] * (len(sizes) + len(axes))
        r_axis = axis.along.axis + position + 1
        shape[r_axis] = axis.along.stride
        offsets, here = axis.offsets(step, shape, r_axis)
        numbers = numbers * axis.along.kernel + offsets
        if here is False:
            return numbers, False
        covered = here if covered is True else covered & here
    return numbers, covered


def _cover_inputs(array: jax.Array, fill: Any, axes: Sequence[SplitAxis]) -> jax.Array:
    """The cells of all q, whole."""
    widths = {
        axis.along.axis: (axis.before, axis.count * axis.along.stride - axis.before - axis.along.size) for axis in axes
    }
    return pad_and_keep(array, fill, widths)


def _split(array: jax.Array, axes: Sequence[SplitAxis]) -> jax.Array:
    for position, axis in enumerate(axes):
        number = axis.along.axis + position
        shape = (*array.shape[:number], axis.count, axis.along.stride, *array.shape[number + 1 :])
        array = array.reshape(shape)
    return array


def _merge(array: jax.Array, axes: Sequence[SplitAxis]) -> jax.Array:
    """Undo `_split`, one axis at a time, and crop to the real cells."""
    shape = list(array.shape)
    for position, axis in enumerate(axes):
        shape[axis.along.axis + position + 1] = axis.along.stride
    array = jnp.broadcast_to(array, shape)
    for position, axis in reversed(list(enumerate(axes))):
        number = axis.along.axis + position
        array = lax.collapse(array, number, number + 2)
    for axis in axes:
        array = lax.slice_in_dim(array, axis.before, axis.before + axis.along.size, 1, axis.along.axis)
    return array
