"""Grey-scale morphology: dilation and erosion of images and signals by a structuring element, and their chains.

An element is flat, a box or a `jaxpool.footprint`, or an array of heights, which may be learnt and differ from channel
to channel. Results have the shape of x. As in `scipy.ndimage` an erosion looks at the cells x[o + j - c], with the
centre c = size//2 of the element, and a dilation at x[o + c - j]: so openings are never above x, and closings never
below. Cells beyond the array take no part: SciPy needs mode="constant" and cval=-inf (dilation) or inf (erosion) for
that. For boxes its default gives the same.

Dilations and erosions: dilation, erosion.
Chains of them: opening, closing, white_top_hat, black_top_hat, gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arguments import Rule
from jaxpool._call import check_array
from jaxpool._engine.operations import Operation
from jaxpool._geometry.sizes import Axes
from jaxpool._structuring_element import Element, difference, extremes_under_element


def dilation(
    x: ArrayLike, element: Element, *, axis: Axes | None = None, where: ArrayLike | None = None, rule: Rule = "jvp"
) -> jax.Array:
    """Dilation: the largest cell under the mirrored element, each with its height added.

    Formula along an axis: y[o] = max over j of x[o + c - j] + b[j], 0 ≤ j < size, with c = size//2 and the heights b of
    the element, 0 for a flat one. Cells beyond the array are left out.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        element: Its size, one int per pooled axis; a `jaxpool.footprint`, or a bool array that is not traced; or an
            array of float heights, in units of x, with an axis for each pooled axis, in the order of `axis`. It may be
            learnt. A height of -inf leaves its cell out. An array with as many axes as x has heights of its own along
            the other axes, such as channels, where its sizes are x's or 1.
        axis: The pooled axes, in the order of `element`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None; where it is False there is no cell.
        rule: "jvp" for every mode and order of differentiation; "vjp" for a hand-written backward pass only.

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
    return extremes_under_element("dilation", x, element, lax.max, axis, where, rule)


def erosion(
    x: ArrayLike, element: Element, *, axis: Axes | None = None, where: ArrayLike | None = None, rule: Rule = "jvp"
) -> jax.Array:
    """Erosion: the smallest cell under the element, each with its height subtracted.

    Formula along an axis: y[o] = min over j of x[o + j - c] - b[j], 0 ≤ j < size, with c = size//2 and the heights b of
    the element, 0 for a flat one. Cells beyond the array are left out.

    Args:
        x: Array of any shape, as in `dilation`.
        element: Size, footprint or heights, as in `dilation`.
        axis: The pooled axes, in the order of `element`; the last ones if None.
        where: Boolean mask that broadcasts to x.shape, or None, as in `dilation`.
        rule: "jvp" or "vjp", as in `dilation`.

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
    return extremes_under_element("erosion", x, element, lax.min, axis, where, rule)


def opening(
    x: ArrayLike, element: Element, *, axis: Axes | None = None, where: ArrayLike | None = None, rule: Rule = "jvp"
) -> jax.Array:
    """Opening: an erosion, then a dilation by the same element, which removes what is brighter and too small for it.

    Formula: y = dilation(erosion(x)), the largest function below x that is made of shifted elements. Opening again
    changes nothing.

    Args:
        x: Array of any shape, as in `dilation`.
        element: Size, footprint or heights, as in `dilation`.
        axis: The pooled axes, in the order of `element`; the last ones if None.
        where: Boolean mask that broadcasts to x.shape, or None, as in `dilation`.
        rule: "jvp" or "vjp", as in `dilation`.

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
    """Closing: a dilation, then an erosion by the same element, which fills what is darker and too small for it.

    Formula: y = erosion(dilation(x)). Closing again changes nothing.

    Args:
        x: Array of any shape, as in `dilation`.
        element: Size, footprint or heights, as in `dilation`.
        axis: The pooled axes, in the order of `element`; the last ones if None.
        where: Boolean mask that broadcasts to x.shape, or None, as in `dilation`.
        rule: "jvp" or "vjp", as in `dilation`.

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
        x: Array of any shape, as in `dilation`.
        element: Size, footprint or heights, as in `dilation`.
        axis: The pooled axes, in the order of `element`; the last ones if None.
        where: Boolean mask that broadcasts to x.shape, or None, as in `dilation`.
        rule: "jvp" or "vjp", as in `dilation`.

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
    return difference(array, _chain("white_top_hat", array, element, (lax.min, lax.max), axis, where, rule))


def black_top_hat(
    x: ArrayLike, element: Element, *, axis: Axes | None = None, where: ArrayLike | None = None, rule: Rule = "jvp"
) -> jax.Array:
    """Black top hat: what a closing adds, dark details that are too small for the element.

    Formula: y = closing(x) - x, never negative for a flat element; of bool arrays, the closing without x.

    Args:
        x: Array of any shape, as in `dilation`.
        element: Size, footprint or heights, as in `dilation`.
        axis: The pooled axes, in the order of `element`; the last ones if None.
        where: Boolean mask that broadcasts to x.shape, or None, as in `dilation`.
        rule: "jvp" or "vjp", as in `dilation`.

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
    return difference(_chain("black_top_hat", array, element, (lax.max, lax.min), axis, where, rule), array)


def gradient(
    x: ArrayLike, element: Element, *, axis: Axes | None = None, where: ArrayLike | None = None, rule: Rule = "jvp"
) -> jax.Array:
    """Morphological gradient: the range of the cells under the element, large at edges.

    Formula: y = dilation(x) - erosion(x), never negative for an element with a height of at least 0 at its centre; of
    bool arrays, where the two differ. Differences of integers wrap.

    Args:
        x: Array of any shape, as in `dilation`.
        element: Size, footprint or heights, as in `dilation`.
        axis: The pooled axes, in the order of `element`; the last ones if None.
        where: Boolean mask that broadcasts to x.shape, or None, as in `dilation`.
        rule: "jvp" or "vjp", as in `dilation`.

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
    dilated = extremes_under_element("gradient", x, element, lax.max, axis, where, rule)
    return difference(dilated, extremes_under_element("gradient", x, element, lax.min, axis, where, rule))


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
        x = extremes_under_element(function, x, element, op, axis, where, rule)
    return jnp.asarray(x)
