"""The way back from a max pool: values return to the cells that they came from."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arguments import check_array, check_indices
from jaxpool._geometry.sizes import Sizes, axes_and_sizes
from jaxpool._geometry.window import check_pooled_axis
from jaxpool._sharding import evaluate


def max_unpool(values: ArrayLike, indices: ArrayLike, output_size: Sizes, *, axis: Sizes | None = None) -> jax.Array:
    """Zeros, but for the values at the cells that the indices name.

    Formula: x[c] = values[o] for the last o, in row-major order, with indices[o] = c, and 0 where there is none. It
    undoes `max_pool_with_indices` at the winners, exactly where windows share no cells.

    Args:
        values: Array of any shape; bool, integers, float16, bfloat16, float32, float64, complex64 or complex128.
        indices: Integers of the same shape: row-major positions in the pooled axes of the output, as
            `max_pool_with_indices` gives them. One below 0 or beyond the end writes nothing.
        output_size: Size of each pooled axis of the output. Its length says how many axes are pooled: the last ones,
            or those that `axis` names. An int is for every axis in `axis`.
            Not all of x.shape, unless all axes were pooled.
        axis: The pooled axes, in the order of the entries of `output_size`; the last ones if None.

    Returns:
        Array of the dtype of `values`, in which every pooled axis has the size that `output_size` says.

    Raises:
        TypeError: `values` is no array, `indices` no array of integers, or a size is no int.
        ValueError: The two have different shapes, sizes do not fit the axes, or the output holds more cells than int32
            can number.

    Derivative:
        ∂x[c]/∂values[o] = 1 where o is written to c, 0 elsewhere; all higher derivatives are 0, and there is none with
        respect to the indices. Ties: where several name one cell, the last one in row-major order has it, in value and
        derivative, on every device. Zeros, NaN and infinities are nothing special. Empty windows, index -1, have no
        part in it.

    Example:
        >>> x = jnp.array([3.0, 1.0, 2.0, 5.0])
        >>> values, indices = jaxpool.max_pool_with_indices(x, (2,))
        >>> jaxpool.max_unpool(values, indices, (4,))
        Array([3., 0., 0., 5.], dtype=float32)

    Source: Zeiler and Fergus, "Visualizing and understanding convolutional networks", ECCV 2014.
    """
    function = "max_unpool"
    array = check_array(function, values, "values", complex_allowed=True)
    positions = check_indices(function, indices, array.shape)
    axes, sizes = axes_and_sizes(function, array.shape, "output_size", output_size, axis, "values")
    for a in axes:
        check_pooled_axis(function, a, array.shape[a])
    cells = math.prod(sizes) + math.prod(array.shape[a] for a in axes)
    if cells > 2**31 - 1:
        raise ValueError(
            f"{function}: output_size {sizes} and the values {array.shape} hold {cells} cells, but int32 indices "
            f"number 2147483647 at most; unpool the array in parts"
        )
    axes, sizes = zip(*sorted(zip(axes, sizes, strict=True)), strict=True)
    shape = list(array.shape)
    for a, size in zip(axes, sizes, strict=True):
        shape[a] = size
    return evaluate(lambda *arrays: _unpool(*arrays, axes, sizes), (array, positions), axes, shape)


# Notation: c(o) the cell that output o names; o is *written* where no later o' has c(o') = c(o). The bar marks a
# cotangent, the dot a tangent.
#
#     x(c) = values(o), o written, c(o) = c        ẋ(c) = values_dot(o)        values_bar(o) = x̄(c(o)) if o is written
#
# Which ones are written depends on integers alone: the largest number that reaches each cell, a maximum, which comes
# out the same in any order. The others are then sent beyond the end, each to a place of its own, so that no two
# write to one place: what remains is linear, and JAX's own derivatives of it are the formulas above, a scatter to
# different places one way and a gather the other, at every order.


@partial(jax.jit, static_argnums=(2, 3))
def _unpool(values: jax.Array, positions: jax.Array, axes: tuple[int, ...], sizes: tuple[int, ...]) -> jax.Array:
    def write(values: jax.Array, positions: jax.Array) -> jax.Array:
        return _write_last(values, positions, math.prod(sizes))

    for _ in range(values.ndim - len(axes)):
        write = jax.vmap(write)
    last = range(values.ndim - len(axes), values.ndim)
    written = write(*(_flatten_last(jnp.moveaxis(array, axes, last), len(axes)) for array in (values, positions)))
    return jnp.moveaxis(written.reshape(*written.shape[:-1], *sizes), last, axes)


def _flatten_last(array: jax.Array, count: int) -> jax.Array:
    for _ in range(count - 1):
        array = lax.collapse(array, array.ndim - 2, array.ndim)
    return array


def _write_last(values: jax.Array, positions: jax.Array, cells: int) -> jax.Array:
    """Write values of one axis into a line of cells; of several for one cell the last one."""
    numbers = np.arange(values.size, dtype=np.int32)
    if jnp.iinfo(positions.dtype).bits < 32:
        positions = positions.astype(np.int32)  # the number of cells may be too large for the dtype
    inside = (positions >= 0) & (positions < cells)
    places = jnp.where(inside, positions, cells).astype(np.int32)
    last = jnp.full(cells, -1, np.int32).at[places].max(numbers, mode="drop")
    written = last.at[places].get(mode="fill", fill_value=-1) == numbers
    places = jnp.where(written, places, cells + numbers)
    return jnp.zeros(cells, values.dtype).at[places].set(values, mode="drop", unique_indices=True)
