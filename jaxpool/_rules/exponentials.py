"""What log-sum-exps share: cells and values as differences from a shift, the largest cell of their window.

A value m is kept as the pair of the shift c and its excess r = m - c; their sum is rounded once, at the end. For the
next axis the values of windows are cells, as such pairs. So the exponent β·(x - m) = β·((x - c) - r) of a weight has
no rounding error of the size of m in it, which a large β would magnify.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._engine.maps import reduce_windows
from jaxpool._engine.operations import accumulation_dtype
from jaxpool._geometry.window import Window
from jaxpool._rules.weighted import (
    Cells,
    Filled,
    Shift,
    WeightedPool,
    expand_rank,
    shared_along_windows,
    weighted_pool,
)


def signed_pool(
    x: jax.Array,
    beta: jax.Array | None,
    present: jax.Array | None,
    *,
    window: Window,
    pool: WeightedPool,
    number: float | None,
    rule: str,
    dtype: Any,
) -> jax.Array:
    """A pool for β of any sign, the array `beta` or a `number`: that of -x under -β, negated, where β < 0.

    `present` are the cells that there are, all of them if it is None; `dtype` is one that holds the cells exactly, in
    which shifts are kept. Up to the largest magnitude of β that is taken, excesses, which are of the size of its
    inverse, are normal numbers.
    """
    limit = float(jnp.finfo(x.dtype).max) * 2.0**-28

    def one(sign: float | jax.Array, learnt: jax.Array | None, fixed: float | None = None) -> jax.Array:
        cells, amount = sign * x, None
        if present is not None:
            cells = jnp.where(present, cells, -jnp.inf)
            amount = present.astype(x.dtype) if pool.is_mean else None
        return sign * weighted_pool(cells, learnt, window, pool, fixed, rule, amount, dtype)

    if beta is None:
        assert number is not None
        return one(math.copysign(1, number), None, min(abs(number), limit))
    beta = expand_rank(beta.astype(x.dtype), x.ndim)
    # The derivative at 0 is that of β.
    magnitude = jnp.minimum(jnp.where(beta < 0, -beta, beta), limit)
    if shared_along_windows(beta, window):
        return one(jnp.where(beta < 0, -1, 1).astype(x.dtype), magnitude)
    return jnp.where(beta < 0, one(-1.0, magnitude), one(1.0, magnitude))


def largest(cells: Cells, window: Window) -> jax.Array:
    """The shift of every window, a constant to derivatives, as values do not depend on it."""
    return reduce_windows(lax.stop_gradient(cells[-1]), window, lax.max)


def with_fills(cells: Cells) -> Filled:
    """The arrays that make up the cells, and what padded ones hold, which are absent."""
    return [*((excess, 0.0) for excess in cells[:-1]), (cells[-1], -math.inf)]


def gap_to_shift(cells: Cells, shift: jax.Array) -> jax.Array:
    """The distances of cells from the shift of a window that holds them, 0 for infinite cells that are the largest."""
    near, shift = _wide(cells[-1]), _wide(shift)
    gap = jnp.where(near == shift, 0, near - shift)
    return gap + cells[0] if len(cells) > 1 else gap


def with_values_outside(excess: jax.Array, shift: Shift) -> Filled:
    """The arrays that make up a value, and what stands for a window outside, in which nothing has weight."""
    assert shift is not None
    return [(excess, 0.0), (shift, math.inf)]


def gap_to_value(cells: Cells, value: Cells) -> tuple[jax.Array, jax.Array]:
    """The distances of cells from the value of a window, which may not hold them, and which have no weight at all.

    These are infinite cells and those in windows of an infinite value, taken for 0 here.
    """
    excess, shift = value[0], _wide(value[1])
    near = _wide(cells[-1])
    dead = jnp.isinf(near) | jnp.isinf(shift)
    gap = difference(jnp.where(dead, 0, near), jnp.where(dead, 0, shift), True)
    if len(cells) > 1:
        gap += cells[0]
    return gap - excess, dead


def _wide(array: jax.Array) -> jax.Array:
    return array.astype(accumulation_dtype(array.dtype))


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def difference(cells: jax.Array, shift: jax.Array, above: bool) -> jax.Array:
    """The distance of cells from a shift above them, or `above` or below: the end of the dtype where it overflows.

    Such a cell has no weight. One above a shift that is above all cells of its window has no part in that, or is inf.
    """
    largest = jnp.finfo(cells.dtype).max
    return jnp.clip(cells - shift, -largest, largest if above else 0)


@difference.defjvp
def _(above: bool, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    return difference(*primals, above), tangents[0] - tangents[1]
