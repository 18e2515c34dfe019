"""Flax, Haiku, Equinox, Keras and lax.reduce_window where they have a pool and are right: values and gradients.

All run on one grid of kernels, strides and paddings, with one compilation for all peers at a point. Inputs are distinct
integers in random order. Conventions that differ without being wrong are translated in the tables below: Flax and
Equinox have a default stride of 1, and the averages of Haiku and Keras exclude padding. The last table holds the known
errors of peers, each with its reason.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxpool

pytestmark = pytest.mark.usefixtures("for_this_platform")

equinox = pytest.importorskip("equinox")
haiku = pytest.importorskip("haiku")
pooling = pytest.importorskip("flax.linen.pooling")


class Point(NamedTuple):
    """A point of the grid: pooled sizes of an array of one batch and one channel axis, and the windows on them."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Any

    @property
    def axis(self) -> tuple[int, ...]:
        """The pooled axes of a channels-last array."""
        return tuple(range(1, len(self.sizes) + 1))

    @property
    def arguments(self) -> dict[str, Any]:
        """What a jaxpool function takes."""
        return {"kernel_size": self.kernel, "stride": self.stride, "padding": self.padding, "axis": self.axis}

    @property
    def over_all_axes(self) -> tuple[tuple[int, ...], tuple[int, ...], Any]:
        """What lax takes: kernel, stride and padding with entries for the batch and channel axes."""
        padding = self.padding if isinstance(self.padding, str) else [(0, 0), *self.padding, (0, 0)]
        return (1, *self.kernel, 1), (1, *self.stride, 1), padding


GRID = [
    Point((9,), (3,), (2,), "SAME"),
    Point((10,), (4,), (3,), ((2, 1),)),
    Point((6, 8), (2, 2), (2, 2), "VALID"),
    Point((7, 6), (3, 3), (2, 2), "SAME"),
    Point((7, 6), (3, 2), (1, 2), ((1, 0), (0, 1))),
    Point((8, 9), (2, 3), (3, 4), "VALID"),
    Point((5, 4, 6), (2, 3, 2), (1, 2, 2), ((0, 1), (1, 1), (1, 0))),
]


def equinox_pool(kind: str, x: jax.Array, point: Point) -> jax.Array:
    """Equinox's layers take one channels-first element of a batch at a time."""
    layer = getattr(equinox.nn, f"{kind}Pool{len(point.sizes)}d")(point.kernel, point.stride, point.padding)
    return jnp.moveaxis(jax.vmap(layer)(jnp.moveaxis(x, -1, 1)), 1, -1)


def flax_pool(kind: str, x: jax.Array, point: Point, **options: Any) -> jax.Array:
    return getattr(pooling, f"{kind}_pool")(x, point.kernel, point.stride, point.padding, **options)


def haiku_pool(kind: str, x: jax.Array, point: Point) -> jax.Array:
    return getattr(haiku, f"{kind}_pool")(x, *point.over_all_axes)


def lax_pool(initial: float, operation: Any, x: jax.Array, point: Point) -> jax.Array:
    return lax.reduce_window(x, initial, operation, *point.over_all_axes)


def takes_words(point: Point) -> bool:
    return isinstance(point.padding, str)


def takes_numbers(point: Point) -> bool:
    return not takes_words(point)


def takes_both(point: Point) -> bool:
    return True


Pool = Callable[[jax.Array, Point], jax.Array]
REAL = "avg of real cells"
OURS: dict[str, Pool] = {
    "max": lambda x, point: jaxpool.max_pool(x, **point.arguments),
    "min": lambda x, point: jaxpool.min_pool(x, **point.arguments),
    "sum": lambda x, point: jaxpool.sum_pool(x, **point.arguments),
    "avg": lambda x, point: jaxpool.avg_pool(x, **point.arguments),
    "avg of real cells": lambda x, point: jaxpool.avg_pool(x, **point.arguments, count_include_pad=False),
}

# The peer's function, the one of OURS that it equals, and the points that it accepts.
PEERS: dict[str, tuple[Pool, str, Callable[[Point], bool]]] = {
    "lax max": (lambda x, point: lax_pool(-np.inf, lax.max, x, point), "max", takes_both),
    "lax min": (lambda x, point: lax_pool(np.inf, lax.min, x, point), "min", takes_both),
    "lax sum": (lambda x, point: lax_pool(0.0, lax.add, x, point), "sum", takes_both),
    "flax max": (lambda x, point: flax_pool("max", x, point), "max", takes_both),
    "flax min": (lambda x, point: flax_pool("min", x, point), "min", takes_both),
    "flax avg": (lambda x, point: flax_pool("avg", x, point), "avg", takes_both),
    "flax avg of real cells": (lambda x, point: flax_pool("avg", x, point, count_include_pad=False), REAL, takes_both),
    "haiku max": (lambda x, point: haiku_pool("max", x, point), "max", takes_words),
    "haiku avg": (lambda x, point: haiku_pool("avg", x, point), "avg of real cells", takes_words),
    "equinox max": (lambda x, point: equinox_pool("Max", x, point), "max", takes_numbers),
    "equinox avg": (lambda x, point: equinox_pool("Avg", x, point), "avg", takes_numbers),
}


