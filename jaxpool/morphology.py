"""Grey-scale morphology: dilation and erosion of images and signals by a structuring element, and their chains.

An element is flat, a box or a `jaxpool.footprint`, or a learnable array of heights, which may differ from channel to
channel. Results have the shape of x. As in `scipy.ndimage` an erosion looks at the cells x[o + j - c], with the
centre c = size//2 of the element, and a dilation at x[o + c - j]: so openings are never above x, and closings never
below. Cells beyond the array take no part: SciPy needs mode="constant" and cval=-inf (dilation) or inf (erosion) for
that. For boxes its default gives the same.

Dilations and erosions: dilation, erosion.
Chains of them: opening, closing, white_top_hat, black_top_hat, gradient.
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

from jaxpool._call import complete_docstrings, core, sliding, widened
from jaxpool._checks import Rule, as_array, as_jax_takes, check_array
from jaxpool._extremes import extremes
from jaxpool._jax.linear_map import LinearMap, apply_linear_map, custom_rule, with_rule
from jaxpool._jax.platforms import is_portable
from jaxpool._jax.stages import materialize
from jaxpool._kernels import Footprint, make_footprint
from jaxpool._sharding import vary_together
from jaxpool._sizes import Axes, Sizes, pooled_axes
from jaxpool._window import Window
from jaxpool._windows.cells import fold_offsets, pad_windows, zeros_after
from jaxpool._windows.choices import ReadChosen, on_every_platform
from jaxpool._windows.operations import Arrays, Operation, identity
from jaxpool._windows.select import no_offset, replaces
from jaxpool._words import answer_calls, answer_names


def dilation(
    x: ArrayLike, element: Element, *, axis: Axes | None = None, where: ArrayLike | None = None, rule: Rule = "jvp"
) -> jax.Array:
    """Dilation: the largest cell under the mirrored element, after its heights are added.

    Formula along an axis: y[o] = max over j of x[o + c - j] + b[j], 0 ≤ j < size, with c = size//2 and the heights b of
    the element, 0 for a flat one. Cells beyond the array are left out.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        element: Its size, one int per pooled axis; a `jaxpool.footprint`, or a bool array that is not traced; or a
            learnable array of float heights, in units of x, with an axis for each pooled axis, in the order of `axis`.
            A height of -inf leaves its cell out. An array with as many axes as x gives other axes, such as channels,
            their own heights; along these its sizes are x's or 1.
        axis: The pooled axes, in the order of `element`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are ignored.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of x's shape and dtype. With heights, integers and bool become the dtype of the heights, and 16-bit floats
        are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, or the element holds no cell of x at some place.

    Derivative:
        ∂y/∂x is 1 at the winner, else 0, and ∂y/∂b[j] is 1 for the height of the winner. Ties: the first winner in
        row-major order takes all. NaN wins over numbers. Where `where` or the heights leave no cell, the value is 0
        with derivative 0.

    Example:
        >>> x = jnp.array([0.0, 0.0, 5.0, 0.0, 0.0])
        >>> jaxpool.morphology.dilation(x, (3,))
        Array([0., 5., 5., 5., 0.], dtype=float32)
        >>> jaxpool.morphology.dilation(x, jnp.array([-2.0, 0.0, -1.0]))
        Array([0., 3., 5., 4., 0.], dtype=float32)

    Source: Sternberg, "Grayscale morphology", Computer Vision, Graphics, and Image Processing 35, 1986.
    """
    return _under_element("dilation", x, element, lax.max, axis, where, rule)


def erosion(
    x: ArrayLike, element: Element, *, axis: Axes | None = None, where: ArrayLike | None = None, rule: Rule = "jvp"
) -> jax.Array:
    """Erosion: the smallest cell under the element, after its heights are subtracted.

    Formula along an axis: y[o] = min over j of x[o + j - c] - b[j], 0 ≤ j < size, with c = size//2 and the heights b of
    the element, 0 for a flat one. Cells beyond the array are left out.

    Args:
        x, element, axis, where, rule: As in `dilation`.

    Returns:
        Array of x's shape, and of the dtype of `dilation`.

    Raises:
        TypeError, ValueError: As `dilation`.

    Derivative:
        ∂y/∂x is 1 at the winner, else 0, and ∂y/∂b[j] is -1 for the height of the winner; else as in `dilation`.

    Example:
        >>> jaxpool.morphology.erosion(jnp.array([3.0, 3.0, 1.0, 3.0, 3.0]), (2,))
        Array([3., 3., 1., 1., 3.], dtype=float32)
    """
    return _under_element("erosion", x, element, lax.min, axis, where, rule)


def opening(
    x: ArrayLike, element: Element, *, axis: Axes | None = None, where: ArrayLike | None = None, rule: Rule = "jvp"
) -> jax.Array:
    """Opening: an erosion, then a dilation by the same element, which removes bright details that are too small for it.

    Formula: y = dilation(erosion(x)), the largest function below x that is made of shifted elements. Opening again
    changes nothing.

    Args:
        x, element, axis, where, rule: As in `dilation`.

    Returns:
        Array of x's shape, and of the dtype of `dilation`; never above an unmasked cell of x, up to rounding.

    Raises:
        TypeError, ValueError: As `dilation`.

    Derivative:
        By the chain rule from those of `dilation` and `erosion`: 1 at the winner of the winner.

    Example:
        >>> jaxpool.morphology.opening(jnp.array([0.0, 5.0, 0.0, 4.0, 4.0, 4.0, 0.0]), (3,))
        Array([0., 0., 0., 4., 4., 4., 0.], dtype=float32)
    """
    return _chain("opening", x, element, (lax.min, lax.max), axis, where, rule)


def closing(
    x: ArrayLike, element: Element, *, axis: Axes | None = None, where: ArrayLike | None = None, rule: Rule = "jvp"
) -> jax.Array:
    """Closing: a dilation, then an erosion by the same element, which fills dark details that are too small for it.

    Formula: y = erosion(dilation(x)). Closing again changes nothing.

    Args:
        x, element, axis, where, rule: As in `dilation`.

    Returns:
        Array of x's shape, and of the dtype of `dilation`; never below an unmasked cell of x, up to rounding.

    Raises:
        TypeError, ValueError: As `dilation`.

    Derivative:
        By the chain rule from those of `dilation` and `erosion`: 1 at the winner of the winner.

    Example:
        >>> jaxpool.morphology.closing(jnp.array([4.0, 4.0, 0.0, 4.0, 4.0]), (3,))
        Array([4., 4., 4., 4., 4.], dtype=float32)
    """
    return _chain("closing", x, element, (lax.max, lax.min), axis, where, rule)


def white_top_hat(
    x: ArrayLike, element: Element, *, axis: Axes | None = None, where: ArrayLike | None = None, rule: Rule = "jvp"
) -> jax.Array:
    """White top hat: what an opening removes, bright details that are too small for the element.

    Formula: y = x - opening(x), never negative for a flat element; of bool arrays, x without its opening.

    Args:
        x, element, axis, where, rule: As in `dilation`.

    Returns:
        Array of x's shape, and of the dtype of `dilation`.

    Raises:
        TypeError, ValueError: As `dilation`.

    Derivative:
        1 at the cell, minus that of `opening`.

    Example:
        >>> jaxpool.morphology.white_top_hat(jnp.array([1.0, 6.0, 1.0, 4.0, 4.0, 4.0]), (3,))
        Array([0., 5., 0., 0., 0., 0.], dtype=float32)
    """
    array = check_array("white_top_hat", x)
    return _difference(array, _chain("white_top_hat", array, element, (lax.min, lax.max), axis, where, rule))


def black_top_hat(
    x: ArrayLike, element: Element, *, axis: Axes | None = None, where: ArrayLike | None = None, rule: Rule = "jvp"
) -> jax.Array:
    """Black top hat: what a closing adds, dark details that are too small for the element.

    Formula: y = closing(x) - x, never negative for a flat element; of bool arrays, the closing without x.

    Args:
        x, element, axis, where, rule: As in `dilation`.

    Returns:
        Array of x's shape, and of the dtype of `dilation`.

    Raises:
        TypeError, ValueError: As `dilation`.

    Derivative:
        That of `closing`, minus 1 at the cell.

    Example:
        >>> jaxpool.morphology.black_top_hat(jnp.array([4.0, 1.0, 4.0, 4.0]), (3,))
        Array([0., 3., 0., 0.], dtype=float32)
    """
    array = check_array("black_top_hat", x)
    return _difference(_chain("black_top_hat", array, element, (lax.max, lax.min), axis, where, rule), array)


def gradient(
    x: ArrayLike, element: Element, *, axis: Axes | None = None, where: ArrayLike | None = None, rule: Rule = "jvp"
) -> jax.Array:
    """Morphological gradient: the range of the cells under the element, large at edges.

    Formula: y = dilation(x) - erosion(x), never negative for an element with a height of at least 0 at its centre; of
    bool arrays, where the two differ. Differences of integers wrap.

    Args:
        x, element, axis, where, rule: As in `dilation`.

    Returns:
        Array of x's shape, and of the dtype of `dilation`.

    Raises:
        TypeError, ValueError: As `dilation`.

    Derivative:
        That of `dilation` minus that of `erosion`.

    Example:
        >>> jaxpool.morphology.gradient(jnp.array([1.0, 1.0, 1.0, 7.0, 7.0, 7.0]), (3,))
        Array([0., 0., 6., 6., 0., 0.], dtype=float32)
    """
    dilated = _under_element("gradient", x, element, lax.max, axis, where, rule)
    return _difference(dilated, _under_element("gradient", x, element, lax.min, axis, where, rule))


def _chain(
    function: str,
    x: ArrayLike,
    element: Element,
    ops: Sequence[Operation],
    axis: Axes | None,
    where: ArrayLike | None,
    rule: Rule,
) -> jax.Array:
    """Dilations (`lax.max`) and erosions (`lax.min`), one after the other, in the name of a function."""
    for op in ops:
        x = _under_element(function, x, element, op, axis, where, rule)
    return jnp.asarray(x)


Element = Sizes | Footprint | jax.Array | np.ndarray


def _under_element(
    function: str, x: ArrayLike, element: Element, op: Operation, axis: Axes | None, where: ArrayLike | None, rule: str
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


def _difference(first: jax.Array, second: jax.Array) -> jax.Array:
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
    """Without derivatives the values need no winners: 15×15 heights take a third of the time."""
    if is_portable():
        return _at_winners(window, op, mask, x, heights)
    like = jax.ShapeDtypeStruct(window.output_shape(x.shape), x.dtype)
    return on_every_platform(partial(_extremes_of_sums, window, op), x, heights, mask, like=like)


@_values.defjvp
def _values_jvp(window: Window, op: Operation, primals: Any, tangents: Any) -> Any:
    (*arrays, mask), (*dots, _) = primals, tangents
    return jax.jvp(partial(_at_winners, window, op, mask), arrays, dots)


def _at_winners(window: Window, op: Operation, mask: jax.Array | None, x: jax.Array, heights: jax.Array) -> jax.Array:
    """The same values, from the cells and the heights at the winners: linear maps, of which JAX derives the rules."""
    like = jax.ShapeDtypeStruct(window.output_shape(x.shape), no_offset(window).dtype)
    given = lax.stop_gradient((x, heights))
    offsets = on_every_platform(partial(_first_winners, window, op), *given, mask, like=like)
    cells = apply_linear_map(ReadChosen(window), x, offsets)
    return cells + _sign(op) * apply_linear_map(_ReadHeights(heights.shape), heights, offsets)


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
) -> jax.Array:
    """The row-major offsets of the winners."""
    none, padded = no_offset(window), _padded(window, op, x, mask)

    def take_better(best: Arrays, cells: Arrays, number: Any) -> Arrays:
        (value, offset), (added, is_cell) = best, _added(op, heights, cells, number)
        is_better = is_cell & ((offset == none) | replaces(value, added, op))
        return jnp.where(is_better, added, value), jnp.where(is_better, jnp.asarray(number, offset.dtype), offset)

    start = zeros_after(window.output_shape(x.shape), x.dtype, window, *padded)
    _, offsets = fold_offsets(take_better, (start, jnp.full_like(start, none, none.dtype)), padded, window)
    # Or what reads at them would find the winners again for every cell.
    return materialize(offsets)


@dataclass(frozen=True)
class _ReadHeights(LinearMap):
    """Read the heights, of this shape, at the offset in every window, 0 at that of no cell.

    The transpose adds in one order.
    """

    shape: Sequence[int]

    def forward(self, heights: jax.Array, offsets: jax.Array, /) -> jax.Array:
        *shape, cells = self.shape
        rows = jnp.arange(math.prod(shape), dtype=np.int32).reshape(shape) * np.int32(cells)
        places = rows + jnp.minimum(offsets, cells - 1).astype(np.int32)
        return jnp.where(offsets < cells, jnp.take(heights.ravel(), places, mode="clip"), 0)

    def transpose(self, cotangent: jax.Array, offsets: jax.Array, /) -> jax.Array:
        shared = [axis for axis, size in enumerate(self.shape[:-1]) if size == 1]
        # Materialized, or each height would find the winners again.
        cotangent, offsets = materialize(cotangent), materialize(offsets)

        def total(number: jax.Array) -> jax.Array:
            return jnp.where(offsets == number, cotangent, 0).sum(shared, keepdims=True)

        return jax.vmap(total, out_axes=-1)(jnp.arange(self.shape[-1], dtype=offsets.dtype))


complete_docstrings(__name__)
answer_calls(__name__)
answer_names(__name__)
