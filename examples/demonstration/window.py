"""The value of one window and the weight of each of its cells for every variant, from the definitions.

The weight of a cell is the derivative of the window's value with respect to it. The cells are along the last axis of a
float64 array, and the numbers of the variant (p, β, q, α) follow as arguments. Neither JAX nor jaxpool is used.
"""

import math
from collections.abc import Callable

import numpy as np

ValuesAndWeights = tuple[np.ndarray, np.ndarray]
CellRule = Callable[..., ValuesAndWeights]


def largest(cells: np.ndarray) -> ValuesAndWeights:
    """The maximum; all weight is on the first cell that has it."""
    winners = cells.argmax(-1, keepdims=True)
    return cells.max(-1), (np.arange(cells.shape[-1]) == winners).astype(cells.dtype)


def second_largest(cells: np.ndarray) -> ValuesAndWeights:
    """The second of the cells in descending order, equal ones in their order; all weight is on it."""
    second = (-cells).argsort(-1, kind="stable")[..., 1:2]
    values = np.take_along_axis(cells, second, -1)[..., 0]
    return values, (np.arange(cells.shape[-1]) == second).astype(cells.dtype)


def smallest(cells: np.ndarray) -> ValuesAndWeights:
    """The minimum; all weight is on the first cell that has it."""
    values, weights = largest(-cells)
    return -values, weights


def total(cells: np.ndarray) -> ValuesAndWeights:
    """The sum; every weight is 1."""
    return cells.sum(-1), np.ones_like(cells)


def mean(cells: np.ndarray) -> ValuesAndWeights:
    """The mean; every weight is one over the number of cells."""
    return cells.mean(-1), np.full_like(cells, 1 / cells.shape[-1])


def mean_of_present(cells: np.ndarray) -> ValuesAndWeights:
    """The mean of the cells that are not NaN, 0 if all are; every weight is one over their number, or 0 at NaN."""
    present = ~np.isnan(cells)
    weights = present / np.maximum(present.sum(-1, keepdims=True), 1)
    return (weights * np.where(present, cells, 0)).sum(-1), weights


def mean_draw(cells: np.ndarray) -> ValuesAndWeights:
    """The mean weighted by shares of x, Σx²/Σx, over the positive cells only."""
    positive = np.maximum(cells, 0)
    sums = positive.sum(-1, keepdims=True)
    safe = np.where(sums == 0, 1, sums)
    values = (positive**2).sum(-1, keepdims=True) / safe
    return values[..., 0], np.where(positive > 0, (2 * positive - values) / safe, 0)


def weighted_by_itself(cells: np.ndarray) -> ValuesAndWeights:
    """The mean of cells that are not negative, weighted by themselves, Σx²/Σx; 0 where all are 0."""
    sums = cells.sum(-1, keepdims=True)
    safe = np.where(sums == 0, 1, sums)
    values = (cells**2).sum(-1, keepdims=True) / safe
    return values[..., 0], np.where(sums == 0, 0, (2 * cells - values) / safe)


def mixed(cells: np.ndarray, alpha: float) -> ValuesAndWeights:
    """α times the maximum plus 1 - α times the mean."""
    (top, winner), (middle, shares) = largest(cells), mean(cells)
    return alpha * top + (1 - alpha) * middle, alpha * winner + (1 - alpha) * shares


def norm(cells: np.ndarray, p: float, mean: bool = False) -> ValuesAndWeights:
    """(Σ|x|^p)^(1/p), or with a mean for the sum; weights sign(x)·(|x|/y)^(p-1)/count, 0 in a window of zeros."""
    count = cells.shape[-1] if mean else 1
    values = ((np.abs(cells) ** p).sum(-1) / count) ** (1 / p)
    safe = np.where(values == 0, 1, values)[..., None]
    return values, np.sign(cells) * (np.abs(cells) / safe) ** (p - 1) / count


def bounded_power_mean(cells: np.ndarray, p: float, least: float = 1e-6) -> ValuesAndWeights:
    """The power mean with low cells raised to a bound, which have no weight."""
    values, weights = norm(np.maximum(cells, least), p, mean=True)
    return values, np.where(cells > least, weights, 0)


def smooth_largest(cells: np.ndarray, beta: float, mean: bool = False) -> ValuesAndWeights:
    """log(Σ exp(β·x))/β, or with a mean for the sum; the weights are the softmax of β·x."""
    peaks = (beta * cells).max(-1, keepdims=True)
    powers = np.exp(beta * cells - peaks)
    sums = powers.sum(-1, keepdims=True)
    count = cells.shape[-1] if mean else 1
    return ((peaks + np.log(sums / count)) / beta)[..., 0], powers / sums


def softmax_mean(cells: np.ndarray, beta: float) -> ValuesAndWeights:
    """The mean weighted by the softmax of β·x."""
    _, shares = smooth_largest(cells, beta)
    values = (shares * cells).sum(-1, keepdims=True)
    return values[..., 0], shares * (1 + beta * (cells - values))


def variance(cells: np.ndarray) -> ValuesAndWeights:
    """The mean of the squared deviations from the mean."""
    deviations = cells - cells.mean(-1, keepdims=True)
    return (deviations**2).mean(-1), 2 * deviations / cells.shape[-1]


def deviation(cells: np.ndarray) -> ValuesAndWeights:
    """The root of the variance; no derivative where it is 0."""
    values, slopes = variance(cells)
    roots = np.sqrt(values)
    return roots, slopes / np.where(roots == 0, np.inf, 2 * roots)[..., None]


def binomial(cells: np.ndarray) -> ValuesAndWeights:
    """The sum with weights that are products of binomial coefficients along both sides of a square window."""
    last = math.isqrt(cells.shape[-1]) - 1
    side = np.array([math.comb(last, cell) / 2**last for cell in range(last + 1)])
    weights = np.outer(side, side).ravel()
    return cells @ weights, np.broadcast_to(weights, cells.shape)


def quantile(cells: np.ndarray, q: float) -> ValuesAndWeights:
    """Linear interpolation between the two cells around rank q·(n-1) of n; equal cells are ranked in their order."""
    ranks = cells.argsort(-1, kind="stable").argsort(-1)
    weights = np.maximum(0, 1 - abs(ranks - q * (cells.shape[-1] - 1)))
    return (weights * cells).sum(-1), weights
