"""Mellowmax pooling: the logarithm of the mean exponential of every window, for β of any sign and 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxpool._arguments import Rule
from jaxpool._derivatives.exponentials import SlopesByPairs, pool_exponentials
from jaxpool._derivatives.moderate_sums import Terms
from jaxpool._derivatives.parametric import Cells, Multiplicities, Parameter, Shift
from jaxpool._derivatives.rules import custom_rule
from jaxpool._engine.maps import sum_terms
from jaxpool._engine.operations import Arrays
from jaxpool._engine.stages import in_one_row
from jaxpool._geometry.sizes import Axes, Padding, Sizes
from jaxpool._geometry.window import Window
from jaxpool._kernels import KernelSize
from jaxpool._platforms import is_portable
from jaxpool._smooth import LogExponentials, gap_to_shift, gap_to_value


def mellowmax_pool(
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
    """Mellowmax pooling: the log-mean-exp of every window, between its minimum, mean and maximum.

    Formula along an axis: y[o] = log(Σ_j exp(β·x[o·stride - low + j·dilation])/n[o])/β, 0 ≤ j < kernel_size, with n[o]
    the cells that take part; smoothly the mean at β = 0, and between it and the maximum (for β < 0: the minimum). It
    equals `smooth_max_pool` - log(n)/β.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        beta: Sharpness β of any sign, 0 included, in units of 1/x. A finite number, or an array that broadcasts to the
            output (one per channel, say) and may be learnt. Traced values are not checked.
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
        ∂y/∂x[i] = w[i] = exp(β·(x[i] - y))/n, the softmax of β·x, and ∂y/∂β = Σ w[i]·(x[i] - y)/β, of every order; at
        β = 0 they are 1/n and half the variance of the window. Ties share equally; zeros are ordinary. A cell of -inf
        (for β < 0: +inf) has weight 0, a window of infinite value derivative 0. NaN stays in its windows. A window that
        `where` empties is 0 with derivative 0.

    Example:
        >>> x = jnp.array([0.0, 1.0, 2.0, 3.0])
        >>> [jaxpool.mellowmax_pool(x, beta, (4,)).round(3).item() for beta in (-100.0, -1.0, 0.0, 1.0, 100.0)]
        [0.014, 0.946, 1.5, 2.054, 2.986]

    Source: Asadi and Littman, "An alternative softmax operator for reinforcement learning", ICML 2017.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return pool_exponentials("mellowmax_pool", x, beta, sizes, where, rule, count_include_pad, _LogMeanExp)


# Notation: x(i) the n cells of one window, β ≥ 0 (a negative β is the same pool of -x with -β, negated),
# m = log(mean exp(β·x(i)))/β, z(i) = β·(x(i) - m), so that mean exp(z) = 1. Then
#
#     ∂m/∂x(i) = exp(z(i))/n
#     ∂m/∂β = (mean x(i)·exp(z(i)) - m)/β = mean z(i)·exp(z(i))/β² = mean (z(i)·exp(z(i)) - exp(z(i)) + 1)/β²
#           = mean (x(i) - m)²·μ(z(i)),     μ(z) = ((z - 1)·exp(z) + 1)/z² = ∫ t·exp(t·z) dt, t from 0 to 1
#
# which has no cancellation, and is half the variance at β = 0. A cell of -inf has weight 0 and adds 1/(n·β²) to the
# second. If m is infinite, all derivatives are 0. +inf marks a cell that is absent.


