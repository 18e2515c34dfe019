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

# The extreme of a window, and its number: its offset, added to the entry of the cell in an array of numbers, if any.
Winner = tuple[jax.Array, jax.Array]
Numbers = jax.Array | None


def reduce_by_slices(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine one shifted slice per cell of the window elementwise, which keeps NaN whatever the overlap."""
    result = None
    for cells in cells_at_offsets(x, window, identity(op, x.dtype)):
        result = cells if result is None else op(result, cells)
    assert result is not None
    return result


def select_by_slices(x: jax.Array, numbers: Numbers, part: Window, op: Operation) -> Winner:
    """Compare one shifted slice per cell of the window with the winner of those before it."""
    values = cells_at_offsets(x, part, identity(op, x.dtype))
    added = itertools.repeat(None, part.cells) if numbers is None else cells_at_offsets(numbers, part, 0)
    return winner_among(values, added, number_dtype(numbers, part), op)


def winner_among(values: Iterable[jax.Array], numbers: Iterable[Numbers], dtype: np.dtype, op: Operation) -> Winner:
    """The winner among arrays of cells, in order, and its place among them, added to its entry in `numbers`."""
    best = None
    for place, (cells, number) in enumerate(zip(values, numbers, strict=True)):
        offset = np.array(place, dtype)[()]
        candidate = cells, jnp.full_like(cells, offset, dtype) if number is None else number + offset
        best = candidate if best is None else better(best, candidate, op, by_number=number is not None)
    assert best is not None
    return best


def number_dtype(numbers: Numbers, part: Window) -> np.dtype:
    """The dtype of the numbers of cells: the smallest for their offsets alone."""
    return np.min_scalar_type(part.cells - 1) if numbers is None else numbers.dtype


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


def pad_winners(x: jax.Array, numbers: Numbers, part: Window, op: Operation) -> tuple[jax.Array, Numbers]:
    return pad_windows(x, part, identity(op, x.dtype)), None if numbers is None else pad_windows(numbers, part, 0)


def better(first: Winner, later: Winner, op: Operation, *, by_number: bool = False) -> Winner:
    """The winner of an earlier and a later candidate: only a strictly better one replaces the first.

    With `by_number`, for cells that are not visited in the order of their numbers, so does an equal one with a lower
    number.
    """
    is_better = replaces(first[0], later[0], op)
    if by_number:
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
