"""A separate program: pools of arrays on several virtual devices, against the same on one.

`python -m tests.properties.sharded` needs XLA_FLAGS=--xla_force_host_platform_device_count=4 in its environment, and
`python -m tests.properties.sharded COUNT TYPE` as many devices, for a mesh whose axis has that type, Auto or Explicit.
Instead of these arguments, `whole` and `drawn` run known errors and refusals. Values and gradients must be equal to
those on one device. If batch or channels are sharded they must need no communication, and if a pooled axis is, only
exchange between neighbours: no shard collects the others' cells.
"""

import itertools
import re
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import jaxpool
from tests.properties.exchanges import ANY, EXCHANGES, Exchange, border_bytes, bytes_sent
from tests.properties.sharded_pools import (
    ANYWHERE,
    BETA,
    COLLECTED,
    DRAWN,
    LONGER,
    ON_SPECIAL,
    POOLS,
    SLIDING,
    SPECIAL,
    UNEVEN,
    Pool,
    X,
)
from tests.registry.records import RECORDS

BATCH, POOLED, CHANNEL = (PartitionSpec(*(None,) * axis, "devices") for axis in (0, 1, 3))
# On a mesh of two axes, for programs in which neither may cause communication.
BATCH_AND_CHANNEL = PartitionSpec("devices", None, None, "others")
COLLECTING = "all-gather|all-to-all"


def collectives(program: str, kinds: str) -> list[str]:
    """The operations in a compiled program that move data between devices.

    The bools of a mask are exempt: the mask is not sharded itself, and the oldest supported JAX collects it again.
    """
    return re.findall(rf"= (?!pred).*? (?:{kinds})(?:-start)?\(", program)


def value_and_gradient(pool: Pool) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """The values, and the gradient of half the sum of their squares: every output has a different cotangent."""

    def both(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        values, pull_back = jax.vjp(pool, x)
        return values, pull_back(values)[0]

    return both


@cache
def expected(pool: Pool) -> tuple[jax.Array, jax.Array]:
    """The result on one device."""
    return jax.jit(value_and_gradient(pool))(X)


def check(name: str, pool: Pool, mesh: Mesh, spec: PartitionSpec, forbidden: str | None) -> None:
    """Compare values and gradient on the mesh with those on one device, and check for forbidden collectives."""
    with jax.set_mesh(mesh):
        sharding = NamedSharding(mesh, spec)
        sharded = jax.device_put(X, sharding)
        compiled = jax.jit(value_and_gradient(pool)).lower(sharded).compile()
        found = compiled(sharded)
    if forbidden is not None:
        assert not collectives(compiled.as_text() or "", forbidden), name
    # The bins of the records are four.
    over_shards = name.startswith("global") or (name.startswith("adaptive") and mesh.size > 4)
    if not (spec == POOLED and (forbidden is None or over_shards)):
        # Windows over several shards, and the cotangents spread from them, belong to no single shard.
        assert found[1].sharding.is_equivalent_to(sharding, X.ndim), name
    for one, other in zip(found, expected(pool), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6, err_msg=name)
    print(mesh.axis_types, spec, name)


def check_single_exchange(mesh: Mesh) -> None:
    """Check that devices combine a pool of all cells by one reduction of one number for each of its values."""
    x = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(mesh, POOLED))
    for pool in (jaxpool.global_max_pool, jaxpool.global_avg_pool):
        program = jax.jit(partial(pool, axis=(1, 2))).lower(x).compile().as_text() or ""
        values = X.shape[0] * X.shape[3]
        assert (len(collectives(program, ANY)), bytes_sent(program)) == (1, 4 * values), pool
    print(mesh.axis_types, "one exchange")


def check_borders(name: str, exchange: Exchange, mesh: Mesh) -> None:
    """Check that devices send each other at most one and a half times the borders that windows cross."""
    x = jax.ShapeDtypeStruct(LONGER.shape, LONGER.dtype, sharding=NamedSharding(mesh, POOLED))
    both = value_and_gradient(exchange.pool)
    values = jax.eval_shape(exchange.pool, LONGER)
    # Values that the devices do not divide come back whole, as the type of an explicit mesh says.
    whole = 0 if values.shape[1] % mesh.size == 0 else 4 * values.size
    sent = bytes_sent(jax.jit(both).lower(x).compile().as_text() or "")
    most = 1.5 * border_bytes(exchange, LONGER, mesh.size) + whole
    assert 0 < sent <= most, (name, sent, most)
    print(mesh.axis_types, "borders", name)


def check_special(name: str, pool: Callable[[jax.Array], Any], mesh: Mesh) -> None:
    """Check that indices, special values and higher derivatives along a sharded axis are those of one device."""
    with jax.set_mesh(mesh):
        found = jax.jit(pool)(jax.device_put(SPECIAL, NamedSharding(mesh, POOLED)))
    for one, other in zip(*map(jax.tree.leaves, (found, jax.jit(pool)(SPECIAL))), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, err_msg=name)
    print(mesh.axis_types, "special", name)


