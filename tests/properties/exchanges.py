"""The communication between devices in a compiled program, and the least possible: the borders of their shards."""

import math
import re
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

import jaxpool

ANY = "all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"


class Exchange(NamedTuple):
    """A pool of windows along the first pooled axis, and the bytes of every window that its gradient reads.

    Without a kernel the windows are bins.
    """

    pool: Callable[[jax.Array], jax.Array]
    kernel: int
    stride: int
    padding: int
    window_bytes: int


# For each window the gradient reads its cotangent, and the offset of its winner (of two for a median beside padding),
# its norm, its log-sum-exp as excess and shift, the shift and the denominator of its mean, or two norms, each with its
# cotangent.
_KEY = np.array([3, 7], np.uint32)
EXCHANGES = {
    "max 3/2": Exchange(lambda x: jaxpool.max_pool(x, 3, 2, 1, axis=(1, 2)), 3, 2, 1, 4 + 1),
    "max 3/1": Exchange(lambda x: jaxpool.max_pool(x, 3, 1, 1, axis=(1, 2)), 3, 1, 1, 4 + 1),
    "max 5/1": Exchange(lambda x: jaxpool.max_pool(x, 5, 1, 2, axis=(1, 2)), 5, 1, 2, 4 + 1),
    "avg 3/2": Exchange(lambda x: jaxpool.avg_pool(x, 3, 2, 1, axis=(1, 2)), 3, 2, 1, 4),
    "avg 4/2": Exchange(lambda x: jaxpool.avg_pool(x, 4, 2, 1, axis=(1, 2)), 4, 2, 1, 4),
    "lp 3/2": Exchange(lambda x: jaxpool.lp_pool(x, 2.5, 3, 2, 1, axis=(1, 2)), 3, 2, 1, 4 + 4),
    "smooth 3/2": Exchange(lambda x: jaxpool.smooth_max_pool(x, 2.0, 3, 2, 1, axis=(1, 2)), 3, 2, 1, 4 + 4 + 4),
    "smooth 3/2, padding left out": Exchange(
        lambda x: jaxpool.smooth_max_pool(x, 2.0, 3, 2, 1, axis=(1, 2), count_include_pad=False), 3, 2, 1, 4 + 4 + 4
    ),
    "mellowmax 3/2": Exchange(lambda x: jaxpool.mellowmax_pool(x, 2.0, 3, 2, 1, axis=(1, 2)), 3, 2, 1, 4 + 4 + 4),
    "soft 3/2": Exchange(lambda x: jaxpool.soft_pool(x, 2.0, 3, 2, 1, axis=(1, 2)), 3, 2, 1, 4 + 4 + 4),
    "mean 3/2": Exchange(lambda x: jaxpool.stochastic_pool(x, 3, 2, 1, axis=(1, 2)), 3, 2, 1, 2 * (4 + 4)),
    "lp inf 3/2": Exchange(lambda x: jaxpool.lp_pool(x, math.inf, 3, 2, 1, axis=(1, 2)), 3, 2, 1, 4 + 1),
    "gem 3/2": Exchange(lambda x: jaxpool.gem_pool(x, 3.0, 3, 2, 1, axis=(1, 2)), 3, 2, 1, 4 + 4),
    "blur 3/2": Exchange(lambda x: jaxpool.blur_pool(x, 3, 2, 1, axis=(1, 2)), 3, 2, 1, 4),
    "median 3/2": Exchange(lambda x: jaxpool.median_pool(x, 3, 2, 1, axis=(1, 2)), 3, 2, 1, 4 + 1 + 1),
    "drawn 3/2": Exchange(lambda x: jaxpool.stochastic_pool(x, 3, 2, 1, axis=(1, 2), key=_KEY), 3, 2, 1, 4 + 1),
    # Windows without padding, whose number the devices do not divide, and windows that cross shards without overlap.
    "max 3/1, no padding": Exchange(lambda x: jaxpool.max_pool(x, 3, 1, axis=(1, 2)), 3, 1, 0, 4 + 1),
    "lp 3/2, no padding": Exchange(lambda x: jaxpool.lp_pool(x, 2.5, 3, 2, axis=(1, 2)), 3, 2, 0, 4 + 4),
    "smooth 3/3": Exchange(lambda x: jaxpool.smooth_max_pool(x, 2.0, 3, axis=(1, 2)), 3, 3, 0, 4 + 4 + 4),
    "soft 3/3": Exchange(lambda x: jaxpool.soft_pool(x, 2.0, 3, axis=(1, 2)), 3, 3, 0, 4 + 4 + 4),
    "median 3/3": Exchange(lambda x: jaxpool.median_pool(x, 3, axis=(1, 2)), 3, 3, 0, 4 + 1),
    "max 3/3": Exchange(lambda x: jaxpool.max_pool(x, 3, axis=(1, 2)), 3, 3, 0, 4 + 1),
    "avg 3/3": Exchange(lambda x: jaxpool.avg_pool(x, 3, axis=(1, 2)), 3, 3, 0, 4),
    # Windows of one and a half shards, and bins.
    "max 12/12": Exchange(lambda x: jaxpool.max_pool(x, (12, 3), axis=(1, 2)), 12, 12, 0, 4 + 1),
    "max of 5 bins": Exchange(lambda x: jaxpool.adaptive_max_pool(x, (5, 3), axis=(1, 2)), 0, 0, 0, 4 + 1),
    "avg of 7 bins": Exchange(lambda x: jaxpool.adaptive_avg_pool(x, (7, 3), axis=(1, 2)), 0, 0, 0, 4),
    # Along one axis after the other, and made of pieces.
    "smooth 9/1": Exchange(
        lambda x: jaxpool.smooth_max_pool(x, 2.0, (9, 3), 1, (4, 1), axis=(1, 2)), 9, 1, 4, 4 + 4 + 4
    ),
    "max 9/1": Exchange(lambda x: jaxpool.max_pool(x, (9, 3), 1, (4, 1), axis=(1, 2)), 9, 1, 4, 4 + 1),
}


