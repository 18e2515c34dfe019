"""Winners and the routing of cotangents to them on GPUs and TPUs."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from jaxpool._engine import winners
from jaxpool._engine.bins_as_tiles import as_tiles, copy_to_tiles
from jaxpool._engine.blocks import join_blocks, split_blocks
from jaxpool._engine.operations import Arrays, Operation, identity
from jaxpool._engine.overlaps import route_by_comparison, route_in_pieces
from jaxpool._engine.pieces import select_in_pieces
from jaxpool._engine.slices import Inner, Winner, better, pad_winners, select_by_slices, select_present_by_slices
from jaxpool._engine.winners import Masked, PlatformSelection, Winners
from jaxpool._engine.xla import choose
from jaxpool._geometry.window import Window


def first_winners(
    x: jax.Array, masked: Masked | None, selection: PlatformSelection, groups: Sequence[Window], op: Operation
) -> Winners:
    """The extreme of every window by `op` and the offset of its cell; see `winners.first_winners`."""
    if masked is None or not choose.asks_mask_at_cells(groups):
        return winners.first_winners(x, masked, selection, groups, op)
    (window,) = groups
    x, mask = copy_to_tiles(x, window, identity(op, x.dtype)), copy_to_tiles(masked[0], window, False)
    values, offsets = select_present_by_slices(x, mask, winners.no_offset(window), as_tiles(window), op)
    return values, (offsets,)


def select(x: jax.Array, offsets: Inner, place_value: Any, part: Window, op: Operation) -> Winner:
    """The extreme of every window, and its offset times `place_value` plus the offset already recorded for its cell."""
    if choose.reduces_whole_axes(part):
        return select_by_axes(x, offsets, place_value, part, op)
    x = copy_to_tiles(x, part, identity(op, x.dtype))
    offsets, part = None if offsets is None else copy_to_tiles(offsets, part, 0), as_tiles(part)
    lowering = select_in_pieces if choose.is_in_pieces(part) else select_by_slices
    return lowering(x, offsets, place_value, part, op)


def select_by_axes(x: jax.Array, offsets: Inner, place_value: Any, part: Window, op: Operation) -> Winner:
    """Reduce whole axes of pairs of a cell and its offset, for windows that share no cells."""
    padded, inner = pad_winners(x, offsets, part, op)
    cells, axes = split_blocks(padded, part)
    # Zeros with the sharding of the cells, which vary over the same devices.
    numbers = (cells != cells).astype(np.int32) * np.int32(0)
    if inner is not None:
        numbers += split_blocks(inner, part)[0].astype(np.int32)
    step = int(place_value) * math.prod(cells.shape[axis] for axis in axes)
    for axis in axes:
        step //= cells.shape[axis]
        numbers = numbers + lax.broadcasted_iota(np.int32, cells.shape, axis) * np.int32(step)

    def first(one: Arrays, other: Arrays) -> Winner:
        # Whatever the order of the pairs, the one with the lower offset counts as the first.
        swapped = one[1] > other[1]
        early = lax.select(swapped, other[0], one[0]), lax.min(one[1], other[1])
        late = lax.select(swapped, one[0], other[0]), lax.max(one[1], other[1])
        return better(early, late, op)

    start = (identity(op, x.dtype), np.int32(np.iinfo(np.int32).max))
    values, found = lax.reduce((cells, numbers), start, first, axes)
    return (
        join_blocks(lax.expand_dims(values, axes), axes, part),
        join_blocks(lax.expand_dims(found, axes), axes, part).astype(place_value.dtype),
    )


def _route(array: jax.Array, offsets: jax.Array, part: Window, op: Operation) -> jax.Array:
    if choose.is_in_pieces(part):
        return route_in_pieces(array, offsets, part, op)
    return route_by_comparison(array, offsets, part, op)


SELECTION = PlatformSelection(lambda window, _: choose.order(window), select, _route)
