"""Bins of unequal sizes: their cells, and the bins that hold a cell, by gathers.

The cells at one place of all bins are entries of the axis, and so are the bins that hold the cells, of which there are
two at most if there are fewer bins than cells. A CPU's compiler fuses such gathers into the loop that combines them.
If the numbers of bins and of cells have a common divisor, the pattern repeats, and each period is gathered separately,
so that a sharded axis needs no cells from other shards if each shard holds whole periods.

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
from jaxpool._engine.stages import barrier, materialize
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
    return _read_in_periods(array, axis, lambda period: _CellsAtPlace(period, place), fill)


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
        for number in range(period.output):
            places = cells - np.int32(period.start(number))
            covered = (places >= 0) & (places < np.int32(period.held_by(number, padding=False)))
            yield places, covered, partial(lax.slice_in_dim, start_index=number, limit_index=number + 1, axis=entries)
        return
    along = replace(period, axis=entries)
    for number, (bins, held, places) in enumerate(zip(*map(materialize, period.holders()), strict=True)):
        covered = along.along(held, rank) if number else True
        yield along.along(places, rank), covered, partial(_read_holders, along=along, bins=bins, held=held)


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
            array = _read_in_periods(barrier(array), axis, _CellsOfBins, fill)
    return array


def combine_copies(array: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine the copies of every cell by `op`: a sum, or a maximum of unsigned integers.

    With a sum this is the transpose of `copy_to_tiles`.
    """
    for axis in window.axes:
        if isinstance(axis, BinAxis):
            period = replace(axis.period(), axis=axis.axis + 1)
            split = _split(array, axis, period.output * period.kernel)
            if op is lax.add:
                array = merge_axis(apply_linear_map(_SumOfCopies(period), split), axis.axis)
            else:
                array = merge_axis(_combine(split, period, op), axis.axis)
    return array


def _combine(copies: jax.Array, period: BinAxis, op: Operation) -> jax.Array:
    bins, held, places = period.holders()
    # All numbers must be distinct, including those beyond the array.
    missing = period.output * period.kernel + lax.iota(np.int32, bins.size).reshape(bins.shape)
    numbers = materialize(jnp.where(held, bins * period.kernel + places, missing))
    copied = take(copies, numbers, period.axis, 0, inside=False, unique=True)
    return lax.squeeze(fold(copied, (period.axis,), op), (period.axis,))


# JAX would transpose these gathers into scatters, where derivatives of pools are differentiated. Their transposes are
# gathers, too: of the cells of bins the sum over the bins that hold a cell, and the other way round.


@dataclass(frozen=True)
class _CellsOfBins(LinearMap):
    """A copy of its cells for every bin, along the axis of a period."""

    period: BinAxis

    def read(self, cells: jax.Array, fill: Any) -> jax.Array:
        positions = materialize(self.period.cells().ravel())
        return take(cells, positions, self.period.axis, fill, inside=False)

    def forward(self, cells: jax.Array, /) -> jax.Array:
        return self.read(cells, 0)

    def transpose(self, copies_bar: jax.Array, /) -> jax.Array:
        return _combine(copies_bar, self.period, lax.add)


@dataclass(frozen=True)
class _SumOfCopies(LinearMap):
    """The sum of the copies of every cell."""

    period: BinAxis

    def forward(self, copies: jax.Array, /) -> jax.Array:
        return _combine(copies, self.period, lax.add)

    def transpose(self, cells_bar: jax.Array, /) -> jax.Array:
        return _CellsOfBins(self.period).read(cells_bar, 0)


@dataclass(frozen=True)
class _CellsAtPlace(LinearMap):
    """The cells at one place of all bins, of which no two have the same one: there are no more bins than cells."""

    period: BinAxis
    place: int

    def read(self, cells: jax.Array, fill: Any) -> jax.Array:
        positions, held = _positions(self.period, self.place)
        return take(cells, positions, self.period.axis, fill, inside=bool(held.all()))

    def forward(self, cells: jax.Array, /) -> jax.Array:
        return self.read(cells, 0)

    def transpose(self, bins_bar: jax.Array, /) -> jax.Array:
        along, total = self.period, None
        for bins, held, places in zip(*map(materialize, along.holders()), strict=True):
            sent = take(bins_bar, bins, along.axis, 0, inside=True)
            sent = jnp.where(along.along(held & (places == self.place), sent.ndim), sent, 0)
            total = sent if total is None else total + sent
        assert total is not None, "every cell is in a bin"
        return total


@dataclass(frozen=True)
class _HoldersOfCells(LinearMap):
    """For each cell one of the bins that may hold it: their numbers, and whether they do; others pass nothing back."""

    period: BinAxis

    def forward(self, outputs: jax.Array, bins: jax.Array, held: jax.Array, /) -> jax.Array:
        return take(outputs, bins, self.period.axis, 0, inside=True)

    def transpose(self, cells_bar: jax.Array, bins: jax.Array, held: jax.Array, /) -> jax.Array:
        along, total = self.period, None
        for place in range(along.kernel):
            positions, exists = _positions(along, place)
            chosen = held.at[positions].get(mode="fill", fill_value=False) & exists
            chosen &= bins.at[positions].get(mode="fill", fill_value=-1) == np.arange(along.output, dtype=np.int32)
            sent = take(cells_bar, positions, along.axis, 0, inside=bool(exists.all()))
            sent = jnp.where(along.along(chosen, sent.ndim), sent, 0)
            total = sent if total is None else total + sent
        assert total is not None, "every bin has a cell"
        return total


def _positions(period: BinAxis, place: int) -> tuple[np.ndarray, np.ndarray]:
    """The cell at a place of every bin, `size` where it has none, and whether it has one."""
    bins = period.kinds()
    held = place < period.held_by(bins, padding=False)
    return np.where(held, period.start(bins) + place, period.size), held


def _read_holders(outputs: jax.Array, *, along: BinAxis, bins: jax.Array, held: jax.Array) -> jax.Array:
    return apply_linear_map(_HoldersOfCells(along), outputs, bins, held)


def _read_in_periods(array: jax.Array, axis: BinAxis, cells: Callable[[BinAxis], Any], fill: Any) -> jax.Array:
    """The cells of every period by this map; `fill` where a bin has none."""
    period = axis.period()
    if period.size == axis.size:
        return _filled(array, cells(period), fill)
    split = _split(array, axis, period.size)
    return merge_axis(_filled(split, cells(replace(period, axis=axis.axis + 1)), fill), axis.axis)


@custom_rule((1, 2))
def _filled(array: jax.Array, cells: _CellsOfBins | _CellsAtPlace, fill: Any) -> jax.Array:
    return cells.read(array, fill)


@_filled.defjvp
def _filled_jvp(cells: Any, fill: Any, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    return _filled(*primals, cells, fill), apply_linear_map(cells, *tangents)


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
