"""How weighted pools take their windows: axes in turn, long windows in pieces, and zeros in the padding as cells.

The derivatives of a pool of one part of its windows after the other are those of one pool after the other. Some cells
are in no window of the next pool: those after the last window or in gaps, and pieces that lie between windows or reach
from one into the next. A backward pass reaches them all the same, with the cotangent 0; but the weight of a NaN is NaN.
So cells that no window holds pass nothing back; and NaN is left out of pieces, and put into the values and derivatives
of the windows that hold it.

Where padding counts as zeros, the array keeps its size, and reductions of the real cells get what the zeros add, if
that takes less time than to extend it by real zeros. This, the order of the axes, and whether there are pieces, is
chosen while tracing, for the named platform or JAX's default one: a contract between both passes that every platform
can evaluate. Thresholds for CPUs are from measurements.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._derivatives.rules import LinearMap, apply_linear_map, custom_rule
from jaxpool._engine import gpu, primitives
from jaxpool._engine.maps import reduce_windows
from jaxpool._engine.operations import Operation
from jaxpool._engine.stages import materialize
from jaxpool._engine.window_offsets import holds_all_cells, with_zeros_in_padding
from jaxpool._geometry.pieces import Pieces, divide_window, stacked
from jaxpool._geometry.window import Window
from jaxpool._platforms import default_platform, may_be_shared
from jaxpool._sharding import vary_with


def terms_order(window: Window) -> tuple[Window, ...]:
    """The format of a norm: the windows that it is taken over in turn, the first one first, as in `exponentials_order`.

    On a CPU, up to 9 cells with little overlap, all axes at once are 2 to 4 times faster, as every further axis needs
    logarithms.
    """
    if default_platform() != "cpu":
        return exponentials_order(window)
    overlaps = window.cells / math.prod(axis.stride for axis in window.axes)
    return (window,) if window.cells <= 9 and overlaps <= 4 else window.split()[::-1]


def exponentials_order(window: Window) -> tuple[Window, ...]:
    """The format of a mean or sum of exponentials: the windows that it is taken over in turn, the first one first.

    Up to 16 cells all axes are taken at once: on a CPU gradients take 0.4 to 1 times as long, as every axis needs its
    own sums. With strides the first axis leaves fewer cells for the innermost one, whose strides fill no vectors.
    """
    return (window,) if window.cells <= gpu.MOST_TERMS else window.split()[::-1]


def merge_whole_axes(window: Window, x: jax.Array, *others: jax.Array | None) -> tuple[Any, ...]:
    """The windows and arrays with all cells along one axis, if one window holds all cells of adjacent axes.

    The others get size 1. On a CPU one axis mostly takes 0.2 to 1 times as long as two in turn, and compiles faster.
    """
    first, last, cells = window.axes[0], window.axes[-1], window.cells
    adjacent = 0 < last.axis - first.axis == len(window.axes) - 1
    if not (adjacent and holds_all_cells(window)) or default_platform() != "cpu" or may_be_shared(x):
        return window, x, *others

    def merge(array: jax.Array | None) -> jax.Array | None:
        if array is None:
            return None
        shape = *array.shape[: first.axis], *[1] * (last.axis - first.axis), cells, *array.shape[last.axis + 1 :]
        # Materialized, or the cotangent would be computed in the shorter rows of its own shape.
        return materialize(array.reshape(shape))

    merged = replace(window, axes=(replace(last, size=cells, kernel=cells, stride=cells),))
    return merged, *map(merge, (x, *others))


def is_in_pieces(part: Window) -> bool:
    """The format of a long window along one axis: whether weighted pools are taken over pieces of it.

    Up to 32 cells that is no faster on a CPU; beyond 64 the program would be long and slow to compile.
    """
    (axis, *others) = part.axes
    on_cpu = default_platform() == "cpu"
    long = axis.kernel > 64 or (on_cpu and axis.kernel > max(32, 8 * axis.stride))
    return long and not (others or part.tiles or part.has_bins or part.has_footprint)


def with_zeros(x: jax.Array, mask: jax.Array | None, window: Window) -> tuple[jax.Array, jax.Array | None, Window]:
    """The array, the mask and the windows with zeros in the padding, which may become real cells.

    They do if windows also hold cells beyond the padding, which never count; if axes are pooled one after the other, as
    padding along one axis then holds the pool of zeros along another; in pieces, which lie within the array; and with a
    footprint, whose zeros are not those of one axis after the other.
    """
    first, *others = exponentials_order(window)
    beyond = any(axis.overhang > axis.high for axis in window.axes)
    if beyond or others or is_in_pieces(first) or window.has_footprint:
        return with_zeros_in_padding(x, mask, window)
    return x, mask, replace(window, zeros=True)


def extremes_with_zeros(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """The extreme of every window by `op`, including the zeros in it if padded cells are zeros."""
    found = reduce_windows(x, window, op)
    for axis in window.axes if window.zeros else ():
        if not axis.is_full:
            holds_zeros = axis.counts(x.ndim, padding=False) < axis.kernel
            found = jnp.where(holds_zeros, op(found, jnp.zeros_like(found)), found)
    return found


def sums_with_zeros(multiplicity: jax.Array, window: Window) -> jax.Array:
    """The sum of the multiplicities in every window; a padded cell counts once if it is a zero."""
    sums = reduce_windows(multiplicity, window, lax.add)
    if not window.zeros:
        return sums
    return sums + jnp.asarray(window.cells - window.counts(multiplicity.ndim, padding=False), sums.dtype)


def any_present(mask: jax.Array, window: Window) -> jax.Array:
    """Whether a window holds an unmasked cell, or a zero in the padding."""
    nonempty = reduce_windows(mask, window, lax.max)
    return nonempty | (window.counts(mask.ndim, padding=False) < window.cells) if window.zeros else nonempty


def without_uncovered(x: jax.Array, window: Window, *, learnt: bool) -> jax.Array:
    """The array, with cotangent 0 for cells that no window holds; if a number is learnt, these cells are also 0.

    The cotangent of the number is a sum over all windows along the first axes, even those that no window along the next
    axes holds.
    """
    if not window.uncovered_axes():
        return x
    if learnt or not primitives.available():
        return _zero_uncovered(x, window)
    return apply_linear_map(_PassBackToCovered(window), x)


def _zero_uncovered(x: jax.Array, window: Window) -> jax.Array:
    for covered in window.covered(x.ndim):
        x = jnp.where(covered, x, jnp.zeros_like(x))
    return x


@dataclass(frozen=True)
class _PassBackToCovered(LinearMap):
    """The identity, as uncovered cells change no value; its transpose sets their cotangents to 0.

    In a program of one loop, setting the cells to 0 would be repeated for every window that reads a cell.
    """

    window: Window

    def forward(self, x: jax.Array, /) -> jax.Array:
        return x

    def transpose(self, cotangent: jax.Array, /) -> jax.Array:
        return _zero_uncovered(cotangent, self.window)


def is_shared(parameter: jax.Array, window: Window) -> bool:
    """Whether the parameter, of full rank, is one number along the pooled axes."""
    return all(parameter.shape[axis] == 1 for axis in window.pooled_axes)


def in_slabs_of(x: jax.Array, parameter: jax.Array | None, window: Window) -> tuple[jax.Array, ...]:
    """A shared parameter, if there is one, with the size of x along a first axis that is not pooled, for `in_slabs`."""
    if parameter is None:
        return ()
    batch = 1 if 0 in window.pooled_axes else x.shape[0]
    return (vary_with(jnp.broadcast_to(parameter, (batch, *parameter.shape[1:])), x),)


def sum_shared(cotangents: jax.Array, parameter: jax.Array) -> jax.Array:
    """The sum over the axes along which the parameter is one number."""
    return cotangents.sum([axis for axis, size in enumerate(parameter.shape) if size == 1], keepdims=True)


def over_parts(
    step: Callable[..., Any],
    cells: Callable[[jax.Array], Any],
    value: Callable[[Any], jax.Array],
    parts: Sequence[Window] | None,
    x: jax.Array,
    mask: jax.Array | None,
    window: Window,
) -> jax.Array:
    """Pool x over one part after the other; the mask, if any, tells in which cells NaN counts.

    Without parts all cells of a window are pooled at once, which a parameter of each window requires.

    A state is what there is of every cell or window, in arrays: `cells(x)` makes the first one, `step(state, part)` the
    next, and `value` the result. `step(state, part, counts)` pools arrays stacked along a new first axis, whose entries
    stand for so many cells each.
    """
    if parts is None:
        return value(step(cells(x), window))

    def pool_in_turn(x: jax.Array) -> jax.Array:
        return value(last_state(step, cells(x), parts))

    if not any(map(is_in_pieces, parts)):
        return pool_in_turn(x)
    nan = jnp.isnan(x)
    holds_nan = reduce_windows(nan if mask is None else nan & mask, window, lax.max)
    values = pool_in_turn(_without_nan(x))
    return values * jnp.where(holds_nan, jnp.nan, 1).astype(values.dtype)


def last_state(step: Callable[..., Any], state: Any, parts: Sequence[Window]) -> Any:
    """The state after one part after the other."""
    for part in parts:
        state = _over_pieces(step, state, part) if is_in_pieces(part) else step(state, part)
    return state


def _over_pieces(step: Callable[..., Any], cells: Any, part: Window) -> Any:
    division = divide_window(part)
    kinds = [cells]

    def pool_pieces(pieces: Pieces) -> Any:
        (axis,) = pieces.window.axes
        reached = partial(lax.slice_in_dim, start_index=pieces.first, limit_index=pieces.end, axis=axis.axis)
        return step(jax.tree.map(reached, kinds[pieces.kind]), pieces.window)

    for pieces in division.kinds:
        kinds.append(pool_pieces(pieces))
    groups = list(map(pool_pieces, division.groups))
    if len(groups) == 1:
        return groups[0]
    together = jax.tree.map(lambda *arrays: jnp.stack(arrays), *groups)
    counts = [pieces.cells for pieces in division.groups]
    return jax.tree.map(lambda array: lax.squeeze(array, (0,)), step(together, stacked(len(groups)), counts))


@custom_rule()
def _without_nan(x: jax.Array) -> jax.Array:
    return jnp.where(jnp.isnan(x), 0, x)


@_without_nan.defjvp
def _without_nan_jvp(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    # The cotangent of NaN itself is NaN.
    return _without_nan(*primals), tangents[0]
