"""Top-k pooling: the largest cells of every window, and their indices. Their rules: `_ranks/largest`."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from jaxpool._call import LESS_PADDING, sliding
from jaxpool._checks import Rule, check_no_mask
from jaxpool._kernels import KernelSize
from jaxpool._ranks.largest import largest, largest_with_indices
from jaxpool._sizes import Axes, Padding, Sizes


def top_k_pool(
    x: ArrayLike,
    k: int,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Top-k pooling, or k-max pooling: the k largest cells of every window, in descending order.

    Formula: with the n cells of a window sorted, s[0] ≥ … ≥ s[n-1], y[…, r] = s[r] for 0 ≤ r < k, and 0 for r ≥ n.
    Padded and masked cells are left out, so that n may differ between windows. y[…, 0] is `max_pool`.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        k: The number of cells, an int of at least 1; it may exceed that of the cells of a window.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`. Or
            `bins`, `whole` or a `footprint`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of x's dtype and `max_pool`'s shape, with a new last axis of k cells: a pooled axis of n cells becomes
        floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without `ceil_mode`.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: k is less than 1, arguments do not fit x, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y[…, r]/∂x[i] = 1 where i is the cell that is s[r], 0 elsewhere; higher derivatives are 0. Ties: equal cells
        are sorted in row-major order, the first cell first. +0 and -0 tie. NaN comes before every number, the first NaN
        first. A rank that a window does not have is 0 with derivative 0; those of a window that `where` empties are of
        this kind.

    Example:
        >>> x = jnp.array([3.0, 1.0, 2.0, 5.0, 7.0, 7.0])
        >>> jaxpool.top_k_pool(x, 2, (3,))
        Array([[3., 2.],
               [7., 7.]], dtype=float32)
        >>> jax.grad(lambda x: jaxpool.top_k_pool(x, 2, (3,)).sum())(x)
        Array([1., 0., 1., 0., 1., 1.], dtype=float32)

    Source: Kalchbrenner, Grefenstette and Blunsom, "A convolutional neural network for modelling sentences", ACL 2014,
    which keeps the k cells in their own order.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("top_k_pool", x, sizes, where, rule, only_padding=LESS_PADDING)
    window.check_counts_fit("top_k_pool")
    return largest(array, mask, window, _check_k("top_k_pool", k), rule)


def top_k_pool_with_indices(
    x: ArrayLike,
    k: int,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> tuple[jax.Array, jax.Array]:
    """Top-k pooling with indices: the k largest cells of every window, and where each of them is.

    Formula: values as in `top_k_pool`, each with the row-major position of its cell, or -1 for a rank that a window
    does not have.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        k: The number of cells, an int of at least 1; it may exceed that of the cells of a window.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`. Or
            `bins`, `whole` or a `footprint`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Values of x's dtype and int32 indices, both of `top_k_pool`'s shape: that of `max_pool`, and a last axis of k
        cells. An index is the row-major position of a cell in x's pooled axes, without padding, in x's own order; a
        copy has that of its cell.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: k is less than 1, arguments do not fit x, `rule` is unknown, a window holds only padding, or indices
            exceed int32.

    Derivative:
        That of `top_k_pool` for the values: 1 at the cell of each rank, 0 elsewhere; none for the indices. Ties: equal
        cells are sorted in row-major order, the first cell first. +0 and -0 tie. NaN comes before every number, the
        first NaN first. A rank that a window does not have has the value 0, the index -1 and derivative 0; those of a
        window that `where` empties are of this kind.

    Example:
        >>> x = jnp.array([3.0, 1.0, 2.0, 5.0, 7.0, 7.0])
        >>> values, indices = jaxpool.top_k_pool_with_indices(x, 2, (3,))
        >>> indices
        Array([[0, 2],
               [4, 5]], dtype=int32)
    """
    function = "top_k_pool_with_indices"
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding(function, x, sizes, where, rule, only_padding=LESS_PADDING)
    window.check_counts_fit(function)
    window.check_positions_fit(function)
    return largest_with_indices(array, mask, window, _check_k(function, k), rule)


def _check_k(function: str, k: Any) -> int:
    check_no_mask(function, "k", k)
    if isinstance(k, (bool, np.bool_)) or not isinstance(k, (int, np.integer)):
        given = "an array" if isinstance(k, (jax.Array, np.ndarray)) else repr(k)
        raise TypeError(f"{function}: k must be an int, got {given}; it comes before kernel_size, as in (x, 3, (2, 2))")
    if k < 1:
        raise ValueError(f"{function}: k must be at least 1, got {k}; it is the number of cells of each window")
    return int(k)
