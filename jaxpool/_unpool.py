"""The partial inverse of a max pool: values return to the cells that they came from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._checks import check_array, check_indices
from jaxpool._jax.linear_map import LinearMap, apply_linear_map
from jaxpool._sharding import evaluate_sharded
from jaxpool._sizes import Axes, Sizes, axes_and_sizes, check_int32


def max_unpool(values: ArrayLike, indices: ArrayLike, output_size: Sizes, *, axis: Axes | None = None) -> jax.Array:
    """Max unpooling: zeros everywhere except the values, each at its index.

    Formula: x[c] = values[o] for the last o, in row-major order, with indices[o] = c, and 0 where there is none. It
    undoes `max_pool_with_indices` at the winners, exactly where windows share no cells.

    Args:
        values: Array of any shape; bool, integers, float16, bfloat16, float32, float64, complex64 or complex128.
        indices: Integers of the same shape: row-major positions in the pooled axes of the output, as returned by
            `max_pool_with_indices`. An index below 0 or past the end writes nothing.
        output_size: Size of the output, one int per pooled axis: (8, 8) for two axes; all of x.shape only if all axes
            were pooled. It is not the window, which is PyTorch's third argument. A single int applies to every axis in
            `axis`.
        axis: The pooled axes, in the order of `output_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).

    Returns:
        Array of the dtype of `values`; the pooled axes have the sizes in `output_size`.

    Raises:
        TypeError: `values` is not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit `values`, or the output has too many cells for int32.

    Derivative:
        ∂x[c]/∂values[o] = 1 if o is written to c, else 0; higher derivatives are 0, and there is none for the indices.
        Ties: of indices that name one cell, the last in row-major order wins, in value and derivative, on every device.
        Zeros, NaN and infinities are ordinary. Empty windows (index -1) take no part.

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
    _check_sizes(array.shape, axes, sizes, is_named=axis is not None)
    cells = math.prod(sizes) + math.prod(array.shape[a] for a in axes)
    check_int32(function, f"output_size {sizes} and the values {array.shape} hold", cells, "unpool the array in parts")
    axes, sizes = zip(*sorted(zip(axes, sizes, strict=True)), strict=True)
    shape = list(array.shape)
    for a, size in zip(axes, sizes, strict=True):
        shape[a] = size
    return evaluate_sharded(lambda *arrays: _unpool(*arrays, axes, sizes), (array, positions), axes, shape)


def _check_sizes(shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...], *, is_named: bool) -> None:
    """Raise if a size can hardly be one before pooling, as where it is a window, a whole shape or of other axes.

    Where axes are named there may be more values than cells.
    """
    if is_named:
        return
    start = f"max_unpool: output_size {sizes}"
    names = ", ".join(map(str, range(-len(axes), 0)))
    if len(axes) == len(shape) > 2:
        raise ValueError(
            f"{start} has an entry for every axis of values {shape}; give those of the pooled axes alone, or name them "
            f"all, as in axis=({names})"
        )
    if any(size < shape[a] for a, size in zip(axes, sizes, strict=True)):
        raise ValueError(
            f"{start} is smaller than values {shape} along axes {axes}; give the size before pooling, not the window. "
            f"Name the axes where channels are last, as in axis='NHWC', and where there are more windows than cells"
        )


# Notation: c(o) is the cell that output o names, l(c) the last output that names cell c, if any; a dot marks a tangent,
# a bar a cotangent.
#
#     x(c) = values(l(c))        ẋ(c) = values_dot(l(c))        values_bar(o) = x̄(c(o)) if l(c(o)) = o, else 0
#
# Cells without an l(c) are 0. l depends only on integers: it is the largest number that reaches each cell, a maximum,
# the same in any order. So the map and its transpose are both gathers: one at l, the other at c.


# Entries along the last axis; 0 for targets beyond its end.
_read = partial(jnp.take_along_axis, axis=-1, mode="fill", fill_value=0)


@partial(jax.jit, static_argnums=(2, 3))
def _unpool(values: jax.Array, positions: jax.Array, axes: tuple[int, ...], sizes: tuple[int, ...]) -> jax.Array:
    last = range(values.ndim - len(axes), values.ndim)
    if jnp.iinfo(positions.dtype).bits < 32:  # the number of cells may be too large for the dtype
        positions = positions.astype(np.int32)
    lines, targets = (lax.collapse(jnp.moveaxis(array, axes, last), last.start) for array in (values, positions))
    write = _WriteLast(math.prod(sizes))
    is_floating = jnp.issubdtype(values.dtype, jnp.inexact)
    written = apply_linear_map(write, lines, targets) if is_floating else write.forward(lines, targets)
    return jnp.moveaxis(written.reshape(*written.shape[:-1], *sizes), last, axes)


@dataclass(frozen=True)
class _WriteLast(LinearMap):
    """Write values into lines of this many cells along the last axis; of several for one cell, the last one."""

    cells: int

    def forward(self, values: jax.Array, positions: jax.Array, /) -> jax.Array:
        last = self._last(positions)
        return _read(values, jnp.where(last < 0, positions.shape[-1], last))

    def transpose(self, cotangent: jax.Array, positions: jax.Array, /) -> jax.Array:
        # A position beyond the cells reads an end, which it cannot have written.
        targets = jnp.clip(positions, 0, self.cells - 1).astype(np.int32)
        last = jnp.take_along_axis(self._last(positions), targets, -1, mode="clip")
        is_written = last == lax.broadcasted_iota(np.int32, positions.shape, positions.ndim - 1)
        return _read(cotangent, jnp.where(is_written, targets, self.cells))

    def _last(self, positions: jax.Array) -> jax.Array:
        """The largest number along the last axis that reaches each cell; -1 if none does."""
        is_inside = (positions >= 0) & (positions < self.cells)
        targets = jnp.where(is_inside, positions, self.cells).astype(np.int32)

        @partial(jnp.vectorize, signature="(o)->(c)")
        def last(targets: jax.Array) -> jax.Array:
            numbers = lax.iota(np.int32, targets.size)
            return jnp.full(self.cells, -1, np.int32).at[targets].max(numbers, mode="drop")

        return last(targets)
