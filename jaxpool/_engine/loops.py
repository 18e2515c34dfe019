"""Loops over the offsets in large windows, and cotangents of cells that every window chooses independently.

Small windows are unrolled. Larger ones are unrolled one block of cells at a time, and the program loops over the
blocks, so it compiles as fast as a single block.

The winner of a window is the winner of its row, and windows that share a row share that winner, so cotangents can be
routed along one axis after the other. Cells chosen at random or by rank are different: two windows may choose
different cells of the same row, so all axes are handled at once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import Arrays, Operation, accumulation_dtype, identity, merge_axis, pad, split_axis
from jaxpool._engine.slices import Winner, better, number_dtype, route_by_comparison, select_by_slices
from jaxpool._engine.stages import materialize
from jaxpool._engine.window_offsets import at_offset, is_looped, offsets_in, pad_windows
from jaxpool._kernels import FootprintWindow
from jaxpool._sharding import vary_with
from jaxpool._window import Window, WindowAxis

# The most cells of a block of a large window, which are unrolled.
MOST_IN_BLOCK = 32


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
    if not is_looped(window) or window.held <= most_in_block:
        result = start
        for number, offset in zip(window.numbers, offsets_in(window), strict=True):
            result = step(result, tuple(at_offset(array, window, offset) for array in padded), number)
        return result

    # Blocks are cut out of boxes, and the cells in them that a footprint leaves out change nothing.
    held = jnp.asarray(window.footprint.held.ravel()) if isinstance(window, FootprintWindow) else None
    blocks = _Blocks(window, most_in_block)
    # A block at a known place is copied before the loop: after `start`, or those of all loops would be kept in memory.
    split = [materialize(blocks.split(array), *jax.tree.leaves(start)) for array in padded]

    def fold_block(result: Any, first: Any, block: Window) -> Any:
        # Otherwise the CPU compiler would compute the place of the block again at every cell, without vectorizing.
        cells = [materialize(blocks.read(array, first, block)) for array in split]
        for number, offset in enumerate(offsets_in(block)):
            folded = step(result, tuple(at_offset(array, block, offset) for array in cells), first + number)
            result = folded if held is None else jax.tree.map(partial(jnp.where, held[first + number]), folded, result)
        return result

    start = jax.tree.map(lambda leaf: vary_with(leaf, *padded), start)
    return blocks.fold(fold_block, start)


def select_in_loop(x: jax.Array, part: Window, op: Operation) -> Winner:
    """The extreme of every window and its row-major number, one block of cells after the other.

    For large footprints, which cannot be taken axis by axis.
    """
    fill, shape = identity(op, x.dtype), part.output_shape(x.shape)

    def take_better(best: Arrays, cells: Arrays, number: Any) -> Arrays:
        return better((best[0], best[1]), (cells[0], jnp.full_like(best[1], number)), op)

    start = jnp.full(shape, fill), jnp.full(shape, part.numbers[0], np.int32)
    values, offsets = fold_offsets(take_better, start, (pad_windows(x, part, fill),), part)
    return values, offsets.astype(number_dtype(part))


def reduce_footprint(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine the cells of every window by `op`, one of `lax.max`, `lax.min` and `lax.add`, one after the other."""
    fill = identity(op, x.dtype)
    padded = pad_windows(x, window, fill)
    start = materialize(jnp.full(window.output_shape(x.shape), fill), padded)
    return fold_offsets(lambda total, cells, _: op(total, cells[0]), start, (padded,), window)


def spread_footprint(cotangent: jax.Array, window: Window) -> jax.Array:
    """Send each output's cotangent to every cell of its window."""
    between = pad(cotangent, {axis.axis: (0, 0, axis.stride - 1) for axis in window.axes}, 0)
    return reduce_footprint(between, window.holders(), lax.add)


def select_footprint(x: jax.Array, window: FootprintWindow, op: Operation) -> Winner:
    """The extreme of every window by `op`, and its row-major offset."""
    return select_in_loop(x, window, op) if is_looped(window) else select_by_slices(x, window, op)


def zeros_after(shape: Sequence[int], dtype: Any, window: Window, *arrays: jax.Array) -> jax.Array:
    """Zeros to start from: if the program loops over the window, after the arrays, as they would fill memory before."""
    if not is_looped(window):
        return jnp.zeros(shape, dtype)
    return jnp.broadcast_to(materialize(jnp.zeros((), dtype), *arrays), shape)


