"""Limits of means of exponentials as their exponent goes to 0: exp(z) - 1, and moments over the unit interval.

With m_k(z) = ∫ t^k·exp(t·z) dt for t from 0 to 1, and k = 0, 1, …,

    m_k' = m_{k+1}     m_0 = (exp(z) - 1)/z     m_k = (exp(z) - k·m_{k-1})/z     m_k = Σ_j z^j/(j!·(j + k + 1))

so the derivative of each moment needs only the next one. The third formula is used upwards for |z| > 1, where it is
stable for the few k that derivatives need; the fourth for other z, where the third would divide 0 by 0.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._engine.custom_rules import custom_rule


def without_tiny(beta: jax.Array) -> jax.Array:
    """The factor β of exponents, set to 0 where products with cells may be subnormal.

    The derivative is that of β, as a mean is differentiable there. Cells larger than 1/β are averaged like the others.
    """
    limits = jnp.finfo(beta.dtype)
    tiny = jnp.abs(beta) < limits.tiny / limits.eps
    return beta - lax.stop_gradient(jnp.where(tiny, beta, 0))


def exponential_less_one(z: jax.Array) -> jax.Array:
    """The value exp(z) - 1, faster than `jnp.expm1`, for sums that are not differentiated."""
    near = jnp.abs(z) < 0.5
    small = jnp.where(near, z, 0)
    series = jnp.zeros_like(z)
    for power in reversed(range(1, 16 if jnp.finfo(z.dtype).bits == 64 else 9)):
        series = (series + 1 / math.factorial(power)) * small
    return jnp.where(near, series, jnp.exp(z) - 1)


@custom_rule((1,))
def exponential_moment(z: jax.Array, order: int) -> jax.Array:
    """The moment m_order(z), for real z of any sign; differentiable to every order."""
    near = jnp.abs(z) <= 1
    small, large = jnp.where(near, z, 0), jnp.where(near, 1, z)
    # At |z| = 1 the first omitted term is below a rounding error.
    count = 18 if jnp.finfo(z.dtype).bits == 64 else 10
    series = jnp.zeros_like(z)
    for power in reversed(range(count)):
        series = series * small + 1 / (math.factorial(power) * (power + order + 1))
    exponential = jnp.exp(large)
    moment = (exponential - 1) / large
    for k in range(1, order + 1):
        moment = (exponential - k * moment) / large
    return jnp.where(near, series, moment)


@exponential_moment.defjvp
def _exponential_moment_jvp(order: int, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (z,), (z_dot,) = primals, tangents
    return exponential_moment(z, order), exponential_moment(z, order + 1) * z_dot
