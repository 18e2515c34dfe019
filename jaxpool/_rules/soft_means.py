"""The mean of every window under the softmax of its cells, as sums of exponentials with their derivatives."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.maps import reduce_windows, soft_order
from jaxpool._engine.operations import accumulation_dtype
from jaxpool._engine.taps import with_zeros_in_padding, without_unheld
from jaxpool._geometry.extension import extended
from jaxpool._geometry.window import Window
from jaxpool._rules.reverse import with_rule
from jaxpool._rules.weighted import expand_rank, shared_along_windows
from jaxpool._rules.weighted_sums import weighted_sums
from jaxpool._sharding import shardable, vary_together


@shardable
@partial(jax.jit, static_argnums=(3, 4, 5, 6))
def soft_means(
    x: jax.Array,
    mask: jax.Array | None,
    beta: jax.Array | None,
    window: Window,
    number: float | None,
    include_pad: bool,
    rule: str,
) -> jax.Array:
    """The mean of every window under the softmax of β·x, with `beta`, or with `number` if that is None."""
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else np.dtype(np.float32)
    x, mask, window = extended(x.astype(accumulation_dtype(dtype)), mask, window)
    if include_pad and window.has_padding:
        x, mask, window = with_zeros_in_padding(x, mask, window)
    x = without_unheld(x, window)
    if beta is None:
        assert number is not None
        signs, beta = {int(np.sign(number))}, jnp.full((1,) * x.ndim, number, x.dtype)
    else:
        signs, beta = {-1, 0, 1}, expand_rank(beta.astype(x.dtype), x.ndim)
        x, beta = vary_together(x, beta)
    means = partial(_means, window=window, signs=signs)
    y = with_rule(rule, means)(x, beta, mask)
    if mask is not None:
        y = jnp.where(reduce_windows(mask, window, lax.max), y, 0)
    return y.astype(dtype)


# With any shift c of a window and e(i) = exp(β·(x(i) - c)), its mean under the softmax w(i) = e(i)/Σ e is
#
#     y = c + Σ e(i)·(x(i) - c) / Σ e(i)
#
# which does not depend on c. So c is a constant to all derivatives: those of the two sums make up
#
#     ∂y/∂x(i) = w(i)·(1 + β·(x(i) - y))        ∂y/∂β = Σ w(i)·(x(i) - y)²
#
# As c serves the largest cell, for β < 0 the smallest: no exponential overflows, Σ e ≥ 1, and no weight is off by more
# than a few units in the last place, however large β·x. One axis after the other, a window of windows with the sums
# Σ e and Σ e·(x - c) about their own c is shifted to a common one as a cell is, by another exponential.


def _means(x: jax.Array, beta: jax.Array, mask: jax.Array | None, *, window: Window, signs: set[int]) -> jax.Array:
    present = ~jnp.isinf(x) if mask is None else ~jnp.isinf(x) & mask
    shift, mass, moment = jnp.where(present, x, 0), present.astype(x.dtype), None
    largest, smallest = (x if mask is None else jnp.where(mask, x, end) for end in (-jnp.inf, jnp.inf))
    for part in soft_order(window) if shared_along_windows(beta, window) else (window,):
        # Of a β whose sign is known one of the two does.
        if signs != {-1}:
            largest = reduce_windows(lax.stop_gradient(largest), part, lax.max)
        if signs != {1}:
            smallest = reduce_windows(lax.stop_gradient(smallest), part, lax.min)
        extreme = _either(signs, beta, smallest, largest)
        common = jnp.where(jnp.isinf(extreme), 0, extreme)
        sums = weighted_sums(_gap, shift, (common, beta), mass, part)
        if moment is not None:
            sums += weighted_sums(_power, shift, (common, beta), moment, part)
        mass = weighted_sums(_power, shift, (common, beta), mass, part)
        shift, moment = common, sums
    assert moment is not None, "a window has an axis"
    y = shift + moment / jnp.where(mass == 0, 1, mass)
    extreme = _either(signs, beta, smallest, largest)
    if 0 in signs:
        # A plain mean, of infinities too.
        ends = jnp.where(jnp.isinf(largest) | jnp.isinf(smallest), largest + smallest, extreme)
        extreme = jnp.where(beta == 0, ends, extreme)
    return jnp.where(jnp.isinf(extreme) | jnp.isnan(extreme), extreme, y)


def _either(signs: set[int], beta: jax.Array, smallest: jax.Array, largest: jax.Array) -> jax.Array:
    """The cells of each window with the largest exponential."""
    if len(signs) == 1:
        return smallest if signs == {-1} else largest
    return jnp.where(beta < 0, smallest, largest)


def _power(cells: jax.Array, shift: jax.Array, beta: jax.Array) -> jax.Array:
    product = beta * (cells - shift)
    # Positive for pairs that do not meet, or of which one is infinite, alone.
    return jnp.exp(jnp.where(product > 0, 0, product))


def _gap(cells: jax.Array, shift: jax.Array, beta: jax.Array) -> jax.Array:
    return _power(cells, shift, beta) * (cells - shift)
