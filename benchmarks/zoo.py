"""Calls of all pools other than maximum and average: jaxpool's, and their elementary parts in plain JAX.

The parts are windowed reductions of elementwise functions, by `lax.reduce_window`; weighted slices for the blur, slices
plus heights for the dilation, and a sort of all slices stacked for ranks. Only dilations have padding.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxpool
from benchmarks.cases import Case

Pool = Callable[[jax.Array], jax.Array]
Total = Callable[[jax.Array], jax.Array]

_NORM, _BETA, _ALPHA = 3, 2.0, 0.5
_RANKS, _QUARTILES = 3, (0.25, 0.5, 0.75)
# Not one reduction of each window.
OF_SLICES = ("blur", "median", "top 3", "quartiles", "disk", "dilation")


def ours(case: Case) -> dict[str, Pool]:
    """The calls of jaxpool by group."""
    window: dict[str, Any] = {"kernel_size": case.kernel, "stride": case.stride, "axis": case.axes}
    return {
        "gem": lambda x: jaxpool.gem_pool(x, _NORM, **window),
        "mellowmax": lambda x: jaxpool.mellowmax_pool(x, _BETA, **window),
        "soft": lambda x: jaxpool.soft_pool(x, _BETA, **window),
        "mixed": lambda x: jaxpool.mixed_pool(x, _ALPHA, **window),
        "stochastic": lambda x: jaxpool.stochastic_pool(x, **window),
        "weighted": lambda x: jaxpool.weighted_pool(x, x * x, **window),
        "attention": lambda x: jaxpool.attention_pool(x, _BETA * x, **window),
        "var": lambda x: jaxpool.var_pool(x, **window),
        "std": lambda x: jaxpool.std_pool(x, **window),
        "blur": lambda x: jaxpool.blur_pool(x, padding="VALID", **window),
        "median": lambda x: jaxpool.median_pool(x, padding=case.padding, **window),
        "top 3": lambda x: jaxpool.top_k_pool(x, _RANKS, **window),
        "quartiles": lambda x: jaxpool.quantile_pool(x, _QUARTILES, **window),
        "disk": lambda x: jaxpool.max_pool(x, **{**window, "kernel_size": jaxpool.footprint(_disk(case))}),
        "dilation": lambda x: jaxpool.morphology.dilation(x, jnp.asarray(_heights(case), x.dtype), axis=case.axes),
    }


def plain(case: Case, total: Total, largest: Total) -> dict[str, Pool]:
    """The formulas in terms of windowed sums and maxima of plain JAX, by group."""
    cells = case.kernel**case.rank

    def blurred(x: jax.Array) -> jax.Array:
        weights = [math.comb(case.kernel - 1, j) / 2 ** (case.kernel - 1) for j in range(case.kernel)]
        products = (math.prod(one) for one in itertools.product(weights, repeat=case.rank))
        first, *others = (weight * one for weight, one in zip(products, _slices(x, case), strict=True))
        return sum(others, first)

    def dilated(x: jax.Array) -> jax.Array:
        # The element is mirrored.
        heights = jnp.asarray(np.flip(_heights(case)).ravel(), x.dtype)
        return functools.reduce(
            jnp.maximum, (cells + height for cells, height in zip(_slices(x, case), heights, strict=True))
        )

    def variance(x: jax.Array) -> jax.Array:
        # Of numbers near 0, for which the difference of squares keeps its digits.
        return total(x * x) / cells - (total(x) / cells) ** 2

    return {
        "gem": lambda x: (total(jnp.abs(x) ** _NORM) / cells) ** (1 / _NORM),
        "mellowmax": lambda x: jnp.log(total(jnp.exp(_BETA * x)) / cells) / _BETA,
        "soft": lambda x: total(jnp.exp(_BETA * x) * x) / total(jnp.exp(_BETA * x)),
        "mixed": lambda x: _ALPHA * largest(x) + (1 - _ALPHA) * total(x) / cells,
        "stochastic": lambda x: total(jax.nn.relu(x) ** 2) / total(jax.nn.relu(x)),
        "weighted": lambda x: total(x * x * x) / total(x * x),
        "attention": lambda x: total(jnp.exp(_BETA * x) * x) / total(jnp.exp(_BETA * x)),
        "var": lambda x: variance(x),
        "std": lambda x: jnp.sqrt(variance(x)),
        "blur": blurred,
        "median": lambda x: jnp.median(jnp.stack(list(_slices(x, case))), 0),
        "top 3": lambda x: jax.lax.top_k(jnp.stack(list(_slices(x, case)), -1), _RANKS)[0],
        "quartiles": lambda x: jnp.quantile(jnp.stack(list(_slices(x, case))), jnp.asarray(_QUARTILES, x.dtype), 0),
        "disk": lambda x: functools.reduce(jnp.maximum, itertools.compress(_slices(x, case), _disk(case).flat)),
        "dilation": dilated,
    }


def _disk(case: Case) -> np.ndarray:
    places = np.indices((case.kernel,) * case.rank) - (case.kernel - 1) / 2
    return (places**2).sum(0) <= (case.kernel / 2) ** 2


def _heights(case: Case) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(case.kernel,) * case.rank) / 4


def _slices(x: jax.Array, case: Case) -> Iterator[jax.Array]:
    """The cells at every offset of the windows, in row-major order."""
    if case.padding:
        sides = [case.padding if axis in case.axes else 0 for axis in range(x.ndim)]
        x = jnp.pad(x, [(side, side) for side in sides], constant_values=-jnp.inf)
    length = (case.size + 2 * case.padding - case.kernel) // case.stride + 1
    for offsets in itertools.product(range(case.kernel), repeat=case.rank):
        index = [slice(None)] * x.ndim
        for axis, offset in zip(case.axes, offsets, strict=True):
            index[axis] = slice(offset, offset + (length - 1) * case.stride + 1, case.stride)
        yield x[tuple(index)]
