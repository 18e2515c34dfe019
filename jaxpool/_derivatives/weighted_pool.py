"""The pools of `weights` over one part of the windows after the other, with a number or an array θ."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._derivatives.long_windows import over_parts
from jaxpool._derivatives.padded_zeros import sums_with_zeros
from jaxpool._derivatives.parameters import expand_rank, shared_along_windows
from jaxpool._derivatives.residuals import exponentials_order, terms_order
from jaxpool._derivatives.rules import with_rule
from jaxpool._derivatives.weights import Cells, WeightedPool, pool_part
from jaxpool._geometry.window import Window
from jaxpool._sharding import vary_together

# Cells, and their multiplicities, if any.
_State = tuple[Cells, jax.Array | None]


def weighted_pool(
    x: jax.Array,
    parameter: jax.Array | None,
    window: Window,
    pool: WeightedPool,
    number: float | None,
    rule: str,
    multiplicity: jax.Array | None = None,
    shift_dtype: Any = None,
) -> jax.Array:
    """Pool x with the parameter `number`, or with the array `parameter` if `number` is None.

    For a mean, `multiplicity` is that of every cell, of full size along the pooled axes; None means 1. Shifts have
    dtype `shift_dtype`.
    """
    in_turn = (terms_order if pool.shift is None else exponentials_order)(window)
    if parameter is None:
        parts = in_turn
    else:
        shape = window.output_shape(x.shape)
        parameter = expand_rank(parameter, x.ndim)
        if shared_along_windows(parameter, window):
            parts = in_turn
            shape = [1 if n in [axis.axis for axis in window.axes] else size for n, size in enumerate(shape)]
        else:
            parts = (window,)
        parameter = jnp.broadcast_to(parameter, shape)
        x, parameter = vary_together(x, parameter)

    def pooled(x: jax.Array, parameter: jax.Array | None, multiplicity: jax.Array | None) -> jax.Array:
        step = partial(_of_part, parameter=parameter, pool=pool, number=number, shift_dtype=shift_dtype)
        return over_parts(step, lambda x: ((x,), multiplicity), _value_of, parts, x, None, window)

    return with_rule(rule, pooled)(x, parameter, multiplicity)


def _of_part(
    state: _State,
    part: Window,
    counts: Sequence[int] | None = None,
    *,
    parameter: jax.Array | None,
    pool: WeightedPool,
    number: float | None,
    shift_dtype: Any,
) -> _State:
    cells, multiplicity = state
    weighed = counts is not None and pool.is_mean and multiplicity is None
    if weighed:
        multiplicity = jnp.asarray(part.axes[0].along(np.array(counts, cells[0].dtype), cells[0].ndim))
    total = None if multiplicity is None else sums_with_zeros(multiplicity, part)
    multiplicities = None if multiplicity is None or total is None else (multiplicity, total)
    learnt = None if parameter is None else expand_rank(parameter, cells[0].ndim)
    y, shift = pool_part(cells, learnt, multiplicities, part, pool, number, shift_dtype)
    return (y,) if shift is None else (y, lax.stop_gradient(shift)), None if weighed else total


def _value_of(state: _State) -> jax.Array:
    cells, _ = state
    return cells[0] if len(cells) == 1 else cells[0] + cells[1].astype(cells[0].dtype)