def compare(peers: dict[str, tuple[Pool, str]], point: Point) -> None:
    """Compare each peer with our corresponding function, in value and gradient."""
    random = np.random.default_rng(len(peers))
    shape = (2, *point.sizes, 3)
    x = random.permutation(np.prod(shape)).reshape(shape) - 50.0
    outputs = jax.eval_shape(lambda x: OURS["max"](x, point), x).shape
    cotangent = random.integers(-9, 10, outputs).astype(x.dtype)

    @jax.jit
    def run(x: jax.Array, cotangent: jax.Array) -> dict[str, tuple[jax.Array, jax.Array]]:
        def both(pool: Pool) -> tuple[jax.Array, jax.Array]:
            values, pullback = jax.vjp(lambda x: pool(x, point), x)
            return values, pullback(cotangent)[0]

        pools = {name: pool for name, (pool, _) in peers.items()}
        return {name: both(pool) for name, pool in {**OURS, **pools}.items()}

    results = run(x, cotangent)
    for name, (_, meaning) in peers.items():
        for what, theirs, ours in zip(("values", "gradient"), results[name], results[meaning], strict=True):
            np.testing.assert_allclose(theirs, ours, rtol=1e-12, atol=1e-12, err_msg=f"{what} of {name}")
            assert np.ptp(np.asarray(ours)) > 0


@pytest.mark.parametrize("point", GRID, ids=str)
def test_peer(point: Point) -> None:
    peers = {name: (pool, meaning) for name, (pool, meaning, accepts) in PEERS.items() if accepts(point)}
    assert len(peers) == 9
    # The peers mix float64 with Python's and float32 numbers, and arrays of different ranks.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        compare(peers, point)


def test_keras(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    # Keras reads both on import, and writes a settings file into its home.
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    operations = pytest.importorskip("keras").ops

    def keras_pool(kind: str, x: jax.Array, point: Point) -> jax.Array:
        window = point.kernel, point.stride, point.padding.lower(), "channels_last"
        return getattr(operations, f"{kind}_pool")(x, *window)

    peers: dict[str, tuple[Pool, str]] = {
        "keras max": (lambda x, point: keras_pool("max", x, point), "max"),
        "keras avg": (lambda x, point: keras_pool("average", x, point), "avg of real cells"),
    }
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        for point in filter(takes_words, GRID):
            compare(peers, point)


def flax_average(x: jax.Array, kernel: int) -> jax.Array:
    return pooling.avg_pool(x[None, :, None], (kernel,), (kernel,))[0, :, 0]


def gradient(pool: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    return jax.grad(lambda x: pool(x).sum())


def reduced(x: jax.Array, kernel: int, stride: int, padding: tuple[int, int] = (0, 0)) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (kernel,), (stride,), [padding])


class Disagreement(NamedTuple):
    """An input, our pool and theirs, what is right, and why theirs is not."""

    x: np.ndarray
    ours: Callable[[jax.Array], jax.Array]
    theirs: Callable[[jax.Array], jax.Array]
    right: np.ndarray
    reason: str


DISAGREEMENTS = {
    "NaN": Disagreement(
        np.full(8192, np.nan, np.float32),
        lambda x: jaxpool.max_pool(x, (2,)),
        lambda x: reduced(x, 2, 2),
        np.full(4096, np.nan, np.float32),
        "on the CPU a non-overlapping reduce_window over 4096 elements and more drops NaN; all four frameworks use it",
    ),
    "gradient beside padding": Disagreement(
        np.full(3, -np.inf, np.float32),
        gradient(lambda x: jaxpool.max_pool(x, (2,), 1, ((1, 0),))),
        gradient(lambda x: reduced(x, 2, 1, (1, 0))),
        np.array([2, 1, 0], np.float32),
        "padding of -inf ties with cells of -inf, wins as the first, and takes the gradient with it",
    ),
    "half precision": Disagreement(
        np.ones(961, jnp.bfloat16),
        lambda x: jaxpool.avg_pool(x, (961,)),
        lambda x: flax_average(x, 961),
        np.ones(1, jnp.bfloat16),
        "sums of bfloat16 are rounded at every addition and stop growing at 256",
    ),
    "integers": Disagreement(
        np.full(4, 200, np.uint8),
        lambda x: jaxpool.avg_pool(x, (4,)),
        lambda x: flax_average(x, 4),
        np.full(1, 200, np.float32),
        "sums of small integers wrap",
    ),
    "ceil mode of averages": Disagreement(
        np.ones(3, np.float32),
        lambda x: jaxpool.avg_pool(x, (2,), ceil_mode=True),
        lambda x: equinox.nn.AvgPool1d(2, 2, use_ceil=True)(x[None])[0],
        np.ones(2, np.float32),
        "Equinox averages in zeros beyond the declared padding",
    ),
    "ceil mode with padding": Disagreement(
        np.arange(11, dtype=np.float32),
        lambda x: jaxpool.max_pool(x, (2,), padding=1, ceil_mode=True),
        lambda x: equinox.nn.MaxPool1d(2, 2, 1, use_ceil=True)(x[None])[0],
        np.array([0, 2, 4, 6, 8, 10], np.float32),
        "Equinox refuses the padding that it has enlarged itself",
    ),
}


@pytest.mark.parametrize("name", DISAGREEMENTS)
def test_known_disagreement(name: str) -> None:
    row, x = DISAGREEMENTS[name], jnp.asarray(DISAGREEMENTS[name].x)
    np.testing.assert_array_equal(row.ours(x), row.right)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        try:
            theirs = np.asarray(row.theirs(x))
        except RuntimeError:
            return
    if np.array_equal(theirs, row.right, equal_nan=True):
        pytest.skip(f"no disagreement any more, though the row says: {row.reason}")
