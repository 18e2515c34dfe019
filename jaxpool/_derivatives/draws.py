"""Cells drawn at random from every window, in proportion to their positive part, with both derivative rules."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._derivatives.rules import with_rule
from jaxpool._engine.copies import extended
from jaxpool._engine.linear_maps import LinearMap, apply_linear_map
from jaxpool._engine.loops import fold_taps
from jaxpool._engine.maps import evaluate, read_at_offsets, reduce_windows, route_apart
from jaxpool._engine.operations import Arrays, accumulation_dtype, identity
from jaxpool._engine.taps import pad_windows
from jaxpool._geometry.window import Window
from jaxpool._sharding import shardable, vary_together

# The cells drawn, their row-major offsets in the windows, and whether there was one to draw.
Drawn = tuple[jax.Array, jax.Array, jax.Array]


@shardable
@partial(jax.jit, static_argnums=(3, 4))
def draws(x: jax.Array, mask: jax.Array | None, key: jax.Array, window: Window, rule: str) -> jax.Array:
    """The cell drawn from every window by the key; 0 where no cell that the mask holds is positive."""
    dtype = x.dtype
    floats = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else np.dtype(np.float32)
    x, mask, window = extended(x, mask, window)
    shares = jax.random.uniform(key, window.output_shape(x.shape), accumulation_dtype(floats))
    # Sharded as the windows are, where that is a part of their type.
    shares += jnp.zeros_like(reduce_windows(x, window, lax.max), shares.dtype)
    x, shares = vary_together(x, shares)
    if mask is not None:
        x = jnp.where(mask, x, jnp.zeros_like(x))
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return _draw(x, shares, window)[0]
    return with_rule(rule, partial(_draw, window=window))(x, shares)[0].astype(dtype)


def _drawn(x: jax.Array, shares: jax.Array, *, window: Window) -> Drawn:
    """The last cell with a weight before which the weights add up to no more than the window's share of their total.

    Weights are the positive parts over the largest one of the window, so that their sum does not overflow; where that
    is infinite, the infinite cells alone have one.
    """
    lowest = identity(lax.max, x.dtype)
    padded = pad_windows(x, window, lowest)
    largest = reduce_windows(x, window, lax.max).astype(shares.dtype)
    infinite = jnp.isposinf(largest)
    scale = jnp.where((largest > 0) & ~infinite, largest, 1)

    def weight(cells: jax.Array) -> jax.Array:
        cells = cells.astype(shares.dtype)
        finite = jnp.where(cells > 0, cells, 0) / scale
        return jnp.where(infinite, jnp.isposinf(cells).astype(shares.dtype), finite)

    def add(total: jax.Array, arrays: Arrays, _: Any) -> jax.Array:
        return total + weight(arrays[0])

    threshold = shares * fold_taps(add, jnp.zeros_like(shares), (padded,), window)

    def choose(best: Any, arrays: Arrays, number: Any) -> Any:
        (cells,), (value, offset, held, before) = arrays, best
        here = weight(cells)
        is_first_nan = (cells != cells) & (value == value)
        replaces = is_first_nan | ((here > 0) & (before <= threshold) & (value == value))
        return (
            jnp.where(replaces, cells, value),
            jnp.where(replaces, jnp.asarray(number, offset.dtype), offset),
            held | replaces,
            before + here,
        )

    offsets = jnp.zeros_like(shares, np.min_scalar_type(window.cells - 1))
    start = (jnp.zeros_like(shares, x.dtype), offsets, jnp.zeros_like(shares, bool), jnp.zeros_like(shares))
    return fold_taps(choose, start, (padded,), window)[:3]


# Notation: c(o) is the cell drawn from window o; a dot marks a tangent, a bar a cotangent. With the draw held fixed
#
#     y(o) = x(c(o))        ẏ(o) = ẋ(c(o))        x̄(i) = Σ_{o : c(o) = i} ȳ(o)
#
# and all higher derivatives are 0. It is the rule of the maximum with another winner: the second formula is
# `read_at_offsets`, and the third `route_apart`. Where no cell was drawn, ẏ and ȳ are put to 0.


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _draw(x: jax.Array, shares: jax.Array, window: Window) -> Drawn:
    return evaluate(partial(_drawn, window=window), x, shares)


@_draw.defjvp
def _draw_jvp(window: Window, primals: Any, tangents: Any) -> tuple[Drawn, Any]:
    values, offsets, held = _draw(*primals, window)
    values_dot = apply_linear_map(_ReadDrawn(window), tangents[0], offsets, held, like=values)
    no_dot = jax.custom_derivatives.zero_from_primal
    return (values, offsets, held), (values_dot, no_dot(offsets), no_dot(held))


@dataclass(frozen=True)
class _ReadDrawn(LinearMap):
    window: Window

    def forward(self, x: jax.Array, offsets: jax.Array, held: jax.Array, /) -> jax.Array:
        cells = read_at_offsets(x, offsets, self.window)
        return jnp.where(held, cells, jnp.zeros_like(cells))

    def transpose(self, cotangent: jax.Array, offsets: jax.Array, held: jax.Array, /) -> jax.Array:
        wide = jnp.where(held, cotangent, jnp.zeros_like(cotangent)).astype(accumulation_dtype(cotangent.dtype))
        return route_apart([wide], [offsets], self.window).astype(cotangent.dtype)
