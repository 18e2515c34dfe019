"""What everything else is written in: operations with their identities, padding, and axes cut, merged and numbered.

Row-major numbers are one integer for an index along each of several axes, the last of which varies fastest. An offset
in a window, a position in an array and a place in a block are numbered so. The size of the first axis is never needed.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from jaxpool._jax.primitives import by_platform
from jaxpool._jax.stages import private_copy

Arrays = tuple[jax.Array, ...]
# Arrays, each with its value outside.
Filled = Sequence[tuple[jax.Array, Any]]
Operation = Callable[[jax.Array, jax.Array], jax.Array]


def identity(op: Operation, dtype: Any) -> Any:
    """The identity element of `op`: 0 for `lax.add`, the lowest value for `lax.max`, the highest for `lax.min`."""
    if op is lax.add:
        return np.array(0, dtype)[()]
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


def reduction_dtype(op: Operation, dtype: Any) -> np.dtype:
    """The dtype of reductions of such cells by `op`: that of their sums for `lax.add`, else their own."""
    return accumulation_dtype(dtype) if op is lax.add else np.dtype(dtype)


def is_infinite(array: jax.Array) -> jax.Array:
    """Which entries are ∞ or -∞; without the function call of `jnp.isinf`, for which converters have no rule."""
    return jnp.abs(array) == jnp.inf


def divided(array: jax.Array, divisor: float) -> jax.Array:
    """The array divided by a number."""
    return array if divisor == 1 else array / np.array(divisor, array.dtype)[()]


def in_range(number: float, dtype: Any) -> float:
    """The number, or the nearest normal number of a dtype of floats; 0 stays."""
    limits = jnp.finfo(dtype)
    magnitude = min(max(abs(number), float(limits.tiny)), float(limits.max))
    return math.copysign(magnitude, number) if number else number


def keys_of(array: jax.Array) -> jax.Array:
    """Signed integers in the order of the values: NaN may be anywhere, and -0 is just below 0."""
    if array.dtype == np.bool_:
        return array.astype(np.int8)
    numbers = lax.bitcast_convert_type(array, _signed(array.dtype))
    if jnp.issubdtype(array.dtype, jnp.floating):
        return _in_integer_order(numbers)
    return numbers ^ _lowest_if_unsigned(array.dtype)


def values_of(keys: jax.Array, dtype: np.dtype) -> jax.Array:
    """The values that have these keys."""
    if dtype == np.bool_:
        return keys.astype(np.bool_)
    numbers = _in_integer_order(keys) if jnp.issubdtype(dtype, jnp.floating) else keys ^ _lowest_if_unsigned(dtype)
    return lax.bitcast_convert_type(numbers, dtype)


def _lowest_if_unsigned(dtype: np.dtype) -> Any:
    """What turns the bits of an unsigned integer into those of a signed one in the same order; 0 for signed ones."""
    signed = _signed(dtype)
    return np.array(np.iinfo(signed).min if jnp.issubdtype(dtype, jnp.unsignedinteger) else 0, signed)[()]


def _signed(dtype: np.dtype) -> np.dtype:
    """The signed integers of the same size."""
    return np.dtype(f"int{8 * dtype.itemsize}")


def _in_integer_order(bits: jax.Array) -> jax.Array:
    """The bits of floats as integers in the same order, and back: those of negative floats count downwards."""
    return jnp.where(bits < 0, bits ^ np.array(np.iinfo(bits.dtype).max, bits.dtype)[()], bits)


def pad(array: jax.Array, widths: Mapping[int, tuple[int, ...]], fill: Any) -> jax.Array:
    """Extend axes by cells that hold `fill`: below, above and, with a third width, between any two; crop below 0."""
    given = [(*widths.get(axis, ()), 0, 0, 0) for axis in range(array.ndim)]
    config = [(below, above, between) for below, above, between, *_ in given]
    if all(entry == (0, 0, 0) for entry in config):
        return array
    fill = np.array(fill, array.dtype)[()]
    return by_platform(array, gpu=lambda array: lax.pad(private_copy(array, fill), fill, config))


def split_axis(array: jax.Array, axis: int, length: int) -> jax.Array:
    """Split an axis into one of stretches and one of the `length` entries in each."""
    shape = array.shape
    return array.reshape(*shape[:axis], shape[axis] // length, length, *shape[axis + 1 :])


def merge_axis(array: jax.Array, axis: int) -> jax.Array:
    """Merge an axis with the one behind it: the inverse of `split_axis`."""
    return lax.collapse(array, axis, axis + 2)


def encode(indices: Iterable[Any], inner: Sequence[int]) -> Any:
    """The number of the entry at these indices, in the dtype of the last; `inner` are all sizes but the first."""
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


def if_all(conditions: jax.Array, usual: Callable[..., Any], rare: Callable[..., Any], *arrays: Any) -> Any:
    """The function `usual` of the arrays if all conditions hold, else `rare`: one of them for a whole batch."""
    return lax.cond(_all_in_batch(conditions.all()), usual, rare, *arrays)


@custom_vmap
def _all_in_batch(condition: jax.Array) -> jax.Array:
    """The condition; for a batch, whether it holds everywhere in it."""
    return condition


@_all_in_batch.def_vmap
def _of_batch(size: int, batched: Any, condition: jax.Array) -> tuple[jax.Array, bool]:
    return _all_in_batch(condition.all(0)), False
