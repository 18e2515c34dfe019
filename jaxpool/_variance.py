"""The variance and the standard deviation of every window."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jaxpool._call import core, padding_counts, sliding, widened
from jaxpool._checks import Rule, check_not_negative
from jaxpool._jax.linear_map import custom_rule, with_rule
from jaxpool._kernels import KernelSize
from jaxpool._sizes import Axes, Padding, Sizes
from jaxpool._window import Window
from jaxpool._windows.cells import with_zeros_in_padding
from jaxpool._windows.choices import reduce_windows
from jaxpool._windows.operations import Arrays, is_infinite
from jaxpool._windows.pairs import Term, finite, in_turn, reciprocal, sum_over_cells


def var_pool(
    x: ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    correction: float = 0,
    count_include_pad: bool = False,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Variance pooling: the variance of each window.

    Formula along an axis: y[o] = Σ_j (x[o·stride - low + j·dilation] - m[o])²/(n[o] - c), 0 ≤ j < kernel_size,
    with n[o] the cells that take part and m[o] their mean. It is never negative and exactly 0 for equal cells. A cell
    of the window is first subtracted from all its cells, so that a mean far from 0 costs no digits. If n ≤ c and all
    cells are finite, y is 0.

    Args:
        x, kernel_size, stride, padding: As in `max_pool`.
        correction: Number c ≥ 0 subtracted from the number of cells: 0 for the variance of the cells themselves, 1
            (PyTorch's default) for an unbiased estimate of the variance of a population.
        count_include_pad: Whether padded cells take part, as zeros.
        dilation, ceil_mode, axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `correction` is negative or not finite, `rule` is unknown, or a window holds
            only padding, without `count_include_pad`.

    Derivative:
        ∂y/∂x[i] = 2·(x[i] - m)/(n - c), and the second derivatives are 2·([i = k] - 1/n)/(n - c); all higher ones are
        0. Ties share equally; zeros are ordinary. NaN stays in its windows. A window that holds an infinity is NaN,
        too. A window that has no more than c cells, or that `where` empties, is 0 with derivative 0.

    Example:
        >>> x = jnp.array([10000.0, 10002.0, 5.0, 5.0])
        >>> jaxpool.var_pool(x, (2,))
        Array([1., 0.], dtype=float32)
        >>> jaxpool.var_pool(x, (2,), correction=1)
        Array([2., 0.], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _pool("var_pool", x, sizes, correction, count_include_pad, where, rule)


def std_pool(
    x: ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    correction: float = 0,
    count_include_pad: bool = False,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Standard deviation pooling: the standard deviation of each window, as in statistics pooling.

    Formula along an axis: y[o] = (Σ_j (x[o·stride - low + j·dilation] - m[o])²/(n[o] - c))^½, 0 ≤ j < kernel_size, with
    n[o] the cells that take part and m[o] their mean: the root of `var_pool`. If n ≤ c and all cells are finite, y is
    0.

    Args:
        x, kernel_size, stride, padding, correction, count_include_pad: As in `var_pool`.
        dilation, ceil_mode, axis, where, rule: As in `var_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `correction` is negative or not finite, `rule` is unknown, or a window holds
            only padding, without `count_include_pad`.

    Derivative:
        ∂y/∂x[i] = (x[i] - m)/((n - c)·y), exact at every order. The standard deviation has a corner where all cells are
        equal: such a window is 0 with derivative 0 at every order. Ties share equally; zeros are ordinary. NaN stays in
        its windows. A window that holds an infinity is NaN, too. A window that has no more than c cells, or that
        `where` empties, is 0 with derivative 0.

    Example:
        >>> x = jnp.array([10000.0, 10002.0, 5.0, 5.0])
        >>> jaxpool.std_pool(x, (2,))
        Array([1., 0.], dtype=float32)
        >>> jax.grad(lambda x: jaxpool.std_pool(x, (2,)).sum())(x).tolist()
        [-0.5, 0.5, 0.0, 0.0]

    Source: Snyder, Garcia-Romero, Povey and Khudanpur, "Deep neural network embeddings for text-independent speaker
    verification", Interspeech 2017.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _pool("std_pool", x, sizes, correction, count_include_pad, where, rule)


def _pool(
    function: str,
    x: ArrayLike,
    sizes: Sequence[Any],
    correction: float,
    count_include_pad: bool,
    where: ArrayLike | None,
    rule: str,
) -> jax.Array:
    include_pad, only_padding = padding_counts(function, count_include_pad)
    array, mask, window = sliding(function, x, sizes, where, rule, only_padding=only_padding)
    number = check_not_negative(function, "correction", correction, "use 0 or 1", "a Python number")
    return _variances(array, mask, window, include_pad, number, function == "std_pool", rule)


# Notation: x(i) the n cells of one window, c the correction, C one of the cells, R the mean of the cells less C, e(i) =
# x(i) - C - R the deviation from the mean, S = Σ e(i)², v = S/(n - c), y = √v. Then
#
#     R = Σ (x(i) - C)/n        ∂S/∂x(i) = 2·e(i)        as Σ e(i) = 0, so that R adds nothing
#     ∂v/∂x(i) = 2·e(i)/(n - c)        ∂y/∂x(i) = e(i)/((n - c)·y)
#
# C is constant under differentiation, as nothing depends on it. As it is a cell of the window, S is 0 if all cells are
# equal, and a mean far from 0 costs no digits. Axes may be taken in turn: then i are parts with n(i) cells,
# and with C(i), R(i) and S(i) of their own,
#
#     R = Σ n(i)·(C(i) - C + R(i))/n        e(i) = C(i) - C + R(i) - R        S = Σ (S(i) + n(i)·e(i)²)
#
# whose tangent is Ṡ = Σ (Ṡ(i) + 2·n(i)·e(i)·Ṙ(i)). y = 0 is a corner, where the subgradient 0 is taken at every order.
# A window of n ≤ c cells has the factor 0, which NaN survives.


@core
def _variances(
    x: jax.Array, mask: jax.Array | None, window: Window, include_pad: bool, correction: float, root: bool, rule: str
) -> jax.Array:
    x, mask, window, dtype = widened(x, mask, window)
    if include_pad and window.has_padding:
        x, mask, window = with_zeros_in_padding(x, mask, window)
    return with_rule(rule, partial(_values, window=window, correction=correction, root=root))(x, mask).astype(dtype)


def _values(x: jax.Array, mask: jax.Array | None, *, window: Window, correction: float, root: bool) -> jax.Array:
    squares, count = _squares_about_mean(x, mask, window)
    left = count - correction
    variance = squares * jnp.where(left > 0, 1 / jnp.where(left > 0, left, 1), 0)
    return _root(variance) if root else variance


@custom_rule()
def _root(variance: jax.Array) -> jax.Array:
    """The root, with derivative 0 at 0, of every order."""
    return jnp.sqrt(variance)


@_root.defjvp
def _root_jvp(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    root = _root(*primals)
    return root, 0.5 * reciprocal(root) * tangents[0]


def _squares_about_mean(x: jax.Array, present: jax.Array | None, window: Window) -> tuple[jax.Array, jax.Array]:
    """S and n of every window."""
    first, *others = in_turn(window)
    if present is None:
        number = jnp.asarray(first.counts(x.ndim, padding=False), x.dtype)
    else:
        number = reduce_windows(present.astype(x.dtype), first, lax.add)
    top = _one_cell(lax.stop_gradient(x), present, first)
    mean = _mean(sum_over_cells(_OF_CELLS.gap, (x,), (top,), first, present)[0], number)
    squares = _squares(first, (x,), top, mean, present)
    for part in others:
        inner = jnp.broadcast_to(number, squares.shape)
        number = reduce_windows(inner, part, lax.add)
        near, top = top, finite(reduce_windows(top, part, lax.max))
        cells = near, mean, inner
        mean = _mean(sum_over_cells(_OF_PARTS.gap, cells, (top,), part)[0], number)
        squares = _squares(part, (*cells, squares), top, mean, None)
    return squares, number


def _mean(total: jax.Array, number: jax.Array) -> jax.Array:
    """Their quotient; NaN if an infinity is among the cells, whichever of them C is."""
    mean = total / jnp.maximum(number, 1)
    return jnp.where(is_infinite(mean), jnp.nan, mean)


def _one_cell(x: jax.Array, present: jax.Array | None, window: Window) -> jax.Array:
    """A cell of every window: the one at an offset that is real in all windows, or else the largest."""
    offsets = [offset for axis in window.axes if (offset := axis.offset_in_all()) is not None]
    if present is not None or window.has_bins or window.has_footprint or len(offsets) < len(window.axes):
        return finite(reduce_windows(x if present is None else jnp.where(present, x, -jnp.inf), window, lax.max))
    for axis, offset in zip(window.axes, offsets, strict=True):
        first = offset * axis.dilation - axis.low
        last = first + (axis.output - 1) * axis.stride
        x = lax.slice_in_dim(x, first, last + 1, axis.stride if axis.output > 1 else 1, axis.axis)
    return x


@custom_rule((0,))
def _squares(window: Window, cells: Arrays, top: jax.Array, mean: jax.Array, present: jax.Array | None) -> jax.Array:
    """S of every window, of cells, or of parts with C, R, n and S."""
    terms = _OF_CELLS if len(cells) == 1 else _OF_PARTS
    return sum_over_cells(terms.square, cells, (top, mean), window, present)[0]


@_squares.defjvp
def _squares_jvp(window: Window, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (cells, top, mean, present), (dots, *_) = primals, tangents
    if len(cells) == 1:
        term, arrays = _OF_CELLS.tangent, (*cells, *dots)
    else:
        (near, excess, count, _), (_, excess_dot, _, squares_dot) = cells, dots
        term, arrays = _OF_PARTS.tangent, (near, excess, count, excess_dot, squares_dot)
    (squares_dot,) = sum_over_cells(term, arrays, (top, mean), window, present)
    return _squares(window, *primals), squares_dot


class _Terms(NamedTuple):
    """The terms of n·R, of S, and of Ṡ."""

    gap: Term
    square: Term
    tangent: Term


_OF_CELLS = _Terms(
    lambda x, top: (x - top,),
    lambda x, top, mean: (jnp.square(x - top - mean),),
    lambda x, x_dot, top, mean: (2 * (x - top - mean) * x_dot,),
)
_OF_PARTS = _Terms(
    lambda near, mean, count, top: (count * (near - top + mean),),
    lambda near, excess, count, squares, top, mean: (squares + count * jnp.square(near - top + excess - mean),),
    lambda near, excess, count, excess_dot, squares_dot, top, mean: (
        squares_dot + 2 * count * (near - top + excess - mean) * excess_dot,
    ),
)
