"""Dilations and erosions by a structuring element: flat ones are extremes, those with heights max-plus sums.

The windows keep the shape of the array. Of even sizes the centre is the higher one of the two in the middle, and in a
dilation, whose element is mirrored, the lower one: "SAME_LOWER" and "SAME" padding.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._call import check_array, sliding
from jaxpool._derivatives.extremes import extremes
from jaxpool._derivatives.max_plus import max_plus
from jaxpool._engine.operations import Operation
from jaxpool._geometry.footprint import Footprint, make_footprint
from jaxpool._geometry.sizes import Axes, Sizes, pooled_axes

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
    mirrored = op is lax.max
    padding = "SAME" if mirrored else "SAME_LOWER"
    if isinstance(element, (jax.Array, np.ndarray)) and element.dtype == np.bool_:
        element = make_footprint(element)
    if not isinstance(element, (jax.Array, np.ndarray)):
        flat = element.mirrored() if isinstance(element, Footprint) and mirrored else element
        sizes = (flat, 1, padding, 1, False, axis)
        array, mask, window = sliding(function, x, sizes, where, rule, only_padding="give the element its centre")
        return extremes(array, mask, window, op, rule)
    array = check_array(function, x)
    if not jnp.issubdtype(element.dtype, jnp.floating):
        raise TypeError(
            f"{function}: element has dtype {element.dtype}; give floats for heights, bool for cells, or a size as ints"
        )
    axes = _axes(function, array, element, axis)
    heights = jnp.asarray(element)
    own = axes if heights.ndim == array.ndim else range(heights.ndim)
    kernel = tuple(heights.shape[a] for a in own)
    array, mask, window = sliding(function, array, (kernel, 1, padding, 1, False, axes), where, rule)
    if mirrored:
        heights = jnp.flip(heights, own)
    others = [1 if a in axes or heights.ndim < array.ndim else heights.shape[a] for a in range(array.ndim)]
    in_order = [own[n] for n in np.argsort(axes)]
    heights = jnp.moveaxis(heights, in_order, range(-len(axes), 0)).reshape(*others, -1)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(heights.dtype)
    return max_plus(array, mask, heights, window, op, rule)


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


def difference(upper: ArrayLike, lower: ArrayLike) -> jax.Array:
    """The difference of arrays of one dtype, or of one of heights; of bool arrays, where they differ."""
    first, second = jnp.asarray(upper), jnp.asarray(lower)
    dtype = first.dtype if jnp.issubdtype(first.dtype, jnp.floating) else second.dtype
    first, second = first.astype(dtype), second.astype(dtype)
    return first ^ second if dtype == np.bool_ else first - second
