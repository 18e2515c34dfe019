"""Largest cells of ranges that are data: for each of many boxes, the first winner in every bin.

A loop reads one cell of every bin of all boxes at a time, in row-major order, for as many steps as the largest bin has
cells. It carries only the values and positions of the results. One axis after the other would take fewer steps, but
carry the bins along the first axis times all cells along the others: eight times the cells for a hundred boxes or so.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Winner = tuple[jax.Array, jax.Array]


def first_largest(cells: jax.Array, bounds: Sequence[tuple[jax.Array, jax.Array]]) -> jax.Array:
    """Row-major positions, along the leading axes of the cells, of the first largest cell of every range; -1 for none.

    `bounds` gives, for each leading axis, the first cell of each range and the first cell after it, one row per box.
    The axes of the result are the boxes, the ranges along each axis, and the other axes of the cells.
    """
    count = len(bounds)
    # Each axis of ranges separately, so that they broadcast against each other: (boxes, 1, …, ranges, …, 1).
    spread = [
        tuple(jnp.expand_dims(bound, [1 + other for other in range(count) if other != axis]) for bound in ends)
        for axis, ends in enumerate(bounds)
    ]
    lengths = [lax.max(np.int32(0), lax.reduce_max(stop - first, range(stop.ndim))) for first, stop in spread]

    def step(number: Any, best: Winner) -> Winner:
        indices, is_inside = [], jnp.ones((), bool)
        for (first, stop), length in zip(reversed(spread), reversed(lengths), strict=True):
            number, offset = number // length, number % length
            indices.insert(0, first + offset)
            is_inside = is_inside & (indices[0] < stop)
        values = cells.at[tuple(indices)].get(mode="clip")
        positions = jnp.zeros((), np.int32)
        for index, size in zip(indices, cells.shape, strict=False):
            positions = positions * size + index
        wins = _behind(is_inside, values) & _wins(values, *best)
        return jnp.where(wins, values, best[0]), jnp.where(wins, _behind(positions, values), best[1])

    # A range starts without a winner, so its first value is never used.
    start = cells.at[tuple(first for first, _ in spread)].get(mode="clip")
    # The counter has the type of its limit, which includes the batch axis.
    steps = math.prod(lengths[1:], start=lengths[0])
    first = jnp.zeros_like(steps), (start, jnp.full_like(start, -1, np.int32))
    # Not `fori_loop`, whose limits exporters take for numbers.
    _, (_, positions) = lax.while_loop(
        lambda state: state[0] < steps, lambda state: (state[0] + 1, step(*state)), first
    )
    return positions


def _behind(ranges: jax.Array, values: jax.Array) -> jax.Array:
    """Append axes of size 1 to an array of the ranges, for the other axes of the values."""
    return jnp.expand_dims(ranges, range(ranges.ndim, values.ndim))


def _wins(values: jax.Array, best: jax.Array, best_positions: jax.Array) -> jax.Array:
    """Whether cells win over the best ones so far, which win ties."""
    larger = values > best
    if jnp.issubdtype(values.dtype, jnp.floating):
        larger = larger | ((values != values) & (best == best))
    return (best_positions < 0) | larger
