"""The operations that reduce windows: their identities, the dtype in which sums are kept, and padding."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from jaxpool._engine import primitives
from jaxpool._engine.lowerings import by_platform
from jaxpool._engine.platforms import is_portable, known_platform, may_be_cpu, on_one_device

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


def computed_once(array: jax.Array) -> jax.Array:
    """The same floats; on the CPU divided by 1, or by themselves if NaN. For primal values, not tangents.

    The CPU compiler fuses cheap operations into every consumer and so repeats them for each, even if a broadcast makes
    for many. It treats a division as expensive and computes it once.
    """
    if known_platform() != "cpu" or not jnp.issubdtype(array.dtype, jnp.floating):
        return array
    return array / jnp.where(array != array, array, jnp.ones_like(array))


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


def barrier(array: Any) -> Any:
    """On the CPU, a barrier for the compiler's simplifier; elsewhere nothing, as a barrier would end a kernel."""
    return lax.optimization_barrier(array) if may_be_cpu() else array


def separate_term(product: jax.Array) -> jax.Array:
    """The same product, kept separate from the others that it is added to.

    Compilers rewrite a·c + b·c, for a power of two c, as (a + b)·c, whose sum may overflow where no term does.
    """
    if is_portable():
        return product
    limits = jnp.finfo(product.dtype)
    return lax.reduce_precision(product, limits.nexp, limits.nmant)


def private_copy(array: jax.Array, fill: Any) -> jax.Array:
    """A private copy of the array: all padding by `fill` reads its operand through one; on one device the array itself.

    Along a sharded, padded axis the compiler reuses what it fetched from the neighbours for the next consumer with the
    same operand and window. That already includes the padding, whose value the compiler ignores: a sum would read the
    -inf that pads the cells for a maximum. A barrier ends a kernel, so off the CPU the array itself is enough if `fill`
    is a finite float, of which no array gets two. For ∓inf floats are rounded to their own precision instead, once for
    -inf and twice for inf. Other dtypes need a barrier if `fill` is not 0.
    """
    if on_one_device():
        return array
    if may_be_cpu():
        return lax.optimization_barrier(array)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return lax.optimization_barrier(array) if fill else array
    limits = jnp.finfo(array.dtype)
    for _ in range(0 if not np.isinf(fill) else 1 if fill < 0 else 2):
        array = lax.reduce_precision(array, limits.nexp, limits.nmant)
    return array


@custom_vmap
def any_in_batch(condition: jax.Array) -> jax.Array:
    """The condition; for a batch, whether it holds anywhere in it: one answer, for which one branch is taken."""
    return condition


@any_in_batch.def_vmap
def _any_in_batch(size: int, batched: Any, condition: jax.Array) -> tuple[jax.Array, bool]:
    return any_in_batch(condition.any(0)), False


def constant(table: Any) -> Any:
    """Make a table an array of the program that is not kept as a residual; anything but a table is unchanged."""
    if not isinstance(table, np.ndarray):
        return table
    if is_portable() or not primitives.AVAILABLE:
        return jnp.asarray(table)
    made = _Constant(table.dtype.name, table.shape, table.tobytes())
    return made.bind(types=[jax.typeof(table)])[0]


@dataclass(frozen=True)
class _Constant(primitives.CustomPrimitive, name="constant"):
    dtype: str
    shape: tuple[int, ...]
    values: bytes

    def evaluate(self, platform: str, *arrays: Any) -> list[jax.Array]:
        return [jnp.asarray(np.frombuffer(self.values, self.dtype).reshape(self.shape))]
