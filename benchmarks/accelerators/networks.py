"""Pools within networks: a training step of a pool and the layers around it, in bfloat16 with channels last.

A pool by itself is charged for reading its input and for layouts that it would not have inside a network, so these are
the figures to tune for. With a strided slice in the pool's place a step costs the least possible.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.cases import Case
from benchmarks.pools import Pool

Layers = Callable[[jax.Array, Pool, Sequence[jax.Array]], jax.Array]
Shapes = tuple[tuple[int, ...], ...]


def step(layers: Layers) -> Callable[[Pool], Callable[..., Any]]:
    """For a pool, the gradients of a loss with respect to the picture and the weights."""

    def with_pool(pool: Pool) -> Callable[..., Any]:
        def loss(x: jax.Array, *weights: jax.Array) -> jax.Array:
            return (layers(x, pool, weights).astype(jnp.float32) ** 2).sum()

        return lambda x, *weights: jax.grad(loss, tuple(range(1 + len(weights))))(x, *weights)

    return with_pool


def strided_slice(case: Case) -> Pool:
    """The cells at the strides of the pool, as many as it has outputs."""
    stride = case.stride if case.kernel else case.size
    index = tuple(slice(None, None, stride) if axis in case.axes else slice(None) for axis in range(case.rank + 2))
    return lambda x: x[index]


def _convolved(x: jax.Array, weights: jax.Array, stride: int = 1) -> jax.Array:
    letters = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, weights, (stride, stride), "SAME", dimension_numbers=letters)


def _normalised(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Batch normalisation with the statistics of the batch, in float32."""
    wide = x.astype(jnp.float32)
    mean, square = wide.mean((0, 1, 2)), (wide**2).mean((0, 1, 2))
    return ((wide - mean) * (lax.rsqrt(square - mean**2 + 1e-5) * scale.astype(jnp.float32))).astype(x.dtype)


def _stem(x: jax.Array, pool: Pool, weights: Sequence[jax.Array]) -> jax.Array:
    first, second = weights
    return _convolved(pool(jax.nn.relu(_convolved(x, first, 2))), second)


def _normalised_stem(x: jax.Array, pool: Pool, weights: Sequence[jax.Array]) -> jax.Array:
    first, scale, second = weights
    return _convolved(pool(jax.nn.relu(_normalised(_convolved(x, first, 2), scale))), second)


def _residual_sum(x: jax.Array, pool: Pool, weights: Sequence[jax.Array]) -> jax.Array:
    first, second, third = weights
    branch = _convolved(jax.nn.relu(_convolved(x, first)), second)
    return _convolved(pool(jax.nn.relu(x + branch)), third)


def _residual_shortcut(x: jax.Array, pool: Pool, weights: Sequence[jax.Array]) -> jax.Array:
    first, second, third = weights
    branch = _convolved(jax.nn.relu(_convolved(x, first)), second, 2)
    return jax.nn.relu(branch + _convolved(pool(x), third))


def _vgg(x: jax.Array, pool: Pool, weights: Sequence[jax.Array]) -> jax.Array:
    first, second, third = weights
    return _convolved(pool(jax.nn.relu(_convolved(jax.nn.relu(_convolved(x, first)), second))), third)


def _transition(x: jax.Array, pool: Pool, weights: Sequence[jax.Array]) -> jax.Array:
    scale, first, second = weights
    return _convolved(pool(_convolved(jax.nn.relu(_normalised(x, scale)), first)), second)


def _head(x: jax.Array, pool: Pool, weights: Sequence[jax.Array]) -> jax.Array:
    first, scale, dense = weights
    return pool(jax.nn.relu(_normalised(_convolved(x, first), scale))).reshape(x.shape[0], -1) @ dense


def _inception(x: jax.Array, pool: Pool, weights: Sequence[jax.Array]) -> jax.Array:
    first, one, three, after = weights
    x = jax.nn.relu(_convolved(x, first))
    branches = [_convolved(x, one), _convolved(x, three), _convolved(pool(x), after)]
    return jax.nn.relu(jnp.concatenate(branches, 3))


def _between_convolutions(x: jax.Array, pool: Pool, weights: Sequence[jax.Array]) -> jax.Array:
    first, second = weights
    return _convolved(pool(_convolved(x, first)), second)


_THREE = (3, 3, 128, 128)
_INCEPTION: Shapes = ((1, 1, 192, 256), (1, 1, 256, 64), (3, 3, 256, 128), (1, 1, 256, 64))
_PICTURE = (64, 224, 224, 3)
# Name, layers, pool, picture and weights.
NETWORKS: tuple[tuple[str, Layers, Case, tuple[int, ...], Shapes], ...] = (
    ("stem", _stem, Case("max", 3, 2, 1, batch=64, size=112), _PICTURE, ((7, 7, 3, 64), (3, 3, 64, 64))),
    (
        "stem with batch normalisation",
        _normalised_stem,
        Case("max", 3, 2, 1, batch=64, size=112),
        _PICTURE,
        ((7, 7, 3, 64), (64,), (3, 3, 64, 64)),
    ),
    (
        "residual sum",
        _residual_sum,
        Case("max", 3, 2, 1, batch=64, channels=128),
        (64, 56, 56, 128),
        (_THREE, _THREE, (3, 3, 128, 256)),
    ),
    (
        "residual shortcut",
        _residual_shortcut,
        Case("avg", 2, 2, batch=64, channels=128),
        (64, 56, 56, 128),
        (_THREE, (3, 3, 128, 256), (1, 1, 128, 256)),
    ),
    (
        "VGG",
        _vgg,
        Case("max", 2, 2, batch=32, channels=128, size=112),
        (32, 112, 112, 64),
        ((3, 3, 64, 128), _THREE, (3, 3, 128, 256)),
    ),
    (
        "DenseNet transition",
        _transition,
        Case("avg", 2, 2, batch=64, channels=128),
        (64, 56, 56, 256),
        ((256,), (1, 1, 256, 128), (3, 3, 128, 32)),
    ),
    (
        "DenseNet head",
        _head,
        Case("global avg", batch=128, channels=1024, size=14),
        (128, 14, 14, 512),
        ((1, 1, 512, 1024), (1024,), (1024, 1000)),
    ),
    *(
        ("Inception", _inception, Case(pool, 3, 1, 1, batch=64, channels=256, size=28), (64, 28, 28, 192), _INCEPTION)
        for pool in ("max", "avg")
    ),
    *(
        (
            "between convolutions",
            _between_convolutions,
            Case(pool, 3, 2, batch=32, channels=128),
            (32, 56, 56, 128),
            (_THREE, _THREE),
        )
        for pool in ("lp", "smooth", "soft", "var")
    ),
)
