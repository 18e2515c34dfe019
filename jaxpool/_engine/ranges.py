"""Largest cells of ranges that are data: of each of many boxes, the first winner in every bin.

One axis is reduced after the other, a cell of all ranges at a time, for as many steps as the longest range has cells.
Winners are named by their row-major position. Of equal cells the one with the lower position wins, so that the order of
the axes does not matter; the first axis comes first, as whole rows are read there.
"""

from collections.abc import Sequence
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
    positions = jnp.zeros([1] * x.ndim, np.int32)
    for axis in axes:
        shape = [x.shape[axis] if a == axis else 1 for a in range(x.ndim)]
        positions = positions * x.shape[axis] + lax.broadcasted_iota(np.int32, shape, axis)
    found, shared = (x, positions), True
    for axis, (first, beyond) in zip(axes, bounds, strict=True):
        found, shared = _along(found, axis, first, beyond, shared), False
    return found[1]


def _along(found: Winner, axis: int, first: jax.Array, beyond: jax.Array, shared: bool) -> Winner:
    """Reduce the winners along one axis; `shared` by all boxes, or one set for each."""

    def read(array: jax.Array, places: jax.Array) -> jax.Array:
        return jax.vmap(lambda a, p: jnp.take(a, p, axis, mode="clip"), (None if shared else 0, 0))(array, places)

    def step(number: Any, best: Winner) -> Winner:
        places = first + number
        values, positions = (read(array, places) for array in found)
        shape = [1] * values.ndim
        shape[0], shape[axis + 1] = places.shape
        is_held = (places < beyond).reshape(shape) & (positions >= 0)
        wins = is_held & _wins(values, positions, *best)
        return jnp.where(wins, values, best[0]), jnp.where(wins, positions, best[1])

    none = read(found[0], first)
    steps = jnp.max(beyond - first, initial=0)
    # A range starts without a winner; what its value is then is read by nobody.
    return lax.fori_loop(0, steps, step, (none, jnp.full_like(none, -1, np.int32)))


def _wins(values: jax.Array, positions: jax.Array, best: jax.Array, best_positions: jax.Array) -> jax.Array:
    larger, equal = values > best, values == best
    if jnp.issubdtype(values.dtype, jnp.floating):
        is_nan, best_is_nan = values != values, best != best
        larger, equal = larger | (is_nan & ~best_is_nan), equal | (is_nan & best_is_nan)
    return (best_positions < 0) | larger | (equal & (positions < best_positions))
