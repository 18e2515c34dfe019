"""Dilations and erosions by a structuring element: flat ones are extremes, those with heights max-plus sums.

The windows keep the shape of the array. Of even sizes the centre is the higher one of the two in the middle, and in a
dilation, whose element is mirrored, the lower one: "SAME_LOWER" and "SAME" padding. A max-plus sum is the largest sum
of a cell and a height at its offset, or the smallest difference. Heights may be learnt: forward and reverse mode read
and send numbers at the offset of the winner, among the cells and among the heights.
"""

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

from jaxpool._arrays import as_array, as_jax_takes
from jaxpool._call import check_array, core, sliding, widened
from jaxpool._derivatives.extremes import extremes
from jaxpool._derivatives.rules import LinearMap, apply_linear_map, custom_rule, is_symbolic_zero, with_rule
from jaxpool._engine.loops import fold_offsets, zeros_after
from jaxpool._engine.maps import ReadChosen, on_every_platform, read_at_offsets
from jaxpool._engine.operations import Arrays, Operation, identity
from jaxpool._engine.slices import replaces
from jaxpool._engine.stages import materialize
from jaxpool._engine.window_offsets import pad_windows
from jaxpool._engine.winners import no_offset
from jaxpool._geometry.footprint import Footprint, make_footprint
from jaxpool._geometry.sizes import Axes, Sizes, pooled_axes
from jaxpool._geometry.window import Window
from jaxpool._platforms import is_portable
from jaxpool._sharding import vary_together

Element = Sizes | Footprint | jax.Array | np.ndarray


def extremes_under_element(
    function: str,
    x: ArrayLike,
    element: Element,
    op: Operation,
    axis: Axes | None,
    where: ArrayLike | None,
    rule: str,
) -> jax.Array:
    """The dilation (`lax.max`) or the erosion (`lax.min`), in the name of a function."""
    element = as_jax_takes(function, "element", element)
    if hasattr(element, "__array__") and not isinstance(element, np.generic):
        element = as_array(function, "element", element)
    mirrored = op is lax.max
    padding = "SAME" if mirrored else "SAME_LOWER"
    if isinstance(element, (jax.Array, np.ndarray)) and element.dtype == np.bool_:
        element = make_footprint(element, function, "element")
    sliding_element = partial(sliding, function, where=where, rule=rule, values=(Footprint,), name="element")
    if not isinstance(element, (jax.Array, np.ndarray)):
        flat = element.mirrored() if isinstance(element, Footprint) and mirrored else element
        sizes = (flat, 1, padding, 1, False, axis)
        array, mask, window = sliding_element(x, sizes, only_padding="give the element its centre")
        return extremes(array, mask, window, op, rule)
    array = check_array(function, x)
    if not jnp.issubdtype(element.dtype, jnp.floating):
        raise TypeError(
            f"{function}: element has dtype {element.dtype}; give floats for heights, bool for cells, or a size as ints"
        )
    axes = _axes(function, array, element, axis)
    heights = jnp.asarray(element)
    # With axes besides the pooled ones, heights have those of x, in its order.
    own = axes if heights.ndim > len(axes) else range(heights.ndim)
    kernel = tuple(heights.shape[a] for a in own)
    array, mask, window = sliding_element(array, (kernel, 1, padding, 1, False, axes))
    if mirrored:
        heights = jnp.flip(heights, own)
    others = [1 if a in axes or heights.ndim < array.ndim else heights.shape[a] for a in range(array.ndim)]
    in_order = [own[n] for n in np.argsort(axes)]
    heights = jnp.moveaxis(heights, in_order, range(-len(axes), 0)).reshape(*others, -1)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(heights.dtype)
    return _max_plus(array, mask, heights, window, op, rule)


def _axes(function: str, x: jax.Array, heights: jax.Array | np.ndarray, axis: Axes | None) -> tuple[int, ...]:
    """The pooled axes in the order of the heights, or raise if these do not fit x."""
    axes = tuple(range(x.ndim - heights.ndim, x.ndim)) if axis is None else tuple(pooled_axes(function, x.shape, axis))
    fits = heights.ndim == len(axes) <= x.ndim
    if heights.ndim == x.ndim and not fits:
        fits = all(a in axes or size in (1, x.shape[a]) for a, size in enumerate(heights.shape))
    if not fits or not axes or axes[0] < 0:
        raise ValueError(
            f"{function}: element of shape {heights.shape} does not fit x {x.shape}; give it an axis for each of the "
            f"pooled axes {axis}, or all axes of x, with sizes of 1 or of x along the others"
        )
    return axes


