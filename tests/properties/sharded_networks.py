"""A separate program: networks with a pool, whose batch, channels or weights are sharded, beside those with a slice.

`python -m tests.properties.sharded_networks` needs XLA_FLAGS=--xla_force_host_platform_device_count=8 in its
environment. No pooled axis is sharded, so a pool must not cause any communication: the network sends not a byte more
than with a strided slice in the pool's place. Gradients of weights and input are those of one device, with NaN among
the data. By default each pool gets one number of devices, and with the argument `all` each of them.
"""

import sys
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from tests.properties.exchanges import bytes_sent
from tests.properties.sharded_pools import POOLS, Pool, X

COUNTS = (2, 4, 8)
KERNEL = np.random.default_rng(3).normal(size=(3, 3, 8, 8)).astype(np.float32)
NAN = np.where(np.random.default_rng(4).random(X.shape) < 1e-3, np.nan, X).astype(np.float32)
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


def check(name: str, mesh: Mesh, layout: str) -> None:
    """Compare the gradients with those on one device, and what is sent with what a slice sends."""
    arrays = [
        jax.device_put(array, NamedSharding(mesh, spec))
        for array, spec in zip((NAN, KERNEL), LAYOUTS[layout], strict=True)
    ]
    compiled, least = (jax.jit(network(pool, layout)).lower(*arrays).compile() for pool in (POOLS[name], strided))
    sent, most = (bytes_sent(program.as_text() or "") for program in (compiled, least))
    assert sent <= most, (name, mesh, layout, sent, most)
    for one, other in zip(compiled(*arrays), jax.jit(network(POOLS[name], layout))(NAN, KERNEL), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5, err_msg=f"{name}, {layout}")
    print(mesh.size, mesh.axis_types, layout, name, sent)


def main() -> None:
    """Every pool in every layout, on one number of devices or, with the argument `all`, on all of them."""
    for number, name in enumerate(POOLS):
        for count in COUNTS if sys.argv[1:] == ["all"] else COUNTS[number % len(COUNTS) :][:1]:
            for kind in (AxisType.Auto, AxisType.Explicit):
                mesh = jax.make_mesh((count,), ("devices",), axis_types=(kind,))
                for layout in programs(mesh):
                    check(name, mesh, layout)


if __name__ == "__main__":
    main()
