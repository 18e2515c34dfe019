"""The geometry of boxes: where the samples of each bin are along an axis, and which cells each bin holds.

A box is given by its low and high corners, in cells. It is data: it may be traced and learnt.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

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

    Of a box of l cells, bin o of m holds the cells u with ⌊o·l/m⌋ ≤ u < ⌈(o+1)·l/m⌉. All arithmetic is on integers
    and stays within int32 however far away the corners are.
    """
    first, last = (_rounded(corner, 2**29 // bins) for corner in (low, high))
    length = jnp.maximum(last - first + 1, 1)[:, None]
    numbers = np.arange(bins, dtype=np.int32)[None]
    start, end = first[:, None] + numbers * length // bins, first[:, None] - (-(numbers + 1) * length // bins)
    return jnp.clip(start, 0, cells), jnp.clip(end, 0, cells)


def _rounded(corner: jax.Array, limit: int) -> jax.Array:
    """The nearest integer, with halves rounded away from 0; 0 for NaN."""
    whole = jnp.trunc(corner)
    whole += jnp.where(jnp.abs(corner - whole) >= 0.5, jnp.sign(corner), jnp.zeros_like(corner))
    return jnp.nan_to_num(jnp.clip(whole, -limit, limit)).astype(np.int32)
