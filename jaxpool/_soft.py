"""SoftPool: the mean of every window weighted by the softmax of its cells, as sums of exponentials."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arguments import Rule
from jaxpool._derivatives.exponentials import SlopesByPairs, pool_exponentials
from jaxpool._derivatives.in_turn import (
    exponentials_order,
    extremes_with_zeros,
    is_shared,
    merge_whole_axes,
    over_parts,
)
from jaxpool._derivatives.moderate_sums import Terms
from jaxpool._derivatives.pairs import ExponentialWeights, finite, weighted_sums
from jaxpool._derivatives.rules import difference, with_rule
from jaxpool._engine.stages import materialize
from jaxpool._geometry.sizes import Axes, Padding, Sizes
from jaxpool._geometry.window import Window
from jaxpool._kernels import KernelSize
from jaxpool._sharding import vary_together


def soft_pool(
    x: ArrayLike,
    beta: float | ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Softmax-weighted pooling (SoftPool): the mean of every window under the softmax of its own cells.

    Formula along an axis: y[o] = Σ_j w[j]·x[j] over the cells of window o, w[j] = exp(β·x[j])/Σ_k exp(β·x[k]). It is
    the mean for β = 0, and tends to the maximum for β → ∞, to the minimum for β → -∞.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        beta: Sharpness β of any sign, 0 included, in units of 1/x (1 in the source). A finite number, or an array that
            broadcasts to the output (one per channel, say) and may be learnt. Traced values are not checked.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`. Or
            `bins`, `whole` or a `footprint`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        count_include_pad: Whether padded cells take part, as zeros.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `beta` is not finite, `rule` is unknown, or a window holds only padding,
            without `count_include_pad`.

    Derivative:
        ∂y/∂x[i] = w[i]·(1 + β·(x[i] - y)) and ∂y/∂β = Σ w[i]·(x[i] - y)², of every order. Ties share equally; zeros are
        ordinary. A cell of -inf (for β < 0: +inf) has weight 0, a window of infinite value derivative 0. NaN stays in
        its windows. A window that `where` empties is 0 with derivative 0.

    Example:
        >>> x = jnp.array([0.0, 1.0, 2.0, 3.0])
        >>> [jaxpool.soft_pool(x, beta, (4,)).round(3).item() for beta in (-100.0, -1.0, 0.0, 1.0, 100.0)]
        [0.0, 0.507, 1.5, 2.493, 3.0]

    Source: Stergiou, Poppe and Kalliatakis, "Refining activation downsampling with SoftPool", ICCV 2021.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return pool_exponentials("soft_pool", x, beta, sizes, where, rule, count_include_pad, _SoftMeans)


# With any shift c of a window and e(i) = exp(β·(x(i) - c)), the mean with softmax weights w(i) = e(i)/Σ e is
#
#     y = c + Σ e(i)·(x(i) - c) / Σ e(i)
#
# which does not depend on c. So c is constant under differentiation, and the derivatives of the two sums give
#
#     ∂y/∂x(i) = w(i)·(1 + β·(x(i) - y))        ∂y/∂β = Σ w(i)·(x(i) - y)²
#
# c is the largest cell, as β ≥ 0: no exponential overflows, Σ e ≥ 1, and every weight is accurate to a few units in the
# last place, however large β·x. If one axis is taken after the other, windows with different c are shifted to a common
# one as cells are, by another exponential; their means are at offsets from c, which cells do not have.


# The shift c of every window, Σ e, the offset y - c, the largest and the smallest cell. Cells are their own shifts: Σ e
# is None if all are present, and the third is None. The last is not the smallest if β is known to be positive.
_State = tuple[jax.Array, jax.Array | None, jax.Array | None, jax.Array, jax.Array]


@dataclass(frozen=True)
class _SoftMeans(SlopesByPairs):
    kept = 2
    # The derivative is a difference of terms of order β·x.
    largest_exponent = 16.0

    def terms(self, x: jax.Array, *beta: jax.Array) -> Terms:
        weight = jnp.exp(self.sharpness(beta) * x)
        return weight, weight * x

    def slope_of_pair(self, x: jax.Array, weight: jax.Array, y: jax.Array, count: ArrayLike, beta: Any) -> jax.Array:
        # A cell without weight may be at any distance.
        gap = jnp.where(weight > 0, x - y, 0)
        return weight * gap * gap

    def value_of_sums(self, sums: Terms, counts: ArrayLike, *_: Any) -> jax.Array:
        return sums[1] / sums[0]

    def pool_present(self, x: jax.Array, mask: jax.Array | None, beta: jax.Array | None, rule: str) -> jax.Array:
        positive = self.number is not None and self.number > 1e-30
        window, x, mask = merge_whole_axes(self.window, x, mask)
        if beta is None:
            beta = jnp.full((1,) * x.ndim, self.sharpness(()), x.dtype)
        else:
            x, beta = vary_together(x, beta)
        return with_rule(rule, partial(_pool, window=window, positive=positive))(x, _without_tiny(beta), mask)


def _pool(x: jax.Array, beta: jax.Array, mask: jax.Array | None, *, window: Window, positive: bool) -> jax.Array:
    def cells(x: jax.Array) -> _State:
        largest, smallest = (x if mask is None else jnp.where(mask, x, end) for end in (-jnp.inf, jnp.inf))
        # With the largest cells as shifts, cells of -inf have no weight, and windows with a cell of inf no derivative.
        if positive and mask is None:
            return x, None, None, largest, smallest
        present = ~jnp.isinf(x) if mask is None else ~jnp.isinf(x) & mask
        return jnp.where(present, x, 0), present.astype(x.dtype), None, largest, smallest

    def mean(state: _State) -> jax.Array:
        shift, _, offset, largest, smallest = state
        assert offset is not None, "a window has an axis"
        y = shift + offset
        if not positive:
            # A plain mean, including infinities.
            largest = jnp.where((beta == 0) & jnp.isinf(smallest), largest + smallest, largest)
        return jnp.where(jnp.isinf(largest) | jnp.isnan(largest), largest, y)

    parts = exponentials_order(window) if is_shared(beta, window) else None
    return over_parts(partial(_pool_state, beta=beta, positive=positive), cells, mean, parts, x, mask, window)


def _without_tiny(beta: jax.Array) -> jax.Array:
    """The factor β of exponents, set to 0 where products with cells may be subnormal.

    The derivative is that of β, as a mean is differentiable there. Cells larger than 1/β are averaged like the others.
    """
    limits = jnp.finfo(beta.dtype)
    tiny = jnp.abs(beta) < limits.tiny / limits.eps
    return beta - lax.stop_gradient(jnp.where(tiny, beta, 0))


def _pool_state(state: _State, part: Window, _: Any = None, *, beta: jax.Array, positive: bool) -> _State:
    shift, mass, offset, largest, smallest = state
    cells = (shift,) if offset is None else (shift, offset)
    weights = _WEIGHTS if positive else _LEARNT_WEIGHTS
    beta = lax.expand_dims(beta, range(shift.ndim - beta.ndim))
    if mass is None:
        largest, (moment, mass) = weighted_sums(weights, cells, None, beta, None, part)
        largest = lax.stop_gradient(largest)
        return finite(largest), mass, _quotient(moment, mass), largest, largest
    largest = common = extremes_with_zeros(lax.stop_gradient(largest), part, lax.max)
    if positive:
        smallest = largest
    else:
        smallest = extremes_with_zeros(lax.stop_gradient(smallest), part, lax.min)
        # No cell is so far from the middle that differences overflow. For any β but 0 such a cell has no weight.
        are_finite = ~(jnp.isinf(largest) | jnp.isinf(smallest))
        common = jnp.where((beta == 0) & are_finite, largest / 2 + smallest / 2, largest)
    _, (moment, masses) = weighted_sums(weights, cells, common, beta, mass, part)
    return finite(common), masses, _quotient(moment, masses), largest, smallest


def _quotient(moment: jax.Array, mass: jax.Array) -> jax.Array:
    # Read twice, and so is its cotangent.
    return materialize(moment / jnp.where(mass == 0, 1, mass))


# Functions of a cell, its offset if it has one, the shift and β.


def _one(cells: jax.Array, *_: jax.Array) -> jax.Array:
    return jnp.ones_like(cells)


def _exponent(cells: jax.Array, *others: jax.Array) -> jax.Array:
    *_, shift, beta = others
    return beta * difference(cells, shift, False)


def _gap(cells: jax.Array, *others: jax.Array) -> jax.Array:
    *offset, shift, _ = others
    return sum(offset, difference(cells, shift, False))


# The same for β that may be 0, for which cells are on both sides of the shift.


def _learnt_exponent(cells: jax.Array, *others: jax.Array) -> jax.Array:
    *_, shift, beta = others
    product = beta * difference(cells, shift, True)
    return jnp.where(product > 0, 0, product)


def _learnt_gap(cells: jax.Array, *others: jax.Array) -> jax.Array:
    *offset, shift, _ = others
    return sum(offset, difference(cells, shift, True))


_WEIGHTS = ExponentialWeights(_exponent, (_gap, _one))
_LEARNT_WEIGHTS = ExponentialWeights(_learnt_exponent, (_learnt_gap, _one))
