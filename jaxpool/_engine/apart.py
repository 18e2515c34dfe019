"""Routing for cells that every window chooses for itself: at random, or by a rank.

Where the winner of a window is the winner of its row, and windows that share a row share that winner, one axis after
the other leads to it. Here two windows may choose different cells of the same row, and all axes go at once.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import accumulation_dtype, pad
from jaxpool._engine.route import route_by_comparison
from jaxpool._engine.taps import UNROLLED_CELLS, tap_starts
from jaxpool._window import Window


def route_apart(cotangent: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """Send each output's cotangent to the cell at its offset in its window; outside of windows the sum is 0."""
    dtype = cotangent.dtype
    wide = cotangent.astype(accumulation_dtype(dtype))
    if window.cells <= UNROLLED_CELLS or window.tiles:
        return route_by_comparison(wide, offsets, window, lax.add).astype(dtype)
    return _route_in_a_loop(wide, offsets, window).astype(dtype)


def _route_in_a_loop(cotangent: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """One tap at a time, which takes as long to compile for any window."""
    padded, gaps = list(cotangent.shape), [(0, 0, 0)] * cotangent.ndim
    for axis in window.axes:
        padded[axis.axis] = axis.low + axis.size + axis.beyond
        gaps[axis.axis] = (0, 0, axis.stride - 1)
    zero = np.zeros((), cotangent.dtype)[()]

    def body(number: Any, total: jax.Array) -> jax.Array:
        chosen = offsets == lax.convert_element_type(number, offsets.dtype)
        sent = lax.pad(jnp.where(chosen, cotangent, zero), zero, gaps)
        starts = tap_starts(number, window, cotangent.ndim)
        return lax.dynamic_update_slice(total, lax.dynamic_slice(total, starts, sent.shape) + sent, starts)

    total = lax.fori_loop(0, window.cells, body, jnp.zeros(padded, cotangent.dtype))
    return pad(total, {axis.axis: (-axis.low, -axis.beyond) for axis in window.axes}, 0)
