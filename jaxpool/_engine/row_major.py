"""Row-major numbers: one integer for an index along each of several axes, the last of which varies fastest.

An offset in a window, a position in an array and a place in a block are all numbered in this way. The size of the first
axis is never needed.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def encode(indices: Iterable[Any], inner: Sequence[int]) -> Any:
    """The number of the entry with an index along each axis; `inner` are the sizes of all axes but the first.

    It has the dtype of the last index, which holds all numbers.
    """
    number, *others = indices
    for index, size in zip(others, inner, strict=True):
        # A size that the dtype does not hold only meets the number 0.
        number = number.astype(index.dtype) * np.asarray(size).astype(index.dtype)[()] + index
    return number


def decode(number: jax.Array, inner: Sequence[int]) -> list[jax.Array]:
    """The index along each axis of the entry with this number."""
    indices = []
    for size in reversed(inner):
        if size > jnp.iinfo(number.dtype).max:
            index, number = number, jnp.zeros_like(number)
        else:
            divisor = np.array(size, number.dtype)[()]
            index, number = lax.rem(number, divisor), lax.div(number, divisor)
        indices.append(index)
    return [number, *reversed(indices)]


def numbers_of(shape: Sequence[int], axes: Sequence[int], dtype: Any) -> jax.Array:
    """The number of every entry of an array among those along some axes, in a shape that broadcasts against it."""
    iotas = (
        lax.broadcasted_iota(dtype, [size if n == axis else 1 for n, size in enumerate(shape)], axis) for axis in axes
    )
    return encode(iotas, [shape[axis] for axis in axes[1:]])
