"""The gather form of a map from windows to cells: for every cell, a sum over the windows that hold it.

Notation, for one axis: window o holds the real cell i at offset j if i + low = o·stride + j·dilation. Write the cells
as i = q·stride + r with 0 ≤ r < stride, which splits the axis into one of q and one of r. Write low = first·stride +
shift with 0 ≤ shift < stride. The windows that hold a cell are among o = first + q - t, each with j = (t·stride + r +
shift)/dilation if that is a whole number from 0 to kernel - 1. So the map is a sum over t of shifted slices of the
outputs, broadcast along r: as many terms as windows overlap, whatever their size. `split_axes` splits the axes.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.base_dilation import dilates_outputs, gather_by_base_dilation
from jaxpool._engine.bins_as_tiles import as_tiles, by_table, combine_copies, copy_to_tiles, gather_from_bins
from jaxpool._engine.operations import Arrays, Operation, constant
from jaxpool._engine.platforms import known_platform
from jaxpool._engine.split_axes import Covered, SplitAxis, outputs_at, pad_and_keep
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

    `outputs` are arrays of the output's shape, or of size 1 along the pooled axes; `inputs` are arrays of the input's
    shape. Each comes with its value outside. `contribution(numbers, covered, windows, cells)` gets the row-major
    numbers of the cells in their windows; which of the cells the windows hold at all (the others must get 0); the
    entries of `outputs` at the windows; and those of `inputs` at the cells. All broadcast against each other. It
    returns an array, and `combine` adds these up. A `table`, if given, is applied to the numbers while tracing.
    """
    if by_table(window):
        return gather_from_bins(contribution, outputs, window, inputs, combine, table)
    if known_platform() == "tpu" and dilates_outputs(window):
        return gather_by_base_dilation(contribution, outputs, window, inputs, combine, table)
    axes = [SplitAxis(axis) for axis in as_tiles(window).axes]
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
    """Row-major numbers in the window of the cells at all r, and which of these cells exist."""
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
    """The cells of all q, padded to whole rows."""
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
