"""Many ranks of every window at once, by sorting copies of its cells.

A selection for each rank makes a program as long as there are ranks: for 32 of 257 cells it takes 5 seconds to compile.
A sort is a single operation, but of copies of all cells of every window.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.bins_as_tiles import as_tiles, copy_to_tiles
from jaxpool._engine.operations import Arrays, identity
from jaxpool._engine.window_offsets import pad_windows
from jaxpool._geometry.window import Window

# The most ranks that are selected one by one, of windows that share no cells and of those that do.
_MOST_SELECTED, _MOST_SELECTED_OF_SHARED = 8, 16
# The most copies of shared cells for each result.
_MOST_COPIES = 32


def sorts_windows(window: Window, ranks: int) -> bool:
    """Whether so many ranks are found by sorting."""
    if window.tiles or window.has_bins:
        return ranks > _MOST_SELECTED
    return ranks > _MOST_SELECTED_OF_SHARED and window.held <= _MOST_COPIES * ranks


def first_in_order(
    keys: jax.Array, present: jax.Array | None, window: Window, ranks: int, most: int
) -> tuple[Arrays, Arrays]:
    """The lowest keys of every window in ascending order, and their offsets, of a dtype that holds `most`.

    Equal keys are in the order of their offsets. Absent cells are behind all others, and their offset is the `most`.
    """
    filled = [(keys, identity(lax.min, keys.dtype))]
    if present is not None:
        filled.append((jnp.broadcast_to(~present, keys.shape), True))
    if window.has_bins:
        filled = [(copy_to_tiles(array, window, fill), fill) for array, fill in filled]
        window = as_tiles(window)
    cells = [_cells_last(pad_windows(array, window, fill), window) for array, fill in filled]
    offsets = jnp.broadcast_to(np.array(window.numbers, np.int32), cells[0].shape)
    lowest, *absent, offsets = lax.sort((*cells, offsets), num_keys=len(cells), is_stable=True)
    offsets = (jnp.where(absent[0], most, offsets) if absent else offsets).astype(np.min_scalar_type(most))
    return tuple(lowest[..., rank] for rank in range(ranks)), tuple(offsets[..., rank] for rank in range(ranks))


def _cells_last(padded: jax.Array, window: Window) -> jax.Array:
    """The cells of every window along a new last axis, from the result of `pad_windows`."""
    for axis in window.axes:
        places = np.arange(axis.output)[:, None] * axis.stride + np.arange(axis.kernel) * axis.dilation
        padded = jnp.moveaxis(jnp.take(padded, places, axis.axis, mode="clip"), axis.axis + 1, -1)
    cells = lax.collapse(padded, padded.ndim - len(window.axes))
    return cells[..., np.array(window.numbers)] if window.has_footprint else cells
