"""Max pooling: the largest or smallest cell of every window, and where it is. Rules in `_derivatives/extremes`."""

import jax
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arguments import Rule
from jaxpool._call import sliding
from jaxpool._derivatives.extremes import extremes, extremes_with_indices
from jaxpool._geometry.sizes import Padding, Sizes

_ONLY_PADDING = "use less padding, a smaller stride or a larger kernel_size"


def max_pool(
    x: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Sizes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Largest cell of every window.

    Formula, for one pooled axis: y[o] = max over j of x[o·stride - low + j·dilation], 0 ≤ j < kernel_size, padded and
    masked cells left out. With several pooled axes a window is the product of its axes' windows.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Cells of a window along each pooled axis. Its length says how many axes are pooled: the last ones,
            or those that `axis` names. An int is for every axis in `axis`.
        stride: Cells from one window to the next, an int or one per axis; `kernel_size` if None.
        padding: Cells added to each side: an int, one per axis, (low, high) pairs per axis, "VALID" (none), "SAME"
            (n/stride windows, rounded up; an odd cell goes high) or "SAME_LOWER" (an odd cell goes low). Or copies of
            the cells of x, as `np.pad` has them: "WRAP" (from the other end), "REFLECT" (mirrored, without repeating
            the outermost cell) or "EDGE" (of the outermost cell), (e - 1)//2 low and e//2 high, e as below. Copies are
            real cells: they may win, and the derivative by a cell is the sum over its copies.
        dilation: Cells from one cell of a window to the next, an int or one per axis.
        ceil_mode: Whether to keep a last window that reaches over the padding, if it starts in front of its high side.
        axis: The pooled axes, in the order of the other arguments' entries; the last ones if None. Channels last is
            (-3, -2).
        where: Mask that broadcasts against x, or None: cells where it is False are as if they were not there.
        rule: "jvp" for every mode and order of differentiation, "vjp" for a hand-written backward pass alone.

    Returns:
        Array of x's dtype. A pooled axis of n cells becomes floor((n + low + high - e)/stride) + 1, where
        e = dilation·(kernel_size - 1) + 1; with `ceil_mode` it is ceil in place of floor, less one where the last
        window would start in the high padding. Other axes stay.

    Raises:
        TypeError: x is complex or no array, a size is no int, or `where` is not bool.
        ValueError: `rule` is unknown, sizes do not fit the axes or each other, `where` does not broadcast against x, or
            a window holds only padding.

    Derivative:
        ∂y[o]/∂x[i] = 1 where i is the winner of window o, 0 elsewhere; all higher derivatives are 0.
        Ties: the first winner in the row-major order of x takes all. Zeros of either sign tie. NaN: wins over every
        number, the first NaN over later ones. A window of -inf has its first real cell as winner; padding and masked
        cells never are one. A window that `where` leaves empty is 0 and passes no derivative.

    Example:
        >>> x = jnp.arange(16.0).reshape(4, 4)
        >>> jaxpool.max_pool(x, (2, 2))
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("max_pool", x, sizes, where, rule, only_padding=_ONLY_PADDING)
    return extremes(array, mask, window, lax.max, rule)


def min_pool(
    x: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Sizes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Smallest cell of every window.

    Formula, for one pooled axis: y[o] = min over j of x[o·stride - low + j·dilation], 0 ≤ j < kernel_size, padded and
    masked cells left out. For floats it is -max_pool(-x).

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Cells of a window along each pooled axis; its length says how many axes are pooled.
        stride: Cells from one window to the next, an int or one per axis; `kernel_size` if None.
        padding: Cells added to each side: an int, ints per axis, (low, high) pairs per axis, "VALID", "SAME" or
            "SAME_LOWER"; or, as in `max_pool`, copies of the cells of x: "WRAP", "REFLECT" or "EDGE".
        dilation: Cells from one cell of a window to the next, an int or one per axis.
        ceil_mode: Whether to keep a last window that reaches over the padding, if it starts in front of its high side.
        axis: The pooled axes, in the order of the other arguments' entries; the last ones if None. Channels last is
            (-3, -2).
        where: Mask that broadcasts against x, or None: cells where it is False are as if they were not there.
        rule: "jvp" for every mode and order of differentiation, "vjp" for a hand-written backward pass alone.

    Returns:
        Array of x's dtype and of `max_pool`'s shape: a pooled axis of n cells becomes
        floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without `ceil_mode`.

    Raises:
        TypeError: x is complex or no array, a size is no int, or `where` is not bool.
        ValueError: `rule` is unknown, sizes do not fit the axes or each other, `where` does not broadcast against x, or
            a window holds only padding.

    Derivative:
        ∂y[o]/∂x[i] = 1 where i is the winner of window o, 0 elsewhere; all higher derivatives are 0.
        Ties: the first winner in the row-major order of x takes all. Zeros of either sign tie. NaN: wins over every
        number, the first NaN over later ones. A window of +inf has its first real cell as winner; padding and masked
        cells never are one. A window that `where` leaves empty is 0 and passes no derivative.

    Example:
        >>> x = jnp.arange(16.0).reshape(4, 4)
        >>> jaxpool.min_pool(x, (2, 2))
        Array([[ 0.,  2.],
               [ 8., 10.]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("min_pool", x, sizes, where, rule, only_padding=_ONLY_PADDING)
    return extremes(array, mask, window, lax.min, rule)


def max_pool_with_indices(
    x: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Sizes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> tuple[jax.Array, jax.Array]:
    """Largest cell of every window, and where in x it stands.

    Formula: y[o] = x[i[o]] with i[o] the first cell of window o, in row-major order, that holds its maximum.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Cells of a window along each pooled axis; its length says how many axes are pooled.
        stride: Cells from one window to the next, an int or one per axis; `kernel_size` if None.
        padding: Cells added to each side: an int, ints per axis, (low, high) pairs per axis, "VALID", "SAME" or
            "SAME_LOWER"; or, as in `max_pool`, copies of the cells of x: "WRAP", "REFLECT" or "EDGE".
        dilation: Cells from one cell of a window to the next, an int or one per axis.
        ceil_mode: Whether to keep a last window that reaches over the padding, if it starts in front of its high side.
        axis: The pooled axes, in the order of the other arguments' entries; the last ones if None. Channels last is
            (-3, -2).
        where: Mask that broadcasts against x, or None: cells where it is False are as if they were not there.
        rule: "jvp" for every mode and order of differentiation, "vjp" for a hand-written backward pass alone.

    Returns:
        Values of x's dtype and int32 indices, both of `max_pool`'s shape: a pooled axis of n cells becomes floor((n +
        low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without `ceil_mode`. An index is the row-major position
        of the winner in the pooled axes of x, without padding, in the order of x's own axes; of a copy, that of the
        cell that it copies.

    Raises:
        TypeError: x is complex or no array, a size is no int, or `where` is not bool.
        ValueError: `rule` is unknown, sizes do not fit the axes or each other, `where` does not broadcast against x, a
            window holds only padding, or the pooled axes hold more cells than int32 can number.

    Derivative:
        That of `max_pool` for the values: 1 at the winner, 0 elsewhere; none for the indices. Ties: the first cell
        in row-major order wins. Zeros of either sign tie. NaN: the first one wins. A window that `where` leaves empty
        has the value 0, the index -1 and no derivative.

    Example:
        >>> values, indices = jaxpool.max_pool_with_indices(jnp.array([3.0, 1.0, 2.0, 2.0]), (2,))
        >>> values, indices
        (Array([3., 2.], dtype=float32), Array([0, 2], dtype=int32))
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("max_pool_with_indices", x, sizes, where, rule, only_padding=_ONLY_PADDING)
    window.check_positions_fit("max_pool_with_indices")
    return extremes_with_indices(array, mask, window, rule)
