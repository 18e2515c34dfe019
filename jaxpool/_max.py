"""max, min."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._arguments import Rule, check_array, check_rule
from jaxpool._engine.reduce import Operation, reduce_windows
from jaxpool._engine.route import route_to_winners, transposed
from jaxpool._engine.select import first_winners, winner_positions
from jaxpool._window import Padding, Sizes, Window, make_window

_FIX = "use less padding or a larger input"


def max_pool(
    x: jax.typing.ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Sizes | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    return _pool("max_pool", x, kernel_size, stride, padding, dilation, ceil_mode, axis, rule, lax.max)


def min_pool(
    x: jax.typing.ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Sizes | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    return _pool("min_pool", x, kernel_size, stride, padding, dilation, ceil_mode, axis, rule, lax.min)


def max_pool_with_indices(
    x: jax.typing.ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Sizes | None = None,
    rule: Rule = "jvp",
) -> tuple[jax.Array, jax.Array]:
    function = "max_pool_with_indices"
    array = check_array(function, x)
    window = make_window(function, array.shape, kernel_size, stride, padding, dilation, ceil_mode, axis)
    window.check_no_window_of_padding(function, _FIX)
    window.check_positions_fit(function)
    return _with_indices(array, window, check_rule(function, rule))


def _pool(function, x, kernel_size, stride, padding, dilation, ceil_mode, axis, rule, op):
    array = check_array(function, x)
    window = make_window(function, array.shape, kernel_size, stride, padding, dilation, ceil_mode, axis)
    window.check_no_window_of_padding(function, _FIX)
    return extremes(array, window, op, check_rule(function, rule))


@partial(jax.jit, static_argnums=(1, 2, 3))
def extremes(x: jax.Array, window: Window, op: Operation, rule: str) -> jax.Array:
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return reduce_windows(x, window, op)
    return (_extremes_jvp if rule == "jvp" else _extremes_vjp)(x, window, op)


@partial(jax.jit, static_argnums=(1, 2))
def _with_indices(x: jax.Array, window: Window, rule: str) -> tuple[jax.Array, jax.Array]:
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        values, offsets = first_winners(x, window, lax.max)
    else:
        values, offsets = (_winners_jvp if rule == "jvp" else _winners_vjp)(x, window, lax.max)
    return values, winner_positions(offsets, window)


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _winners_jvp(x: jax.Array, window: Window, op: Operation) -> tuple[jax.Array, jax.Array]:
    return first_winners(x, window, op)


# derivation
@_winners_jvp.defjvp
def _(window, op, primals, tangents):
    values, offsets = _winners_jvp(*primals, window, op)
    tangent = transposed(partial(_route, window=window), *tangents, offsets, values)
    return (values, offsets), (tangent, np.zeros(offsets.shape, jax.dtypes.float0))


def _route(cotangent, offsets, window):
    return route_to_winners(cotangent, offsets, window)


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _extremes_jvp(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    return reduce_windows(x, window, op)


@_extremes_jvp.defjvp
def _(window, op, primals, tangents):
    (values, _), (tangent, _) = jax.jvp(lambda x: _winners_jvp(x, window, op), primals, tangents)
    return values, tangent


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _winners_vjp(x, window, op):
    return first_winners(x, window, op)


_winners_vjp.defvjp(
    lambda x, window, op: (lambda winners: (winners, winners[1]))(_winners_jvp(x, window, op)),
    lambda window, op, offsets, cotangents: (route_to_winners(cotangents[0], offsets, window),),
)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _extremes_vjp(x, window, op):
    return reduce_windows(x, window, op)


_extremes_vjp.defvjp(
    lambda x, window, op: _winners_jvp(x, window, op),
    lambda window, op, offsets, cotangent: (route_to_winners(cotangent, offsets, window),),
)
