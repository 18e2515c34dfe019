"""Rows of the table of variants: pools between the mean and the maximum, and adaptive pools at several grids.

Each comes with its evaluation in float64 and the formula in plain JAX. Numbers are chosen as in `variants`.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxpool
from jaxpool._demo import plain
from jaxpool._demo.exact import Bins, Evaluation, largest, mean, norm, sliding, smooth_largest, whole, windowed
from jaxpool._demo.request import Size
from jaxpool._demo.variant import Variant

_NORM_TYPE, _BETA, _ALPHA, _LEAST = 3.0, 10.0, 0.5, 1e-6
_LEVELS = (1, 2, 4)


def _power_mean(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The norm of the cells over the root of their number."""
    values, weights = norm(_NORM_TYPE)(cells)
    root = cells.shape[-1] ** (1 / _NORM_TYPE)
    return values / root, weights / root


def _bounded_power_mean(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same with low cells raised to a bound, which have no weight."""
    values, weights = _power_mean(np.maximum(cells, _LEAST))
    return values, np.where(cells > _LEAST, weights, 0)


def _mellowmax(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smooth maximum less log(number)/β."""
    values, weights = smooth_largest(_BETA)(cells)
    return values - np.log(cells.shape[-1]) / _BETA, weights


def _softened(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean under the softmax of β·x."""
    _, shares = smooth_largest(_BETA)(cells)
    values = (shares * cells).sum(-1)
    return values, shares * (1 + _BETA * (cells - values[..., None]))


def _mixed(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the maximum and of the mean."""
    (top, winner), (middle, shares) = largest(cells), mean(cells)
    return _ALPHA * top + (1 - _ALPHA) * middle, _ALPHA * winner + (1 - _ALPHA) * shares


def _mean_of_draws(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum of squares over the sum, of positive parts."""
    positive = np.maximum(cells, 0)
    total = positive.sum(-1)
    safe = np.where(total == 0, 1, total)
    values = (positive**2).sum(-1) / safe
    weights = np.where(positive > 0, (2 * positive - values[..., None]) / safe[..., None], 0)
    return values, weights


def _grid(count: int) -> Bins:
    """So many bins along an axis of any length."""

    def bins(length: int, _: Size) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.arange(count)
        starts = numbers * length // count
        return starts, ((numbers + 1) * length + count - 1) // count - starts

    return bins


def _pyramid(picture: np.ndarray, cotangent: np.ndarray, size: Size) -> Evaluation:
    """Maxima of several grids of bins, one below the other, and the sum of their gradients."""
    values, gradient, before = [], np.zeros(picture.shape), 0
    for level in _LEVELS:
        sent = cotangent[before : before + level**2].reshape(level, level, -1)
        (pooled,), landed = windowed(_grid(level), largest)(picture, sent, size)
        values.append(pooled.reshape(level**2, 1, -1))
        gradient += landed
        before += level**2
    return (np.concatenate(values),), gradient


def _plain_pyramid(x: jax.Array, size: Size) -> jax.Array:
    """The maximum of every bin of every grid by itself."""
    cells = []
    for level in _LEVELS:
        (rows, heights), (columns, widths) = (_grid(level)(length, size) for length in x.shape[:2])
        for top, height in zip(rows, heights, strict=True):
            strip = x[top : top + height]
            cells += [strip[:, left : left + wide].max((0, 1)) for left, wide in zip(columns, widths, strict=True)]
    return jnp.stack(cells)[:, None]


MEANS: tuple[Variant, ...] = (
    Variant(
        "gem_pool",
        lambda x, size, rule: jaxpool.gem_pool(x, _NORM_TYPE, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, _power_mean),
        lambda x, size: plain.avg_pool(jnp.abs(x) ** _NORM_TYPE, size) ** (1 / _NORM_TYPE),
        detail=f"p = {_NORM_TYPE:g}",
    ),
    Variant(
        "mellowmax_pool",
        lambda x, size, rule: jaxpool.mellowmax_pool(x, _BETA, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, _mellowmax),
        lambda x, size: jnp.log(plain.avg_pool(jnp.exp(_BETA * x), size)) / _BETA,
        detail=f"β = {_BETA:g}",
    ),
    Variant(
        "soft_pool",
        lambda x, size, rule: jaxpool.soft_pool(x, _BETA, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, _softened),
        lambda x, size: plain.sum_pool(jnp.exp(_BETA * x) * x, size) / plain.sum_pool(jnp.exp(_BETA * x), size),
        detail=f"β = {_BETA:g}",
    ),
    Variant(
        "mixed_pool",
        lambda x, size, rule: jaxpool.mixed_pool(x, _ALPHA, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, _mixed),
        lambda x, size: _ALPHA * plain.max_pool(x, size) + (1 - _ALPHA) * plain.avg_pool(x, size),
        detail=f"α = {_ALPHA:g}",
    ),
    Variant(
        "stochastic_pool",
        lambda x, size, rule: jaxpool.stochastic_pool(x, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, _mean_of_draws),
        lambda x, size: plain.sum_pool(x**2, size) / plain.sum_pool(x, size),
        detail="without a key: the mean",
    ),
    Variant(
        "spatial_pyramid_pool",
        lambda x, size, rule: jaxpool.spatial_pyramid_pool(x, _LEVELS, axis=(0, 1), rule=rule)[:, None],
        _pyramid,
        _plain_pyramid,
        detail="1 + 4 + 16 bins",
    ),
    Variant(
        "global_gem_pool",
        lambda x, size, rule: jaxpool.global_gem_pool(x, _NORM_TYPE, axis=(0, 1), rule=rule),
        windowed(whole, _bounded_power_mean),
        lambda x, size: (jnp.maximum(x, _LEAST) ** _NORM_TYPE).mean((0, 1), keepdims=True) ** (1 / _NORM_TYPE),
        detail="right: all of it, rescaled",
    ),
)
