"""Ranks by bisection: the bits of a value are found one after the other, by counting the cells below it.

Floats and integers alike are mapped to integers in the same order, their keys, in which NaN has a place. These are
signed, because vector units compare signed integers in one instruction, and unsigned ones in several. The key of rank r
is the largest number with at most r keys below it. Starting from the highest, a bit is set if the number with that bit
has at most r keys below it. That takes as many rounds as there are bits, each a count over shifted slices. No array
holds more than one cell per window, however large the windows are, and each window may have a rank of its own.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._window import Window
from jaxpool._windows.cells import at_offset, fold_offsets, zeros_after
from jaxpool._windows.operations import Arrays, keys_of, values_of


def select_by_bisection(
    padded: jax.Array, window: Window, ranks: Sequence[int | np.ndarray | jax.Array], most_in_block: int
) -> list[jax.Array]:
    """The value of each rank in every window of a tiled array; NaN where a window holds NaN.

    Cells of large windows are counted in blocks of at most that many.
    """
    keys = keys_of(padded)
    bits = 8 * keys.dtype.itemsize
    wanted = [jnp.asarray(rank, np.int32) for rank in ranks]

    def set_bit(number: jax.Array, found: Arrays) -> Arrays:
        bit = jnp.asarray(bits - 1 - number, keys.dtype)
        # The highest bit, which all numbers start with, is cleared: the lowest number becomes 0.
        candidates = [each ^ lax.shift_left(np.array(1, keys.dtype)[()], bit) for each in found]

        def count_below(below: Arrays, cells: Arrays, _: Any) -> Arrays:
            return tuple(
                count + (cells[0] < bound).astype(np.int32) for count, bound in zip(below, candidates, strict=True)
            )

        start = tuple(jnp.zeros(each.shape, np.int32) for each in found)
        below = fold_offsets(count_below, start, (keys,), window, most_in_block)
        return tuple(
            jnp.where(count <= rank, candidate, each)
            for count, rank, candidate, each in zip(below, wanted, candidates, found, strict=True)
        )

    # Not full_like: inside `jax.shard_map` its type would not vary over devices.
    cells = at_offset(keys, window, (0,) * len(window.axes))
    lowest = (cells ^ cells) | np.array(np.iinfo(keys.dtype).min, keys.dtype)[()]
    found = lax.fori_loop(0, bits, set_bit, (lowest,) * len(wanted))
    values = [values_of(each, padded.dtype) for each in found]
    if not jnp.issubdtype(padded.dtype, jnp.floating):
        return values

    def find_nan(is_nan: jax.Array, cells: Arrays, _: Any) -> jax.Array:
        return is_nan | (cells[0] != cells[0])

    is_nan = zeros_after(values[0].shape, bool, window, *values)
    is_nan = fold_offsets(find_nan, is_nan, (padded,), window, most_in_block)
    return [jnp.where(is_nan, np.array(np.nan, padded.dtype)[()], each) for each in values]


def descending_keys(array: jax.Array) -> jax.Array:
    """Keys in the opposite order: NaN comes first, whatever its sign, and 0 just before -0."""
    if jnp.issubdtype(array.dtype, jnp.floating):
        array = jnp.where(array != array, np.array(np.nan, array.dtype)[()], array)
    return ~keys_of(array)


def values_of_descending(keys: jax.Array, dtype: np.dtype) -> jax.Array:
    """The values that have these keys in the opposite order."""
    return values_of(~keys, dtype)
