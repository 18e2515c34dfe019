"""Winners: which cell of each window is chosen, the first one in row-major order where several are equal.

A winner is recorded as its row-major offset in the window, in the smallest unsigned dtype that numbers the
cells: one byte per output up to 256 cells. NaN wins over every number, and the first NaN over later ones.
Padding never wins.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine import choose
from jaxpool._engine.bins import even, expand
from jaxpool._engine.blocks import first_in_blocks
from jaxpool._engine.doubling import fold_by_doubling
from jaxpool._engine.operations import Arrays, Operation, computed_once, identity
from jaxpool._engine.taps import at_tap, pad_windows, taps
from jaxpool._window import Window

Winners = tuple[jax.Array, jax.Array]


def first_winners(x: jax.Array, window: Window, op: Operation, first: jax.Array | None = None) -> Winners:
    """The extreme of every window by `op` (`lax.max` or `lax.min`), and the offset of the cell that has it.

    One axis after the other, the last one first: the first winner of every row of the window, then the first
    row whose winner wins, is the first winner of the window in row-major order. `first`, broadcastable against the
    output, are the offsets of the first cells that may win, where it is not all of them.
    """
    dtype = np.min_scalar_type(window.cells - 1)
    offsets = None
    inner_cells = 1
    for part in choose.selection_order(window):
        inner = jnp.zeros_like(x, dtype) if offsets is None else offsets
        if choose.selects_in_blocks(part):
            lowering = select_by_blocks
        else:
            lowering = select_by_doubling if choose.doubles(part) else select_by_slices
        if even(part) != part:
            # Read more than once: for the extreme, and again for the cell that has it.
            x, inner, part = computed_once(expand(x, part, identity(op, x.dtype))), expand(inner, part, 0), even(part)
        x, offsets = lax.optimization_barrier(lowering(x, inner, inner_cells, part, op))
        inner_cells *= part.cells
    assert offsets is not None
    if first is None and any(axis.low for axis in window.axes):
        first = first_real_offsets(x.ndim, window, dtype)
    if first is not None:
        # A cell that is as low as the low padding or the masked cells in front of it would lose to them. A window
        # whose winner is the lowest value has no other value in it: the first cell that may win does.
        offsets = jnp.where(x == identity(op, x.dtype), first, offsets)
    return x, offsets


def first_real_offsets(rank: int, window: Window, dtype: np.dtype) -> jax.Array:
    """Offset of the first cell of every window that is not low padding, broadcastable against the output."""
    total, place = jnp.zeros([1] * rank, dtype), window.cells
    for axis in window.axes:
        place //= axis.kernel
        total += axis.along((axis.first_real_offsets() * place).astype(dtype), rank)
    return total


def winner_positions(offsets: jax.Array, window: Window) -> jax.Array:
    """Row-major position of each winner among the real cells of the pooled axes, in int32."""
    positions, place = jnp.zeros(offsets.shape, jnp.int32), window.cells
    offsets = offsets.astype(jnp.int32)
    for axis in window.axes:
        place //= axis.kernel
        offset = lax.rem(lax.div(offsets, np.int32(place)), np.int32(axis.kernel))
        position = offset * axis.dilation + axis.along(axis.starts.astype(np.int32), offsets.ndim)
        positions = positions * axis.size + position
    return positions


def select_by_slices(x: jax.Array, offsets: jax.Array, inner_cells: int, part: Window, op: Operation) -> Winners:
    """One shifted slice per cell of the window, each compared with the winner of those before it."""
    padded, padded_offsets = _pad(x, offsets, part, op)
    best = None
    for number, tap in enumerate(taps(part)):
        cells = at_tap(padded, part, tap)
        places = at_tap(padded_offsets, part, tap) + np.array(number * inner_cells, offsets.dtype)[()]
        best = (cells, places) if best is None else _better(best, (cells, places), op)
    assert best is not None
    return best


def select_by_blocks(x: jax.Array, offsets: jax.Array, inner_cells: int, part: Window, op: Operation) -> Winners:
    """The extreme first, then the lowest offset among the cells that equal it; for windows that share no cells."""
    return first_in_blocks(_pad(x, offsets, part, op), inner_cells, part, op)


def select_by_doubling(x: jax.Array, offsets: jax.Array, inner_cells: int, part: Window, op: Operation) -> Winners:
    """The better one of the winners of two halves, log2(kernel) times: a cell in both halves is the winner of both."""

    def join(first: Arrays, later: Arrays, shift: int) -> Winners:
        moved = later[1] + np.array(shift * inner_cells, offsets.dtype)[()]
        return _better((first[0], first[1]), (later[0], moved), op)

    values, places = fold_by_doubling(_pad(x, offsets, part, op), part, join)
    return values, places


def _pad(x: jax.Array, offsets: jax.Array, part: Window, op: Operation) -> Winners:
    return pad_windows(x, part, identity(op, x.dtype)), pad_windows(offsets, part, 0)


def _better(first: Winners, later: Winners, op: Operation) -> Winners:
    """The winner of two, where the first one stands before the later one: only a strictly better one replaces it."""
    ordered = lax.gt if op is lax.max else lax.lt
    replaces = ordered(later[0], first[0])
    if jnp.issubdtype(first[0].dtype, jnp.floating):
        replaces |= (later[0] != later[0]) & (first[0] == first[0])
    return jnp.where(replaces, later[0], first[0]), jnp.where(replaces, later[1], first[1])
