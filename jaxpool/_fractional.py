"""Pools whose windows start at random positions, so that the output may be any fraction of the input.

Take the maxima of windows that start at every cell, by the rules of `max_pool`, and read them at the positions where
windows start. That costs a few maxima along the rows and one read per window, instead of one read per cell of every
window. Each entry of the batch axes has its own positions, which follow from a random number and are strictly
ascending. So an entry of the result goes back to exactly one position, and a position gets at most one entry: the map
and its transpose are both gathers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._checks import Rule, as_array, check_array, check_key, check_mask, check_rule
from jaxpool._extremes import extremes, extremes_with_indices
from jaxpool._jax.linear_map import LinearMap, apply_linear_map
from jaxpool._sharding import evaluate_sharded, vary_together
from jaxpool._sizes import Axes, Ratios, Sizes, axes_and_sizes, ratios, sizes
from jaxpool._window import Window, WindowAxis, make_window
from jaxpool._windows.operations import accumulation_dtype


def fractional_max_pool(
    x: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    *,
    output_ratio: Ratios | None = None,
    key: ArrayLike | None = None,
    samples: ArrayLike | None = None,
    axis: Axes | None = None,
    rule: Rule = "jvp",
    where: ArrayLike | None = None,
) -> jax.Array:
    """Fractional max pooling: the largest cell of every window, where windows start at random positions and overlap.

    Formula along an axis of n cells, m windows of k cells and a sample u: y[o] = max over j of x[s(o) + j], 0 ≤ j < k,
    with s(o) = ⌊(o + u)·α⌋ - ⌊u·α⌋ for o < m - 1, α = (n - k)/(m - 1), and s(m - 1) = n - k. The windows are PyTorch's,
    except that no two start at the same cell, as can happen there through rounding if u is just below 1. With several
    axes a window is the product of its axes' windows.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. A single int applies to every axis in
            `axis`.
        output_size: Number of windows, an int or one per axis, up to n - kernel_size + 1. Give this or `output_ratio`.
        output_ratio: Windows per cell of the input: a float between 0 and 1, or one float per axis.
        key: A `jax.random` key, typed or raw uint32, that draws the windows. Give this or `samples`. Under `jax.vmap`
            an unmapped key gives all items the same numbers: map over jax.random.split(key, n) too.
        samples: The numbers u in [0, 1), to choose the windows yourself: floats whose shape is that of the axes of x
            that are not pooled, then the number of pooled axes, in the order of `kernel_size`. For two pooled axes of
            (N, C, H, W) that is (N, C, 2), and PyTorch's `_random_samples` is samples[..., ::-1]; for three it is
            `samples`.
        axis, rule, where: As in `max_pool`.

    Returns:
        Array of x's dtype. A pooled axis of n cells becomes `output_size`, or ⌊n·output_ratio⌋. Other axes are
        unchanged; each of their entries has its own windows. Samples are drawn in float64 if x is float64, else in
        float32; windows are computed in the dtype of the samples, at least float32, as in PyTorch for x of that dtype.
        A sample outside [0, 1) moves no window off the axis.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: not exactly one of `output_size` and `output_ratio`, or of `key` and `samples`, is given, a ratio is
            not between 0 and 1, arguments do not fit x, or `rule` is unknown.

    Derivative:
        ∂y[o]/∂x[i] = 1 if i is the winner of window o, else 0; higher derivatives are 0, and there is none for the
        samples. A cell that wins several windows gets the sum of their cotangents, in float32 for 16-bit floats. Ties:
        the first winner in row-major order takes all. NaN wins over numbers; NaNs tie, as +0 and -0 do. A window that
        `where` empties is 0 with derivative 0.

    Example:
        >>> x = jnp.array([1.0, 5.0, 2.0, 3.0, 4.0, 0.0, 6.0, 2.0, 1.0])
        >>> jaxpool.fractional_max_pool(x, (2,), (4,), samples=jnp.array([0.5]))  # from cells 0, 2, 4 and 7
        Array([5., 3., 4., 2.], dtype=float32)
        >>> jaxpool.fractional_max_pool(x, (2,), output_ratio=0.7, key=jax.random.key(0)).shape
        (6,)

    Source: Graham, "Fractional max-pooling", 2014.
    """
    function = "fractional_max_pool"
    return _evaluate(function, x, kernel_size, output_size, output_ratio, key, samples, axis, rule, where)[0]


def fractional_max_pool_with_indices(
    x: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    *,
    output_ratio: Ratios | None = None,
    key: ArrayLike | None = None,
    samples: ArrayLike | None = None,
    axis: Axes | None = None,
    rule: Rule = "jvp",
    where: ArrayLike | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Fractional max pooling with indices (argmax): the largest cell of every randomly placed window, and where it is.

    Formula: y[o] = x[i[o]], i[o] the first cell of window o, in row-major order, that holds its maximum. Windows are as
    in `fractional_max_pool`: window o < m - 1 starts at ⌊(o + u)·α⌋ - ⌊u·α⌋, α = (n - k)/(m - 1), the last at n - k.

    Args:
        x, kernel_size, output_size, output_ratio, key, samples, axis, rule, where: As in `fractional_max_pool`.

    Returns:
        Values of x's dtype and int32 indices; a pooled axis of n cells becomes `output_size`, or ⌊n·output_ratio⌋. An
        index is the winner's row-major position in x's pooled axes, in x's own order.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: not exactly one of `output_size` and `output_ratio`, or of `key` and `samples`, is given, a ratio is
            not between 0 and 1, arguments do not fit x, `rule` is unknown, or indices exceed int32.

    Derivative:
        That of `fractional_max_pool` for the values: 1 at the cell that the index names, else 0; none for the indices
        and the samples. A window that `where` empties has the value 0, the index -1 and derivative 0.

    Example:
        >>> x = jnp.array([1.0, 5.0, 2.0, 3.0, 4.0, 0.0, 6.0, 2.0, 1.0])
        >>> jaxpool.fractional_max_pool_with_indices(x, (2,), (4,), samples=jnp.array([0.5]))
        (Array([5., 3., 4., 2.], dtype=float32), Array([1, 3, 4, 7], dtype=int32))

    Source: Graham, "Fractional max-pooling", 2014.
    """
    function = "fractional_max_pool_with_indices"
    values, indices = _evaluate(function, x, kernel_size, output_size, output_ratio, key, samples, axis, rule, where)
    return values, indices


