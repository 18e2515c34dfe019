"""The gather form of a map from windows to cells by base dilation, for TPUs: outputs are as far apart as windows.

With stride - 1 fills after each output, cell i is at offset j of the window at position i + low - j·dilation. The map
is then a sum over all offsets of slices, shifted by single cells. That is more terms than there are windows that hold
a cell, but every term has the shape of the cells. Fewer terms would need an axis broadcast next to another and merged
with it, which makes a TPU move the rows one by one: gradients of 3×3/2 norms took three times the cycles.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from jaxpool._engine.operations import Operation, private_copy
from jaxpool._engine.window_offsets import offsets_in
from jaxpool._geometry.bins import has_bins
from jaxpool._geometry.window import Window


def dilates_outputs(window: Window) -> bool:
    """Whether a TPU maps windows back to their cells by base dilation: with a term per cell of a window, up to 16."""
    return window.cells <= 16 and not has_bins(window)


def gather_by_base_dilation(
    contribution: Callable[..., jax.Array],
    outputs: Sequence[tuple[jax.Array, Any]],
    window: Window,
    inputs: Sequence[tuple[jax.Array, Any]],
    combine: Operation,
    table: Callable[[Any], Any] | None,
) -> jax.Array:
    """Compute `gather.gather_windows` for fixed windows; no contribution has to check which cells the windows hold."""
    cells = tuple(array for array, _ in inputs)
    dilated = [_dilate(array, fill, window) for array, fill in outputs]
    total = None
    for number, offset in enumerate(offsets_in(window)):
        windows = tuple(_holders(array, window, offset) for array in dilated)
        added = contribution(number if table is None else table(number), True, windows, cells)
        total = added if total is None else combine(total, added)
    assert total is not None, "a window has a cell"
    return total


def _dilate(array: jax.Array, fill: Any, window: Window) -> jax.Array:
    """Put fills between and around the outputs, for every cell and offset; axes of size 1 stay as they are."""
    config = [(0, 0, 0)] * array.ndim
    for axis in window.axes:
        if array.shape[axis.axis] == axis.output:
            before = axis.extent - 1 - axis.low
            after = axis.size + axis.low - (axis.output - 1) * axis.stride - 1
            # Along a sharded axis the compiler misplaces a single output that has interior padding.
            config[axis.axis] = before, after, axis.stride - 1 if axis.output > 1 else 0
    fill = np.array(fill, array.dtype)[()]
    return lax.pad(private_copy(array, fill), fill, config)


def _holders(dilated: jax.Array, window: Window, offset: Sequence[int]) -> jax.Array:
    """For every cell, the output of the window that holds it at this offset."""
    for axis, along in zip(window.axes, offset, strict=True):
        if dilated.shape[axis.axis] > 1:
            start = axis.extent - 1 - along * axis.dilation
            dilated = lax.slice_in_dim(dilated, start, start + axis.size, 1, axis.axis)
    return dilated
