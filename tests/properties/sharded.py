"""A separate program: pools of arrays on several virtual devices, against the same on one.

`python -m tests.properties.sharded` needs XLA_FLAGS=--xla_force_host_platform_device_count=4 in its environment, with
the argument `every` too, and `python -m tests.properties.sharded COUNT TYPE` as many devices, for a mesh whose axis has
that type, Auto or Explicit; without a type it checks what so many devices exchange. Values and gradients must be equal
to those on one device, with NaN among the data. If batch or channels are sharded they must need no communication, and
if a pooled axis is, only exchange between neighbours: no shard collects the others' cells.
"""

import itertools
import sys
from collections.abc import Iterable, Mapping

import jax
from jax.sharding import AxisType, Mesh, PartitionSpec

from tests.properties.exchanges import (
    ANY,
    EXCHANGES,
    EXCHANGES_ONCE,
    WINDOW_BYTES,
    Exchange,
    border_bytes,
)
from tests.properties.sharded_checks import (
    BATCH,
    BATCH_AND_CHANNEL,
    BATCH_AND_POOLED,
    CHANNEL,
    COLLECTING,
    POOLED,
    check,
    check_borders,
    check_collected,
    check_inside_shard_map,
    check_masks_of_devices,
    check_own_decisions,
    check_shared_parameter,
    check_single_exchange,
    check_special,
    check_types_inside_shard_map,
)
from tests.properties.sharded_items import check_boxes, check_items
from tests.properties.sharded_pools import (
    ANYWHERE,
    AUTOMATIC,
    COLLECTED,
    DRAWN,
    ON_SPECIAL,
    ONCE,
    POOLS,
    QUICK,
    UNEVEN,
    UNEVEN_ONCE,
    Pool,
    X,
    pools_on,
)
from tests.registry.records import RECORDS


def check_everywhere(mesh: Mesh, pools: Mapping[str, Pool]) -> None:
    """Pools sharded by batch or channel in turn, and by the pooled axis, and all of uneven windows."""
    for number, (name, pool) in enumerate(pools.items()):
        check(name, pool, mesh, (BATCH, CHANNEL)[number % 2], ANY)
        check_pooled(name, pool, mesh)
    for name, pool in UNEVEN.items():
        check(name, pool, mesh, POOLED, None)
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


def check_batch_and_pooled(name: str, mesh: Mesh) -> None:
    """Shard a pool by the batch too: what it receives is little more than the borders of windows."""
    sent = check_pooled(name, POOLS[name], mesh, BATCH_AND_POOLED)
    if name in WINDOW_BYTES:
        # Half of the images, on each of two devices.
        borders = border_bytes(Exchange(POOLS[name], 3, 2, 1, WINDOW_BYTES[name]), X[: len(X) // 2], 2)
        assert 0 < sent <= 1.5 * borders, (name, sent, borders)


def check_in_main_part() -> None:
    """On four devices: each core in an explicit mesh, and automatic axes and exchanges where they differ."""
    line, square = (
        jax.make_mesh(sizes, ("devices", "others")[: len(sizes)], axis_types=(kind,) * len(sizes))
        for sizes, kind in (((4,), AxisType.Auto), ((2, 2), AxisType.Explicit))
    )
    for name in QUICK:
        check_types_inside_shard_map(name, POOLS[name], line)
        check_batch_and_pooled(name, square)
    for name in UNEVEN_ONCE:
        check(name, UNEVEN[name], square, POOLED, None)
    check("lp_pool", UNEVEN["lp_pool"], line, POOLED, None)
    for name in AUTOMATIC:
        check_pooled(name, POOLS[name], line)
    # The values are not divided by the devices; no function that the compiler keeps apart gets the whole array.
    assert check("copies", UNEVEN["max_pool of copies"], line, POOLED, None) <= 2.5 * X.nbytes
    check_exchanges(4, EXCHANGES_ONCE)
    for kind, count in ((AxisType.Auto, 4), (AxisType.Explicit, 2)):
        check_single_exchange(jax.make_mesh((count,), ("devices",), axis_types=(kind,)))
    check("stochastic_pool drawn", DRAWN, square, BATCH, ANY)
    check_shared_parameter("jvp", line)
    check_masks_of_devices(line)
    check_own_decisions(jax.make_mesh((4,), ("devices",), axis_types=(AxisType.Explicit,)))
    check_items(square)
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
        if name in ONCE and name not in QUICK:
            check_types_inside_shard_map(name, pool, line)
        if name in RECORDS:
            check(name, pool, explicit, BATCH_AND_CHANNEL, ANY)
            check_batch_and_pooled(name, explicit)
    for name in UNEVEN:
        check(name, UNEVEN[name], explicit, POOLED, None)
    for kind, count in itertools.product((AxisType.Auto, AxisType.Explicit), (2, 4)):
        check_single_exchange(jax.make_mesh((count,), ("devices",), axis_types=(kind,)))
    check("stochastic_pool drawn", DRAWN, line, BATCH, ANY)
    check_shared_parameter("vjp", line)


def main() -> None:
    """The main part, every way, what so many devices exchange, or axis by axis on a mesh of axes of one type."""
    if len(sys.argv) == 1:
        check_in_main_part()
    elif sys.argv[1:] == ["every"]:
        check_in_every_way()
    elif len(sys.argv) == 2:
        check_exchanges(int(sys.argv[1]), EXCHANGES)
    else:
        count, kind = int(sys.argv[1]), sys.argv[2]
        mesh = jax.make_mesh((count,), ("devices",), axis_types=(AxisType[kind],))
        check_everywhere(mesh, pools_on(count, kind))


if __name__ == "__main__":
    main()
