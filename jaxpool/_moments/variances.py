"""Means and variances of windows, merged from those of parts: along axes in turn, and over pieces of long windows.

A window is known by its number of cells, its largest cell C, the mean R of the cells less C, and its variance. Cells
are subtracted from a cell of their own window before anything is summed, so that equal cells have the variance 0, and
a mean far from 0 costs no digits. Sums of squares are never subtracted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._derivatives.in_turn import over_parts
from jaxpool._derivatives.pairs import Filled, PairMap, Weights
from jaxpool._derivatives.powers import corrected_share, power_of_two
from jaxpool._derivatives.rules import LinearMap, apply_linear_map, custom_rule, with_rule
from jaxpool._engine import gpu
from jaxpool._engine.maps import on_every_platform, reduce_windows, spread
from jaxpool._engine.operations import Arrays
from jaxpool._engine.reductions import reduce_by_slices, sum_over_offsets
from jaxpool._geometry.window import Window
from jaxpool._platforms import default_platform, known_platform

# Notation: window o holds the cells, or parts, i with n(i) cells, the largest c(i), the mean r(i) less c(i), and the
# variance v(i); of a cell these are 1, x(i), 0 and 0. N, C, R and V are those of the window; e(i) is the deviation of
# the mean of i from that of the window; a dot marks a tangent.
#
#     C = max c(i)      R = Σ n(i)·(c(i) - C + r(i))/N      e(i) = c(i) - C + r(i) - R      V = Σ n(i)·(v(i) + e(i)²)/N
#     Ṙ = Σ n(i)·ṙ(i)/N                                     V̇ = Σ n(i)·(v̇(i) + 2·e(i)·ṙ(i))/N
#
# C is constant under differentiation, as nothing else depends on it; the tangent of a cell is that of its r. In V̇, Ṙ
# is left out, as Σ n(i)·e(i) = 0. All are sums over pairs of a cell and a window, and so are all higher derivatives.
#
# All differences are scaled by a constant κ, so that no sum of them overflows. With the scale s of R, V is kept as
# P = V/s, where s is constant, too: the largest deviation is between |R| and N·|R|, since the largest cell deviates by
# |R|, so nothing overflows, or vanishes, that a standard deviation holds. A NaN or an infinite cell makes V NaN.

# c, and r of the parts.
Cells = tuple[jax.Array, ...]
# These, P of the parts, and the numbers of cells. Of cells there are only c; without numbers all are equal.
_State = tuple[Cells, jax.Array | None, jax.Array | None]


@dataclass(frozen=True)
class _Deviations(Weights):
    """The weights 2·e/s of all pairs; cells that are absent are -inf, and have weight 0."""

    kappa: float
    absent: bool

    @property
    def name(self) -> str:
        return f"deviations {self.kappa}"

    def fill_cells(self, cells: Arrays, window: Window) -> list[Filled]:
        return [(cells[0], -np.inf), *((excess, 0.0) for excess in cells[1:])]

    def fill_windows(self, windows: Arrays) -> list[Filled]:
        return list(zip(windows, (0.0, 0.0, 1.0), strict=True))

    def prepared(self, cells: Arrays, windows: Arrays) -> tuple[Arrays, Arrays]:
        largest, mean = windows
        return cells, (self.kappa * largest, mean, 2 / scale_of(mean))

    def exponent_and_factors(self, cells: Arrays, windows: Arrays) -> tuple[None, Arrays]:
        largest, mean, inverse = windows
        return None, (self.deviation(cells, largest, mean) * inverse,)

    def deviation(self, cells: Arrays, largest: jax.Array, mean: jax.Array | float) -> jax.Array:
        """The deviation from the mean, which is relative to the largest cell; that is scaled by κ already."""
        near, *excess = cells
        gap = sum(excess, self.kappa * near - largest) - mean
        return jnp.where(near == -jnp.inf, 0, gap) if self.absent else gap


@dataclass(frozen=True)
class _Scales(Weights):
    """The weights s(i)/s of all pairs, from s(i) and 1/s: P of a part may be as large or small as a cell."""

    @property
    def name(self) -> str:
        return "scales"

    def exponent_and_factors(self, cells: Arrays, windows: Arrays) -> tuple[None, Arrays]:
        return None, (cells[0] * windows[0],)


def scale_of(mean: jax.Array) -> jax.Array:
    """The scale s of a mean of differences, 1 if that is 0. A power of two, except for float64, see `_lp`."""
    magnitude = lax.stop_gradient(jnp.abs(mean))
    scale = jnp.maximum(magnitude, 4 * jnp.finfo(mean.dtype).tiny)
    return jnp.where(magnitude == 0, 1, power_of_two(scale) if mean.dtype == np.float32 else scale)


@custom_rule((0, 4))
def _merge(
    weights: _Deviations, cells: Cells, squares: jax.Array | None, numbers: tuple[jax.Array, Any] | None, part: Window
) -> Arrays:
    """C, R and P of every window; the numbers are n and N, or None if all n are 1, or equal."""

    def merge_on_platform(cells: Cells, squares: Any, numbers: Any) -> Arrays:
        in_stage = partial(on_every_platform, in_stage=True)
        largest = in_stage(partial(largest_cells, part=part), lax.stop_gradient(cells[0]), mark="largest")
        mean = in_stage(mean_on_platform, cells, numbers, largest, mark="mean")
        return largest, mean, in_stage(square_on_platform, cells, squares, numbers, largest, mean, mark="square")

    def mean_on_platform(cells: Cells, numbers: Any, largest: jax.Array) -> jax.Array:
        count, total = numbers or (None, float(part.held))
        scaled = weights.kappa * largest

        def gap(*given: jax.Array) -> jax.Array:
            deviation = weights.deviation(given[: len(cells)], scaled, 0.0)
            return deviation if count is None else given[-1] * deviation

        return sum_over_offsets(gap, filled(cells, count), part) / total

    def square_on_platform(cells: Cells, squares: Any, numbers: Any, largest: jax.Array, mean: jax.Array) -> jax.Array:
        count, total = numbers or (None, float(part.held))
        scaled, inverse = weights.kappa * largest, 1 / scale_of(mean)

        def square(*given: jax.Array) -> jax.Array:
            deviation = weights.deviation(given[: len(cells)], scaled, mean)
            added = deviation * inverse * deviation
            if squares is not None:
                added += given[len(cells)] * (scale_of(given[1]) * inverse)
            return added if count is None else given[-1] * added

        return sum_over_offsets(square, filled(cells, squares, count), part) / total

    def filled(cells: Cells, *others: Any) -> list[Filled]:
        """Padded cells have no number."""
        return [*weights.fill_cells(cells, part), *((one, 0.0) for one in others if one is not None)]

    like = jax.ShapeDtypeStruct(part.output_shape(cells[0].shape), cells[0].dtype)
    return on_every_platform(merge_on_platform, cells, squares, numbers, like=(like,) * 3)


def largest_cells(cells: jax.Array, part: Window) -> jax.Array:
    """The largest cell of every window; on GPUs in the loop that reads it."""
    if known_platform() != "cpu" and part.cells <= gpu.MOST_READS:
        return reduce_by_slices(cells, part, lax.max)
    return reduce_windows(cells, part, lax.max)


@_merge.defjvp
def _merge_jvp(weights: _Deviations, part: Window, primals: Any, tangents: Any) -> tuple[Arrays, Arrays]:
    (cells, squares, numbers), ((*_, cells_dot), squares_dot, _) = primals, tangents
    largest, mean, value = _merge(weights, *primals, part)
    count, total = numbers or (None, float(part.held))
    vector = cells_dot * (weights.kappa if len(cells) == 1 else 1.0)
    vector = vector if count is None else count * vector
    mean_dot = apply_linear_map(_Sums(part), vector, like=mean) / total
    (value_dot,) = apply_linear_map(PairMap(weights, part), vector, cells, (largest, mean), like=(value,))
    if squares is not None:
        vector = squares_dot if count is None else count * squares_dot
        scales = (scale_of(cells[1]),), (1 / scale_of(mean),)
        value_dot += apply_linear_map(PairMap(_Scales(), part), vector, *scales, like=(value,))[0]
    return (largest, mean, value), (jnp.zeros_like(largest), mean_dot, value_dot / total)


@dataclass(frozen=True)
class _Sums(LinearMap):
    window: Window

    def forward(self, x: jax.Array, /) -> jax.Array:
        return reduce_windows(x, self.window, lax.add)

    def transpose(self, sums_bar: jax.Array, /) -> jax.Array:
        return spread(sums_bar, self.window)


def variances(
    x: jax.Array,
    mask: jax.Array | None,
    count: jax.Array | None,
    window: Window,
    correction: float,
    root: bool,
    rule: str,
) -> jax.Array:
    """The variance of every window over its number of cells less the correction, or the root of that.

    `count` is 1 for every present cell, of full size along the pooled axes; None if windows hold no others. Absent
    cells are -inf, masked ones already in x; then no other cell may be.
    """
    # κ is small enough for the sum of as many differences, each of two cells, and twice that.
    bits = 2 + math.ceil(math.log2(window.cells))
    step = partial(_merge_state, weights=_Deviations(2.0**-bits, count is not None))
    value = partial(_value, cells=float(window.held), correction=correction, root=root, unscaled=2.0**bits)

    def pool(x: jax.Array, mask: jax.Array | None, count: jax.Array | None) -> jax.Array:
        return over_parts(step, lambda x: ((x,), None, count), value, moments_order(window), x, mask, window)

    return with_rule(rule, pool)(x, mask, count)


def _value(state: _State, *, cells: float, correction: float, root: bool, unscaled: float) -> jax.Array:
    (_, mean), squares, count = state
    assert squares is not None, "a window has an axis"
    total = jnp.asarray(cells, mean.dtype) if count is None else count
    share, scale = corrected_share(total, correction), scale_of(mean)
    if not root:
        return (squares * unscaled) * share * (scale * unscaled)
    squares = squares * share
    is_zero = squares == 0
    deviation = _scaled_root(jnp.where(is_zero, 1, squares), jnp.where(is_zero, 1, scale))
    return jnp.where(is_zero, 0, deviation) * unscaled


# The derivatives of y = √(P·s) in P are s/(2·y)·Ṗ, and those of s/(2·y), which is about 1: nothing in them is of the
# order of P², which may overflow or vanish.


@custom_rule()
def _scaled_root(square: jax.Array, scale: jax.Array) -> jax.Array:
    """The root of square·scale, where square/scale is about 1; the scale is constant."""
    return lax.sqrt(square / scale) * scale


@_scaled_root.defjvp
def _scaled_root_jvp(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    root = _scaled_root(*primals)
    return root, tangents[0] * (0.5 / (root / primals[1]))


def moments_order(window: Window) -> tuple[Window, ...]:
    """The windows that are merged in turn, the first axis first."""
    most = gpu.MOST_TERMS if default_platform() == "cpu" else gpu.MOST_READS
    return (window,) if window.cells <= most else window.split()[::-1]


def _merge_state(state: _State, part: Window, counts: Sequence[int] = (), *, weights: _Deviations) -> _State:
    cells, squares, count = state
    weighed = bool(counts) and count is None
    if weighed:
        count = jnp.asarray(part.axes[0].along(np.array(counts, cells[0].dtype), cells[0].ndim))
    total = None if count is None else reduce_windows(count, part, lax.add)
    numbers = None if count is None or total is None else (count, jnp.maximum(total, 1))
    largest, mean, squares = _merge(weights, cells, squares, numbers, part)
    return (lax.stop_gradient(largest), mean), squares, None if weighed else total
