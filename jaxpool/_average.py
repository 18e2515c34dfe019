"""sum, avg."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._arguments import Rule, check_array, check_divisor, check_flag, check_rule
from jaxpool._engine.reduce import reduce_windows
from jaxpool._engine.route import accumulation_dtype, spread, transposed
from jaxpool._window import Padding, Sizes, Window, make_window


def sum_pool(
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
    array = check_array("sum_pool", x, complex_allowed=True)
    window = make_window("sum_pool", array.shape, kernel_size, stride, padding, dilation, ceil_mode, axis)
    return _sums(array, window, check_rule("sum_pool", rule))


def avg_pool(
    x: jax.typing.ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: float | None = None,
    axis: Sizes | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    array = check_array("avg_pool", x, complex_allowed=True)
    window = make_window("avg_pool", array.shape, kernel_size, stride, padding, dilation, ceil_mode, axis)
    divisor = check_divisor("avg_pool", divisor_override)
    include = check_flag("avg_pool", "count_include_pad", count_include_pad)
    if divisor is None and not include:
        window.check_no_window_of_padding("avg_pool", "use less padding, count_include_pad=True or divisor_override")
    return _averages(array, window, include, divisor, check_rule("avg_pool", rule))


@partial(jax.jit, static_argnums=(1, 2))
def _sums(x: jax.Array, window: Window, rule: str) -> jax.Array:
    if x.dtype == np.bool_:
        return reduce_windows(x.astype(jnp.int32), window, lax.add)
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return reduce_windows(x, window, lax.add)
    sums = (_sums_jvp if rule == "jvp" else _sums_vjp)(x.astype(accumulation_dtype(x.dtype)), window)
    return sums.astype(x.dtype)


@partial(jax.jit, static_argnums=(1, 2, 3, 4))
def _averages(x: jax.Array, window: Window, include_pad: bool, divisor: float | None, rule: str) -> jax.Array:
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else np.dtype(np.float32)
    wide = accumulation_dtype(dtype)
    sums = (_sums_jvp if rule == "jvp" else _sums_vjp)(x.astype(wide), window)
    if divisor is None:
        divisors = jnp.ones((), wide)
        for axis in window.axes:
            shape = [1] * x.ndim
            shape[axis.axis] = axis.output
            divisors = divisors * axis.counts(padding=include_pad).astype(wide).reshape(shape)
    else:
        divisors = jnp.full((), divisor, wide)
    # Behind a barrier the divisor is no constant, and the division is not rewritten into an inexact
    # multiplication by its reciprocal.
    return (sums / lax.optimization_barrier(divisors)).astype(dtype)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _sums_jvp(x: jax.Array, window: Window) -> jax.Array:
    return reduce_windows(x, window, lax.add)


@_sums_jvp.defjvp
def _(window: Window, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    sums = _sums_jvp(*primals, window)
    return sums, transposed(lambda cotangent, _: spread(cotangent, window), *tangents, (), sums)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _sums_vjp(x: jax.Array, window: Window) -> jax.Array:
    return reduce_windows(x, window, lax.add)


_sums_vjp.defvjp(
    lambda x, window: (_sums_jvp(x, window), None),
    lambda window, _, cotangent: (spread(cotangent, window),),
)
