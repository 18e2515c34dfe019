"""The value of one window for each pool, in float64 NumPy, and the slope of that value for each cell.

A rule gets the cells of the window in row-major order, padding as 0, and which of them are real. A window without
cells, which only a mask can cause, is 0.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

Slopes = np.ndarray
WindowRule = Callable[..., tuple[Any, Slopes]]


def largest(cells: np.ndarray, real: np.ndarray) -> tuple[Any, Slopes]:
    """The first real cell that no other exceeds; the first NaN if there is one. 0 without real cells."""
    if not real.any():
        return 0.0, np.zeros(len(cells))
    winner = None
    for n in np.flatnonzero(real):
        if winner is None or cells[n] > cells[winner] or (np.isnan(cells[n]) and not np.isnan(cells[winner])):
            winner = n
    slopes = np.zeros(len(cells))
    slopes[winner] = 1
    return cells[winner], slopes


def smallest(cells: np.ndarray, real: np.ndarray) -> tuple[Any, Slopes]:
    """The first real cell that exceeds no other; the first NaN if there is one."""
    value, slopes = largest(-cells, real)
    return -value, slopes


def total(cells: np.ndarray, real: np.ndarray) -> tuple[Any, Slopes]:
    """The sum; padding holds 0."""
    return cells.sum(), np.ones(len(cells))


def average(
    cells: np.ndarray, real: np.ndarray, count_include_pad: bool = True, divisor_override: float | None = None
) -> tuple[Any, Slopes]:
    """The sum over the divisor: the override, or the cells counted."""
    divisor = divisor_override or (len(cells) if count_include_pad else real.sum()) or 1
    return cells.sum() / divisor, np.full(len(cells), 1 / divisor)


def norm(cells: np.ndarray, real: np.ndarray, norm_type: float) -> tuple[Any, Slopes]:
    """(Σ|x|^p)^(1/p), scaled by the largest magnitude; no derivative where it is 0 or, for finite p, infinite."""
    magnitudes = np.abs(cells)
    scale = magnitudes.max(initial=0)
    if np.isnan(scale):
        return math.nan, np.full(len(cells), math.nan)
    if norm_type == math.inf and scale > 0:
        return scale, np.sign(cells) * (np.arange(len(cells)) == np.argmax(magnitudes))
    if scale == 0 or math.isinf(scale):
        return scale, np.zeros(len(cells))
    value = scale * ((magnitudes / scale) ** norm_type).sum() ** (1 / norm_type)
    slopes = np.zeros(len(cells))
    nonzero = cells != 0
    slopes[nonzero] = np.sign(cells[nonzero]) * (magnitudes[nonzero] / value) ** (norm_type - 1)
    return value, slopes


def smooth(cells: np.ndarray, real: np.ndarray, beta: float, count_include_pad: bool = True) -> tuple[Any, Slopes]:
    """log(Σ exp(β·x))/β; no derivative where it is infinite."""
    counted = np.full(len(cells), True) if count_include_pad else real
    if not counted.any():
        return 0.0, np.zeros(len(cells))
    powers = np.where(counted, beta * cells, -math.inf)
    top = powers.max()
    if np.isnan(top):
        return math.nan, np.full(len(cells), math.nan)
    if math.isinf(top):
        return top / beta, np.zeros(len(cells))
    sum_of_powers = np.exp(powers - top).sum()
    return (top + np.log(sum_of_powers)) / beta, np.exp(powers - top) / sum_of_powers


def quantile(cells: np.ndarray, real: np.ndarray, q: float, method: str = "linear") -> tuple[Any, Slopes]:
    """The real cell at the place of q, or a weighted mean of the two around it; the first NaN where there is one."""
    slopes = np.zeros(len(cells))
    if not real.any():
        return 0.0, slopes
    present = np.flatnonzero(real)
    if np.isnan(cells[present]).any():
        slopes[present[np.isnan(cells[present])][0]] = 1
        return math.nan, slopes
    lower, upper, weight = ranks_of_quantile(len(present), q, method)
    # Python's sort is stable: equal cells stay in row-major order.
    ordered = sorted(present, key=lambda n: cells[n])
    slopes[ordered[lower]] += 1 - weight
    slopes[ordered[upper]] += weight
    low, high = float(cells[ordered[lower]]), float(cells[ordered[upper]])
    return low if low == high else (1 - weight) * low + weight * high, slopes


# The definitions of Hyndman and Fan whose place among n numbers, from 1, is n·q + α + q·(1 - α - β).
_ALPHA_AND_BETA = {
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (Fraction(1, 2), Fraction(1, 2)),
    "weibull": (0, 0),
    "linear": (1, 1),
    "median_unbiased": (Fraction(1, 3), Fraction(1, 3)),
    "normal_unbiased": (Fraction(3, 8), Fraction(3, 8)),
}


def ranks_of_quantile(count: int, q: float, method: str) -> tuple[int, int, float]:
    """The two ranks of sorted numbers that a method takes, counted from 0, and the weight of the second."""
    exact, weight = Fraction(float(q)).limit_denominator(10**6), 0.5
    if method in _ALPHA_AND_BETA:
        alpha, beta = _ALPHA_AND_BETA[method]
        place = count * exact + alpha + exact * (1 - alpha - beta) - 1
        lower, upper, weight = math.floor(place), math.ceil(place), float(place % 1)
    else:
        among_steps, among_numbers = count * exact, (count - 1) * exact
        lower, upper = {
            "inverted_cdf": (math.ceil(among_steps) - 1,) * 2,
            "averaged_inverted_cdf": (math.ceil(among_steps) - 1, math.floor(among_steps)),
            # Python rounds halves to even numbers.
            "closest_observation": (round(among_steps) - 1,) * 2,
            "lower": (math.floor(among_numbers),) * 2,
            "higher": (math.ceil(among_numbers),) * 2,
            "midpoint": (math.floor(among_numbers), math.ceil(among_numbers)),
            "nearest": (round(among_numbers),) * 2,
        }[method]
    lower, upper = (min(max(rank, 0), count - 1) for rank in (lower, upper))
    return lower, upper, weight


def nth_largest(cells: np.ndarray, real: np.ndarray, rank: int) -> tuple[Any, Slopes]:
    """The real cell of this rank from 0, NaN before numbers and the first of equal cells first; 0 if there is none."""
    slopes = np.zeros(len(cells))
    # Python's sort is stable.
    ordered = sorted(
        np.flatnonzero(real), key=lambda n: (not np.isnan(cells[n]), -cells[n] if cells[n] == cells[n] else 0)
    )
    if rank >= len(ordered):
        return 0.0, slopes
    slopes[ordered[rank]] = 1
    return cells[ordered[rank]], slopes


def median(cells: np.ndarray, real: np.ndarray) -> tuple[Any, Slopes]:
    """The cell in the middle, or the mean of two."""
    return quantile(cells, real, 0.5)


def power_mean(
    cells: np.ndarray, real: np.ndarray, norm_type: float, count_include_pad: bool = True
) -> tuple[Any, Slopes]:
    """(Σ|x|^p/n)^(1/p): the norm over n^(1/p)."""
    value, slopes = norm(cells, real, norm_type)
    root = float(max(1, len(cells) if count_include_pad else real.sum())) ** (1 / norm_type)
    return value / root, slopes / root


def bounded_power_mean(
    cells: np.ndarray, real: np.ndarray, norm_type: float, eps: float | None = 1e-6
) -> tuple[Any, Slopes]:
    """The power mean of cells raised to at least ε; those at or below ε have derivative 0."""
    below = np.full(len(cells), False) if eps is None else cells <= eps
    value, slopes = power_mean(np.where(below, eps or 0, cells), real, norm_type)
    return value, np.where(below, 0, slopes)


def mellowmax(cells: np.ndarray, real: np.ndarray, beta: float, count_include_pad: bool = True) -> tuple[Any, Slopes]:
    """log(mean exp(β·x))/β, the mean for β = 0; no derivative where it is infinite, nor for infinite cells."""
    counted = np.full(len(cells), True) if count_include_pad else real
    held = cells[counted]
    slopes = np.zeros(len(cells))
    if not counted.any():
        return 0.0, slopes
    if np.isnan(held).any():
        return math.nan, np.full(len(cells), math.nan)
    with np.errstate(invalid="ignore"):
        mean = held.mean()
    if beta == 0:
        if np.isfinite(mean):
            slopes[counted] = 1 / len(held)
        return mean, slopes
    top = (beta * held).max()
    if math.isinf(top):
        return top / beta, slopes
    powers = np.exp(beta * held - top)
    slopes[counted] = powers / powers.sum()
    return (top + np.log(powers.mean())) / beta, slopes


def softened(cells: np.ndarray, real: np.ndarray, beta: float, count_include_pad: bool = True) -> tuple[Any, Slopes]:
    """Σ w·x with the slopes w of the mellowmax, infinite if that is; infinite cells do not count."""
    extreme, weights = mellowmax(cells, real, beta, count_include_pad)
    if not np.isfinite(extreme):
        return extreme, weights
    finite = np.where(weights == 0, 0, cells)
    value = (weights * finite).sum()
    return value, weights * (1 + beta * (finite - value))


def mixed(cells: np.ndarray, real: np.ndarray, alpha: float, count_include_pad: bool = True) -> tuple[Any, Slopes]:
    """α·max + (1 - α)·mean; only one of the two for α = 1 and α = 0."""
    if alpha in (0, 1):
        return largest(cells, real) if alpha else average(cells, real, count_include_pad)
    (top, winner), (mean, shares) = largest(cells, real), average(cells, real, count_include_pad)
    return alpha * top + (1 - alpha) * mean, alpha * winner + (1 - alpha) * shares


def mean_of_draws(cells: np.ndarray, real: np.ndarray) -> tuple[Any, Slopes]:
    """Σ x₊²/Σ x₊ over positive parts; no derivative where these sums are 0 or infinite."""
    positive = np.where(cells <= 0, 0, cells)
    total = positive.sum()
    if total == 0 or math.isinf(total):
        return total, np.zeros(len(cells))
    value = (positive**2).sum() / total
    return value, np.where(positive == 0, 0, (2 * positive - value) / total)


def weighted_mean(cells: np.ndarray, real: np.ndarray, weights: np.ndarray) -> tuple[Any, Slopes]:
    """Σ w·x/Σ w over the cells whose weight is not 0; 0 if the weights add up to 0."""
    held = real & (weights != 0)
    total = weights[held].sum()
    if total == 0:
        return 0.0, np.zeros(len(cells))
    shares = np.where(held, weights / total, 0)
    return (shares[held] * cells[held]).sum(), shares


def attention(cells: np.ndarray, real: np.ndarray, logits: np.ndarray) -> tuple[Any, Slopes]:
    """The weighted mean with the exponentials of the logits less the largest one."""
    top = logits[real].max(initial=-math.inf)
    shifted = logits - (top if np.isfinite(top) else 0)
    return weighted_mean(cells, real, np.where(real, np.exp(np.where(real, shifted, -math.inf)), 0))


def variance(
    cells: np.ndarray, real: np.ndarray, correction: float = 0, count_include_pad: bool = False
) -> tuple[Any, Slopes]:
    """Σ (x - m)²/(n - c) about the mean of the window; 0 if n ≤ c, unless a cell is not a number."""
    counted = np.full(len(cells), True) if count_include_pad else real
    held = cells[counted]
    slopes = np.zeros(len(cells))
    if not np.isfinite(held).all():
        slopes[counted] = math.nan
        return math.nan, slopes
    if len(held) > correction:
        # From a cell, so that equal cells deviate by nothing.
        deviations = held - held[0]
        deviations = deviations - deviations.mean()
        slopes[counted] = 2 * deviations / (len(held) - correction)
        return (deviations**2).sum() / (len(held) - correction), slopes
    return 0.0, slopes


def deviation(
    cells: np.ndarray, real: np.ndarray, correction: float = 0, count_include_pad: bool = False
) -> tuple[Any, Slopes]:
    """The root of the variance; no derivative where it is 0."""
    value, slopes = variance(cells, real, correction, count_include_pad)
    root = math.sqrt(value)
    return root, slopes if root == 0 else slopes / (2 * root)


RULES: dict[str, WindowRule] = {
    "max_pool": largest,
    "min_pool": smallest,
    "max_pool_with_indices": largest,
    "min_pool_with_indices": smallest,
    "sum_pool": total,
    "avg_pool": average,
    "lp_pool": norm,
    "smooth_max_pool": smooth,
    "median_pool": median,
    "quantile_pool": quantile,
    "top_k_pool": nth_largest,
    "top_k_pool_with_indices": nth_largest,
    "adaptive_max_pool": largest,
    "adaptive_max_pool_with_indices": largest,
    "adaptive_avg_pool": average,
    "global_max_pool": largest,
    "global_avg_pool": average,
    "gem_pool": power_mean,
    "mellowmax_pool": mellowmax,
    "soft_pool": softened,
    "mixed_pool": mixed,
    "stochastic_pool": mean_of_draws,
    "weighted_pool": weighted_mean,
    "attention_pool": attention,
    "var_pool": variance,
    "std_pool": deviation,
    "global_gem_pool": bounded_power_mean,
}
