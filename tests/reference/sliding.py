"""Windows of large arrays in NumPy, all at once, where the reference in `oracle` goes window by window.

A table per pooled axis says which cell of the axis is at each offset of each window, -1 if there is none. The tables
give the cells of every window side by side, in row-major order, and these the first winners, the tangents of winners
and the cotangents that they get. Integers stay integers. Imports nothing from the library under test.
"""

import math
from typing import Any

import numpy as np

Tables = dict[int, np.ndarray]


def tables(
    shape: tuple[int, ...],
    *,
    axis: Any,
    kernel_size: Any = None,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    output_size: Any = None,
    **_: Any,
) -> Tables:
    """The windows, bins or whole axes that the arguments of a pool describe; other options are ignored."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def each(given: Any) -> tuple[Any, ...]:
        return (given,) * len(axes) if given is None or isinstance(given, int) else tuple(given)

    strides = each(kernel_size if stride is None else stride)
    made: Tables = {}
    for number, a in enumerate(axes):
        size, kernel, bins = shape[a], each(kernel_size)[number], each(output_size)[number]
        if kernel is not None:
            pads = each(padding)[number]
            low, high = (pads, pads) if isinstance(pads, int) else pads
            made[a % len(shape)] = _sliding(size, kernel, strides[number], low, high, each(dilation)[number])
        else:
            made[a % len(shape)] = _bins(size, 1 if bins is None else bins)
    return dict(sorted(made.items()))


def _sliding(size: int, kernel: int, stride: int, low: int, high: int, dilation: int) -> np.ndarray:
    outputs = (size + low + high - dilation * (kernel - 1) - 1) // stride + 1
    places = (np.arange(outputs) * stride - low)[:, None] + np.arange(kernel) * dilation
    return np.where((places >= 0) & (places < size), places, -1)


def _bins(size: int, bins: int) -> np.ndarray:
    starts = np.arange(bins) * size // bins
    ends = -(-(np.arange(bins) + 1) * size // bins)
    places = starts[:, None] + np.arange(np.max(ends - starts))
    return np.where(places < ends[:, None], places, -1)


def in_windows(array: np.ndarray, windows: Tables, fill: Any) -> np.ndarray:
    """The cells of every window along a new last axis, in row-major order; `fill` at offsets without a cell."""
    pads = [(0, int(a in windows)) for a in range(array.ndim)]
    array = np.pad(array, pads, constant_values=fill)
    for a, table in windows.items():
        array = np.moveaxis(np.take(array, table, axis=a), a + 1, -1)
    return array.reshape(*array.shape[: array.ndim - len(windows)], -1)


def positions(shape: tuple[int, ...], windows: Tables) -> np.ndarray:
    """The row-major position of every cell in the pooled axes, for every cell of the array."""
    sizes = [size if a in windows else 1 for a, size in enumerate(shape)]
    return np.broadcast_to(np.arange(math.prod(sizes)).reshape(sizes), shape)


def first_winners(
    x: np.ndarray, windows: Tables, *, largest: bool = True, where: Any = True
) -> tuple[np.ndarray, np.ndarray]:
    """The extreme of every window and the position of the first cell that has it, NaN before numbers; 0, -1 if none."""
    numbers = in_windows(np.where(where, positions(x.shape, windows), -1), windows, -1)
    held = numbers >= 0
    cells = in_windows(x, windows, x.flat[0])
    # Absent cells get the value of the first present one, so no identity is needed, which a cell might equal.
    first_present = np.take_along_axis(cells, held.argmax(-1)[..., None], -1)
    cells = np.where(held, cells, first_present)
    best = cells.max(-1, keepdims=True) if largest else cells.min(-1, keepdims=True)
    winner = (held & ((cells == best) | (cells != cells))).argmax(-1)[..., None]
    values = np.where(held.any(-1), best[..., 0], np.zeros_like(best[..., 0]))
    return values, np.take_along_axis(numbers, winner, -1)[..., 0]


def at_winners(tangent: np.ndarray, winners: np.ndarray, windows: Tables) -> np.ndarray:
    """The tangent at the winner of every window; 0 where there is none."""
    lines, flat = _flatten(tangent, windows), _flatten(winners, windows)
    found = np.where(flat >= 0, np.take_along_axis(lines, flat, -1), 0)
    sizes = [winners.shape[a] for a in windows]
    return np.moveaxis(found.reshape(*found.shape[:-1], *sizes), _last(winners.ndim, windows), list(windows))


def to_winners(cotangent: np.ndarray, winners: np.ndarray, windows: Tables, shape: tuple[int, ...]) -> np.ndarray:
    """The cotangents, in float64, that every cell gets from the windows that it wins."""
    lines = _flatten(np.zeros(shape), windows)
    flat, values = _flatten(winners, windows), _flatten(cotangent, windows).astype(np.float64)
    batches = np.broadcast_to(np.arange(lines[..., 0].size).reshape(*lines.shape[:-1], 1), flat.shape)
    won = flat >= 0
    gathered = np.bincount(batches[won] * lines.shape[-1] + flat[won], values[won], lines.size)
    sizes = [shape[a] for a in windows]
    return np.moveaxis(gathered.reshape(*lines.shape[:-1], *sizes), _last(len(shape), windows), list(windows))


def held_by(marked: np.ndarray, windows: Tables, shape: tuple[int, ...]) -> np.ndarray:
    """Which cells are in a marked window."""
    cells = marked.astype(np.float64)
    for a, table in windows.items():
        cells = np.moveaxis(np.tensordot(holds(table, shape[a]), cells, (0, a)), 0, a)
    return cells > 0


def holds(table: np.ndarray, size: int) -> np.ndarray:
    """The matrix of windows and cells of one axis, 1 if the window holds the cell; multiplying by it sums windows."""
    matrix = np.zeros((len(table), size + 1))
    np.put_along_axis(matrix, table % (size + 1), 1.0, 1)
    return matrix[:, :size]


def _flatten(array: np.ndarray, windows: Tables) -> np.ndarray:
    """Move the pooled axes last and merge them."""
    moved = np.moveaxis(array, list(windows), _last(array.ndim, windows))
    return moved.reshape(*moved.shape[: array.ndim - len(windows)], -1)


def _last(rank: int, windows: Tables) -> list[int]:
    return list(range(rank - len(windows), rank))
