"""A separate program: networks with a pool, whose batch, channels or weights are sharded, beside those with a slice.

`python -m tests.properties.sharded_networks` needs XLA_FLAGS=--xla_force_host_platform_device_count=8 in its
environment. No pooled axis is sharded, so a pool must not cause any communication: the network sends not a byte more
than with a strided slice in the pool's place. By default each core gets one mesh and one layout in turn. With the
argument `all` every pool gets two of each, and gradients of weights and input are those of one device, with NaN among
the data.
"""

import sys
from collections.abc import Callable, Iterator
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from tests.properties.exchanges import bytes_sent
from tests.properties.sharded_pools import POOLS, QUICK, Pool, X

COUNTS = (2, 4, 8)
KERNEL = np.random.default_rng(3).normal(size=(3, 3, 8, 8)).astype(np.float32)
# What the array and the kernel are sharded along: data, tensor and fully sharded parallel.
BATCH = PartitionSpec("devices")
LAYOUTS = {
    "data": (BATCH, PartitionSpec()),
    "tensor": (PartitionSpec(), PartitionSpec(None, None, None, "devices")),
    "fully sharded": (BATCH, PartitionSpec(None, None, "devices")),
}


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


def strided(x: jax.Array) -> jax.Array:
    """The slice in the pool's place."""
    return x[:, ::2, ::2]


def programs(mesh: Mesh) -> Iterator[str]:
    """The layouts that the types of a mesh allow: explicit ones have no convolution of a sharded kernel."""
    yield from LAYOUTS if mesh.axis_types == (AxisType.Auto,) else ("data",)


def sharded(mesh: Mesh, layout: str) -> list[jax.Array]:
    """The array and the kernel."""
    return [
        jax.device_put(array, NamedSharding(mesh, spec))
        for array, spec in zip((X, KERNEL), LAYOUTS[layout], strict=True)
    ]


@cache
def sent_with_a_slice(mesh: Mesh, layout: str) -> int:
    """The bytes that the network sends with a slice."""
    program = jax.jit(network(strided, layout)).lower(*sharded(mesh, layout)).compile()
    return bytes_sent(program.as_text() or "")


@cache
def on_one_device(name: str, layout: str) -> tuple[jax.Array, jax.Array]:
    """The gradients without a mesh."""
    return jax.jit(network(POOLS[name], layout))(X, KERNEL)


def check(name: str, mesh: Mesh, layout: str, run: bool) -> None:
    """Compare what is sent with what a slice sends, and the gradients with those on one device."""
    arrays = sharded(mesh, layout)
    compiled = jax.jit(network(POOLS[name], layout)).lower(*arrays).compile()
    sent, most = bytes_sent(compiled.as_text() or ""), sent_with_a_slice(mesh, layout)
    assert sent <= most, (name, mesh, layout, sent, most)
    for one, other in zip(compiled(*arrays), on_one_device(name, layout), strict=True) if run else ():
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5, err_msg=f"{name}, {layout}")
    print(mesh.size, mesh.axis_types, layout, name, sent)


def main() -> None:
    """Some cores, on one mesh and in one layout, or with the argument `all` every pool on more."""
    meshes = {
        (count, kind): jax.make_mesh((count,), ("devices",), axis_types=(kind,))
        for count in COUNTS
        for kind in (AxisType.Auto, AxisType.Explicit)
    }
    every = [(mesh, layout) for mesh in meshes.values() for layout in programs(mesh)]
    run = sys.argv[1:] == ["all"]
    for number, name in enumerate(POOLS if run else QUICK):
        for mesh, layout in every[number % 6 :: 6] if run else [every[5 * number % len(every)]]:
            check(name, mesh, layout, run)


if __name__ == "__main__":
    main()
