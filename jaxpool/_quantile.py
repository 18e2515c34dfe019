"""Rank filters: the median of every window, and any other quantile, or several.

Like an extreme, a quantile only reads cells: forward mode averages the tangents at the chosen cells, and reverse mode
sends the cotangent to them in proportion to the weights of the mean. Several quantiles have one selection, of all ranks
that any of them reads, and one map back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._call import LESS_PADDING, core, extended, sliding
from jaxpool._checks import Rule, check_no_mask
from jaxpool._jax.linear_map import CellSelector, LinearMap, ValuesAndResiduals, selected_values
from jaxpool._jax.stages import materialize, separate_term, stage
from jaxpool._kernels import KernelSize
from jaxpool._ranks import MOST_IN_NETWORK, Rank, offsets_at_ranks, values_at_ranks
from jaxpool._sizes import Axes, Padding, Sizes
from jaxpool._window import Window
from jaxpool._windows.cells import present_cells
from jaxpool._windows.choices import on_every_platform, read_at_offsets, reduce_windows, route_to_chosen
from jaxpool._windows.operations import Arrays, accumulation_dtype, identity

QuantileMethod = Literal[
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "linear",
    "median_unbiased",
    "normal_unbiased",
    "lower",
    "higher",
    "midpoint",
    "nearest",
]


def median_pool(
    x: ArrayLike,
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
    """Median pooling, or median filtering: the median of the cells of every window.

    Formula: with the n cells of a window sorted, s[0] ≤ … ≤ s[n-1], y = (s[⌊(n-1)/2⌋] + s[⌈(n-1)/2⌉])/2: the middle
    cell, or the mean of the middle two. Padded and masked cells are left out, so that n may differ between windows.

    Args:
        x, kernel_size, stride, padding, dilation, ceil_mode, axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32).

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y/∂x[i] = 1 if i is the middle cell, 1/2 if it is one of the middle two, else 0; higher derivatives are 0.
        Ties: equal cells are sorted in row-major order. +0 and -0 tie. NaN: a window with NaN is NaN, and its first NaN
        takes all. A mean of infinities of both signs is NaN. A window that `where` empties is 0 with derivative 0.

    Example:
        >>> jaxpool.median_pool(jnp.array([[1.0, 9.0, 2.0, 2.0], [3.0, 4.0, 5.0, 80.0]]), (2, 3), stride=1)
        Array([[3.5, 4.5]], dtype=float32)

    Source: Tukey, "Exploratory data analysis", 1977; Huang, Yang and Tang, "A fast two-dimensional median filtering
    algorithm", IEEE Transactions on Acoustics, Speech and Signal Processing 1979.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    (values,) = _pool("median_pool", x, (0.5,), "linear", where, rule, *sizes)
    return values


