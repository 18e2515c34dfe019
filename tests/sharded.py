"""A program of its own: pools of arrays that lie on four virtual devices, against the same on one.

`python -m tests.sharded` needs XLA_FLAGS=--xla_force_host_platform_device_count=4 in its environment. Values and
gradients must be equal, stay sharded as the input is, and be had without communication: batch and channels are sharded,
in meshes with automatic and with explicit axes.
"""

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from jaxpool import (
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool,
    global_avg_pool,
    global_max_pool,
    lp_pool,
    max_pool,
    max_pool_with_indices,
    max_unpool,
    smooth_max_pool,
)

MASK = np.random.default_rng(1).random((8, 10, 9, 1)) < 0.7
SLIDING: dict[str, Any] = {"kernel_size": 3, "stride": 2, "padding": 1, "axis": (1, 2)}
BINS: dict[str, Any] = {"output_size": (4, 3), "axis": (1, 2)}

POOLS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "max_pool": lambda x: max_pool(x, **SLIDING),
    "max_pool masked": lambda x: max_pool(x, **SLIDING, where=MASK),
    "max_pool of blocks": lambda x: max_pool(x, (5, 3), axis=(1, 2)),
    "avg_pool": lambda x: avg_pool(x, **SLIDING, where=MASK),
    "lp_pool": lambda x: lp_pool(x, 3.0, **SLIDING),
    "smooth_max_pool": lambda x: smooth_max_pool(x, 2.0, **SLIDING, where=MASK),
    "adaptive_max_pool": lambda x: adaptive_max_pool(x, **BINS),
    "adaptive_avg_pool": lambda x: adaptive_avg_pool(x, **BINS),
    "global_max_pool": lambda x: global_max_pool(x, axis=(1, 2)),
    "global_avg_pool": lambda x: global_avg_pool(x, axis=(1, 2), where=MASK),
    "max_unpool": lambda x: max_unpool(*max_pool_with_indices(x, 2, axis=(1, 2)), (10, 9), axis=(1, 2)),
}
# Of anything but the bools of a mask, which is not sharded itself, and which the oldest JAX brings together again.
COLLECTIVES = r"= (?!pred).*? (?:all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)"


def check(name: str, x: np.ndarray, mesh: jax.sharding.Mesh, spec: PartitionSpec) -> None:
    """Hold values and gradient of one pool on the mesh to those on one device."""

    def value_and_gradient(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        values, pull_back = jax.vjp(POOLS[name], x)
        return values, pull_back(values)[0]

    expected = jax.jit(value_and_gradient)(x)
    with jax.set_mesh(mesh):
        sharded = jax.device_put(x, NamedSharding(mesh, spec))
        compiled = jax.jit(value_and_gradient).lower(sharded).compile()
        found = compiled(sharded)
    assert not re.findall(COLLECTIVES, compiled.as_text() or ""), name
    for one, other in zip(found, expected, strict=True):
        assert one.sharding.is_equivalent_to(NamedSharding(mesh, spec), one.ndim), name
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6, err_msg=name)


def main() -> None:
    """Every pool, by batch and by channel, on both kinds of meshes."""
    x = np.random.default_rng(0).normal(size=(8, 10, 9, 4)).astype(np.float32)
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = jax.make_mesh((4,), ("devices",), axis_types=(kind,))
        for spec in (PartitionSpec("devices"), PartitionSpec(None, None, None, "devices")):
            for name in POOLS:
                check(name, x, mesh, spec)
                print(kind, spec, name)


if __name__ == "__main__":
    main()
