"""Maps from windows back to cells that only compare or weigh: sums of cotangents, and cotangents of chosen cells."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.gather import Covered, gather_windows
from jaxpool._engine.operations import Arrays, Operation
from jaxpool._engine.platforms import known_platform, on_one_device
from jaxpool._geometry.window import Window


def spread_by_windows(cotangent: jax.Array, part: Window, weights: np.ndarray | None = None) -> jax.Array:
    """For every cell, add the windows that hold it one by one, each times a weight for the number of the cell in it."""

    def weight_of(numbers: Any) -> Any:
        assert weights is not None
        return (jnp if isinstance(numbers, jax.Array) else np).take(weights, numbers, mode="clip")

    def contribution(weight: Any, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
        sent = windows[0] if weights is None else windows[0] * weight
        return sent if covered is True else jnp.where(covered, sent, jnp.zeros_like(sent))

    table = None if weights is None else weight_of
    return gather_windows(contribution, [(cotangent, 0)], part, table=table, pads_terms=adds_offsets(part))


def adds_offsets(window: Window) -> bool:
    """Whether a CPU adds what the windows send to each offset, instead of the windows of each cell.

    For up to 2×2 cells and strides of 1 this takes half to two thirds of the time: one loop pads all terms. Each term
    divides the cotangents again, so more cells take up to three times as long.
    """
    strides_are_1 = all(axis.stride == 1 for axis in window.axes)
    few_cells = len(window.axes) > 1 and window.cells <= 4 and not window.has_bins
    return strides_are_1 and few_cells and known_platform() == "cpu" and on_one_device()


def route_by_comparison(
    arrays: Sequence[jax.Array], offsets: Sequence[jax.Array], part: Window, op: Operation
) -> jax.Array:
    """Send each window's entries to the cells at its offsets, combined by a sum or a maximum.

    Every offset of a window that holds a cell is compared with the number of the cell in that window.
    """

    def contribution(numbers: Any, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
        sent = []
        for offset, array in zip(windows[: len(offsets)], windows[len(offsets) :], strict=True):
            chosen = covered & (offset == lax.convert_element_type(numbers, offset.dtype))
            sent.append(jnp.where(chosen, array, jnp.zeros_like(array)))
        return reduce(op, sent)

    return gather_windows(contribution, [(each, 0) for each in (*offsets, *arrays)], part, combine=op)
