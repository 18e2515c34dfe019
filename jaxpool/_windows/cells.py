"""The cells of windows, and of bins: at one offset of all windows, of windows side by side, of blocks of large windows.

An *offset* identifies a cell of a window: by an int for each pooled axis, or by its row-major number. The cells at one
offset of all windows are an array of the output's shape, a strided slice of the padded array. Whatever
`lax.reduce_window` cannot do is a loop over offsets, unrolled up to 64 of them; beyond, the program loops over blocks.

Bins of unequal sizes are copied side by side, each filled up to the size of the largest one: windows that tile the
axis. If the numbers of bins and of cells have a common divisor, the pattern repeats, and each period is copied
separately: a sharded axis then needs no cells from other shards if each shard holds whole periods.

Windows that share no cells are an axis of windows and an axis of cells, which `fold` combines, up to 15 slices at a
time. These are contiguous, and operations elementwise, so NaN is kept at any size, where the platform's own reduction
may drop it; the rounding error of a sum of n cells grows with log n.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._jax.platforms import known_platform, most_devices
from jaxpool._jax.stages import materialize
from jaxpool._kernels import FootprintWindow
from jaxpool._sharding import vary_with
from jaxpool._window import BinAxis, Window, WindowAxis
from jaxpool._windows.operations import (
    Arrays,
    Filled,
    Operation,
    combine,
    decode,
    identity,
    keys_of,
    merge_axis,
    pad,
    split_axis,
    values_of,
)

# The most cells of a window that are unrolled.
MOST_UNROLLED = 64


def is_looped(window: Window) -> bool:
    """Whether the program loops over blocks of the window, as `fold_offsets` does: if it has more than 64 cells."""
    return window.held > MOST_UNROLLED


def holds_all_cells(window: Window) -> bool:
    """Whether there is only one window, which holds all cells along the pooled axes and no padding."""
    whole = all(axis.output == 1 and axis.kernel == axis.size and not (axis.low or axis.high) for axis in window.axes)
    return whole and not window.has_footprint


def most_holders(window: Window) -> int:
    """The most windows that hold a cell."""
    return math.prod(-(-axis.extent // axis.stride) for axis in window.axes)


def offsets_in(window: Window) -> Iterator[tuple[int, ...]]:
    """Every offset in the window, in row-major order."""
    if isinstance(window, FootprintWindow):
        return map(tuple, np.argwhere(window.footprint.held).tolist())
    return itertools.product(*(range(axis.kernel) for axis in window.axes))


def pad_windows(x: jax.Array, window: Window, fill: Any) -> jax.Array:
    """Extend x by `fill`, and crop the cells that no window reaches; bins become tiles.

    Padding is in memory on a CPU: merged with the slices that read it, it would be a branch for each cell.
    """
    # On a TPU a crop is a pass over the array, and slices do not need it.
    crops = known_platform() != "tpu" or window.tiles
    above = {axis.axis: axis.overhang if crops else max(axis.overhang, 0) for axis in window.axes}
    x = copy_to_tiles(x, window, fill)
    padded = pad(x, {axis.axis: (axis.low, above[axis.axis]) for axis in window.axes}, fill)
    grown = any(max(axis.low, axis.overhang) > 0 for axis in window.axes)
    return materialize(padded) if grown else padded


def pad_in_tiles(filled: Filled, window: Window) -> tuple[Arrays, Window]:
    """Arrays, each with its fill, as `pad_windows` returns them, and the windows on them; bins become tiles."""
    return tuple(pad_windows(array, window, fill) for array, fill in filled), as_tiles(window)


def cells_at_offsets(x: jax.Array, window: Window, fill: Any) -> Iterator[jax.Array]:
    """The cells of all windows at every offset, in row-major order; padded and absent cells hold `fill`."""
    padded = pad_windows(x, window, fill)
    return (at_offset(padded, window, offset) for offset in offsets_in(window))


def slices_at_offsets(x: jax.Array, window: Window, fill: Any) -> Iterator[jax.Array]:
    """The same, without bins; each slice is of real cells and padded itself, so that no padded array is in memory."""
    for offset in offsets_in(window):
        starts, limits, strides, widths = [0] * x.ndim, list(x.shape), [1] * x.ndim, {}
        for axis, along in zip(window.axes, offset, strict=True):
            real, first = axis.cells_at(along), axis.first_from(-along * axis.dilation)
            start = min(real.start, real.stop)
            starts[axis.axis], limits[axis.axis], strides[axis.axis] = start, real.stop, axis.stride
            widths[axis.axis] = first, axis.output - first - len(range(start, real.stop, axis.stride))
        yield pad(lax.slice(x, starts, limits, strides), widths, fill)


def at_offset(padded: jax.Array, window: Window, offset: tuple[int, ...]) -> jax.Array:
    """The cells of all windows at an offset, from the result of `pad_windows`."""
    starts, limits, strides = [0] * padded.ndim, list(padded.shape), [1] * padded.ndim
    for axis, along in zip(window.axes, offset, strict=True):
        start = along * axis.dilation
        starts[axis.axis] = start
        limits[axis.axis] = start + (axis.output - 1) * axis.stride + 1
        # Along a sharded axis the compiler loses a single cell that is taken with a stride.
        strides[axis.axis] = axis.stride if axis.output > 1 else 1
    return lax.slice(padded, starts, limits, strides)


def present_cells(mask: jax.Array | None, window: Window, rank: int) -> jax.Array | None:
    """Which cells are present; None if windows hold no others."""
    if mask is not None or window.is_full:
        return mask
    sizes = {axis.axis: axis.size for axis in window.axes}
    return jnp.ones([sizes.get(axis, 1) for axis in range(rank)], bool)


def put_between(outputs: jax.Array, window: Window, fill: Any) -> jax.Array:
    """The outputs with fills between them, so that windows start at every cell, as `Window.holders` has them."""
    outputs = jnp.broadcast_to(outputs, window.output_shape(outputs.shape))
    return pad(outputs, {axis.axis: (0, 0, axis.stride - 1) for axis in window.axes}, fill)


def pad_real(x: jax.Array, window: Window, fill: Any) -> jax.Array:
    """Turn the declared padding into real cells that hold `fill`; `window.after_padding()` then applies."""
    return pad(x, {axis.axis: (axis.low, axis.high) for axis in window.axes}, fill)


def with_zeros_in_padding(
    x: jax.Array, mask: jax.Array | None, window: Window
) -> tuple[jax.Array, jax.Array | None, Window]:
    """The array and the mask with the declared padding as real zeros, unmasked, and the windows of the result."""
    return pad_real(x, window, 0), None if mask is None else pad_real(mask, window, True), window.after_padding()


def as_tiles(window: Window) -> Window:
    """The windows on the result of `copy_to_tiles`."""
    return replace(window, axes=tuple(axis.as_tiles() if isinstance(axis, BinAxis) else axis for axis in window.axes))


def copy_to_tiles(array: jax.Array, window: Window, fill: Any) -> jax.Array:
    """Give every bin a copy of its cells; smaller bins are filled up with `fill`."""
    for axis in window.axes:
        if isinstance(axis, BinAxis):
            period = axis.period()
            split = split_axis(materialize(array), axis.axis, period.size)
            # The oldest supported JAX misplaces entries when it folds a gather of constants (such as masks).
            copied = take(split, materialize(period.cells().ravel()), axis.axis + 1, fill, inside=False)
            array = merge_axis(copied, axis.axis)
    return array


def combine_copies(array: jax.Array, window: Window) -> jax.Array:
    """Add up the copies of every cell: the transpose of `copy_to_tiles`."""
    for axis in window.axes:
        if isinstance(axis, BinAxis):
            period, along = axis.period(), axis.axis + 1
            bins, held, places = period.holders()
            numbers = materialize(jnp.where(held, bins * period.kernel + places, period.output * period.kernel))
            split = split_axis(array, axis.axis, period.output * period.kernel)
            copied = take(split, numbers, along, 0, inside=False)
            array = merge_axis(lax.squeeze(fold(copied, (along,), lax.add), (along,)), axis.axis)
    return array


def take(array: jax.Array, positions: jax.Array | np.ndarray, axis: int, fill: Any, *, inside: bool) -> jax.Array:
    """Replace an axis by the entries at `positions`, in their shape, all `inside`; or those beyond it are `fill`."""
    added = positions.ndim - 1
    behind = tuple(n for n in range(array.ndim) if n != axis)
    before = tuple(n if n < axis else n + added for n in behind)
    starts = positions[..., None].astype(np.int32)
    if known_platform() == "gpu":
        # Single entries, in the order of the result. For whole slices the GPU compiler would put the positions first
        # and transpose the array in a separate kernel.
        numbers = lax.GatherDimensionNumbers((), (axis,), (axis,), behind, before)
        sizes = (1,) * array.ndim
        shape = (*array.shape[:axis], *positions.shape, *array.shape[axis + 1 :], 1)
        starts = lax.broadcast_in_dim(starts, shape, (*range(axis, axis + added + 1), len(shape) - 1))
    else:
        # Whole slices: entries along all other axes are copied together.
        numbers = lax.GatherDimensionNumbers(before, (axis,), (axis,))
        sizes = tuple(1 if n == axis else size for n, size in enumerate(array.shape))
    mode = "promise_in_bounds" if inside else "fill"
    return lax.gather(array, starts, numbers, sizes, mode=mode, fill_value=fill)


# A loop that reads an activation in more places has it computed in a pass of its own, or again for every slice: global
# averages then take 2 to 8 times as long.
MOST_COMBINED = 15


def fold(array: jax.Array, axes: Sequence[int], op: Operation) -> jax.Array:
    """Combine all cells along `axes`, which keep size 1: slices far apart in memory, at most `MOST_COMBINED` a step."""
    reads = 1
    for axis in axes:
        while (cells := array.shape[axis]) > 1:
            width = -(-cells // MOST_COMBINED)
            if axis == array.ndim - 1 and cells > 63:
                # Rows that fill vectors: at the end of others what the loop reads is computed cell by cell.
                width = -(-width // 8) * 8
            count = -(-cells // width)
            if reads * count > MOST_COMBINED:
                array, reads = materialize(array), 1
            array, reads = combine(op, _slices(array, axis, width, op)), reads * count
    return array


def _slices(array: jax.Array, axis: int, width: int, op: Operation) -> list[jax.Array]:
    """Cut the array into slices; a short last one starts earlier, and a sum sets the cells it repeats to 0."""
    cells = array.shape[axis]
    short = cells % width
    *slices, last = lax.split(array, [width] * (cells // width) + [short] * (short > 0), axis)
    if short:
        last = lax.slice_in_dim(array, cells - width, cells, 1, axis)
        if op is lax.add:
            shape = [width if number == axis else 1 for number in range(array.ndim)]
            repeated = lax.broadcasted_iota(np.int32, shape, axis) < width - short
            last = jnp.where(repeated, jnp.zeros_like(last), last)
    return [*slices, last]


def split_blocks(array: jax.Array, window: Window) -> tuple[jax.Array, tuple[int, ...]]:
    """Split every pooled axis into windows and cells; the axes of cells are returned, adjacent unshared ones merged."""
    axes: list[int] = []
    added = 0
    for before, axis in zip((None, *window.axes), window.axes, strict=False):
        number = axis.axis + added
        if axis.output > 1:
            array = split_axis(array, number, axis.kernel)
            axes.append(number + 1)
            added += 1
        elif before is not None and before.axis == axis.axis - 1 and most_devices() == 1:
            array = merge_axis(array, number - 1)
            added -= 1
        else:
            axes.append(number)
    return array, tuple(axes)


def join_blocks(array: jax.Array, axes: Sequence[int], window: Window) -> jax.Array:
    """Drop the axes of cells, which have size 1, and keep those of windows, even of a single window."""
    return lax.expand_dims(lax.squeeze(array, axes), [axis.axis for axis in window.axes if axis.output == 1])


def reduce_axes(array: jax.Array, axes: Sequence[int], op: Operation) -> jax.Array:
    """Combine all cells along `axes`, which keep size 1, by the platform's own reduction."""
    return lax.expand_dims(lax.reduce(array, identity(op, array.dtype), op, axes), axes)


