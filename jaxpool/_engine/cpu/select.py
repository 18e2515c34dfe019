"""Winners and the routing of cotangents to them on the CPU, where the steps of a program have to be kept separate."""

from functools import partial

import jax
import numpy as np

from jaxpool._engine.bins_as_tiles import as_tiles, copy_to_tiles
from jaxpool._engine.blocks import first_in_blocks
from jaxpool._engine.cpu import choose, choose_selection
from jaxpool._engine.cpu.bins import route_in_bins, select_in_bins
from jaxpool._engine.operations import Operation, barrier, computed_once, identity
from jaxpool._engine.overlaps import route_by_comparison, route_in_pieces
from jaxpool._engine.pieces import select_in_pieces
from jaxpool._engine.slices import Numbers, Winner, pad_winners, select_by_slices
from jaxpool._engine.stages import materialize, stage
from jaxpool._engine.winners import PlatformSelection
from jaxpool._geometry.window import Window


def _select(x: jax.Array, numbers: Numbers, part: Window, op: Operation) -> Winner:
    bins = choose.gathered_bins(part)
    if bins is not None:
        return select_in_bins(x, numbers, bins, op)
    if as_tiles(part) != part:
        # Read more than once: for the extreme, and again for the cell that has it.
        x = computed_once(copy_to_tiles(x, part, identity(op, x.dtype)))
        numbers, part = None if numbers is None else copy_to_tiles(numbers, part, 0), as_tiles(part)
    if choose_selection.selects_in_blocks(part):
        lowering = select_by_blocks
    else:
        lowering = select_in_pieces if choose.folds_pieces(part) else select_by_slices
    step = partial(lowering, part=part, op=op)
    if choose_selection.is_stage(part, x.shape):
        return stage(step, x, numbers)
    values, offsets = step(x, numbers)
    if choose_selection.materializes_offsets(part):
        return (materialize if part.tiles else barrier)(values), materialize(offsets)
    return barrier(values), offsets


def select_by_blocks(x: jax.Array, numbers: Numbers, part: Window, op: Operation) -> Winner:
    """Find the extreme, then the lowest number of the cells that equal it; for windows that share no cells."""
    return first_in_blocks(*pad_winners(x, numbers, part, op), part, op)


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
        return stage(step, array, offsets)
    return barrier(step(array, offsets))


SELECTION = PlatformSelection(choose_selection.selection_order, _select, _route)
