"""Maxima and minima: the largest or smallest cell of every window, of bins and of whole axes, and where it is.

The derivative of an extreme only moves numbers: forward mode reads the tangent at the winner, reverse mode sends the
cotangent to it. Values, indices and derivatives in every mode must agree on the winner. All of them follow the offsets
of one selection, which are kept, or found again among the cells in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._call import LESS_PADDING, binned, core, extended, keep_axes, sliding
from jaxpool._checks import Rule
from jaxpool._jax.linear_map import CellSelector, LinearMap, ValuesAndResiduals, selected_values, values_and_residuals
from jaxpool._jax.platforms import default_platform
from jaxpool._kernels import KernelSize, whole
from jaxpool._sizes import Axes, OutputSizes, Padding, Sizes
from jaxpool._window import Window
from jaxpool._windows.choices import (
    FindWinners,
    ReadWinners,
    first_present,
    first_winners,
    keeps_cells,
    on_every_platform,
    reduce_windows,
    windows_in_turn,
)
from jaxpool._windows.operations import Operation, identity
from jaxpool._windows.select import Masked, composed, winner_positions


def max_pool(
    x: ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Max pooling: the largest cell of every window.

    By default the last axes are pooled, one for each entry of `kernel_size`. If channels come last, write axis="NHWC",
    a letter for each axis of x: every axis except N and C is pooled.

    Formula along an axis: y[o] = max over j of x[o·stride - low + j·dilation], 0 ≤ j < kernel_size, padded and
    masked cells left out. With several pooled axes a window is the product of its axes' windows.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. A single int applies to every axis in
            `axis`. Or `jaxpool.bins`, `jaxpool.whole` or `jaxpool.footprint`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side: an int, an int per axis, a (low, high) pair per axis, "VALID" (none), "SAME"
            (n/stride windows, rounded up; an odd cell goes high), "SAME_LOWER" (an odd cell goes low), or, with
            e = dilation·(kernel_size - 1) + 1, "CAUSAL" (e - 1 low) or "SEMICAUSAL" (max(e - stride, 0) low, the rest
            of e - 1 high). Or copies of the cells of x, as in `np.pad`, (e - 1)//2 low and e//2 high: "WRAP" (from the
            other end), "REFLECT" (mirrored, without repeating the outermost cell), "SYMMETRIC" (mirrored with it) or
            "EDGE" (of the outermost cell). Copies are real cells, and the derivative with respect to a cell is the sum
            over its copies. An entry for an axis may be a word too, or a word for copies with amounts, as in
            padding=("CAUSAL", ("REFLECT", (2, 1)), (0, 1)). Words may be in lower case.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: If True, keep a last window that starts in the input but runs past the padding; nothing there counts.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are ignored.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of x's dtype. A pooled axis of n cells becomes floor((n + low + high - e)/stride) + 1, where
        e = dilation·(kernel_size - 1) + 1; with `ceil_mode`, ceil replaces floor, less one if the last window would
        start in the high padding. Other axes are unchanged.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y[o]/∂x[i] = 1 if i is the winner of window o, else 0; higher derivatives are 0. Ties: the first winner in
        row-major order takes all. NaN wins over numbers; NaNs tie, as +0 and -0 do. Padding and masked cells never win,
        not even against -inf. A window that `where` empties is 0 with derivative 0.

    Example:
        >>> jaxpool.max_pool(jnp.arange(16.0).reshape(4, 4), (2, 2))
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("max_pool", x, sizes, where, rule, only_padding=LESS_PADDING)
    return extremes(array, mask, window, lax.max, rule)


def min_pool(
    x: ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Min pooling: the smallest cell of every window.

    Formula along an axis: y[o] = min over j of x[o·stride - low + j·dilation], 0 ≤ j < kernel_size, padded and masked
    cells left out. For floats it is -max_pool(-x).

    Args:
        x, kernel_size, stride, padding, dilation, ceil_mode, axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, or a window holds only padding.

    Derivative:
        That of `max_pool`, with the smallest cell as the winner. NaN wins over numbers; padding and masked cells never
        win, not even against +inf. A window that `where` empties is 0 with derivative 0.

    Example:
        >>> jaxpool.min_pool(jnp.arange(16.0).reshape(4, 4), (2, 2))
        Array([[ 0.,  2.],
               [ 8., 10.]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("min_pool", x, sizes, where, rule, only_padding=LESS_PADDING)
    return extremes(array, mask, window, lax.min, rule)


def max_pool_with_indices(
    x: ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> tuple[jax.Array, jax.Array]:
    """Max pooling with indices (argmax): the largest cell of every window, and where it is in x.

    Formula: y[o] = x[i[o]] with i[o] the first cell of window o, in row-major order, that holds its maximum.

    Args:
        x, kernel_size, stride, padding, dilation, ceil_mode, axis, where, rule: As in `max_pool`.

    Returns:
        Values of x's dtype and int32 indices, both of `max_pool`'s shape,
        floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without `ceil_mode`. An index is the
        winner's row-major position in x's pooled axes, without padding, in x's own order; a copy has that of its cell.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, a window holds only padding, or indices exceed int32.

    Derivative:
        That of `max_pool` for the values: 1 at the cell that the index names, else 0; none for the indices. A window
        that `where` empties has the value 0, the index -1 and derivative 0.

    Example:
        >>> jaxpool.max_pool_with_indices(jnp.array([3.0, 1.0, 2.0, 2.0]), (2,))
        (Array([3., 2.], dtype=float32), Array([0, 2], dtype=int32))
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("max_pool_with_indices", x, sizes, where, rule, only_padding=LESS_PADDING)
    window.check_positions_fit("max_pool_with_indices")
    return extremes_with_indices(array, mask, window, lax.max, rule)


