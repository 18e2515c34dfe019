"""What is measured: pools over ordinary activations in both layouts, beside what a JAX user writes without jaxpool."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxpool

Pool = Callable[[jax.Array], jax.Array]


@dataclass(frozen=True)
class Case:
    """One call: the group that it is summarised with, its name, the shape of the input, our pool and the plain one."""

    group: str
    name: str
    shape: tuple[int, ...]
    ours: Pool
    plain: Pool


# Batch, channels, size of the picture; kernel, stride, padding.
_WINDOWS = (
    (8, 64, 56, 2, 2, 0),
    (8, 64, 56, 3, 2, 1),
    (8, 64, 56, 3, 1, 1),
    (8, 64, 56, 5, 1, 2),
    (8, 64, 28, 13, 1, 6),
    (2, 64, 112, 3, 2, 1),
    (1, 16, 192, 31, 1, 15),
)
# Batch, channels, size of the picture; bins along each axis.
_BINS = ((8, 64, 56, 7), (8, 64, 57, 7), (2, 64, 112, 50), (8, 64, 14, 28))
_WHOLE = ((32, 64, 56), (8, 512, 7), (64, 256, 14))


def cases() -> Iterator[Case]:
    """Every case, windows first."""
    for channels_last in (False, True):
        for batch, channels, size, kernel, stride, padding in _WINDOWS:
            for group in ("max", "avg"):
                name = f"{kernel}×{kernel} / {stride} + {padding}"
                pools = _windows(group, channels_last, kernel, stride, padding)
                yield _case(group, name, (batch, channels, size), channels_last, *pools)
        for batch, channels, size, bins in _BINS:
            for group in ("max", "avg"):
                pools = _bins(group, channels_last, bins)
                yield _case(f"adaptive {group}", f"{bins}×{bins} bins", (batch, channels, size), channels_last, *pools)
        for sizes in _WHOLE:
            for group in ("max", "avg"):
                yield _case(f"global {group}", "whole", sizes, channels_last, *_whole(group, channels_last))


def _case(group: str, name: str, sizes: tuple[int, int, int], channels_last: bool, ours: Pool, plain: Pool) -> Case:
    batch, channels, size = sizes
    shape = (batch, size, size, channels) if channels_last else (batch, channels, size, size)
    layout = "channels last" if channels_last else "channels first"
    return Case(group, f"{name}, {'×'.join(map(str, shape))}, {layout}", shape, ours, plain)


def _axes(channels_last: bool) -> tuple[int, int]:
    return (1, 2) if channels_last else (2, 3)


def _windows(group: str, channels_last: bool, kernel: int, stride: int, padding: int) -> tuple[Pool, Pool]:
    axes = _axes(channels_last)
    pool = jaxpool.max_pool if group == "max" else jaxpool.avg_pool
    op, identity = (lax.max, -np.inf) if group == "max" else (lax.add, 0.0)

    def plain(x: jax.Array) -> jax.Array:
        dimensions, strides, pads = [1] * 4, [1] * 4, [(0, 0)] * 4
        for axis in axes:
            dimensions[axis], strides[axis], pads[axis] = kernel, stride, (padding, padding)
        pooled = lax.reduce_window(x, np.float32(identity), op, dimensions, strides, pads)
        return pooled / kernel**2 if group == "avg" else pooled

    return lambda x: pool(x, kernel, stride, padding, axis=axes), plain


def _bins(group: str, channels_last: bool, bins: int) -> tuple[Pool, Pool]:
    axes = _axes(channels_last)
    pool = jaxpool.adaptive_max_pool if group == "max" else jaxpool.adaptive_avg_pool
    reduce = jnp.max if group == "max" else jnp.mean

    def plain(x: jax.Array) -> jax.Array:
        for axis in axes:
            size = x.shape[axis]
            ends = [(i * size // bins, -(-(i + 1) * size // bins)) for i in range(bins)]
            slices = [lax.slice_in_dim(x, start, end, axis=axis) for start, end in ends]
            x = jnp.concatenate([reduce(part, axis, keepdims=True) for part in slices], axis)
        return x

    return lambda x: pool(x, bins, axis=axes), plain


def _whole(group: str, channels_last: bool) -> tuple[Pool, Pool]:
    axes = _axes(channels_last)
    pool = jaxpool.global_max_pool if group == "max" else jaxpool.global_avg_pool
    reduce = jnp.max if group == "max" else jnp.mean
    return lambda x: pool(x, axis=axes), lambda x: reduce(x, axes, keepdims=True)
