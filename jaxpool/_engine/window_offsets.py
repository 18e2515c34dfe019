"""Windows seen as shifted slices: the cells at one offset of all the windows, as an array of the output's shape.

An *offset* says which cell of a window is meant: an int for each pooled axis, or the row-major number of the cell.
Everything in the engine that `lax.reduce_window` does not do is a loop over offsets, written out in the traced program.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._engine.blocks import fold
from jaxpool._engine.borders import Sliced, slices_of
from jaxpool._engine.operations import barrier, pad
from jaxpool._engine.platforms import known_platform
from jaxpool._geometry.window import Window, WindowAxis


def offsets_in(window: Window) -> Iterator[tuple[int, ...]]:
    """Every offset in the window, in row-major order."""
    return itertools.product(*(range(axis.kernel) for axis in window.axes))


def pad_windows(x: jax.Array, window: Window, fill: Any) -> jax.Array:
    """Extend x by `fill`, and crop the cells that no window reaches, until the windows tile it exactly.

    The barrier keeps the compiler's simplifier from rewriting the pad and the slices that read it into each other. It
    does not bind fusion on the CPU, where barriers are dropped before it.
    """
    # On a TPU a crop is a pass over the array, and slices do without.
    crops = known_platform() != "tpu" or window.tiles
    above = {axis.axis: axis.overhang if crops else max(axis.overhang, 0) for axis in window.axes}
    padded = pad(x, {axis.axis: (axis.low, above[axis.axis]) for axis in window.axes}, fill)
    grown = any(max(axis.low, axis.overhang) > 0 for axis in window.axes)
    return barrier(padded) if grown else padded


def cells_at_offsets(x: jax.Array, window: Window, fill: Any) -> Iterator[jax.Array]:
    """The cells at every offset of all the windows, in row-major order; padded ones hold `fill`."""
    sliced = [_sliced(axis, x.ndim) for axis in window.axes]
    if any(axis.is_shared for axis in sliced):
        at = slices_of(x, sliced, fill)
        return map(at, itertools.product(*(axis.starts for axis in sliced)))
    padded = pad_windows(x, window, fill)
    return (at_offset(padded, window, offset) for offset in offsets_in(window))


def _sliced(axis: WindowAxis, rank: int) -> Sliced:
    starts = tuple(offset * axis.dilation - axis.low for offset in range(axis.kernel))
    return Sliced(rank, axis.axis, axis.size, axis.output, axis.stride, starts)


def at_offset(padded: jax.Array, window: Window, offset: tuple[int, ...]) -> jax.Array:
    """The cells at an offset of all the windows, from the array that `pad_windows` made."""
    starts, limits, strides = [0] * padded.ndim, list(padded.shape), [1] * padded.ndim
    for axis, along in zip(window.axes, offset, strict=True):
        start = along * axis.dilation
        starts[axis.axis] = start
        limits[axis.axis] = start + (axis.output - 1) * axis.stride + 1
        # Where an axis is sharded, the compiler loses single cells that it is to take at a stride.
        strides[axis.axis] = axis.stride if axis.output > 1 else 1
    return lax.slice(padded, starts, limits, strides)


def sum_terms(
    term: Callable[..., Any],
    cells: Sequence[tuple[jax.Array, float]],
    window: Window,
    multiplicity: jax.Array | None = None,
) -> Any:
    """Σ multiplicity·term(*cells) over every window, one offset at a time; cells come with what padded ones hold.

    The term may be several arrays. Where the multiplicity is 0 it sees inf for the last of the cells,
    and its result is left out.
    """

    def weighed(multiplicity: jax.Array, *cells: jax.Array) -> Any:
        added = term(*cells[:-1], jnp.where(multiplicity > 0, cells[-1], jnp.inf))
        return jax.tree.map(lambda one: jnp.where(multiplicity > 0, multiplicity * one, 0), added)

    if multiplicity is None:
        return sum_over_offsets(term, cells, window)
    return sum_over_offsets(weighed, ((multiplicity, float(window.zeros)), *cells), window)


def sum_over_offsets(term: Callable[..., Any], cells: Sequence[tuple[jax.Array, float]], window: Window) -> Any:
    """Σ term(*cells) over every window, of arrays with what padded cells hold; the term may be several arrays.

    Large windows that tile an array are not written out one by one: the term is evaluated for all cells together.
    """
    if window.tiles and window.cells > 64:
        blocks = [_cells_first(pad_windows(array, window, fill), window) for array, fill in cells]
        for _ in window.axes:
            term = jax.vmap(term)
        axes = range(len(window.axes))
        return jax.tree.map(lambda each: lax.squeeze(fold(each, axes, lax.add), axes), term(*blocks))
    total = None
    for here in zip(*(cells_at_offsets(array, window, fill) for array, fill in cells), strict=True):
        added = term(*here)
        total = added if total is None else jax.tree.map(jnp.add, total, added)
    assert total is not None
    return total


def _cells_first(array: jax.Array, window: Window) -> jax.Array:
    """The cells of windows that tile an array, along an axis in front for each pooled axis, the last one first."""
    for number, axis in enumerate(window.axes):
        at = axis.axis + number
        shape = (*array.shape[:at], axis.output, axis.kernel, *array.shape[at + 1 :])
        array = jnp.moveaxis(array.reshape(shape), at + 1, 0)
    return array


def pad_real(x: jax.Array, window: Window, fill: Any) -> jax.Array:
    """Make the declared padding real cells that hold `fill`; `window.after_padding()` is the window of the result."""
    return pad(x, {axis.axis: (axis.low, axis.high) for axis in window.axes}, fill)


def with_zeros_in_padding(
    x: jax.Array, mask: jax.Array | None, window: Window
) -> tuple[jax.Array, jax.Array | None, Window]:
    """The array with real zeros in its declared padding, cells that the mask holds, and the windows of the result."""
    return pad_real(x, window, 0), None if mask is None else pad_real(mask, window, True), window.after_padding()
