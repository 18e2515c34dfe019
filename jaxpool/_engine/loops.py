"""Loops over the offsets in large windows, and the way back for cells that every window chooses for itself.

Small windows are written out. Larger ones are written out one block of their cells at a time, and the program loops
over the blocks: it compiles in the time of one.

Where the winner of a window is the winner of its row, and windows that share a row share that winner, one axis after
the other leads back to it. Cells chosen at random or by a rank are no such winners: two windows may choose different
cells of the same row, and all axes go at once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.gather import Covered, gather_windows
from jaxpool._engine.operations import Arrays, pad
from jaxpool._engine.stages import materialize
from jaxpool._engine.window_offsets import at_offset, offsets_in
from jaxpool._geometry.window import Window
from jaxpool._sharding import vary_together

# Cells of a window, and of a block of a larger one, that are written out.
_MOST_CELLS, _MOST_IN_BLOCK = 64, 32


def is_looped(window: Window) -> bool:
    """Whether the blocks of a window are a loop in the program: beyond 64 cells."""
    return window.cells > _MOST_CELLS


def fold_offsets(step: Callable[[Any, Arrays, Any], Any], start: Any, padded: Arrays, window: Window) -> Any:
    """`step(result, cells, number)` for the cells at every offset, numbered in row-major order, from `start` on.

    `padded` are arrays that `pad_windows` made, and `cells` has an entry for each.
    """
    if not is_looped(window):
        result = start
        for number, offset in enumerate(offsets_in(window)):
            result = step(result, tuple(at_offset(array, window, offset) for array in padded), number)
        return result

    def of_block(result: Any, first: Any, block: Window) -> Any:
        starts = _starts(first, window, padded[0].ndim)
        # Else the CPU's compiler would look for the block's place anew at every cell, without vectors.
        slices = [materialize(lax.dynamic_slice(array, starts, _block_shape(array.shape, block))) for array in padded]
        for number, offset in enumerate(offsets_in(block)):
            result = step(result, tuple(at_offset(array, block, offset) for array in slices), first + number)
        return result

    return _fold_blocks(of_block, jax.tree.map(lambda leaf: vary_together(leaf, *padded)[0], start), window)


def _fold_blocks(step: Callable[[Any, Any, Window], Any], start: Any, window: Window) -> Any:
    """`step(result, first, block)` for every block in row-major order, by the number of its first cell and its sizes.

    One axis is cut into equal blocks and what is left over. A block has one cell along those before it, and all cells
    along those behind it.
    """
    kernels = [axis.kernel for axis in window.axes]
    cut = next(n for n in reversed(range(len(kernels))) if math.prod(kernels[n:]) > _MOST_IN_BLOCK)
    outer, inner = math.prod(kernels[:cut]), math.prod(kernels[cut + 1 :])
    steps = -(-kernels[cut] // max(1, _MOST_IN_BLOCK // inner))
    size = -(-kernels[cut] // steps)
    whole, left = divmod(kernels[cut], size)

    def block(cells: int) -> Window:
        sizes = [1] * cut + [cells] + kernels[cut + 1 :]
        return Window(tuple(replace(axis, kernel=each) for axis, each in zip(window.axes, sizes, strict=True)))

    def along_cut(number: Any, result: Any) -> Any:
        first = number * (kernels[cut] * inner)

        def one(index: Any, result: Any) -> Any:
            return step(result, first + index * (size * inner), block(size))

        result = lax.fori_loop(0, whole, one, result)
        return step(result, first + whole * size * inner, block(left)) if left else result

    return lax.fori_loop(0, outer, along_cut, start) if outer > 1 else along_cut(0, start)


def _block_shape(shape: Sequence[int], block: Window) -> list[int]:
    """The shape of the cells that all the windows hold at the offsets of a block."""
    sizes = list(shape)
    for axis in block.axes:
        # An array that is the same along an axis may have size 1 there.
        sizes[axis.axis] = (axis.output - 1) * axis.stride + axis.extent
    return sizes


def _starts(number: Any, window: Window, rank: int) -> list[Any]:
    """Where the cells of a block start along each axis, by the row-major number of its first cell in the window."""
    starts, place_value = [jnp.zeros((), np.int32)] * rank, window.cells
    for axis in window.axes:
        place_value //= axis.kernel
        starts[axis.axis] = jnp.asarray(number // place_value % axis.kernel * axis.dilation, np.int32)
    return starts


def route_to_chosen(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array], window: Window) -> jax.Array:
    """Send, for each of the cells chosen, each window's cotangent to the cell at its offset."""
    if not is_looped(window) or window.tiles:
        return _route_at_once(cotangents, offsets, window)
    shape = list(cotangents[0].shape)
    for axis in window.axes:
        shape[axis.axis] = axis.low + axis.size + axis.overhang
    zero = np.zeros((), cotangents[0].dtype)[()]

    def of_block(total: jax.Array, first: Any, block: Window) -> jax.Array:
        sizes = _block_shape(total.shape, block)
        here_alone = Window(tuple(replace(axis, size=sizes[axis.axis], low=0, high=0) for axis in block.axes))
        within = [each - lax.convert_element_type(first, each.dtype) for each in offsets]
        here = [each < np.array(block.cells, each.dtype) for each in within]
        sent = [jnp.where(chosen, each, zero) for chosen, each in zip(here, cotangents, strict=True)]
        sums = _route_at_once(sent, within, here_alone)
        starts = _starts(first, window, total.ndim)
        return lax.dynamic_update_slice(total, lax.dynamic_slice(total, starts, sums.shape) + sums, starts)

    total, *_ = vary_together(jnp.zeros(shape, zero.dtype), *cotangents, *offsets)
    total = _fold_blocks(of_block, total, window)
    return pad(total, {axis.axis: (-axis.low, -axis.overhang) for axis in window.axes}, 0)


def _route_at_once(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array], window: Window) -> jax.Array:
    """Compare the offsets of every window that holds a cell with that cell's number in it."""
    count = len(offsets)

    def contribution(numbers: jax.Array | int, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
        total = None
        for cotangent, offset in zip(windows[:count], windows[count:], strict=True):
            chosen = covered & (offset == lax.convert_element_type(numbers, offset.dtype))
            sent = jnp.where(chosen, cotangent, jnp.zeros_like(cotangent))
            total = sent if total is None else total + sent
        assert total is not None
        return total

    return gather_windows(contribution, [(array, 0) for array in (*cotangents, *offsets)], window)
