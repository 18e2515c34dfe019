"""Reading the winners: for every window, the cell at its recorded offset.

This is the tangent map of every pool that selects. Like its transpose, it compares the offsets with the numbers of the
cells, so it is one loop over slices, and data along sharded axes stays in place.
"""

from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.bins_as_tiles import as_tiles, copy_to_tiles
from jaxpool._engine.blocks import join_blocks, split_blocks
from jaxpool._engine.by_parts import read_by_parts
from jaxpool._engine.row_major import decode, numbers_of
from jaxpool._engine.window_offsets import cells_at_offsets, pad_windows
from jaxpool._geometry.window import Window

# With more cells, reading at a position that is data is faster than a comparison for each cell.
_MOST_COMPARISONS = 64


def read_winners(x: jax.Array, offsets: Sequence[jax.Array], windows: Sequence[Window]) -> jax.Array:
    """Read the cell at each winner's offsets, in one window after the other, as recorded."""
    for window, own in zip(windows, offsets, strict=True):
        x = read_by_parts(_read_at_offsets, window, x, own)
    return x


def _read_at_offsets(x: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """Read the cell of every window at its row-major offset; 0 at the offset that no cell has."""
    x, window = copy_to_tiles(x, window, 0), as_tiles(window)
    if window.cells <= _MOST_COMPARISONS:
        return _read_by_comparison(x, offsets, window)
    return (_read_in_blocks if window.tiles else _read_at_positions)(pad_windows(x, window, 0), offsets, window)


def _read_by_comparison(x: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    result = jnp.zeros(offsets.shape, x.dtype)
    for number, cells in enumerate(cells_at_offsets(x, window, 0)):
        result = jnp.where(offsets == np.array(number, offsets.dtype)[()], cells, result)
    return result


def _read_in_blocks(padded: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """Sum the cells of every window, with all but one set to 0; for windows that share no cells."""
    cells, axes = split_blocks(padded, window)
    one_cell_each = (replace(axis, size=axis.output, kernel=1, stride=1, low=0, high=0) for axis in window.axes)
    wanted, _ = split_blocks(offsets, Window(tuple(one_cell_each)))
    is_wanted = numbers_of(cells.shape, axes, np.int32) == wanted.astype(np.int32)
    read = jnp.where(is_wanted, cells, jnp.zeros_like(cells))
    total = lax.reduce(read, np.zeros((), read.dtype)[()], lax.add, axes)
    return join_blocks(lax.expand_dims(total, axes), axes, window)


def _read_at_positions(padded: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    positions: list[jax.Array] = [lax.broadcasted_iota(np.int32, offsets.shape, axis) for axis in range(padded.ndim)]
    along = decode(offsets.astype(np.int32), [axis.kernel for axis in window.axes[1:]])
    for axis, offset in zip(window.axes, along, strict=True):
        positions[axis.axis] = positions[axis.axis] * axis.stride + offset * axis.dilation
    cells = padded.at[tuple(positions)].get(mode="clip")
    return jnp.where(offsets.astype(np.int32) < window.cells, cells, jnp.zeros_like(cells))
