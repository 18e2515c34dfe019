"""Sharded arrays: `sharded_*.py` and processes of their own, on virtual devices, as this process may have only one.

One device is enough for the types of arrays inside `jax.shard_map`, which say what may vary over devices.
"""

import json
import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

import jaxpool
from tests.properties.sharded_values import value_and_gradient
from tests.properties.two_processes import initial_weights

SLOW = pytest.mark.slow


def start(devices: int, module: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a module as a program, with so many virtual devices."""
    environment = os.environ | {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, "-W", "error", "-m", module, *arguments]
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    ("files", "part", "names"),
    [
        (("values", "exchanges"), "not slow", ""),
        pytest.param(("values",), "slow", "values_and_gradients", marks=SLOW),
        pytest.param(("values",), "slow", "not values_and_gradients and not platforms", marks=SLOW),
        # Older compilers confuse the paddings of a sharded array.
        pytest.param(("values",), "slow", "platforms", marks=SLOW),
        pytest.param(("exchanges",), "slow", "", marks=SLOW),
        pytest.param(("random",), "slow", "", marks=SLOW),
    ],
    ids=["default", "values", "other values", "platforms", "exchanges", "random"],
)
def test_arrays_on_eight_devices(files: tuple[str, ...], part: str, names: str) -> None:
    paths = [f"tests/properties/sharded_{name}.py" for name in files]
    options = ["-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist", "--strict-markers", "-q"]
    output, errors = (process := start(8, "pytest", *options, "-m", part, "-k", names, *paths)).communicate()
    assert process.returncode == 0, output + errors


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


@pytest.mark.slow
def test_two_processes_train_one_step_like_one() -> None:
    """Joined by `jax.distributed`, they agree with each other and with one process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = [start(2, "tests.properties.two_processes", *numbers) for numbers in ((port, "0"), (port, "1"), ())]
    found = []
    try:
        for process in processes:
            output, errors = process.communicate(timeout=240)
            assert process.returncode == 0, errors
            # The library that joins the processes prints lines before the output.
            found.append({name: np.array(numbers) for name, numbers in json.loads(output.splitlines()[-1]).items()})
    finally:
        for process in processes:
            process.kill()
    first, second, alone = found
    assert set(alone) == {"loss", *initial_weights()}
    for name, expected in alone.items():
        np.testing.assert_array_equal(first[name], second[name])
        np.testing.assert_allclose(first[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)
    for name, weights in initial_weights().items():
        assert np.all(alone[name] != weights.ravel()), name
