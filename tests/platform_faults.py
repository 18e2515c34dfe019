"""The table of faults as a program: where XLA on the CPU, plain JAX and the frameworks are silently wrong today.

`python -m tests.platform_faults` evaluates every row and prints the table of docs/conformance.md for what is installed:
the truth, which the reference computes in float64, and the result of each library, with ✗ at wrong values, ≈ at those
that are only less exact or as documented, and – where a library has no such pool. Causes and versions follow. Inputs
are chosen so that the truth has no rounding, and so that averages with and without padding agree.
"""

import argparse
import inspect
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxpool
from tests.reference import oracle

Pool = Callable[..., jax.Array]
PACKAGES = ("jax", "jaxlib", "numpy", "flax", "dm-haiku", "equinox", "keras")


def plain_jax() -> dict[str, Pool]:
    """What JAX has itself: reduce_window for windows, jnp.max for whole axes."""

    def windows(initial: float, operation: Any) -> Pool:
        return lambda x, kernel_size, stride, padding: lax.reduce_window(
            x, initial, operation, kernel_size, stride, padding
        )

    sums = windows(0.0, lax.add)
    return {
        "max_pool": windows(-np.inf, lax.max),
        "min_pool": windows(np.inf, lax.min),
        "avg_pool": lambda x, kernel_size, stride, padding: (
            sums(x, kernel_size, stride, padding) / math.prod(kernel_size)
        ),
        "global_max_pool": lambda x, axis: jnp.max(x, axis, keepdims=True),
    }


def framed(pool: Pool) -> Pool:
    """A pool of an array with axes of batch and channels, for one without."""
    return lambda x, *arguments, **named: pool(x[None, ..., None], *arguments, **named)[0, ..., 0]


def flax() -> dict[str, Pool]:
    def windows(pool: Pool) -> Pool:
        return lambda x, kernel_size, stride, padding: framed(pool)(x, kernel_size, stride, padding)

    pools = import_module("flax.linen.pooling")
    return {name: windows(getattr(pools, name)) for name in ("max_pool", "min_pool", "avg_pool")}


def haiku() -> dict[str, Pool]:
    def windows(pool: Pool) -> Pool:
        # Entries for the axes around the pooled ones, too.
        return lambda x, kernel_size, stride, padding: framed(pool)(x, (1, *kernel_size, 1), (1, *stride, 1), padding)

    return {name: windows(getattr(import_module("haiku"), name)) for name in ("max_pool", "avg_pool")}


def equinox() -> dict[str, Pool]:
    """Layers by the number of pooled axes, with channels first and no batch; their padding is given in numbers."""
    layers = import_module("equinox").nn

    def windows(kind: str) -> Pool:
        def pool(x: jax.Array, kernel_size: Any, stride: Any, padding: str, ceil_mode: bool = False) -> jax.Array:
            pairs = lax.padtype_to_pads(x.shape, kernel_size, stride, padding)
            return getattr(layers, f"{kind}Pool{x.ndim}d")(kernel_size, stride, pairs, ceil_mode)(x[None])[0]

        return pool

    def bins(kind: str) -> Pool:
        return lambda x, output_size: getattr(layers, f"Adaptive{kind}Pool{x.ndim}d")(output_size)(x[None])[0]

    pools = {"max_pool": windows("Max"), "avg_pool": windows("Avg"), "adaptive_max_pool": bins("Max")}
    whole = {"global_max_pool": lambda x, axis: bins("Max")(x, (1,) * len(axis))}
    return {**pools, "adaptive_avg_pool": bins("Avg"), **whole}


def keras() -> dict[str, Pool]:
    """Operations, and a layer by the number of pooled axes for the maximum of whole ones."""
    library = import_module("keras")

    def windows(pool: Pool) -> Pool:
        return lambda x, kernel_size, stride, padding: framed(pool)(
            x, kernel_size, stride, padding.lower(), "channels_last"
        )

    def bins(pool: Pool) -> Pool:
        return lambda x, output_size: framed(pool)(x, output_size, data_format="channels_last")

    def whole(x: jax.Array, axis: tuple[int, ...]) -> jax.Array:
        layer = getattr(library.layers, f"GlobalMaxPooling{len(axis)}D")
        return framed(layer(data_format="channels_last", keepdims=True))(x)

    pools = {"max_pool": windows(library.ops.max_pool), "avg_pool": windows(library.ops.average_pool)}
    pools |= {"adaptive_max_pool": bins(library.ops.adaptive_max_pool), "global_max_pool": whole}
    return {**pools, "adaptive_avg_pool": bins(library.ops.adaptive_average_pool)}


def ours() -> dict[str, Pool]:
    """The functions of jaxpool as they are."""
    return {name: pool for name, pool in vars(jaxpool).items() if name.endswith("_pool")}


