"""Bins of unequal sizes: their cells, and the bins that hold a cell, by gathers.

The cells at one place of all bins are entries of the axis, and so are the bins that hold the cells, of which there are
two at most if there are fewer bins than cells. A CPU's compiler fuses such gathers into the loop that combines them.
If the numbers of bins and of cells have a common divisor, the pattern repeats, and each period is gathered separately,
so that a sharded axis needs no cells from other shards if each shard holds whole periods.

In all other cases `copy_to_tiles` gives every bin a copy of its cells, side by
side and filled up to the size of the largest bin. The bins are then windows that tile the axis, and any code for
windows can evaluate them. `combine_copies` is the inverse. Each is one gather, at a cost linear in the cells.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.blocks import fold
from jaxpool._engine.operations import merge_axis, split_axis
from jaxpool._engine.stages import materialize
from jaxpool._platforms import known_platform
from jaxpool._window import BinAxis, Window

# The most cells of bins that are gathered place by place.
_MOST_PLACES = 64


def by_table(window: Window) -> bool:
    """Whether a CPU gathers bins place by place, instead of copying them: few cells along one axis, in few bins.

    The compiler for GPUs makes kernels of the gathers: gradients of 10×10 bins move 11 times the bytes of copies.
    """
    (axis, *others) = window.axes
    few = axis.kernel <= _MOST_PLACES and axis.output <= axis.size
    return known_platform() == "cpu" and isinstance(axis, BinAxis) and few and not others


def in_periods(step: Callable[..., Any], window: Window, *arrays: jax.Array | None) -> Any:
    """Evaluate `step(*arrays, window)`, whose results are arrays of bins, on the periods of bins along one axis.

    The axis of periods, even of one, keeps a CPU's compiler from writing the results of gathers in another layout.
    """
    (axis,) = window.axes
    assert isinstance(axis, BinAxis)
    period = replace(axis.period(), axis=axis.axis + 1)
    split = (None if array is None else _split(array, axis, period.size) for array in arrays)
    return jax.tree.map(lambda result: merge_axis(result, axis.axis), step(*split, Window((period,))))


def cells_at_place(array: jax.Array, window: Window, place: int, fill: Any) -> jax.Array:
    """The cells at one place of all bins, along one axis; `fill` where a bin has fewer cells."""
    (axis,) = window.axes
    assert isinstance(axis, BinAxis)

    def positions(period: BinAxis) -> np.ndarray:
        bins = period.kinds()
        return np.where(place < period.held_by(bins, padding=False), period.start(bins) + place, period.size)

    return _read_in_periods(array, axis, positions, fill)


def gather_from_bins(
    contribution: Callable[..., jax.Array],
    outputs: Sequence[tuple[jax.Array, Any]],
    window: Window,
    inputs: Sequence[tuple[jax.Array, Any]],
) -> jax.Array:
    """Compute `gather.gather_windows` for bins along one axis: a term for each of the bins that may hold a cell."""
    (axis,) = window.axes
    assert isinstance(axis, BinAxis)
    period = axis.period()
    bins, cells = (
        tuple(_split(array, axis, size) for array, _ in arrays)
        for arrays, size in ((outputs, period.output), (inputs, period.size))
    )
    total = None
    for numbers, covered, bins_at in _holders(period, bins[0].ndim):
        windows = tuple(bins_at(array) if array.shape[axis.axis + 1] > 1 else array for array in bins)
        added = contribution(numbers, covered, windows, cells)
        total = added if total is None else total + added
    assert total is not None, "every cell is in a bin"
    return merge_axis(total, axis.axis)


def _holders(period: BinAxis, rank: int) -> Iterator[tuple[Any, Any, Callable[[jax.Array], jax.Array]]]:
    """The bins that may hold each cell of a period: the place of the cell, whether they do, and how to take them.

    Only a CPU takes bins by table. Along the last axis it does not compute gathers in vectors: there every one of up to
    8 bins may hold every cell, which takes half to three quarters of the time; 20 bins take as long, 50 twice as long.
    """
    entries = period.axis + 1
    if entries == rank - 1 and period.output <= 8:
        # Not a table, which the loop would read from memory.
        cells = lax.broadcasted_iota(np.int32, [1] * entries + [period.size], entries)
        for number in range(period.output):
            places = cells - np.int32(period.start(number))
            covered = (places >= 0) & (places < np.int32(period.held_by(number, padding=False)))
            yield places, covered, partial(lax.slice_in_dim, start_index=number, limit_index=number + 1, axis=entries)
        return
    along = replace(period, axis=entries)
    for number, (bins, held, places) in enumerate(zip(*map(materialize, period.holders()), strict=True)):
        covered = along.along(held, rank) if number else True
        yield along.along(places, rank), covered, partial(take, positions=bins, axis=entries, fill=0, inside=True)


def as_tiles(window: Window) -> Window:
    """Return the windows on the result of `copy_to_tiles`."""
    return Window(tuple(axis.as_tiles() if isinstance(axis, BinAxis) else axis for axis in window.axes))


def in_tiles(array: jax.Array, window: Window, fill: Any) -> tuple[jax.Array, Window]:
    """The copies of `copy_to_tiles`, and the windows on them."""
    return copy_to_tiles(array, window, fill), as_tiles(window)


def copy_to_tiles(array: jax.Array, window: Window, fill: Any) -> jax.Array:
    """Give every bin a copy of its cells; smaller bins are filled up with `fill`."""
    for axis in window.axes:
        if isinstance(axis, BinAxis):
            # The oldest supported JAX misplaces entries when it folds a gather of constants (such as masks).
            array = _read_in_periods(materialize(array), axis, lambda period: materialize(period.cells().ravel()), fill)
    return array


def combine_copies(array: jax.Array, window: Window) -> jax.Array:
    """Add up the copies of every cell: the transpose of `copy_to_tiles`."""
    for axis in window.axes:
        if isinstance(axis, BinAxis):
            period = replace(axis.period(), axis=axis.axis + 1)
            bins, held, places = period.holders()
            # All numbers must be distinct, including those beyond the array.
            missing = period.output * period.kernel + lax.iota(np.int32, bins.size).reshape(bins.shape)
            numbers = materialize(jnp.where(held, bins * period.kernel + places, missing))
            split = _split(array, axis, period.output * period.kernel)
            copied = take(split, numbers, period.axis, 0, inside=False, unique=True)
            array = merge_axis(lax.squeeze(fold(copied, (period.axis,), lax.add), (period.axis,)), axis.axis)
    return array


def _read_in_periods(array: jax.Array, axis: BinAxis, positions: Callable[[BinAxis], Any], fill: Any) -> jax.Array:
    """The cells at these positions in every period; `fill` at the position `size`."""
    period = axis.period()
    along = positions(period)
    inside = isinstance(along, np.ndarray) and bool((along < period.size).all())
    if period.size == axis.size:
        return take(array, along, axis.axis, fill, inside=inside)
    split = _split(array, axis, period.size)
    return merge_axis(take(split, along, axis.axis + 1, fill, inside=inside), axis.axis)


def _split(array: jax.Array, axis: BinAxis, size: int) -> jax.Array:
    """Split the pooled axis into two: periods, and the `size` entries in each."""
    if array.shape[axis.axis] == 1:
        # Constant along the axis.
        return lax.expand_dims(array, [axis.axis])
    return split_axis(array, axis.axis, size)


def take(
    array: jax.Array, positions: jax.Array | np.ndarray, axis: int, fill: Any, *, inside: bool, unique: bool = False
) -> jax.Array:
    """Replace an axis by the entries at `positions`, in their shape; those beyond the axis are `fill`.

    They are all `inside`, or some may not be; with `unique` no two are the same.
    """
    added = positions.ndim - 1
    behind = tuple(n for n in range(array.ndim) if n != axis)
    before = tuple(n if n < axis else n + added for n in behind)
    # A CPU would store what the loops of a sum and of an extreme gathered by the same numbers.
    is_of_extreme = known_platform() == "cpu" and fill != 0
    starts = positions[..., None].astype(np.uint32 if is_of_extreme else np.int32)
    if known_platform() == "gpu":
        # Single entries, in the order of the result. For whole slices the GPU compiler would put the positions first
        # and transpose the array in a separate kernel.
        numbers = lax.GatherDimensionNumbers((), (axis,), (axis,), behind, before)
        sizes = (1,) * array.ndim
        shape = (*array.shape[:axis], *positions.shape, *array.shape[axis + 1 :], 1)
        starts = lax.broadcast_in_dim(starts, shape, (*range(axis, axis + added + 1), len(shape) - 1))
    else:
        # Whole slices: entries along all other axes are copied together.
        numbers = lax.GatherDimensionNumbers(before, (axis,), (axis,))
        sizes = tuple(1 if n == axis else size for n, size in enumerate(array.shape))
    mode = "promise_in_bounds" if inside else "fill"
    return lax.gather(array, starts, numbers, sizes, unique_indices=unique, mode=mode, fill_value=fill)
