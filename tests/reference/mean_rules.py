"""The value of one window for pools between the mean and the maximum, in float64 NumPy, in addition to `window_rules`.

A rule gets the cells of the window in row-major order, padding as 0, and which of them are real. A window without
cells, which only a mask can cause, is 0.
"""

import math
from typing import Any

import numpy as np

from tests.reference.window_rules import Slopes, WindowRule, average, largest, norm


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
