"""Winners and the routing of cotangents to them on GPUs and TPUs."""

from collections.abc import Sequence

import jax
import numpy as np
from jax import lax

from jaxpool._engine import winners
from jaxpool._engine.bins_as_tiles import as_tiles, copy_to_tiles
from jaxpool._engine.blocks import join_blocks, split_blocks
from jaxpool._engine.operations import Arrays, Operation, identity
from jaxpool._engine.overlaps import route_by_comparison, route_in_pieces
from jaxpool._engine.pieces import select_in_pieces
from jaxpool._engine.row_major import numbers_of
from jaxpool._engine.shards import by_shards
from jaxpool._engine.slices import (
    Numbers,
    Winner,
    better,
    number_dtype,
    pad_winners,
    select_by_slices,
    select_present_by_slices,
)
from jaxpool._engine.winners import Masked, PlatformSelection, Winners
from jaxpool._engine.xla import choose
from jaxpool._geometry.window import Window


def first_winners(
    x: jax.Array, masked: Masked | None, selection: PlatformSelection, windows: Sequence[Window], op: Operation
) -> Winners:
    """The extreme of every window by `op` and the offset of its cell; see `winners.first_winners`."""
    if masked is None or not choose.asks_mask_at_cells(windows):
        return winners.first_winners(x, masked, selection, windows, op)
    (window,) = windows

    def here(x: jax.Array, mask: jax.Array, window: Window) -> Winner:
        x, mask = copy_to_tiles(x, window, identity(op, x.dtype)), copy_to_tiles(mask, window, False)
        return select_present_by_slices(x, mask, winners.no_offset(window), as_tiles(window), op)

    values, offsets = by_shards(here, window, [(x, identity(op, x.dtype)), (masked[0], False)])
    return values, (offsets,)


def select(x: jax.Array, numbers: Numbers, part: Window, op: Operation) -> Winner:
    """The extreme of every window, and its offset, added to the entry of the cell in `numbers`."""
    if choose.reduces_whole_axes(part):
        return select_by_axes(x, numbers, part, op)
    x = copy_to_tiles(x, part, identity(op, x.dtype))
    numbers, part = None if numbers is None else copy_to_tiles(numbers, part, 0), as_tiles(part)
    lowering = select_in_pieces if choose.is_in_pieces(part) else select_by_slices
    return lowering(x, numbers, part, op)


def select_by_axes(x: jax.Array, numbers: Numbers, part: Window, op: Operation) -> Winner:
    """Reduce whole axes of pairs of a cell and its number, for windows that share no cells."""
    padded, added = pad_winners(x, numbers, part, op)
    cells, axes = split_blocks(padded, part)
    # Zeros with the sharding of the cells, which vary over the same devices.
    found = (cells != cells).astype(np.int32) * np.int32(0) + numbers_of(cells.shape, axes, np.int32)
    if added is not None:
        found += split_blocks(added, part)[0].astype(np.int32)

    def first(one: Arrays, other: Arrays) -> Winner:
        # Whatever the order of the pairs, the one with the lower number counts as the first.
        swapped = one[1] > other[1]
        early = lax.select(swapped, other[0], one[0]), lax.min(one[1], other[1])
        late = lax.select(swapped, one[0], other[0]), lax.max(one[1], other[1])
        return better(early, late, op)

    start = (identity(op, x.dtype), np.int32(np.iinfo(np.int32).max))
    values, found = (lax.expand_dims(each, axes) for each in lax.reduce((cells, found), start, first, axes))
    return join_blocks(values, axes, part), join_blocks(found, axes, part).astype(number_dtype(numbers, part))


def _route(array: jax.Array, offsets: jax.Array, part: Window, op: Operation) -> jax.Array:
    if choose.is_in_pieces(part):
        return route_in_pieces(array, offsets, part, op)
    return route_by_comparison(array, offsets, part, op)


SELECTION = PlatformSelection(lambda window, _: choose.order(window), select, _route)
