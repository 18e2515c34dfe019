"""A separate program: pools of arrays on several virtual devices, against the same on one.

`python -m tests.properties.sharded` needs XLA_FLAGS=--xla_force_host_platform_device_count=4 in its environment, with
the argument `every` too, and `python -m tests.properties.sharded COUNT TYPE` as many devices, for a mesh whose axis has
that type, Auto or Explicit. Values and gradients must be equal to those on one device, with NaN among the data. If
batch or channels are sharded they must need no communication, and if a pooled axis is, only exchange between
neighbours: no shard collects the others' cells.
"""

import itertools
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import jaxpool
from tests.properties.exchanges import (
    ANY,
    EXCHANGES,
    EXCHANGES_ONCE,
    WINDOW_BYTES,
    Exchange,
    border_bytes,
    bytes_sent,
)
from tests.properties.sharded_pools import (
    ANYWHERE,
    AUTOMATIC,
    BETA,
    COLLECTED,
    DRAWN,
    LONGER,
    ON_SPECIAL,
    ONCE,
    POOLS,
    SLIDING,
    SPECIAL,
    UNEVEN,
    UNEVEN_ONCE,
    Pool,
    X,
)
from tests.registry.records import RECORDS

BATCH, POOLED, CHANNEL = (PartitionSpec(*(None,) * axis, "devices") for axis in (0, 1, 3))
# On a mesh of two axes: neither may cause communication, and two axes are pooled on devices of their own.
BATCH_AND_CHANNEL, BATCH_AND_POOLED = PartitionSpec("devices", None, None, "others"), PartitionSpec("others", "devices")
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


def check(name: str, pool: Pool, mesh: Mesh, spec: PartitionSpec, forbidden: str | None) -> int:
    """Compare values and gradient on the mesh with those on one device, and check for forbidden collectives.

    The bytes that a device receives are returned.
    """
    with jax.set_mesh(mesh):
        sharding = NamedSharding(mesh, spec)
        sharded = jax.device_put(X, sharding)
        compiled = jax.jit(value_and_gradient(pool)).lower(sharded).compile()
        found = compiled(sharded)
    if forbidden is not None:
        assert not collectives(compiled.as_text() or "", forbidden), name
    # The bins of the records are four.
    over_shards = name.startswith("global") or (name.startswith("adaptive") and mesh.size > 4)
    if not (spec in (POOLED, BATCH_AND_POOLED) and (forbidden is None or over_shards)):
        # Windows over several shards, and the cotangents spread from them, belong to no single shard.
        assert found[1].sharding.is_equivalent_to(sharding, X.ndim), name
    for one, other in zip(found, expected(pool), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6, err_msg=name)
    print(mesh.axis_types, spec, name)
    return bytes_sent(compiled.as_text() or "")


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


def check_types_inside_shard_map(name: str, pool: Pool, mesh: Mesh) -> None:
    """Inside `jax.shard_map` types say what varies over devices; a transpose is traced while a program is lowered."""
    inside = jax.shard_map(value_and_gradient(pool), mesh=mesh, in_specs=BATCH, out_specs=BATCH)
    lowered = jax.jit(inside).lower(X)
    assert [one.shape for one in lowered.out_info] == [jax.eval_shape(pool, X).shape, X.shape], name
    print("types in shard_map", name)


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


def check_collected(name: str, pool: Pool, mesh: Mesh) -> None:
    """Check what is collected for fewer windows than devices: on an explicit mesh, results of an eighth of the array.

    On an automatic mesh the compiler collects one array, the gradient, besides values.
    """
    x = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(mesh, POOLED))
    program = jax.jit(value_and_gradient(pool)).lower(x).compile().as_text() or ""
    automatic = X.nbytes + 4 * jax.eval_shape(pool, X).size
    most = X.nbytes // 8 if AxisType.Explicit in mesh.axis_types else automatic
    assert 0 < bytes_sent(program, COLLECTING) <= most, name


