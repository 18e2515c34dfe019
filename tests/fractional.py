"""The reference of fractional pooling: windows that start at random places, one after the other, in float64 NumPy."""

import itertools
import math
from typing import Any

import jax
import numpy as np

from tests.window_rules import largest

Entries = list[tuple[tuple[int, ...], tuple[int, ...], Any]]


def starts(size: int, kernel: int, count: int, sample: Any) -> list[int]:
    """Where the windows start, by PyTorch's sequence, in the dtype of the sample."""
    number = type(sample)
    found = []
    for window in range(count - 1):
        alpha = number(size - kernel) / number(count - 1)
        found.append(int((number(window) + sample) * alpha) - int(sample * alpha))
    return [*found, size - kernel]


def fractional(
    x: np.ndarray,
    kernel_size: Any,
    output_size: Any = None,
    *,
    output_ratio: Any = None,
    key: Any = None,
    samples: Any = None,
    axis: Any = None,
) -> tuple[np.ndarray, Entries, np.ndarray]:
    """Values, slopes and winners; the sizes are sequences, and so is the axis if it is given."""
    axes = [a % x.ndim for a in axis] if axis else list(range(x.ndim - len(kernel_size), x.ndim))
    others = [a for a in range(x.ndim) if a not in axes]
    counts = output_size or [math.floor(x.shape[a] * output_ratio) for a in axes]
    if samples is None:
        dtype = np.float64 if x.dtype == np.float64 else np.float32
        samples = np.asarray(jax.random.uniform(key, (*(x.shape[a] for a in others), len(axes)), dtype))
    output_shape = list(x.shape)
    for a, count in zip(axes, counts, strict=True):
        output_shape[a] = count
    values, indices, entries = np.zeros(output_shape), np.zeros(output_shape, int), []
    for output in np.ndindex(*output_shape):
        ranges = [[o] for o in output]
        for number, a in enumerate(axes):
            sample = samples[(*(output[b] for b in others), number)]
            first = starts(x.shape[a], kernel_size[number], counts[number], sample)[output[a]]
            ranges[a] = list(range(first, first + kernel_size[number]))
        cells = list(itertools.product(*ranges))
        values[output], slopes = largest(np.array([x[cell] for cell in cells], np.float64), np.ones(len(cells), bool))
        winner = cells[int(np.argmax(slopes))]
        entries.append((output, winner, 1.0))
        pooled = sorted(axes)
        indices[output] = np.ravel_multi_index([winner[a] for a in pooled], [x.shape[a] for a in pooled])
    return values, entries, indices
