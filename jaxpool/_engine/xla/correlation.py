"""Sums of weighted windows on GPUs, and their transpose: all cells of a window at once, in one loop.

The way back adds up, for every cell, the windows that hold it. Which weight each has is a table that is known while
tracing; to put the cells together from parts would be a kernel of its own. On TPUs one axis after the other takes
fewer cycles.
"""

from collections.abc import Iterator
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.correlation import Weights
from jaxpool._engine.gather import Covered, gather_windows
from jaxpool._engine.operations import Arrays, separate_term
from jaxpool._engine.window_offsets import at_offset, offsets_in, pad_windows
from jaxpool._engine.xla import choose
from jaxpool._geometry.window import Window


def correlate(x: jax.Array, window: Window, weights: Weights) -> jax.Array:
    """Sums of windows whose cells are weighted by their offset; padded cells are 0."""
    for part, of_cells in _parts(window, weights):
        padded, table = pad_windows(x, part, 0), of_cells.astype(x.dtype)
        terms = [
            at_offset(padded, part, offset) * weight for offset, weight in zip(offsets_in(part), table, strict=True)
        ]
        if len(set(of_cells)) == 1:
            terms = list(map(separate_term, terms))
        x = reduce(lax.add, terms)
    return x


def transpose_correlation(cotangent: jax.Array, window: Window, weights: Weights) -> jax.Array:
    """The transpose of `correlate`."""

    def contribution(weight: jax.Array | int, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
        sent = windows[0] * weight
        return sent if covered is True else jnp.where(covered, sent, jnp.zeros_like(sent))

    for part, of_cells in reversed(list(_parts(window, weights))):
        table = of_cells.astype(cotangent.dtype)

        def weight_of(numbers: Any, table: np.ndarray = table) -> Any:
            if isinstance(numbers, jax.Array):
                return jnp.asarray(table).at[numbers].get(mode="clip")
            return table[np.clip(numbers, 0, table.size - 1)]

        cotangent = gather_windows(contribution, [(cotangent, 0)], part, table=weight_of)
    return cotangent


def _parts(window: Window, weights: Weights) -> Iterator[tuple[Window, np.ndarray]]:
    """Windows that are taken one after the other, and the weights of their cells in row-major order."""
    along = {axis.axis: np.asarray(each) for axis, each in zip(window.axes, weights, strict=True)}
    for part in choose.correlation_order(window):
        table = np.ones(1)
        for axis in part.axes:
            table = np.multiply.outer(table, along[axis.axis]).ravel()
        yield part, table