def difference(first: jax.Array, second: jax.Array) -> jax.Array:
    """The difference of arrays of one dtype, or of one of heights; of bool arrays, where they differ."""
    dtype = first.dtype if jnp.issubdtype(first.dtype, jnp.floating) else second.dtype
    first, second = first.astype(dtype), second.astype(dtype)
    return first ^ second if dtype == np.bool_ else first - second


@core
def _max_plus(
    x: jax.Array, mask: jax.Array | None, heights: jax.Array, window: Window, op: Operation, rule: str
) -> jax.Array:
    """The largest cell + height of every window (`lax.max`), or its smallest cell - height (`lax.min`); 0 without any.

    The last axis of the heights is that of the offsets, in row-major order; the others broadcast to the output.
    """
    x, mask, window, dtype = widened(x, mask, window)
    x, heights = vary_together(x, heights.astype(x.dtype))
    return with_rule(rule, partial(_values, window, op))(x, heights, mask).astype(dtype)


# Notation: window o holds the cells x(i), i ∈ W(o), and j(i, o) is the offset of cell i in it; b are the heights. The
# winner c(o) is the first cell in row-major order that no other one beats, where NaN beats every number; cells with a
# height of -inf are absent. A dot marks a tangent, a bar a cotangent.
#
#     y(o) = x(c(o)) ± b(j(c(o), o))        ẏ(o) = ẋ(c(o)) ± ḃ(j(c(o), o))
#     x̄(i) = Σ_{o : c(o) = i} ȳ(o)          b̄(j) = ±Σ_{o : j(c(o), o) = j} ȳ(o)
#
# The winner is locally constant where it is unique. There these are the derivatives, and all higher ones are zero; at
# ties they are one element of the subdifferential. A window without any cell records the offset of no cell: it is 0,
# nothing is read for it, and it sends nothing. The lower sign is that of the smallest difference.


@custom_rule((0, 1))
def _values(window: Window, op: Operation, x: jax.Array, heights: jax.Array, mask: jax.Array | None) -> jax.Array:
    """Only the values, without the winners, for calls without derivatives."""
    if is_portable():
        return _select(window, op, x, heights, mask)[0]
    like = jax.ShapeDtypeStruct(window.output_shape(x.shape), x.dtype)
    return on_every_platform(partial(_extremes_of_sums, window, op), x, heights, mask, like=like)


