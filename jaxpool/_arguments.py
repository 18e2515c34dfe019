"""Checks of arguments that some pools have: indices, keys, and numbers, static or learnt."""

import math
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxpool._arrays import as_array, as_jax_takes, check_no_mask
from jaxpool._call import broadcasts_to, reshaped

Rule = Literal["jvp", "vjp"]


def check_indices(function: str, indices: Any, shape: tuple[int, ...]) -> jax.Array:
    """Return indices as a JAX array, or raise if they are not integers of the `shape` of the values."""
    indices = as_array(function, "indices", indices)
    if not jnp.issubdtype(indices.dtype, jnp.integer):
        raise TypeError(f"{function}: indices must be integers, got dtype {indices.dtype}; give those of the max pool")
    if indices.shape != shape:
        raise ValueError(
            f"{function}: indices of shape {indices.shape} do not match values of shape {shape}; give one per value"
        )
    if isinstance(indices, np.ndarray) and indices.itemsize > 4:
        # JAX may keep 32 bits, in which others would be indices of cells.
        indices = np.where((indices >= 0) & (indices < 2**31), indices.astype(np.int32), np.int32(-1))
    return jnp.asarray(indices)


def check_key(function: str, key: Any) -> jax.Array:
    """Return a single key of `jax.random`, typed or raw, or raise if it is not one."""
    fix = "make one with jax.random.key(0)"
    key = as_jax_takes(function, "key", key)
    if not isinstance(key, (jax.Array, np.ndarray)):
        raise TypeError(f"{function}: key must be a key of jax.random, got {key!r}; {fix}")
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not (typed or key.dtype == np.uint32):
        raise TypeError(f"{function}: key must be a key of jax.random, got dtype {key.dtype}; {fix}")
    # A raw key belongs to JAX's configured implementation, which determines its shape.
    one = () if typed else jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0))).shape
    if key.ndim > len(one) and key.shape[key.ndim - len(one) :] == one:
        entry = ", ".join("0" * (key.ndim - len(one)))
        raise ValueError(
            f"{function}: key must be a single key, got an array of shape {key.shape}; give one, as key[{entry}], or "
            f"use jax.vmap over keys and arrays"
        )
    if key.shape != one:
        raise ValueError(
            f"{function}: key must be a key of jax.random, got uint32 numbers of shape {key.shape} in place of {one}; "
            f"{fix}, or say whose numbers they are, as in jax.random.wrap_key_data(key, impl='rbg')"
        )
    return jnp.asarray(key)


def check_parameter(
    function: str,
    name: str,
    value: Any,
    output_shape: tuple[int, ...],
    allowed: Callable[[np.ndarray], np.ndarray],
    words: str,
    fix: str,
) -> tuple[jax.Array | None, float | None]:
    """Return an array, traced or not, that broadcasts to the output, or a Python number as a float; the other is None.

    Raise if it is neither, or if a value known while tracing is not `allowed`, which `words` describe.
    """
    value = as_jax_takes(function, name, value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.generic, np.ndarray, jax.Array)):
        sequence = isinstance(value, (list, tuple)) or (hasattr(value, "__array__") and not isinstance(value, np.bool_))
        given = type(value).__name__ if sequence else f"{value!r} of type {type(value).__name__}"
        fix = f"; convert it with jnp.asarray({name})" if sequence else ""
        raise TypeError(f"{function}: {name} must be a number or an array, got {given}{fix}")
    if isinstance(value, (int, float)):
        value = _float(function, name, value)
    elif not (jnp.issubdtype(value.dtype, jnp.floating) or jnp.issubdtype(value.dtype, jnp.integer)):
        raise TypeError(f"{function}: {name} must be real, got dtype {value.dtype}")
    elif not broadcasts_to(value.shape, output_shape):
        raise ValueError(
            f"{function}: {name} of shape {value.shape} does not broadcast to the output {output_shape}; "
            f"give a number, or an array with 1 along the axes that share a value"
            f"{reshaped(name, value.shape, output_shape)}"
        )
    traced = isinstance(value, jax.core.Tracer) or (isinstance(value, jax.Array) and not value.is_fully_addressable)
    if not traced:
        known = np.asarray(value)
        is_array = isinstance(value, jax.Array) or known.ndim > 0
        wrong = known[~(allowed(known) & (np.isfinite(known) | (not is_array)))]
        if wrong.size:
            words = f"{words}, and finite in an array" if is_array else words
            raise ValueError(f"{function}: {name} must be {words}, got {wrong[0]}; {fix}")
    if isinstance(value, jax.Array) or np.ndim(value) > 0:
        # Beyond the range of the dtype that JAX gives it; families take the nearest number that they can use.
        with np.errstate(over="ignore"):
            return jnp.asarray(value), None
    return None, float(value)


def check_least(function: str, name: str, number: Any) -> float | None:
    """Return a lower bound as a float, or None, or raise if it is negative, not finite or not a number."""
    fix = "; use None for no bound"
    return check_number(function, name, number, lambda least: least >= 0, "finite and not negative", fix)


def check_number(
    function: str, name: str, given: Any, allowed: Callable[[float], bool], words: str, fix: str = ""
) -> float | None:
    """Return a Python number as a float, or None, or raise if it is something else or not `allowed`."""
    if given is None:
        return None
    check_no_mask(function, name, given)
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, (int, float, np.integer, np.floating)):
        raise TypeError(f"{function}: {name} must be a Python number or None, got {given!r}")
    number = _float(function, name, given)
    if not (math.isfinite(number) and allowed(number)):
        raise ValueError(f"{function}: {name} must be {words}, got {given}{fix}")
    return number


def _float(function: str, name: str, number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        raise ValueError(
            f"{function}: {name} must be finite as a float, got an int of {number.bit_length()} bits"
        ) from None


def check_divisor(function: str, divisor: Any) -> float | None:
    """Return the divisor as a float, or None, or raise if it is 0, not finite or not a number."""
    if divisor is None:
        return None
    check_no_mask(function, "divisor_override", divisor)
    if isinstance(divisor, (jax.Array, np.ndarray)):
        given = "a traced value" if isinstance(divisor, jax.core.Tracer) else "an array"
        raise TypeError(
            f"{function}: divisor_override must be a Python number, got {given}; "
            f"divide the result of sum_pool by it instead"
        )
    return check_number(function, "divisor_override", divisor, lambda number: number != 0, "finite and not 0")
