"""Stochastic pooling: a cell of every window drawn with probability proportional to its positive part, or the mean."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxpool._arguments import Rule, check_array, check_key, check_mask, check_rule
from jaxpool._engine.operations import accumulation_dtype
from jaxpool._geometry.extension import extended
from jaxpool._geometry.sizes import Padding, Sizes
from jaxpool._geometry.window import Window, make_window
from jaxpool._lp import norms
from jaxpool._rules.draws import draws
from jaxpool._rules.powers import quotient
from jaxpool._sharding import shardable


def stochastic_pool(
    x: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    key: ArrayLike | None = None,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Sizes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Cell of every window drawn at random by its positive part, or the mean of such draws.

    Formula: with x₊ = max(x, 0), cell i of window o is drawn with probability p[i] = x₊[i]/Σ x₊ over the cells of the
    window, each window apart, and y[o] = x[i]. Without a key, for inference, y[o] = Σ p[i]·x[i] = Σ x₊²/Σ x₊.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side: an int, an int per axis, a (low, high) pair per axis, "VALID", "SAME" or
            "SAME_LOWER"; or, as in `max_pool`, copies of cells of x: "WRAP", "REFLECT" or "EDGE". Added cells are never
            drawn, but copies may be.
        key: A `jax.random` key, typed or raw uint32: the same key draws the same cells. None for the mean.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window starting before the high padding may extend past it; cells there never count.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. With channels last, (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for a hand-written backward pass only.

    Returns:
        Array of x's dtype (without a key, float32 for integers and bool) and `max_pool`'s shape: a pooled axis of n
        cells becomes floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without `ceil_mode`.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: x, sizes, axes and `where` do not match, or `rule` is unknown.

    Derivative:
        With a key, ∂y/∂x[i] = 1 for the cell drawn, 0 elsewhere: the draw is held fixed. Without a key,
        ∂y/∂x[i] = (2·x[i] - y)/Σ x₊ for positive cells. Zeros and negative cells have derivative 0, and a window
        without a positive cell, of padding alone or that `where` leaves empty, is 0 with derivative 0. Ties are equally
        likely. Of infinite cells, one is drawn; the mean is then infinite, with derivative 0, as where Σ x₊ overflows.
        NaN: y is NaN; with a key, the first NaN is drawn.

    Example:
        >>> x = jnp.array([1.0, 3.0, -2.0, 0.0, 5.0, 5.0])
        >>> jaxpool.stochastic_pool(x, (3,))
        Array([2.5, 5. ], dtype=float32)
        >>> jaxpool.stochastic_pool(x, (3,), key=jax.random.key(0))
        Array([3., 5.], dtype=float32)

    Source: Zeiler and Fergus, "Stochastic pooling for regularization of deep convolutional neural networks", ICLR 2013.
    """
    array = check_array("stochastic_pool", x)
    window = make_window("stochastic_pool", array.shape, kernel_size, stride, padding, dilation, ceil_mode, axis)
    mask = check_mask("stochastic_pool", where, array.shape, window.pooled_axes)
    check_rule("stochastic_pool", rule)
    if key is None:
        return _means(array, mask, window, rule)
    checked = check_key("stochastic_pool", key)
    return draws(array, mask, checked, window, rule)


# With x₊ = max(x, 0) and the norms N_p = (Σ x₊^p)^(1/p) of a window, y = Σ x₊²/Σ x₊ = N₂²/N₁, which is evaluated as
# N₂·(N₂/N₁), so that no square overflows. From ∂N_p/∂x(i) = (x₊(i)/N_p)^(p-1),
#
#     ∂y/∂x(i) = 2·(N₂/N₁)·(x(i)/N₂) - (N₂/N₁)²·1 = (2·x(i) - y)/N₁    where x(i) > 0, and 0 elsewhere,
#
# by the rules of the norms. Windows of norm 0 and of infinite norm pass no derivative there, and must not here.


@shardable
@partial(jax.jit, static_argnums=(2, 3))
def _means(x: jax.Array, mask: jax.Array | None, window: Window, rule: str) -> jax.Array:
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else np.dtype(np.float32)
    x, mask, window = extended(x.astype(accumulation_dtype(dtype)), mask, window)
    positive = jnp.where(x <= 0, 0, x)
    first, second = (norms(positive, mask, None, window, p, rule) for p in (1.0, 2.0))
    dead = (first == 0) | jnp.isinf(first)
    ratio = quotient(jnp.where(dead, 0, second), jnp.where(dead, 1, first))
    return jnp.where(jnp.isinf(first), first, jnp.where(dead, 0, second) * ratio).astype(dtype)
