"""Powers of magnitudes whose derivatives of every order are right, and never NaN, at zero.

With a(r, q) = |r|^q and b(r, q) = sign(r)·|r|^q, for every real q,

    ∂a/∂r = q·b(r, q-1)     ∂b/∂r = q·a(r, q-1)     ∂a/∂q = log|r|·a     ∂b/∂q = log|r|·b

so that each is all the other needs. At r = 0 they hold a(0, 0) = 1 and a(0, q) = 0 for q > 0, and 0 where no
finite value exists: b(0, q), negative powers and log|r|.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Exponent = float | jax.Array


def even_power(base: jax.Array, exponent: Exponent) -> jax.Array:
    """|base|^exponent; Python numbers that are whole are multiplied out."""
    return _as_operand(base, exponent, False)


def signed_power(base: jax.Array, exponent: Exponent) -> jax.Array:
    """sign(base)·|base|^exponent; Python numbers that are whole are multiplied out."""
    return _as_operand(base, exponent, True)


def log_magnitude(base: jax.Array) -> jax.Array:
    """log|base|, and 0 with derivative 0 at base 0."""
    return jnp.log(jnp.where(base == 0, 1, jnp.abs(base)))


def _as_operand(base: jax.Array, exponent: Exponent, signed: bool) -> jax.Array:
    if isinstance(exponent, float):
        return _power(base, None, exponent, signed)
    return _power(base, exponent, None, signed)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _power(base: jax.Array, exponent: jax.Array | None, number: float | None, signed: bool) -> jax.Array:
    magnitude = jnp.where(base == 0, 1, jnp.abs(base))
    if number is None:
        assert exponent is not None
        value, at_zero = jnp.power(magnitude, exponent), jnp.where(exponent == 0, 1, 0).astype(base.dtype)
    else:
        value, at_zero = _numeric_power(magnitude, number), float(number == 0)
    if signed:
        return jnp.sign(base) * value
    return jnp.where(base == 0, at_zero, value)


def _numeric_power(magnitude: jax.Array, number: float) -> jax.Array:
    if number.is_integer() and abs(number) <= 64:
        return lax.integer_pow(magnitude, int(number))
    if number == 0.5:
        return lax.sqrt(magnitude)
    return jnp.power(magnitude, jnp.asarray(number, magnitude.dtype))


@_power.defjvp
def _(number: float | None, signed: bool, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    base, exponent = primals
    base_dot, exponent_dot = tangents
    value = _power(base, exponent, number, signed)
    if exponent is None:
        assert number is not None
        return value, number * _power(base, None, number - 1, not signed) * base_dot
    value_dot = exponent * _power(base, exponent - 1, None, not signed) * base_dot
    return value, value_dot + log_magnitude(base) * value * exponent_dot
