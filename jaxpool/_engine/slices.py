"""Extremes, their winners and sums from shifted slices: the cells at one offset of all windows at a time.

A winner is recorded as its row-major offset in the window. Only a strictly better cell replaces an earlier one, so the
first of several equal cells wins. NaN wins over every number, and the first NaN over later ones.
"""

import itertools
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import Operation, identity
from jaxpool._engine.window_offsets import cells_at_offsets, pad_windows
from jaxpool._geometry.window import Window

# The extreme and its offset, in a window or a part of it; and the offsets in the parts evaluated before, if any.
Winner = tuple[jax.Array, jax.Array]
Inner = jax.Array | None


def reduce_by_slices(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine one shifted slice per cell of the window elementwise, which keeps NaN whatever the overlap."""
    result = None
    for cells in cells_at_offsets(x, window, identity(op, x.dtype)):
        result = cells if result is None else op(result, cells)
    assert result is not None
    return result


def select_by_slices(
    x: jax.Array, offsets: Inner, place_value: Any, part: Window, op: Operation, *, by_offset: bool = False
) -> Winner:
    """Compare one shifted slice per cell of the window with the winner of those before it."""
    values = cells_at_offsets(x, part, identity(op, x.dtype))
    inner = itertools.repeat(None, part.cells) if offsets is None else cells_at_offsets(offsets, part, 0)
    return winner_among(values, inner, place_value, op, by_offset=by_offset)


def winner_among(
    values: Iterable[jax.Array], inner: Iterable[Inner], place_value: Any, op: Operation, *, by_offset: bool = False
) -> Winner:
    """The winner among arrays of cells, in order, and its number times `place_value`, plus its entry in `inner`."""
    best = None
    for number, (cells, within) in enumerate(zip(values, inner, strict=True)):
        added = times(place_value, number)
        if within is None:
            here = cells, jnp.full_like(cells, added, place_value.dtype)
        else:
            here = cells, within + added
        best = here if best is None else better(best, here, op, by_offset=by_offset)
    assert best is not None
    return best


def select_present_by_slices(x: jax.Array, mask: jax.Array, none: Any, part: Window, op: Operation) -> Winner:
    """The winner among the cells that a mask holds; the offset is `none` if there are none.

    The mask is read at every cell of the window: an array with masked cells filled in, which windows read many times,
    would be a separate kernel on a GPU.
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


def better(first: Winner, later: Winner, op: Operation, *, by_offset: bool = False) -> Winner:
    """The winner of an earlier and a later candidate: only a strictly better one replaces the first.

    With `by_offset`, for parts that are not visited in row-major order, so does an equal one with a lower offset.
    """
    is_better = replaces(first[0], later[0], op)
    if by_offset:
        is_better |= is_equal(first[0], later[0]) & (later[1] < first[1])
    return lax.select(is_better, later[0], first[0]), lax.select(is_better, later[1], first[1])


def replaces(first: jax.Array, later: jax.Array, op: Operation) -> jax.Array:
    """Whether a later cell is strictly better than the first."""
    ordered = lax.gt if op is lax.max else lax.lt
    if not jnp.issubdtype(first.dtype, jnp.floating):
        return ordered(later, first)
    unordered = lax.le if op is lax.max else lax.ge
    return ~unordered(later, first) & (first == first)


def is_equal(first: jax.Array, later: jax.Array) -> jax.Array:
    """Whether two cells are equal, as NaN and NaN are."""
    equal = first == later
    return equal | ((first != first) & (later != later)) if jnp.issubdtype(first.dtype, jnp.floating) else equal
