"""Quantiles of every window, with both derivative rules: one cell of a given rank, or a mean of two.

As an extreme, a quantile only reads: the tangents at the chosen cells on the way out, the cotangent sent to them on the
way back, shared out by the weights of the mean. What its cells are depends on how many there are to choose from, which
differs from window to window under padding and masks.
"""

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
from jaxpool._engine.loops import is_looped
from jaxpool._engine.maps import evaluate, read_at_offsets, reduce_windows, route_apart, values_at_ranks
from jaxpool._engine.operations import Arrays, accumulation_dtype, identity, separate_term
from jaxpool._engine.ranks import offsets_at_rank
from jaxpool._geometry.window import Window
from jaxpool._order_statistics import Counts, Quantile, places_in
from jaxpool._sharding import shardable

Chosen = tuple[jax.Array, Arrays]


@shardable
@partial(jax.jit, static_argnums=(2, 3, 4))
def quantiles(x: jax.Array, mask: jax.Array | None, window: Window, quantile: Quantile, rule: str) -> jax.Array:
    """The quantile of the cells of every window that the mask holds; 0 for none."""
    dtype, counts = x.dtype, None
    x, mask, window = extended(x, mask, window)
    if mask is not None:
        x = jnp.where(mask, x, identity(lax.min, x.dtype))
        counts = reduce_windows(mask.astype(np.int32), window, lax.add)
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        values = _quantiles(x, mask, counts, window, quantile)
    else:
        values = with_rule(rule, partial(_quantiles, window=window, quantile=quantile))(x, mask, counts)
    if jnp.issubdtype(dtype, jnp.inexact):
        values = values.astype(dtype)
    return values if counts is None else jnp.where(counts > 0, values, jnp.zeros_like(values))


# Notation: c(o) and d(o) are the cells of window o at the two ranks between which the quantile lies, in the order by
# value and then by offset; w(o) is the weight of the second one, which depends on the number of cells alone. Where one
# rank is hit, or asked for, there is no d. A dot marks a tangent, a bar a cotangent.
#
#     y(o) = (1-w(o))·x(c(o)) + w(o)·x(d(o))        ẏ(o) = (1-w(o))·ẋ(c(o)) + w(o)·ẋ(d(o))
#     x̄(i) = Σ_{o : c(o) = i} (1-w(o))·ȳ(o) + Σ_{o : d(o) = i} w(o)·ȳ(o)
#
# The cells are constant wherever no two are equal, so that these are the derivatives there, and all higher ones are
# zero. At ties each is the derivative along some order of the cells that are equal. The second formula and the third
# are the two directions of `_MeanOfChosen`. Both need the offsets of the cells and nothing of x. A window with
# NaN has its first NaN for both cells. Masked cells come as the largest value there is, and are no cells to choose.


@partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def _chosen(x: jax.Array, mask: jax.Array | None, counts: Counts, window: Window, quantile: Quantile) -> Chosen:
    cells = evaluate(partial(_cells, window=window, quantile=quantile), x, counts, in_stage=True)
    offsets = evaluate(partial(_offsets, window=window, quantile=quantile), x, mask, counts, *cells, in_stage=True)
    return _mean(cells, counts, window, quantile), offsets


@partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def _quantiles(x: jax.Array, mask: jax.Array | None, counts: Counts, window: Window, quantile: Quantile) -> jax.Array:
    return _mean(_cells(x, counts, window, quantile), counts, window, quantile)


@_chosen.defjvp
def _chosen_jvp(window: Window, quantile: Quantile, primals: Any, tangents: Any) -> tuple[Chosen, Any]:
    values, offsets = _chosen(*primals, window, quantile)
    values_dot = apply_linear_map(_MeanOfChosen(window, quantile), tangents[0], offsets, primals[2], like=values)
    return (values, offsets), (values_dot, jax.tree.map(jax.custom_derivatives.zero_from_primal, offsets))


@_quantiles.defjvp
def _quantiles_jvp(window: Window, quantile: Quantile, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (values, _), (values_dot, _) = jax.jvp(lambda *x: _chosen(*x, window, quantile), primals, tangents)
    return values, values_dot


@dataclass(frozen=True)
class _MeanOfChosen(LinearMap):
    """The mean of the cells at the offsets of c and d."""

    window: Window
    quantile: Quantile

    def forward(self, x: jax.Array, offsets: Arrays, counts: Counts, /) -> jax.Array:
        cells = [read_at_offsets(x, each, self.window) for each in offsets]
        if len(cells) == 1:
            return cells[0]
        lower, upper = (each.astype(accumulation_dtype(x.dtype)) for each in cells)
        weight = self._weight(counts, lower)
        return (separate_term((1 - weight) * lower) + weight * upper).astype(x.dtype)

    def transpose(self, cotangent: jax.Array, offsets: Arrays, counts: Counts, /) -> jax.Array:
        def route(cotangent: jax.Array, offsets: Arrays, counts: Counts) -> jax.Array:
            wide = cotangent.astype(accumulation_dtype(cotangent.dtype))
            weight = None if len(offsets) == 1 else self._weight(counts, wide)
            shares = (wide,) if weight is None else ((1 - weight) * wide, weight * wide)
            return route_apart(shares, offsets, self.window).astype(cotangent.dtype)

        return evaluate(route, cotangent, offsets, counts, in_stage=not is_looped(self.window))

    def _weight(self, counts: Counts, like: jax.Array) -> jax.Array:
        return _weight(counts, self.window, self.quantile, like)


def _cells(x: jax.Array, counts: Counts, window: Window, quantile: Quantile) -> Arrays:
    """The values of c, and of d where there is one."""
    return tuple(values_at_ranks(x, window, places_in(counts, window, quantile, x.ndim).ranks))


def _offsets(
    x: jax.Array, mask: jax.Array | None, counts: Counts, *cells: jax.Array, window: Window, quantile: Quantile
) -> Arrays:
    """The offsets of c, and of d where there is one."""
    if mask is None and any(max(axis.low, axis.beyond) > 0 for axis in window.axes):
        mask = jnp.ones([size if n in window.pooled_axes else 1 for n, size in enumerate(x.shape)], bool)
    ranks = places_in(counts, window, quantile, x.ndim).ranks
    return tuple(offsets_at_rank(x, mask, window, *pair) for pair in zip(ranks, cells, strict=True))


def _mean(cells: Arrays, counts: Counts, window: Window, quantile: Quantile) -> jax.Array:
    """The value y from c and d: never outside of the two, and exactly both where they are equal, infinities too."""
    dtype = cells[0].dtype
    if quantile.method == "linear" and not jnp.issubdtype(dtype, jnp.inexact):
        dtype = np.dtype(np.float32)
    if len(cells) == 1:
        return cells[0].astype(dtype)
    lower, upper = (each.astype(accumulation_dtype(dtype)) for each in cells)
    weight = _weight(counts, window, quantile, lower)
    mean = jnp.clip(separate_term((1 - weight) * lower) + weight * upper, lower, upper)
    return jnp.where(lower == upper, lower, mean).astype(dtype)


def _weight(counts: Counts, window: Window, quantile: Quantile, like: jax.Array) -> jax.Array:
    return jnp.asarray(places_in(counts, window, quantile, like.ndim).weight).astype(like.dtype)
