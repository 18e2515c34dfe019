"""The pools of each library in the table of faults: one function per library, which imports it when called.

Every pool has the name of the corresponding function of jaxpool, and takes that function's arguments, window sizes and
padding by name. If a library lacks a pool or an argument, the name is missing. Frameworks expect axes for batch and
channels around the pooled ones; `around` adds these and `inside` removes them, so that several pools can read one
array, as in a model.
"""

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxpool

Pool = Callable[..., jax.Array]


class Library(NamedTuple):
    """Pools by name, and how an array with only pooled axes becomes their input."""

    pools: dict[str, Pool]
    around: Callable[[jax.Array], jax.Array] = lambda x: x[None, ..., None]
    inside: Callable[[jax.Array], jax.Array] = lambda x: x[0, ..., 0]


def plain_jax() -> Library:
    """What JAX has itself: reduce_window for windows, jnp.max for whole axes."""

    def windows(initial: float, operation: Any) -> Pool:
        return lambda x, kernel_size, stride, padding: lax.reduce_window(
            x, initial, operation, kernel_size, stride, padding
        )

    sum_pool = windows(0.0, lax.add)
    pools: dict[str, Pool] = {
        "max_pool": windows(-np.inf, lax.max),
        "min_pool": windows(np.inf, lax.min),
        "avg_pool": lambda x, kernel_size, stride, padding: (
            sum_pool(x, kernel_size, stride, padding) / math.prod(kernel_size)
        ),
        "global_max_pool": lambda x, axis: jnp.max(x, axis, keepdims=True),
    }
    return Library(pools, lambda x: x, lambda x: x)


def flax() -> Library:
    """Windows only."""
    pooling = import_module("flax.linen.pooling")

    def windows(name: str) -> Pool:
        pool = getattr(pooling, name)
        return lambda x, kernel_size, stride, padding: pool(x, kernel_size, stride, padding)

    return Library({name: windows(name) for name in ("max_pool", "min_pool", "avg_pool")})


def haiku() -> Library:
    """Windows only, with entries for the axes around the pooled ones."""
    library = import_module("haiku")

    def windows(name: str) -> Pool:
        pool = getattr(library, name)
        return lambda x, kernel_size, stride, padding: pool(x, (1, *kernel_size, 1), (1, *stride, 1), padding)

    return Library({name: windows(name) for name in ("max_pool", "avg_pool")})


def equinox() -> Library:
    """Layers by the number of pooled axes, with channels first and no batch; their padding is given in numbers."""
    layers = import_module("equinox").nn

    def windows(kind: str, x: jax.Array, kernel_size: Any, stride: Any, padding: str, ceil_mode: bool) -> jax.Array:
        pairs = lax.padtype_to_pads(x.shape[1:], kernel_size, stride, padding)
        return getattr(layers, f"{kind}Pool{x.ndim - 1}d")(kernel_size, stride, pairs, ceil_mode)(x)

    def bins(kind: str, x: jax.Array, output_size: tuple[int, ...]) -> jax.Array:
        return getattr(layers, f"Adaptive{kind}Pool{x.ndim - 1}d")(output_size)(x)

    pools: dict[str, Pool] = {
        "max_pool": lambda x, kernel_size, stride, padding, ceil_mode=False: windows(
            "Max", x, kernel_size, stride, padding, ceil_mode
        ),
        "avg_pool": lambda x, kernel_size, stride, padding, ceil_mode=False: windows(
            "Avg", x, kernel_size, stride, padding, ceil_mode
        ),
        "adaptive_max_pool": lambda x, output_size: bins("Max", x, output_size),
        "adaptive_avg_pool": lambda x, output_size: bins("Avg", x, output_size),
        "global_max_pool": lambda x, axis: bins("Max", x, (1,) * len(axis)),
    }
    return Library(pools, lambda x: x[None], lambda x: x[0])


def keras() -> Library:
    """Operations, and a layer by the number of pooled axes for the maximum of whole ones."""
    library = import_module("keras")

    def windows(name: str) -> Pool:
        pool = getattr(library.ops, name)
        return lambda x, kernel_size, stride, padding: pool(
            x, kernel_size, stride, padding.lower(), data_format="channels_last"
        )

    def bins(name: str) -> Pool:
        pool = getattr(library.ops, name)
        return lambda x, output_size: pool(x, output_size, data_format="channels_last")

    def global_max_pool(x: jax.Array, axis: tuple[int, ...]) -> jax.Array:
        layer = getattr(library.layers, f"GlobalMaxPooling{len(axis)}D")
        return layer(data_format="channels_last", keepdims=True)(x)

    pools = {
        "max_pool": windows("max_pool"),
        "avg_pool": windows("average_pool"),
        "adaptive_max_pool": bins("adaptive_max_pool"),
        "adaptive_avg_pool": bins("adaptive_average_pool"),
        "global_max_pool": global_max_pool,
    }
    return Library(pools)


def ours() -> Library:
    """The functions of jaxpool as they are."""
    names = ("max_pool", "min_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool", "global_max_pool")
    return Library({name: getattr(jaxpool, name) for name in names}, lambda x: x, lambda x: x)


LIBRARIES: dict[str, Callable[[], Library]] = {
    "plain JAX": plain_jax,
    "Flax": flax,
    "Haiku": haiku,
    "Equinox": equinox,
    "Keras": keras,
    "jaxpool": ours,
}
