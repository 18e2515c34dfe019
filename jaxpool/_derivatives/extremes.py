"""The extreme of every window, with both derivative rules: what max, min and infinite norms have in common.

Their derivative only reads: the tangent at the winner on the way out, the cotangent sent to the winner on the way
back. What matters is that values, indices and derivatives in every mode name the same winner, and that is had
by selecting once, in the engine, and keeping the winner's offset in its window.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._derivatives.rules import with_rule
from jaxpool._engine.copies import extended
from jaxpool._engine.linear_maps import apply_linear_map
from jaxpool._engine.maps import (
    FindWinners,
    Format,
    ReadWinners,
    first_held,
    first_winners,
    reduce_windows,
    selection_format,
)
from jaxpool._engine.operations import Operation, identity
from jaxpool._engine.winners import Masked, Winners, is_held, winner_positions
from jaxpool._geometry.window import Window
from jaxpool._sharding import shardable

# Which windows a mask leaves a cell, broadcastable against the output, and what the engine selects by.
Present = tuple[jax.Array, Masked]


@shardable
@partial(jax.jit, static_argnums=(2, 3, 4))
def extremes(x: jax.Array, mask: jax.Array | None, window: Window, op: Operation, rule: str) -> jax.Array:
    """The extreme by `op`, `lax.max` or `lax.min`, of the cells of every window that the mask holds; 0 for none."""
    dtype = x.dtype
    x, mask, window = extended(x, mask, window)
    kept = selection_format(window, x.dtype, mask is not None)
    present = _present(mask, kept)
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        values = _extremes(x, present, kept, op)
    else:
        values = with_rule(rule, partial(_extremes, kept=kept, op=op))(x, present)
    return values.astype(dtype)


@shardable
@partial(jax.jit, static_argnums=(2, 3))
def extremes_with_indices(
    x: jax.Array, mask: jax.Array | None, window: Window, rule: str
) -> tuple[jax.Array, jax.Array]:
    """The maximum of every window and its winner's row-major position in the pooled axes; 0 and -1 for none."""
    dtype, given = x.dtype, window
    x, mask, window = extended(x, mask, window)
    # One group: its offsets number the cells of the whole window.
    kept = Format((window,))
    present = _present(mask, kept)
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        values, (offsets,) = _winners(x, present, kept, lax.max)
    else:
        values, (offsets,) = with_rule(rule, partial(_winners, kept=kept, op=lax.max))(x, present)
    positions = winner_positions(offsets, given)
    return values.astype(dtype), positions if present is None else jnp.where(present[0], positions, np.int32(-1))


def _present(mask: jax.Array | None, kept: Format) -> Present | None:
    if mask is None:
        return None
    held, first = first_held(mask, kept.groups)
    return held, (mask, first)


# Notation: window o holds the cells W(o); c(o) ∈ W(o) is its winner, the first cell in row-major order that no other
# cell of W(o) beats, where NaN beats every number; a dot marks a tangent, a bar a cotangent.
#
#     y(o) = x(c(o))        ẏ(o) = ẋ(c(o))        x̄(i) = Σ_{o : c(o) = i} ȳ(o)
#
# The winner is constant wherever it is unique, so that these are the derivatives there, and all higher ones are zero;
# at ties they are one element of the subdifferential (for the minimum: superdifferential). The second formula and the
# third are the two directions of `ReadWinners`. Both need the offsets of the winners and nothing of x, unless the
# format keeps x itself, among which `FindWinners` finds the winners anew. With a mask W(o) are the cells that it holds,
# so that derivatives need no mask: no masked cell is a winner, and the offset of an empty window, of which y is 0, is
# that of no cell, along which nothing is read or sent.


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _winners(x: jax.Array, present: Present | None, kept: Format, op: Operation) -> Winners:
    if present is None:
        return first_winners(x, kept.groups, op)
    values, offsets = first_winners(x, kept.groups, op, present[1])
    return jnp.where(is_held(offsets, kept.groups), values, jnp.zeros_like(values)), offsets


@_winners.defjvp
def _winners_jvp(kept: Format, op: Operation, primals: Any, tangents: Any) -> tuple[Winners, Any]:
    values, offsets = _winners(*primals, kept, op)
    values_dot = apply_linear_map(ReadWinners(kept.groups), tangents[0], offsets, like=values)
    return (values, offsets), (values_dot, jax.tree.map(jax.custom_derivatives.zero_from_primal, offsets))


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _extremes(x: jax.Array, present: Present | None, kept: Format, op: Operation) -> jax.Array:
    window = Window(tuple(axis for group in kept.groups[::-1] for axis in group.axes))
    if present is None:
        return reduce_windows(x, window, op)
    held, (mask, _) = present
    values = reduce_windows(jnp.where(mask, x, identity(op, x.dtype)), window, op)
    return jnp.where(held, values, jnp.zeros_like(values))


@_extremes.defjvp
def _extremes_jvp(kept: Format, op: Operation, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    if kept.keeps_cells:
        values = _extremes(*primals, kept, op)
        (window,) = kept.groups
        return values, apply_linear_map(FindWinners(window, op), tangents[0], primals[0], values, like=values)
    (values, _), (values_dot, _) = jax.jvp(lambda *x: _winners(*x, kept, op), primals, tangents)
    return values, values_dot
