"""Stochastic pooling: draw a cell of every window in proportion to its positive part, or take the mean of the draw."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._call import core, extended, sliding, widened
from jaxpool._checks import Rule, check_key
from jaxpool._jax.linear_map import apply_linear_map, with_rule
from jaxpool._jax.stages import materialize
from jaxpool._kernels import KernelSize
from jaxpool._sizes import Axes, Padding, Sizes
from jaxpool._weighted import means_by_weights
from jaxpool._window import Window
from jaxpool._windows.cells import fold_offsets, pad_windows
from jaxpool._windows.choices import ReadChosen, on_every_platform, reduce_windows
from jaxpool._windows.operations import Arrays, accumulation_dtype, identity, is_infinite
from jaxpool._windows.select import no_offset


def stochastic_pool(
    x: ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    key: ArrayLike | None = None,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Stochastic pooling: a cell of every window, drawn in proportion to its positive part, or the mean of such draws.

    Formula: with x₊ = max(x, 0), cell i of window o is drawn with probability p[i] = x₊[i]/Σ x₊ over the window,
    independently for each, and y[o] = x[i]. Without a key, for inference, y[o] = Σ p[i]·x[i] = Σ x₊²/Σ x₊.

    Args:
        x, kernel_size, stride: As in `max_pool`.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
            Added cells are never drawn, but copies may be.
        key: A `jax.random` key, typed or raw uint32: the same key draws the same cells. None for the mean. Under
            `jax.vmap` an unmapped key gives all items the same numbers: map over jax.random.split(key, n) too.
        dilation, ceil_mode, axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (without a key, integers and bool: float32).

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, or `rule` is unknown.

    Derivative:
        With a key, ∂y/∂x[i] = 1 for the cell drawn, else 0: the draw is held fixed. Without a key, ∂y/∂x[i] = (2·x[i] -
        y)/Σ x₊ for positive cells. Zeros and negative cells have derivative 0, and a window without a positive cell,
        such as one of padding or one that `where` empties, is 0 with derivative 0. Ties are equally likely. Of infinite
        cells, one is drawn; the mean is then infinite, with derivative 0. NaN: y is NaN; with a key, the first NaN is
        drawn.

    Example:
        >>> x = jnp.array([1.0, 3.0, -2.0, 0.0, 5.0, 5.0])
        >>> jaxpool.stochastic_pool(x, (3,))
        Array([2.5, 5. ], dtype=float32)
        >>> jaxpool.stochastic_pool(x, (3,), key=jax.random.key(0))
        Array([3., 5.], dtype=float32)

    Source: Zeiler and Fergus, "Stochastic pooling for regularization of deep convolutional neural networks", ICLR 2013.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("stochastic_pool", x, sizes, where, rule)
    window.check_counts_fit("stochastic_pool")
    if key is None:
        return _mean_draws(array, mask, window, rule)
    return _draws(array, mask, check_key("stochastic_pool", key), window, rule)


@core
def _mean_draws(x: jax.Array, mask: jax.Array | None, window: Window, rule: str) -> jax.Array:
    """Means of the positive parts, weighted by themselves; infinite where one is."""
    x, mask, window, dtype = widened(x, mask, window)
    positive = jnp.where((x <= 0) | (False if mask is None else ~mask), 0, x)
    finite = jnp.where(is_infinite(positive), 0, positive)
    mean = with_rule(rule, lambda x: means_by_weights(x, x, None, window=window, exponents=False))(finite)
    largest = reduce_windows(lax.stop_gradient(positive), window, lax.max)
    return jnp.where(largest == jnp.inf, largest, mean).astype(dtype)


@partial(jax.jit, static_argnums=(3, 4))
def _draws(x: jax.Array, mask: jax.Array | None, key: jax.Array, window: Window, rule: str) -> jax.Array:
    """The cell drawn from every window with the key; 0 if no unmasked cell is positive."""
    floats = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else np.dtype(np.float32)
    shares = jax.random.uniform(key, window.output_shape(x.shape), accumulation_dtype(floats))
    return _drawn_cells(x, mask, shares, window, rule)


# Notation: c(o) is the cell drawn from window o; a dot marks a tangent, a bar a cotangent. With the draw held fixed
#
#     y(o) = x(c(o))        ẏ(o) = ẋ(c(o))        x̄(i) = Σ_{o : c(o) = i} ȳ(o)
#
# and all higher derivatives are 0. The first two are one linear map, `ReadChosen`, the third is its transpose. Where no
# cell was drawn, c(o) has the offset of no cell, from which 0 is read and to which nothing is sent.


@core
def _drawn_cells(x: jax.Array, mask: jax.Array | None, shares: jax.Array, window: Window, rule: str) -> jax.Array:
    dtype = x.dtype
    x, mask, window = extended(x, mask, window)
    if mask is not None:
        x = jnp.where(mask, x, jnp.zeros_like(x))
    offsets = on_every_platform(partial(_drawn, window=window), lax.stop_gradient(x), shares)
    read = ReadChosen(window)
    if not jnp.issubdtype(dtype, jnp.inexact):
        return read.forward(x, offsets)
    return with_rule(rule, partial(apply_linear_map, read))(x, offsets).astype(dtype)


def _drawn(x: jax.Array, shares: jax.Array, *, window: Window) -> jax.Array:
    """Inverse-CDF sampling: the last cell with a weight whose preceding weights sum to at most the share of the total.

    Returns its row-major offset in the window, or the offset of no cell. After a NaN no other is drawn. Weights are the
    positive parts divided by the largest one of the window, so that their sum does not overflow; if that is infinite,
    only infinite cells have a weight.
    """
    padded = pad_windows(x, window, identity(lax.max, x.dtype))
    largest = reduce_windows(x, window, lax.max).astype(shares.dtype)
    infinite = jnp.isposinf(largest)
    scale = jnp.where((largest > 0) & ~infinite, largest, 1)

    def weight(cells: jax.Array) -> jax.Array:
        cells = cells.astype(shares.dtype)
        finite = jnp.where(cells > 0, cells, 0) / scale
        return jnp.where(infinite, jnp.isposinf(cells).astype(shares.dtype), finite)

    def add(total: jax.Array, arrays: Arrays, _: Any) -> jax.Array:
        return total + weight(arrays[0])

    threshold = shares * fold_offsets(add, jnp.zeros_like(shares), (padded,), window)

    def draw(drawn: Arrays, arrays: Arrays, number: Any) -> Arrays:
        (cells,), (offset, before, ended) = arrays, drawn
        added, is_nan = weight(cells), cells != cells
        replaces = ~ended & (is_nan | ((added > 0) & (before <= threshold)))
        return jnp.where(replaces, jnp.asarray(number, offset.dtype), offset), before + added, ended | is_nan

    none = no_offset(window)
    start = jnp.full_like(shares, none, none.dtype), jnp.zeros_like(shares), jnp.zeros_like(shares, bool)
    offsets, *_ = fold_offsets(draw, start, (padded,), window)
    # Or what reads at them would draw again for every cell.
    return materialize(offsets)