@dataclass(frozen=True)
class _LogMeanExp(SlopesByPairs, LogExponentials):
    is_mean = True

    def value(
        self, cells: Cells, parameter: Parameter, part: Window, multiplicities: Multiplicities, shift: Shift
    ) -> jax.Array:
        """The excess of m over its shift c, log(mean exp(β·d))/β with d = x - c, for β ≥ 0.

        With e = mean (exp(β·d) - 1) this is log(1 + e)/β, which has no cancellation for small β, and mean d for β = 0.
        If e is near -1, as it may be in large windows, the first form is used.
        """
        assert shift is not None
        beta = jnp.asarray(parameter, cells[0].dtype)
        limits = jnp.finfo(beta.dtype)
        # For a smaller β, products with differences of cells below 1/β would be subnormal.
        is_mean = beta < limits.tiny / limits.eps
        # The largest of a few values may be that of a small share of the cells.
        is_large = part.cells > 16 or (multiplicities is not None and len(cells) > 1)

        def terms(cells: Cells, _: Arrays) -> Arrays:
            is_infinite = jnp.isinf(cells[0]) | jnp.isinf(cells[-1])
            gap = jnp.where(jnp.isinf(shift) & ~is_infinite, 0, gap_to_shift(cells, shift))
            product = jnp.where(is_mean, 0, beta) * jnp.where(is_mean, 0, gap)
            return jnp.where(is_mean, gap, _exponential_less_one(product)), *([jnp.exp(product)] if is_large else [])

        multiplicity, total = multiplicities or (None, float(part.held))
        sums = sum_terms(terms, self.fill_cells(cells, part), part, multiplicity)
        mean, *powers = (each / jnp.maximum(total, 1) for each in sums)
        logarithm = in_one_row(jnp.log1p, jnp.where(is_mean, 0, mean))
        if is_large:
            logarithm = jnp.where(mean < -0.5, in_one_row(jnp.log, powers[0]), logarithm)
        return jnp.where(is_mean, mean, logarithm / jnp.where(is_mean, 1, beta))

    def weight(self, cells: Arrays, outputs: Arrays, parameter: Parameter) -> jax.Array:
        if self.number:
            return super().weight(cells, outputs, parameter)
        outputs, is_infinite = _finite_mean(outputs)
        return jnp.where(is_infinite, 0, super().weight(cells, outputs, parameter))

    def slope(self, cells: Arrays, outputs: Arrays, parameter: jax.Array) -> jax.Array:
        outputs, is_infinite = _finite_mean(outputs)
        gap, dead = gap_to_value(cells, outputs)
        # A cell so far below that gap² overflows adds the same as -inf.
        vanishes = parameter * gap < 2 * jnp.log(jnp.finfo(gap.dtype).tiny)
        lowest = (jnp.isneginf(cells[-1]) & ~jnp.isinf(outputs[1])) | vanishes
        dead, gap = dead | vanishes | is_infinite, jnp.where(vanishes | is_infinite, 0, gap)
        lowest &= ~is_infinite
        limit = 1 / jnp.square(jnp.where(lowest, parameter, 1))
        return jnp.where(dead, jnp.where(lowest, limit, 0), jnp.square(gap) * _moment(parameter * gap, 1))

    def terms(self, x: jax.Array, *beta: jax.Array) -> Terms:
        product = self.sharpness(beta) * x
        return jnp.exp(product), _exponential_less_one(product)

    def value_of_sums(self, sums: Terms, counts: ArrayLike, *beta: jax.Array) -> jax.Array:
        """log(mean exp(β·x))/β, from the mean of exp(β·x) - 1 if that is given and more accurate.

        That is log(1 + e), which for u = 1 + e, rounded, is log(u)·e/(u - 1), or e if u is 1: one logarithm for both.
        """
        mean, *less_one = (total / counts for total in sums)
        if not less_one:
            return jnp.log(mean) / self.sharpness(beta)
        (e,) = less_one
        u = jnp.where(e > -0.5, 1 + e, mean)
        corrected = jnp.where(u == 1, e, jnp.log(u) * e / (u - 1))
        return jnp.where(e > -0.5, corrected, jnp.log(u)) / self.sharpness(beta)

    def slope_of_pair(self, x: jax.Array, weight: jax.Array, y: jax.Array, count: ArrayLike, beta: Any) -> jax.Array:
        gap = jnp.where(weight > 0, x - y, 0)
        z = beta * gap
        near = (jnp.abs(z) <= 1) & (weight > 0)
        small = jnp.where(near, gap, 0)
        # With exp(z), which the weight tells; a cell without weight is infinitely far from y.
        far = jnp.where(weight < 0, 0, ((z - 1) * weight * count + 1) / jnp.square(beta))
        return jnp.where(near, jnp.square(small) * _moment_near_0(beta * small, 1), far) / count


def _finite_mean(outputs: Arrays) -> tuple[Arrays, jax.Array]:
    """The excess and the shift of windows, and which excesses are infinite (β = 0, a cell of -inf), replaced by 0."""
    is_infinite = jnp.isinf(outputs[0])
    return (jnp.where(is_infinite, 0, outputs[0]), *outputs[1:]), is_infinite


# With the moments μ_k(z) = ∫ t^k·exp(t·z) dt for t from 0 to 1, and k = 0, 1, …,
#
#     μ_k' = μ_{k+1}     μ_0 = (exp(z) - 1)/z     μ_k = (exp(z) - k·μ_{k-1})/z     μ_k = Σ_j z^j/(j!·(j + k + 1))
#
# so the derivative of each needs only the next one, and μ = μ_1. The third formula is used upwards for |z| > 1, where
# it is stable for the few k that derivatives need; the fourth for other z, where the third would divide 0 by 0.


def _exponential_less_one(z: jax.Array) -> jax.Array:
    """The value exp(z) - 1, faster than `jnp.expm1`, for sums that are not differentiated.

    Between -1/2 and 1/2 it is a series, to which 0 times the other form is added: a TPU would store what selects.
    """
    if is_portable():
        return jnp.expm1(z)
    near = jnp.clip(z, -0.5, 0.5)
    series = jnp.zeros_like(z)
    for power in reversed(range(1, 16 if jnp.finfo(z.dtype).bits == 64 else 9)):
        series = (series + 1 / math.factorial(power)) * near
    return series + jnp.abs(jnp.sign(z - near)) * (jnp.exp(z) - 1 - series)


@custom_rule((1,))
def _moment(z: jax.Array, order: int) -> jax.Array:
    """The moment μ_order(z), for real z of any sign; differentiable to every order."""
    near = jnp.abs(z) <= 1
    small, large = jnp.where(near, z, 0), jnp.where(near, 1, z)
    series, exponential = _moment_near_0(small, order), jnp.exp(large)
    moment = (exponential - 1) / large
    for k in range(1, order + 1):
        moment = (exponential - k * moment) / large
    return jnp.where(near, series, moment)


def _moment_near_0(z: jax.Array, order: int) -> jax.Array:
    """The moment for |z| ≤ 1, where the first omitted term of the series is below a rounding error."""
    count = 18 if jnp.finfo(z.dtype).bits == 64 else 10
    series = jnp.zeros_like(z)
    for power in reversed(range(count)):
        series = series * z + 1 / (math.factorial(power) * (power + order + 1))
    return series


@_moment.defjvp
def _moment_jvp(order: int, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (z,), (z_dot,) = primals, tangents
    return _moment(z, order), _moment(z, order + 1) * z_dot
