"""What keeps compilers from fusing, moving or confusing steps of a program: a remedy for each trap.

The CPU compiler fuses elementwise operations, padding and slicing into every consumer. A chain of windowed steps then
becomes one loop that evaluates the first step again for each cell of the last one, with a branch for each cell of
padding. A barrier ends a loop there. On GPUs and TPUs every barrier is a kernel.

=============  ======================================================  =====================================  =========
remedy         trap: symptom                                           time with it / without, or its effect  compilers
=============  ======================================================  =====================================  =========
materialize    steps are one loop: each again for every reader         max gradients of 3×3/1 0.14 to 0.42    CPU
  of a source  each slice that a loop reads computes it again          2×2/1 maxima behind a gelu 0.1         CPU
  with others  a pad moves ahead of other work: memory is full longer  one padded array at a time             CPU
in_one_row     rows do not fill vectors: their ends go cell by cell    cubic norms 0.4, mellowmax 0.3         CPU
private_copy   pads of one sharded array are confused: wrong numbers   right numbers                          all
separate_term  a·c + b·c becomes (a + b)·c: overflow                   overflow only where a term has one     all
=============  ======================================================  =====================================  =========

Figures are for JAX 0.12.0.1; before jaxlib 0.11.2 the CPU compiler drops barriers, and programs are slower.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._jax.platforms import in_no_mesh, is_portable, known_platform, on_one_device
from jaxpool._jax.primitives import available, by_platform


def stage(step: Callable[..., Any], *arrays: Any) -> Any:
    """Evaluate `step(*arrays)` as a separate stage: neither its inputs nor its consumers are fused into it.

    Its floats wait for its integers: otherwise padding of cotangents would fill memory long before it is needed.
    """
    leaves, structure = jax.tree.flatten(arrays)
    numbers = [leaf for leaf in leaves if not jnp.issubdtype(leaf.dtype, jnp.inexact)]
    finished = [materialize(leaf, *(numbers if jnp.issubdtype(leaf.dtype, jnp.inexact) else ())) for leaf in leaves]
    return jax.tree.map(materialize, step(*jax.tree.unflatten(structure, finished)))


def materialize(array: Any, *others: jax.Array) -> Any:
    """On a CPU, have the array and the others, which do not depend on it, in memory before anything reads it."""
    # Constants are in memory.
    if not isinstance(array, jax.Array) or not available():
        return array
    return by_platform((array, *others), cpu=_in_memory, gpu=lambda arrays: arrays[0], like=array)


def _in_memory(arrays: Sequence[jax.Array]) -> jax.Array:
    return lax.optimization_barrier(tuple(arrays))[0]


def in_one_row(function: Callable[..., Any], *arrays: jax.Array) -> Any:
    """Evaluate an elementwise function of arrays in memory: as long rows if theirs do not fill vectors.

    On a CPU exponentials, logarithms and powers are computed in vectors, but cell by cell at the end of a row, and of
    cells that are read with a stride. Arrays in a mesh stay as they are, as a reshape might have to gather them.
    """
    shape = jnp.broadcast_shapes(*(array.shape for array in arrays))
    if not (known_platform() == "cpu" and on_one_device() and in_no_mesh(*arrays)):
        return function(*arrays)
    arrays = tuple(map(materialize, arrays))
    if not shape or 0 in shape or shape[-1] % 8 == 0:
        return function(*arrays)
    # The axes along which an array that is a number in each row varies.
    smaller = [array.shape for array in arrays if array.shape != shape]
    kept = max((axis + 1 for each in smaller for axis, size in enumerate(each) if size != 1), default=0) % len(shape)

    def rows(array: jax.Array) -> jax.Array:
        if math.prod(array.shape[kept:]) != 1:
            array = jnp.broadcast_to(array, shape)
        return array.reshape(*array.shape[:kept], -1)

    # After the reshape too, so that results share work.
    results = function(*(materialize(rows(array)) for array in arrays))
    return jax.tree.map(lambda result: materialize(result).reshape(shape), results)


def private_copy(array: jax.Array, fill: Any) -> jax.Array:
    """A private copy of the array: all padding by `fill` reads its operand through one; on one device the array itself.

    Along a sharded, padded axis the compiler reuses what it fetched from the neighbours for the next consumer with the
    same operand and window. That already includes the padding, whose value the compiler ignores: a sum would read the
    -inf that pads the cells for a maximum. A barrier ends a kernel, so off the CPU the array itself is enough if `fill`
    is a finite float, of which no array gets two. For ∓inf floats are rounded to more bits than they have instead, not
    to as many for inf as for -inf. Other dtypes need a barrier if `fill` is not 0.
    """
    if on_one_device():
        return array
    if known_platform() == "cpu":
        return lax.optimization_barrier(array)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return lax.optimization_barrier(array) if fill else array
    return _rounded_to_more_bits(array, 1 if fill < 0 else 2) if np.isinf(fill) else array


def separate_term(product: jax.Array) -> jax.Array:
    """The same product, kept separate: a·c + b·c, rewritten as (a + b)·c, may overflow where no term does."""
    return product if is_portable() else _rounded_to_more_bits(product, 1)


def _rounded_to_more_bits(array: jax.Array, bits: int) -> jax.Array:
    """The same floats, rounded to more bits than they have: to as many would be removed for GPUs."""
    # Of float64 it is not implemented for TPUs.
    if array.dtype.itemsize == 8 and known_platform() != "gpu":
        return lax.optimization_barrier(array)
    limits = jnp.finfo(array.dtype)
    return lax.reduce_precision(array, limits.nexp, limits.nmant + bits)
