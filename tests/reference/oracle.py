"""The reference: every pool in float64 NumPy, window by window, from the definitions and nothing else.

A window is a list of cells in row-major order. A cell is either real or declared padding; masked cells, and those that
only ceil_mode reaches, beyond the declared padding, are absent. Where windows are is in `oracle_windows`. For each pool
one function of a window, in `window_rules`, returns the value and its slope for each cell; blurs are in `filters`,
boxes and fractional windows in `positions`. Meant to be read line by line; imports nothing from the library under test.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.reference import positions, window_rules
from tests.reference.oracle_windows import axes_and_sizes as axes_and_sizes
from tests.reference.oracle_windows import binned
from tests.reference.oracle_windows import kernel_bins as kernel_bins
from tests.reference.oracle_windows import sliding as sliding
from tests.reference.window_rules import WindowRule, largest, nth_largest, smallest
from tests.reference.window_rules import norm as norm
from tests.reference.window_rules import smooth as smooth
from tests.reference.window_rules import total as total

RULES = window_rules.RULES


@dataclass(frozen=True)
class Pooled:
    """The result of pooling: values, first derivatives and, for pools that select a cell, the winner's position."""

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
        """The change of the values for a change of the cells."""
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


def evaluate(function: str, x: Any, **parameters: Any) -> Pooled:
    """The result of the named function for x."""
    if function == "max_unpool":
        return unpool(x, **parameters)
    if function == "spatial_pyramid_pool":
        return pyramid(x, **parameters)
    if "blur" in function:
        from tests.reference import filters  # which is built on this file

        return getattr(filters, function)(x, **parameters)
    if function.startswith("fractional"):
        values, entries, indices = positions.fractional(np.asarray(x), **parameters)
        return Pooled(values, np.shape(x), entries, indices)
    if function.startswith("roi"):
        values, entries = getattr(positions, function)(np.asarray(x), **parameters)
        return Pooled(values, np.shape(x), entries, np.zeros(0))
    rule = RULES[function]
    if isinstance(parameters.get("q"), (tuple, list)):
        return stacked([pool(rule, x, **{**parameters, "q": q}) for q in parameters["q"]], 0)
    if "k" in parameters:
        ranks = range(parameters.pop("k"))
        return stacked([pool(rule, x, **parameters, rank=rank) for rank in ranks], -1)
    if function.startswith("adaptive"):
        return adaptive(rule, x, **parameters)
    if function.startswith("global"):
        return whole(rule, x, **parameters)
    return pool(rule, x, **parameters)


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
    where: Any = None,
    **options: Any,
) -> Pooled:
    """Apply `rule` to windows that slide along x; array options hold one entry per window.

    In place of sizes, `kernel_size` may be bins, whole axes or a footprint, told apart by the names of their types.
    """
    kind, held = type(kernel_size).__name__, None
    if kind == "Bins":
        return apply(rule, x, kernel_bins(np.shape(x), kernel_size.sizes, axis), where, **options)
    if kind == "Whole":
        return whole(rule, x, axis=axis, where=where, **options)
    if kind == "Footprint":
        axes, kernel_size = axes_and_sizes(np.ndim(x), kernel_size.held.shape, axis), kernel_size.held
        held, kernel_size = kernel_size.transpose(np.argsort(axes[0])), kernel_size.shape
    along = sliding(np.shape(x), kernel_size, stride, padding, dilation, ceil_mode, axis)
    return apply(rule, x, along, where, held, **options)


def stacked(parts: list[Pooled], axis: int) -> Pooled:
    """Several results for the same cells, along a new axis, the first or the last."""
    values, indices = (np.stack([getattr(part, name) for part in parts], axis) for name in ("values", "indices"))
    entries = [
        ((number, *output) if axis == 0 else (*output, number), cell, slope)
        for number, part in enumerate(parts)
        for output, cell, slope in part.entries
    ]
    return Pooled(values, parts[0].input_shape, entries, indices)


def adaptive(
    rule: WindowRule, x: Any, output_size: Any, *, axis: Any = None, where: Any = None, **options: Any
) -> Pooled:
    """Apply `rule` to bins of x; None keeps an axis."""
    return apply(rule, x, binned(np.shape(x), output_size, axis), where, **options)


def whole(rule: WindowRule, x: Any, *, axis: Any, keepdims: bool = True, where: Any = None, **options: Any) -> Pooled:
    """Apply `rule` to the window that holds all cells along `axis`."""
    axes, _ = axes_and_sizes(np.ndim(x), 1, axis)
    pooled = apply(rule, x, {a: [list(range(np.shape(x)[a]))] for a in axes}, where, **options)
    if keepdims:
        return pooled
    entries = [(tuple(o for a, o in enumerate(out) if a not in axes), cell, s) for out, cell, s in pooled.entries]
    return Pooled(pooled.values.squeeze(axes), pooled.input_shape, entries, pooled.indices.squeeze(axes))


