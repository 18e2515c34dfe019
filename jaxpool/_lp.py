"""The Lp norm of every window, with a number or a learnt array p.

The rules of exact norms are in `_derivatives/parametric`, those of sums of powers in `_derivatives/sums_of_powers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arguments import Rule, check_parameter
from jaxpool._call import core, in_floats, sliding
from jaxpool._derivatives.extremes import extremes
from jaxpool._derivatives.in_turn import in_slabs_of, terms_order, without_uncovered
from jaxpool._derivatives.moderate_sums import pool_by_sums_of_cells
from jaxpool._derivatives.pairs import Filled
from jaxpool._derivatives.parametric import Cells, Multiplicities, Parameter, ParametricPool, Shift, parametric_pool
from jaxpool._derivatives.powers import (
    even_power,
    exponent_in_range,
    log_magnitude,
    positive_power,
    power_of_two,
    reciprocal,
    signed_power,
    takes_powers,
)
from jaxpool._derivatives.sums_of_powers import SumsOfPowers
from jaxpool._engine.maps import reduce_windows, sum_terms
from jaxpool._engine.operations import Arrays, accumulation_dtype
from jaxpool._engine.stages import in_one_row
from jaxpool._geometry.sizes import Axes, Padding, Sizes
from jaxpool._geometry.window import Window
from jaxpool._kernels import KernelSize


def lp_pool(
    x: ArrayLike,
    norm_type: float | ArrayLike,
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
    """Lp pooling: the Lp norm of the cells of every window.

    Formula along an axis: y[o] = (Σ_j |x[o·stride - low + j·dilation]|^p)^(1/p), 0 ≤ j < kernel_size, padded and masked
    cells adding 0. p = 1 sums magnitudes, p = 2 is the Euclidean norm, p = inf the largest magnitude. No sum
    overflows or underflows unless y does.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        norm_type: Exponent p > 0: a Python number, inf included, or an array of finite numbers that broadcasts to the
            output (one per channel, say) and may be learnt. A traced p of 0 or less gives NaN, so train raw in 1 +
            jax.nn.softplus(raw).
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
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `norm_type` is not positive, or `rule` is unknown.

    Derivative:
        ∂y/∂x[i] = sign(x[i])·(|x[i]|/y)^(p-1) and ∂y/∂p = y/p·Σ (|x[i]|/y)^p·log(|x[i]|/y), of every order. A cell of 0
        has derivative 0, also for p < 1, where it would be infinite. A window that is all zeros, all padding or emptied
        by `where` is 0; it and, for finite p, an infinite norm have derivative 0 at every order. Ties: for p = inf, the
        first of the largest magnitudes in row-major order takes all. NaN stays in its windows.

    Example:
        >>> jaxpool.lp_pool(jnp.array([3.0, -4.0, 0.0, 0.0]), 2, (2,))
        Array([5., 0.], dtype=float32)

    Source: Sermanet, Chintala and LeCun, "Convolutional neural networks applied to house numbers digit classification",
    ICPR 2012; learnt exponents: the source of `gem_pool`.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("lp_pool", x, sizes, where, rule)
    fix = "use 1 for the sum of magnitudes, 2 for the Euclidean norm, float('inf') for the largest magnitude"
    shape = window.output_shape(array.shape)
    p, number = check_parameter("lp_pool", "norm_type", norm_type, shape, lambda p: p > 0, "positive", fix)
    return norms(array, mask, p, window, number, rule)


@core
def norms(
    x: jax.Array, mask: jax.Array | None, p: jax.Array | None, window: Window, number: float | None, rule: str
) -> jax.Array:
    """The norm of every window for the exponent `number`, or for the array `p` if `number` is None."""
    x, mask, window, dtype = in_floats(x, mask, window)
    if mask is not None:
        x = jnp.where(mask, x, 0)
    wide = accumulation_dtype(x.dtype)
    if number is not None and number > float(jnp.finfo(wide).max):
        x = without_uncovered(x.astype(wide), window, learnt=False)
        # Not jnp.abs, whose derivative at 0 is 1.
        magnitudes = x * jnp.sign(x)
        # Windows of padding are below 0.
        return jnp.maximum(extremes(magnitudes, None, window, lax.max, rule), 0).astype(dtype)
    p, number = exponent_in_range(p, number, x.ndim, wide)
    if takes_powers(x, p, window, number):
        return pool_by_sums_of_cells(_NormBySums(window, number), rule, x, *in_slabs_of(x, p, window)).astype(dtype)
    x = without_uncovered(x.astype(wide), window, learnt=p is not None)
    return parametric_pool(x, p, Norm(window, number), rule).astype(dtype)


