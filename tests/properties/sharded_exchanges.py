"""On eight virtual devices, run by `test_sharding`: what devices send each other is little more than has to be sent."""

import math
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import jaxpool
from tests.properties.sharded_values import (
    ANY,
    BATCH,
    BATCH_AND_POOLED,
    MESHES,
    POOLED,
    POOLS,
    Pool,
    X,
    bytes_sent,
    collectives,
    compare,
    mesh_of,
    value_and_gradient,
)
from tests.registry.records import RECORDS

pytestmark = pytest.mark.usefixtures("as_users_have_it")

SLOW = pytest.mark.slow
# Shards of 8 rows on 8 devices, so that windows reach no further than the next one.
LONGER = np.zeros((2, 64, 9, 8), np.float32)


class Exchange(NamedTuple):
    """A pool of windows along the first pooled axis, and the bytes of every window that its gradient reads."""

    pool: Pool
    kernel: int
    stride: int
    padding: int
    window_bytes: int


def exchange(name: str, kernel: int, stride: int, padding: int, window_bytes: int, *numbers: Any, **others: Any) -> Any:
    """The windows along the second pooled axis are of at most 3 cells."""
    sizes = {
        "kernel_size": (kernel, min(kernel, 3)),
        "stride": (stride, min(stride, 3)),
        "padding": (padding, min(padding, 1)),
    }
    pool = getattr(jaxpool, name)
    return Exchange(lambda x: pool(x, *numbers, **sizes, **others, axis=(1, 2)), kernel, stride, padding, window_bytes)


# For each window the gradient reads its cotangent, and the offset of its winner (of two for a median beside padding),
# its norm, its log-sum-exp as excess and shift, the shift and the denominator of its mean, or two norms, each with its
# cotangent.
WINDOW_BYTES = {"max_pool": 5, "min_pool": 5, "avg_pool": 4, "sum_pool": 4, "blur_pool": 4, "lp_pool": 8, "gem_pool": 8}
WINDOW_BYTES |= {"smooth_max_pool": 12, "mellowmax_pool": 12, "soft_pool": 16, "stochastic_pool": 16, "median_pool": 6}
EXCHANGES = {
    name: Exchange(partial(RECORDS[name].values, axis=(1, 2)), 3, 2, 1, window_bytes)
    for name, window_bytes in WINDOW_BYTES.items()
} | {
    "max 3/1": exchange("max_pool", 3, 1, 1, 5),
    "max 5/1": exchange("max_pool", 5, 1, 2, 5),
    "avg 4/2": exchange("avg_pool", 4, 2, 1, 4),
    "drawn": exchange("stochastic_pool", 3, 2, 1, 5, key=np.array([3, 7], np.uint32)),
    "padding left out": exchange("smooth_max_pool", 3, 2, 1, 12, 2.0, count_include_pad=False),
    "lp inf": exchange("lp_pool", 3, 2, 1, 5, math.inf),
    # Windows without padding, whose number the devices do not divide, and windows that cross shards without overlap.
    "max 3/1, no padding": exchange("max_pool", 3, 1, 0, 5),
    "lp 3/2, no padding": exchange("lp_pool", 3, 2, 0, 8, 2.5),
    "smooth 3/3": exchange("smooth_max_pool", 3, 3, 0, 12, 2.0),
    "soft 3/3": exchange("soft_pool", 3, 3, 0, 16, 2.0),
    "median 3/3": exchange("median_pool", 3, 3, 0, 5),
    "max 3/3": exchange("max_pool", 3, 3, 0, 5),
    "avg 3/3": exchange("avg_pool", 3, 3, 0, 4),
    # Windows of one and a half shards, of which all cells come back.
    "max 12/12": exchange("max_pool", 12, 12, 0, 48),
    # Along one axis after the other, and made of pieces.
    "smooth 9/1": exchange("smooth_max_pool", 9, 1, 4, 12, 2.0),
    "max 9/1": exchange("max_pool", 9, 1, 4, 5),
}


