"""Smooth max pooling: log-sum-exp, with a number or a learnt array β, and what it shares with mellowmax.

Exponentials are of differences from a shift, the largest cell of a window. A value m is kept as a pair of the shift c
and its excess r = m - c; their sum is rounded once, at the end. These pairs are the cells for the next axis. So the
exponent β·(x - m) = β·((x - c) - r) of a weight has no rounding error on the scale of m, which a large β would magnify.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arguments import Rule
from jaxpool._derivatives.exponentials import ExponentialPool, pool_exponentials
from jaxpool._derivatives.in_turn import exponentials_order, extremes_with_zeros
from jaxpool._derivatives.moderate_sums import Terms
from jaxpool._derivatives.pairs import Filled
from jaxpool._derivatives.parametric import Cells, Multiplicities, Parameter, ParametricPool, Shift, parametric_pool
from jaxpool._derivatives.rules import difference
from jaxpool._engine.maps import sum_terms
from jaxpool._engine.operations import Arrays, accumulation_dtype
from jaxpool._engine.stages import in_one_row, materialize
from jaxpool._engine.window_offsets import present_cells
from jaxpool._geometry.sizes import Axes, Padding, Sizes
from jaxpool._geometry.window import Window
from jaxpool._kernels import KernelSize
from jaxpool._platforms import is_portable


def smooth_max_pool(
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
    """Log-sum-exp pooling: the smooth maximum of every window, or the smooth minimum for negative β.

    Formula along an axis: y[o] = log(Σ_j exp(β·x[o·stride - low + j·dilation]))/β, 0 ≤ j < kernel_size. It exceeds the
    maximum (for β < 0: it is below the minimum) by at most log(cells)/|β|, and tends to it as |β| grows. Computed
    relative to the extreme of each window, it does not overflow. Masked cells take no part.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        beta: Sharpness β ≠ 0, in units of 1/x. A finite number, or an array that broadcasts to the output (one per
            channel, say) and may be learnt. Traced values are not checked.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`. Or
            `bins`, `whole` or a `footprint`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        count_include_pad: Whether padded cells take part, as zeros. If not, the limits are `max_pool` and `min_pool`.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `beta` is 0 or not finite, `rule` is unknown, or a window holds only
            padding, without `count_include_pad`.

    Derivative:
        ∂y/∂x[i] = w[i] = exp(β·(x[i] - y)), the softmax of β·x, and ∂y/∂β = Σ w[i]·(x[i] - y)/β, of every order.
        Computed relative to the extreme of the window, weights add up to 1 for every β, to rounding. Ties share
        equally; zeros are ordinary. A cell of -inf (for β < 0: +inf) has weight 0, a window of infinite value
        derivative 0. NaN stays in its windows. A window where no cell or padding takes part is 0 with derivative 0.

    Example:
        >>> x = jnp.array([0.0, 1.0, 2.0, 3.0])
        >>> [jaxpool.smooth_max_pool(x, beta, (2,)).tolist() for beta in (1.0, -1.0)]
        [[1.31326, 3.31326], [-0.31326, 1.68674]]

    Source: Boyd and Vandenberghe, "Convex optimization", 2004, section 3.1.5; as pooling: Pinheiro and Collobert, "From
    image-level to pixel-level labeling with convolutional networks", CVPR 2015.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    return pool_exponentials("smooth_max_pool", x, beta, sizes, where, rule, count_include_pad, _LogSumExp)


@dataclass(frozen=True)
class LogExponentials(ExponentialPool, ParametricPool):
    """A family with weights exp(β·(x - y)), whose values are excesses over the largest cells, exact in `dtype`.

    Excesses, which are of the size of 1/β, are normal numbers.
    """

    kept = 1
    largest_beta = 2.0**-28

    @property
    def in_turn(self) -> tuple[Window, ...]:
        return exponentials_order(self.window)

    def pool_present(self, x: jax.Array, mask: jax.Array | None, beta: jax.Array | None, rule: str) -> jax.Array:
        cells = x if mask is None else jnp.where(mask, x, -jnp.inf)
        present = present_cells(mask, self.window, x.ndim) if self.is_mean else None
        return parametric_pool(cells, beta, self, rule, None if present is None else present.astype(x.dtype))

    @property
    def shift_dtype(self) -> np.dtype:
        return self.dtype

    def shift(self, cells: Cells, part: Window) -> jax.Array:
        # Constant under differentiation, as values do not depend on it.
        largest = extremes_with_zeros(lax.stop_gradient(cells[-1]), part, lax.max)
        return materialize(largest.astype(self.dtype))

    def fill_cells(self, cells: Cells, window: Window) -> list[Filled]:
        """Padded cells are absent or zeros."""
        return [*((excess, 0.0) for excess in cells[:-1]), (cells[-1], 0.0 if window.zeros else -math.inf)]

    def fill_windows(self, windows: Arrays) -> list[Filled]:
        return list(zip(windows, (0.0, math.inf, 1.0), strict=False))

    def weight(self, cells: Arrays, outputs: Arrays, parameter: Parameter) -> jax.Array:
        gap, dead = gap_to_value(cells, outputs)
        return jnp.where(dead, 0, jnp.exp(parameter * gap))


def gap_to_shift(cells: Cells, shift: jax.Array) -> jax.Array:
    """The distances of cells from the shift of a window that holds them; 0 for an infinite cell that is the largest."""
    near, shift = _wide(cells[-1]), _wide(shift)
    same = (near == shift) & jnp.isinf(near) if is_portable() else near == shift
    gap = jnp.where(same, 0, near - shift)
    return gap + cells[0] if len(cells) > 1 else gap


def gap_to_value(cells: Cells, value: Cells) -> tuple[jax.Array, jax.Array]:
    """The distances of cells from the value of a window, which need not hold them, and which cells have no weight.

    Infinite cells, and cells of windows with an infinite value, have no weight; they are replaced by 0 here.
    """
    excess, shift = value[0], _wide(value[1])
    near = _wide(cells[-1])
    dead = jnp.isinf(near) | jnp.isinf(shift)
    gap = difference(jnp.where(dead, 0, near), jnp.where(dead, 0, shift), True)
    if len(cells) > 1:
        gap += cells[0]
    return gap - excess, dead


def _wide(array: jax.Array) -> jax.Array:
    return array.astype(accumulation_dtype(array.dtype))


# Notation: x(i) the cells of one window, β > 0 (a negative β is the same pool of -x, negated), c the shift,
# y = log(Σ exp(β·x(i)))/β = c + log(Σ exp(β·(x(i) - c)))/β, w(i) = exp(β·(x(i) - y)), so that Σ w(i) = 1. Then
#
#     ∂y/∂x(i) = exp(β·x(i)) / Σ exp(β·x(i)) = w(i)
#     ∂y/∂β = (Σ w(i)·x(i))/β - y/β = Σ w(i)·(x(i) - y)/β
#
# No exponential of a distance to c overflows, and no w exceeds 1. A cell of -inf has weight 0. If y is infinite, the
# weights are ratios of infinities, and all derivatives are set to 0.


@dataclass(frozen=True)
class _LogSumExp(LogExponentials):
    zero_allowed = False
    # The logarithm of a single exponential loses digits of the cell.
    is_exact_alone = False

    @property
    def platforms(self) -> tuple[str, ...]:
        counts = (self.window.cells,) if self.window.zeros else self.window.possible_counts()
        return () if 1 in counts else super().platforms

    def value(
        self, cells: Cells, parameter: Parameter, part: Window, multiplicities: Multiplicities, shift: Shift
    ) -> jax.Array:
        assert shift is not None

        def term(cells: Cells, _: Arrays) -> jax.Array:
            gap = gap_to_shift(cells, shift)
            if not is_portable():
                return jnp.exp(parameter * gap)
            # JAX would multiply the distance of an absent cell, which is infinite, by 0.
            absent = jnp.isinf(_wide(cells[-1])) & (_wide(cells[-1]) != _wide(shift))
            return jnp.where(absent, 0, jnp.exp(parameter * jnp.where(absent, 0, gap)))

        multiplicity = None if multiplicities is None else multiplicities[0]
        return in_one_row(jnp.log, sum_terms(term, self.fill_cells(cells, part), part, multiplicity)) / parameter

    def slope(self, cells: Arrays, outputs: Arrays, parameter: jax.Array) -> jax.Array:
        gap, dead = gap_to_value(cells, outputs)
        return jnp.where(dead, 0, jnp.exp(parameter * gap) * gap)

    def slope_factor(self, y: jax.Array, parameter: jax.Array) -> jax.Array:
        return jnp.ones_like(y) / parameter

    def terms(self, x: jax.Array, *beta: jax.Array) -> Terms:
        if beta:
            # ∂/∂β is x·exp(β·x): 0 for an infinite cell without weight, too.
            largest = jnp.finfo(x.dtype).max
            x = jnp.clip(x, -largest, largest)
        return (jnp.exp(self.sharpness(beta) * x),)

    def value_of_sums(self, sums: Terms, counts: ArrayLike, *beta: jax.Array) -> jax.Array:
        return jnp.log(sums[0]) / self.sharpness(beta)
