"""What keeps compilers from fusing, repeating, moving or confusing the steps of a program: a remedy for each trap.

The CPU compiler fuses elementwise operations, padding and slicing into every consumer, and until 0.11.2 even across
optimization barriers. A chain of windowed steps then becomes one loop that evaluates the first step again for each cell
of the last one, with a branch for each cell of padding. A call that the compiler may not inline ends a loop: the calls
here return their argument and copy nothing. On GPUs and TPUs a barrier ends a kernel, and the cost of calls is not
known, so there only remedies for wrong results act. Figures are times with the remedy over times without it, on JAX
0.12.0.1 unless another version is named; benchmarks/README.md has more of them.

| trap and symptom | remedy | figure | compilers |
|---|---|---|---|
| a step is evaluated again for every cell that reads it | `stage` | 3×3/1 max gradients 0.14 to 0.42; 0.19 on 0.10.2 | CPU |
| the same for a result that two loops read | `materialize` | 7×7/7 max gradients 0.08 to 0.1 | CPU |
| an array is padded long before it is read, and fills memory until then | `materialize` with others | memory | CPU |
| what two steps compute from one array is kept in memory for both | `marked`, `stage` with a mark | 31×31 soft mean gradients 0.15, with a fifth of the memory | CPU |
| tables and masks are moved out of a loop, and read where they cost nothing | `as_call` | exact smooth maxima 0.3 | CPU |
| functions are evaluated cell by cell at the ends of rows, and of strided cells | `in_one_row` | cubic norms 0.4, mellowmax 0.3 | CPU |
| the simplifier merges a pad with the slices that read it | `barrier` | REPLACE | CPU |
| cheap steps are repeated for each reader, even those of a broadcast | `computed_once` | REPLACE | CPU |
| two paddings of one sharded array share what was fetched for one of them | `private_copy` | wrong results | all, several devices |
| a·c + b·c becomes (a + b)·c, which overflows where no term does | `separate_term` | wrong results | all |
| tables made of iotas are kernels of their own, and arrays become residuals | `constant`, `numbers_along` | 3 to 7 kernels fewer | GPU |
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.platforms import is_portable, known_platform, may_be_cpu, on_one_cpu, on_one_device
from jaxpool._engine.primitives import available, call


def stage(step: Callable[..., Any], *arrays: Any, mark: str | None = None) -> Any:
    """Evaluate `step(*arrays)` as a separate stage: neither its inputs nor its consumers are fused into it.

    Its floats, often cotangents, wait for its integers, often offsets: otherwise padding would fill memory long before
    it is needed. Stages with different marks share nothing: otherwise the compiler would keep in memory what two of
    them compute from the same arrays.
    """
    if not may_be_cpu():
        return step(*arrays)
    leaves, structure = jax.tree.flatten(arrays)
    marks = [] if mark is None else [_number(mark)]
    numbers = [leaf for leaf in leaves if not jnp.issubdtype(leaf.dtype, jnp.inexact)]
    finished = [
        materialize(leaf, *(numbers if jnp.issubdtype(leaf.dtype, jnp.inexact) else ()), *marks) for leaf in leaves
    ]
    return jax.tree.map(materialize, step(*jax.tree.unflatten(structure, finished)))


def materialize(array: jax.Array, *others: jax.Array) -> jax.Array:
    """Materialize the array, together with the others, which do not depend on it, before anything reads it."""
    if not (available() and may_be_cpu()):
        return array
    return call(_first, array, *others, like=array, transposed=_first, others_vary=False, apart=True)


def _first(platform: str, array: jax.Array, *others: jax.Array) -> jax.Array:
    return array


def marked(array: jax.Array, mark: str) -> jax.Array:
    """Materialize the array under a mark: results computed from it are not shared with those under another mark."""
    return materialize(array, _number(mark))


def as_call(step: Callable[..., Any], *arrays: jax.Array) -> Any:
    """Evaluate `step(*arrays)` as a call on a CPU: nothing in it moves out of it.

    From the body of a loop the compiler would move tables and masks, and then read them from memory where they cost
    nothing to compute.
    """
    if not (available() and may_be_cpu()):
        return step(*arrays)
    return call(lambda platform, *arrays: step(*arrays), *arrays, apart=True)


def in_one_row(function: Callable[..., Any], *arrays: jax.Array) -> Any:
    """Evaluate an elementwise function of arrays of one shape in memory: as one long row if rows do not fill vectors.

    On a CPU exponentials, logarithms and powers are computed in vectors, but cell by cell at the end of a row, and of
    cells that are read with a stride. Arrays in a mesh stay as they are, as a reshape might have to gather them.
    """
    (shape,) = {array.shape for array in arrays}
    if not on_one_cpu(*arrays):
        return function(*arrays)
    arrays = tuple(map(materialize, arrays))
    if not shape or shape[-1] % 8 == 0:
        return function(*arrays)
    # After the reshape too, so that results share work.
    results = function(*(materialize(array.reshape(-1)) for array in arrays))
    return jax.tree.map(lambda result: materialize(result).reshape(shape), results)


def _number(mark: str) -> jax.Array:
    return jnp.int32(zlib.crc32(mark.encode()) % 2**31)


def barrier(array: Any) -> Any:
    """On the CPU, a barrier for the compiler's simplifier; elsewhere nothing, as a barrier would end a kernel."""
    return lax.optimization_barrier(array) if may_be_cpu() else array


def computed_once(array: jax.Array) -> jax.Array:
    """The same floats; on the CPU divided by 1, or by themselves if NaN. For primal values, not tangents.

    The CPU compiler fuses cheap operations into every consumer and so repeats them for each, even if a broadcast makes
    for many. It treats a division as expensive and computes it once.
    """
    if known_platform() != "cpu" or not jnp.issubdtype(array.dtype, jnp.floating):
        return array
    return array / jnp.where(array != array, array, jnp.ones_like(array))


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


def separate_term(product: jax.Array) -> jax.Array:
    """The same product, kept separate from the others that it is added to.

    Compilers rewrite a·c + b·c, for a power of two c, as (a + b)·c, whose sum may overflow where no term does.
    """
    if is_portable():
        return product
    limits = jnp.finfo(product.dtype)
    return lax.reduce_precision(product, limits.nexp, limits.nmant)


def constant(table: Any) -> Any:
    """Make a table an array of the program that is not kept as a residual; anything but a table is unchanged."""
    if not isinstance(table, np.ndarray):
        return table
    if not available():
        return jnp.asarray(table)
    return call(_Table(table.dtype.name, table.shape, table.tobytes()), None, like=jax.typeof(table))


@dataclass(frozen=True)
class _Table:
    dtype: str
    shape: tuple[int, ...]
    values: bytes

    def __call__(self, platform: str, _: None) -> jax.Array:
        return jnp.asarray(np.frombuffer(self.values, self.dtype).reshape(self.shape))


def numbers_along(shape: Sequence[int], axis: int) -> Any:
    """The int32 numbers 0, 1, … along an axis: an iota if it may be a CPU or the axis is long, else a table.

    On GPUs an iota, with everything computed from it, becomes a separate kernel.
    """
    if may_be_cpu() or shape[axis] > 64:
        return lax.broadcasted_iota(np.int32, shape, axis)
    return np.arange(shape[axis], dtype=np.int32).reshape([-1 if n == axis else 1 for n in range(len(shape))])