def _evaluate(
    function: str,
    x: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None,
    output_ratio: Ratios | None,
    key: Any,
    samples: Any,
    axis: Axes | None,
    rule: str,
    where: Any,
) -> tuple[jax.Array, ...]:
    """Parse the call, and evaluate the values and, if the function's name says so, the indices."""
    array = check_array(function, x)
    axes, kernels = axes_and_sizes(function, array.shape, "kernel_size", kernel_size, axis)
    window = make_window(function, array.shape, (kernels, 1, 0, 1, False, axes), remedies=())
    if output_size is not None and output_ratio is None:
        counts = sizes(function, "output_size", output_size, len(axes), least=1)
    elif output_ratio is not None and output_size is None:
        parts = ratios(function, "output_ratio", output_ratio, len(axes))
        counts = tuple(math.floor(array.shape[a] * part) for a, part in zip(axes, parts, strict=True))
    else:
        both = "both" if output_size is not None else "neither"
        raise ValueError(
            f"{function}: give output_size or output_ratio, got {both}; write output_size={(4,) * len(axes)} for that "
            f"many windows, or output_ratio=0.5"
        )
    for a, kernel, count in zip(axes, kernels, counts, strict=True):
        most = array.shape[a] - kernel + 1
        if not 1 <= count <= most:
            given = f"output_size {count}" if output_ratio is None else f"output_ratio {output_ratio} gives {count}"
            fix = f"give 1 to {most}" if most > 1 else f"use a kernel_size below {array.shape[a]}"
            raise ValueError(
                f"{function}: {given} windows of {kernel} cells along axis {a}, which has {array.shape[a]}; {fix}"
            )
    if function.endswith("indices"):
        window.check_positions_fit(function)
    mask = check_mask(function, where, array.shape, axes)
    uniform = _check_samples(function, array, axes, key, samples)
    order = sorted(range(len(axes)), key=lambda number: axes[number])
    along = [jnp.expand_dims(uniform[..., number], axes) for number in order]
    shape = list(array.shape)
    for a, count in zip(axes, counts, strict=True):
        shape[a] = count
    core = partial(
        _pool,
        window=window,
        counts=tuple(counts[number] for number in order),
        rule=check_rule(function, rule),
        indices=function.endswith("indices"),
    )
    return evaluate_sharded(core, (array, mask, *along), range(array.ndim), shape)


@partial(jax.jit, static_argnames=("window", "counts", "rule", "indices"))
def _pool(
    x: jax.Array,
    mask: jax.Array | None,
    *samples: jax.Array,
    window: Window,
    counts: tuple[int, ...],
    rule: str,
    indices: bool,
) -> tuple[jax.Array, ...]:
    """Maxima of the windows at all cells, read where `counts` windows start by the samples, one array for each axis."""
    # In float32 from here on, so that cotangents of several windows are rounded once.
    wide = x.astype(accumulation_dtype(x.dtype))
    wide, *uniform = vary_together(wide, *samples)
    if indices:
        values, *positions = extremes_with_indices(wide, mask, window, lax.max, rule)
    else:
        values, positions = extremes(wide, mask, window, lax.max, rule), []
    for axis, sample, count in zip(window.axes, uniform, counts, strict=True):
        starts, read = _window_starts(sample, axis, count), _ReadAtPositions(axis.axis, axis.size - axis.kernel + 1)
        positions = [read.forward(array, starts) for array in positions]
        is_floating = jnp.issubdtype(values.dtype, jnp.inexact)
        values = apply_linear_map(read, values, starts) if is_floating else read.forward(values, starts)
    return values.astype(x.dtype), *positions


