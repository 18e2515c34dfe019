"""Keys: signed integers in the order of the cells of an array, or in the opposite order.

Cells that have a key each have a total order, which bits can be bisected in and in which NaN has a place. The keys are
signed because vector units compare signed integers in one instruction, and unsigned ones in several.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import in_integer_order


def keys_of(array: jax.Array) -> jax.Array:
    """Signed integers in the order of the values: NaN may be anywhere, and -0 is just below 0."""
    if array.dtype == np.bool_:
        return array.astype(np.int8)
    numbers = lax.bitcast_convert_type(array, _signed(array.dtype))
    if jnp.issubdtype(array.dtype, jnp.floating):
        return in_integer_order(numbers)
    return numbers ^ _lowest_if_unsigned(array.dtype)


def values_of(keys: jax.Array, dtype: np.dtype) -> jax.Array:
    """The values that have these keys."""
    if dtype == np.bool_:
        return keys.astype(np.bool_)
    numbers = in_integer_order(keys) if jnp.issubdtype(dtype, jnp.floating) else keys ^ _lowest_if_unsigned(dtype)
    return lax.bitcast_convert_type(numbers, dtype)


def descending_keys(array: jax.Array) -> jax.Array:
    """Keys in the opposite order: NaN comes first, whatever its sign, and 0 just before -0."""
    if jnp.issubdtype(array.dtype, jnp.floating):
        array = jnp.where(array != array, np.array(np.nan, array.dtype)[()], array)
    return ~keys_of(array)


def values_of_descending(keys: jax.Array, dtype: np.dtype) -> jax.Array:
    """The values that have these keys in the opposite order."""
    return values_of(~keys, dtype)


def _lowest_if_unsigned(dtype: np.dtype) -> Any:
    """What turns the bits of an unsigned integer into those of a signed one in the same order; 0 for signed ones."""
    signed = _signed(dtype)
    return np.array(np.iinfo(signed).min if jnp.issubdtype(dtype, jnp.unsignedinteger) else 0, signed)[()]


def _signed(dtype: np.dtype) -> np.dtype:
    """The signed integers of the same size."""
    return np.dtype(f"int{8 * dtype.itemsize}")