# Notation: x(i) the cells of one window, y = (Σ |x(i)|^p)^(1/p), u(i) = |x(i)|/y, so that Σ u(i)^p = 1. From
# log y = log(Σ |x(i)|^p)/p,
#
#     ∂y/∂x(i) = sign(x(i))·u(i)^(p-1)
#     ∂y/∂p = y·(Σ u(i)^p·log|x(i)| - log y)/p = y/p·Σ u(i)^p·log u(i)
#
# No u exceeds 1, so nothing overflows unless y does. y = 0 is a corner of the norm, where 0 is in the subdifferential
# for p ≥ 1. Such a window, and one whose y is infinite, is *dead*: all its derivatives are 0.


@dataclass(frozen=True)
class Norm(ParametricPool):
    """The weights are powers of u = x·(1/y), whose reciprocal is computed once per window and is 0 for dead ones.

    An infinite cell counts as 0: its windows are dead, and no ratio is NaN.
    """

    @property
    def in_turn(self) -> tuple[Window, ...]:
        return terms_order(self.window)

    def value(
        self, cells: Cells, parameter: Parameter, part: Window, multiplicities: Multiplicities, shift: Shift
    ) -> jax.Array:
        return scaled_norm(cells[0], parameter, part)

    def fill_windows(self, windows: Arrays) -> list[Filled]:
        return list(zip(windows, (0.0, 1.0), strict=False))

    def prepared(self, cells: Arrays, windows: Arrays) -> tuple[Arrays, Arrays]:
        (x,), (y, *p) = cells, windows
        return (jnp.where(jnp.isinf(x), 0, x),), (reciprocal(jnp.where(jnp.isinf(y), 0, y)), *p)

    def weight(self, cells: Arrays, outputs: Arrays, parameter: Parameter) -> jax.Array:
        return signed_power(cells[0] * outputs[0], parameter - 1)

    def slope(self, cells: Arrays, outputs: Arrays, parameter: jax.Array) -> jax.Array:
        # Absent cells are infinite.
        ratio = jnp.where(jnp.isinf(cells[0]), 0, cells[0]) * outputs[0]
        return even_power(ratio, parameter) * log_magnitude(ratio)

    def slope_factor(self, y: jax.Array, parameter: jax.Array) -> jax.Array:
        return jnp.where(jnp.isinf(y), 0, y) / parameter


@dataclass(frozen=True)
class _NormBySums(SumsOfPowers):
    def exact(self, x: jax.Array, *p: jax.Array) -> jax.Array:
        return parametric_pool(x, p[0] if p else None, Norm(self.window, self.number), "jvp")


def scaled_norm(x: jax.Array, p: Parameter, window: Window, multiplicity: Any = None, count: Any = None) -> jax.Array:
    """The norm s·(Σ (|x|/s)^p)^(1/p), s near the largest magnitude: no term overflows, none that counts underflows.

    A mean divides the sum by the `count` of each window; a cell counts once, or by its multiplicity. For whole
    exponents of float32, s is a power of two: products with 1/s are exact, and the CPU compiler, which stores a
    quotient that is read twice, evaluates them in place. Not for float64, whose bits TPUs do not expose.
    """
    magnitudes = jnp.abs(x)
    largest = reduce_windows(magnitudes, window, lax.max)
    largest = lax.max(largest, jnp.zeros_like(largest))
    is_exact = isinstance(p, float) and p.is_integer() and p <= 32 and largest.dtype == np.float32
    # Unscaled if the largest magnitude is infinite or 0.
    scale = power_of_two(largest) if is_exact else jnp.where((largest == 0) | jnp.isinf(largest), 1, largest)
    inverse = 1 / scale

    def term(cells: Cells, _: Arrays) -> jax.Array:
        return positive_power(cells[0] * inverse if is_exact else cells[0] / scale, p)

    total = sum_terms(term, [(magnitudes, 0.0)], window, multiplicity)
    return scale * _root(total if count is None else total / count, p)


def _root(sums: jax.Array, p: Parameter) -> jax.Array:
    if not isinstance(p, float) or p in (1, 2):
        return positive_power(sums, 1 / p)
    return in_one_row(lambda sums: positive_power(sums, 1 / p), sums)
