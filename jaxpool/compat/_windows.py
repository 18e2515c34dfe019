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
from jaxpool._engine.operations import identity
from jaxpool._sizes import check_pooled_axis


class Along(NamedTuple):
    """The windows along one axis. Negative padding removes cells."""

    axis: int
    window: int
    stride: int
    low: int
    high: int


class _Split(NamedTuple):
    """The windows along one axis that hold a cell, and how many before and after them hold only padding."""

    start: int
    stop: int
    low: int
    high: int
    before: int
    inside: int
    after: int


def along_axes(
    function: str,
    shape: Sequence[int],
    axes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
) -> list[Along]:
    """The windows along every axis that they change; the other axes may have symbolic sizes.

    `padding` is a word that lax knows or one (low, high) pair per axis.
    """
    along = []
    for number, (axis, size, stride) in enumerate(zip(axes, window, strides, strict=True)):
        # Neither word pads windows of one cell at a stride of 1.
        if size == stride == 1 and (isinstance(padding, str) or padding[number] == (0, 0)):
            continue
        if not isinstance(shape[axis], int):
            check_pooled_axis(function, axis, shape[axis])
        if isinstance(padding, str):
            [(low, high)] = lax.padtype_to_pads((shape[axis],), (size,), (stride,), padding)
        else:
            low, high = padding[number]
        along.append(Along(axis, size, stride, int(low), int(high)))
    return along


def maxima(x: jax.Array, along: Sequence[Along]) -> jax.Array:
    """The largest cell of every window; in one that holds only padding, -inf or the lowest integer."""
    return pool_along(jaxpool.max_pool, x, along, identity(lax.max, x.dtype))


def averages(x: jax.Array, along: Sequence[Along], divisor: Any, *, include_pad: bool) -> jax.Array:
    """The average of every window, by division by a `divisor` of this dtype; 0 or NaN if there is only padding."""
    pool = partial(jaxpool.avg_pool, count_include_pad=include_pad)
    return pool_along(pool, x.astype(quotient_dtype(x, divisor)), along, 0.0 if include_pad else np.nan)


def pool_along(pool: Callable[..., jax.Array], x: jax.Array, along: Sequence[Along], empty: Any) -> jax.Array:
    """Pool x by a function of jaxpool; windows that hold only padding get the value `empty`."""
    if not along:
        return x
    splits = [_split(x.shape[one.axis], one) for one in along]
    if not all(split.inside for split in splits):
        shape = list(x.shape)
        for one, split in zip(along, splits, strict=True):
            shape[one.axis] = split.before + split.inside + split.after
        return jnp.full(shape, empty, x.dtype)
    for one, split in zip(along, splits, strict=True):
        if split.stop - split.start < x.shape[one.axis]:
            x = lax.slice_in_dim(x, split.start, split.stop, axis=one.axis)
    pooled = pool(
        x,
        tuple(one.window for one in along),
        tuple(one.stride for one in along),
        tuple((split.low, split.high) for split in splits),
        axis=tuple(one.axis for one in along),
    )
    around = [(0, 0, 0)] * x.ndim
    for one, split in zip(along, splits, strict=True):
        around[one.axis] = (split.before, split.after, 0)
    return lax.pad(pooled, jnp.asarray(empty, pooled.dtype), around) if any(map(any, around)) else pooled


def _split(size: int, along: Along) -> _Split:
    _, window, stride, low, high = along
    count = max(0, (low + size + high - window) // stride + 1)
    start, stop = max(0, -low), size - max(0, -high)
    if start >= stop:
        return _Split(0, 0, 0, 0, before=count, inside=0, after=0)
    # From here on cells are counted from the first that negative padding keeps, and padding is not negative.
    size, low, high = stop - start, max(0, low), max(0, high)
    before = min(count, max(0, (low - window) // stride + 1))
    beyond = max(before, min(count, -(-(low + size) // stride)))
    first = before * stride - low
    end = (beyond - 1) * stride - low + window
    return _Split(
        start=start + max(0, first),
        stop=stop,
        low=max(0, -first),
        high=max(0, end - size),
        before=before,
        inside=beyond - before,
        after=count - beyond,
    )


def quotient_dtype(x: jax.Array, divisor: Any) -> Any:
    """The dtype of x divided by a number of dtype `divisor`, by JAX's default promotion."""
    with jax.numpy_dtype_promotion("standard"):
        structures = (jax.ShapeDtypeStruct((), dtype) for dtype in (x.dtype, divisor))
        return jax.eval_shape(jnp.true_divide, *structures).dtype
