"""Bins of unequal sizes on the CPU: a gather for each place in a bin, and for each bin that may hold a cell.

The cells at one place of all bins are entries of the axis at positions known while tracing. So are the bins that hold
the cells, two for each at most. The compiler fuses such gathers into the loop that combines them, so bins are never
copied to tiles, which takes twice as long. The pattern of bins repeats in periods, as in `bins_as_tiles`.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.bins_as_tiles import bins_of_cells, merge_periods, split_periods
from jaxpool._engine.cpu import choose
from jaxpool._engine.operations import Operation, barrier, combine, identity
from jaxpool._engine.slices import Numbers, Winner, number_dtype, winner_among
from jaxpool._engine.stages import marked, materialize
from jaxpool._geometry.bins import BinAxis
from jaxpool._geometry.window import Window


def reduce_bins(x: jax.Array, axis: BinAxis, op: Operation) -> jax.Array:
    """Reduce every bin of one axis by `lax.max`, `lax.min` or `lax.add`."""
    return merge_periods(combine(op, _cells_at_places(x, axis, identity(op, x.dtype))), axis)


def spread_bins(cotangent: jax.Array, axis: BinAxis) -> jax.Array:
    """Send the cotangent of each bin to all of its cells: the transpose of the sum."""
    period = axis.period()
    cotangents = split_periods(materialize(cotangent), axis, period.output)
    if choose.spreads_each_bin(axis, cotangent.ndim):
        return merge_periods(_spread_each(cotangents, period), axis)
    bins, held = bins_of_cells(period)
    sent = []
    for number in range(len(bins)):
        here = _take(cotangents, bins[number], axis)
        sent.append(here if held[number].all() else jnp.where(_along(held[number], axis, here.ndim), here, 0))
    return merge_periods(combine(lax.add, sent), axis)


def _spread_each(cotangents: jax.Array, period: BinAxis) -> jax.Array:
    """Send the cotangents of bins, which are along the last axis, to their cells one bin after the other."""
    shape = (*cotangents.shape[:-1], period.size)
    # Not a table, which the loop would read from memory.
    cells = lax.broadcasted_iota(np.int32, shape, len(shape) - 1)
    sent = []
    for number, (start, count) in enumerate(zip(period.starts, period.counts(padding=False), strict=True)):
        inside = (cells >= np.int32(start)) & (cells < np.int32(start + count))
        sent.append(jnp.where(inside, lax.slice_in_dim(cotangents, number, number + 1, axis=-1), 0))
    return combine(lax.add, sent)


def select_in_bins(x: jax.Array, numbers: Numbers, axis: BinAxis, op: Operation) -> Winner:
    """The extreme of every bin, and its place, added to its entry in `numbers`."""
    # Two loops with separate gathers: the results of gathers that both loops read would be stored.
    values, offsets = (
        materialize(_select(marked(x, mark), numbers, axis, op)[number])
        for number, mark in enumerate(("values of bins", "offsets in bins"))
    )
    return values, offsets


def _select(x: jax.Array, numbers: Numbers, axis: BinAxis, op: Operation) -> Winner:
    cells = _cells_at_places(x, axis, identity(op, x.dtype))
    added = [None] * len(cells) if numbers is None else _cells_at_places(numbers, axis, 0)
    values, offsets = winner_among(cells, added, number_dtype(numbers, Window((axis,))), op)
    return merge_periods(values, axis), merge_periods(offsets, axis)


def route_in_bins(array: jax.Array, offsets: jax.Array, axis: BinAxis, op: Operation) -> jax.Array:
    """Send the entry of every bin to the cell at its offset, combined by a sum or a maximum."""
    period = axis.period()
    array, offsets = (split_periods(materialize(each), axis, period.output) for each in (array, offsets))
    bins, held = bins_of_cells(period)
    places = np.where(held, np.arange(period.size) - period.starts[bins], 0).astype(offsets.dtype)
    total = None
    for number in range(len(bins)):
        here, offset = (_take(each, bins[number], axis) for each in (array, offsets))
        chosen = offset == _along(places[number], axis, here.ndim)
        if not held[number].all():
            chosen &= _along(held[number], axis, here.ndim)
        sent = jnp.where(chosen, here, jnp.zeros_like(here))
        total = sent if total is None else op(total, sent)
    assert total is not None
    return merge_periods(total, axis)


def _cells_at_places(array: jax.Array, axis: BinAxis, fill: object) -> Sequence[jax.Array]:
    """The cells at each place of all bins; `fill` where a bin has fewer cells."""
    period = axis.period()
    counts = period.counts(padding=False)
    # The oldest supported JAX misplaces entries when it folds a gather of constants (such as masks).
    periods = split_periods(barrier(array), axis, period.size)
    cells = []
    for place in range(period.kernel):
        here = _take(periods, np.minimum(period.starts + place, period.size - 1), axis)
        if place >= counts.min():
            here = jnp.where(_along(place < counts, axis, here.ndim), here, np.array(fill, array.dtype)[()])
        cells.append(here)
    return cells


def _take(periods: jax.Array, positions: np.ndarray, axis: BinAxis) -> jax.Array:
    """The entries of every period at these positions."""
    entries = axis.axis + 1
    others = tuple(number for number in range(periods.ndim) if number != entries)
    numbers = lax.GatherDimensionNumbers(others, (entries,), (entries,))
    sizes = tuple(1 if number == entries else size for number, size in enumerate(periods.shape))
    positions = positions[:, None].astype(np.int32)
    return lax.gather(periods, positions, numbers, sizes, mode="promise_in_bounds", indices_are_sorted=True)


def _along(entries: np.ndarray, axis: BinAxis, rank: int) -> np.ndarray:
    """Entries of one period, broadcastable against arrays of periods."""
    return entries.reshape([-1 if number == axis.axis + 1 else 1 for number in range(rank)])
