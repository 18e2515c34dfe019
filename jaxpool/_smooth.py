"""smooth."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._arguments import Rule, check_array, check_flag, check_parameter, check_rule
from jaxpool._engine.reduce import reduce_windows
from jaxpool._engine.route import accumulation_dtype
from jaxpool._engine.taps import pad_real
from jaxpool._weighted import WeightedPool, Parameter, expand_rank, shared_along_windows, sum_terms, weighted_pool
from jaxpool._window import Padding, Sizes, Window, make_window


def smooth_max_pool(
    x: jax.typing.ArrayLike,
    beta: float | jax.typing.ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    axis: Sizes | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    function = "smooth_max_pool"
    array = check_array(function, x)
    window = make_window(function, array.shape, kernel_size, stride, padding, dilation, ceil_mode, axis)
    include_pad = check_flag(function, "count_include_pad", count_include_pad)
    if not include_pad:
        window.check_no_window_of_padding(function, "use less padding or count_include_pad=True")
    sharpness = check_parameter(function, "beta", beta, window.output_shape(array.shape))
    check_rule(function, rule)
    if not isinstance(sharpness, float):
        return _smooth(array, sharpness, window, None, include_pad, rule)
    if sharpness == 0 or not math.isfinite(sharpness):
        raise ValueError(
            f"{function}: beta must be finite and not 0, got {sharpness}; use max_pool or min_pool for an infinite "
            f"beta, and avg_pool for the mean"
        )
    return _smooth(array, None, window, sharpness, include_pad, rule)


@partial(jax.jit, static_argnums=(2, 3, 4, 5))
def _smooth(
    x: jax.Array, beta: jax.Array | None, window: Window, number: float | None, include_pad: bool, rule: str
) -> jax.Array:
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else np.dtype(np.float32)
    x = x.astype(accumulation_dtype(dtype))
    if include_pad:
        x, window = pad_real(x, window, 0), window.after_padding()
    pool = partial(weighted_pool, window=window, pool=_LOG_SUM_EXP, rule=rule)
    if number is not None:
        sign = math.copysign(1, number)
        smooth = sign * pool(sign * x, None, number=abs(number))
    else:
        assert beta is not None
        beta = expand_rank(beta.astype(x.dtype), x.ndim)
        if shared_along_windows(beta, window):
            sign = jnp.where(beta < 0, -1, 1).astype(x.dtype)
            smooth = sign * pool(sign * x, jnp.abs(beta), number=None)
        else:
            positive, negative = (sign * pool(sign * x, jnp.abs(beta), number=None) for sign in (1, -1))
            smooth = jnp.where(beta < 0, negative, positive)
    return smooth.astype(dtype)


def _log_sum_exp(x: jax.Array, beta: Parameter, window: Window) -> jax.Array:
    """m + log(Σ exp(β·(x - m)))/β with m the maximum, for β > 0."""
    largest = reduce_windows(x, window, lax.max)

    def term(cells: jax.Array) -> jax.Array:
        return jnp.exp(beta * jnp.where(cells == largest, 0, cells - largest))

    return largest + jnp.log(sum_terms(term, x, -jnp.inf, window)) / beta


# y = log(Σ exp(β·x))/β for β > 0; a negative β is the same pool of -x, negated. With w(i) = exp(β·(x(i) - y)), which
# sum to 1 over a window,
#
#     ∂y/∂x(i) = w(i)          ∂y/∂β = -y/β + (Σ x(i)·w(i))/β = 1/β · Σ w(i)·(x(i) - y)
#
# No weight exceeds 1. A cell of -inf has weight 0; a window whose value is infinite passes no derivative.


def _weight(cells: jax.Array, y: jax.Array, beta: Parameter) -> jax.Array:
    gap, dead = _gap(cells, y)
    return jnp.where(dead, 0, jnp.exp(beta * gap))


def _slope(cells: jax.Array, y: jax.Array, beta: Parameter) -> jax.Array:
    gap, _ = _gap(cells, y)
    return jnp.exp(beta * gap) * gap / beta


def _gap(cells: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    dead = jnp.isinf(cells) | jnp.isinf(y)
    return jnp.where(dead, 0, cells) - jnp.where(dead, 0, y), dead


_LOG_SUM_EXP = WeightedPool(_log_sum_exp, _weight, _slope, fill=-math.inf)
