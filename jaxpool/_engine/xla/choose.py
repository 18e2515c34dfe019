"""Which lowering evaluates which window on GPUs and TPUs, where loops are bound by memory bandwidth.

A loop's repeated reads come from a cache, about nine times as fast as memory: up to about fifty reads per result cost
less than writing and reading one more array. All numbers here follow from that, none from a measurement.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from jaxpool._geometry.bins import has_bins
from jaxpool._geometry.window import Window

# The most reads per result in one loop: windows of 7×7 cells.
_MOST_READS = 49
# The most terms per result that are unrolled, or that are powers or exponentials.
_MOST_TERMS = 16
# The most cells that bisection counts in one loop.
MOST_COUNTED_AT_ONCE = 32


def order(window: Window) -> tuple[Window, ...]:
    """The windows that a reduction or a selection applies one after the other, the last axes first."""
    at_once = window.cells <= _MOST_READS or reduces_whole_axes(window)
    return (window,) if at_once else window.split()


def reduces_whole_axes(window: Window) -> bool:
    """Whether windows are reduced as whole axes: large windows that share no cells."""
    return window.tiles and window.cells > _MOST_READS and not has_bins(window)


def asks_mask_at_cells(windows: Sequence[Window]) -> bool:
    """Whether a selection reads the mask at every cell of a window, instead of filling masked cells beforehand."""
    return len(windows) == 1 and windows[0].cells <= _MOST_READS


def is_written_out(part: Window) -> bool:
    """Whether unrolled slices reduce windows, instead of `lax.reduce_window`: it computes four results at once."""
    return part.cells <= _MOST_TERMS


def is_in_pieces(part: Window) -> bool:
    """Whether windows are assembled from pieces: beyond 64 cells along an axis, so that work grows logarithmically."""
    return len(part.axes) == 1 and part.cells > 64 and not part.tiles


def overlaps(part: Window) -> int:
    """The most windows that hold any one cell."""
    return math.prod(-(-axis.extent // axis.stride) for axis in part.axes)


def gathers(part: Window) -> bool:
    """Whether the few windows that hold a cell are added one by one, instead of by `lax.reduce_window`."""
    return overlaps(part) <= _MOST_TERMS


def dilates_outputs(window: Window) -> bool:
    """Whether a TPU maps windows back to their cells by base dilation, with a term per cell of a window."""
    return window.cells <= _MOST_TERMS and not has_bins(window)


def terms_order(window: Window) -> tuple[Window, ...]:
    """The windows that a pool of weighted cells is taken over, one after the other, the last one first."""
    return (window,) if window.cells <= _MOST_TERMS else window.split()


def terms_in_pieces(part: Window) -> bool:
    """Whether a pool of weighted cells is taken over pieces of the window, one after the other."""
    return is_in_pieces(part) and not has_bins(part)


def correlation_order(window: Window) -> tuple[Window, ...]:
    """The windows that a weighted sum is taken over, one after the other, the last one first."""
    return (window,) if window.cells <= _MOST_READS else window.split()


def selects_by_network(window: Window) -> bool:
    """Whether one loop of minima and maxima finds the cells of given ranks, instead of bisecting their values."""
    return window.cells <= _MOST_READS


def keeps_cells(window: Window, dtype: Any) -> bool:
    """Whether a TPU keeps the cells of a selection instead of offsets, and routes cotangents by `select-and-scatter`.

    `select-and-scatter` has no dilation and handles all axes at once.
    """
    return (
        dtype in (jnp.float32, jnp.bfloat16)
        and window.cells <= _MOST_READS
        and not has_bins(window)
        and all(axis.dilation == 1 for axis in window.axes)
    )
