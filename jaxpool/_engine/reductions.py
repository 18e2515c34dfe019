"""Reductions of windows, sums of terms and sums with a weight for each offset among them, and the transposes of sums.

A reduction combines shifted slices, or is `lax.reduce_window`, the reference. The transpose of a sum adds, for every
cell, the windows that hold it, or is a windowed sum of the cotangents with zeros between them. A sum of terms is one of
elementwise functions of the cells at each offset, and of arrays of windows. A weighted sum is a correlation with a
separable kernel: the weight of a cell is a product of one number per axis. These are Python numbers, constant in the
traced program.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.bins_as_tiles import in_tiles
from jaxpool._engine.gather import Covered, gather_windows, where_covered
from jaxpool._engine.operations import Arrays, Operation, accumulation_dtype, identity
from jaxpool._engine.stages import materialize, private_copy
from jaxpool._engine.window_offsets import cells_at_offsets
from jaxpool._window import Window

# The weights along each axis of a window, by offset.
Weights = Sequence[Sequence[float]]
# The windows to apply one after the other, the last axes first.
Order = Callable[[Window], Sequence[Window]]


def reduce_by_slices(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine one shifted slice per cell of the window elementwise, which keeps NaN whatever the overlap."""
    return reduce(op, cells_at_offsets(x, window, identity(op, x.dtype)))


def reduce_by_reduce_window(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every cell of the window for every output.

    Not for maxima and minima of windows that do not overlap on a CPU, not even of a single window: the CPU's reduction
    may drop NaN.
    """
    if window.has_bins:
        x, window = in_tiles(x, window, identity(op, x.dtype))
    if any(axis.low > 0 or axis.overhang > 0 for axis in window.axes):
        x = private_copy(x, identity(op, x.dtype))
    return native_reduce_window(x, window, op)


def native_reduce_window(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Apply `lax.reduce_window`, which JAX can differentiate by its own rules if there is no dilation."""
    rank = x.ndim
    dimensions, strides, dilations, padding = [1] * rank, [1] * rank, [1] * rank, [(0, 0)] * rank
    for axis in window.axes:
        dimensions[axis.axis] = axis.kernel
        # Cells left over after a single window must not make another one.
        strides[axis.axis] = axis.stride if axis.output > 1 else axis.low + axis.size + axis.extent
        dilations[axis.axis] = axis.dilation
        padding[axis.axis] = (axis.low, max(axis.overhang, 0))
    found = lax.reduce_window(x, identity(op, x.dtype), op, dimensions, strides, padding, window_dilation=dilations)
    for axis in window.axes:
        # Padding that became real cells may have room for one more window than `ceil_mode` counts.
        if found.shape[axis.axis] != axis.output:
            found = lax.slice_in_dim(found, 0, axis.output, 1, axis.axis)
    return found


def spread_by_reduce_window(cotangent: jax.Array, window: Window) -> jax.Array:
    """The transpose of the windowed sum: a windowed sum over the cotangents with zeros between them.

    With stride - 1 zeros after each, window o is at position o·stride, and the windows that hold cell i are at the
    positions i + low - j·dilation, 0 ≤ j < kernel: these form a window for every cell.
    """
    rank = cotangent.ndim
    dimensions, spacing, dilations, padding = [1] * rank, [1] * rank, [1] * rank, [(0, 0)] * rank
    for axis in window.axes:
        dimensions[axis.axis], dilations[axis.axis] = axis.kernel, axis.dilation
        # Along a sharded axis the compiler fails for a single output with interior padding.
        spacing[axis.axis] = axis.stride if axis.output > 1 else 1
        before = axis.extent - 1 - axis.low
        length = (axis.output - 1) * axis.stride + 1
        padding[axis.axis] = before, axis.size + axis.extent - 1 - before - length
    zero = identity(lax.add, cotangent.dtype)
    if window.cells == 1:
        # XLA aborts on a window of one cell if negative padding leaves one cell of the array.
        return lax.pad(cotangent, zero, [(*ends, each - 1) for ends, each in zip(padding, spacing, strict=True)])
    return lax.reduce_window(
        cotangent,
        zero,
        lax.add,
        dimensions,
        [1] * rank,
        padding,
        base_dilation=spacing,
        window_dilation=dilations,
    )


def spread_by_windows(cotangent: jax.Array, part: Window, weights: np.ndarray | None = None) -> jax.Array:
    """For every cell, add the windows that hold it one by one, each times a weight for the number of the cell in it."""

    def contribution(numbers: Any, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
        sent = windows[0]
        if weights is not None:
            sent *= (jnp if isinstance(numbers, jax.Array) else np).take(weights, numbers, mode="clip")
        return where_covered(covered, sent, jnp.zeros_like(sent))

    return gather_windows(contribution, [(cotangent, 0)], part)


def correlate(x: jax.Array, window: Window, weights: Weights, order: Order) -> jax.Array:
    """Sum every window with a weight for each offset, 16-bit floats in float32; padded cells are 0."""
    for number, (part, of_cells) in enumerate(_parts(window, weights, order)):
        x = materialize(x) if number and _sums_in_stages(window) else x
        # Widened after it is sliced: a wider array would be in memory.
        dtype = accumulation_dtype(x.dtype)
        table = of_cells.astype(dtype)
        cells = (each.astype(dtype) for each in cells_at_offsets(x, part, 0))
        terms = [each * weight for each, weight in zip(cells, table, strict=True)]
        x = reduce(lax.add, terms)
    return x


def transpose_correlation(cotangent: jax.Array, window: Window, weights: Weights, order: Order) -> jax.Array:
    """The transpose of `correlate`."""
    for number, (part, of_cells) in enumerate(reversed([*_parts(window, weights, order)])):
        cotangent = materialize(cotangent) if number and _sums_in_stages(window) else cotangent
        cotangent = spread_by_windows(cotangent, part, of_cells.astype(cotangent.dtype))
    return cotangent


def _sums_in_stages(window: Window) -> bool:
    """Whether weighted sums along different axes are separate stages on a CPU.

    Otherwise all cells of a window are summed at once, which is up to twice as fast for up to 25 cells.
    """
    return window.cells > 25


def _parts(window: Window, weights: Weights, order: Order) -> Iterator[tuple[Window, np.ndarray]]:
    """The windows in order, each with the weights of its cells in row-major order."""
    along = {axis.axis: np.asarray(each) for axis, each in zip(window.axes, weights, strict=True)}
    for part in order(window):
        table = np.ones(1)
        for axis in part.axes:
            table = np.multiply.outer(table, along[axis.axis]).ravel()
        yield part, table
