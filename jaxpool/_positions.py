"""Windows at positions that are data: of the windows that start at every cell of an axis, those at given cells.

Each entry of the batch axes has its own positions, which follow from a random number and are strictly ascending. So an
entry of the result goes back to exactly one position, and a position gets at most one entry: the map and its transpose
are both gathers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._arguments import check_key
from jaxpool._arrays import as_array
from jaxpool._derivatives.rules import LinearMap, apply_linear_map
from jaxpool._geometry.window import WindowAxis


def check_samples(function: str, x: jax.Array, axes: Sequence[int], key: Any, samples: Any) -> jax.Array:
    """The given samples, or those drawn with the key: one for each entry of the other axes and each axis in `axes`.

    Raise unless exactly one of the two is given, and valid.
    """
    if (key is None) == (samples is None):
        both = "both" if key is not None else "neither"
        raise ValueError(
            f"{function}: give a key or samples, got {both}; write key=jax.random.key(0), with another number or a key "
            f"of jax.random.split in every call"
        )
    shape = (*(size for axis, size in enumerate(x.shape) if axis not in axes), len(axes))
    if samples is None:
        return jax.random.uniform(
            check_key(function, key), shape, jnp.float64 if x.dtype == jnp.float64 else jnp.float32
        )
    samples = as_array(function, "samples", samples)
    if not jnp.issubdtype(samples.dtype, jnp.floating):
        raise TypeError(f"{function}: samples must be floats in [0, 1), got dtype {samples.dtype}")
    if samples.shape != shape:
        raise ValueError(
            f"{function}: samples of shape {samples.shape} do not match x {x.shape} pooled along {tuple(axes)}; "
            f"give the shape {shape}, the sizes of the other axes and one entry per pooled axis"
        )
    samples = jnp.asarray(samples)
    return samples.astype(np.promote_types(samples.dtype, np.float32))


def window_starts(samples: jax.Array, axis: WindowAxis, count: int) -> jax.Array:
    """The first cells of `count` windows along an axis, strictly ascending, for samples of size 1 along it.

    The last window ends with the axis; those before it start at ⌊(i + u)·α⌋ - ⌊u·α⌋ with α = (n - k)/(m - 1) ≥ 1,
    computed in the dtype of the samples, whose rounding decides for products next to an integer.
    """
    room = axis.size - axis.kernel
    shape = [count if a == axis.axis else 1 for a in range(samples.ndim)]
    numbers = lax.broadcasted_iota(np.int32, shape, axis.axis)
    starts = jnp.full(jnp.broadcast_shapes(samples.shape, numbers.shape), room, np.int32)
    if count > 1:
        alpha = samples.dtype.type(room) / samples.dtype.type(count - 1)
        steps = (samples + numbers.astype(samples.dtype)) * alpha
        starts = jnp.where(numbers < count - 1, steps.astype(np.int32) - (samples * alpha).astype(np.int32), starts)
    # Samples in [0, 1) give such starts, but for rounding on long axes and just below 1; for others this enforces them.
    return lax.cummax(jnp.clip(starts - numbers, 0, room - count + 1), axis.axis) + numbers


def at_positions(array: jax.Array, positions: jax.Array, axis: int, whole: tuple[int, ...]) -> jax.Array:
    """The entries of an array at positions along an axis.

    `positions` has the same rank, size 1 along the axes in `whole`, which share the positions, and one entry along
    `axis` for each result. All positions are on the axis.
    """
    if jnp.issubdtype(array.dtype, jnp.inexact):
        return apply_linear_map(_ReadAtPositions(axis, array.shape[axis], whole), array, positions)
    return _gather(array, positions, axis, whole)


# Notation: entry o of the result is read at position s(o), s ascending; a dot marks a tangent, a bar a cotangent.
#
#     y(o) = x(s(o))        ẏ(o) = ẋ(s(o))        x̄(p) = ȳ(o) where s(o) = p for some o, 0 elsewhere
#
# There is at most one such o: the last with s(o) ≤ p, if any. So the third formula is a gather too: from o if it
# exists, and otherwise from beyond the end, which reads 0. The second is the map itself.


@dataclass(frozen=True)
class _ReadAtPositions(LinearMap):
    axis: int
    size: int
    whole: tuple[int, ...]

    def forward(self, array: jax.Array, positions: jax.Array, /) -> jax.Array:
        return _gather(array, positions, self.axis, self.whole)

    def transpose(self, cotangent: jax.Array, positions: jax.Array, /) -> jax.Array:
        return _gather(cotangent, _sources(positions, self.axis, self.size), self.axis, self.whole)


def _sources(positions: jax.Array, axis: int, size: int) -> jax.Array:
    """The number of the result that is read at each cell of the axis; beyond all results where there is none."""
    count, cells = positions.shape[axis], lax.iota(np.int32, size)
    # Comparing with a few positions is faster than a search, whose reads are scattered.
    method = "compare_all" if count <= 128 else "scan_unrolled"

    @partial(jnp.vectorize, signature="(o)->(p)")
    def sources(positions: jax.Array) -> jax.Array:
        last = jnp.searchsorted(positions, cells, side="right", method=method).astype(np.int32) - 1
        read_here = positions.at[last].get(mode="clip") == cells
        return jnp.where(read_here & (last >= 0), last, count + cells)

    return jnp.moveaxis(sources(jnp.moveaxis(positions, axis, -1)), -1, axis)


def _gather(array: jax.Array, positions: jax.Array, axis: int, whole: tuple[int, ...]) -> jax.Array:
    """Gather at positions along an axis; 0 for positions beyond the end."""
    kept = [a for a in range(array.ndim) if a not in whole]
    batch = [a for a in kept if a != axis]
    dimensions = lax.GatherDimensionNumbers(
        offset_dims=whole,
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=tuple(batch),
        start_indices_batching_dims=tuple(kept.index(a) for a in batch),
    )
    sizes = tuple(array.shape[a] if a in whole else 1 for a in range(array.ndim))
    indices = jnp.expand_dims(positions.squeeze(whole), -1)
    return lax.gather(array, indices, dimensions, sizes, unique_indices=True, mode="fill", fill_value=0)