def check_inside_shard_map(name: str, pool: Pool, mesh: Mesh) -> None:
    """The same by `jax.shard_map`, whose types say what varies over devices; differentiated inside and outside."""

    @jax.jit
    def by_shard_map(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        inside = jax.shard_map(value_and_gradient(pool), mesh=mesh, in_specs=BATCH, out_specs=BATCH)(x)
        outside = value_and_gradient(jax.shard_map(pool, mesh=mesh, in_specs=BATCH, out_specs=BATCH))(x)
        return *inside, outside[1]

    for one, other in zip(by_shard_map(X), (*expected(pool), expected(pool)[1]), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6, err_msg=name)
    print("shard_map", name)


def check_shared_parameter(rule: Literal["jvp", "vjp"], mesh: Mesh) -> None:
    """The gradient of a parameter that all devices share is a sum over the devices."""

    def loss(x: jax.Array, p: jax.Array) -> jax.Array:
        return (jaxpool.lp_pool(x, p, **SLIDING, rule=rule) ** 2).sum()

    def local(x: jax.Array, p: jax.Array) -> jax.Array:
        return jax.lax.psum(loss(x, p), "devices")

    shared = jax.shard_map(local, mesh=mesh, in_specs=(BATCH, PartitionSpec()), out_specs=PartitionSpec())
    here, there = (jax.jit(jax.grad(function, 1))(X, 1 + BETA) for function in (loss, shared))
    np.testing.assert_allclose(there, here, rtol=2e-5)
    print("shard_map", rule)


def check_boxes(name: str, mesh: Mesh) -> None:
    """Boxes of every image of a sharded batch, by `jax.vmap`."""
    boxes = np.random.default_rng(2).uniform(-1, 30, (8, 3, 4)).astype(np.float32)

    def both(x: jax.Array, boxes: jax.Array) -> tuple[jax.Array, jax.Array]:
        pool = jax.vmap(lambda x, boxes: getattr(jaxpool, name)(x, boxes, 2, axis=(0, 1)))
        return value_and_gradient(lambda x: pool(x, boxes))(x)

    with jax.set_mesh(mesh):
        sharded = [jax.device_put(array, NamedSharding(mesh, BATCH)) for array in (X, boxes)]
        found = jax.jit(both)(*sharded)
    for one, other in zip(found, jax.jit(both)(X, boxes), strict=True):
        assert one.sharding.is_equivalent_to(NamedSharding(mesh, BATCH), one.ndim), name
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6, err_msg=name)
    print(mesh.axis_types, "vmap", name)


def check_everywhere(mesh: Mesh) -> None:
    """Every pool sharded by batch, channel and pooled axis, with one program for each, and what devices exchange."""
    for name, pool in POOLS.items():
        check(name, pool, mesh, BATCH, ANY)
        check(name, pool, mesh, CHANNEL, ANY)
        check_pooled(name, pool, mesh)
    for name, pool in UNEVEN.items():
        check(name, pool, mesh, POOLED, None)
    check_exchanges(mesh.size)
    check_single_exchange(mesh)


def check_exchanges(count: int) -> None:
    """Check what so many devices exchange in an explicit mesh: in an automatic one the compiler decides."""
    mesh = jax.make_mesh((count,), ("devices",), axis_types=(AxisType.Explicit,))
    for name, exchange in EXCHANGES.items():
        check_borders(name, exchange, mesh)
    for name, pool in ON_SPECIAL.items():
        check_special(name, pool, mesh)


def check_pooled(name: str, pool: Pool, mesh: Mesh) -> None:
    """Shard a pool by the first of its pooled axes."""
    # On an automatic mesh the compiler may collect an array for windows that cross shards, such as these bins.
    automatic = AxisType.Auto in mesh.axis_types
    crossing = automatic and name.startswith("adaptive") and mesh.size != 4
    collects = name in (*ANYWHERE, *COLLECTED) or crossing
    check(name, pool, mesh, POOLED, None if collects else COLLECTING)


def check_in_every_way() -> None:
    """On four devices: every pool with automatic axes, each function once with explicit ones."""
    line, square, explicit = (
        jax.make_mesh(sizes, names, axis_types=(kind,) * len(sizes))
        for sizes, names, kind in (
            ((4,), ("devices",), AxisType.Auto),
            ((2, 2), ("devices", "others"), AxisType.Auto),
            ((2, 2), ("devices", "others"), AxisType.Explicit),
        )
    )
    for name, pool in POOLS.items():
        check(name, pool, square, BATCH_AND_CHANNEL, ANY)
        check_pooled(name, pool, line)
        check_inside_shard_map(name, pool, line)
        if name in RECORDS:
            check(name, pool, explicit, BATCH_AND_CHANNEL, ANY)
    for name, pool in UNEVEN.items():
        check(name, pool, line, POOLED, None)
        check(name, pool, explicit, POOLED, None)
    check_exchanges(4)
    for kind, count in itertools.product((AxisType.Auto, AxisType.Explicit), (2, 4)):
        check_single_exchange(jax.make_mesh((count,), ("devices",), axis_types=(kind,)))
    for mesh in (line, explicit):
        check("stochastic_pool drawn", DRAWN, mesh, BATCH, ANY)
    for rule in ("jvp", "vjp"):
        check_shared_parameter(rule, line)
    for name in ("roi_align", "roi_pool"):
        check_boxes(name, explicit)


def main() -> None:
    """Each pool in every way once, or axis by axis on a mesh with this many devices and axes of this type."""
    if len(sys.argv) == 1:
        check_in_every_way()
    else:
        count, kind = int(sys.argv[1]), AxisType[sys.argv[2]]
        check_everywhere(jax.make_mesh((count,), ("devices",), axis_types=(kind,)))


if __name__ == "__main__":
    main()
