"""Pools that cut each axis into a given number of bins, whatever its size. Rules in `_derivatives/extremes`."""

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
    """Largest cell of every bin.

    Formula, for one pooled axis of n cells in m bins: y[o] = max of x[i], floor(o·n/m) ≤ i < ceil((o+1)·n/m), masked
    cells left out. The bins are PyTorch's: they cover the axis, and neighbours share a cell where m does not divide n.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        output_size: Bins along each pooled axis, more than cells too, or None to keep an axis as it is. Its length says
            how many axes are pooled: the last ones, or those that `axis` names. An int is for every axis in `axis`.
        axis: The pooled axes, in the order of the entries of `output_size`; the last ones if None.
        where: Mask that broadcasts against x, or None: cells where it is False are as if they were not there.
        rule: "jvp" for every mode and order of differentiation, "vjp" for a hand-written backward pass alone.

    Returns:
        Array of x's dtype, in which every pooled axis has the size that `output_size` says. Other axes stay.

    Raises:
        TypeError: x is complex or no array, a size is no int, or `where` is not bool.
        ValueError: `rule` is unknown, sizes do not fit the axes, or `where` does not broadcast against x.

    Derivative:
        ∂y[o]/∂x[i] = 1 where i is the winner of bin o, 0 elsewhere; all higher derivatives are 0.
        Ties: the first winner in the row-major order of x takes all. Zeros of either sign tie. NaN: wins over every
        number, the first NaN over later ones. Masked cells never win, not against -inf either. A bin that `where`
        leaves empty is 0 and passes no derivative.

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
    """Largest cell of every bin, and where in x it stands.

    Formula: y[o] = x[i[o]] with i[o] the first cell of bin o, in row-major order, that holds its maximum; bin o of m
    along an axis of n cells holds those from floor(o·n/m) up to and without ceil((o+1)·n/m).

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        output_size: Bins along each pooled axis, more than cells too, or None to keep an axis as it is. Its length says
            how many axes are pooled: the last ones, or those that `axis` names. An int is for every axis in `axis`.
        axis: The pooled axes, in the order of the entries of `output_size`; the last ones if None.
        where: Mask that broadcasts against x, or None: cells where it is False are as if they were not there.
        rule: "jvp" for every mode and order of differentiation, "vjp" for a hand-written backward pass alone.

    Returns:
        Values of x's dtype and int32 indices, in which every pooled axis has the size that `output_size` says. An index
        is the row-major position of the winner in the pooled axes of x, those kept by None included, in the order of
        x's own axes.

    Raises:
        TypeError: x is complex or no array, a size is no int, or `where` is not bool.
        ValueError: `rule` is unknown, sizes do not fit the axes, `where` does not broadcast against x, or the pooled
            axes hold more cells than int32 can number.

    Derivative:
        That of `adaptive_max_pool` for the values: 1 at the winner, 0 elsewhere; none for the indices. Ties: the first
        cell in row-major order wins. Zeros of either sign tie. NaN: the first one wins. A bin that `where` leaves empty
        has the value 0, the index -1 and no derivative.

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
    """Average of the cells of every bin.

    Formula, for one pooled axis of n cells in m bins: y[o] = Σ x[i] / d[o], floor(o·n/m) ≤ i < ceil((o+1)·n/m), masked
    cells adding 0. d[o] is the number of cells of bin o, masked ones not counted. The bins are PyTorch's.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32, float64, complex64 or complex128.
        output_size: Bins along each pooled axis, more than cells too, or None to keep an axis as it is. Its length says
            how many axes are pooled: the last ones, or those that `axis` names. An int is for every axis in `axis`.
        axis: The pooled axes, in the order of the entries of `output_size`; the last ones if None.
        where: Mask that broadcasts against x, or None: cells where it is False are as if they were not there.
        rule: "jvp" for every mode and order of differentiation, "vjp" for a hand-written backward pass alone.

    Returns:
        Array of x's dtype (float32 for integers and bool), in which every pooled axis has the size that `output_size`
        says. float16, bfloat16 and integers are summed in float32 and rounded once.

    Raises:
        TypeError: x is no array, a size is no int, or `where` is not bool.
        ValueError: `rule` is unknown, sizes do not fit the axes, or `where` does not broadcast against x.

    Derivative:
        ∂y[o]/∂x[i] = 1/d[o] where bin o holds cell i, 0 elsewhere; all higher derivatives are 0. Ties and zeros are
        nothing special. NaN and infinities reach the bins that hold them and no other, in no derivative. A bin that
        `where` leaves empty is 0 and passes no derivative.

    Example:
        >>> jaxpool.adaptive_avg_pool(jnp.array([1.0, 2.0, 5.0, 4.0, 3.0]), (3,)).tolist()
        [1.5, 3.66667, 3.5]
    """
    array, mask, window = binned("adaptive_avg_pool", x, output_size, axis, where, rule, complex_allowed=True)
    return averages(array, mask, window, True, None, rule)
