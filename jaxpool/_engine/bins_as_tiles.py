"""Bins of unequal sizes laid out as windows of one size, and back.

Neighbouring bins may share a cell. `copy_to_tiles` gives every bin a copy of its cells, side by side and filled up to
the size of the largest bin. The bins are then windows that tile the axis, and any code for windows can evaluate them.
`combine_copies` is the inverse. The two mirror each other. Bin o of m holds the cells of n that overlap it when both
axes are drawn at the same length, so cell u is in the bins floor(u·m/n) ≤ o < ceil((u+1)·m/n): the formula of the bins
with m and n exchanged. Each map is one gather from positions known while tracing, at a cost linear in the cells. If m
and n have a common divisor, the pattern repeats, and each period is gathered separately, so that a sharded axis needs
no cells from other shards if each shard holds whole periods.
"""

from typing import Any

import jax
import numpy as np
from jax import lax

from jaxpool._engine.blocks import fold
from jaxpool._engine.operations import Operation, barrier
from jaxpool._engine.platforms import known_platform
from jaxpool._geometry.bins import BinAxis, first_cells, last_cells
from jaxpool._geometry.window import Window


def as_tiles(window: Window) -> Window:
    """Return the windows on the result of `copy_to_tiles`."""
    return Window(tuple(axis.as_tiles() if isinstance(axis, BinAxis) else axis for axis in window.axes))


def copy_to_tiles(array: jax.Array, window: Window, fill: Any) -> jax.Array:
    """Give every bin a copy of its cells; smaller bins are filled up with `fill`."""
    for axis in window.axes:
        if isinstance(axis, BinAxis):
            period = axis.period()
            # The oldest supported JAX misplaces entries when it folds a gather of constants (such as masks).
            periods = split_periods(barrier(array), axis, period.size)
            bins = take(periods, _cells_of_bins(period), axis.axis + 1, fill, unique=False)
            array = merge_periods(lax.collapse(bins, axis.axis + 1, axis.axis + 3), axis)
    return array


def combine_copies(array: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine the copies of every cell by `op`: a sum, or a maximum of unsigned integers.

    With a sum this is the transpose of `copy_to_tiles`.
    """
    for axis in window.axes:
        if isinstance(axis, BinAxis):
            period = axis.period()
            periods = split_periods(array, axis, period.output * period.kernel)
            copies = take(periods, _copies_of_cells(period), axis.axis + 1, 0, unique=True)
            array = merge_periods(lax.squeeze(fold(copies, (axis.axis + 1,), op), (axis.axis + 1,)), axis)
    return array


def split_periods(array: jax.Array, axis: BinAxis, size: int) -> jax.Array:
    """Split the pooled axis into two: periods, and the `size` entries in each."""
    shape = array.shape
    return array.reshape((*shape[: axis.axis], shape[axis.axis] // size, size, *shape[axis.axis + 1 :]))


def merge_periods(array: jax.Array, axis: BinAxis) -> jax.Array:
    """Merge the axes of periods and of their entries into the pooled axis."""
    return lax.collapse(array, axis.axis, axis.axis + 2)


def _cells_of_bins(axis: BinAxis) -> np.ndarray:
    """The cells of each bin, of shape (bins, kernel); numbers beyond the axis where a bin has fewer."""
    positions = np.arange(axis.kernel)
    cells = axis.starts[:, None] + positions
    return np.where(positions < axis.counts(padding=False)[:, None], cells, axis.size)


def bins_of_cells(axis: BinAxis) -> tuple[np.ndarray, np.ndarray]:
    """Bins that may hold each cell, of shape (most copies, cells), and which of them do."""
    first, last = (bound(axis.output, axis.size) for bound in (first_cells, last_cells))
    bins = first + np.arange(np.max(last - first))[:, None]
    return np.minimum(bins, axis.output - 1), bins < last


def _copies_of_cells(axis: BinAxis) -> np.ndarray:
    """Positions of the copies of each cell, of shape (most copies, cells); beyond the array where there is none."""
    bins, held = bins_of_cells(axis)
    # All numbers must be distinct, including those beyond the array.
    missing = axis.output * axis.kernel + np.arange(bins.size).reshape(bins.shape)
    return np.where(held, bins * axis.kernel + np.arange(axis.size) - axis.starts[bins], missing)


def take(array: jax.Array, positions: np.ndarray, axis: int, fill: Any, *, unique: bool) -> jax.Array:
    """Replace an axis by the entries at `positions`, which have two axes; those beyond the axis are `fill`."""
    behind = tuple(n for n in range(array.ndim) if n != axis)
    before = tuple(n if n < axis else n + 1 for n in behind)
    starts = positions[..., None].astype(np.int32)
    if known_platform() == "gpu":
        # Single entries, in the order of the result. For whole slices the GPU compiler would put the positions first
        # and transpose the array in a separate kernel.
        numbers = lax.GatherDimensionNumbers((), (axis,), (axis,), behind, before)
        sizes = (1,) * array.ndim
        shape = (*array.shape[:axis], *positions.shape, *array.shape[axis + 1 :], 1)
        starts = lax.broadcast_in_dim(starts, shape, (axis, axis + 1, len(shape) - 1))
    else:
        # Whole slices: entries along all other axes are copied together.
        numbers = lax.GatherDimensionNumbers(before, (axis,), (axis,))
        sizes = tuple(1 if n == axis else size for n, size in enumerate(array.shape))
    return lax.gather(array, starts, numbers, sizes, unique_indices=unique, mode="fill", fill_value=fill)
