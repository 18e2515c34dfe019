"""Extremes, their winners and sums from shifted slices: the cells at one offset of all windows at a time.

A winner is recorded as its row-major offset in the window; only a strictly better cell replaces one before it, so that
the first of several equal ones wins. NaN wins over every number, and the first NaN over later ones.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import Operation, identity
from jaxpool._engine.taps import at_tap, pad_windows, taps
from jaxpool._geometry.window import Window

# The extreme and its offset, in one window or in a part of it; and the offsets in the parts evaluated before, if any.
Winner = tuple[jax.Array, jax.Array]
Inner = jax.Array | None


def reduce_by_slices(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """One shifted slice per cell of the window, combined elementwise: keeps NaN whatever the overlap."""
    padded = pad_windows(x, window, identity(op, x.dtype))
    result = None
    for tap in taps(window):
        cells = at_tap(padded, window, tap)
        result = cells if result is None else op(result, cells)
    assert result is not None
    return result


def select_by_slices(x: jax.Array, offsets: Inner, place: Any, part: Window, op: Operation) -> Winner:
    """One shifted slice per cell of the window, each compared with the winner of those before it."""
    padded, padded_offsets = pad_winners(x, offsets, part, op)
    best = None
    for number, tap in enumerate(taps(part)):
        cells = at_tap(padded, part, tap)
        places = times(place, number)
        if padded_offsets is None:
            here = cells, jnp.full_like(cells, places, place.dtype)
        else:
            here = cells, at_tap(padded_offsets, part, tap) + places
        best = here if best is None else better(best, here, op)
    assert best is not None
    return best


def pad_winners(x: jax.Array, offsets: Inner, part: Window, op: Operation) -> tuple[jax.Array, Inner]:
    return pad_windows(x, part, identity(op, x.dtype)), None if offsets is None else pad_windows(offsets, part, 0)


def times(place: Any, number: int) -> Any:
    return np.array(int(place) * number, place.dtype)[()]


def better(first: Winner, later: Winner, op: Operation) -> Winner:
    """The winner of two, where the first one stands before the later one: only a strictly better one replaces it."""
    ordered = lax.gt if op is lax.max else lax.lt
    if not jnp.issubdtype(first[0].dtype, jnp.floating):
        replaces = ordered(later[0], first[0])
    else:
        unordered = lax.le if op is lax.max else lax.ge
        replaces = ~unordered(later[0], first[0]) & (first[0] == first[0])
    return lax.select(replaces, later[0], first[0]), lax.select(replaces, later[1], first[1])