def quantile_pool(
    x: ArrayLike,
    q: float | Sequence[float],
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    method: QuantileMethod = "linear",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Quantile pooling, or rank filtering: a quantile of the cells of every window, or several.

    Formula: with the n cells of a window sorted, s[0] ≤ … ≤ s[n-1], and a place h = ⌊h⌋ + t among them, y =
    (1-w)·s[⌊h⌋] + w·s[⌊h⌋ + 1], where ranks below 0 and above n-1 are 0 and n-1; `method` determines h and w, by
    default h = q·(n-1) and w = t. There q = 0 is the minimum, 1/2 the median, 1 the maximum. Padded and masked cells
    are left out, so that n may differ between windows.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        q: The quantile, a Python number from 0 to 1, or a sequence of quantiles, which share one selection of cells. An
            h within rounding of an integer is taken as that integer.
        kernel_size, stride, padding: As in `max_pool`.
        method: Those of `np.quantile`. With h = q·(n-1): "linear" (w = t), "lower" (0), "higher" (1 if t > 0),
            "midpoint" (1/2 if t > 0), "nearest" (1 if t > 1/2; halfway, the even rank). With h = q·n - 1:
            "inverted_cdf" (1 if t > 0), "averaged_inverted_cdf" (1/2 if t = 0, else 1), "interpolated_inverted_cdf"
            (t). With h = q·n - 3/2: "closest_observation" (1, but 0 if t = 0 and ⌊h⌋ is odd). With
            h = q·(n + 1 - 2a) + a - 1 and w = t: "hazen" (a = 1/2), "weibull" (0), "median_unbiased" (1/3),
            "normal_unbiased" (3/8).
        dilation, ceil_mode, axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (if `method` averages, integers and bool: float32). A sequence of quantiles adds a
        first axis, with an entry for each, as in `np.quantile`.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: q is not in [0, 1], arguments do not fit x, `method` or `rule` is unknown, or a window holds only
            padding.

    Derivative:
        ∂y/∂x[i] = 1-w at the cell that is s[⌊h⌋], w at the one that is s[⌊h⌋ + 1], 0 elsewhere (1 at the one cell of
        methods that do not average); higher derivatives are 0. Ties: equal cells are sorted in row-major order, so that
        q = 1 takes the last of equal maxima. +0 and -0 tie. NaN: a window with NaN is NaN, and its first NaN takes all.
        A mean of infinities of both signs is NaN. A window that `where` empties is 0 with derivative 0.

    Example:
        >>> x = jnp.array([0.0, 10.0, 20.0, 30.0, 40.0, 90.0])
        >>> jaxpool.quantile_pool(x, 0.75, (4,), stride=2)
        Array([22.5, 52.5], dtype=float32)
        >>> jaxpool.quantile_pool(x, (0.25, 0.75), (4,), stride=2, method="nearest")
        Array([[10., 30.],
               [20., 40.]], dtype=float32)

    Source: Justusson, "Median filtering: statistical properties", Topics in Applied Physics 43, 1981 (rank filters);
    Hyndman and Fan, "Sample quantiles in statistical packages", The American Statistician 1996 (nine of the methods).
    """
    quantiles = _check_quantiles("quantile_pool", q, method)
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    values = _pool("quantile_pool", x, quantiles, method, where, rule, *sizes)
    return jnp.stack(values) if _is_several(q) else values[0]


def _pool(
    function: str, x: ArrayLike, quantiles: tuple[float, ...], method: str, where: Any, rule: str, *sizes: Any
) -> list[jax.Array]:
    array, mask, window = sliding(function, x, sizes, where, rule, only_padding=LESS_PADDING)
    window.check_counts_fit(function)
    return _quantiles(array, mask, window, quantiles, method, rule)


@core
def _quantiles(
    x: jax.Array, mask: jax.Array | None, window: Window, quantiles: tuple[float, ...], method: str, rule: str
) -> list[jax.Array]:
    """The quantiles of every window, over the cells that the mask holds; 0 without any."""
    dtype, counts = x.dtype, None
    x, mask, window = extended(x, mask, window)
    if mask is not None:
        x = jnp.where(mask, x, identity(lax.min, x.dtype))
        counts = reduce_windows(mask.astype(np.int32), window, lax.add)
    values = selected_values(_Chosen(window, quantiles, method), rule, x, mask, counts)
    if jnp.issubdtype(dtype, jnp.inexact):
        values = [each.astype(dtype) for each in values]
    return [each if counts is None else jnp.where(counts > 0, each, jnp.zeros_like(each)) for each in values]


def _check_quantiles(function: str, q: Any, method: Any) -> tuple[float, ...]:
    """The quantiles; raise if q holds anything but numbers from 0 to 1, or the method is unknown."""
    check_no_mask(function, "q", q)
    if isinstance(q, (jax.Array, np.ndarray)):
        given, fix = ("a traced value", "") if isinstance(q, jax.core.Tracer) else ("an array", ", as in tuple(q)")
        raise TypeError(
            f"{function}: q must be a Python number or a sequence of them, got {given}; give a number or a tuple{fix}"
        )
    if _is_several(q) and not q:
        raise ValueError(f"{function}: q must be a number or several, got {q!r}; use 0.5 for the median")
    if not isinstance(method, str) or method not in _METHODS:
        raise ValueError(
            f"{function}: method {method!r} is unknown; use one of those in np.quantile: "
            f"{', '.join(map(repr, _METHODS))}"
        )
    return tuple(_checked(function, each) for each in (q if _is_several(q) else (q,)))


def _is_several(q: Any) -> bool:
    """Whether q is a sequence of quantiles, not a single one."""
    return isinstance(q, Sequence) and not isinstance(q, str)


def _checked(function: str, q: Any) -> float:
    if isinstance(q, (bool, np.bool_)) or not isinstance(q, (int, float, np.integer, np.floating)):
        raise TypeError(f"{function}: q must be a number from 0 to 1, got {q!r}; use 0.5 for the median")
    if not 0 <= q <= 1:
        hint = f"; percent {q} is q={float(q) / 100:g}" if 1 < q <= 100 else "; use 0.5 for the median"
        raise ValueError(f"{function}: q must be from 0 to 1, got {q}{hint}")
    return float(q)


# The definitions of quantiles: the numbers around place h among n sorted ones, counted from 0, are those of ranks ⌊h⌋
# and ⌊h⌋ + 1, the first and the last one beyond the ends. The definitions that `np.quantile` has, of which nine are
# those of Hyndman and Fan, differ in h and in the weight of the second number.


class _Method(NamedTuple):
    """A definition: h = q·(n + 1 - α - β) + α - 1, the weight of the second number for ⌊h⌋ and h - ⌊h⌋, and its kind.

    The weight is elementwise in arrays. A method that does not average takes one of the two numbers.
    """

    alpha: float
    beta: float
    weight: Callable[[Any, Any], Any] = lambda lower, part: part
    averages: bool = True


_METHODS: dict[str, _Method] = {
    "inverted_cdf": _Method(0, 1, lambda lower, part: part > 0, averages=False),
    "averaged_inverted_cdf": _Method(0, 1, lambda lower, part: ((part > 0).astype(part.dtype) + 1) / 2),
    # Halfway between two numbers, the one whose number from 1 is even; in "nearest", whose number from 0 is.
    "closest_observation": _Method(-0.5, 1.5, lambda lower, part: (part > 0) | (lower % 2 == 0), averages=False),
    "interpolated_inverted_cdf": _Method(0, 1),
    "hazen": _Method(0.5, 0.5),
    "weibull": _Method(0, 0),
    "linear": _Method(1, 1),
    "median_unbiased": _Method(1 / 3, 1 / 3),
    "normal_unbiased": _Method(3 / 8, 3 / 8),
    "lower": _Method(1, 1, lambda lower, part: part < 0, averages=False),
    "higher": _Method(1, 1, lambda lower, part: part > 0, averages=False),
    "midpoint": _Method(1, 1, lambda lower, part: (part > 0).astype(part.dtype) / 2),
    "nearest": _Method(1, 1, lambda lower, part: (part > 0.5) | ((part == 0.5) & (lower % 2 == 1)), averages=False),
}


def _ranks_around(q: float, method: str, counts: Any, most: int) -> tuple[Any, Any, Any]:
    """The ranks of the two cells around a quantile of so many cells, and the weight of the second.

    On a cell, its rank twice and the weight 0. The numbers are at most `most`. Results are in int32, and in float32
    unless JAX has wider floats; in JAX if the numbers are, else in NumPy.
    """
    counts = counts if isinstance(counts, jax.Array) else np.asarray(counts, np.int32)
    xp, alpha, beta, weight_of = jnp if isinstance(counts, jax.Array) else np, *_METHODS[method][:3]
    first, part = _place(counts, most, Fraction(q), q * (1 - alpha - beta) + alpha - 1, xp)
    weight = weight_of(first, part).astype(part.dtype)
    lower, upper = (xp.clip(rank, 0, xp.maximum(counts - 1, 0)) for rank in (first, first + 1))
    lower, upper = xp.where(weight == 1, upper, lower), xp.where(weight == 0, lower, upper)
    return lower, upper, xp.where(lower < upper, weight, 0)


def _place(counts: Any, most: int, slope: Fraction, shift: float, xp: Any) -> tuple[Any, Any]:
    """⌊h⌋ and h - ⌊h⌋ for h = slope·n + shift, as float32 has no digits for the h of a million cells.

    slope·n is a sum over the bits of n: of integers, and of fractions with a carry after every one.
    """
    floats = jax.dtypes.canonicalize_dtype(np.float64)
    first, part = math.floor(shift), xp.full(counts.shape, shift % 1, floats)
    for bit in range(most.bit_length()):
        whole, fraction = divmod(slope * 2**bit, 1)
        is_set = (counts >> bit) & 1
        part = part + is_set.astype(floats) * floats.type(fraction)
        carry = xp.floor(part)
        first, part = first + is_set * np.int32(whole) + carry.astype(np.int32), part - carry
    # 0.14·50 must be 7, not the next number, which "higher" would round to 8; "nearest" rounds halves as well.
    nearest = xp.round(part * 2) / 2
    part = xp.where(abs(part - nearest) <= float(jnp.finfo(floats).eps) ** (2 / 3), nearest, part)
    carry = xp.floor(part)
    return first + carry.astype(np.int32), part - carry


# Where quantiles are among the cells of every window: at one rank or between two, depending on the number of cells.
# Where this differs between windows, ranks and weights are computed from it on the device. Quantiles that read the same
# ranks share them.


class _Mean(NamedTuple):
    """A quantile of every window as a mean of cells: the numbers of one rank or two, and the weight of the second."""

    ranks: list[int]
    weight: Any


def _ranks_and_means(
    counts: jax.Array | None, window: Window, quantiles: tuple[float, ...], method: str, rank: int
) -> tuple[list[Rank], list[_Mean]]:
    """The different ranks that determine the quantiles of every window, and the quantiles as means of their cells.

    `counts` are the numbers of unmasked cells; None if only padding is absent. Arrays have `rank` axes.
    """
    held: Any = window.counts(rank, padding=False) if counts is None else counts
    possible = np.arange(window.held + 1) if window.held <= MOST_IN_NETWORK else None
    if counts is None:
        possible = np.array(window.possible_counts())
    ranks, means = dict[tuple[Any, ...], Rank](), list[_Mean]()
    for q in quantiles:
        *wanted, weight = map(materialize, _ranks_around(q, method, held, window.held))
        # What tells a rank from others: where windows have few numbers of cells, the rank for each of these.
        columns: list[tuple[Any, ...]]
        if possible is None:
            columns = [(q, second) for second in range(1 + (_METHODS[method].averages and 0 < q < 1))]
        else:
            *both, weights = _ranks_around(q, method, possible, window.held)
            columns = [tuple(each.tolist()) for each in both[: 1 + weights.any()]]
        numbers = list[int]()
        for column, each in zip(columns, wanted, strict=False):
            ranks.setdefault(column, Rank(each, frozenset(() if possible is None else column)))
            numbers.append([*ranks].index(column))
        means.append(_Mean(numbers, weight))
    return [*ranks.values()], means


def _mean(cells: Arrays, mean: _Mean, dtype: Any, *, between: bool = False) -> jax.Array:
    """The mean of cells, which may be infinite, or of their tangents; with `between` it is never outside the cells."""
    lower, *upper = (cells[rank] for rank in mean.ranks)
    if not upper:
        return lower.astype(dtype)
    lower, upper = (each.astype(accumulation_dtype(dtype)) for each in (lower, *upper))
    weight = mean.weight.astype(lower.dtype)
    value = jnp.where(weight == 0, lower, separate_term((1 - weight) * lower) + weight * upper)
    return (jnp.clip(value, lower, upper) if between else value).astype(dtype)


# Notation: c(o) and d(o) are the cells of window o at the two ranks around a quantile, sorted by value and then by
# offset; w(o) is the weight of the second, which depends only on the number of cells. If the quantile is at one rank,
# or one is asked for, there is no d. A dot marks a tangent, a bar a cotangent; the first sum is over the quantiles.
#
#     y(o) = (1-w(o))·x(c(o)) + w(o)·x(d(o))        ẏ(o) = (1-w(o))·ẋ(c(o)) + w(o)·ẋ(d(o))
#     x̄(i) = Σ (Σ_{o : c(o) = i} (1-w(o))·ȳ(o) + Σ_{o : d(o) = i} w(o)·ȳ(o))
#
# c and d are locally constant where no two cells are equal. There these are the derivatives, and all higher ones are
# zero. At ties they are the derivatives for one order of the equal cells. The second and third formulas are the two
# directions of `_MeansOfChosen`. Both need the offsets of the cells, one for each rank, but not x. In a window with
# NaN, all cells are its first NaN. Masked cells are replaced by the largest value of the dtype, and are never chosen.


@dataclass(frozen=True)
class _Chosen(CellSelector):
    window: Window
    quantiles: tuple[float, ...]
    method: str

    def select(self, x: jax.Array, mask: jax.Array | None, counts: jax.Array | None, /) -> ValuesAndResiduals:
        _, means = _ranks_and_means(counts, self.window, self.quantiles, self.method, x.ndim)
        cells, offsets = on_every_platform(self._cells, x, mask, counts)
        averages = _METHODS[self.method].averages and not jnp.issubdtype(x.dtype, jnp.inexact)
        dtype = np.float32 if averages else x.dtype
        return tuple(_mean(cells, mean, dtype, between=True) for mean in means), (offsets, counts)

    def _cells(self, x: jax.Array, mask: jax.Array | None, counts: jax.Array | None) -> tuple[Arrays, Arrays]:
        """The values and the offsets of the cells at the ranks of the quantiles."""
        present = present_cells(mask, self.window, x.ndim)
        ranks, _ = _ranks_and_means(counts, self.window, self.quantiles, self.method, x.ndim)
        values = stage(partial(values_at_ranks, window=self.window, ranks=ranks), x)
        return values, stage(partial(offsets_at_ranks, window=self.window, ranks=ranks), x, present, values)

    @property
    def read(self) -> LinearMap:
        return _MeansOfChosen(self.window, self.quantiles, self.method)


@dataclass(frozen=True)
class _MeansOfChosen(LinearMap):
    """The means of the cells at the offsets of all ranks."""

    window: Window
    quantiles: tuple[float, ...]
    method: str

    def forward(self, x: jax.Array, offsets: Arrays, counts: jax.Array | None, /) -> Arrays:
        cells = tuple(read_at_offsets(x, each, self.window) for each in offsets)
        _, means = _ranks_and_means(counts, self.window, self.quantiles, self.method, x.ndim)
        return tuple(_mean(cells, mean, x.dtype) for mean in means)

    def transpose(self, cotangents: Arrays, offsets: Arrays, counts: jax.Array | None, /) -> jax.Array:
        def route(cotangents: Arrays, offsets: Arrays, counts: jax.Array | None) -> jax.Array:
            _, means = _ranks_and_means(counts, self.window, self.quantiles, self.method, cotangents[0].ndim)
            shares, places = [], []
            for cotangent, mean in zip(cotangents, means, strict=True):
                places += [offsets[rank] for rank in mean.ranks]
                if len(mean.ranks) == 1:
                    shares.append(cotangent)
                else:
                    wide = cotangent.astype(accumulation_dtype(cotangent.dtype))
                    weight = mean.weight.astype(wide.dtype)
                    shares += [(1 - weight) * wide, weight * wide]
            return route_to_chosen(shares, places, self.window).astype(cotangents[0].dtype)

        return on_every_platform(partial(stage, route), cotangents, offsets, counts)
