"""Powers of magnitudes whose derivatives of every order are correct, and never NaN, at zero.

With a(r, q) = |r|^q and b(r, q) = sign(r)·|r|^q, for every real q,

    ∂a/∂r = q·b(r, q-1)     ∂b/∂r = q·a(r, q-1)     ∂a/∂q = log|r|·a     ∂b/∂q = log|r|·b

so the derivatives of a and b need only a and b. At r = 0, a(0, 0) = 1, a(0, q) = 0 for q > 0, and whatever has no
finite value is 0: b(0, q), negative powers and log|r|.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._derivatives.in_turn import is_shared
from jaxpool._derivatives.rules import custom_rule
from jaxpool._engine.operations import accumulation_dtype, in_range
from jaxpool._geometry.window import Window
from jaxpool._platforms import is_portable

Exponent = float | jax.Array
# Those of norms by sums of powers.
LEAST_EXPONENT, LARGEST_EXPONENT = 1, 8


def exponent_in_range(
    p: jax.Array | None, number: float | None, rank: int, dtype: Any
) -> tuple[jax.Array | None, float | None]:
    """The array p in this rank and dtype, or the number: within limits whose reciprocals are finite and not 0.

    An entry of p that is not positive becomes NaN, as does all that follows from it.
    """
    if number is not None:
        return None, in_range(number, dtype)
    assert p is not None
    least = float(jnp.finfo(dtype).tiny)
    p = lax.expand_dims(p, range(rank - p.ndim))
    # By a product, whose derivative is NaN too.
    return jnp.clip(p.astype(dtype) * jnp.where(p > 0, 1, jnp.nan).astype(dtype), least, 1 / least), None


def takes_powers(x: jax.Array, p: jax.Array | None, window: Window, number: float | None) -> bool:
    """Whether norms of x with this exponent may be by sums of powers; the size of an array p is seen at run time."""
    if number is not None:
        allowed = LEAST_EXPONENT <= number <= LARGEST_EXPONENT
    else:
        # A single window has one power of each cell in any case.
        allowed = p is not None and is_shared(p, window) and not window.is_single
    return allowed and accumulation_dtype(x.dtype) == np.float32


def even_power(base: jax.Array, exponent: Exponent) -> jax.Array:
    """|base|^exponent; for a whole Python number by multiplication."""
    return _as_operand(base, exponent, False)


def signed_power(base: jax.Array, exponent: Exponent) -> jax.Array:
    """sign(base)·|base|^exponent; for a whole Python number by multiplication."""
    return _as_operand(base, exponent, True)


def positive_power(base: jax.Array, exponent: Exponent) -> jax.Array:
    """base^exponent for base ≥ 0 (> 0 if the exponent is negative); not to be differentiated at 0.

    exp(exponent·log(base)) is several times faster than a power. Its relative error is |log(result)| units in the
    last place: small for results near 1, and small compared with any sum that has a term 1.
    """
    if isinstance(exponent, float) and exponent.is_integer() and abs(exponent) <= 64:
        return lax.integer_pow(base, int(exponent))
    if is_portable():
        # JAX differentiates it at 0 too.
        power = jnp.exp(exponent * jnp.log(jnp.where(base == 0, 1, base)))
        return jnp.where(base == 0, 0, power)
    if isinstance(exponent, float):
        if exponent == 0.5:
            return lax.sqrt(base)
    return jnp.exp(exponent * jnp.log(base))


def power_of_two(magnitude: jax.Array) -> jax.Array:
    """The largest power of two up to the magnitude, clipped so that it and its inverse are normal numbers."""
    limits = jnp.finfo(magnitude.dtype)
    if is_portable():
        # Not from its bits, which few interpreters know.
        least, most = (np.array(limit, magnitude.dtype)[()] for limit in (limits.tiny, 1 / limits.tiny))
        return lax.min(lax.max(lax.exp2(lax.floor(jnp.log2(lax.stop_gradient(magnitude)))), least), most)
    bits = np.dtype(f"uint{limits.bits}")
    exponent = np.array(((1 << limits.nexp) - 1) << limits.nmant, bits)
    power = lax.bitcast_convert_type(lax.bitcast_convert_type(magnitude, bits) & exponent, magnitude.dtype)
    return jnp.clip(power, limits.tiny, 1 / limits.tiny)


def log_magnitude(base: jax.Array) -> jax.Array:
    """log|base|, and 0 with derivative 0 at base 0."""
    return jnp.log(jnp.where(base == 0, 1, jnp.abs(base)))


def _as_operand(base: jax.Array, exponent: Exponent, signed: bool) -> jax.Array:
    if isinstance(exponent, float):
        return _power(base, None, exponent, signed)
    return _power(base, exponent, None, signed)


@custom_rule((2, 3))
def _power(base: jax.Array, exponent: jax.Array | None, number: float | None, signed: bool) -> jax.Array:
    if number is not None and 0 < number <= 64 and number.is_integer():
        return _whole_power(base, int(number), signed)
    magnitude = jnp.where(base == 0, 1, jnp.abs(base))
    power = number if exponent is None else exponent
    assert power is not None
    value = positive_power(magnitude, power)
    return jnp.sign(base) * value if signed else jnp.where(base == 0, jnp.where(power == 0, 1, 0), value)


def _whole_power(base: jax.Array, number: int, signed: bool) -> jax.Array:
    if (number % 2 == 1) == signed:
        return lax.integer_pow(base, number)
    return jnp.abs(base) * (lax.integer_pow(base, number - 1) if number > 1 else 1)


@_power.defjvp
def _power_jvp(number: float | None, signed: bool, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    base, exponent = primals
    base_dot, exponent_dot = tangents
    value = _power(base, exponent, number, signed)
    if exponent is None:
        assert number is not None
        if number == 0:
            return value, jnp.zeros_like(value)
        return value, number * _power(base, None, number - 1, not signed) * base_dot
    value_dot = exponent * _power(base, exponent - 1, None, not signed) * base_dot
    return value, value_dot + log_magnitude(base) * value * exponent_dot


def reciprocal(total: jax.Array) -> jax.Array:
    """1/total, or 0 where that is 0."""
    return jnp.where(total == 0, 0, 1 / jnp.where(total == 0, 1, total))


def corrected_share(number: Any, correction: float) -> jax.Array:
    """number/(number - correction), or 0 where no cell is left after the correction."""
    left = number - correction
    return jnp.where(left > 0, number / jnp.where(left > 0, left, 1), 0)
