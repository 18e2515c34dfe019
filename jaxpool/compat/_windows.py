"""Windows that slide exactly like those of `lax.reduce_window`, on which the frameworks build their pooling.

Frameworks accept windows that hold only padding, windows larger than the array, and negative padding. jaxpool refuses
them, because they are usually mistakes, but a model written for a framework may rely on them. So windows that hold only
padding are separated here: the others go to a function of jaxpool, and the result is surrounded by the framework's
value for an empty window.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxpool
from jaxpool._sizes import check_pooled_axis
from jaxpool._windows.operations import identity


class Windows(NamedTuple):
    """The windows of a call, named in errors. Padding is a word that lax knows, or one (low, high) pair per axis."""

    function: str
    axes: Sequence[int]
    sizes: Sequence[int]
    strides: Sequence[int]
    padding: str | Sequence[tuple[int, int]]


def maxima(x: jax.Array, windows: Windows) -> jax.Array:
    """The largest cell of every window; in one that holds only padding, -inf or the lowest integer."""
    return pool_windows(jaxpool.max_pool, x, windows, identity(lax.max, x.dtype))


def averages(x: jax.Array, windows: Windows, divisor: Any, *, include_pad: bool) -> jax.Array:
    """The average of every window, by division by a `divisor` of this dtype; 0 or NaN if there is only padding."""
    pool = partial(jaxpool.avg_pool, count_include_pad=include_pad)
    return pool_windows(pool, x.astype(quotient_dtype(x, divisor)), windows, 0.0 if include_pad else np.nan)


def pool_windows(pool: Callable[..., jax.Array], x: jax.Array, windows: Windows, empty: Any) -> jax.Array:
    """Pool x by a function of jaxpool; windows that hold only padding get the value `empty`.

    Axes that their windows leave as they are may have symbolic sizes.
    """
    shape, around, pooled_axes, all_empty = list(x.shape), [(0, 0, 0)] * x.ndim, [], False
    for number, (axis, size, stride) in enumerate(zip(windows.axes, windows.sizes, windows.strides, strict=True)):
        cells, padding = x.shape[axis], windows.padding
        # Neither word pads windows of one cell at a stride of 1.
        if size == stride == 1 and (isinstance(padding, str) or padding[number] == (0, 0)):
            continue
        if not isinstance(cells, int):
            check_pooled_axis(windows.function, axis, cells)
        if isinstance(padding, str):
            [(low, high)] = lax.padtype_to_pads((cells,), (size,), (stride,), padding)
        else:
            low, high = padding[number]
        # Negative padding removes the cells before `start` and from `stop` upwards.
        start, stop = max(0, -low), cells - max(0, -high)
        count = max(0, (low + cells + high - size) // stride + 1)
        # Windows before `first` and from `last` upwards hold only padding.
        first = min(count, max(0, (start + low - size) // stride + 1))
        last = max(first, min(count, -(-(stop + low) // stride)))
        shape[axis], around[axis] = count, (first, count - last, 0)
        if start >= stop or first == last:
            all_empty = True
            continue
        begin, end = first * stride - low, (last - 1) * stride - low + size
        if max(start, begin) > 0 or stop < cells:
            x = lax.slice_in_dim(x, max(start, begin), stop, axis=axis)
        pooled_axes.append((axis, size, stride, (max(0, start - begin), max(0, end - stop))))
    if all_empty:
        return jnp.full(shape, empty, x.dtype)
    if not pooled_axes:
        return x
    axes, sizes, strides, paddings = zip(*pooled_axes, strict=True)
    pooled = pool(x, sizes, strides, paddings, axis=axes)
    return lax.pad(pooled, jnp.asarray(empty, pooled.dtype), around) if any(map(any, around)) else pooled


def quotient_dtype(x: jax.Array, divisor: Any) -> Any:
    """The dtype of x divided by a number of dtype `divisor`, by JAX's default promotion."""
    with jax.numpy_dtype_promotion("standard"):
        return jax.eval_shape(jnp.true_divide, *(jax.ShapeDtypeStruct((), one) for one in (x.dtype, divisor))).dtype
