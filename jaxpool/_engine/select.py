"""Winners: which cell of each window is chosen, the first one in row-major order where several are equal.

A winner is recorded as its row-major offset in the window, in the smallest unsigned dtype that numbers the
cells: one byte per output up to 256 cells. NaN wins over every number, and the first NaN over later ones.
Padding never wins.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine import choose
from jaxpool._engine.bins import even, expand
from jaxpool._engine.blocks import first_in_blocks
from jaxpool._engine.operations import Arrays, Operation, computed_once, identity
from jaxpool._engine.pieces import fold_in_pieces
from jaxpool._engine.stages import stage
from jaxpool._engine.taps import at_tap, pad_windows, taps
from jaxpool._geometry.extension import copied_cells
from jaxpool._geometry.window import Window

# One array for each window of `choose.winner_groups`.
Offsets = tuple[jax.Array, ...]
Winners = tuple[jax.Array, Offsets]
# The extreme and its offset, in one window or in a part of it; and the offsets in the parts evaluated before, if any.
Winner = tuple[jax.Array, jax.Array]
Inner = jax.Array | None


def first_winners(
    x: jax.Array, groups: Sequence[Window], op: Operation, first: Sequence[jax.Array] | None = None
) -> Winners:
    """The extreme of every window by `op` (`lax.max` or `lax.min`), and the offsets of the cell that has it.

    One group of axes after the other, the last axes first: the first winner of every row of the window, then the first
    row whose winner wins, is the first winner of the window in row-major order. `first`, broadcastable against what
    each group records, are the offsets of the first cells that may win, where it is not all of them.
    """
    recorded = []
    for number, group in enumerate(groups):
        x, offsets = _winners_in_group(x, group, op, None if first is None else first[number])
        recorded.append(offsets)
    return x, tuple(recorded)


def _winners_in_group(x: jax.Array, group: Window, op: Operation, first: jax.Array | None) -> Winner:
    dtype = np.min_scalar_type(group.cells - 1)
    if first is None and any(axis.low for axis in group.axes):
        first = first_real_offsets(x.ndim, group, dtype)
    offsets, place = None, 1
    parts = choose.selection_order(group)
    for number, part in enumerate(parts, 1):
        if even(part) != part:
            # Read more than once: for the extreme, and again for the cell that has it.
            x = computed_once(expand(x, part, identity(op, x.dtype)))
            offsets, part = None if offsets is None else expand(offsets, part, 0), even(part)
        step = partial(_winners_in_part, place=np.array(place, dtype)[()], part=part, op=op)
        arrays = x, offsets, first if number == len(parts) else None
        x, offsets = stage(step, *arrays) if choose.is_stage(part, x.shape) else lax.optimization_barrier(step(*arrays))
        place *= part.cells
    assert offsets is not None
    return x, offsets


def _winners_in_part(
    x: jax.Array, offsets: Inner, first: jax.Array | None, place: Any, part: Window, op: Operation
) -> Winner:
    if choose.selects_in_blocks(part):
        lowering = select_by_blocks
    else:
        lowering = select_in_pieces if choose.folds_pieces(part) else select_by_slices
    x, offsets = lowering(x, offsets, place, part, op)
    # Low padding and masked cells that stand in front win over cells as low as they are, but over no others.
    return x, offsets if first is None else jnp.maximum(offsets, first)


def first_real_offsets(rank: int, window: Window, dtype: np.dtype) -> jax.Array:
    """Offset of the first cell of every window that is not low padding, broadcastable against the output."""
    total, place = jnp.zeros([1] * rank, dtype), window.cells
    for axis in window.axes:
        place //= axis.kernel
        total += axis.along((axis.first_real_offsets() * place).astype(dtype), rank)
    return total


def winner_positions(offsets: jax.Array, window: Window) -> jax.Array:
    """Row-major position of each winner among the real cells of the pooled axes, or of the cell it copies, in int32."""
    positions, place = jnp.zeros(offsets.shape, jnp.int32), window.cells
    offsets = offsets.astype(jnp.int32)
    for axis in window.axes:
        place //= axis.kernel
        offset = lax.rem(lax.div(offsets, np.int32(place)), np.int32(axis.kernel))
        position = offset * axis.dilation + axis.along(axis.starts.astype(np.int32), offsets.ndim)
        if window.extension is not None:
            position = copied_cells(position, axis.size, window.extension)
        positions = positions * axis.size + position
    return positions


def select_by_slices(x: jax.Array, offsets: Inner, place: Any, part: Window, op: Operation) -> Winner:
    """One shifted slice per cell of the window, each compared with the winner of those before it."""
    padded, padded_offsets = _pad(x, offsets, part, op)
    best = None
    for number, tap in enumerate(taps(part)):
        cells = at_tap(padded, part, tap)
        places = _times(place, number)
        if padded_offsets is None:
            here = cells, jnp.full_like(cells, places, place.dtype)
        else:
            here = cells, at_tap(padded_offsets, part, tap) + places
        best = here if best is None else _better(best, here, op)
    assert best is not None
    return best


def select_by_blocks(x: jax.Array, offsets: Inner, place: Any, part: Window, op: Operation) -> Winner:
    """The extreme first, then the lowest offset among the cells that equal it; for windows that share no cells."""
    padded, padded_offsets = _pad(x, offsets, part, op)
    return first_in_blocks(padded, padded_offsets, place, part, op)


def select_in_pieces(x: jax.Array, offsets: Inner, place: Any, part: Window, op: Operation) -> Winner:
    """The best one of the winners of a few pieces, log8(kernel) times: a cell in two pieces is the winner of both."""

    def join(first: Arrays, later: Arrays, start: int) -> Winner:
        return _better((first[0], first[1]), (later[0], later[1] + _times(place, start)), op)

    padded, padded_offsets = _pad(x, offsets, part, op)
    if padded_offsets is None:
        padded_offsets = jnp.zeros_like(padded, place.dtype)
    values, places = fold_in_pieces((padded, padded_offsets), part, join)
    return values, places


def _pad(x: jax.Array, offsets: Inner, part: Window, op: Operation) -> tuple[jax.Array, Inner]:
    return pad_windows(x, part, identity(op, x.dtype)), None if offsets is None else pad_windows(offsets, part, 0)


def _times(place: Any, number: int) -> Any:
    return np.array(int(place) * number, place.dtype)[()]


def _better(first: Winner, later: Winner, op: Operation) -> Winner:
    """The winner of two, where the first one stands before the later one: only a strictly better one replaces it."""
    ordered = lax.gt if op is lax.max else lax.lt
    replaces = ordered(later[0], first[0])
    if jnp.issubdtype(first[0].dtype, jnp.floating):
        replaces |= (later[0] != later[0]) & (first[0] == first[0])
    return jnp.where(replaces, later[0], first[0]), jnp.where(replaces, later[1], first[1])