# The pools of each library for an array of pooled axes alone, by the names of jaxpool and with its arguments.
_FRAMEWORKS = {"Flax": flax, "Haiku": haiku, "Equinox": equinox, "Keras": keras}
LIBRARIES: dict[str, Callable[[], dict[str, Pool]]] = {"plain JAX": plain_jax, **_FRAMEWORKS, "jaxpool": ours}


@dataclass(frozen=True)
class Row:
    """One fault: its pools read one array in one program, and the last of them is shown, at the place `shown`."""

    name: str
    cause: str
    x: np.ndarray
    pools: str
    arguments: dict[str, Any]
    look: Literal["values", "gradient", "tangent"] = "values"
    shown: Any = ...
    sharded: bool = False
    mark: str = "✗"

    @property
    def tangent(self) -> np.ndarray:
        """The numbers 1, 2, 3 and so on, which tell which cell was read."""
        return np.arange(1, self.x.size + 1, dtype=np.float32).reshape(self.x.shape)

    @property
    def truth(self) -> np.ndarray:
        """What the reference says."""
        pooled = oracle.evaluate(self.pools.split()[-1], self.x, **self.arguments)
        if self.look == "tangent":
            return pooled.forward(self.tangent)[self.shown]
        return (pooled.values if self.look == "values" else pooled.backward(np.ones_like(pooled.values)))[self.shown]

    def found(self, pools: dict[str, Pool]) -> np.ndarray:
        """What the pools of a library give."""

        def together(x: jax.Array) -> list[jax.Array]:
            return [pools[name](x, **self.arguments) for name in self.pools.split()]

        def look(x: jax.Array) -> Any:
            if self.look == "gradient":
                return jax.grad(lambda x: together(x)[-1].sum())(x)
            return together(x) if self.look == "values" else jax.jvp(together, (x,), (jnp.asarray(self.tangent),))[1]

        if self.sharded:
            # Only compiled programs are distributed over devices, and returning all results keeps all pools in them.
            mesh = jax.make_mesh((4,), ("devices",), axis_types=(AxisType.Auto,))
            results = jax.jit(look)(jax.device_put(self.x, NamedSharding(mesh, PartitionSpec("devices"))))
        else:
            results = look(jnp.asarray(self.x))
        return np.asarray(jax.tree.leaves(results)[-1])[self.shown]

    def cell(self, library: str) -> str:
        """The result of one library as text, marked if it is not right."""
        try:
            pools = LIBRARIES[library]()
        except ImportError:
            return "not installed"
        for name in self.pools.split():
            if name not in pools or not self.arguments.keys() <= inspect.signature(pools[name]).parameters.keys():
                return "–"
        try:
            found = self.found(pools)
        except Exception as error:
            return type(error).__name__
        right = np.array_equal(found.astype(np.float64), self.truth, equal_nan=True)
        return text(found) if right else f"{self.mark} {text(found)}"


def text(values: np.ndarray) -> str:
    """As few digits as distinguish a float32 from the next one."""
    numbers = [np.format_float_positional(np.float32(value), trim="-") for value in np.ravel(values)]
    return numbers[0] if len(numbers) == 1 else f"[{' '.join(numbers)}]"


def windows(*kernel_size: int, stride: int | None = None, padding: str = "VALID", **options: Any) -> dict[str, Any]:
    """The arguments of pools over windows; blocks unless a stride is given."""
    strides = kernel_size if stride is None else (stride,) * len(kernel_size)
    return {"kernel_size": kernel_size, "stride": strides, "padding": padding, **options}


def floats(*cells: float) -> np.ndarray:
    """A float32 array of one axis."""
    return np.array(cells, np.float32)


def with_nan() -> np.ndarray:
    """Enough zeros to make the compiler choose the loops that drop NaN, and a NaN in the first 2×2 block."""
    x = np.zeros((64, 64), np.float32)
    x[1, 1] = np.nan
    return x


SAME, SQUARES = windows(3, stride=1, padding="SAME"), windows(2, 2, stride=1, padding="SAME")
DROPPED = "from 4096 cells on, maxima over windows without overlap and over whole axes drop NaN on the CPU"
NAN_WINS = "the value is NaN, and the gradient goes to a cell that is not"
PADDING = "padding of -inf ties with cells of -inf, wins as the first, and takes the gradient with it"
NO_WINNER = "forward mode starts from a pair of -inf and tangent 0, which ties with cells of -inf and wins"
TWO_MODES = "with padding, forward mode takes another winner among ties than reverse mode does"
ROUNDED = "sums of bfloat16 are rounded at every addition and stop growing at 256"
OVERFLOW = "the sum is beyond the largest number of float16, though the average is not"
WRAPPED = "sums of small integers wrap, as documented"
DIVIDED = "division by a number becomes multiplication by its rounded reciprocal"
EDGES = "edges of bins are computed by that division, and rounded up to a cell too many"
CEILING = "zeros that no padding declares are averaged in"
SHIFTED = "the gradient of the first shard is shifted by as many cells as windows overlap"
NEIGHBOURS = "what shards fetch from their neighbours for one pool is reused for the next with the padding of the first"

