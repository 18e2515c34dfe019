"""The cells at one offset of all windows, as an array of the output's shape: what everything elementwise rests on.

An *offset* identifies a cell of a window: by an int for each pooled axis, or by its row-major number. Whatever
`lax.reduce_window` cannot do, the engine does with a loop over offsets, unrolled in the traced program. The cells are a
strided slice of the padded array or, for bins of unequal sizes, a gather from a table of their places; `loops` cuts
them out of a block of a large window.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._engine.bins_as_tiles import by_table, cells_at_place, copy_to_tiles
from jaxpool._engine.blocks import fold, most_sharing, reduce_blocks
from jaxpool._engine.operations import Arrays, pad
from jaxpool._engine.platforms import known_platform
from jaxpool._engine.stages import barrier, materialize
from jaxpool._geometry.window import Window


def offsets_in(window: Window) -> Iterator[tuple[int, ...]]:
    """Every offset in the window, in row-major order."""
    offsets = itertools.product(*(range(axis.kernel) for axis in window.axes))
    if not window.has_footprint:
        return offsets
    held = set(window.numbers)
    return (offset for number, offset in enumerate(offsets) if number in held)


def pad_windows(x: jax.Array, window: Window, fill: Any) -> jax.Array:
    """Extend x by `fill`, and crop the cells that no window reaches, so that the windows cover it exactly.

    Bins that are not gathered by tables become tiles, so that the result is the same as for other windows.
    The barrier keeps the compiler's simplifier from merging the padding with the slices that read it. It does not
    restrict fusion on the CPU, which drops barriers first.
    """
    # On a TPU a crop is a pass over the array, and slices do not need it.
    crops = known_platform() != "tpu" or window.tiles
    above = {axis.axis: axis.overhang if crops else max(axis.overhang, 0) for axis in window.axes}
    if window.has_bins:
        x = barrier(x) if by_table(window) else copy_to_tiles(x, window, fill)
    padded = pad(x, {axis.axis: (axis.low, above[axis.axis]) for axis in window.axes}, fill)
    grown = any(max(axis.low, axis.overhang) > 0 for axis in window.axes)
    return barrier(padded) if grown else padded


def cells_at_offsets(x: jax.Array, window: Window, fill: Any) -> Iterator[jax.Array]:
    """The cells of all windows at every offset, in row-major order; padded and absent cells hold `fill`."""
    padded = pad_windows(x, window, fill)
    return (at_offset(padded, window, offset, fill) for offset in offsets_in(window))


def at_offset(padded: jax.Array, window: Window, offset: tuple[int, ...], fill: Any = 0) -> jax.Array:
    """The cells of all windows at an offset, from the result of `pad_windows`; `fill` where a bin has no such cell."""
    if window.has_bins and by_table(window):
        return cells_at_place(padded, window, offset[0], fill)
    starts, limits, strides = [0] * padded.ndim, list(padded.shape), [1] * padded.ndim
    for axis, along in zip(window.axes, offset, strict=True):
        start = along * axis.dilation
        starts[axis.axis] = start
        limits[axis.axis] = start + (axis.output - 1) * axis.stride + 1
        # Along a sharded axis the compiler loses a single cell that is taken with a stride.
        strides[axis.axis] = axis.stride if axis.output > 1 else 1
    return lax.slice(padded, starts, limits, strides)


def sum_terms(
    term: Callable[[Arrays, Arrays], Any],
    cells: Sequence[tuple[jax.Array, float]],
    window: Window,
    multiplicity: jax.Array | None,
    windows: Sequence[Any],
) -> Any:
    """Σ multiplicity·term(cells, windows) over every window, one offset at a time.

    The term gets one cell of every window, from each array that comes with its padding value, and arrays of windows. It
    may be several arrays. Where the multiplicity is 0, it gets inf for the last of the cells, and its result is left
    out.
    """

    def plain(*cells: jax.Array) -> Any:
        return term(cells, tuple(windows))

    def weighed(multiplicity: jax.Array, *cells: jax.Array) -> Any:
        added = plain(*cells[:-1], jnp.where(multiplicity > 0, cells[-1], jnp.inf))
        return jax.tree.map(lambda one: jnp.where(multiplicity > 0, multiplicity * one, 0), added)

    if multiplicity is None:
        return sum_over_offsets(plain, cells, window)
    return sum_over_offsets(weighed, ((multiplicity, float(window.zeros)), *cells), window)


def sum_over_offsets(term: Callable[..., Any], cells: Sequence[tuple[jax.Array, float]], window: Window) -> Any:
    """Σ term(*cells) over every window; each array comes with its padding value, and the term may be several arrays.

    Large windows that tile an array are not unrolled, nor is a single one that devices share: the term is evaluated for
    all cells together.
    """
    devices = [most_sharing(axis) for axis in reversed(window.axes)] if window.tiles else []
    if devices and (window.cells > (16 if window.is_single else 64) or max(devices) > 1):
        blocks = [pad_windows(array, window, fill) for array, fill in cells]
        if window.is_single:
            terms = term(*blocks)
            if is_innermost(window, blocks[0].shape):
                # Computed while they are added, the terms of adjacent cells fill no vectors.
                terms = jax.tree.map(materialize, terms)
            return jax.tree.map(lambda each: reduce_blocks(each, window, lax.add), terms)
        blocks = [_cells_first(array, window) for array in blocks]
        for _ in window.axes:
            term = jax.vmap(term)
        axes = range(len(window.axes))
        return jax.tree.map(lambda each: lax.squeeze(fold(each, axes, lax.add, devices), axes), term(*blocks))
    # Traced once for all offsets.
    term = jax.jit(term, inline=True)
    total = None
    for here in zip(*(cells_at_offsets(array, window, fill) for array, fill in cells), strict=True):
        added = term(*here)
        total = added if total is None else jax.tree.map(jnp.add, total, added)
    assert total is not None
    return total


def _cells_first(array: jax.Array, window: Window) -> jax.Array:
    """The cells of windows that tile an array, along a leading axis for each pooled axis, the last one first."""
    for number, axis in enumerate(window.axes):
        at = axis.axis + number
        shape = (*array.shape[:at], axis.output, axis.kernel, *array.shape[at + 1 :])
        array = jnp.moveaxis(array.reshape(shape), at + 1, 0)
    return array


def is_innermost(window: Window, shape: Sequence[int], *, channels: int = 16) -> bool:
    """Whether windows run along the axis whose cells are adjacent in memory, or with fewer channels behind it."""
    behind = shape[window.axes[-1].axis + 1 :]
    # A symbolic size may have any value.
    return all(isinstance(size, int) for size in behind) and math.prod(behind) < channels


def present_cells(mask: jax.Array | None, window: Window, rank: int) -> jax.Array | None:
    """Which cells are present; None if windows hold no others."""
    if (
        mask is not None
        or window.zeros
        or all((axis.counts(padding=False) == axis.kernel).all() for axis in window.axes)
    ):
        return mask
    sizes = {axis.axis: axis.size for axis in window.axes}
    return jnp.ones([sizes.get(axis, 1) for axis in range(rank)], bool)


def pad_real(x: jax.Array, window: Window, fill: Any) -> jax.Array:
    """Turn the declared padding into real cells that hold `fill`; `window.after_padding()` then applies."""
    return pad(x, {axis.axis: (axis.low, axis.high) for axis in window.axes}, fill)


def with_zeros_in_padding(
    x: jax.Array, mask: jax.Array | None, window: Window
) -> tuple[jax.Array, jax.Array | None, Window]:
    """The array and the mask with the declared padding as real zeros, unmasked, and the windows of the result."""
    return pad_real(x, window, 0), None if mask is None else pad_real(mask, window, True), window.after_padding()