def border_bytes(exchange: Exchange, x: np.ndarray, devices: int) -> int:
    """The bytes of the cells of its neighbours that a device's windows hold, and of the windows that hold its cells."""
    shape = jax.eval_shape(exchange.pool, x).shape
    cells, windows = np.arange(x.shape[1]), np.arange(shape[1])[:, None]
    first = windows * exchange.stride - exchange.padding
    holds = (cells >= first) & (cells < first + exchange.kernel)

    def rows(reads: np.ndarray) -> int:
        """How many rows of the second kind those of the first kind read, on the devices below and above."""
        owners, sources = (np.arange(count) // -(-count // devices) for count in reads.shape)
        readers = np.array([reads[owners == device].any(0) for device in range(devices)])
        away = sources - np.arange(devices)[:, None]
        return sum(int((readers & side).sum(1).max()) for side in (away < 0, away > 0))

    window_bytes = exchange.window_bytes * math.prod(shape) // shape[1]
    return x.nbytes // x.shape[1] * rows(holds) + window_bytes * rows(holds.T)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "max_pool" else SLOW) for name in EXCHANGES])
def test_borders_are_sent_once(name: str) -> None:
    """At most one and a half times their bytes, in an explicit mesh: in an automatic one the compiler decides."""
    exchange, count = EXCHANGES[name], (8, 2, 4)[[*EXCHANGES].index(name) % 3]
    mesh, spec, cells = mesh_of(count, "Explicit"), POOLED, LONGER
    if count == 4:
        # Two devices along each of two axes, with half of the images.
        mesh, spec, cells, count = mesh_of((2, 2), "Explicit"), BATCH_AND_POOLED, LONGER[:1], 2
    x = jax.ShapeDtypeStruct(LONGER.shape, LONGER.dtype, sharding=NamedSharding(mesh, spec))
    values = jax.eval_shape(exchange.pool, cells)
    # Values that the devices do not divide come back whole, as the type of an explicit mesh says, in equal shares.
    rows = values.shape[1]
    whole = 0 if rows % count == 0 else 4 * values.size // rows * count * -(-rows // count)
    sent = bytes_sent(jax.jit(value_and_gradient(exchange.pool)).lower(x).compile().as_text() or "")
    assert 0 < sent <= 1.5 * border_bytes(exchange, cells, count) + whole


@SLOW
@pytest.mark.parametrize(("count", "kind"), MESHES)
@pytest.mark.parametrize("pool", [jaxpool.global_max_pool, jaxpool.global_avg_pool])
def test_whole_axes_are_combined_by_one_reduction(pool: Any, count: int, kind: str) -> None:
    """Of one number for each value."""
    x = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(mesh_of(count, kind), POOLED))
    program = jax.jit(partial(pool, axis=(1, 2))).lower(x).compile().as_text() or ""
    assert (len(collectives(program, ANY)), bytes_sent(program)) == (1, 4 * X.shape[0] * X.shape[3])


@SLOW
def test_page_says_what_is_sent() -> None:
    page = (Path(__file__).parents[2] / "docs" / "many_devices.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|.*\| `(.*)` \| ([\d.]+) \|$", page, re.MULTILINE)
    assert len(rows) > 9
    x = jax.ShapeDtypeStruct((2, 208, 16, 4), np.float32, sharding=NamedSharding(mesh_of(8, "Explicit"), POOLED))
    for call, said in rows:
        pool = eval(f"lambda x: {call}", {**vars(jaxpool), "jaxpool": jaxpool})
        program = jax.jit(value_and_gradient(pool)).lower(x).compile().as_text() or ""
        received = bytes_sent(program) / (4 * x.size / x.shape[1])
        assert f"{received:.{len(said.partition('.')[2])}f}" == said, call


@SLOW
def test_program_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "many_devices.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(compile(program, "many_devices.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)$", program, re.MULTILINE)


KERNEL = np.random.default_rng(3).normal(size=(3, 3, 8, 8)).astype(np.float32)
# What the array and the kernel are sharded along: data, tensor and fully sharded parallel.
LAYOUTS = {
    "data": (BATCH, PartitionSpec()),
    "tensor": (PartitionSpec(), PartitionSpec(None, None, None, "devices")),
    "fully sharded": (BATCH, PartitionSpec(None, None, "devices")),
}
# Explicit meshes have no convolution of a sharded kernel.
NETWORKS = [(*mesh, layout) for mesh in MESHES for layout in (LAYOUTS if "Auto" in mesh else ("data",))]


def network(pool: Pool, layout: str) -> Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
    """The gradients of a convolution, this pool, a square and the mean, for the array and the kernel.

    A kernel sharded by the channels that it reads needs an activation before the pool: without one, the compiler may
    shard a convolution's cotangent like the kernel, and then collects it, as it does for `jnp.mean` in place of a pool.
    """

    def loss(x: jax.Array, kernel: jax.Array) -> jax.Array:
        x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x) if layout == "fully sharded" else x
        return jnp.mean(jnp.square(pool(x)))

    return jax.grad(loss, (0, 1))


def on_mesh(pool: Pool, mesh: Mesh, layout: str) -> tuple[Any, list[jax.Array]]:
    """The compiled network, and the array and the kernel."""
    pairs = zip((X, KERNEL), LAYOUTS[layout], strict=True)
    arrays = [jax.device_put(array, NamedSharding(mesh, spec)) for array, spec in pairs]
    return jax.jit(network(pool, layout)).lower(*arrays).compile(), arrays


@cache
def sent_with_a_slice(count: int, kind: str, layout: str) -> int:
    """The bytes that the network sends with a strided slice in the pool's place."""
    return bytes_sent(on_mesh(lambda x: x[:, ::2, ::2], mesh_of(count, kind), layout)[0].as_text() or "")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ("max_pool", "lp_pool", "avg_pool") else SLOW) for name in POOLS]
)
def test_networks_send_no_more_than_with_a_slice(name: str) -> None:
    """No pooled axis is sharded, so a pool must not cause any communication."""
    count, kind, layout = NETWORKS[5 * [*POOLS].index(name) % len(NETWORKS)]
    compiled, arrays = on_mesh(POOLS[name], mesh_of(count, kind), layout)
    assert bytes_sent(compiled.as_text() or "") <= sent_with_a_slice(count, kind, layout)
    compare(compiled(*arrays), jax.jit(network(POOLS[name], layout))(X, KERNEL), f"{name}, {layout}", 2e-4, 1e-5)
