"""Window sums with a weight for each offset, a correlation with a separable kernel, and their transpose.

The weight of a cell is a product of one number per axis. These are Python numbers, constant in the traced program. The
transpose adds, for every cell, the windows that hold it, each times a weight from a table that is known while tracing.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce

import jax
import numpy as np
from jax import lax

from jaxpool._engine.overlaps import adds_offsets, spread_by_windows
from jaxpool._engine.stages import materialize, separate_term
from jaxpool._engine.window_offsets import cells_at_offsets
from jaxpool._geometry.window import Window

# The weights along each axis of a window, by offset.
Weights = Sequence[Sequence[float]]
# The windows to apply one after the other, the last axes first.
Order = Callable[[Window], Sequence[Window]]


def correlate(x: jax.Array, window: Window, weights: Weights, order: Order) -> jax.Array:
    """Sum every window with a weight for each offset; padded cells are 0."""
    for number, (part, of_cells) in enumerate(_parts(window, weights, order)):
        x = materialize(x) if number and _sums_in_stages(window) else x
        table = of_cells.astype(x.dtype)
        terms = [cells * weight for cells, weight in zip(cells_at_offsets(x, part, 0), table, strict=True)]
        if len(set(of_cells)) == 1:
            terms = list(map(separate_term, terms))
        x = reduce(lax.add, terms)
    return x


def transpose_correlation(cotangent: jax.Array, window: Window, weights: Weights, order: Order) -> jax.Array:
    """The transpose of `correlate`."""
    at_once = adds_offsets(window)
    parts = [*_parts(window, weights, (lambda window: (window,)) if at_once else order)]
    for number, (part, of_cells) in enumerate(reversed(parts)):
        cotangent = materialize(cotangent) if number and _sums_in_stages(window) else cotangent
        cotangent = spread_by_windows(cotangent, part, of_cells.astype(cotangent.dtype))
    # What reads terms that are padded, the transpose of an extension say, would evaluate all of them again.
    return materialize(cotangent) if at_once else cotangent


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
