"""Maxima and minima compiled for an H100, each as a module with its own name, so that `--xla_dump_to` writes its PTX.

XLA reads its flags when it starts, so this runs in a separate process: `python -m benchmarks.accelerators.maxima`.
"""

import itertools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxpool
from benchmarks.accelerators.case import Pool
from benchmarks.accelerators.programs import compile_for, prepare

SHAPE, AXES = (4, 24, 24, 32), (1, 2)
# Kernel, stride, padding.
WINDOWS = {"sliding": (3, 2, 1), "tiling": (2, 2, 0), "whole": (24, 24, 0)}
DTYPES = ("float32", "bfloat16", "float64")
EXTREMES = ("max", "min")
AUTHORS = ("jaxpool", "plain")


def names() -> Iterator[tuple[str, str, str, str]]:
    """Every combination of author, extreme, window and dtype."""
    return itertools.product(AUTHORS, EXTREMES, WINDOWS, DTYPES)


def main() -> None:
    """Compile them all."""
    prepare()
    jax.config.update("jax_enable_x64", True)
    for author, extreme, window, dtype in names():
        pool = (_ours if author == "jaxpool" else _plain)(extreme, window)

        def named(x: jax.Array, pool: Pool = pool) -> jax.Array:
            return pool(x)

        named.__name__ = f"{author}_{extreme}_{window}_{dtype}"
        compile_for("gpu", named, [(SHAPE, jnp.dtype(dtype))])


def _ours(extreme: str, window: str) -> Pool:
    if window == "whole" and extreme == "max":
        return lambda x: jaxpool.global_max_pool(x, axis=AXES)
    pool = {"max": jaxpool.max_pool, "min": jaxpool.min_pool}[extreme]
    return lambda x: pool(x, *WINDOWS[window], axis=AXES)


def _plain(extreme: str, window: str) -> Pool:
    kernel, stride, padding = WINDOWS[window]
    operation, infinity = {"max": (lax.max, -np.inf), "min": (lax.min, np.inf)}[extreme]
    sizes, steps = (1, kernel, kernel, 1), (1, stride, stride, 1)
    pads = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    return lambda x: lax.reduce_window(x, x.dtype.type(infinity), operation, sizes, steps, pads)


if __name__ == "__main__":
    main()
