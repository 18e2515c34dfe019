"""Pools that cut each axis into a given number of bins, whatever its size. Maxima: `_derivatives/extremes`."""

from __future__ import annotations

import jax
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arguments import Rule
from jaxpool._average import averages
from jaxpool._call import binned
from jaxpool._derivatives.extremes import extremes, extremes_with_indices
from jaxpool._geometry.sizes import OutputSizes, Sizes


def adaptive_max_pool(
    x: ArrayLike,
    output_size: OutputSizes,
    *,
    axis: Sizes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Adaptive max pooling: the largest cell of every bin.

    Without `axis` it pools the last axes, one per entry of `output_size`. For channels last, write axis=(-3, -2).

    Formula, for one pooled axis of n cells in m bins: y[o] = max of x[i], floor(o·n/m) ≤ i < ceil((o+1)·n/m), masked
    cells left out. The bins are PyTorch's: they cover the axis, and neighbours share a cell where m does not divide n.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        output_size: Number of bins, one int per pooled axis: (7, 7) pools two axes. It may exceed the number of cells;
            None keeps an axis as it is. An int is for every axis in `axis`.
        axis: The pooled axes, in the order of `output_size`; the last ones if None. For channels last: (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for a hand-written backward pass only.

    Returns:
        Array of x's dtype; the pooled axes have the sizes in `output_size`.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: x, sizes, axes and `where` do not match, or `rule` is unknown.

    Derivative:
        ∂y[o]/∂x[i] = 1 where i is the winner of bin o, 0 elsewhere; all higher derivatives are 0. Ties: the first
        winner in the row-major order of x takes all. +0 and -0 tie. NaN wins over every number, the first NaN over
        later ones. Masked cells never win, not even against -inf. A bin that `where` leaves empty is 0 with derivative
        0.

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
    axis: Sizes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> tuple[jax.Array, jax.Array]:
    """Adaptive max pooling with indices: the largest cell of every bin, and where it is in x.

    Formula: y[o] = x[i[o]] with i[o] the first cell of bin o, in row-major order, that holds its maximum; bin o of m
    along an axis of n cells holds those with floor(o·n/m) ≤ i < ceil((o+1)·n/m).

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        output_size: Number of bins, one int per pooled axis: (7, 7) pools two axes. It may exceed the number of cells;
            None keeps an axis as it is. An int is for every axis in `axis`.
        axis: The pooled axes, in the order of `output_size`; the last ones if None. For channels last: (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for a hand-written backward pass only.

    Returns:
        Values of x's dtype and int32 indices; the pooled axes have the sizes in `output_size`. An index is the winner's
        row-major position in the pooled axes of x, those kept by None included, in the order of x's own axes.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: x, sizes, axes and `where` do not match, `rule` is unknown, or the pooled axes have too many cells
            for int32.

    Derivative:
        That of `adaptive_max_pool` for the values: 1 at the winner, 0 elsewhere; none for the indices. Ties: the first
        winner in the row-major order of x takes all. +0 and -0 tie. NaN wins over every number, the first NaN over
        later ones. A bin that `where` leaves empty has the value 0, the index -1 and derivative 0.

    Example:
        >>> values, indices = jaxpool.adaptive_max_pool_with_indices(jnp.array([1.0, 2.0, 5.0, 4.0, 3.0]), (3,))
        >>> values, indices
        (Array([2., 5., 4.], dtype=float32), Array([1, 2, 3], dtype=int32))
    """
    function = "adaptive_max_pool_with_indices"
    array, mask, window = binned(function, x, output_size, axis, where, rule)
    window.check_positions_fit(function)
    return extremes_with_indices(array, mask, window, rule)


def adaptive_avg_pool(
    x: ArrayLike,
    output_size: OutputSizes,
    *,
    axis: Sizes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Adaptive average pooling: the average of the cells of every bin.

    Without `axis` it pools the last axes, one per entry of `output_size`. For channels last, write axis=(-3, -2).

    Formula, for one pooled axis of n cells in m bins: y[o] = Σ x[i] / d[o], floor(o·n/m) ≤ i < ceil((o+1)·n/m), masked
    cells adding 0. d[o] is the number of cells of bin o, masked ones not counted. The bins are PyTorch's.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32, float64, complex64 or complex128.
        output_size: Number of bins, one int per pooled axis: (7, 7) pools two axes. It may exceed the number of cells;
            None keeps an axis as it is. An int is for every axis in `axis`.
        axis: The pooled axes, in the order of `output_size`; the last ones if None. For channels last: (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for a hand-written backward pass only.

    Returns:
        Array of x's dtype (float32 for integers and bool); the pooled axes have the sizes in `output_size`. float16,
        bfloat16 and integers are summed in float32 and rounded once.

    Raises:
        TypeError: x is not an array, a size is not an int, or another argument has the wrong type.
        ValueError: x, sizes, axes and `where` do not match, or `rule` is unknown.

    Derivative:
        ∂y[o]/∂x[i] = 1/d[o] where bin o holds cell i, 0 elsewhere; all higher derivatives are 0. Ties and zeros need no
        special handling. NaN and infinities reach only the bins that hold them, and no derivative. A bin that `where`
        leaves empty is 0 with derivative 0.

    Example:
        >>> jaxpool.adaptive_avg_pool(jnp.array([1.0, 2.0, 5.0, 4.0, 3.0]), (3,)).tolist()
        [1.5, 3.66667, 3.5]
    """
    array, mask, window = binned("adaptive_avg_pool", x, output_size, axis, where, rule, complex_allowed=True)
    return averages(array, mask, window, True, None, rule)
