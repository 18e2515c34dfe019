"""Calls of all pools other than maximum and average: jaxpool's, and their elementary parts in plain JAX.

The parts are windowed reductions of elementwise functions, by `lax.reduce_window`; weighted slices for the blur, and a
sort of all slices stacked for the median. None of these cases has padding: every window has all of its cells.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

import jaxpool
from benchmarks.cases import Case

Pool = Callable[[jax.Array], jax.Array]
Total = Callable[[jax.Array], jax.Array]

_NORM, _BETA, _ALPHA = 3, 2.0, 0.5


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
    }


def plain(case: Case, total: Total, largest: Total) -> dict[str, Pool]:
    """The formulas in terms of windowed sums and maxima of plain JAX, by group."""
    cells = case.kernel**case.rank

    def blurred(x: jax.Array) -> jax.Array:
        weights = [math.comb(case.kernel - 1, j) / 2 ** (case.kernel - 1) for j in range(case.kernel)]
        products = (math.prod(one) for one in itertools.product(weights, repeat=case.rank))
        first, *others = (weight * one for weight, one in zip(products, _slices(x, case), strict=True))
        return sum(others, first)

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
    }


def _slices(x: jax.Array, case: Case) -> Iterator[jax.Array]:
    """The cells at every offset of the windows, in row-major order."""
    length = (case.size - case.kernel) // case.stride + 1
    for offsets in itertools.product(range(case.kernel), repeat=case.rank):
        index = [slice(None)] * x.ndim
        for axis, offset in zip(case.axes, offsets, strict=True):
            index[axis] = slice(offset, offset + (length - 1) * case.stride + 1, case.stride)
        yield x[tuple(index)]
