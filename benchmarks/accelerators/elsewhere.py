"""Pools whose windows or outputs are at positions that are data: unpooling, fractional windows, regions of interest."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp

import jaxpool
from benchmarks.accelerators.case import OURS, PLAIN, Case, Draw, Function, gradient, result
from benchmarks.accelerators.programs import Specification

_POOLED, _WHOLE, _FEATURES, _BOXES = (32, 56, 56, 64), (112, 112), (4, 200, 200, 256), (4, 128, 4)
_AXES = (1, 2)


def elsewhere() -> Iterator[Case]:
    """Forward and gradient of each, channels last, float32, for an H100."""
    values, indices = (_POOLED, jnp.dtype("float32")), (_POOLED, jnp.dtype("int32"))
    unpool = {OURS: _unpool, PLAIN: _plain_unpool}
    yield from _passes("unpool", "2×2/2", unpool, (values, indices), _draw_maxima)
    x, samples = ((32, 112, 112, 64), jnp.dtype("float32")), ((32, 64, 2), jnp.dtype("float32"))
    yield from _passes("fractional", "2×2 to 80×80", {OURS: _fractional}, (x, samples), _draw_samples)
    features, boxes = (_FEATURES, jnp.dtype("float32")), (_BOXES, jnp.dtype("float32"))
    yield from _passes("roi align", "7×7", {OURS: _roi_align}, (features, boxes), _draw_boxes)
    yield from _passes("roi max", "7×7", {OURS: _roi_pool}, (features, boxes), _draw_boxes)


def _passes(
    group: str, window: str, functions: dict[str, Function], arguments: tuple[Specification, ...], draw: Draw
) -> Iterator[Case]:
    tail = f"float32, {'×'.join(map(str, arguments[0][0]))}, channels last"
    yield Case(f"{group} {window} forward, {tail}", "gpu", group, arguments, functions, draw=draw)
    pulled = {name: gradient(function) for name, function in functions.items()}
    cotangent = result(functions[OURS], arguments)

    def draw_all(key: jax.Array) -> tuple[jax.Array, ...]:
        return *draw(key), jax.random.normal(key, *cotangent)

    yield Case(f"{group} {window} gradient, {tail}", "gpu", group, (*arguments, cotangent), pulled, draw=draw_all)


def _draw_maxima(key: jax.Array) -> tuple[jax.Array, ...]:
    batch, *_, channels = _POOLED
    return jaxpool.max_pool_with_indices(jax.random.normal(key, (batch, *_WHOLE, channels)), 2, axis=_AXES)


def _draw_samples(key: jax.Array) -> tuple[jax.Array, ...]:
    return jax.random.normal(key, (32, *_WHOLE, 64)), jax.random.uniform(key, (32, 64, 2))


def _draw_boxes(key: jax.Array) -> tuple[jax.Array, ...]:
    corners = jax.random.uniform(key, (*_BOXES[:2], 2, 2), maxval=_FEATURES[1])
    return jax.random.normal(key, _FEATURES), jnp.sort(corners, 2).reshape(_BOXES)


def _unpool(values: jax.Array, indices: jax.Array) -> jax.Array:
    return jaxpool.max_unpool(values, indices, _WHOLE, axis=_AXES)


def _plain_unpool(values: jax.Array, indices: jax.Array) -> jax.Array:
    batch, height, width, channels = values.shape
    rows = jnp.arange(batch)[:, None, None], jnp.arange(channels)
    flat = (array.reshape(batch, height * width, channels) for array in (values, indices))
    cells, places = flat
    zeros = jnp.zeros((batch, _WHOLE[0] * _WHOLE[1], channels), values.dtype)
    return zeros.at[rows[0], places, rows[1]].set(cells).reshape(batch, *_WHOLE, channels)


def _fractional(x: jax.Array, samples: jax.Array) -> jax.Array:
    return jaxpool.fractional_max_pool(x, 2, 80, samples=samples, axis=_AXES)


def _roi_align(x: jax.Array, boxes: jax.Array) -> jax.Array:
    return jax.vmap(lambda x, boxes: jaxpool.roi_align(x, boxes, 7, axis=(0, 1)))(x, boxes)


def _roi_pool(x: jax.Array, boxes: jax.Array) -> jax.Array:
    return jax.vmap(lambda x, boxes: jaxpool.roi_pool(x, boxes, 7, axis=(0, 1)))(x, boxes)
