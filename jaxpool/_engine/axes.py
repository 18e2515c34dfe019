"""An axis as stretches of equal length: windows that share no cells, strides, periods of bins, shares of devices."""

import jax
from jax import lax


def split_axis(array: jax.Array, axis: int, length: int) -> jax.Array:
    """Split an axis into one of stretches and one of the `length` entries in each."""
    shape = array.shape
    return array.reshape(*shape[:axis], shape[axis] // length, length, *shape[axis + 1 :])


def merge_axis(array: jax.Array, axis: int) -> jax.Array:
    """Merge an axis with the one behind it: the inverse of `split_axis`."""
    return lax.collapse(array, axis, axis + 2)
