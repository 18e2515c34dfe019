"""Pools whose number is learnt: jaxpool's calls, and their formulas in plain JAX, over windows and over whole axes.

The number depends a little on all cells, so that gradients with respect to these contain the gradient of the number.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import jaxpool
from benchmarks.cases import Case

Pool = Callable[[jax.Array], jax.Array]

_LEAST = 1e-6


def ours(case: Case) -> dict[str, Pool]:
    """The calls of jaxpool by group."""
    window: dict[str, Any] = {"kernel_size": case.kernel or jaxpool.whole, "axis": case.axes}
    window |= {"stride": case.stride} if case.kernel else {}

    def power_mean(x: jax.Array) -> jax.Array:
        if not case.kernel:
            return jaxpool.global_gem_pool(x, _number(x), axis=case.axes, eps=_LEAST)
        return jaxpool.gem_pool(_at_least(x), _number(x), **window)

    return {
        "learnt gem": power_mean,
        "learnt smooth": lambda x: jaxpool.smooth_max_pool(x, _number(x), **window),
        "learnt mellowmax": lambda x: jaxpool.mellowmax_pool(x, _number(x), **window),
        "learnt soft": lambda x: jaxpool.soft_pool(x, _number(x), **window),
        "learnt attention": lambda x: jaxpool.attention_pool(x, _number(x) * x, **window),
    }


def plain(case: Case, over_windows: Pool) -> dict[str, Pool]:
    """The formulas in terms of sums, by group; `over_windows` is the sum over windows."""
    cells = (case.kernel or case.size) ** case.rank

    def total(x: jax.Array) -> jax.Array:
        return over_windows(x) if case.kernel else jnp.sum(x, case.axes, keepdims=True)

    def mean(x: jax.Array) -> jax.Array:
        weights = jnp.exp(_number(x) * x)
        return total(weights * x) / total(weights)

    return {
        "learnt gem": lambda x: (total(_at_least(x) ** _number(x)) / cells) ** (1 / _number(x)),
        "learnt smooth": lambda x: jnp.log(total(jnp.exp(_number(x) * x))) / _number(x),
        "learnt mellowmax": lambda x: jnp.log(total(jnp.exp(_number(x) * x)) / cells) / _number(x),
        "learnt soft": mean,
        "learnt attention": mean,
    }


def _number(x: jax.Array) -> jax.Array:
    return 2 + x.mean()


def _at_least(x: jax.Array) -> jax.Array:
    return jnp.maximum(x, jnp.asarray(_LEAST, x.dtype))
