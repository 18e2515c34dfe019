"""Pools of whole axes: one window that holds all cells. The rules are in `_derivatives/extremes` and `_average`."""

from __future__ import annotations

import jax
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arguments import Rule
from jaxpool._average import averages
from jaxpool._call import over_whole_axes
from jaxpool._derivatives.extremes import extremes
from jaxpool._geometry.sizes import Sizes, check_flag
from jaxpool._geometry.window import Window


def global_max_pool(
    x: ArrayLike,
    *,
    axis: Sizes,
    keepdims: bool = True,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Global max pooling: the largest cell of whole axes.

    The pooled axes remain, with size 1, unless `keepdims` is False.

    Formula: y = max over all i of x[i] along `axis`, masked cells left out. Unlike `jnp.max`, whose gradient is shared
    among ties and which may lose NaN on the CPU, it follows the rules of `max_pool`.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        axis: The pooled axes, an int or several.
        keepdims: Whether the pooled axes remain, with size 1: (N, 1, 1, C); if not, they are dropped: (N, C).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for a hand-written backward pass only.

    Returns:
        Array of x's dtype; the pooled axes have size 1, or are dropped without `keepdims`.

    Raises:
        TypeError: x is complex or not an array, an axis is not an int, or another argument has the wrong type.
        ValueError: x, axes and `where` do not match, a pooled axis has no cells, or `rule` is unknown.

    Derivative:
        ∂y/∂x[i] = 1 where i is the winner, 0 elsewhere; all higher derivatives are 0. Ties: the first winner in the
        row-major order of x takes all. +0 and -0 tie. NaN wins over every number, the first NaN over later ones. Masked
        cells never win, not even against -inf. Where `where` leaves no cell, y is 0 with derivative 0.

    Example:
        >>> x = jnp.array([[1.0, 4.0], [3.0, 4.0]])
        >>> jaxpool.global_max_pool(x, axis=(-2, -1))
        Array([[4.]], dtype=float32)
        >>> jax.grad(lambda x: jaxpool.global_max_pool(x, axis=(-2, -1)).sum())(x)
        Array([[0., 1.],
               [0., 0.]], dtype=float32)
    """
    array, mask, window = over_whole_axes("global_max_pool", x, axis, where, rule)
    values = extremes(array, mask, window, lax.max, rule)
    return keep_axes("global_max_pool", values, window, keepdims)


def global_avg_pool(
    x: ArrayLike,
    *,
    axis: Sizes,
    keepdims: bool = True,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Global average pooling: the average of the cells of whole axes.

    The pooled axes remain, with size 1, unless `keepdims` is False.

    Formula: y = Σ x[i] / d over all i along `axis`, masked cells adding 0; d is the number of cells, masked ones not
    counted.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32, float64, complex64 or complex128.
        axis: The pooled axes, an int or several.
        keepdims: Whether the pooled axes remain, with size 1: (N, 1, 1, C); if not, they are dropped: (N, C).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for a hand-written backward pass only.

    Returns:
        Array of x's dtype (float32 for integers and bool); the pooled axes have size 1, or are dropped without
        `keepdims`. float16, bfloat16 and integers are summed in float32 and rounded once.

    Raises:
        TypeError: x is not an array, an axis is not an int, or another argument has the wrong type.
        ValueError: x, axes and `where` do not match, a pooled axis has no cells, or `rule` is unknown.

    Derivative:
        ∂y/∂x[i] = 1/d for every cell that is not masked, 0 elsewhere; all higher derivatives are 0. Ties and zeros need
        no special handling. NaN and infinities reach no derivative. Where `where` leaves no cell, y is 0 with
        derivative 0.

    Example:
        >>> lengths = jnp.array([2, 3])
        >>> x = jnp.array([[1.0, 2.0, jnp.nan], [1.0, 2.0, 6.0]])
        >>> jaxpool.global_avg_pool(x, axis=-1, where=jnp.arange(3) < lengths[:, None])
        Array([[1.5],
               [3. ]], dtype=float32)
    """
    array, mask, window = over_whole_axes("global_avg_pool", x, axis, where, rule, complex_allowed=True)
    values = averages(array, mask, window, True, None, rule)
    return keep_axes("global_avg_pool", values, window, keepdims)


def keep_axes(function: str, values: jax.Array, window: Window, keepdims: bool) -> jax.Array:
    """The values with the pooled axes of size 1, or with these axes removed."""
    return values if check_flag(function, "keepdims", keepdims) else lax.squeeze(values, window.pooled_axes)
