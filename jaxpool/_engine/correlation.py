"""Sums of windows whose cells are weighted by their offset, and the transpose of such a sum, one axis after the other.

The weight of a cell is a product of one number per axis. These are Python numbers of the traced program. Both
directions are sums of shifted slices, each times a number.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.cpu.choose import blurs_in_stages
from jaxpool._engine.operations import barrier, pad, separate_term
from jaxpool._engine.stages import materialize
from jaxpool._engine.window_offsets import at_offset, offsets_in, pad_windows
from jaxpool._geometry.window import Window, WindowAxis

# The weights of the cells along each axis of a window, by their offset.
Weights = Sequence[Sequence[float]]


def correlate(x: jax.Array, window: Window, weights: Weights) -> jax.Array:
    """Sums of windows whose cells are weighted by their offset; padded cells are 0."""
    in_stages = blurs_in_stages(window)
    for number, along in enumerate(reversed(list(zip(window.axes, weights, strict=True)))):
        x = _correlate_axis(materialize(x) if number and in_stages else x, *along)
    return x


def transpose_correlation(cotangent: jax.Array, window: Window, weights: Weights) -> jax.Array:
    """The transpose of `correlate`."""
    in_stages = blurs_in_stages(window)
    for number, along in enumerate(zip(window.axes, weights, strict=True)):
        cotangent = _spread_axis(materialize(cotangent) if number and in_stages else cotangent, *along)
    return cotangent


def _correlate_axis(x: jax.Array, axis: WindowAxis, weights: Sequence[float]) -> jax.Array:
    """y(o) = Σ_j weights[j]·x(o·stride - low + j·dilation); padded cells are 0."""
    window = Window((axis,))
    padded = pad_windows(x, window, 0)
    return _sum([_times(at_offset(padded, window, offset), weights[offset[0]]) for offset in offsets_in(window)])


# Write the cells as i = q·stride + r with 0 ≤ r < stride, and low as first·stride + shift with 0 ≤ shift < stride. Then
# window o = first + q - t holds cell i at the offset j = (t·stride + r + shift)/dilation, where that is a whole number
# from 0 and below the kernel size, so that
#
#     x̄(q, r) = Σ_t weights[(t·stride + r + shift)/dilation]·ȳ(first + q - t)
#
# For every r this is a sum of shifted slices of ȳ, and for all r together the terms are as many as the weights.


def _spread_axis(cotangent: jax.Array, axis: WindowAxis, weights: Sequence[float]) -> jax.Array:
    """x̄(i) = Σ_o weights[j]·ȳ(o), where window o holds cell i at its offset j: the transpose of `_correlate_axis`."""
    first, shift = divmod(axis.low, axis.stride)
    rows = -(-axis.size // axis.stride)
    steps = range(-1 if shift else 0, (axis.extent - 1 - shift) // axis.stride + 1)
    amounts = (steps[-1] - first, first + rows - steps[0] - axis.output)
    around = pad(cotangent, {axis.axis: amounts}, 0)
    if any(amounts):
        around = barrier(around)
    parts: list[jax.Array] = []
    unheld = 0
    for r in range(axis.stride):
        terms = []
        for t in steps:
            offset, rest = divmod(t * axis.stride + r + shift, axis.dilation)
            if rest == 0 and 0 <= offset < axis.kernel:
                start = steps[-1] - t
                here = lax.slice_in_dim(around, start, start + rows, 1, axis.axis)
                terms.append(_times(here, weights[offset]))
        if terms:
            parts += [*_zeros(cotangent, axis, rows, unheld), jnp.expand_dims(_sum(terms), axis.axis + 1)]
        unheld = 0 if terms else unheld + 1
    parts += _zeros(cotangent, axis, rows, unheld)
    cells = lax.concatenate(parts, axis.axis + 1) if len(parts) > 1 else parts[0]
    return lax.slice_in_dim(lax.collapse(cells, axis.axis, axis.axis + 2), 0, axis.size, 1, axis.axis)


def _zeros(like: jax.Array, axis: WindowAxis, rows: int, count: int) -> list[jax.Array]:
    """The cells of so many r that no window holds, if there are any."""
    if count == 0:
        return []
    shape = (*like.shape[: axis.axis], rows, count, *like.shape[axis.axis + 1 :])
    return [jnp.zeros(shape, like.dtype)]


def _times(array: jax.Array, weight: float) -> jax.Array:
    """The array times a weight, by itself where all weights of an axis are one power of two."""
    product = array * np.array(weight, array.dtype)[()]
    return separate_term(product) if weight == 0.5 else product


def _sum(terms: Sequence[jax.Array]) -> jax.Array:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