def fold_windows(
    cells: jax.Array, axes: Sequence[int], window: Window, op: Operation, alone: Callable[..., jax.Array] = fold
) -> jax.Array:
    """The same by `alone`; or in one exchange, if devices may share a window, the only one along an axis.

    Devices may drop NaN: in maxima and minima of floats it wins as one of the integers in the same order.
    """
    if most_devices() == 1 or all(axis.output > 1 for axis in window.axes):
        return alone(cells, axes, op)
    if op is lax.add or not jnp.issubdtype(cells.dtype, jnp.floating):
        return reduce_axes(cells, axes, op)
    keys = keys_of(cells)
    limits = jnp.iinfo(keys.dtype)
    nan = np.array(limits.max if op is lax.max else limits.min, keys.dtype)[()]
    return values_of(reduce_axes(jnp.where(cells != cells, nan, keys), axes, op), cells.dtype)


# The most cells of a block of a large window, which are unrolled.
MOST_IN_BLOCK = 32


def fold_offsets(
    step: Callable[..., Any], start: Any, padded: Arrays, window: Window, most_in_block: int = MOST_IN_BLOCK
) -> Any:
    """Fold `step(result, cells, number)` over all offsets from `start`; `padded` are results of `pad_windows`."""
    if is_looped(window) and window.tiles and window.outputs > 1:
        # With cells first, a block is contiguous, without all the cells between those of a block in an array.
        row = Window((WindowAxis(0, window.cells, window.cells, window.cells, 1, 0, 0, 1),))
        axes = range(len(window.axes))
        by_axes = (jnp.moveaxis(cells_first(array, window), axes, axes[::-1]) for array in padded)
        first = tuple(lax.collapse(array, 0, len(axes)) for array in by_axes)

        def step_in_row(result: Any, cells: Arrays, number: Any) -> Any:
            return step(result, tuple(each[0] for each in cells), number)

        return fold_offsets(step_in_row, start, first, row, most_in_block)
    # Traced once for all offsets.
    step = jax.jit(step, inline=True)
    if not is_looped(window) or window.held <= most_in_block:
        result = start
        for number, offset in zip(window.numbers, offsets_in(window), strict=True):
            result = step(result, tuple(at_offset(array, window, offset) for array in padded), number)
        return result

    # One axis is cut into equal blocks and a remainder. A block has one cell along the axes before it, and all cells
    # along those after it. Blocks are cut out of boxes: the cells that a footprint leaves out change nothing.
    kernels = [axis.kernel for axis in window.axes]
    cut = next(n for n in reversed(range(len(kernels))) if math.prod(kernels[n:]) > most_in_block)
    outer, inner = math.prod(kernels[:cut]), math.prod(kernels[cut + 1 :])
    blocks = -(-kernels[cut] // max(1, most_in_block // inner))
    size = -(-kernels[cut] // blocks)
    held = jnp.asarray(window.footprint.held.ravel()) if isinstance(window, FootprintWindow) else None
    # A block at a known place is copied before the loop: after `start`, or those of all loops would be kept in memory.
    padded = tuple(materialize(array, *jax.tree.leaves(start)) for array in padded)

    def fold_block(result: Any, first: Any, cells: int) -> Any:
        block = _block(window, [*[1] * cut, cells, *kernels[cut + 1 :]])
        # Otherwise the CPU compiler would compute the place of the block again at every cell, without vectorizing.
        arrays = [materialize(_cells_of_block(array, window, block, first)) for array in padded]
        for number, offset in enumerate(offsets_in(block)):
            folded = step(result, tuple(at_offset(array, block, offset) for array in arrays), first + number)
            result = folded if held is None else jax.tree.map(partial(jnp.where, held[first + number]), folded, result)
        return result

    def along_cut(number: Any, result: Any) -> Any:
        first, (whole, left) = number * (kernels[cut] * inner), divmod(kernels[cut], size)
        result = lax.fori_loop(0, whole, lambda n, result: fold_block(result, first + n * (size * inner), size), result)
        return fold_block(result, first + whole * size * inner, left) if left else result

    return lax.fori_loop(0, outer, along_cut, jax.tree.map(lambda leaf: vary_with(leaf, *padded), start))


def cells_first(array: jax.Array, window: Window) -> jax.Array:
    """The cells of windows that tile an array, along leading axes, the last one first: sums are 3 times as fast."""
    for moved, axis in enumerate(window.axes):
        array = jnp.moveaxis(split_axis(array, axis.axis + moved, axis.kernel), axis.axis + moved + 1, 0)
    return array


def _block(window: Window, kernels: Sequence[int]) -> Window:
    """The block of so many cells along each axis of all windows, as windows on its slice of an array."""
    axes = []
    for axis, kernel in zip(window.axes, kernels, strict=True):
        block = replace(axis, kernel=kernel, low=0, high=0)
        axes.append(replace(block, size=(axis.output - 1) * axis.stride + block.extent))
    return Window(tuple(axes))


def _cells_of_block(array: jax.Array, window: Window, block: Window, first: Any) -> jax.Array:
    """The slice of an array that holds a block; `first` is the number of the first cell of the block."""
    starts, sizes = list[Any]([np.int32(0)]) * array.ndim, [*array.shape]
    places = decode(jnp.asarray(first, np.int32), [axis.kernel for axis in window.axes[1:]])
    for axis, place in zip(block.axes, places, strict=True):
        starts[axis.axis], sizes[axis.axis] = place * axis.dilation, axis.size
    return lax.dynamic_slice(array, starts, sizes)


def zeros_after(shape: Sequence[int], dtype: Any, window: Window, *arrays: jax.Array) -> jax.Array:
    """Zeros to start from: if the program loops over the window, after the arrays, as they would fill memory before."""
    if not is_looped(window):
        return jnp.zeros(shape, dtype)
    return jnp.broadcast_to(materialize(jnp.zeros((), dtype), *arrays), shape)
