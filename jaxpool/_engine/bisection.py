"""Ranks by bisection: the bits of a value are found one after the other, by counting the cells below it.

Floats and integers alike are mapped to unsigned numbers in the same order, their *keys*. The key of rank r is the
largest number with at most r keys below it. Starting from the highest, a bit is set if the number with that bit has at
most r keys below it. That takes as many rounds as there are bits, each a count over shifted slices. No array holds more
than one cell per window, however large the windows are, and each window may have a rank of its own.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.loops import fold_offsets, zeros_after
from jaxpool._engine.operations import Arrays
from jaxpool._engine.window_offsets import at_offset, offsets_in
from jaxpool._geometry.window import Window


def select_by_bisection(padded: jax.Array, window: Window, rank: int | np.ndarray | jax.Array) -> jax.Array:
    """The value of that rank in every window of a tiled array; NaN where a window holds NaN."""
    keys = _keys(padded)
    bits = 8 * keys.dtype.itemsize
    rank = jnp.asarray(rank, np.int32)

    def settle(number: jax.Array, found: jax.Array) -> jax.Array:
        bit = (bits - 1 - number).astype(keys.dtype)
        candidate = found | lax.shift_left(np.array(1, keys.dtype)[()], bit)

        def count(below: jax.Array, cells: Arrays, _: Any) -> jax.Array:
            return below + (cells[0] < candidate).astype(np.int32)

        below = fold_offsets(count, jnp.zeros(found.shape, np.int32), (keys,), window)
        return jnp.where(below <= rank, candidate, found)

    # Not zeros_like: inside `jax.shard_map` its type would not vary over devices.
    cells = at_offset(keys, window, next(offsets_in(window)))
    values = _values(lax.fori_loop(0, bits, settle, cells ^ cells), padded.dtype)
    if not jnp.issubdtype(padded.dtype, jnp.floating):
        return values

    def lose(lost: jax.Array, cells: Arrays, _: Any) -> jax.Array:
        return lost | (cells[0] != cells[0])

    lost = fold_offsets(lose, zeros_after(values.shape, bool, window, values), (padded,), window)
    return jnp.where(lost, np.array(np.nan, padded.dtype)[()], values)


def _keys(array: jax.Array) -> jax.Array:
    """Unsigned integers in the order of the values: NaN may be anywhere, and -0 is just below 0."""
    if array.dtype == np.bool_:
        return array.astype(np.uint8)
    bits, sign = _bits_and_sign(array.dtype)
    numbers = lax.bitcast_convert_type(array, bits)
    if jnp.issubdtype(array.dtype, jnp.floating):
        return jnp.where(numbers >= sign, ~numbers, numbers | sign)
    return numbers ^ sign


def _values(keys: jax.Array, dtype: np.dtype) -> jax.Array:
    """The values that have these keys."""
    if dtype == np.bool_:
        return keys.astype(np.bool_)
    _, sign = _bits_and_sign(dtype)
    numbers = jnp.where(keys >= sign, keys ^ sign, ~keys) if jnp.issubdtype(dtype, jnp.floating) else keys ^ sign
    return lax.bitcast_convert_type(numbers, dtype)


def _bits_and_sign(dtype: np.dtype) -> tuple[np.dtype, Any]:
    """The unsigned dtype of the same size and its highest bit, or 0 if the dtype is unsigned itself."""
    bits = np.dtype(f"uint{8 * dtype.itemsize}")
    highest = 0 if jnp.issubdtype(dtype, jnp.unsignedinteger) else 1 << (8 * dtype.itemsize - 1)
    return bits, np.array(highest, bits)[()]
