"""Pools of long windows along one axis, taken over pieces of the windows: see `_geometry/pieces`.

The derivatives are those of one short pool after the other. Some pieces are in no window, as they lie between windows
or reach from one into the next. They pass back the cotangent 0, which NaN in them would multiply. So NaN is left out,
and put into the values and derivatives of the windows that hold it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._derivatives.residuals import is_in_pieces
from jaxpool._engine.custom_rules import custom_rule
from jaxpool._engine.maps import reduce_windows
from jaxpool._geometry.pieces import Pieces, divide_window, stacked
from jaxpool._geometry.window import Window


def over_parts(
    step: Callable[..., Any],
    cells: Callable[[jax.Array], Any],
    value: Callable[[Any], jax.Array],
    parts: Sequence[Window],
    x: jax.Array,
    mask: jax.Array | None,
    window: Window,
) -> jax.Array:
    """Pool x over one part after the other; the mask, if any, tells in which cells NaN counts.

    A state is what there is of every cell or window, in arrays: `cells(x)` makes the first one, `step(state, part)` the
    next, and `value` the result. `step(state, part, counts)` pools arrays stacked along a new first axis, whose entries
    stand for so many cells each.
    """

    def pooled(x: jax.Array) -> jax.Array:
        state = cells(x)
        for part in parts:
            state = _over_pieces(step, state, part) if is_in_pieces(part) else step(state, part)
        return value(state)

    if not any(map(is_in_pieces, parts)):
        return pooled(x)
    nan = jnp.isnan(x)
    holds_nan = reduce_windows(nan if mask is None else nan & mask, window, lax.max)
    values = pooled(_without_nan(x))
    return values * jnp.where(holds_nan, jnp.nan, 1).astype(values.dtype)


def _over_pieces(step: Callable[..., Any], cells: Any, part: Window) -> Any:
    division = divide_window(part)
    kinds = [cells]

    def of_pieces(pieces: Pieces) -> Any:
        (axis,) = pieces.window.axes
        reached = partial(lax.slice_in_dim, start_index=pieces.first, limit_index=pieces.end, axis=axis.axis)
        return step(jax.tree.map(reached, kinds[pieces.kind]), pieces.window)

    for pieces in division.kinds:
        kinds.append(of_pieces(pieces))
    groups = list(map(of_pieces, division.groups))
    if len(groups) == 1:
        return groups[0]
    together = jax.tree.map(lambda *arrays: jnp.stack(arrays), *groups)
    counts = [pieces.cells for pieces in division.groups]
    return jax.tree.map(lambda array: lax.squeeze(array, (0,)), step(together, stacked(len(groups)), counts))


@custom_rule()
def _without_nan(x: jax.Array) -> jax.Array:
    return jnp.where(jnp.isnan(x), 0, x)


@_without_nan.defjvp
def _without_nan_jvp(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    # The cotangent of NaN itself is NaN.
    return _without_nan(*primals), tangents[0]
