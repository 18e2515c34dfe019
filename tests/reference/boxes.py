"""The reference of pools of boxes: torchvision's formulas as plain loops in float64, for any number of axes."""

import itertools
import math
from typing import Any

import numpy as np

from tests.reference.oracle_windows import axes_and_sizes
from tests.reference.window_rules import largest

Entries = list[tuple[tuple[int, ...], tuple[int, ...], Any]]
Reference = tuple[np.ndarray, Entries]


def align(
    x: np.ndarray,
    boxes: np.ndarray,
    output_size: Any,
    *,
    sampling_ratio: int = 2,
    aligned: bool = True,
    axis: Any = None,
) -> Reference:
    """Values and slopes of the average of interpolated samples."""
    axes, bins, shape = _axes(x, boxes, output_size, axis)
    x = x.astype(np.float64)
    values, entries = np.zeros(shape), []
    for output in np.ndindex(*shape):
        box, kept = boxes[output[0]], output[1:]
        # Along each pooled axis the cells that the samples of the bin read, with their weights.
        along = [[(o, 1.0)] for o in kept]
        for number, a in enumerate(axes):
            low, high = float(box[number]), float(box[number + len(axes)])
            if aligned:
                low, length = low - 0.5, high - low
            else:
                length = max(high - low, 1.0)
            bin_length = length / bins[number]
            along[a] = []
            for sample in range(sampling_ratio):
                position = low + kept[a] * bin_length + (sample + 0.5) * bin_length / sampling_ratio
                along[a] += [(cell, w / sampling_ratio) for cell, w in _weights(position, x.shape[a])]
        for terms in itertools.product(*along):
            cell, weight = tuple(place for place, _ in terms), math.prod(w for _, w in terms)
            values[output] += weight * x[cell]
            entries.append((output, cell, weight))
    return values, entries


def _weights(position: float, cells: int) -> list[tuple[int, float]]:
    if position < -1 or position > cells:
        return []
    position = max(position, 0.0)
    below = int(position)
    if below >= cells - 1:
        # Read twice, as in torchvision: an infinite last cell becomes NaN.
        return [(cells - 1, 1.0), (cells - 1, 0.0)]
    return [(below, 1 - (position - below)), (below + 1, position - below)]


def pool(x: np.ndarray, boxes: np.ndarray, output_size: Any, *, axis: Any = None) -> Reference:
    """Values and slopes of the largest cells."""
    axes, counts, shape = _axes(x, boxes, output_size, axis)
    values, entries = np.zeros(shape), []
    for output in np.ndindex(*shape):
        box, kept = boxes[output[0]], output[1:]
        along = [[o] for o in kept]
        for number, a in enumerate(axes):
            low, high = (_rounded(float(box[n])) for n in (number, number + len(axes)))
            length, bins = max(high - low + 1, 1), counts[number]
            first, beyond = low + kept[a] * length // bins, low + math.ceil((kept[a] + 1) * length / bins)
            along[a] = list(range(min(max(first, 0), x.shape[a]), min(max(beyond, 0), x.shape[a])))
        cells = list(itertools.product(*along))
        values[output], slopes = largest(np.array([x[cell] for cell in cells], np.float64), np.ones(len(cells), bool))
        entries += [(output, cells[n], 1.0) for n in np.flatnonzero(slopes)]
    return values, entries


def _rounded(corner: float) -> int:
    return int(math.copysign(math.floor(abs(corner) + 0.5), corner))


def _axes(
    x: np.ndarray, boxes: np.ndarray, output_size: Any, axis: Any
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The pooled axes, the bins along each, and the shape of the output."""
    axes, counts = axes_and_sizes(x.ndim, output_size, axis)
    shape = list(x.shape)
    for a, bins in zip(axes, counts, strict=True):
        shape[a] = bins
    return axes, counts, (len(boxes), *shape)
