"""Bins of unequal sizes: their cells, and the bins that hold a cell, by tables that are known while tracing.

The cells at one place of all bins are entries of the axis, and so are the bins that hold the cells, of which there are
two at most if there are fewer bins than cells. A CPU's compiler fuses such gathers into the loop that combines them.
The two mirror each other. Bin o of m holds the cells of n that overlap it when both axes are drawn at the same length,
so cell u is in the bins floor(u·m/n) ≤ o < ceil((u+1)·m/n): the formula of the bins with m and n exchanged. If m and n
have a common divisor, the pattern repeats, and each period is gathered separately, so that a sharded axis needs no
cells from other shards if each shard holds whole periods.

TPUs reduce bins one by one (`tpu`). In all other cases `copy_to_tiles` gives every bin a copy of its cells, side by
side and filled up to the size of the largest bin. The bins are then windows that tile the axis, and any code for
windows can evaluate them. `combine_copies` is the inverse. Each is one gather, at a cost linear in the cells.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._derivatives.rules import LinearMap, apply_linear_map, custom_rule
from jaxpool._engine.blocks import fold
from jaxpool._engine.operations import Operation, merge_axis, split_axis
from jaxpool._engine.stages import barrier
from jaxpool._geometry.bins import BinAxis, first_cells, last_cells
from jaxpool._geometry.window import Window
from jaxpool._platforms import known_platform

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
    return _take_in_periods(array, axis, _cells_of_bins(axis.period())[:, place], fill)


def gather_from_bins(
    contribution: Callable[..., jax.Array],
    outputs: Sequence[tuple[jax.Array, Any]],
    window: Window,
    inputs: Sequence[tuple[jax.Array, Any]],
    combine: Operation,
    table: Callable[[Any], Any] | None,
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
        added = contribution(numbers if table is None else table(numbers), covered, windows, cells)
        total = added if total is None else combine(total, added)
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
        for number, (start, count) in enumerate(zip(period.starts, period.counts(padding=False), strict=True)):
            places = cells - np.int32(start)
            covered = (places >= 0) & (places < np.int32(count))
            yield places, covered, partial(lax.slice_in_dim, start_index=number, limit_index=number + 1, axis=entries)
        return
    along = replace(period, axis=entries)
    for bins, held in zip(*_bins_of_cells(period), strict=True):
        places = np.where(held, np.arange(period.size) - period.starts[bins], 0).astype(np.int32)
        covered = True if held.all() else along.along(held, rank)
        yield along.along(places, rank), covered, partial(take, positions=bins, axis=entries, fill=0, unique=False)


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
            array = _take_in_periods(barrier(array), axis, _cells_of_bins(axis.period()).ravel(), fill)
    return array


def combine_copies(array: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine the copies of every cell by `op`: a sum, or a maximum of unsigned integers.

    With a sum this is the transpose of `copy_to_tiles`.
    """
    for axis in window.axes:
        if isinstance(axis, BinAxis):
            period = axis.period()
            bins, held = _bins_of_cells(period)
            size = period.output * period.kernel
            # All numbers must be distinct, including those beyond the array.
            missing = size + np.arange(bins.size).reshape(bins.shape)
            copies = np.where(held, bins * period.kernel + np.arange(period.size) - period.starts[bins], missing)
            copied = take(_split(array, axis, size), copies, axis.axis + 1, 0, unique=True)
            array = merge_axis(lax.squeeze(fold(copied, (axis.axis + 1,), op), (axis.axis + 1,)), axis.axis)
    return array


def _cells_of_bins(axis: BinAxis) -> np.ndarray:
    """The cells of each bin, of shape (bins, kernel); numbers beyond the axis where a bin has fewer."""
    places = np.arange(axis.kernel)
    return np.where(places < axis.counts(padding=False)[:, None], axis.starts[:, None] + places, axis.size)


