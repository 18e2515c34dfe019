"""Windows seen as shifted slices: the cells at one offset of all the windows, as an array of the output's shape.

A *tap* is an offset into the window, one entry per pooled axis, in row-major order. Everything in the engine
that `lax.reduce_window` does not do is a loop over taps, written out in the traced program.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._engine.blocks import fold
from jaxpool._engine.operations import barrier, pad
from jaxpool._engine.platforms import known_platform
from jaxpool._geometry.window import Window


def taps(window: Window) -> Iterator[tuple[int, ...]]:
    """Every offset into the window, in row-major order."""
    return itertools.product(*(range(axis.kernel) for axis in window.axes))


def pad_windows(x: jax.Array, window: Window, fill: Any) -> jax.Array:
    """Extend x by `fill`, and crop the cells that no window reaches, until the windows tile it exactly.

    The barrier keeps the compiler's simplifier from rewriting the pad and the slices that read it into each other. It
    does not bind fusion on the CPU, where barriers are dropped before it.
    """
    # On a TPU a crop is a pass over the array, and slices do without.
    crops = known_platform() != "tpu" or window.tiles
    above = {axis.axis: axis.beyond if crops else max(axis.beyond, 0) for axis in window.axes}
    padded = pad(x, {axis.axis: (axis.low, above[axis.axis]) for axis in window.axes}, fill)
    grown = any(max(axis.low, axis.beyond) > 0 for axis in window.axes)
    return barrier(padded) if grown else padded


def at_tap(padded: jax.Array, window: Window, tap: tuple[int, ...]) -> jax.Array:
    """The cells at offset `tap` of all the windows, from the array that `pad_windows` made."""
    starts, limits, strides = [0] * padded.ndim, list(padded.shape), [1] * padded.ndim
    for axis, offset in zip(window.axes, tap, strict=True):
        start = offset * axis.dilation
        starts[axis.axis] = start
        limits[axis.axis] = start + (axis.output - 1) * axis.stride + 1
        # Where an axis is sharded, the compiler loses single cells that it is to take at a stride.
        strides[axis.axis] = axis.stride if axis.output > 1 else 1
    return lax.slice(padded, starts, limits, strides)


def sum_terms(
    term: Callable[..., Any],
    cells: Sequence[tuple[jax.Array, float]],
    window: Window,
    amount: jax.Array | None = None,
) -> Any:
    """Σ amount·term(*cells) over every window, the cells at one offset at a time, given with what padded ones hold.

    The term may be several arrays. Where there is no amount the last of the cells are inf for it, and what it makes of
    them is left out.
    """

    def weighed(amount: jax.Array, *cells: jax.Array) -> Any:
        added = term(*cells[:-1], jnp.where(amount > 0, cells[-1], jnp.inf))
        return jax.tree.map(lambda one: jnp.where(amount > 0, amount * one, 0), added)

    padded = [pad_windows(array, window, fill) for array, fill in cells]
    if amount is None:
        return sum_over_taps(term, padded, window)
    return sum_over_taps(weighed, (pad_windows(amount, window, 0), *padded), window)


def sum_over_taps(term: Callable[..., Any], padded: Sequence[jax.Array], window: Window) -> Any:
    """Σ term(*cells) over every window, of arrays that `pad_windows` made; the term may be several arrays.

    Large windows that tile an array are not written out tap by tap: the term is evaluated for all cells together.
    """
    if window.tiles and window.cells > 64:
        blocks = [_cells_first(array, window) for array in padded]
        for _ in window.axes:
            term = jax.vmap(term)
        axes = range(len(window.axes))
        return jax.tree.map(lambda each: lax.squeeze(fold(each, axes, lax.add), axes), term(*blocks))
    total = None
    for tap in taps(window):
        added = term(*(at_tap(array, window, tap) for array in padded))
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
