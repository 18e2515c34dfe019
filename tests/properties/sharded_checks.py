"""The checks of pools of sharded arrays: values and gradients as on one device, and what devices exchange."""

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import jaxpool
from tests.properties.exchanges import (
    ANY,
    Exchange,
    border_bytes,
    bytes_sent,
)
from tests.properties.sharded_pools import (
    BETA,
    LONGER,
    POOLS,
    SLIDING,
    SPECIAL,
    Pool,
    X,
)

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
    # Values that the devices do not divide come back whole, as the type of an explicit mesh says, in equal shares.
    rows = values.shape[1]
    whole = 0 if rows % mesh.size == 0 else 4 * values.size // rows * mesh.size * -(-rows // mesh.size)
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


def check_own_decisions(mesh: Mesh) -> None:
    """Each device decides whether the sums of its own cells are moderate, in programs that ask.

    Some devices have images that are large, far below 1, or hold NaN. Second derivatives are those of one device, too.
    """
    x = np.random.default_rng(9).normal(size=(8, 12, 9, 8)).astype(np.float32)
    x[2:4] *= np.float32(1e20)
    x[5, 3] = np.nan
    x[6] *= np.float32(1e-30)

    def slope(x: jax.Array, pool: Pool) -> jax.Array:
        return jax.grad(lambda x: (pool(x) ** 2).sum())(x)

    for name in ("lp_pool", "smooth_max_pool", "soft_pool", "attention_pool"):
        pool = POOLS[name]

        def everything(x: jax.Array, pool: Pool = pool) -> tuple[jax.Array, ...]:
            curvature = jax.jvp(partial(slope, pool=pool), (x,), (jax.numpy.ones_like(x),))[1]
            return *value_and_gradient(pool)(x), curvature

        with jax.set_mesh(mesh):
            sharded = jax.device_put(x, NamedSharding(mesh, BATCH))
            compiled = jax.jit(everything).lower(sharded).compile()
            found = compiled(sharded)
        assert " conditional(" in (compiled.as_text() or ""), name
        for one, other in zip(*(map(np.asarray, arrays) for arrays in (found, jax.jit(everything)(x))), strict=True):
            for number, image in enumerate(other):
                largest = float(np.abs(image[np.isfinite(image)]).max(initial=0))
                np.testing.assert_allclose(one[number], image, rtol=2e-5, atol=2e-6 * largest, err_msg=name)
    print(mesh.axis_types, "own decisions")


def check_masks_of_devices(mesh: Mesh) -> None:
    """The cotangent of an array that devices share is a sum over them, if only what selects its cells differs."""
    x, masks = X[0, :8, 0], np.random.default_rng(10).random((mesh.size, 8, 1)) < 0.6
    pools: list[Callable[..., jax.Array]] = [
        lambda x, mask: jaxpool.max_pool(x, 2, axis=0, where=mask),
        lambda x, mask: jaxpool.top_k_pool(x, 2, 4, axis=0, where=mask),
        lambda x, mask: jaxpool.min_pool(x, jaxpool.bins(3), axis=0, where=mask, rule="vjp"),
        lambda x, mask: jaxpool.max_unpool(x, mask + 2 * np.arange(8)[:, None] + 0 * x.astype(int), 16, axis=0),
    ]
    for pool in pools:

        def loss(x: jax.Array, mask: jax.Array, pool: Callable[..., jax.Array] = pool) -> jax.Array:
            return (pool(x, mask) ** 2).sum()

        def local(x: jax.Array, masks: jax.Array, loss: Callable[..., jax.Array] = loss) -> jax.Array:
            return jax.lax.psum(loss(x, masks[0]), "devices")

        shared = jax.shard_map(local, mesh=mesh, in_specs=(PartitionSpec(), BATCH), out_specs=PartitionSpec())
        expected = sum(jax.grad(loss)(x, mask) for mask in masks)
        np.testing.assert_allclose(jax.jit(jax.grad(shared))(x, masks), expected, rtol=1e-6)
    print("shard_map", "masks of devices")


def check_collected(name: str, pool: Pool, mesh: Mesh) -> None:
    """Check what is collected for fewer windows than devices: on an explicit mesh, results of an eighth of the array.

    On an automatic mesh the compiler collects one array, the gradient, besides values.
    """
    x = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(mesh, POOLED))
    program = jax.jit(value_and_gradient(pool)).lower(x).compile().as_text() or ""
    automatic = X.nbytes + 4 * jax.eval_shape(pool, X).size
    most = X.nbytes // 8 if AxisType.Explicit in mesh.axis_types else automatic
    assert 0 < bytes_sent(program, COLLECTING) <= most, name
