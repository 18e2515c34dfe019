"""Loops over the offsets in large windows, and cotangents of cells that every window chooses independently.

Small windows are unrolled. Larger ones are unrolled one block of cells at a time, and the program loops over the
blocks, so it compiles as fast as a single block.

The winner of a window is the winner of its row, and windows that share a row share that winner, so cotangents can be
routed along one axis after the other. Cells chosen at random or by rank are different: two windows may choose
different cells of the same row, so all axes are handled at once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import Arrays, Operation, identity, pad
from jaxpool._engine.slices import Winner, better, number_dtype, route_by_comparison
from jaxpool._engine.stages import many_kernels, materialize
from jaxpool._engine.window_offsets import at_offset, offsets_in, pad_windows
from jaxpool._geometry.footprint import FootprintWindow
from jaxpool._geometry.window import Window
from jaxpool._sharding import vary_with

# The most cells that are unrolled: of a window, and of a block of a larger one.
_MOST_CELLS, MOST_IN_BLOCK = 64, 32


def is_looped(window: Window) -> bool:
    """Whether the program loops over blocks of the window: if it has more than 64 cells."""
    return window.held > _MOST_CELLS


def fold_offsets(
    step: Callable[[Any, Arrays, Any], Any],
    start: Any,
    padded: Arrays,
    window: Window,
    most_in_block: int = MOST_IN_BLOCK,
) -> Any:
    """Fold `step(result, cells, number)` over all offsets, numbered in row-major order; `start` is the first result.

    `padded` are results of `pad_windows`, and `cells` has an entry for each.
    """
    # Traced once for all offsets.
    step = jax.jit(step, inline=True)
    if window.held <= max(_MOST_CELLS, most_in_block):
        result = start
        for number, offset in zip(window.numbers, offsets_in(window), strict=True):
            result = step(result, tuple(at_offset(array, window, offset) for array in padded), number)
        return result

    # Blocks are cut out of boxes, and the cells in them that a footprint leaves out change nothing.
    held = jnp.asarray(window.footprint.held.ravel()) if isinstance(window, FootprintWindow) else None
    # A block at a known place is copied before the loop: after `start`, or those of all loops would be kept in memory.
    padded = tuple(materialize(array, *jax.tree.leaves(start)) for array in padded)

    def fold_block(result: Any, first: Any, block: Window) -> Any:
        starts = _starts(first, window, padded[0].ndim)
        # Otherwise the CPU compiler would compute the place of the block again at every cell, without vectorizing.
        slices = [materialize(lax.dynamic_slice(array, starts, _block_shape(array.shape, block))) for array in padded]
        for number, offset in enumerate(offsets_in(block)):
            folded = step(result, tuple(at_offset(array, block, offset) for array in slices), first + number)
            result = folded if held is None else jax.tree.map(partial(jnp.where, held[first + number]), folded, result)
        return result

    start = jax.tree.map(lambda leaf: vary_with(leaf, *padded), start)
    return _fold_blocks(fold_block, start, window, most_in_block)


def select_in_loop(x: jax.Array, part: Window, op: Operation) -> Winner:
    """The extreme of every window and its row-major number, one block of cells after the other.

    For large footprints, which cannot be taken axis by axis.
    """
    fill, shape = identity(op, x.dtype), part.output_shape(x.shape)

    def take_better(best: Arrays, cells: Arrays, number: Any) -> Arrays:
        return better((best[0], best[1]), (cells[0], jnp.full_like(best[1], number)), op)

    start = jnp.full(shape, fill), jnp.full(shape, part.numbers[0], np.int32)
    values, offsets = fold_offsets(take_better, start, (pad_windows(x, part, fill),), part)
    return values, offsets.astype(number_dtype(None, part))


def zeros_after(shape: Sequence[int], dtype: Any, window: Window, *arrays: jax.Array) -> jax.Array:
    """Zeros to start from: if the program loops over the window, after the arrays, as they would fill memory before."""
    if not is_looped(window):
        return jnp.zeros(shape, dtype)
    return jnp.broadcast_to(materialize(jnp.zeros((), dtype), *arrays), shape)


def _fold_blocks(step: Callable[[Any, Any, Window], Any], start: Any, window: Window, most: int) -> Any:
    """Fold `step(result, first, block)` over all blocks in row-major order; `first` is the number of the first cell.

    One axis is cut into equal blocks and a remainder, of at most `most` cells. A block has one cell along the axes
    before it, and all cells along the axes after it.
    """
    kernels = [axis.kernel for axis in window.axes]
    cut = next(n for n in reversed(range(len(kernels))) if math.prod(kernels[n:]) > most)
    outer, inner = math.prod(kernels[:cut]), math.prod(kernels[cut + 1 :])
    steps = -(-kernels[cut] // max(1, most // inner))
    size = -(-kernels[cut] // steps)
    whole, left = divmod(kernels[cut], size)

    def block(cells: int) -> Window:
        sizes = [1] * cut + [cells] + kernels[cut + 1 :]
        return Window(tuple(replace(axis, kernel=each) for axis, each in zip(window.axes, sizes, strict=True)))

    def along_cut(number: Any, result: Any) -> Any:
        first = number * (kernels[cut] * inner)

        def whole_block(index: Any, result: Any) -> Any:
            return step(result, first + many_kernels(index) * (size * inner), block(size))

        result = lax.fori_loop(0, whole, whole_block, result)
        return step(result, first + whole * size * inner, block(left)) if left else result

    return lax.fori_loop(0, outer, along_cut, start) if outer > 1 else along_cut(0, start)


def _block_shape(shape: Sequence[int], block: Window) -> list[int]:
    """The shape of the cells that the windows hold at the offsets of a block."""
    sizes = list(shape)
    for axis in block.axes:
        # An array that is constant along an axis may have size 1 there.
        sizes[axis.axis] = (axis.output - 1) * axis.stride + axis.extent
    return sizes


def _starts(number: Any, window: Window, rank: int) -> list[Any]:
    """Where a block starts along each axis, from the row-major number of its first cell in the window."""
    starts, place_value = [jnp.zeros((), np.int32)] * rank, window.cells
    for axis in window.axes:
        place_value //= axis.kernel
        starts[axis.axis] = jnp.asarray(number // place_value % axis.kernel * axis.dilation, np.int32)
    return starts


def route_to_chosen(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array], window: Window) -> jax.Array:
    """For each of the chosen cells, send each window's cotangent to the cell at its offset."""
    if not is_looped(window) or window.tiles:
        return route_by_comparison(cotangents, offsets, window, lax.add)
    shape = list(cotangents[0].shape)
    for axis in window.axes:
        shape[axis.axis] = axis.low + axis.size + axis.overhang
    zero = np.zeros((), cotangents[0].dtype)[()]

    def route_to_block(total: jax.Array, first: Any, block: Window) -> jax.Array:
        sizes = _block_shape(total.shape, block)
        alone = Window(tuple(replace(axis, size=sizes[axis.axis], low=0, high=0) for axis in block.axes))
        # An offset in another block is the number of no cell in this one.
        within = [each - lax.convert_element_type(first, each.dtype) for each in offsets]
        sums = route_by_comparison(cotangents, within, alone, lax.add)
        starts = _starts(first, window, total.ndim)
        return lax.dynamic_update_slice(total, lax.dynamic_slice(total, starts, sums.shape) + sums, starts)

    total = vary_with(zeros_after(shape, zero.dtype, window, *offsets), *cotangents, *offsets)
    total = _fold_blocks(route_to_block, total, window, MOST_IN_BLOCK)
    return pad(total, {axis.axis: (-axis.low, -axis.overhang) for axis in window.axes}, 0)
