"""Largest cells of ranges that are data: of each of many boxes, the first winner in every bin.

One axis is reduced after the other, a cell of all ranges at a time, for as many steps as the longest range has cells.
Winners are named by their row-major position. Of equal cells the one with the lower position wins, so that the order of
the axes does not matter; the first axis comes first, as whole rows are read there.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Winner = tuple[jax.Array, jax.Array]


def first_largest(x: jax.Array, axes: Sequence[int], bounds: Sequence[tuple[jax.Array, jax.Array]]) -> jax.Array:
    """Row-major positions, in the pooled axes of x, of the first largest cell of every range; -1 for none.

    `bounds` are the first cell of each range along each of the `axes`, ascending, and the first one beyond: arrays of
    one row per box. The result has the boxes as its first axis.
    """
    found: tuple[jax.Array, jax.Array | None] = (x, None)
    for axis, (first, beyond) in zip(axes, bounds, strict=True):
        found = _along(found, axis, first, beyond, partial(_positions, x.shape, axes, axis))
    assert found[1] is not None
    return found[1]


def _positions(sizes: Sequence[int], axes: Sequence[int], axis: int, places: jax.Array) -> jax.Array:
    """Row-major positions of the cells at the places along one axis, (count, 1, …, bins, …, 1), of all of the others.

    Not read from a table: that would be the same on all devices, and the places need not be.
    """
    positions = jnp.zeros([1] * (len(sizes) + 1), np.int32)
    for a in axes:
        shape = [1, *(size if a == n else 1 for n, size in enumerate(sizes))]
        positions = positions * sizes[a] + (places if a == axis else lax.broadcasted_iota(np.int32, shape, a + 1))
    return positions


def _along(
    found: tuple[jax.Array, jax.Array | None],
    axis: int,
    first: jax.Array,
    beyond: jax.Array,
    positions_at: Callable[[jax.Array], jax.Array],
) -> Winner:
    """Reduce the winners along one axis: of each box, or the cells, which all boxes share and have no positions yet."""

    def read(array: jax.Array, places: jax.Array) -> jax.Array:
        shared = None if found[1] is None else 0
        return jax.vmap(lambda a, p: jnp.take(a, p, axis, mode="clip"), (shared, 0))(array, places)

    def step(number: Any, best: Winner) -> Winner:
        places = first + number
        values = read(found[0], places)
        shape = [1] * values.ndim
        shape[0], shape[axis + 1] = places.shape
        positions = positions_at(places.reshape(shape)) if found[1] is None else read(found[1], places)
        is_held = (places < beyond).reshape(shape) & (positions >= 0)
        wins = is_held & _wins(values, positions, *best)
        return jnp.where(wins, values, best[0]), jnp.where(wins, positions, best[1])

    none = read(found[0], first)
    steps = jnp.max(beyond - first, initial=0)
    # A range starts without a winner; what its value is then is read by nobody.
    # The counter is of the type of its end, which says where a batch of them lies.
    return lax.fori_loop(jnp.zeros_like(steps), steps, step, (none, jnp.full_like(none, -1, np.int32)))


def _wins(values: jax.Array, positions: jax.Array, best: jax.Array, best_positions: jax.Array) -> jax.Array:
    larger, equal = values > best, values == best
    if jnp.issubdtype(values.dtype, jnp.floating):
        is_nan, best_is_nan = values != values, best != best
        larger, equal = larger | (is_nan & ~best_is_nan), equal | (is_nan & best_is_nan)
    return (best_positions < 0) | larger | (equal & (positions < best_positions))
