"""Extremes, their winners and sums from shifted slices: the cells at one offset of all windows at a time.

A winner is recorded as its row-major offset in the window; only a strictly better cell replaces one before it, so that
the first of several equal ones wins. NaN wins over every number, and the first NaN over later ones.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import Operation, identity
from jaxpool._engine.window_offsets import cells_at_offsets, pad_windows
from jaxpool._geometry.window import Window

# The extreme and its offset, in one window or in a part of it; and the offsets in the parts evaluated before, if any.
Winner = tuple[jax.Array, jax.Array]
Inner = jax.Array | None


def reduce_by_slices(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """One shifted slice per cell of the window, combined elementwise: keeps NaN whatever the overlap."""
    result = None
    for cells in cells_at_offsets(x, window, identity(op, x.dtype)):
        result = cells if result is None else op(result, cells)
    assert result is not None
    return result


def select_by_slices(x: jax.Array, offsets: Inner, place_value: Any, part: Window, op: Operation) -> Winner:
    """One shifted slice per cell of the window, each compared with the winner of those before it."""
    values = cells_at_offsets(x, part, identity(op, x.dtype))
    inner = itertools.repeat(None, part.cells) if offsets is None else cells_at_offsets(offsets, part, 0)
    best = None
    for number, (cells, within) in enumerate(zip(values, inner, strict=True)):
        added = times(place_value, number)
        if within is None:
            here = cells, jnp.full_like(cells, added, place_value.dtype)
        else:
            here = cells, within + added
        best = here if best is None else better(best, here, op)
    assert best is not None
    return best


def select_present_by_slices(x: jax.Array, mask: jax.Array, none: Any, part: Window, op: Operation) -> Winner:
    """The winner among the cells that a mask holds; without any the offset is `none`.

    The mask is asked at every cell of the window: an array of filled cells, which the window reads many times, would
    be a kernel of its own on a GPU.
    """
    values, mask_cells = cells_at_offsets(x, part, identity(op, x.dtype)), cells_at_offsets(mask, part, False)
    best = None
    for number, (cells, present) in enumerate(zip(values, mask_cells, strict=True)):
        index = np.array(number, none.dtype)[()]
        if best is None:
            best = cells, jnp.broadcast_to(jnp.where(present, index, none), cells.shape)
        else:
            wins = jnp.where(best[1] == none, True, replaces(best[0], cells, op))
            wins = jnp.where(present, wins, False)
            best = jnp.where(wins, cells, best[0]), jnp.where(wins, index, best[1])
    assert best is not None
    return best


def pad_winners(x: jax.Array, offsets: Inner, part: Window, op: Operation) -> tuple[jax.Array, Inner]:
    return pad_windows(x, part, identity(op, x.dtype)), None if offsets is None else pad_windows(offsets, part, 0)


def times(place_value: Any, number: int) -> Any:
    return np.array(int(place_value) * number, place_value.dtype)[()]


def better(first: Winner, later: Winner, op: Operation) -> Winner:
    """The winner of two, where the first one comes before the later one: only a strictly better one replaces it."""
    is_better = replaces(first[0], later[0], op)
    return lax.select(is_better, later[0], first[0]), lax.select(is_better, later[1], first[1])


def replaces(first: jax.Array, later: jax.Array, op: Operation) -> jax.Array:
    """Whether a later cell is strictly better than the first one."""
    ordered = lax.gt if op is lax.max else lax.lt
    if not jnp.issubdtype(first.dtype, jnp.floating):
        return ordered(later, first)
    unordered = lax.le if op is lax.max else lax.ge
    return ~unordered(later, first) & (first == first)
