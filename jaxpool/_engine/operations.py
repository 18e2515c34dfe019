"""The operations that reduce windows: their identities, the dtype of sums, padding, and axes as stretches of cells."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from jaxpool._engine.calls import by_platform
from jaxpool._engine.stages import private_copy

Arrays = tuple[jax.Array, ...]
Operation = Callable[[jax.Array, jax.Array], jax.Array]


def identity(op: Operation, dtype: Any) -> Any:
    """The identity element of `op`: 0 for `lax.add`, the lowest value for `lax.max`, the highest for `lax.min`."""
    if op is lax.add:
        return np.array(0, dtype)[()]
    if op not in (lax.max, lax.min):
        raise NotImplementedError(f"no identity is known for {op}")
    lowest = op is lax.max
    if dtype == np.bool_:
        return np.bool_(not lowest)
    if jnp.issubdtype(dtype, jnp.integer):
        limits = jnp.iinfo(dtype)
        return np.array(limits.min if lowest else limits.max, dtype)[()]
    return np.array(-np.inf if lowest else np.inf, dtype)[()]


def combine(op: Operation, arrays: Sequence[jax.Array]) -> jax.Array:
    """Combine arrays elementwise by `op`, in pairs, so that the rounding of a sum grows slowly with their number."""
    while len(arrays) > 1:
        pairs = [op(first, second) for first, second in zip(arrays[::2], arrays[1::2], strict=False)]
        arrays = [*pairs, *arrays[2 * len(pairs) :]]
    return arrays[0]


def accumulation_dtype(dtype: Any) -> np.dtype:
    """The dtype in which values of `dtype` are summed: float32 for the 16-bit floats, the dtype itself otherwise."""
    return np.dtype(np.float32) if dtype in (jnp.bfloat16, jnp.float16) else np.dtype(dtype)


def divided(array: jax.Array, divisor: float) -> jax.Array:
    """The array divided by a number."""
    return array if divisor == 1 else array / np.array(divisor, array.dtype)[()]


def in_integer_order(bits: jax.Array) -> jax.Array:
    """The bits of floats as integers in the same order, and back: those of negative floats count downwards."""
    return jnp.where(bits < 0, bits ^ np.array(np.iinfo(bits.dtype).max, bits.dtype)[()], bits)


def pad(array: jax.Array, widths: Mapping[int, tuple[int, ...]], fill: Any) -> jax.Array:
    """Extend axes by cells that hold `fill`, below, above and, if there is a third width, between any two cells.

    Where a width is negative the axis is cropped.
    """
    given = [(*widths.get(axis, ()), 0, 0, 0) for axis in range(array.ndim)]
    config = [(below, above, between) for below, above, between, *_ in given]
    if all(entry == (0, 0, 0) for entry in config):
        return array
    fill = np.array(fill, array.dtype)[()]
    return by_platform(
        array, **dict.fromkeys(("cpu", "gpu"), lambda array: lax.pad(private_copy(array, fill), fill, config))
    )


def split_axis(array: jax.Array, axis: int, length: int) -> jax.Array:
    """Split an axis into one of stretches and one of the `length` entries in each."""
    shape = array.shape
    return array.reshape(*shape[:axis], shape[axis] // length, length, *shape[axis + 1 :])


def merge_axis(array: jax.Array, axis: int) -> jax.Array:
    """Merge an axis with the one behind it: the inverse of `split_axis`."""
    return lax.collapse(array, axis, axis + 2)


@custom_vmap
def any_in_batch(condition: jax.Array) -> jax.Array:
    """The condition; for a batch, whether it holds anywhere in it: one answer, for which one branch is taken."""
    return condition


@any_in_batch.def_vmap
def _any_in_batch(size: int, batched: Any, condition: jax.Array) -> tuple[jax.Array, bool]:
    return any_in_batch(condition.any(0)), False
