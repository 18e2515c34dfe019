"""Lp."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._arguments import Rule, check_array, check_parameter, check_rule
from jaxpool._engine.reduce import reduce_windows
from jaxpool._engine.route import accumulation_dtype
from jaxpool._engine.taps import pad_real
from jaxpool._max import extremes
from jaxpool._powers import Exponent, even_power, log_magnitude, signed_power
from jaxpool._weighted import WeightedPool, sum_terms, weighted_pool
from jaxpool._window import Padding, Sizes, Window, make_window


def lp_pool(
    x: jax.typing.ArrayLike,
    norm_type: float | jax.typing.ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Sizes | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    array = check_array("lp_pool", x)
    window = make_window("lp_pool", array.shape, kernel_size, stride, padding, dilation, ceil_mode, axis)
    exponent = check_parameter("lp_pool", "norm_type", norm_type, window.output_shape(array.shape))
    check_rule("lp_pool", rule)
    if not isinstance(exponent, float):
        return _norms(array, exponent, window, None, rule)
    if not exponent > 0:
        raise ValueError(
            f"lp_pool: norm_type must be positive, got {exponent}; use 1 for the sum of magnitudes, 2 for the "
            f"Euclidean norm, float('inf') for the largest magnitude"
        )
    return _norms(array, None, window, exponent, rule)


@partial(jax.jit, static_argnums=(2, 3, 4))
def _norms(x: jax.Array, p: jax.Array | None, window: Window, number: float | None, rule: str) -> jax.Array:
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else np.dtype(np.float32)
    x = x.astype(accumulation_dtype(dtype))
    if number == math.inf:
        norms = extremes(pad_real(jnp.abs(x), window, 0), window.after_padding(), lax.max, rule)
    else:
        p = None if p is None else p.astype(x.dtype)
        norms = weighted_pool(x, p, window, _NORM, number, rule)
    return norms.astype(dtype)


def _norm(x: jax.Array, p: Exponent, window: Window) -> jax.Array:
    """m·(Σ (|x|/m)^p)^(1/p) with m the largest magnitude: no term overflows, and none that counts underflows."""
    magnitudes = jnp.abs(x)
    largest = jnp.maximum(reduce_windows(magnitudes, window, lax.max), 0)
    scale = jnp.where((largest == 0) | jnp.isinf(largest), 1, largest)
    total = sum_terms(lambda cells: even_power(cells / scale, p), magnitudes, 0, window)
    return jnp.where(jnp.isinf(largest), jnp.inf, scale * even_power(total, 1 / p))


# y = (Σ|x|^p)^(1/p). From log y = log(Σ|x|^p)/p, and with u = |x|/y, for which Σ u^p = 1:
#
#     ∂y/∂x(i) = sign(x(i))·u(i)^(p-1)          ∂y/∂p = y/p · Σ u(i)^p·log u(i)
#
# No ratio u exceeds 1, so nothing overflows where y does not. Where y = 0 the norm has a corner for p = 1 and
# for any other p no derivative either; all derivatives are taken as 0 there, and also where y is infinite.


def _norm_weight(cells: jax.Array, y: jax.Array, p: Exponent) -> jax.Array:
    ratio, dead = _ratio(cells, y)
    return jnp.where(dead, 0, signed_power(ratio, p - 1))


def _norm_slope(cells: jax.Array, y: jax.Array, p: Exponent) -> jax.Array:
    ratio, dead = _ratio(cells, y)
    return jnp.where(dead, 0, y) / p * even_power(ratio, p) * log_magnitude(ratio)


def _ratio(cells: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    dead = (y == 0) | jnp.isinf(y)
    return jnp.where(dead, 0, cells) / jnp.where(dead, 1, y), dead


_NORM = WeightedPool(_norm, _norm_weight, _norm_slope, fill=0.0)