@custom_rule((0, 1))
def _select(
    window: Window, op: Operation, x: jax.Array, heights: jax.Array, mask: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """The values, and the row-major offsets of the winners."""
    given = jax.tree.map(lax.stop_gradient, (x, heights)) if is_portable() else (x, heights)
    shape, dtypes = window.output_shape(x.shape), (x.dtype, no_offset(window).dtype)
    like = tuple(jax.ShapeDtypeStruct(shape, dtype) for dtype in dtypes)
    values, offsets = on_every_platform(partial(_first_winners, window, op), *given, mask, like=like)
    if is_portable():
        values = read_at_offsets(x, offsets, window) + _sign(op) * _at_offsets(heights, offsets)
    return values, offsets


@partial(_select.defjvp, symbolic_zeros=True)
def _select_jvp(window: Window, op: Operation, primals: Any, tangents: Any) -> Any:
    values, offsets = _select(window, op, *primals)
    x_dot, heights_dot, _ = tangents
    values_dot = jnp.zeros_like(values)
    if not is_symbolic_zero(x_dot):
        values_dot += apply_linear_map(ReadChosen(window), x_dot, offsets, like=values)
    if not is_symbolic_zero(heights_dot):
        read = _ReadHeights(heights_dot.shape)
        values_dot += _sign(op) * apply_linear_map(read, heights_dot, offsets, like=values)
    return (values, offsets), (values_dot, jax.custom_derivatives.zero_from_primal(offsets))


@partial(_values.defjvp, symbolic_zeros=True)
def _values_jvp(window: Window, op: Operation, primals: Any, tangents: Any) -> Any:
    (values, _), (values_dot, _) = _select_jvp(window, op, primals, tangents)
    return values, values_dot


def _sign(op: Operation) -> int:
    return 1 if op is lax.max else -1


def _padded(window: Window, op: Operation, x: jax.Array, mask: jax.Array | None) -> Arrays:
    """The cells, and which are present, of size 1 along axes that are not pooled if there is no mask."""
    pooled = [size if axis in window.pooled_axes else 1 for axis, size in enumerate(x.shape)]
    present = jnp.ones(pooled, bool) if mask is None else jnp.broadcast_to(mask, x.shape)
    return pad_windows(x, window, identity(op, x.dtype)), pad_windows(present, window, False)


def _added(op: Operation, heights: jax.Array, cells: Arrays, number: Any) -> Arrays:
    """The sums of the cells at an offset and their height, and which of them there are."""
    cell, is_present = cells
    height = lax.dynamic_index_in_dim(heights, jnp.asarray(number, np.int32), -1, keepdims=False)
    return cell + _sign(op) * height, is_present & (height != -jnp.inf)


def _extremes_of_sums(
    window: Window, op: Operation, x: jax.Array, heights: jax.Array, mask: jax.Array | None
) -> jax.Array:
    padded, worst = _padded(window, op, x, mask), identity(op, x.dtype)

    def take(best: Arrays, cells: Arrays, number: Any) -> Arrays:
        (value, held), (added, is_cell) = best, _added(op, heights, cells, number)
        return op(value, jnp.where(is_cell, added, worst)), held | is_cell

    start = zeros_after(window.output_shape(x.shape), x.dtype, window, *padded) + worst
    none_held = jnp.zeros(np.broadcast_shapes(window.output_shape(padded[1].shape), heights.shape[:-1]), bool)
    values, held = fold_offsets(take, (start, none_held), padded, window)
    return jnp.where(held, values, 0)


def _first_winners(
    window: Window, op: Operation, x: jax.Array, heights: jax.Array, mask: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    none, padded = no_offset(window), _padded(window, op, x, mask)

    def take_better(best: Arrays, cells: Arrays, number: Any) -> Arrays:
        (value, offset), (added, is_cell) = best, _added(op, heights, cells, number)
        is_better = is_cell & ((offset == none) | replaces(value, added, op))
        number = jnp.asarray(number, offset.dtype)
        return jnp.where(is_better, added, value), jnp.where(is_better, number, offset)

    shape = window.output_shape(x.shape)
    start = zeros_after(shape, x.dtype, window, *padded)
    values, offsets = fold_offsets(take_better, (start, jnp.full_like(start, none, none.dtype)), padded, window)
    # In the loop of what reads both, every step would evaluate the one before it for each: exponentially long code.
    return materialize(values), materialize(offsets)


@dataclass(frozen=True)
class _ReadHeights(LinearMap):
    """Read the heights, of this shape, at the offset in every window; the transpose adds in one order."""

    shape: Sequence[int]

    def forward(self, heights: jax.Array, offsets: jax.Array, /) -> jax.Array:
        return _at_offsets(heights, offsets)

    def transpose(self, cotangent: jax.Array, offsets: jax.Array, /) -> jax.Array:
        shared = [axis for axis, size in enumerate(self.shape[:-1]) if size == 1]
        # Materialized, or each height would find the winners again.
        cotangent, offsets = materialize(cotangent), materialize(offsets)

        def total(number: jax.Array) -> jax.Array:
            sent = jnp.where(offsets == number, cotangent, 0)
            return sent.sum(shared, keepdims=True)

        return jax.vmap(total, out_axes=-1)(jnp.arange(self.shape[-1], dtype=offsets.dtype))


def _at_offsets(heights: jax.Array, offsets: jax.Array) -> jax.Array:
    """The height at the offset in every window; 0 at the offset of no cell."""
    *shape, cells = heights.shape
    rows = jnp.arange(math.prod(shape), dtype=np.int32).reshape(shape) * np.int32(cells)
    places = rows + jnp.minimum(offsets, cells - 1).astype(np.int32)
    return jnp.where(offsets < cells, jnp.take(heights.ravel(), places, mode="clip"), 0)