def _bins_of_cells(axis: BinAxis) -> tuple[np.ndarray, np.ndarray]:
    """Bins that may hold each cell, of shape (most copies, cells), and which of them do."""
    first, last = (bound(axis.output, axis.size) for bound in (first_cells, last_cells))
    bins = first + np.arange(np.max(last - first))[:, None]
    return np.minimum(bins, axis.output - 1), bins < last


def _take_in_periods(array: jax.Array, axis: BinAxis, cells: np.ndarray, fill: Any) -> jax.Array:
    """These cells of every period; `fill` for those beyond it."""
    size = axis.period().size
    if size == axis.size:
        return take(array, cells, axis.axis, fill, unique=False)
    return merge_axis(take(_split(array, axis, size), cells, axis.axis + 1, fill, unique=False), axis.axis)


def _split(array: jax.Array, axis: BinAxis, size: int) -> jax.Array:
    """Split the pooled axis into two: periods, and the `size` entries in each."""
    if array.shape[axis.axis] == 1:
        # Constant along the axis.
        return lax.expand_dims(array, [axis.axis])
    return split_axis(array, axis.axis, size)


def take(array: jax.Array, positions: np.ndarray, axis: int, fill: Any, *, unique: bool) -> jax.Array:
    """Replace an axis by the entries at `positions`, in their shape; those beyond the axis are `fill`."""
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        return _gather(array, positions, axis, fill, unique)
    table = positions.astype(np.int64)
    return _take(array, _Entries(axis, array.shape[axis], table.shape, table.tobytes(), unique), fill)


@dataclass(frozen=True)
class _Entries(LinearMap):
    """The entries of an axis at some positions, 0 beyond it; the positions as bytes, so that equal maps are equal.

    JAX would transpose this gather into a scatter. Its transpose here is a gather, too: each entry is the sum of the
    cotangents at all places of its position.
    """

    axis: int
    size: int
    shape: tuple[int, ...]
    positions: bytes
    unique: bool

    @property
    def table(self) -> np.ndarray:
        return np.frombuffer(self.positions, np.int64).reshape(self.shape)

    def forward(self, array: jax.Array, /) -> jax.Array:
        return _gather(array, self.table, self.axis, 0, self.unique)

    def transpose(self, cotangent: jax.Array, /) -> jax.Array:
        positions = self.table.ravel()
        order = np.argsort(positions, kind="stable")
        first, last = (np.searchsorted(positions[order], np.arange(self.size), side) for side in ("left", "right"))
        numbers = first + np.arange(max(1, np.max(last - first)))[:, None]
        # All places must be distinct, including those beyond the cotangents.
        missing = positions.size + np.arange(numbers.size).reshape(numbers.shape)
        places = np.where(numbers < last, order[np.minimum(numbers, positions.size - 1)], missing)
        flat = lax.collapse(cotangent, self.axis, self.axis + len(self.shape))
        copies = take(flat, places, self.axis, 0, unique=True)
        return lax.squeeze(fold(copies, (self.axis,), lax.add), (self.axis,))


@custom_rule((1, 2))
def _take(array: jax.Array, entries: _Entries, fill: Any) -> jax.Array:
    return _gather(array, entries.table, entries.axis, fill, entries.unique)


@_take.defjvp
def _take_jvp(entries: _Entries, fill: Any, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    return _take(*primals, entries, fill), apply_linear_map(entries, *tangents)


def _gather(array: jax.Array, positions: np.ndarray, axis: int, fill: Any, unique: bool) -> jax.Array:
    added = positions.ndim - 1
    behind = tuple(n for n in range(array.ndim) if n != axis)
    before = tuple(n if n < axis else n + added for n in behind)
    # A CPU would store what the loops of a sum and of an extreme gathered by the same numbers.
    is_of_extreme = known_platform() == "cpu" and fill != 0
    starts = positions[..., None].astype(np.uint32 if is_of_extreme else np.int32)
    inside = bool((positions < array.shape[axis]).all())
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
