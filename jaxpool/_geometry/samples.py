"""The random part of fractional pooling: one sample per line of cells, drawn or given, and where the windows start."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._arguments import check_is_array, check_key
from jaxpool._engine.operations import accumulation_dtype
from jaxpool._geometry.window import WindowAxis


def make_samples(function: str, x: jax.Array, axes: Sequence[int], key: Any, samples: Any) -> jax.Array:
    """The samples that are given, or those that the key gives: one for each entry of the other axes and each in `axes`.

    Raise where it is not one of the two, or not a right one.
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
    check_is_array(function, "samples", samples)
    if not jnp.issubdtype(samples.dtype, jnp.floating):
        raise TypeError(f"{function}: samples must be floats in [0, 1), got dtype {samples.dtype}")
    if samples.shape != shape:
        raise ValueError(
            f"{function}: samples of shape {samples.shape} do not go with x {x.shape} pooled along {tuple(axes)}; "
            f"give the shape {shape}, the sizes of the other axes and one entry per pooled axis"
        )
    samples = jnp.asarray(samples)
    return samples.astype(accumulation_dtype(samples.dtype))


def window_starts(samples: jax.Array, axis: WindowAxis, count: int) -> jax.Array:
    """The first cells of `count` windows along an axis, ascending, no two equal, for samples of size 1 along it.

    The last window ends with the axis, and those before it start at ⌊(i + u)·α⌋ - ⌊u·α⌋ with α = (n - k)/(m - 1) ≥ 1,
    computed in the dtype of the samples, whose rounding decides where a product falls beside an integer.
    """
    room = axis.size - axis.kernel
    shape = [count if a == axis.axis else 1 for a in range(samples.ndim)]
    numbers = np.arange(count, dtype=np.int32).reshape(shape)
    starts = jnp.full(jnp.broadcast_shapes(samples.shape, numbers.shape), room, np.int32)
    if count > 1:
        alpha = samples.dtype.type(room) / samples.dtype.type(count - 1)
        steps = (samples + numbers.astype(samples.dtype)) * alpha
        starts = jnp.where(numbers < count - 1, steps.astype(np.int32) - (samples * alpha).astype(np.int32), starts)
    # True of every sample in [0, 1), but for rounding on axes of thousands of cells; made true of whatever is given.
    return lax.cummax(jnp.clip(starts - numbers, 0, room - count + 1), axis.axis) + numbers
