"""Pools within networks: a training step of a pool and the layers around it, with gradients for picture and weights.

A pool by itself is charged for reading its input and for layouts that it would not have inside a network, so these are
the figures to tune for. They are also computed with a strided slice in the pool's place, which is the least possible.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks import cases, pools
from benchmarks.accelerators.case import OURS, PLAIN, SLICE, Case, Pool

Layer = Callable[[jax.Array, Pool, Sequence[jax.Array], bool], jax.Array]


@dataclass(frozen=True)
class Network:
    """Layers, the pool within them, the picture and the shapes of the weights, channels last."""

    name: str
    layers: Layer
    pool: cases.Case
    picture: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]


def networks() -> Iterator[Case]:
    """Every network in bfloat16 with channels last, and the stem in other forms, for both targets."""
    for target in ("gpu", "tpu"):
        for network in _NETWORKS:
            yield _case(target, network, "bfloat16", True)
        yield _case(target, _NETWORKS[0], "float32", True)
        yield _case(target, _NETWORKS[0], "bfloat16", False)


def _case(target: str, network: Network, dtype: str, channels_last: bool) -> Case:
    pool = replace(network.pool, channels_last=channels_last)
    picture = network.picture if channels_last else (network.picture[0], network.picture[-1], *network.picture[1:-1])
    kind = jnp.dtype(dtype)
    specifications = ((picture, kind), *((shape, kind) for shape in network.weights))
    functions = {
        OURS: _step(network.layers, pools.ours(pool), channels_last),
        PLAIN: _step(network.layers, pools.plain(pool), channels_last),
        SLICE: _step(network.layers, _strided_slice(pool), channels_last),
    }
    name = f"network {network.name}, {dtype}, {'×'.join(map(str, picture))}, {pool.layout}"
    kernel = (pool.kernel,) * pool.rank if pool.kernel else ()
    return Case(name, target, "network", specifications, functions, kernel)


def _step(layers: Layer, pool: Pool, channels_last: bool) -> Callable[..., Any]:
    def loss(x: jax.Array, *weights: jax.Array) -> jax.Array:
        return (layers(x, pool, weights, channels_last).astype(jnp.float32) ** 2).sum()

    def step(x: jax.Array, *weights: jax.Array) -> Any:
        return jax.grad(loss, tuple(range(1 + len(weights))))(x, *weights)

    return step


def _strided_slice(case: cases.Case) -> Pool:
    """The cells at the strides of the pool, as many as it has outputs."""
    stride = case.stride if case.kernel else case.size
    index = tuple(slice(None, None, stride) if axis in case.axes else slice(None) for axis in range(len(case.shape)))
    return lambda x: x[index]


def _convolution(x: jax.Array, weights: jax.Array, stride: int, channels_last: bool) -> jax.Array:
    letters = "NHWC" if channels_last else "NCHW"
    return lax.conv_general_dilated(x, weights, (stride, stride), "SAME", dimension_numbers=(letters, "HWIO", letters))


def _normalised(x: jax.Array, scale: jax.Array, channels_last: bool) -> jax.Array:
    """Batch normalisation with the statistics of the batch, in float32."""
    axes = (0, 1, 2) if channels_last else (0, 2, 3)
    wide = x.astype(jnp.float32)
    mean, square = wide.mean(axes, keepdims=True), (wide**2).mean(axes, keepdims=True)
    shape = (1, 1, 1, -1) if channels_last else (1, -1, 1, 1)
    factor = lax.rsqrt(square - mean**2 + np.float32(1e-5)) * scale.astype(jnp.float32).reshape(shape)
    return ((wide - mean) * factor).astype(x.dtype)


def _stem(x: jax.Array, pool: Pool, weights: Sequence[jax.Array], last: bool) -> jax.Array:
    first, second = weights
    return _convolution(pool(jax.nn.relu(_convolution(x, first, 2, last))), second, 1, last)


def _normalised_stem(x: jax.Array, pool: Pool, weights: Sequence[jax.Array], last: bool) -> jax.Array:
    first, scale, second = weights
    activations = jax.nn.relu(_normalised(_convolution(x, first, 2, last), scale, last))
    return _convolution(pool(activations), second, 1, last)


def _residual_sum(x: jax.Array, pool: Pool, weights: Sequence[jax.Array], last: bool) -> jax.Array:
    first, second, third = weights
    branch = _convolution(jax.nn.relu(_convolution(x, first, 1, last)), second, 1, last)
    return _convolution(pool(jax.nn.relu(x + branch)), third, 1, last)


def _residual_shortcut(x: jax.Array, pool: Pool, weights: Sequence[jax.Array], last: bool) -> jax.Array:
    first, second, third = weights
    branch = _convolution(jax.nn.relu(_convolution(x, first, 1, last)), second, 2, last)
    return jax.nn.relu(branch + _convolution(pool(x), third, 1, last))


def _vgg(x: jax.Array, pool: Pool, weights: Sequence[jax.Array], last: bool) -> jax.Array:
    first, second, third = weights
    activations = jax.nn.relu(_convolution(jax.nn.relu(_convolution(x, first, 1, last)), second, 1, last))
    return _convolution(pool(activations), third, 1, last)


def _transition(x: jax.Array, pool: Pool, weights: Sequence[jax.Array], last: bool) -> jax.Array:
    scale, first, second = weights
    narrowed = _convolution(jax.nn.relu(_normalised(x, scale, last)), first, 1, last)
    return _convolution(pool(narrowed), second, 1, last)


def _head(x: jax.Array, pool: Pool, weights: Sequence[jax.Array], last: bool) -> jax.Array:
    first, scale, dense = weights
    activations = jax.nn.relu(_normalised(_convolution(x, first, 1, last), scale, last))
    return pool(activations).reshape(x.shape[0], -1) @ dense


def _inception(x: jax.Array, pool: Pool, weights: Sequence[jax.Array], last: bool) -> jax.Array:
    first, one, three, after = weights
    x = jax.nn.relu(_convolution(x, first, 1, last))
    branches = [_convolution(x, one, 1, last), _convolution(x, three, 1, last), _convolution(pool(x), after, 1, last)]
    return jax.nn.relu(jnp.concatenate(branches, 3 if last else 1))


_NETWORKS = (
    Network(
        "stem, max 3×3/2 padded 1",
        _stem,
        cases.Case("max", 64, 64, 112, True, 2, 3, 2, 1),
        (64, 224, 224, 3),
        ((7, 7, 3, 64), (3, 3, 64, 64)),
    ),
    Network(
        "stem with batch normalisation, max 3×3/2 padded 1",
        _normalised_stem,
        cases.Case("max", 64, 64, 112, True, 2, 3, 2, 1),
        (64, 224, 224, 3),
        ((7, 7, 3, 64), (64,), (3, 3, 64, 64)),
    ),
    Network(
        "residual sum, max 3×3/2 padded 1",
        _residual_sum,
        cases.Case("max", 64, 128, 56, True, 2, 3, 2, 1),
        (64, 56, 56, 128),
        ((3, 3, 128, 128), (3, 3, 128, 128), (3, 3, 128, 256)),
    ),
    Network(
        "residual shortcut, avg 2×2/2",
        _residual_shortcut,
        cases.Case("avg", 64, 128, 56, True, 2, 2, 2),
        (64, 56, 56, 128),
        ((3, 3, 128, 128), (3, 3, 128, 256), (1, 1, 128, 256)),
    ),
    Network(
        "VGG, max 2×2/2",
        _vgg,
        cases.Case("max", 32, 128, 112, True, 2, 2, 2),
        (32, 112, 112, 64),
        ((3, 3, 64, 128), (3, 3, 128, 128), (3, 3, 128, 256)),
    ),
    Network(
        "DenseNet transition, avg 2×2/2",
        _transition,
        cases.Case("avg", 64, 128, 56, True, 2, 2, 2),
        (64, 56, 56, 256),
        ((256,), (1, 1, 256, 128), (3, 3, 128, 32)),
    ),
    Network(
        "DenseNet head, global avg",
        _head,
        cases.Case("global avg", 128, 1024, 14, True),
        (128, 14, 14, 512),
        ((1, 1, 512, 1024), (1024,), (1024, 1000)),
    ),
    Network(
        "Inception, max 3×3/1 padded 1",
        _inception,
        cases.Case("max", 64, 256, 28, True, 2, 3, 1, 1),
        (64, 28, 28, 192),
        ((1, 1, 192, 256), (1, 1, 256, 64), (3, 3, 256, 128), (1, 1, 256, 64)),
    ),
    Network(
        "Inception, avg 3×3/1 padded 1",
        _inception,
        cases.Case("avg", 64, 256, 28, True, 2, 3, 1, 1),
        (64, 28, 28, 192),
        ((1, 1, 192, 256), (1, 1, 256, 64), (3, 3, 256, 128), (1, 1, 256, 64)),
    ),
)
