"""SoftPool: the mean of every window weighted by the softmax of its cells, as sums of exponentials."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arguments import Rule
from jaxpool._call import core, widened
from jaxpool._derivatives.covered_cells import without_uncovered
from jaxpool._derivatives.exponentials import call_of_exponentials, difference, sums_of_exponentials
from jaxpool._derivatives.long_windows import over_parts
from jaxpool._derivatives.moments import without_tiny
from jaxpool._derivatives.padded_zeros import any_present, extremes_with_zeros, with_zeros
from jaxpool._derivatives.parameters import expand_rank, shared_along_windows
from jaxpool._derivatives.residuals import exponentials_order
from jaxpool._derivatives.rules import with_rule
from jaxpool._derivatives.sums import Weight, finite, sums_about_largest, weighted_sums
from jaxpool._derivatives.sums_of_cells import ExactPool, Terms, pool_by_sums_of_cells
from jaxpool._geometry.sizes import Padding, Sizes
from jaxpool._geometry.window import Window
from jaxpool._sharding import vary_together


def soft_pool(
    x: ArrayLike,
    beta: float | ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    axis: Sizes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Softmax-weighted pooling (SoftPool): the mean of every window under the softmax of its own cells.

    Formula, for one pooled axis: y[o] = Σ_j w[j]·x[j] over the cells of window o, w[j] = exp(β·x[j])/Σ_k exp(β·x[k]).
    The mean for β = 0; it tends to the maximum for β → ∞ and to the minimum for β → -∞.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        beta: Sharpness β of any sign, 0 included, in units of 1/x (1 in the source). A finite number, or an array that
            broadcasts to the output (one per channel, say) and may be learnt. Traced values are not checked.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        count_include_pad: Whether padded cells take part, as zeros.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. For channels last: (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for a hand-written backward pass only.

    Returns:
        Array of x's dtype (float32 for integers and bool) and `max_pool`'s shape: a pooled axis of n cells becomes
        floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without `ceil_mode`. float16 and bfloat16
        are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: x, sizes, axes, `beta` and `where` do not match, `beta` is not finite, `rule` is unknown, or a
            window holds only padding, without `count_include_pad`.

    Derivative:
        ∂y/∂x[i] = w[i]·(1 + β·(x[i] - y)) and ∂y/∂β = Σ w[i]·(x[i] - y)², of every order. Ties share equally; zeros
        need no special handling. A cell of -inf (for β < 0: +inf) has weight 0, and a window whose value is infinite
        has derivative 0. NaN stays in the windows that hold it. A window that `where` leaves empty is 0 with derivative
        0.

    Example:
        >>> x = jnp.array([0.0, 1.0, 2.0, 3.0])
        >>> [jaxpool.soft_pool(x, beta, (4,)).round(3).item() for beta in (-100.0, -1.0, 0.0, 1.0, 100.0)]
        [0.0, 0.507, 1.5, 2.493, 3.0]

    Source: Stergiou, Poppe and Kalliatakis, "Refining activation downsampling with SoftPool", ICCV 2021.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _soft_means(*call_of_exponentials("soft_pool", x, beta, sizes, where, rule, count_include_pad))


@core
def _soft_means(
    x: jax.Array,
    mask: jax.Array | None,
    beta: jax.Array | None,
    window: Window,
    number: float | None,
    include_pad: bool,
    rule: str,
) -> jax.Array:
    """The mean of every window weighted by the softmax of β·x, for `beta`, or for `number` if that is None."""
    x, mask, window, dtype = widened(x, mask, window)
    if include_pad and window.has_padding:
        x, mask, window = with_zeros(x, mask, window)
    x = without_uncovered(x, window, learnt=beta is not None)
    if beta is None:
        assert number is not None
        x = -x if number < 0 else x
        under_number = _UnderNumber(window, abs(number))
        if mask is None:
            y = pool_by_sums_of_cells(x, _SUMS, under_number, abs(number), rule)
        else:
            y = with_rule(rule, under_number)(x, mask)
    else:
        beta = without_tiny(expand_rank(beta.astype(x.dtype), x.ndim))
        x, beta = vary_together(x, beta)
        y = with_rule(rule, partial(_means, window=window, signs={-1, 0, 1}))(x, beta, mask)
    if number is not None and number < 0:
        y = -y
    if mask is not None:
        y = jnp.where(any_present(mask, window), y, 0)
    return y.astype(dtype)


@dataclass(frozen=True)
class _UnderNumber(ExactPool):
    """The pool with a number β ≥ 0."""

    beta: float

    def __call__(self, x: jax.Array, mask: jax.Array | None = None, /) -> jax.Array:
        beta = without_tiny(jnp.full((1,) * x.ndim, self.beta, x.dtype))
        return _means(x, beta, mask, window=self.window, signs={1} if self.beta > 1e-30 else {0, 1})


# With any shift c of a window and e(i) = exp(β·(x(i) - c)), the mean with softmax weights w(i) = e(i)/Σ e is
#
#     y = c + Σ e(i)·(x(i) - c) / Σ e(i)
#
# which does not depend on c. So c is constant under differentiation, and the derivatives of the two sums give
#
#     ∂y/∂x(i) = w(i)·(1 + β·(x(i) - y))        ∂y/∂β = Σ w(i)·(x(i) - y)²
#
# c is the largest cell, or for β < 0 the smallest: no exponential overflows, Σ e ≥ 1, and every weight is accurate to a
# few units in the last place, however large β·x. If one axis is taken after the other, windows with sums Σ e and
# Σ e·(x - c) for different c are shifted to a common c as cells are, by another exponential. A negative number β is the
# same pool of -x with -β, negated.


# The shift c of every window, Σ e, Σ e·(x - c), the largest and the smallest cell. Cells are their own shifts: Σ e is
# None if all are present, and the third is None. The last is not the smallest if β is known to be positive.
_State = tuple[jax.Array, jax.Array | None, jax.Array | None, jax.Array, jax.Array]


def _means(x: jax.Array, beta: jax.Array, mask: jax.Array | None, *, window: Window, signs: set[int]) -> jax.Array:
    parts = exponentials_order(window) if shared_along_windows(beta, window) else (window,)

    def cells(x: jax.Array) -> _State:
        largest, smallest = (x if mask is None else jnp.where(mask, x, end) for end in (-jnp.inf, jnp.inf))
        # With the largest cells as shifts, cells of -inf have no weight, and windows with a cell of inf no derivative.
        if signs == {1} and mask is None:
            return x, None, None, largest, smallest
        present = ~jnp.isinf(x) if mask is None else ~jnp.isinf(x) & mask
        return jnp.where(present, x, 0), present.astype(x.dtype), None, largest, smallest

    def mean(state: _State) -> jax.Array:
        shift, mass, moment, largest, smallest = state
        assert mass is not None, "a window has an axis"
        assert moment is not None, "a window has an axis"
        y = shift + moment / jnp.where(mass == 0, 1, mass)
        extreme = _either(signs, beta, smallest, largest)
        if 0 in signs:
            # A plain mean, including infinities.
            ends = jnp.where(jnp.isinf(largest) | jnp.isinf(smallest), largest + smallest, extreme)
            extreme = jnp.where(beta == 0, ends, extreme)
        return jnp.where(jnp.isinf(extreme) | jnp.isnan(extreme), extreme, y)

    return over_parts(partial(_of_part, beta=beta, signs=signs), cells, mean, parts, x, mask, window)


def _of_part(state: _State, part: Window, _: Any = None, *, beta: jax.Array, signs: set[int]) -> _State:
    shift, mass, moment, largest, smallest = state
    power, gap = _WEIGHTS if signs == {1} else _LEARNT_WEIGHTS
    beta = expand_rank(beta, shift.ndim)
    if mass is None:
        largest, (moment, mass) = sums_about_largest((gap, power), shift, beta, part)
        largest = lax.stop_gradient(largest)
        return finite(largest), mass, moment, largest, largest
    largest = extremes_with_zeros(lax.stop_gradient(largest), part, lax.max)
    # If β is known to be positive, the largest cells suffice.
    smallest = largest if signs == {1} else extremes_with_zeros(lax.stop_gradient(smallest), part, lax.min)
    common = finite(_either(signs, beta, smallest, largest))
    if 0 in signs:
        # No cell is so far from the middle that differences overflow. For any other β such a cell has no weight.
        middle = jnp.where(jnp.isinf(largest) | jnp.isinf(smallest), common, largest / 2 + smallest / 2)
        common = jnp.where(beta == 0, middle, common)
    sums, masses = weighted_sums((gap, power), shift, (common, beta), mass, part)
    if moment is not None:
        sums += weighted_sums((power,), shift, (common, beta), moment, replace(part, zeros=0), "moments")[0]
    return common, masses, sums, largest, smallest


def _either(signs: set[int], beta: jax.Array, smallest: jax.Array, largest: jax.Array) -> jax.Array:
    """The cell of each window with the largest exponential."""
    return largest if signs == {1} else jnp.where(beta < 0, smallest, largest)


def _one(cells: jax.Array, shift: jax.Array, beta: jax.Array) -> jax.Array:
    return jnp.ones_like(cells)


def _exponent(cells: jax.Array, shift: jax.Array, beta: jax.Array) -> jax.Array:
    return beta * difference(cells, shift, False)


def _gap(cells: jax.Array, shift: jax.Array, beta: jax.Array) -> jax.Array:
    return difference(cells, shift, False)


# The same for β of any sign, for which a cell outside the window may be on either side of the shift.


def _learnt_exponent(cells: jax.Array, shift: jax.Array, beta: jax.Array) -> jax.Array:
    product = beta * difference(cells, shift, True)
    return jnp.where(product > 0, 0, product)


def _learnt_gap(cells: jax.Array, shift: jax.Array, beta: jax.Array) -> jax.Array:
    return difference(cells, shift, True)


_WEIGHTS = Weight(_exponent, _one), Weight(_exponent, _gap)
_LEARNT_WEIGHTS = Weight(_learnt_exponent, _one), Weight(_learnt_exponent, _learnt_gap)


def _terms(x: jax.Array, beta: float) -> Terms:
    weight = jnp.exp(beta * x)
    return weight, weight * x


def _mean(sums: Terms, _: ArrayLike, beta: float) -> jax.Array:
    return sums[1] / sums[0]


# The derivative is a difference of terms of order β·x.
_SUMS = sums_of_exponentials(_terms, _mean, kept=2, largest_exponent=16.0)
