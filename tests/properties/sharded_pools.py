"""The pools that are compared on several devices, and the arrays that they are given."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

import jaxpool
from tests.registry.records import RECORDS

Pool = Callable[[jax.Array], jax.Array]

X = np.random.default_rng(0).normal(size=(8, 32, 9, 8)).astype(np.float32)
# In few images and channels, so that global pools have numbers too.
X[np.random.default_rng(4).random(X.shape) < 0.02 * (np.arange(8) == 5)] = np.nan
X[3, 12:14, 4, 2] = np.nan
# Shards of 8 rows on 8 devices, so that windows reach no further than the next one.
LONGER = np.zeros((2, 64, 9, 8), np.float32)
MASK = np.random.default_rng(1).random((32, 9, 1)) < 0.7
BETA = np.linspace(0.5, 2, 8, dtype=np.float32)
SLIDING: dict[str, Any] = {"kernel_size": 3, "stride": 2, "padding": 1, "axis": (1, 2)}
DENSE: dict[str, Any] = {"kernel_size": 3, "stride": 1, "padding": 1, "axis": (1, 2)}

POOLS: dict[str, Pool] = {
    name: partial(record.values, axis=(1, 2)) for name, record in RECORDS.items() if record.windows != "boxes"
} | {
    "max_pool, stride 1": lambda x: jaxpool.max_pool(x, **DENSE),
    "max_pool, large": lambda x: jaxpool.max_pool(x, 9, 1, 4, axis=(1, 2)),
    "max_pool of blocks": lambda x: jaxpool.max_pool(x, (4, 3), axis=(1, 2)),
    "max_pool_with_indices masked": lambda x: jaxpool.max_pool_with_indices(x, **SLIDING, where=MASK)[0],
    "min_pool by the other rule": lambda x: jaxpool.min_pool(x, **SLIDING, rule="vjp"),
    "avg_pool masked": lambda x: jaxpool.avg_pool(x, **SLIDING, where=MASK, rule="vjp"),
    # Rows of the backward pass would start in the padding.
    "lp_pool of 4": lambda x: jaxpool.lp_pool(x, 3.0, 4, 2, 1, axis=(1, 2)),
    "lp_pool, large": lambda x: jaxpool.lp_pool(x, 1.5, 9, 1, 4, axis=(1, 2)),
    "smooth_max_pool masked": lambda x: jaxpool.smooth_max_pool(x, BETA, **SLIDING, where=MASK),
    "blur_pool masked": lambda x: jaxpool.blur_pool(x, **SLIDING, where=MASK),
    "global_avg_pool masked": lambda x: jaxpool.global_avg_pool(x, axis=(1, 2), keepdims=False, where=MASK),
    # The two read the same cells through the same windows, with different padding.
    "max beside sum": lambda x: jaxpool.max_pool(x, **DENSE) + jaxpool.sum_pool(x, **DENSE),
    "max beside min": lambda x: jaxpool.max_pool(x, **DENSE) - jaxpool.min_pool(x, **DENSE),
}
# Every core once, for the main part: other functions call one of these with other arguments.
ONCE = [
    name
    for name in POOLS
    if name in RECORDS
    and name not in ("min_pool", "sum_pool", "gem_pool", "mellowmax_pool", "quantile_pool", "global_gem_pool")
    and name not in ("adaptive_max_pool_with_indices", "fractional_max_pool_with_indices")
]
# How many devices, and the type of the mesh's axis. Every pool takes its turn on two of these.
MESHES = ((2, "Auto"), (4, "Auto"), (4, "Explicit"), (8, "Auto"), (8, "Explicit"))


def pools_on(count: int, kind: str) -> dict[str, Pool]:
    """The pools whose turn it is on one of the meshes."""
    number = MESHES.index((count, kind))
    return {name: pool for place, (name, pool) in enumerate(POOLS.items()) if (place - number) % len(MESHES) in (0, 2)}


# Those that run by default.
QUICK = ONCE[::4]
# Those that take other steps if the compiler shares the pooled axis.
AUTOMATIC = (
    *("max_pool", "avg_pool", "lp_pool", "smooth_max_pool", "blur_pool", "adaptive_max_pool", "adaptive_avg_pool"),
    *("global_max_pool", "global_avg_pool", "max_pool of blocks", "smooth_max_pool masked", "max beside sum"),
)
# Indices and samples may point to any shard, and the levels of a pyramid are concatenated.
ANYWHERE = ("max_unpool", "fractional_max_pool", "fractional_max_pool_with_indices", "spatial_pyramid_pool")
# It has fewer maxima than cells, so devices that divide one number do not divide the other.
COLLECTED = ("max_blur_pool",)
BINS: Pool = partial(jaxpool.adaptive_max_pool, output_size=(5, 7), axis=(1, 2))
# NaN, infinities and zeros of either sign among the cells, and pools whose results depend on each of them.
SPECIAL = np.where(np.random.default_rng(6).random(X.shape) < 0.1, np.float32(-0.0), X)
SPECIAL = np.where(np.random.default_rng(7).random(X.shape) < 0.01, np.float32(np.nan), SPECIAL)
SPECIAL = np.where(np.random.default_rng(8).random(X.shape) < 0.2, np.float32(-np.inf), SPECIAL)
ON_SPECIAL: dict[str, Callable[[jax.Array], Any]] = {
    "indices": lambda x: jaxpool.max_pool_with_indices(x, **SLIDING),
    "indices of uneven windows": lambda x: jaxpool.max_pool_with_indices(x, 3, 1, axis=(1, 2)),
    "indices of dilated windows": lambda x: jaxpool.max_pool_with_indices(x, 3, 2, 2, dilation=2, axis=(1, 2)),
    "indices of copies beside padding": lambda x: jaxpool.max_pool_with_indices(
        x, 3, 1, ("CAUSAL", ("WRAP", (2, 1))), axis=(1, 2)
    ),
    "masked bins": lambda x: jaxpool.adaptive_max_pool(x, (5, 7), axis=(1, 2), where=MASK),
    "bools of bins": lambda x: jaxpool.adaptive_max_pool(x > 1, (5, 7), axis=(1, 2)),
    # The sharded axis is the second: the first winner may be on another device than the first part of the bin.
    "first winners of bins": jax.grad(lambda x: jaxpool.adaptive_max_pool(x, (3, 5), axis=(0, 1)).sum()),
    "signs": lambda x: jax.numpy.signbit(jaxpool.max_pool(jax.numpy.minimum(x, -0.0), 3, 1, axis=(1, 2))),
    "batches": jax.vmap(lambda x: jaxpool.max_pool(x, 3, 2, 1, axis=(0, 1))),
    "second derivatives": lambda x: jax.jvp(
        jax.grad(lambda x: (jaxpool.min_pool(x, 3, 1, axis=(1, 2)) ** 2).sum()), (x,), (x,)
    )[1],
}
DRAWN: Pool = partial(jaxpool.stochastic_pool, **SLIDING, key=np.array([3, 7], np.uint32))
# Outputs that the devices do not divide, windows that cross from shard to shard without overlap, or copied cells.
UNEVEN: dict[str, Pool] = {
    "max_pool": lambda x: jaxpool.max_pool(x, 3, 1, axis=(1, 2)),
    "avg_pool of blocks": lambda x: jaxpool.avg_pool(x, 3, axis=(1, 2)),
    "lp_pool": lambda x: jaxpool.lp_pool(x, 2.0, 3, 2, axis=(1, 2)),
    "max_pool of copies": lambda x: jaxpool.max_pool(x, 3, 1, "REFLECT", axis=(1, 2)),
    "adaptive_max_pool": BINS,
    "adaptive_avg_pool": lambda x: jaxpool.adaptive_avg_pool(x, (7, 2), axis=(1, 2)),
    # One window over all shards, and a few cells of one, at a stride that leaves the others out.
    "lp_pool, whole": lambda x: jaxpool.lp_pool(x, 3.0, (32, 9), axis=(1, 2)),
    "smooth_max_pool, whole": lambda x: jaxpool.smooth_max_pool(x, 2.0, (32, 9), axis=(1, 2)),
    "soft_pool, whole": lambda x: jaxpool.soft_pool(x, 2.0, (32, 9), axis=(1, 2)),
    "stochastic_pool, whole": lambda x: jaxpool.stochastic_pool(x, (32, 9), axis=(1, 2)),
    # Windows in gaps, one that crosses shards, and windows that reach beyond the next shard.
    "sum_pool, apart": lambda x: jaxpool.sum_pool(x, (5, 2), (10, 2), axis=(1, 2)),
    "max_pool, once": lambda x: jaxpool.max_pool(x, (10, 2), 31, axis=(1, 2)),
    "max_pool, far": lambda x: jaxpool.max_pool(x, (14, 3), padding=(2, 0), axis=(1, 2)),
    "adaptive_max_pool, tangent": lambda x: jax.jvp(BINS, (x,), (x[:, ::-1],))[1],
    "lp_pool, once": lambda x: jaxpool.lp_pool(x, 2.0, 2, 31, axis=(1, 2)),
}
# Every way once, for the main part.
UNEVEN_ONCE = (
    *("max_pool", "avg_pool of blocks", "lp_pool", "max_pool of copies", "adaptive_max_pool", "adaptive_avg_pool"),
    *("lp_pool, whole", "sum_pool, apart", "max_pool, once", "max_pool, far"),
)