def min_pool_with_indices(
    x: ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> tuple[jax.Array, jax.Array]:
    """Min pooling with indices (argmin): the smallest cell of every window, and where it is in x.

    Formula: y[o] = x[i[o]] with i[o] the first cell of window o, in row-major order, that holds its minimum.

    Args:
        x, kernel_size, stride, padding, dilation, ceil_mode, axis, where, rule: As in `max_pool`.

    Returns:
        Values of x's dtype and int32 indices, both of `max_pool`'s shape,
        floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without `ceil_mode`. An index is the
        winner's row-major position in x's pooled axes, without padding, in x's own order; a copy has that of its cell.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, a window holds only padding, or indices exceed int32.

    Derivative:
        That of `min_pool` for the values: 1 at the cell that the index names, else 0; none for the indices. A window
        that `where` empties has the value 0, the index -1 and derivative 0.

    Example:
        >>> values, indices = jaxpool.min_pool_with_indices(jnp.array([1.0, 3.0, 2.0, 2.0]), (2,))
        >>> values, indices
        (Array([1., 2.], dtype=float32), Array([0, 2], dtype=int32))
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("min_pool_with_indices", x, sizes, where, rule, only_padding=LESS_PADDING)
    window.check_positions_fit("min_pool_with_indices")
    return extremes_with_indices(array, mask, window, lax.min, rule)


def adaptive_max_pool(
    x: ArrayLike,
    output_size: OutputSizes,
    *,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Adaptive max pooling: the largest cell of every bin.

    By default the last axes are pooled, one for each entry of `output_size`. If channels come last, write axis="NHWC",
    a letter for each axis of x: every axis except N and C is pooled.

    Formula, for one pooled axis of n cells in m bins: y[o] = max of x[i], floor(o·n/m) ≤ i < ceil((o+1)·n/m), masked
    cells left out. The bins are PyTorch's: they cover the axis, and where m does not divide n some neighbours share a
    cell.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        output_size: Number of bins, one int per pooled axis: (7, 7) pools two axes. It may exceed the number of cells;
            None keeps an axis as it is. A single int applies to every axis in `axis`.
        axis: The pooled axes, in the order of `output_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where, rule: As in `max_pool`.

    Returns:
        Array of x's dtype; the pooled axes have the sizes in `output_size`.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, or `rule` is unknown.

    Derivative:
        That of `max_pool`, over the cells of each bin: 1 at the first winner in row-major order, else 0. A cell that
        wins two bins gets both cotangents. A bin that `where` empties is 0 with derivative 0.

    Example:
        >>> jaxpool.adaptive_max_pool(jnp.array([1.0, 2.0, 5.0, 4.0, 3.0]), (3,))
        Array([2., 5., 4.], dtype=float32)
    """
    array, mask, window = binned("adaptive_max_pool", x, output_size, axis, where, rule)
    return extremes(array, mask, window, lax.max, rule)


def adaptive_max_pool_with_indices(
    x: ArrayLike,
    output_size: OutputSizes,
    *,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> tuple[jax.Array, jax.Array]:
    """Adaptive max pooling with indices (argmax): the largest cell of every bin, and where it is in x.

    Formula: y[o] = x[i[o]] with i[o] the first cell of bin o, in row-major order, that holds its maximum; bin o of m
    along an axis of n cells holds those with floor(o·n/m) ≤ i < ceil((o+1)·n/m).

    Args:
        x, output_size, axis, where, rule: As in `adaptive_max_pool`.

    Returns:
        Values of x's dtype and int32 indices; the pooled axes have the sizes in `output_size`. An index is the winner's
        row-major position in x's pooled axes, those kept by None included, in x's own order.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, or indices exceed int32.

    Derivative:
        That of `adaptive_max_pool` for the values: 1 at the cell that the index names, else 0; none for the indices. A
        bin that `where` empties has the value 0, the index -1 and derivative 0.

    Example:
        >>> jaxpool.adaptive_max_pool_with_indices(jnp.array([1.0, 2.0, 5.0, 4.0, 3.0]), (3,))
        (Array([2., 5., 4.], dtype=float32), Array([1, 2, 3], dtype=int32))
    """
    function = "adaptive_max_pool_with_indices"
    array, mask, window = binned(function, x, output_size, axis, where, rule)
    window.check_positions_fit(function)
    return extremes_with_indices(array, mask, window, lax.max, rule)


def global_max_pool(
    x: ArrayLike, *, axis: Axes, keepdims: bool = True, where: ArrayLike | None = None, rule: Rule = "jvp"
) -> jax.Array:
    """Global max pooling: the largest cell of whole axes.

    Formula: y = max over all i of x[i] along `axis`, masked cells left out. Unlike `jnp.max`, whose gradient is shared
    among ties and which may lose NaN on the CPU, it follows the rules of `max_pool`.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        axis: The pooled axes, an int or several, or letters for all axes: "NHWC" pools all but N and C.
        keepdims: Whether the pooled axes remain, with size 1: (N, 1, 1, C); if not, they are dropped: (N, C).
        where, rule: As in `max_pool`.

    Returns:
        Array of x's dtype; the pooled axes have size 1, or are dropped without `keepdims`.

    Raises:
        TypeError: x is complex or not an array, an axis is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, a pooled axis has no cells, or `rule` is unknown.

    Derivative:
        That of `max_pool`, over all cells along `axis`: 1 at the first winner in row-major order, else 0. Where `where`
        leaves no cell, y is 0 with derivative 0.

    Example:
        >>> x = jnp.array([[1.0, 4.0], [3.0, 4.0]])
        >>> jaxpool.global_max_pool(x, axis=(-2, -1))
        Array([[4.]], dtype=float32)
        >>> jax.grad(lambda x: jaxpool.global_max_pool(x, axis=(-2, -1)).sum())(x)
        Array([[0., 1.],
               [0., 0.]], dtype=float32)
    """
    array, mask, window = binned("global_max_pool", x, whole, axis, where, rule)
    values = extremes(array, mask, window, lax.max, rule)
    return keep_axes("global_max_pool", values, window, keepdims)


# Which windows have an unmasked cell, broadcastable against the output, and the mask as the engine expects it.
Present = tuple[jax.Array, Masked]


@core
def extremes(
    x: jax.Array, mask: jax.Array | None, window: Window, op: Operation, rule: str, narrow: Any = None
) -> jax.Array:
    """The extreme of every window by `lax.max` or `lax.min`, over the cells that the mask holds; 0 without any.

    If x was widened from a `narrow` dtype, that is the dtype of the cells that are kept.
    """
    dtype = x.dtype
    x, mask, window = extended(x, mask, window)
    is_kept = default_platform() == "tpu" and mask is None and keeps_cells(window, x.dtype)
    kept = np.dtype(x.dtype if narrow is None else narrow) if is_kept else None
    parts = (window,) if is_kept else windows_in_turn(window, x.shape)
    return selected_values(_Winners(window, op, parts, kept), rule, x, _present(mask, parts)).astype(dtype)


@core
def extremes_with_indices(
    x: jax.Array, mask: jax.Array | None, window: Window, op: Operation, rule: str
) -> tuple[jax.Array, jax.Array]:
    """The extreme of every window and its winner's row-major position in the pooled axes; 0 and -1 if it is empty."""
    dtype, given = x.dtype, window
    x, mask, window = extended(x, mask, window)
    parts = windows_in_turn(window, x.shape)
    present = _present(mask, parts)
    values, ((offsets, *others),) = values_and_residuals(_Winners(window, op, parts), rule, x, present)
    if others:
        offsets = on_every_platform(partial(composed, windows=parts), offsets, *others)
    positions = winner_positions(offsets, given)
    return values.astype(dtype), positions if present is None else jnp.where(present[0], positions, np.int32(-1))


def _present(mask: jax.Array | None, parts: tuple[Window, ...]) -> Present | None:
    if mask is None:
        return None
    nonempty, first = first_present(mask, parts)
    return nonempty, (mask, first)


# Notation: window o holds the cells W(o); c(o) ∈ W(o) is its winner, the first cell in row-major order that no other
# cell of W(o) beats, where NaN beats every number; a dot marks a tangent, a bar a cotangent.
#
#     y(o) = x(c(o))        ẏ(o) = ẋ(c(o))        x̄(i) = Σ_{o : c(o) = i} ȳ(o)
#
# The winner is locally constant where it is unique. There these are the derivatives, and all higher ones are zero; at
# ties they are one element of the subdifferential (for the minimum: superdifferential). The second and third formulas
# are the two directions of `ReadWinners`, which needs the offsets of the winners but not x, or on TPUs mostly those of
# `FindWinners`: there x itself is kept, and the winners are found again. With a mask, W(o) has only unmasked
# cells, so derivatives need no mask: no masked cell wins, and an empty window, where y is 0, records the offset of no
# cell, so nothing is read or sent.


@dataclass(frozen=True)
class _Winners(CellSelector):
    window: Window
    op: Operation
    parts: tuple[Window, ...]
    # Where the cells are kept, and the winners found again, the dtype of the cells in memory; else None.
    kept: np.dtype | None = None

    def values(self, x: jax.Array, present: Present | None, /) -> jax.Array:
        if present is None:
            return reduce_windows(x, self.window, self.op)
        nonempty, (mask, _) = present
        values = reduce_windows(jnp.where(mask, x, identity(self.op, x.dtype)), self.window, self.op)
        return jnp.where(nonempty, values, jnp.zeros_like(values))

    def select(self, x: jax.Array, present: Present | None, /) -> ValuesAndResiduals:
        if self.kept is not None:
            values = self.values(x, present)
            return values, (x.astype(self.kept), values.astype(self.kept))
        if present is None:
            values, offsets = first_winners(x, self.parts, self.op)
            return values, (offsets,)
        nonempty, masked = present
        values, offsets = first_winners(x, self.parts, self.op, masked)
        return jnp.where(nonempty, values, jnp.zeros_like(values)), (offsets,)

    @property
    def read(self) -> LinearMap:
        return ReadWinners(self.parts) if self.kept is None else FindWinners(self.window, self.op)
