"""Pools of a given number of bins along each axis, or one, the whole axis. Rules: `extremes`, `_average`."""

from __future__ import annotations

import jax
from jax import lax
from jax.typing import ArrayLike

from jaxpool._average import averages
from jaxpool._call import axis_by_name, binned, over_whole_axes
from jaxpool._checks import Rule, check_flag
from jaxpool._derivatives.extremes import extremes, extremes_with_indices
from jaxpool._sizes import Axes, OutputSizes
from jaxpool._window import Window


def adaptive_max_pool(
    x: ArrayLike,
    output_size: OutputSizes,
    *,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Adaptive max pooling: the largest cell of every bin.

    Without `axis` it pools the last axes, one per entry of `output_size`. For channels last, write axis="NHWC": of
    these letters, one for each axis of x, all but N and C are pooled.

    Formula, for one pooled axis of n cells in m bins: y[o] = max of x[i], floor(o·n/m) ≤ i < ceil((o+1)·n/m), masked
    cells left out. The bins are PyTorch's: they cover the axis, and where m does not divide n some neighbours share a
    cell.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        output_size: Number of bins, one int per pooled axis: (7, 7) pools two axes. It may exceed the number of cells;
            None keeps an axis as it is. An int is for every axis in `axis`.
        axis: The pooled axes, in the order of `output_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of x's dtype; the pooled axes have the sizes in `output_size`.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, or `rule` is unknown.

    Derivative:
        ∂y[o]/∂x[i] = 1 if i is the winner of bin o, else 0; higher derivatives are 0. Ties: the first winner in
        row-major order takes all. NaN wins over numbers; NaNs tie, as +0 and -0 do. Masked cells never win, not even
        against -inf. A bin that `where` empties is 0 with derivative 0.

    Example:
        >>> jaxpool.adaptive_max_pool(jnp.array([1.0, 2.0, 5.0, 4.0, 3.0]), (3,))
        Array([2., 5., 4.], dtype=float32)
    """
    array, mask, window = binned("adaptive_max_pool", x, output_size, axis, where, rule)
    return extremes(array, mask, window, lax.max, rule)


def adaptive_max_pool_with_indices(
    x: ArrayLike,
    output_size: OutputSizes,
    *,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> tuple[jax.Array, jax.Array]:
    """Adaptive max pooling with indices (argmax): the largest cell of every bin, and where it is in x.

    Formula: y[o] = x[i[o]] with i[o] the first cell of bin o, in row-major order, that holds its maximum; bin o of m
    along an axis of n cells holds those with floor(o·n/m) ≤ i < ceil((o+1)·n/m).

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        output_size: Number of bins, one int per pooled axis: (7, 7) pools two axes. It may exceed the number of cells;
            None keeps an axis as it is. An int is for every axis in `axis`.
        axis: The pooled axes, in the order of `output_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Values of x's dtype and int32 indices; the pooled axes have the sizes in `output_size`. An index is the winner's
        row-major position in x's pooled axes, those kept by None included, in x's own order.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, or indices exceed int32.

    Derivative:
        That of `adaptive_max_pool` for the values: 1 at the winner, else 0; none for the indices. Ties: the first
        winner in row-major order takes all. NaN wins over numbers; NaNs tie, as +0 and -0 do. A bin that `where`
        empties has the value 0, the index -1 and derivative 0.

    Example:
        >>> jaxpool.adaptive_max_pool_with_indices(jnp.array([1.0, 2.0, 5.0, 4.0, 3.0]), (3,))
        (Array([2., 5., 4.], dtype=float32), Array([1, 2, 3], dtype=int32))
    """
    function = "adaptive_max_pool_with_indices"
    array, mask, window = binned(function, x, output_size, axis, where, rule)
    window.check_positions_fit(function)
    return extremes_with_indices(array, mask, window, lax.max, rule)


def adaptive_avg_pool(
    x: ArrayLike,
    output_size: OutputSizes,
    *,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Adaptive average pooling: the average of the cells of every bin.

    Formula along an axis of n cells in m bins: y[o] = Σ x[i] / d[o], floor(o·n/m) ≤ i < ceil((o+1)·n/m), masked cells
    adding 0. d[o] is the number of the others in bin o. The bins are PyTorch's.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32, float64, complex64 or complex128.
        output_size: Number of bins, one int per pooled axis: (7, 7) pools two axes. It may exceed the number of cells;
            None keeps an axis as it is. An int is for every axis in `axis`.
        axis: The pooled axes, in the order of `output_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of x's dtype (integers and bool: float32); the pooled axes have the sizes in `output_size`. Sums are in
        float32 or wider and rounded once.

    Raises:
        TypeError: x is not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, or `rule` is unknown.

    Derivative:
        ∂y[o]/∂x[i] = 1/d[o] for i in bin o, else 0; higher derivatives are 0. Ties and zeros are ordinary. NaN and
        infinities reach only their bins, no derivative. A bin that `where` empties is 0 with derivative 0.

    Example:
        >>> jaxpool.adaptive_avg_pool(jnp.array([1.0, 2.0, 5.0, 4.0, 3.0]), (3,)).tolist()
        [1.5, 3.66667, 3.5]
    """
    array, mask, window = binned("adaptive_avg_pool", x, output_size, axis, where, rule, complex_allowed=True)
    return averages(array, mask, window, True, None, rule)


@axis_by_name
def global_max_pool(
    x: ArrayLike,
    *,
    axis: Axes,
    keepdims: bool = True,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Global max pooling: the largest cell of whole axes.

    Formula: y = max over all i of x[i] along `axis`, masked cells left out. Unlike `jnp.max`, whose gradient is shared
    among ties and which may lose NaN on the CPU, it follows the rules of `max_pool`.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        axis: The pooled axes, an int or several, or letters for all axes: "NHWC" pools those but N and C.
        keepdims: Whether the pooled axes remain, with size 1: (N, 1, 1, C); if not, they are dropped: (N, C).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of x's dtype; the pooled axes have size 1, or are dropped without `keepdims`.

    Raises:
        TypeError: x is complex or not an array, an axis is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, a pooled axis has no cells, or `rule` is unknown.

    Derivative:
        ∂y/∂x[i] = 1 if i is the winner, else 0; higher derivatives are 0. Ties: the first winner in row-major order
        takes all. NaN wins over numbers; NaNs tie, as +0 and -0 do. Masked cells never win, not even against -inf.
        Where `where` leaves no cell, y is 0 with derivative 0.

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


@axis_by_name
def global_avg_pool(
    x: ArrayLike,
    *,
    axis: Axes,
    keepdims: bool = True,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Global average pooling: the average of the cells of whole axes.

    Formula: y = Σ x[i] / d over all i along `axis`, masked cells adding 0; d is the number of the others.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32, float64, complex64 or complex128.
        axis: The pooled axes, an int or several, or letters for all axes: "NHWC" pools those but N and C.
        keepdims: Whether the pooled axes remain, with size 1: (N, 1, 1, C); if not, they are dropped: (N, C).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of x's dtype (integers and bool: float32); the pooled axes have size 1, or are dropped without `keepdims`.
        Sums are in float32 or wider and rounded once.

    Raises:
        TypeError: x is not an array, an axis is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, a pooled axis has no cells, or `rule` is unknown.

    Derivative:
        ∂y/∂x[i] = 1/d, or 0 for masked cells; higher derivatives are 0. Ties and zeros are ordinary. NaN and infinities
        reach no derivative. Where `where` leaves no cell, y is 0 with derivative 0.

    Example:
        >>> lengths = jnp.array([2, 3])
        >>> x = jnp.array([[1.0, 2.0, jnp.nan], [1.0, 2.0, 6.0]])
        >>> jaxpool.global_avg_pool(x, axis=-1, keepdims=False, where=jnp.arange(3) < lengths[:, None])
        Array([1.5, 3. ], dtype=float32)
    """
    array, mask, window = over_whole_axes("global_avg_pool", x, axis, where, rule, complex_allowed=True)
    values = averages(array, mask, window, True, None, rule)
    return keep_axes("global_avg_pool", values, window, keepdims)


def keep_axes(function: str, values: jax.Array, window: Window, keepdims: bool) -> jax.Array:
    """The values with the pooled axes of size 1, or with these axes removed."""
    return values if check_flag(function, "keepdims", keepdims) else lax.squeeze(values, window.pooled_axes)
