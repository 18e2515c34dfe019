"""Which lowering evaluates which window on GPUs and TPUs, where loops are bound by the memory that they move.

What a loop reads more than once comes from a cache, about nine times as fast as the memory: up to some fifty reads per
result cost less than writing and reading one more array. All numbers here come from that, none from a measurement.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from jaxpool._geometry.bins import BinAxis
from jaxpool._geometry.window import Window

# Reads per result in one loop: windows of 7×7 cells.
_MOST_READS = 49
# Terms per result that are written out, and that are powers or exponentials each.
_MOST_TERMS = 16


def order(window: Window) -> tuple[Window, ...]:
    """The windows that a reduction or a selection applies one after the other, the last axes first."""
    at_once = window.cells <= _MOST_READS or reduces_whole_axes(window)
    return (window,) if at_once else window.split()


def reduces_whole_axes(window: Window) -> bool:
    """Whether a reduction of whole axes takes the windows: large ones that share no cells."""
    return window.tiles and window.cells > _MOST_READS and not any(isinstance(axis, BinAxis) for axis in window.axes)


def asks_mask_at_cells(groups: Sequence[Window]) -> bool:
    """Whether a selection asks a mask at every cell of a window, in place of filling masked cells beforehand."""
    return len(groups) == 1 and groups[0].cells <= _MOST_READS


def is_written_out(part: Window) -> bool:
    """Whether a loop over slices reduces windows, in place of `lax.reduce_window`: it reads four results at a time."""
    return part.cells <= _MOST_TERMS


def is_in_pieces(part: Window) -> bool:
    """Whether windows come from pieces: beyond 64 cells along an axis, so that work grows with the logarithm."""
    return len(part.axes) == 1 and part.cells > 64 and not part.tiles


def overlaps(part: Window) -> int:
    """How many windows hold a cell at the most."""
    return math.prod(-(-axis.extent // axis.stride) for axis in part.axes)


def gathers(part: Window) -> bool:
    """Whether the few windows that hold a cell are added one by one, in place of `lax.reduce_window`."""
    return overlaps(part) <= _MOST_TERMS


def dilates_outputs(window: Window) -> bool:
    """Whether a TPU goes back to the cells of windows by base dilation: a term per cell."""
    return window.cells <= _MOST_TERMS and not any(isinstance(axis, BinAxis) for axis in window.axes)


def terms_order(window: Window) -> tuple[Window, ...]:
    """The windows that a pool of weighted cells is taken over, one after the other, the last one first."""
    return (window,) if window.cells <= _MOST_TERMS else window.split()


def correlation_order(window: Window) -> tuple[Window, ...]:
    """The windows that a sum of cells weighted by numbers is taken over, one after the other, the last one first."""
    return (window,) if window.cells <= _MOST_READS else window.split()


def selects_by_network(window: Window) -> bool:
    """Whether one loop of minima and maxima finds the cells of given ranks, instead of bisecting their values."""
    return window.cells <= _MOST_READS


def keeps_cells(window: Window, dtype: Any) -> bool:
    """Whether a TPU keeps the cells of a selection, in place of offsets, to send cotangents by `select-and-scatter`.

    That has no dilation, and takes all axes at once.
    """
    return (
        dtype in (jnp.float32, jnp.bfloat16)
        and window.cells <= _MOST_READS
        and all(axis.dilation == 1 and not isinstance(axis, BinAxis) for axis in window.axes)
    )


def reaches_next_alone(window: Window) -> bool:
    """Whether windows overlap the next ones and no others."""
    return all(axis.extent < 2 * axis.stride for axis in window.axes)
