"""The reference of boxes, by torchvision's formulas, and of fractional pools, whose windows are drawn."""

import itertools
import math
from typing import Any

import jax
import numpy as np

from tests.reference.oracle_windows import axes_and_sizes
from tests.reference.window_rules import largest

Entries = list[tuple[tuple[int, ...], tuple[int, ...], Any]]
Reference = tuple[np.ndarray, Entries]


def roi_align(
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


def roi_pool(x: np.ndarray, boxes: np.ndarray, output_size: Any, *, axis: Any = None) -> Reference:
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


def starts(size: int, kernel: int, count: int, sample: Any) -> list[int]:
    """Where the windows start, by PyTorch's sequence, in the dtype of the sample."""
    number = type(sample)
    found = []
    for window in range(count - 1):
        alpha = number(size - kernel) / number(count - 1)
        found.append(int((number(window) + sample) * alpha) - int(sample * alpha))
    return [*found, size - kernel]


def windows(
    shape: tuple[int, ...], kernel_size: Any, output_size: Any = None, output_ratio: Any = None, axis: Any = None
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The pooled axes, and along each of them the cells of a window and the number of windows."""
    axes, kernels = axes_and_sizes(len(shape), kernel_size, axis)
    if output_size is not None:
        return axes, kernels, axes_and_sizes(len(shape), output_size, axes)[1]
    ratios = np.broadcast_to(output_ratio, len(axes))
    return axes, kernels, tuple(math.floor(shape[a] * float(ratio)) for a, ratio in zip(axes, ratios, strict=True))


def fractional(
    x: np.ndarray,
    kernel_size: Any,
    output_size: Any = None,
    *,
    output_ratio: Any = None,
    key: Any = None,
    samples: Any = None,
    axis: Any = None,
    where: Any = None,
) -> tuple[np.ndarray, Entries, np.ndarray]:
    """Values, slopes and winners."""
    axes, kernels, counts = windows(x.shape, kernel_size, output_size, output_ratio, axis)
    mask = np.broadcast_to(True if where is None else np.asarray(where), x.shape)
    others = [a for a in range(x.ndim) if a not in axes]
    if samples is None:
        dtype = np.float64 if x.dtype == np.float64 else np.float32
        samples = np.asarray(jax.random.uniform(key, (*(x.shape[a] for a in others), len(axes)), dtype))
    samples = samples.astype(np.result_type(samples.dtype, np.float32))
    output_shape = list(x.shape)
    for a, count in zip(axes, counts, strict=True):
        output_shape[a] = count
    values, indices, entries = np.zeros(output_shape), np.zeros(output_shape, int), []
    for output in np.ndindex(*output_shape):
        ranges = [[o] for o in output]
        for number, a in enumerate(axes):
            sample = samples[(*(output[b] for b in others), number)]
            first = starts(x.shape[a], kernels[number], counts[number], sample)[output[a]]
            ranges[a] = list(range(first, first + kernels[number]))
        cells = [cell for cell in itertools.product(*ranges) if mask[cell]]
        if not cells:
            indices[output] = -1
            continue
        values[output], slopes = largest(np.array([x[cell] for cell in cells], np.float64), np.ones(len(cells), bool))
        winner = cells[int(np.argmax(slopes))]
        entries.append((output, winner, 1.0))
        pooled = sorted(axes)
        indices[output] = np.ravel_multi_index([winner[a] for a in pooled], [x.shape[a] for a in pooled])
    return values, entries, indices