# Those of the main part: windows that others do not have. Of typical calls the bytes of every window are known too.
EXCHANGES_ONCE = ("lp inf 3/2", "max 3/1, no padding", "max 12/12", "max of 5 bins", "avg of 7 bins", "max 9/1")
WINDOW_BYTES = {
    name: EXCHANGES[like].window_bytes
    for name, like in {
        "max_pool": "max 3/2",
        "avg_pool": "avg 3/2",
        "lp_pool": "lp 3/2",
        "smooth_max_pool": "smooth 3/2",
        "soft_pool": "soft 3/2",
        "stochastic_pool": "mean 3/2",
        "blur_pool": "blur 3/2",
        "median_pool": "median 3/2",
    }.items()
}


def bytes_sent(program: str, kinds: str = ANY) -> int:
    """The bytes that a device receives from others in a compiled program, by some kinds of operations."""
    shapes = re.findall(rf"= (.*?) (?:{kinds})(?:-start)?\(", program)
    arrays = [array for shape in shapes for array in re.findall(r"(pred|[a-z]+(\d+))\[([\d,]*)\]", shape)]
    return sum(
        int(bits or 8) // 8 * math.prod(int(size) for size in sizes.split(",") if size) for _, bits, sizes in arrays
    )


def border_bytes(exchange: Exchange, x: np.ndarray, devices: int) -> int:
    """The bytes of the cells of its neighbours that a device's windows hold, and of the windows that hold its cells."""
    shape = jax.eval_shape(exchange.pool, x).shape
    cells, windows = np.arange(x.shape[1]), np.arange(shape[1])[:, None]
    if exchange.kernel:
        first = windows * exchange.stride - exchange.padding
        end = first + exchange.kernel
    else:
        first, end = windows * cells.size // windows.size, -(-(windows + 1) * cells.size // windows.size)
    holds = (cells >= first) & (cells < end)

    def rows(reads: np.ndarray) -> int:
        """How many rows of the second kind those of the first kind read, on the devices below and above."""
        owners, sources = (np.arange(count) // -(-count // devices) for count in reads.shape)
        readers = np.array([reads[owners == device].any(0) for device in range(devices)])
        away = sources - np.arange(devices)[:, None]
        return sum(int((readers & side).sum(1).max()) for side in (away < 0, away > 0))

    window_bytes = exchange.window_bytes * math.prod(shape) // shape[1]
    return x.nbytes // x.shape[1] * rows(holds) + window_bytes * rows(holds.T)