def pyramid(x: Any, levels: Any, *, kind: str = "max", axis: Any = None, where: Any = None) -> Pooled:
    """Adaptive pools one after the other along the first pooled axis, each in row-major order."""
    parts = [adaptive(RULES[f"adaptive_{kind}_pool"], x, level, axis=axis, where=where) for level in levels]
    axes, _ = axes_and_sizes(np.ndim(x), levels[0], axis)
    first, *others = sorted(axes)
    values, entries, before = [], [], 0
    for part in parts:
        sizes = [part.values.shape[a] for a in (first, *others)]
        together = np.moveaxis(part.values, others, range(first + 1, first + len(axes)))
        flat_shape = (*together.shape[:first], math.prod(sizes), *together.shape[first + len(axes) :])
        values.append(together.reshape(flat_shape))
        for output, cell, slope in part.entries:
            flat = before + np.ravel_multi_index([output[a] for a in (first, *others)], sizes)
            place = tuple(flat if a == first else o for a, o in enumerate(output) if a not in others)
            entries.append((place, cell, slope))
        before += math.prod(sizes)
    return Pooled(np.concatenate(values, first), np.shape(x), entries, np.zeros(0))


def unpool(values: Any, indices: np.ndarray, output_size: Any, *, axis: Any = None) -> Pooled:
    """Write values one after the other, in row-major order, to the cells that the indices name."""
    axes, sizes = axes_and_sizes(np.ndim(values), output_size, axis)
    output_shape, sizes = list(np.shape(values)), [size for _, size in sorted(zip(axes, sizes, strict=True))]
    for a, size in zip(sorted(axes), sizes, strict=True):
        output_shape[a] = size
    written: dict[tuple[int, ...], tuple[int, ...]] = {}
    for source in np.ndindex(np.shape(values)):
        if 0 <= indices[source] < math.prod(sizes):
            cell = list(source)
            for a, place in zip(sorted(axes), np.unravel_index(indices[source], sizes), strict=True):
                cell[a] = int(place)
            written[tuple(cell)] = source
    result = np.zeros(output_shape, np.result_type(values, np.float64))
    for cell, source in written.items():
        result[cell] = np.asarray(values)[source]
    entries = [(cell, source, 1.0) for cell, source in written.items()]
    return Pooled(result, np.shape(values), entries, np.zeros(0))


def apply(
    rule: WindowRule,
    x: Any,
    along: dict[int, list[list[int | None]]],
    where: Any,
    held: np.ndarray | None = None,
    **options: Any,
) -> Pooled:
    """Apply `rule` to every product of the windows `along` each pooled axis, without masked cells.

    With `held` a window has only the cells at offsets where it is True; its axes are the pooled ones in x's own order.
    """
    x = np.asarray(x)
    x = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
    mask = np.broadcast_to(True if where is None else np.asarray(where), x.shape)
    output_shape = tuple(len(along[a]) if a in along else x.shape[a] for a in range(x.ndim))
    of_cells = {
        name: np.broadcast_to(np.asarray(options.pop(name), np.float64), x.shape)
        for name in ("weights", "logits")
        if name in options
    }
    values, indices = np.zeros(output_shape, x.dtype), np.full(output_shape, -1)
    entries = []
    for output in np.ndindex(output_shape):
        pairs = [enumerate(along[a][o]) if a in along else [(0, o)] for a, o in enumerate(output)]
        cells = []
        for place in itertools.product(*pairs):
            cell, offset = tuple(one for _, one in place), tuple(place[a][0] for a in sorted(along))
            if (held is None or held[offset]) and (None in cell or mask[cell]):
                cells.append(cell)
        real = np.array([None not in cell for cell in cells], bool)
        numbers = np.array([0 if None in cell else x[cell] for cell in cells], x.dtype)
        here = {
            name: float(np.broadcast_to(option, output_shape)[output]) if hasattr(option, "dtype") else option
            for name, option in options.items()
        }
        here |= {
            name: np.array([0.0 if None in c else each[c] for c in cells], float) for name, each in of_cells.items()
        }
        values[output], slopes = rule(numbers, real, **here)
        entries += [(output, cells[n], slopes[n]) for n in np.flatnonzero(real & (slopes != 0))]
        if rule in (largest, smallest, nth_largest) and slopes.any():
            (winner,) = np.flatnonzero(slopes)
            indices[output] = np.ravel_multi_index(
                [cells[winner][a] for a in sorted(along)], [x.shape[a] for a in sorted(along)]
            )
    return Pooled(values, x.shape, entries, indices)
