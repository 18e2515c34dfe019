"""Where windows and bins are along the axes of an array, in Python and from the definitions, for the reference.

A window is a list of its cells: numbers of real cells, None for declared padding, nothing for cells beyond it.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np


def windows_along(
    size: int, kernel: int, stride: int, padding: Any, dilation: int, ceil_mode: bool
) -> list[list[int | None]]:
    """The windows of one axis: numbers of real cells, None for declared padding, nothing for cells beyond it."""
    extent = dilation * (kernel - 1) + 1
    word, amounts = padding if isinstance(padding, tuple) and isinstance(padding[0], str) else (padding, None)
    padding = word.upper() if isinstance(word, str) else word
    if padding in ("WRAP", "REFLECT", "SYMMETRIC", "EDGE"):
        mode: Any = padding.lower()
        added = ((extent - 1) // 2, extent // 2) if amounts is None else amounts
        cells = np.pad(np.arange(size), added, mode=mode).tolist()
        windows = windows_along(len(cells), kernel, stride, (0, 0), dilation, ceil_mode)
        return [[None if place is None else cells[place] for place in window] for window in windows]
    if padding == "VALID":
        low, high = 0, 0
    elif padding in ("SAME", "SAME_LOWER"):
        needed = max((math.ceil(size / stride) - 1) * stride + extent - size, 0)
        less, more = needed // 2, needed - needed // 2
        low, high = (less, more) if padding == "SAME" else (more, less)
    elif padding == "CAUSAL":
        low, high = extent - 1, 0
    elif padding == "SEMICAUSAL":
        low = max(extent - stride, 0)
        high = extent - 1 - low
    else:
        low, high = padding
    padded = low + size + high
    starts = []
    if ceil_mode:
        # Another window is needed as long as the previous one ends before the padded axis does.
        while (len(starts) - 1) * stride + extent < padded:
            starts.append(len(starts) * stride)
        if starts and starts[-1] >= low + size:
            starts.pop()
    else:
        while len(starts) * stride + extent <= padded:
            starts.append(len(starts) * stride)
    windows = []
    for start in starts:
        places = [start + offset * dilation for offset in range(kernel)]
        windows.append([p - low if low <= p < low + size else None for p in places if p < padded])
    return windows


def bins_along(size: int, bins: int) -> list[list[int | None]]:
    """The bins of one axis: bin i of m holds the cells u of n with floor(i·n/m) ≤ u < ceil((i+1)·n/m)."""
    return [list(range(i * size // bins, math.ceil(Fraction((i + 1) * size, bins)))) for i in range(bins)]


def sliding(
    shape: tuple[int, ...],
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    axis: Any = None,
) -> dict[int, list[list[int | None]]]:
    """The windows along each pooled axis of an array of this shape."""
    axes, kernels = axes_and_sizes(len(shape), kernel_size, axis)

    def each(given: Any) -> tuple[Any, ...]:
        return (given,) * len(axes) if isinstance(given, (int, str)) else tuple(given)

    pairs = [(one, one) if isinstance(one, int) else one for one in each(padding)]
    strides = kernels if stride is None else each(stride)
    return {
        a: windows_along(shape[a], k, s, p, d, ceil_mode)
        for a, k, s, p, d in zip(axes, kernels, strides, pairs, each(dilation), strict=True)
    }


def binned(shape: tuple[int, ...], output_size: Any, axis: Any) -> dict[int, list[list[int | None]]]:
    """The bins along each pooled axis; None keeps an axis."""
    axes, bins = axes_and_sizes(len(shape), output_size, axis)
    return {a: bins_along(shape[a], shape[a] if m is None else m) for a, m in zip(axes, bins, strict=True)}


def kernel_bins(shape: tuple[int, ...], sizes: tuple[int | None, ...], axis: Any) -> dict[int, list[list[int | None]]]:
    """The bins of a kernel_size, whose only size is for every axis if these are named."""
    return binned(shape, sizes[0] if len(sizes) == 1 and sizes[0] and axis is not None else sizes, axis)


def axes_and_sizes(rank: int, given: Any, axis: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The pooled axes and the sizes given for them, in the same order."""
    sizes = (given,) if isinstance(given, int) else tuple(given)
    if axis is None:
        return tuple(range(rank - len(sizes), rank)), sizes
    if isinstance(axis, str):
        axis = [number for number, letter in enumerate(axis.upper()) if letter not in "NC"]
    axes = tuple(a % rank for a in ((axis,) if isinstance(axis, int) else axis))
    return axes, sizes * len(axes) if isinstance(given, int) else sizes
