"""The call of each case in the libraries that run on JAX; None where a library has no such pool.

Plain JAX is what a user writes without a library: `lax.reduce_window` of elementary functions, with JAX's derivatives;
a slice for every bin, or for every cell of a window whose cells are sorted or weighted; `jnp` over whole axes. Where
windows tile the array, `reshape` gives the cells of each tile axes of their own.
"""

import functools
import importlib.util
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxpool
from benchmarks.cases import Case

Pool = Callable[[jax.Array], jax.Array]
BETA, ALPHA, NORM, POWER, RANKS, QUARTILES = 2.0, 0.5, 2, 3, 3, (0.25, 0.5, 0.75)
_SORTED_OR_WEIGHTED = ("median", "top 3", "quartiles", "blur", "disk")


def ours(case: Case, library: Any = jaxpool) -> Pool:
    """The call of jaxpool, or of another version of it."""
    window: dict[str, Any] = {"kernel_size": case.kernel or library.whole, "axis": case.axes}
    if case.kernel:
        window |= {"stride": case.stride, "padding": case.padding, "dilation": case.dilation}

    def over_disk(x: jax.Array) -> jax.Array:
        return library.max_pool(x, **{**window, "kernel_size": library.footprint(_disk(case)), "dilation": 1})

    calls: dict[str, Pool] = {
        "max": lambda x: library.max_pool(x, **window),
        "min": lambda x: library.min_pool(x, **window),
        "sum": lambda x: library.sum_pool(x, **window),
        "avg": lambda x: library.avg_pool(x, **window),
        "lp": lambda x: library.lp_pool(x, NORM, **window),
        "gem": lambda x: library.gem_pool(x, POWER, **window),
        "smooth": lambda x: library.smooth_max_pool(x, BETA, **window),
        "mellowmax": lambda x: library.mellowmax_pool(x, BETA, **window),
        "soft": lambda x: library.soft_pool(x, BETA, **window),
        "stochastic": lambda x: library.stochastic_pool(x, **window),
        "var": lambda x: library.var_pool(x, **window),
        "std": lambda x: library.std_pool(x, **window),
        "median": lambda x: library.median_pool(x, **window),
        "global max": lambda x: library.global_max_pool(x, axis=case.axes),
        "global avg": lambda x: library.global_avg_pool(x, axis=case.axes),
        "adaptive max": lambda x: library.adaptive_max_pool(x, case.bins, axis=case.axes),
        "adaptive avg": lambda x: library.adaptive_avg_pool(x, case.bins, axis=case.axes),
        "mixed": lambda x: library.mixed_pool(x, ALPHA, **window),
        "blur": lambda x: library.blur_pool(x, **{**window, "padding": "VALID"}),
        "weighted": lambda x: library.weighted_pool(x, x * x, **window),
        "attention": lambda x: library.attention_pool(x, BETA * x, **window),
        "top 3": lambda x: library.top_k_pool(x, RANKS, **window),
        "quartiles": lambda x: library.quantile_pool(x, QUARTILES, **window),
        "disk": over_disk,
        "learnt gem": lambda x: library.gem_pool(jnp.abs(x), _learnt(x), **window),
        "learnt smooth": lambda x: library.smooth_max_pool(x, _learnt(x), **window),
        "learnt mellowmax": lambda x: library.mellowmax_pool(x, _learnt(x), **window),
        "learnt soft": lambda x: library.soft_pool(x, _learnt(x), **window),
        "learnt attention": lambda x: library.attention_pool(x, _learnt(x) * x, **window),
    }
    return calls[case.pool]


def plain(case: Case) -> Pool:
    """The same in plain JAX."""
    if case.pool.startswith("adaptive"):
        return lambda x: _over_bins(x, case, jnp.max if case.pool.endswith("max") else jnp.mean)
    if not case.kernel:
        reductions = (jnp.sum, jnp.max, jnp.min, jnp.mean)
        return _formula(case, *(functools.partial(one, axis=case.axes, keepdims=True) for one in reductions))
    total, largest, smallest = (
        functools.partial(_reduce_window, case=case, operation=operation, identity=identity)
        for operation, identity in ((lax.add, 0.0), (lax.max, -np.inf), (lax.min, np.inf))
    )
    return _formula(case, total, largest, smallest, lambda x: total(x) / case.cells)


