"""The rows of the table of faults: inputs on which XLA, plain JAX or what is built on them is silently wrong.

A row says what is pooled, how, and what is shown: values, the gradient of their sum, or their change along a tangent.
The truth comes from the reference in `oracle`, in float64, and every other value from the named library, each time a
row is evaluated. Inputs are chosen so that the truth has no rounding and everything is compared exactly, and so that
averages with and without padding agree.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from tests.peers.platform_libraries import LIBRARIES
from tests.reference import oracle

Together = Callable[[jax.Array], list[jax.Array]]


@dataclass(frozen=True)
class Look:
    """What is shown of pools of one array, as computed by JAX, and by the reference for the last of them."""

    computed: Callable[[Together, jax.Array], Any]
    true: Callable[[oracle.Pooled], np.ndarray]


def counted(shape: tuple[int, ...]) -> np.ndarray:
    """The numbers 1, 2, 3 and so on, as tangents that tell which cell was read."""
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


VALUES = Look(lambda pools, x: pools(x), lambda pooled: pooled.values)
GRADIENT = Look(
    lambda pools, x: jax.grad(lambda x: pools(x)[-1].sum())(x),
    lambda pooled: pooled.backward(np.ones_like(pooled.values)),
)
TANGENT = Look(
    lambda pools, x: jax.jvp(pools, (x,), (jnp.asarray(counted(x.shape)),))[1],
    lambda pooled: pooled.forward(counted(pooled.input_shape)),
)


@dataclass(frozen=True)
class Row:
    """One fault: its pools read one array in one program, and the last of them is shown, at the place `shown`."""

    name: str
    cause: str
    x: np.ndarray
    pools: tuple[str, ...]
    arguments: dict[str, Any]
    look: Look = VALUES
    shown: Any = ...
    sharded: bool = False


@dataclass(frozen=True)
class Cell:
    """The result of one library as text, and whether it is right; None if there is nothing to judge."""

    text: str
    right: bool | None


def truth(row: Row) -> np.ndarray:
    """What the reference says."""
    return row.look.true(oracle.evaluate(row.pools[-1], row.x, **row.arguments))[row.shown]


def evaluate(row: Row, library: str) -> Cell:
    """What a library gives."""
    try:
        pools, around, inside = LIBRARIES[library]()
    except ImportError:
        return Cell("not installed", None)
    if not all(name in pools and takes(pools[name], row.arguments) for name in row.pools):
        return Cell("–", None)

    def together(x: jax.Array) -> list[jax.Array]:
        framed = around(x)
        return [inside(pools[name](framed, **row.arguments)) for name in row.pools]

    try:
        found = computed(row, together)
    except Exception as error:
        return Cell(type(error).__name__, None)
    return Cell(text(found), np.array_equal(found.astype(np.float64), truth(row), equal_nan=True))


def takes(pool: Callable[..., jax.Array], arguments: dict[str, Any]) -> bool:
    """Whether a pool has all of these arguments."""
    return arguments.keys() <= inspect.signature(pool).parameters.keys()


def computed(row: Row, together: Together) -> np.ndarray:
    """What pools give."""
    look = partial(row.look.computed, together)
    if row.sharded:
        # Only compiled programs are distributed over devices, and returning all results keeps all pools in the program.
        mesh = jax.make_mesh((4,), ("devices",), axis_types=(AxisType.Auto,))
        results = jax.jit(look)(jax.device_put(row.x, NamedSharding(mesh, PartitionSpec("devices"))))
    else:
        results = look(jnp.asarray(row.x))
    return np.asarray(jax.tree.leaves(results)[-1])[row.shown]


def text(values: np.ndarray) -> str:
    """As few digits as distinguish a float32 from the next one."""
    numbers = [np.format_float_positional(np.float32(value), trim="-") for value in np.ravel(values)]
    return numbers[0] if len(numbers) == 1 else f"[{' '.join(numbers)}]"


def windows(*kernel_size: int, stride: int | None = None, padding: str = "VALID", **options: Any) -> dict[str, Any]:
    """The arguments of pools over windows; blocks unless a stride is given."""
    strides = kernel_size if stride is None else (stride,) * len(kernel_size)
    return {"kernel_size": kernel_size, "stride": strides, "padding": padding, **options}


def with_nan() -> np.ndarray:
    """Enough zeros to make the compiler choose the loops that drop NaN, and a NaN in the first 2×2 block."""
    x = np.zeros((64, 64), np.float32)
    x[1, 1] = np.nan
    return x


NAN_DROPPED = "from 4096 cells on, maxima over windows without overlap and over whole axes drop NaN on the CPU"
NEIGHBOURS = "what shards fetch from their neighbours for one pool is reused for the next with the padding of the first"
NO_WINNER = "forward mode starts from a pair of -inf and tangent 0, which ties with cells of -inf and wins"

ROWS = (
    Row("max 2×2, one NaN", NAN_DROPPED, with_nan(), ("max_pool",), windows(2, 2), shown=(0, 0)),
    Row(
        "max 2×2, all NaN",
        NAN_DROPPED,
        np.full((64, 64), np.nan, np.float32),
        ("max_pool",),
        windows(2, 2),
        shown=(0, 0),
    ),
    Row(
        "adaptive max, one NaN", NAN_DROPPED, with_nan(), ("adaptive_max_pool",), {"output_size": (4, 4)}, shown=(0, 0)
    ),
    Row("global max, one NaN", NAN_DROPPED, with_nan(), ("global_max_pool",), {"axis": (0, 1)}),
    Row(
        "gradient of max, NaN wins",
        "the value is NaN, and the gradient goes to a cell that is not",
        np.array([1, np.nan, 3, 2], np.float32),
        ("max_pool",),
        windows(4),
        GRADIENT,
    ),
    Row(
        "gradient of max, -inf by padding",
        "padding of -inf ties with cells of -inf, wins as the first, and takes the gradient with it",
        np.full(3, -np.inf, np.float32),
        ("max_pool",),
        windows(3, stride=1, padding="SAME"),
        GRADIENT,
    ),
    Row("JVP of max, -inf", NO_WINNER, np.full(4, -np.inf, np.float32), ("max_pool",), windows(2), TANGENT),
    Row(
        "JVP of max, ties by padding",
        "with padding, forward mode takes another winner among ties than reverse mode does",
        np.array([[0, 1], [1, 1]], np.float32),
        ("max_pool",),
        windows(2, 2, stride=1, padding="SAME"),
        TANGENT,
        shown=0,
    ),
    Row(
        "average 31×31, bfloat16 ones",
        "sums of bfloat16 are rounded at every addition and stop growing at 256",
        np.ones((31, 31), jnp.bfloat16),
        ("avg_pool",),
        windows(31, 31),
    ),
    Row(
        "average 2×2, float16 60000s",
        "the sum is beyond the largest number of float16, though the average is not",
        np.full((2, 2), 60000, np.float16),
        ("avg_pool",),
        windows(2, 2),
    ),
    Row(
        "average 2×2, uint8 200s",
        "sums of small integers wrap, as documented",
        np.full((2, 2), 200, np.uint8),
        ("avg_pool",),
        windows(2, 2),
    ),
    Row(
        "average of 7 cells, all 3",
        "division by a number becomes multiplication by its rounded reciprocal",
        np.full(70, 3, np.float32),
        ("avg_pool",),
        windows(7),
        shown=0,
    ),
    Row(
        "adaptive average, 14 to 7",
        "edges of bins are computed by that division, and rounded up to a cell too many",
        np.arange(14, dtype=np.float32),
        ("adaptive_avg_pool",),
        {"output_size": (7,)},
        shown=slice(-2, None),
    ),
    Row(
        "average of ones, ceil mode",
        "zeros that no padding declares are averaged in",
        np.ones(3, np.float32),
        ("avg_pool",),
        windows(2, ceil_mode=True),
    ),
    Row(
        "gradient of max, sharded",
        "the gradient of the first shard is shifted by as many cells as windows overlap",
        np.tile(np.array([0, 3, 1, 0], np.float32), 4),
        ("max_pool",),
        windows(3, stride=1, padding="SAME"),
        GRADIENT,
        shown=slice(4),
        sharded=True,
    ),
    Row(
        "average with max, sharded",
        NEIGHBOURS,
        np.tile(np.array([3, -3], np.float32), 16),
        ("max_pool", "avg_pool"),
        windows(3, stride=1, padding="SAME"),
        shown=slice(3),
        sharded=True,
    ),
    Row(
        "min with max, sharded",
        NEIGHBOURS,
        np.arange(32, dtype=np.float32),
        ("max_pool", "min_pool"),
        windows(3, stride=1, padding="SAME"),
        shown=slice(3),
        sharded=True,
    ),
)
