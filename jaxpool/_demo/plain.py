"""Every variant as it is written without jaxpool: `lax.reduce_window` and the formula of the textbook.

These are what jaxpool is timed against. They pool the first two axes of an array of shape (height, width,
channels), without padding, and are differentiated by JAX itself. They make no promise about overflow, ties or NaN.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._demo.request import Size

Pair = tuple[jax.Array, jax.Array]


def max_pool(x: jax.Array, size: Size) -> jax.Array:
    """The largest cell of each window."""
    return _reduce(x, x.dtype.type(-np.inf), lax.max, size)


def min_pool(x: jax.Array, size: Size) -> jax.Array:
    """The smallest cell of each window."""
    return _reduce(x, x.dtype.type(np.inf), lax.min, size)


def max_pool_with_indices(x: jax.Array, size: Size) -> Pair:
    """The largest cell of each window and its row-major position; JAX cannot differentiate this one."""
    height, width = x.shape[:2]
    positions = jnp.arange(height * width, dtype=np.int32).reshape(height, width, 1)

    def first_largest(left: Pair, right: Pair) -> Pair:
        keep = (left[0] > right[0]) | ((left[0] == right[0]) & (left[1] < right[1]))
        return lax.select(keep, left[0], right[0]), lax.select(keep, left[1], right[1])

    start = x.dtype.type(-np.inf), np.int32(np.iinfo(np.int32).max)
    return _reduce((x, jnp.broadcast_to(positions, x.shape)), start, first_largest, size)


def sum_pool(x: jax.Array, size: Size) -> jax.Array:
    """The sum of each window."""
    return _reduce(x, x.dtype.type(0), lax.add, size)


def avg_pool(x: jax.Array, size: Size) -> jax.Array:
    """The mean of each window."""
    return sum_pool(x, size) / size.kernel**2


def lp_pool(x: jax.Array, norm_type: float, size: Size) -> jax.Array:
    """(Σ|x|^p)^(1/p)."""
    return sum_pool(jnp.abs(x) ** norm_type, size) ** (1 / norm_type)


def smooth_max_pool(x: jax.Array, beta: float, size: Size) -> jax.Array:
    """log(Σ exp(β·x))/β."""
    return jnp.log(sum_pool(jnp.exp(beta * x), size)) / beta


def _reduce(x: Any, start: Any, operation: Callable[..., Any], size: Size) -> Any:
    return lax.reduce_window(x, start, operation, (size.kernel, size.kernel, 1), (size.stride, size.stride, 1), "VALID")