def _check_samples(function: str, x: jax.Array, axes: Sequence[int], key: Any, samples: Any) -> jax.Array:
    """The given samples, or those drawn with the key: one for each entry of the other axes and each axis in `axes`.

    Raise unless exactly one of the two is given, and valid.
    """
    if (key is None) == (samples is None):
        both = "both" if key is not None else "neither"
        raise ValueError(
            f"{function}: give a key or samples, got {both}; write key=jax.random.key(0), with another number or a key "
            f"of jax.random.split in every call"
        )
    shape = (*(size for axis, size in enumerate(x.shape) if axis not in axes), len(axes))
    if samples is None:
        return jax.random.uniform(
            check_key(function, key), shape, jnp.float64 if x.dtype == jnp.float64 else jnp.float32
        )
    samples = as_array(function, "samples", samples)
    if not jnp.issubdtype(samples.dtype, jnp.floating):
        raise TypeError(f"{function}: samples must be floats in [0, 1), got dtype {samples.dtype}")
    if samples.shape != shape:
        raise ValueError(
            f"{function}: samples of shape {samples.shape} do not match x {x.shape} pooled along {tuple(axes)}; "
            f"give the shape {shape}, the sizes of the other axes and one entry per pooled axis"
        )
    samples = jnp.asarray(samples)
    return samples.astype(np.promote_types(samples.dtype, np.float32))


def _window_starts(samples: jax.Array, axis: WindowAxis, count: int) -> jax.Array:
    """The first cells of `count` windows along an axis, strictly ascending, for samples of size 1 along it.

    The last window ends with the axis; those before it start at ⌊(i + u)·α⌋ - ⌊u·α⌋ with α = (n - k)/(m - 1) ≥ 1,
    computed in the dtype of the samples, whose rounding decides for products next to an integer.
    """
    room = axis.size - axis.kernel
    shape = [count if a == axis.axis else 1 for a in range(samples.ndim)]
    numbers = lax.broadcasted_iota(np.int32, shape, axis.axis)
    starts = jnp.full(jnp.broadcast_shapes(samples.shape, numbers.shape), room, np.int32)
    if count > 1:
        alpha = samples.dtype.type(room) / samples.dtype.type(count - 1)
        steps = (samples + numbers.astype(samples.dtype)) * alpha
        starts = jnp.where(numbers < count - 1, steps.astype(np.int32) - (samples * alpha).astype(np.int32), starts)
    # Samples in [0, 1) give such starts, but for rounding on long axes and just below 1; for others this enforces them.
    return lax.cummax(jnp.clip(starts - numbers, 0, room - count + 1), axis.axis) + numbers


# Notation: entry o of the result is read at position s(o), s ascending; a dot marks a tangent, a bar a cotangent.
#
#     y(o) = x(s(o))        ẏ(o) = ẋ(s(o))        x̄(p) = ȳ(o) where s(o) = p for some o, 0 elsewhere
#
# There is at most one such o: the last with s(o) ≤ p, if any. So the third formula is a gather too: from o if it
# exists, and otherwise from beyond the end, which reads 0. The second is the map itself.


@dataclass(frozen=True)
class _ReadAtPositions(LinearMap):
    """Read entries at positions along an axis of this size; axes along which there is one position share it."""

    axis: int
    size: int

    def forward(self, array: jax.Array, positions: jax.Array, /) -> jax.Array:
        return jnp.take_along_axis(array, positions, self.axis, mode="fill", fill_value=0)

    def transpose(self, cotangent: jax.Array, positions: jax.Array, /) -> jax.Array:
        return self.forward(cotangent, _sources(positions, self.axis, self.size))


def _sources(positions: jax.Array, axis: int, size: int) -> jax.Array:
    """The number of the result that is read at each cell of the axis; beyond all results where there is none."""
    count, cells = positions.shape[axis], lax.iota(np.int32, size)
    # Comparing with a few positions is faster than a search, whose reads are scattered.
    method = "compare_all" if count <= 128 else "scan_unrolled"

    @partial(jnp.vectorize, signature="(o)->(p)")
    def sources(positions: jax.Array) -> jax.Array:
        last = jnp.searchsorted(positions, cells, side="right", method=method).astype(np.int32) - 1
        read_here = positions.at[last].get(mode="clip") == cells
        return jnp.where(read_here & (last >= 0), last, count + cells)

    return jnp.moveaxis(sources(jnp.moveaxis(positions, axis, -1)), -1, axis)
