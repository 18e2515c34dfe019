"""The reference lowering of a reduction, `lax.reduce_window`, and of the transpose of a windowed sum."""

import jax
from jax import lax

from jaxpool._engine.bins_as_tiles import as_tiles, copy_to_tiles
from jaxpool._engine.operations import Operation, identity
from jaxpool._engine.stages import private_copy
from jaxpool._geometry.window import Window


def reduce_by_reduce_window(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every cell of the window for every output.

    Not for maxima and minima of windows that do not overlap on a CPU, not even of a single window: the CPU's reduction
    may drop NaN.
    """
    x, window = copy_to_tiles(x, window, identity(op, x.dtype)), as_tiles(window)
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
    return lax.reduce_window(x, identity(op, x.dtype), op, dimensions, strides, padding, window_dilation=dilations)


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
