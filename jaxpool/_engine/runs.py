"""Footprints of many cells as runs of adjacent ones: about a pass for each length of a run, not a read for each cell.

One pass over the cells combines all runs of one length, from shorter ones. Then every window combines its runs. A disk
of r×r cells takes about 4·r reads for a window at a stride of 1, where cell by cell it takes r²·π/4. On the way back
from a window to its winner, every window finds the run that holds it, and every run a shorter one.
"""

import math
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.loops import route_to_chosen, select_in_loop
from jaxpool._engine.operations import Arrays, Operation, accumulation_dtype, decode, encode, identity, pad
from jaxpool._engine.pieces import Join, join_cells, join_winners, route_to_pieces
from jaxpool._engine.reductions import reduce_by_slices, spread_by_windows
from jaxpool._engine.slices import Winner, number_dtype, select_by_slices
from jaxpool._engine.stages import stage
from jaxpool._engine.window_offsets import at_offset, is_looped, pad_windows
from jaxpool._geometry.footprint import FootprintWindow
from jaxpool._geometry.runs import Joints, Runs, Start, runs_of


def reduce_footprint(x: jax.Array, window: FootprintWindow, op: Operation) -> jax.Array:
    """Combine the cells of every window by `op`, one of `lax.max`, `lax.min` and `lax.add`."""
    runs = runs_of(window, op is lax.add)
    return reduce_by_slices(x, window, op) if runs is None else reduce_by_runs(x, window, runs, op)


def spread_footprint(cotangent: jax.Array, window: FootprintWindow) -> jax.Array:
    """Send each output's cotangent to every cell of its window."""
    holders = window.holders()
    if holders is None or runs_of(window, True) is None:
        return spread_by_windows(cotangent, window)
    return reduce_footprint(cotangent, holders, lax.add)


def select_footprint(x: jax.Array, window: FootprintWindow, op: Operation) -> Winner:
    """The extreme of every window by `op`, and its row-major offset."""
    if not is_looped(window):
        # Up to 64 cells, comparing one after the other is faster.
        return select_by_slices(x, None, window, op)
    runs = runs_of(window, False)
    return select_in_loop(x, window, op) if runs is None else select_by_runs(x, window, runs, op)


def route_footprint(array: jax.Array, offsets: jax.Array, window: FootprintWindow) -> jax.Array:
    """Send each window's entry to the cell at its offset."""
    runs = runs_of(window, False) if is_looped(window) else None
    if runs is None:
        return route_to_chosen([array], [offsets], window)
    return route_by_runs(array, offsets, window, runs)


def reduce_by_runs(x: jax.Array, window: FootprintWindow, runs: Runs, op: Operation) -> jax.Array:
    """Combine the cells of every window by `op`, run by run."""
    join, padded = partial(join_cells, op=op), pad_windows(x, window, identity(op, x.dtype))
    (result,) = _join_runs((join, join, join), (padded,), window, runs)
    return result


def select_by_runs(x: jax.Array, window: FootprintWindow, runs: Runs, op: Operation) -> Winner:
    """The extreme of every window by `op`, and its row-major offset, from the winners of the runs."""
    padded = pad_windows(x, window, identity(op, x.dtype))
    cells = padded, jnp.zeros_like(padded, number_dtype(None, window))
    in_order, in_any_order = (partial(join_winners, op=op, by_number=by_number) for by_number in (False, True))
    # Runs of one length are in the order of their cells if they are along the last axis.
    of_one_length = in_order if runs.axis == len(window.axes) - 1 else in_any_order
    values, offsets = _join_runs((in_order, of_one_length, in_any_order), cells, window, runs)
    return values, offsets


