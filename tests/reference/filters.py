"""The reference of blurs, with weights by the offset of a cell in its window, and of dilations and erosions."""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from tests.reference import oracle


def blur_pool(
    x: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: Any = "REFLECT",
    *,
    dilation: Any = 1,
    axis: Any = None,
    where: Any = None,
    ceil_mode: bool = False,
) -> oracle.Pooled:
    """Σ weight·cell over every window, divided by the weights of all cells that are not masked, including padding."""
    x = np.asarray(x)
    x = x.astype(np.result_type(x.dtype, np.float64))
    along = oracle.sliding(x.shape, kernel_size, stride, padding, dilation, ceil_mode, axis)
    kernels = dict(zip(*oracle.axes_and_sizes(x.ndim, kernel_size, axis), strict=True))
    mask = np.broadcast_to(True if where is None else np.asarray(where), x.shape)
    output_shape = tuple(len(along[a]) if a in along else size for a, size in enumerate(x.shape))
    values, entries = np.zeros(output_shape, x.dtype), []
    for output in np.ndindex(output_shape):
        held = []
        for pairs in itertools.product(*(_weighted(along, kernels, a, o) for a, o in enumerate(output))):
            cell, weight = tuple(cell for cell, _ in pairs), math.prod(weight for _, weight in pairs)
            if None in cell or mask[cell]:
                held.append((cell, weight))
        divisor = sum(weight for _, weight in held) or 1.0
        real = [(cell, weight / divisor) for cell, weight in held if None not in cell]
        values[output] = sum(weight * x[cell] for cell, weight in real)
        entries += [(output, cell, weight) for cell, weight in real]
    return oracle.Pooled(values, x.shape, entries, np.zeros(0))


def _weighted(
    along: dict[int, list[list[int | None]]], kernels: dict[int, int], axis: int, output: int
) -> list[tuple[int | None, float]]:
    """The cells of a window along one axis, and the weight of each."""
    if axis not in along:
        return [(output, 1.0)]
    # With ceil_mode, the last cells of a window may be missing.
    last = kernels[axis] - 1
    return [(cell, math.comb(last, offset) / 2**last) for offset, cell in enumerate(along[axis][output])]


def max_blur_pool(
    x: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: Any = "REFLECT",
    *,
    blur_size: Any = 3,
    axis: Any = None,
    where: Any = None,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> oracle.Pooled:
    """The blurred maxima of all windows that hold a cell."""
    maxima = oracle.pool(oracle.RULES["max_pool"], x, kernel_size, 1, dilation=dilation, axis=axis, where=where)
    axes, _ = oracle.axes_and_sizes(np.ndim(x), kernel_size, axis)
    held = None if where is None else maxima.indices >= 0
    strides = kernel_size if stride is None else stride
    blurred = blur_pool(maxima.values, blur_size, strides, padding, axis=axes, where=held, ceil_mode=ceil_mode)
    winners: dict[tuple[int, ...], list[tuple[tuple[int, ...], Any]]] = {}
    for output, cell, slope in maxima.entries:
        winners.setdefault(output, []).append((cell, slope))
    entries = [
        (output, cell, weight * slope)
        for output, maximum, weight in blurred.entries
        for cell, slope in winners[maximum]
    ]
    return oracle.Pooled(blurred.values, np.shape(x), entries, np.zeros(0))


class Reference(NamedTuple):
    """The values, and for each its winner among the cells and among the heights, or None where there is no cell."""

    values: np.ndarray
    winners: dict[tuple[int, ...], tuple[tuple[int, ...], tuple[int, ...]] | None]

    def backward(self, cotangent: np.ndarray, shape: tuple[int, ...], sign: int) -> tuple[np.ndarray, np.ndarray]:
        """The cotangents of the cells, and of the heights, of this shape."""
        cells, heights = np.zeros(self.values.shape), np.zeros(shape)
        for place, winner in self.winners.items():
            if winner is not None:
                cells[winner[0]] += cotangent[place]
                heights[winner[1]] += sign * cotangent[place]
        return cells, heights


def extremes(x: np.ndarray, heights: np.ndarray, sign: int, mask: np.ndarray | None = None) -> Reference:
    """The dilation (sign 1) or the erosion (sign -1) of x along all axes."""
    centre = np.array(heights.shape) // 2
    values, winners = np.zeros(x.shape), {}
    for place in np.ndindex(x.shape):
        candidates = []
        for offset in np.ndindex(heights.shape):
            cell = tuple(np.array(place) + sign * (centre - offset))
            inside = all(0 <= c < size for c, size in zip(cell, x.shape, strict=True))
            if inside and heights[offset] != -np.inf and (mask is None or mask[cell]):
                candidates.append((cell, offset, sign * x[cell] + heights[offset]))
        candidates.sort(key=lambda each: each[0])
        sums = [each[2] for each in candidates]
        winners[place] = candidates[int(np.argmax(sums))][:2] if candidates else None
        values[place] = sign * sums[int(np.argmax(sums))] if candidates else 0
    return Reference(values, winners)