ONES, TIES, CELLS = np.ones((31, 31), jnp.bfloat16), floats(0, 1, 1, 1).reshape(2, 2), floats(*range(32))
WINNERS, WAVES = np.tile(floats(0, 3, 1, 0), 4), np.tile(floats(3, -3), 16)
ROWS = (
    Row("max 2×2, one NaN", DROPPED, with_nan(), "max_pool", windows(2, 2), shown=(0, 0)),
    Row("max 2×2, all NaN", DROPPED, with_nan() * np.nan, "max_pool", windows(2, 2), shown=(0, 0)),
    Row("adaptive max, one NaN", DROPPED, with_nan(), "adaptive_max_pool", {"output_size": (4, 4)}, shown=(0, 0)),
    Row("global max, one NaN", DROPPED, with_nan(), "global_max_pool", {"axis": (0, 1)}),
    Row("gradient of max, NaN wins", NAN_WINS, floats(1, np.nan, 3, 2), "max_pool", windows(4), "gradient"),
    Row("gradient of max, -inf by padding", PADDING, floats(*[-np.inf] * 3), "max_pool", SAME, "gradient"),
    Row("JVP of max, -inf", NO_WINNER, floats(*[-np.inf] * 4), "max_pool", windows(2), "tangent"),
    Row("JVP of max, ties by padding", TWO_MODES, TIES, "max_pool", SQUARES, "tangent", shown=0),
    Row("average 31×31, bfloat16 ones", ROUNDED, ONES, "avg_pool", windows(31, 31)),
    Row("average 2×2, float16 60000s", OVERFLOW, np.full((2, 2), 60000, np.float16), "avg_pool", windows(2, 2)),
    Row("average 2×2, uint8 200s", WRAPPED, np.full((2, 2), 200, np.uint8), "avg_pool", windows(2, 2), mark="≈"),
    Row("average of 7 cells, all 3", DIVIDED, floats(*[3] * 70), "avg_pool", windows(7), shown=0, mark="≈"),
    Row("adaptive average, 14 to 7", EDGES, CELLS[:14], "adaptive_avg_pool", {"output_size": (7,)}, shown=[-2, -1]),
    Row("average of ones, ceil mode", CEILING, floats(1, 1, 1), "avg_pool", windows(2, ceil_mode=True)),
    Row("gradient of max, sharded", SHIFTED, WINNERS, "max_pool", SAME, "gradient", shown=slice(4), sharded=True),
    Row("average with max, sharded", NEIGHBOURS, WAVES, "max_pool avg_pool", SAME, shown=slice(3), sharded=True),
    Row("min with max, sharded", NEIGHBOURS, CELLS, "max_pool min_pool", SAME, shown=slice(3), sharded=True),
)


def table(libraries: Sequence[str]) -> str:
    """The table of docs/conformance.md, with one version of JAX, the causes and the versions of packages."""
    titles = ["", "true", *libraries]
    lines = [[row.name, text(row.truth), *(row.cell(library) for library in libraries)] for row in ROWS]
    causes: dict[str, list[str]] = {}
    for row in ROWS:
        causes.setdefault(row.cause, []).append(row.name)
    notes = [f"{'; '.join(names)}: {cause}." for cause, names in causes.items()]
    installed = {one.metadata["Name"].lower(): one.version for one in metadata.distributions()}
    versions = ", ".join(f"{name} {installed[name]}" if name in installed else f"no {name}" for name in PACKAGES)
    printed = [f"| {' | '.join(line)} |" for line in (titles, *lines)]
    printed.insert(1, "|" + "---|" * len(titles))
    return "\n".join([*printed, "", *notes, "", f"Made with {versions}."])


def main() -> None:
    """Print the table for the libraries that are asked for, or for all."""
    parser = argparse.ArgumentParser(prog="python -m tests.platform_faults", description=__doc__)
    parser.add_argument("--library", action="append", help="one of the libraries alone, or several")
    libraries = parser.parse_args().library or list(LIBRARIES)
    # Rows that are sharded need four devices. Keras writes a settings file into its home when it is imported.
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 4)
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"KERAS_BACKEND": "jax", "KERAS_HOME": home}
        print(table(libraries))


if __name__ == "__main__":
    main()