def reshape(case: Case) -> Pool | None:
    """The same with axes for the cells of a tile, where windows or bins tile the array."""
    if case.tile is None or case.pool in _SORTED_OR_WEIGHTED:
        return None
    folded: list[int] = []
    cells: list[int] = []
    for axis, size in enumerate(case.x.shape):
        folded.append(size // case.tile if axis in case.axes else size)
        if axis in case.axes:
            cells.append(len(folded))
            folded.append(case.tile)

    def over_tiles(reduce: Callable[..., jax.Array]) -> Pool:
        return lambda x: reduce(x.reshape(folded), tuple(cells))

    return _formula(case, *map(over_tiles, (jnp.sum, jnp.max, jnp.min, jnp.mean)))


def flax(case: Case) -> Pool | None:
    """The same in Flax, whose pools need channels last and have no dilation."""
    known = case.pool in ("max", "min", "avg") and case.channels_last and case.dilation == 1
    if not known or importlib.util.find_spec("flax") is None:
        return None
    from flax.linen import pooling

    pool = {"max": pooling.max_pool, "min": pooling.min_pool, "avg": pooling.avg_pool}[case.pool]
    sizes = (case.kernel,) * case.rank, (case.stride,) * case.rank, [(case.padding,) * 2] * case.rank
    return lambda x: pool(x, *sizes)


def _formula(case: Case, total: Pool, largest: Pool, smallest: Pool, mean: Pool) -> Pool:
    """The pool in terms of sums, maxima, minima and means over its windows."""

    def weighted(weights: jax.Array, x: jax.Array) -> jax.Array:
        return total(weights * x) / total(weights)

    def variance(x: jax.Array) -> jax.Array:
        return mean(x * x) - mean(x) ** 2

    def power_mean(x: jax.Array, power: Any) -> jax.Array:
        return mean(jnp.abs(x) ** power) ** (1 / power)

    formulas: dict[str, Pool] = {
        "max": largest,
        "min": smallest,
        "sum": total,
        "avg": mean,
        "lp": lambda x: total(jnp.abs(x) ** NORM) ** (1 / NORM),
        "gem": lambda x: power_mean(x, POWER),
        "smooth": lambda x: jnp.log(total(jnp.exp(BETA * x))) / BETA,
        "mellowmax": lambda x: jnp.log(mean(jnp.exp(BETA * x))) / BETA,
        "soft": lambda x: weighted(jnp.exp(BETA * x), x),
        "stochastic": lambda x: weighted(jax.nn.relu(x), jax.nn.relu(x)),
        "var": variance,
        "std": lambda x: jnp.sqrt(variance(x)),
        "median": lambda x: jnp.median(jnp.stack(list(_slices(x, case))), 0),
        "mixed": lambda x: ALPHA * largest(x) + (1 - ALPHA) * mean(x),
        "blur": lambda x: _blurred(x, case),
        "weighted": lambda x: weighted(x * x, x),
        "attention": lambda x: weighted(jnp.exp(BETA * x), x),
        "top 3": lambda x: lax.top_k(jnp.stack(list(_slices(x, case)), -1), RANKS)[0],
        "quartiles": lambda x: jnp.quantile(jnp.stack(list(_slices(x, case))), jnp.asarray(QUARTILES, x.dtype), 0),
        "disk": lambda x: functools.reduce(jnp.maximum, itertools.compress(_slices(x, case), _disk(case).flat)),
        "learnt gem": lambda x: power_mean(x, _learnt(x)),
        "learnt smooth": lambda x: jnp.log(total(jnp.exp(_learnt(x) * x))) / _learnt(x),
        "learnt mellowmax": lambda x: jnp.log(mean(jnp.exp(_learnt(x) * x))) / _learnt(x),
        "learnt soft": lambda x: weighted(jnp.exp(_learnt(x) * x), x),
        "learnt attention": lambda x: weighted(jnp.exp(_learnt(x) * x), x),
    }
    return formulas[case.pool.removeprefix("global ").removeprefix("adaptive ")]


def _reduce_window(x: jax.Array, case: Case, operation: Callable[..., Any], identity: float) -> jax.Array:
    def over_axes(size: int, elsewhere: int) -> list[int]:
        return [size if axis in case.axes else elsewhere for axis in range(x.ndim)]

    kernel, stride, dilation = (over_axes(size, 1) for size in (case.kernel, case.stride, case.dilation))
    padding = [(low, low) for low in over_axes(case.padding, 0)]
    # The identity is a NumPy scalar: with an array the reduction would be a generic one, without a derivative.
    return lax.reduce_window(x, x.dtype.type(identity), operation, kernel, stride, padding, window_dilation=dilation)


def _over_bins(x: jax.Array, case: Case, reduce: Callable[..., jax.Array]) -> jax.Array:
    for axis in case.axes:
        ends = [(i * case.size // case.bins, -(-(i + 1) * case.size // case.bins)) for i in range(case.bins)]
        slices = [lax.slice_in_dim(x, start, end, axis=axis) for start, end in ends]
        x = jnp.concatenate([reduce(part, axis, keepdims=True) for part in slices], axis)
    return x


def _slices(x: jax.Array, case: Case) -> Iterator[jax.Array]:
    """The cells at every offset of the windows, in row-major order."""
    length = (case.size - case.kernel) // case.stride + 1
    for offsets in itertools.product(range(case.kernel), repeat=case.rank):
        index = [slice(None)] * x.ndim
        for axis, offset in zip(case.axes, offsets, strict=True):
            index[axis] = slice(offset, offset + (length - 1) * case.stride + 1, case.stride)
        yield x[tuple(index)]


def _blurred(x: jax.Array, case: Case) -> jax.Array:
    weights = [math.comb(case.kernel - 1, j) / 2 ** (case.kernel - 1) for j in range(case.kernel)]
    products = (math.prod(one) for one in itertools.product(weights, repeat=case.rank))
    return functools.reduce(jnp.add, (weight * one for weight, one in zip(products, _slices(x, case), strict=True)))


def _disk(case: Case) -> np.ndarray:
    side = case.kernel or 1
    places = np.indices((side,) * case.rank) - (side - 1) / 2
    return (places**2).sum(0) <= (side / 2) ** 2


def _learnt(x: jax.Array) -> jax.Array:
    """A number that depends a little on all cells, so that their gradient contains that of the number."""
    return 2 + x.mean()
