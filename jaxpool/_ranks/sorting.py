"""Many ranks of every window at once, by sorting copies of its cells.

A selection for each rank makes a program as long as there are ranks: for 32 of 257 cells it takes 5 seconds to compile.
A sort is a single operation, but of copies of all cells of every window.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._window import Window
from jaxpool._windows.cells import pad_in_tiles
from jaxpool._windows.choices import on_every_platform, route_to_chosen
from jaxpool._windows.operations import Arrays, accumulation_dtype, identity


def lowest_cells(
    x: jax.Array, present: jax.Array | None, window: Window, count: int, most: int
) -> tuple[jax.Array, jax.Array]:
    """The lowest cells of every window, ascending along a last axis, and their offsets, of a dtype that holds `most`.

    Absent cells are behind all others, and their offset is the `most`.
    """
    cells, absent, offsets = _sorted_windows(x, present, window)
    offsets = offsets if absent is None else jnp.where(absent, most, offsets)
    return cells[..., :count], offsets[..., :count].astype(np.min_scalar_type(most))


def cells_at_ranks(
    x: jax.Array, present: jax.Array | None, window: Window, ranks: Sequence[Any]
) -> tuple[Arrays, Arrays]:
    """The cells of these ranks in every window, each one rank for all or one for each, and their offsets.

    If a window holds NaN, all of them are its first NaN.
    """
    cells, _, offsets = _sorted_windows(x, present, window)
    if jnp.issubdtype(x.dtype, jnp.inexact):
        # The first of several, as they are equal to a sort.
        first = jnp.argmax(jnp.isnan(cells), axis=-1, keepdims=True)
        has_nan = jnp.isnan(cells[..., -1:])
        cells = jnp.where(has_nan, jnp.nan, cells)
        offsets = jnp.where(has_nan, jnp.take_along_axis(offsets, first, -1), offsets)
    return _entries(cells, ranks), _entries(offsets.astype(np.min_scalar_type(window.cells - 1)), ranks)


def _sorted_windows(
    x: jax.Array, present: jax.Array | None, window: Window
) -> tuple[jax.Array, jax.Array | None, jax.Array]:
    """The cells of every window along a last axis in ascending order, which of them are absent, and their offsets.

    Equal cells are in the order of their offsets, absent ones after those of the largest value, and NaN last.
    """
    filled = [(x, identity(lax.min, x.dtype))]
    if present is not None:
        filled.append((jnp.broadcast_to(~present, x.shape), True))
    padded, window = pad_in_tiles(filled, window)
    cells = [_cells_last(array, window) for array in padded]
    numbers = np.array(window.numbers, np.int32) if window.has_footprint else lax.iota(np.int32, window.cells)
    offsets = jnp.broadcast_to(numbers, cells[0].shape)
    first, *absent, offsets = lax.sort((*cells, offsets), num_keys=len(cells), is_stable=True)
    return first, absent[0] if absent else None, offsets


def _cells_last(padded: jax.Array, window: Window) -> jax.Array:
    """The cells of every window along a new last axis, from the result of `pad_windows`."""
    for axis in window.axes:
        row, offset = (lax.broadcasted_iota(np.int32, (axis.output, axis.kernel), along) for along in range(2))
        places = row * axis.stride + offset * axis.dilation
        padded = jnp.moveaxis(jnp.take(padded, places, axis.axis, mode="clip"), axis.axis + 1, -1)
    cells = lax.collapse(padded, padded.ndim - len(window.axes))
    return cells[..., np.array(window.numbers)] if window.has_footprint else cells


def _entries(cells: jax.Array, ranks: Sequence[Any]) -> Arrays:
    """The entries at these places of the last axis."""

    def entry(rank: Any) -> jax.Array:
        if isinstance(rank, int):
            return cells[..., rank]
        places = jnp.broadcast_to(jnp.asarray(rank), cells.shape[:-1])[..., None]
        return jnp.take_along_axis(cells, places, -1, mode="clip")[..., 0]

    return tuple(map(entry, ranks))


def read_along_last(x: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """The cells at several offsets of every window, which are along a last axis; 0 at the offset of no cell."""

    def read(x: jax.Array, offsets: jax.Array) -> jax.Array:
        (padded,), windows = pad_in_tiles([(x, 0)], window)
        places = offsets.astype(np.int32)
        if windows.has_footprint:
            table = np.full(windows.cells + 1, windows.held, np.int32)
            table[list(windows.numbers)] = np.arange(windows.held)
            places = jnp.asarray(table)[places]
        return jnp.take_along_axis(_cells_last(padded, windows), places, -1, mode="fill", fill_value=0)

    return on_every_platform(read, x, offsets, like=jax.ShapeDtypeStruct(offsets.shape, x.dtype))


def route_along_last(cotangents: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """Send cotangents to the cells at several offsets of every window, both along a last axis, one after the other."""
    ranks = cotangents.astype(accumulation_dtype(cotangents.dtype)), offsets

    def route(number: Any) -> jax.Array:
        cotangent, offset = (lax.dynamic_index_in_dim(each, number, -1, keepdims=False) for each in ranks)
        return route_to_chosen([cotangent], [offset], window)

    def add_rank(number: jax.Array, total: jax.Array) -> jax.Array:
        return total + route(number)

    return lax.fori_loop(1, offsets.shape[-1], add_rank, route(0))