def check_everywhere(mesh: Mesh) -> None:
    """Every pool sharded by batch, channel and pooled axis, with one program for each, and what devices exchange."""
    for name, pool in POOLS.items():
        check(name, pool, mesh, BATCH, ANY)
        check(name, pool, mesh, CHANNEL, ANY)
        check_pooled(name, pool, mesh)
    for name, pool in UNEVEN.items():
        check(name, pool, mesh, POOLED, None)
    check_exchanges(mesh.size, EXCHANGES)
    check_single_exchange(mesh)


def check_exchanges(count: int, names: Iterable[str]) -> None:
    """Check what so many devices exchange in an explicit mesh: in an automatic one the compiler decides."""
    mesh = jax.make_mesh((count,), ("devices",), axis_types=(AxisType.Explicit,))
    for name in names:
        check_borders(name, EXCHANGES[name], mesh)
    for name, pool in ON_SPECIAL.items():
        check_special(name, pool, mesh)


def check_pooled(name: str, pool: Pool, mesh: Mesh, spec: PartitionSpec = POOLED) -> int:
    """Shard a pool by the first of its pooled axes, and perhaps by others; return the bytes that a device receives."""
    devices = mesh.shape["devices"]
    # Four bins of two shards each: see docs/many_devices.md.
    crossing = name.startswith("adaptive") and devices > 4
    collects = name in (*ANYWHERE, *COLLECTED) or crossing
    if crossing:
        check_collected(name, pool, mesh)
    return check(name, pool, mesh, spec, None if collects else COLLECTING)


def check_in_main_part() -> None:
    """On four devices: each core in an explicit mesh, and automatic axes and exchanges where they differ."""
    line, square = (
        jax.make_mesh(sizes, ("devices", "others")[: len(sizes)], axis_types=(kind,) * len(sizes))
        for sizes, kind in (((4,), AxisType.Auto), ((2, 2), AxisType.Explicit))
    )
    for name in ONCE:
        check_types_inside_shard_map(name, POOLS[name], line)
        sent = check_pooled(name, POOLS[name], square, BATCH_AND_POOLED)
        if name in WINDOW_BYTES:
            # Half of the images, on each of two devices.
            borders = border_bytes(Exchange(POOLS[name], 3, 2, 1, WINDOW_BYTES[name]), X[: len(X) // 2], 2)
            assert 0 < sent <= 1.5 * borders, (name, sent, borders)
    for name in UNEVEN_ONCE:
        check(name, UNEVEN[name], square, POOLED, None)
    check("lp_pool", UNEVEN["lp_pool"], line, POOLED, None)
    for name in AUTOMATIC:
        check_pooled(name, POOLS[name], line)
    check_exchanges(4, EXCHANGES_ONCE)
    for kind, count in ((AxisType.Auto, 4), (AxisType.Explicit, 2)):
        check_single_exchange(jax.make_mesh((count,), ("devices",), axis_types=(kind,)))
    check("stochastic_pool drawn", DRAWN, square, BATCH, ANY)
    check_shared_parameter("jvp", line)
    for name in ("roi_align", "roi_pool"):
        check_boxes(name, square)


def check_in_every_way() -> None:
    """On four devices: every pool by batch and channels at once, and inside `jax.shard_map`, with all others."""
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
        check_inside_shard_map(name, pool, line)
        if name in RECORDS:
            check(name, pool, explicit, BATCH_AND_CHANNEL, ANY)
            check_pooled(name, pool, explicit, BATCH_AND_POOLED)
    for name in UNEVEN:
        check(name, UNEVEN[name], explicit, POOLED, None)
    for kind, count in itertools.product((AxisType.Auto, AxisType.Explicit), (2, 4)):
        check_single_exchange(jax.make_mesh((count,), ("devices",), axis_types=(kind,)))
    check("stochastic_pool drawn", DRAWN, line, BATCH, ANY)
    check_shared_parameter("vjp", line)


def main() -> None:
    """The main part, every way, or axis by axis on a mesh with this many devices and axes of this type."""
    if len(sys.argv) == 1:
        check_in_main_part()
    elif sys.argv[1:] == ["every"]:
        check_in_every_way()
    else:
        count, kind = int(sys.argv[1]), AxisType[sys.argv[2]]
        check_everywhere(jax.make_mesh((count,), ("devices",), axis_types=(kind,)))


if __name__ == "__main__":
    main()
