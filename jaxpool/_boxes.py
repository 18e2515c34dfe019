"""Boxes as windows: where the samples of each bin are, which cells each bin holds, and the first largest of these.

A box is given by its low and high corners, in cells. It is data: it may be traced and learnt.

The largest cells are found by a loop that reads one cell of every bin of all boxes at a time, in row-major order, for
as many steps as the largest bin has cells. It carries only the values and positions of the results. One axis after the
other would take fewer steps, but carry the bins along the first axis times all cells along the others: eight times the
cells for a hundred boxes or so.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import encode

Winner = tuple[jax.Array, jax.Array]

# So that products of their numbers are within int32.
MOST_BINS = 46340

# Cells beyond every array. A box from one to the other has no sample at 0: that needs (k + 1/2)/N = 1/3 with integers.
_FAR_BELOW, _FAR_ABOVE = -1e18, 2e18


def unknown(boxes: jax.Array, rank: int) -> jax.Array:
    """Which boxes have a NaN, broadcastable against their pools of an array of that rank."""
    return jnp.isnan(lax.stop_gradient(boxes)).any(1).reshape(-1, *[1] * rank)


def finite(boxes: jax.Array) -> jax.Array:
    """The boxes, with 0 for those that have a NaN and corners clipped so that their difference does not overflow."""
    # Not clipped by `lax.clamp`, whose Taylor rule in JAX fails for bounds that are scalars.
    for beyond, limit in ((boxes < _FAR_BELOW, _FAR_BELOW), (boxes > _FAR_ABOVE, _FAR_ABOVE)):
        boxes = jnp.where(beyond, jnp.full_like(boxes, limit), boxes)
    return jnp.where(unknown(boxes, 1), jnp.zeros_like(boxes), boxes)


def sample_positions(low: jax.Array, high: jax.Array, bins: int, ratio: int, aligned: bool) -> jax.Array:
    """Positions of `ratio` samples in each bin, of shape (count, bins, ratio); cell centres are the integers."""
    if aligned:
        low, high = low - 0.5, high - 0.5
    length = high - low
    if not aligned:
        length = jnp.where(length < 1, jnp.ones_like(length), length)
    low, bin_length = low[:, None, None], (length / bins)[:, None, None]
    numbers = np.arange(bins).reshape(1, bins, 1).astype(low.dtype)
    within = ((np.arange(ratio).reshape(1, 1, ratio) + 0.5) / ratio).astype(low.dtype)
    return low + numbers * bin_length + within * bin_length


def neighbours(positions: jax.Array, cells: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The cell at or below each position, the share of the next one, and which positions are on the axis.

    Up to one cell beyond the centre of the first or last cell, only that cell counts. A NaN counts as on the axis, and
    its share is NaN.
    """
    inside = ~((positions < -1) | (positions > cells))
    clamped = jnp.where(inside, positions, jnp.zeros_like(positions))
    clamped = jnp.where(clamped < 0, jnp.zeros_like(clamped), clamped)
    below = jnp.floor(clamped)
    last = clamped >= cells - 1
    share = jnp.where(last, jnp.zeros_like(clamped), clamped - below)
    return jnp.where(last, cells - 1, below.astype(np.int32)), share, inside


def bin_bounds(low: jax.Array, high: jax.Array, bins: int, cells: int) -> tuple[jax.Array, jax.Array]:
    """The first cell of each bin and the first cell after it: two arrays of shape (count, bins).

    Of a box of l cells, bin o of m holds the cells u with ⌊o·l/m⌋ ≤ u < ⌈(o+1)·l/m⌉. With l = q·m + r these are
    o·q + ⌊o·r/m⌋ and (o+1)·q + ⌈(o+1)·r/m⌉. All arithmetic is on integers and stays within int32, for up to `MOST_BINS`
    bins and however far away the corners are.
    """
    first, last = _rounded(low)[:, None], _rounded(high)[:, None]
    share, rest = jnp.divmod(jnp.maximum(last - first + 1, 1), bins)
    numbers = np.arange(bins + 1, dtype=np.int32)[None]
    low_edges, high_edges = numbers * rest // bins, -(-numbers * rest // bins)
    start, end = first + (numbers * share + low_edges)[:, :-1], first + (numbers * share + high_edges)[:, 1:]
    return jnp.clip(start, 0, cells), jnp.clip(end, 0, cells)


def _rounded(corner: jax.Array) -> jax.Array:
    """The nearest integer, with halves rounded away from 0, and at most 2^29 in magnitude; 0 for NaN."""
    limit = 2**29
    whole = jnp.trunc(corner)
    whole += jnp.where(jnp.abs(corner - whole) >= 0.5, jnp.sign(corner), jnp.zeros_like(corner))
    return jnp.nan_to_num(jnp.clip(whole, -limit, limit)).astype(np.int32)


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
        positions = encode(indices, cells.shape[1:count])
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
