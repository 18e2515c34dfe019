"""Winners and the routing of cotangents to them on the CPU, where the steps of a program have to be kept separate."""

from functools import partial
from typing import Any

import jax
import numpy as np

from jaxpool._engine.bins_as_tiles import as_tiles, copy_to_tiles
from jaxpool._engine.blocks import first_in_blocks
from jaxpool._engine.cpu import choose, choose_selection
from jaxpool._engine.cpu.bins import route_in_bins, select_in_bins
from jaxpool._engine.operations import Operation, barrier, identity
from jaxpool._engine.overlaps import route_by_comparison
from jaxpool._engine.pieces import route_in_pieces, select_in_pieces
from jaxpool._engine.slices import Inner, Winner, pad_winners, select_by_slices
from jaxpool._engine.stages import materialize, stage
from jaxpool._engine.winners import PlatformSelection
from jaxpool._geometry.window import Window


def _select(
    x: jax.Array, offsets: Inner, place_value: Any, part: Window, op: Operation, *, by_offset: bool = False
) -> Winner:
    bins = choose.gathered_bins(part)
    if bins is not None:
        return select_in_bins(x, offsets, place_value, bins, op, by_offset=by_offset)
    if as_tiles(part) != part:
        # Read more than once: for the extreme, and again for the cell that has it.
        x = materialize(copy_to_tiles(x, part, identity(op, x.dtype)))
        offsets, part = None if offsets is None else copy_to_tiles(offsets, part, 0), as_tiles(part)
    if choose_selection.selects_in_blocks(part):
        lowering = select_by_blocks
    elif choose.folds_pieces(part):
        lowering = partial(select_in_pieces, by_offset=by_offset)
    else:
        lowering = partial(select_by_slices, by_offset=by_offset)
    step = partial(lowering, place_value=place_value, part=part, op=op)
    if choose_selection.is_stage(part, x.shape):
        return stage(step, x, offsets)
    values, offsets = step(x, offsets)
    if choose_selection.materializes_offsets(part):
        return (materialize if part.tiles else barrier)(values), materialize(offsets)
    return barrier(values), offsets


def select_by_blocks(x: jax.Array, offsets: Inner, place_value: Any, part: Window, op: Operation) -> Winner:
    """Find the extreme, then the lowest offset of the cells that equal it; for windows that share no cells."""
    padded, padded_offsets = pad_winners(x, offsets, part, op)
    return first_in_blocks(padded, padded_offsets, place_value, part, op)


def _route(array: jax.Array, offsets: jax.Array, part: Window, op: Operation) -> jax.Array:
    bins = choose.gathered_bins(part)
    if bins is not None:
        return route_in_bins(array, offsets, bins, op)
    if choose_selection.routes_in_pieces(part):
        return route_in_pieces(array, offsets, part, op)
    if len(part.axes) == 1 and part.cells > 8 * part.axes[0].stride:
        # Padded before the winners are found, it would fill memory until then. Other windows take longer this way.
        array = materialize(array, offsets)
    if choose_selection.compares_floats(part, array):
        offsets = offsets.astype(np.float32)
    # The offsets and the values sent to them are separate stages: the map is linear only in the latter.
    step = partial(route_by_comparison, part=part, op=op)
    if choose_selection.is_stage(part, array.shape):
        return stage(step, [array], [offsets])
    return barrier(step([array], [offsets]))


SELECTION = PlatformSelection(choose_selection.selection_order, _select, _route)
