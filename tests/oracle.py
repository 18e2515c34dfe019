"""The reference: every pool in float64 NumPy, window by window, from the definitions and nothing else.

A window is a list of cells in row-major order. A cell is either real or declared padding; cells that only ceil_mode
reaches, beyond the declared padding, are absent. For each pool one function of a window says what the value is and
how much it changes with each cell. Meant to be read line by line; imports nothing of the library under test.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Slopes = np.ndarray
WindowRule = Callable[..., tuple[Any, Slopes]]


@dataclass(frozen=True)
class Pooled:
    """What pooling gives: values, first derivatives and, for pools that select a cell, where the winner lies."""

    values: np.ndarray
    input_shape: tuple[int, ...]
    entries: list[tuple[tuple[int, ...], tuple[int, ...], Any]]
    indices: np.ndarray

    def jacobian(self) -> np.ndarray:
        """The array ∂value/∂cell of shape output_shape + input_shape."""
        matrix = np.zeros(self.values.shape + self.input_shape, self.values.dtype)
        for output, cell, slope in self.entries:
            matrix[output + cell] += slope
        return matrix

    def forward(self, tangent: np.ndarray) -> np.ndarray:
        """Change of the values along a change of the cells."""
        result = np.zeros(self.values.shape, self.values.dtype)
        for output, cell, slope in self.entries:
            result[output] += slope * tangent[cell]
        return result

    def backward(self, cotangent: np.ndarray) -> np.ndarray:
        """Gradient with respect to the cells of Σ cotangent·values."""
        result = np.zeros(self.input_shape, self.values.dtype)
        for output, cell, slope in self.entries:
            result[cell] += slope * cotangent[output]
        return result


def windows_along(
    size: int, kernel: int, stride: int, padding: Any, dilation: int, ceil_mode: bool
) -> list[list[int | None]]:
    """The windows of one axis: numbers of real cells, None for declared padding, nothing for cells beyond it."""
    extent = dilation * (kernel - 1) + 1
    if padding == "VALID":
        low, high = 0, 0
    elif padding in ("SAME", "SAME_LOWER"):
        needed = max((math.ceil(size / stride) - 1) * stride + extent - size, 0)
        less, more = needed // 2, needed - needed // 2
        low, high = (less, more) if padding == "SAME" else (more, less)
    else:
        low, high = padding
    padded = low + size + high
    starts = []
    if ceil_mode:
        # A further window is needed as long as the one before it ends before the padded axis does.
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


def pool(
    rule: WindowRule,
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    *,
    dilation: Any = 1,
    ceil_mode: bool = False,
    axis: Any = None,
    **options: Any,
) -> Pooled:
    """Apply `rule` to every window of x; array options hold one entry per window."""
    x = np.asarray(x)
    x = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
    kernels = (kernel_size,) if isinstance(kernel_size, int) else tuple(kernel_size)
    if axis is None:
        axes = tuple(range(x.ndim - len(kernels), x.ndim))
    else:
        axes = tuple(a % x.ndim for a in ((axis,) if isinstance(axis, int) else axis))
        kernels = kernels * len(axes) if isinstance(kernel_size, int) else kernels

    def each(given: Any) -> tuple[Any, ...]:
        return (given,) * len(axes) if isinstance(given, (int, str)) else tuple(given)

    pairs = [(one, one) if isinstance(one, int) else one for one in each(padding)]
    strides = kernels if stride is None else each(stride)
    along = {
        a: windows_along(x.shape[a], k, s, p, d, ceil_mode)
        for a, k, s, p, d in zip(axes, kernels, strides, pairs, each(dilation), strict=True)
    }
    output_shape = tuple(len(along[a]) if a in along else x.shape[a] for a in range(x.ndim))
    values, indices = np.zeros(output_shape, x.dtype), np.full(output_shape, -1)
    entries = []
    for output in np.ndindex(output_shape):
        cells = list(itertools.product(*(along[a][o] if a in along else [o] for a, o in enumerate(output))))
        real = np.array([None not in cell for cell in cells])
        numbers = np.array([0 if None in cell else x[cell] for cell in cells], x.dtype)
        here = {
            name: np.broadcast_to(option, output_shape)[output] if isinstance(option, np.ndarray) else option
            for name, option in options.items()
        }
        values[output], slopes = rule(numbers, real, **here)
        entries += [(output, cells[n], slopes[n]) for n in np.flatnonzero(real & (slopes != 0))]
        if rule in (largest, smallest):
            (winner,) = np.flatnonzero(slopes)
            indices[output] = np.ravel_multi_index(
                [cells[winner][a] for a in sorted(axes)], [x.shape[a] for a in sorted(axes)]
            )
    return Pooled(values, x.shape, entries, indices)


def largest(cells: np.ndarray, real: np.ndarray) -> tuple[Any, Slopes]:
    """The first real cell that no other one exceeds; the first NaN where there is one."""
    winner = None
    for n in np.flatnonzero(real):
        if winner is None or cells[n] > cells[winner] or (np.isnan(cells[n]) and not np.isnan(cells[winner])):
            winner = n
    slopes = np.zeros(len(cells))
    slopes[winner] = 1
    return cells[winner], slopes


def smallest(cells: np.ndarray, real: np.ndarray) -> tuple[Any, Slopes]:
    """The first real cell that exceeds no other one; the first NaN where there is one."""
    value, slopes = largest(-cells, real)
    return -value, slopes


def total(cells: np.ndarray, real: np.ndarray) -> tuple[Any, Slopes]:
    """The sum; padding holds 0."""
    return cells.sum(), np.ones(len(cells))


def average(
    cells: np.ndarray, real: np.ndarray, count_include_pad: bool = True, divisor_override: float | None = None
) -> tuple[Any, Slopes]:
    """The sum over the divisor: the override, or the cells counted."""
    divisor = divisor_override or (len(cells) if count_include_pad else real.sum())
    return cells.sum() / divisor, np.full(len(cells), 1 / divisor)


def norm(cells: np.ndarray, real: np.ndarray, norm_type: float) -> tuple[Any, Slopes]:
    """(Σ|x|^p)^(1/p), scaled by the largest magnitude; no derivative where it is 0 or infinite."""
    magnitudes = np.abs(cells)
    scale = magnitudes.max()
    if np.isnan(scale):
        return math.nan, np.full(len(cells), math.nan)
    if scale == 0 or math.isinf(scale):
        return scale, np.zeros(len(cells))
    if norm_type == math.inf:
        return scale, np.sign(cells) * (np.arange(len(cells)) == np.argmax(magnitudes))
    value = scale * ((magnitudes / scale) ** norm_type).sum() ** (1 / norm_type)
    slopes = np.zeros(len(cells))
    nonzero = cells != 0
    slopes[nonzero] = np.sign(cells[nonzero]) * (magnitudes[nonzero] / value) ** (norm_type - 1)
    return value, slopes


def smooth(cells: np.ndarray, real: np.ndarray, beta: float, count_include_pad: bool = True) -> tuple[Any, Slopes]:
    """log(Σ exp(β·x))/β; no derivative where it is infinite."""
    counted = np.full(len(cells), True) if count_include_pad else real
    powers = np.where(counted, beta * cells, -math.inf)
    top = powers.max()
    if np.isnan(top):
        return math.nan, np.full(len(cells), math.nan)
    if math.isinf(top):
        return top / beta, np.zeros(len(cells))
    sum_of_powers = np.exp(powers - top).sum()
    return (top + np.log(sum_of_powers)) / beta, np.exp(powers - top) / sum_of_powers


RULES: dict[str, WindowRule] = {
    "max_pool": largest,
    "min_pool": smallest,
    "max_pool_with_indices": largest,
    "sum_pool": total,
    "avg_pool": average,
    "lp_pool": norm,
    "smooth_max_pool": smooth,
}
