"""Sharded arrays: separate processes with several virtual devices, as this one may have only one.

One device is enough for the types of arrays inside `jax.shard_map`, which say what may vary over devices.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

import jaxpool
from tests.harness.compilation import flags
from tests.properties.exchanges import EXCHANGES, EXCHANGES_ONCE
from tests.properties.sharded_checks import value_and_gradient
from tests.properties.sharded_pools import (
    AUTOMATIC,
    MESHES,
    ON_SPECIAL,
    ONCE,
    POOLS,
    QUICK,
    UNEVEN,
    UNEVEN_ONCE,
    pools_on,
)
from tests.registry.records import RECORDS


def lines_of_program(devices: int, *arguments: str, program: str = "sharded") -> list[str]:
    """The output of a program, one line for each check."""
    # The programs are many and small, and communication is decided before loops are emitted.
    given = flags(f"--xla_force_host_platform_device_count={devices}")
    environment = os.environ | {"XLA_FLAGS": given, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", "-m", f"tests.properties.{program}", *arguments]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_arrays_on_several_devices() -> None:
    pools = 2 * len(QUICK) + len(AUTOMATIC) + len(UNEVEN_ONCE)
    assert len(lines_of_program(4)) == pools + len(EXCHANGES_ONCE) + len(ON_SPECIAL) + 11


@pytest.mark.slow
def test_arrays_on_several_devices_in_every_way() -> None:
    functions = [name for name in POOLS if name in RECORDS]
    others = len(ONCE) - len(QUICK)
    assert len(lines_of_program(4, "every")) == 2 * len(POOLS) + 2 * len(functions) + others + len(UNEVEN) + 6


def test_other_axes_send_no_more_than_for_a_slice() -> None:
    assert len(lines_of_program(8, program="sharded_networks")) == len(QUICK)


@pytest.mark.slow
def test_other_axes_send_no_more_on_any_number_of_devices() -> None:
    assert len(lines_of_program(8, "all", program="sharded_networks")) == 2 * len(POOLS)


@pytest.mark.slow
def test_random_pools_are_those_of_one_device() -> None:
    assert len(lines_of_program(8, "60", "0", program="sharded_fuzz")) >= 10


LOOPED = {
    "median_pool": jaxpool.median_pool,
    "stochastic_pool": partial(jaxpool.stochastic_pool, key=np.array([3, 7], np.uint32)),
}


@pytest.mark.parametrize("pool", LOOPED.values(), ids=LOOPED)
def test_loops_over_large_windows_keep_their_types(pool: Any) -> None:
    # The initial value of a loop has to vary over the same devices as its results.
    mesh, spec = jax.make_mesh((1,), ("devices",), axis_types=(AxisType.Auto,)), PartitionSpec("devices")
    both = value_and_gradient(partial(pool, kernel_size=(9, 9), stride=1))
    x = jax.ShapeDtypeStruct((2, 12, 11), np.float32)
    inside = jax.shard_map(both, mesh=mesh, in_specs=spec, out_specs=spec)
    # The transpose is traced while the program is lowered.
    lowered = jax.jit(inside).lower(x)
    assert [one.shape for one in lowered.out_info] == [(2, 4, 3), x.shape]


def _other_than_four(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Rows of numbers of devices; four are those of tests above, so that CI leaves them out."""
    return [pytest.param(*row, marks=pytest.mark.spare if row[0] == 4 else ()) for row in rows]


# One axis at a time, and other numbers of devices.
@pytest.mark.slow
@pytest.mark.parametrize(("count", "kind"), _other_than_four(MESHES))
def test_each_axis_on_more_devices(count: int, kind: str) -> None:
    assert len(lines_of_program(count, str(count), kind)) == 2 * len(pools_on(count, kind)) + len(UNEVEN) + 1


@pytest.mark.slow
@pytest.mark.parametrize("count", _other_than_four([(2,), (4,), (8,)]))
def test_devices_exchange_the_borders(count: int) -> None:
    assert len(lines_of_program(count, str(count))) == len(EXCHANGES) + len(ON_SPECIAL)