def _join_runs(joins: tuple[Join, Join, Join], padded: Arrays, window: FootprintWindow, runs: Runs) -> Arrays:
    """Join shorter runs to runs of each length, those of one length in every window, and the results for all lengths.

    What is known of the windows is brought up to date for each length, so that few arrays are in memory at a time.
    """
    join_shorter, join_equal, join_lengths = joins
    along, shape, starts = window.axes[runs.axis], [axis.kernel for axis in window.axes], dict(runs.starts)
    known, size, next_cell = {1: padded}, padded[0].shape[along.axis], math.prod(shape[runs.axis + 1 :])

    def in_runs(*shorter: Arrays, joints: Joints, length: int) -> Arrays:
        count = size - (length - 1) * along.dilation
        given = dict(zip(dict.fromkeys(each for each, _ in joints), shorter, strict=True))
        pieces = []
        for each, start in joints:
            first = start * along.dilation
            cells = (lax.slice_in_dim(array, first, first + count, 1, along.axis) for array in given[each])
            pieces.append((start * next_cell, tuple(cells)))
        return join_shorter(pieces)

    def in_windows(arrays: Arrays, *joined: Arrays, length: int) -> Arrays:
        pieces = []
        for start in starts[length]:
            number = int(np.ravel_multi_index(start, shape))
            pieces.append((number, tuple(at_offset(array, window, start) for array in arrays)))
        return join_lengths([(0, each) for each in (*joined, join_equal(pieces))])

    joined = [stage(partial(in_windows, length=1), padded)] if 1 in starts else []
    for length, joints in runs.lengths:
        used = dict.fromkeys(each for each, _ in joints)
        known[length] = stage(partial(in_runs, joints=joints, length=length), *(known[each] for each in used))
        if length in starts:
            joined = [stage(partial(in_windows, length=length), known[length], *joined)]
    return joined[0]


def route_by_runs(array: jax.Array, offsets: jax.Array, window: FootprintWindow, runs: Runs) -> jax.Array:
    """Send each window's entry to the cell at its offset: first to the run that holds it, then to shorter ones.

    Several windows share a run. Those with their winner in it agree on which of its cells that is, so one offset per
    run is enough.
    """
    array = array.astype(accumulation_dtype(array.dtype))
    along, starts = window.axes[runs.axis], dict(runs.starts)
    size, kernels = along.low + along.size + along.overhang, [axis.kernel for axis in window.axes]
    # The number of a cell if the axis of the runs came last: those of a run are then adjacent.
    kernels_last = _moved_last(kernels, runs.axis)
    numbers = encode(_moved_last(decode(offsets, kernels[1:]), runs.axis), kernels_last[1:])
    # The offset that no cell has stays one.
    numbers = jnp.where(offsets <= np.array(window.cells - 1, offsets.dtype)[()], numbers, offsets)
    # The windows that hold a cell at one offset are a slice of these; runs, unlike cells, may start in the padding.
    widths = {
        axis.axis: (axis.extent - 1 - low, axis.extent - 1 - high, axis.stride - 1)
        for axis in window.axes
        for low, high in [(0, 0) if axis is along else (axis.low, axis.overhang)]
    }
    windows = tuple(stage(partial(pad, widths=widths, fill=0), each) for each in (numbers, array))

    def to_runs(start: Start, windows: Arrays, length: int) -> jax.Array:
        for axis, offset in zip(window.axes, start, strict=True):
            first = axis.extent - 1 - offset * axis.dilation
            count = size - (length - 1) * along.dilation if axis is along else axis.size
            windows = tuple(lax.slice_in_dim(each, first, first + count, 1, axis.axis) for each in windows)
        # Unsigned: the distance of a cell before the run is a large number.
        number = partial(np.array, dtype=offsets.dtype)
        within = windows[0] - number(np.ravel_multi_index(_moved_last(start, runs.axis), kernels_last))[()]
        sent = windows[1] if len(windows) > 1 else within
        return jnp.where(within < number(length)[()], sent, jnp.zeros_like(sent))

    def to_length(windows: Arrays, *longer: Arrays, length: int, pieces: Sequence[int], op: Operation) -> jax.Array:
        """What runs of a length get from windows and, as pieces, from longer runs: entries, or else offsets."""
        got = [to_runs(start, windows, length) for start in starts.get(length, ())]
        got += (route_to_pieces(*each, starts=pieces, width=length, axis=along, op=op) for each in longer)
        return reduce(op, got)

    longer, pieces = list[Arrays](), list[int]()
    for length, joints in reversed(runs.lengths):
        step = partial(to_length, length=length, pieces=pieces)
        entries = stage(partial(step, op=lax.add), windows, *longer)
        longer = [(stage(partial(step, op=lax.max), windows[:1], *(each[:1] for each in longer)), entries)]
        pieces = [start for _, start in joints]
    step = partial(to_length, length=1, pieces=pieces, op=lax.add)
    return pad(stage(step, windows, *longer), {along.axis: (-along.low, -along.overhang)}, 0)


def _moved_last(entries: Sequence[Any], number: int) -> list[Any]:
    return [*entries[:number], *entries[number + 1 :], entries[number]]