@dataclass(frozen=True)
class _Blocks:
    """A large window in blocks of at most `most` cells, and where they are in arrays.

    One axis is cut into equal blocks and a remainder. A block has one cell along the axes before it, and all cells
    along the axes after it.
    """

    window: Window
    most: int

    @property
    def _kernels(self) -> list[int]:
        return [axis.kernel for axis in self.window.axes]

    @cached_property
    def _cut(self) -> int:
        """The number of the axis that is cut."""
        kernels = self._kernels
        return next(n for n in reversed(range(len(kernels))) if math.prod(kernels[n:]) > self.most)

    @cached_property
    def _size(self) -> int:
        """The cells of a block along the axis that is cut: about as many in each, and within one stride if possible."""
        axis = self.window.axes[self._cut]
        steps = -(-axis.kernel // max(1, self.most // math.prod(self._kernels[self._cut + 1 :])))
        size = -(-axis.kernel // steps)
        within = max(cells for cells in range(1, size + 1) if _lies_in_stride(axis, cells))
        return within if 2 * within >= size else size

    def fold(self, step: Callable[[Any, Any, Window], Any], start: Any) -> Any:
        """Fold `step(result, first, block)` over all blocks in row-major order.

        `first` is the number of the first cell. The windows of a `block` are those on its slice of the array.
        """
        kernels, cut, size = self._kernels, self._cut, self._size
        outer, inner = math.prod(kernels[:cut]), math.prod(kernels[cut + 1 :])
        whole, left = divmod(kernels[cut], size)

        def along_cut(number: Any, result: Any) -> Any:
            first = number * (kernels[cut] * inner)

            def whole_block(index: Any, result: Any) -> Any:
                return step(result, first + index * (size * inner), self._block(size))

            result = lax.fori_loop(0, whole, whole_block, result)
            return step(result, first + whole * size * inner, self._block(left)) if left else result

        return lax.fori_loop(0, outer, along_cut, start) if outer > 1 else along_cut(0, start)

    def _block(self, cells: int) -> Window:
        cut = self._cut
        sizes = [1] * cut + [cells] + self._kernels[cut + 1 :]
        axes = []
        for number, (axis, kernel) in enumerate(zip(self.window.axes, sizes, strict=True)):
            block = replace(axis, kernel=kernel)
            stride = block.extent if self._is_split(number) else axis.stride
            size = (axis.output - 1) * stride + block.extent
            axes.append(replace(block, stride=stride, size=size, low=0, high=0))
        return Window(tuple(axes))

    def _is_split(self, number: int) -> bool:
        """Whether arrays are split along an axis: if the cells of a block lie in one stride there."""
        axis = self.window.axes[number]
        cells = 1 if number < self._cut else self._size if number == self._cut else axis.kernel
        return axis.output > 1 and axis.stride > 1 and _lies_in_stride(axis, cells)

    def split(self, array: jax.Array) -> jax.Array:
        """Split axes into strides and the cells of each: one slice is then the cells of a block, and none between them.

        The latter are nearly the whole array for a few windows that are large and far apart.
        """
        for number, axis in reversed([*enumerate(self.window.axes)]):
            if self._is_split(number):
                array = pad(array, {axis.axis: (0, -array.shape[axis.axis] % axis.stride)}, 0)
                array = split_axis(array, axis.axis, axis.stride)
        return array

    def join(self, array: jax.Array, shape: Sequence[int]) -> jax.Array:
        """Return an array of this shape from what `split` made of it."""
        for number, axis in enumerate(self.window.axes):
            if self._is_split(number):
                array = merge_axis(array, axis.axis)
                array = lax.slice_in_dim(array, 0, shape[axis.axis], 1, axis.axis)
        return array

    def read(self, array: jax.Array, first: Any, block: Window) -> jax.Array:
        """The cells of a block in a split array."""
        starts, sizes, shape = self._place(array, first, block)
        return lax.dynamic_slice(array, starts, sizes).reshape(shape)

    def add(self, array: jax.Array, first: Any, block: Window, terms: jax.Array) -> jax.Array:
        """Add to the cells of a block in a split array."""
        starts, sizes, _ = self._place(array, first, block)
        total = lax.dynamic_slice(array, starts, sizes) + terms.reshape(sizes)
        return lax.dynamic_update_slice(array, total, starts)

    def _place(self, array: jax.Array, first: Any, block: Window) -> tuple[list[Any], list[int], list[int]]:
        """Where the slice of a block starts in a split array, its sizes, and its shape without the split."""
        starts, sizes, shape = list[Any]([np.int32(0)]) * array.ndim, [*array.shape], [*array.shape]
        place_value, added = self.window.cells, 0
        for number, (axis, on_slice) in enumerate(zip(self.window.axes, block.axes, strict=True)):
            place_value //= axis.kernel
            start = jnp.asarray(first // place_value % axis.kernel * axis.dilation, np.int32)
            at = axis.axis + added
            if self._is_split(number):
                starts[at : at + 2] = start // axis.stride, start % axis.stride
                sizes[at : at + 2] = axis.output, on_slice.extent
                del shape[axis.axis]
                added += 1
            else:
                starts[at], sizes[at] = start, on_slice.size
            shape[axis.axis] = on_slice.size
        return starts, sizes, shape


def _lies_in_stride(axis: WindowAxis, cells: int) -> bool:
    """Whether each block of so many cells, counted from the first, lies in one stride."""
    return cells == 1 or axis.extent <= axis.stride or axis.stride % (cells * axis.dilation) == 0


def route_to_chosen(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array], window: Window) -> jax.Array:
    """For each of the chosen cells, send each window's cotangent to the cell at its offset; in the dtype of sums."""
    if not is_looped(window) or window.tiles:
        return route_by_comparison(cotangents, offsets, window)
    shape = list(cotangents[0].shape)
    for axis in window.axes:
        shape[axis.axis] = axis.low + axis.size + axis.overhang
    blocks = _Blocks(window, MOST_IN_BLOCK)

    def route_to_block(total: jax.Array, first: Any, block: Window) -> jax.Array:
        # An offset in another block is the number of no cell in this one.
        within = [each - lax.convert_element_type(first, each.dtype) for each in offsets]
        return blocks.add(total, first, block, route_by_comparison(cotangents, within, block))

    dtype = accumulation_dtype(cotangents[0].dtype)
    total = vary_with(zeros_after(shape, dtype, window, *offsets), *cotangents, *offsets)
    total = blocks.join(blocks.fold(route_to_block, blocks.split(total)), shape)
    return pad(total, {axis.axis: (-axis.low, -axis.overhang) for axis in window.axes}, 0)
