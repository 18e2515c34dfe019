"""The reference of fractional pooling: windows that start at random positions, one by one, in float64 NumPy."""

import itertools
import math
from typing import Any

import jax
import numpy as np

from tests.reference.oracle_windows import axes_and_sizes
from tests.reference.window_rules import largest

Entries = list[tuple[tuple[int, ...], tuple[int, ...], Any]]


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
