"""Sharded arrays: `sharded_*.py` and processes of their own, on virtual devices, as this process may have only one.

One device is enough for the types of arrays inside `jax.shard_map`, which say what may vary over devices.

`python -m tests.properties.test_sharding PORT NUMBER` is process NUMBER of two that train one step together and connect
on that port of this machine, each with half of the batch. Without arguments a single process trains the step.
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
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxpool
from tests.properties.sharded_values import value_and_gradient

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
        ("values exchanges", "not slow", ""),
        pytest.param("values", "slow", "values_and_gradients", marks=SLOW),
        pytest.param("values", "slow", "not values_and_gradients and not platforms and not random", marks=SLOW),
        # Older compilers confuse the paddings of a sharded array.
        pytest.param("values", "slow", "platforms", marks=SLOW),
        pytest.param("values", "slow", "random", marks=SLOW),
        pytest.param("exchanges", "slow", "", marks=SLOW),
    ],
    ids=["default", "values", "other values", "platforms", "random", "exchanges"],
)
def test_arrays_on_eight_devices(files: str, part: str, names: str) -> None:
    paths = [f"tests/properties/sharded_{name}.py" for name in files.split()]
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


Weights = dict[str, jax.Array]


def initial_weights() -> dict[str, np.ndarray]:
    """The same in every process."""
    random = np.random.default_rng(0)
    return {
        "first": random.normal(size=(3, 3, 1, 4)).astype(np.float32) / 3,
        "second": random.normal(size=(3, 3, 4, 8)).astype(np.float32) / 6,
        "exponent": np.linspace(1.5, 3, 8, dtype=np.float32),
        "head": random.normal(size=(8, 10)).astype(np.float32) / 3,
    }


def pictures() -> tuple[np.ndarray, np.ndarray]:
    """A batch of 16, with labels."""
    random = np.random.default_rng(1)
    return random.normal(size=(16, 12, 12, 1)).astype(np.float32), random.integers(10, size=16)


def loss(weights: Weights, x: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross entropy."""
    dimensions = ("NHWC", "HWIO", "NHWC")
    x = jax.lax.conv_general_dilated(x, weights["first"], (1, 1), "SAME", dimension_numbers=dimensions)
    x = jaxpool.max_pool(x, 3, 2, 1, axis=(1, 2))
    x = jax.lax.conv_general_dilated(x, weights["second"], (1, 1), "SAME", dimension_numbers=dimensions)
    x = jaxpool.lp_pool(x, weights["exponent"], 2, axis=(1, 2)) + jaxpool.avg_pool(x, 2, axis=(1, 2))
    logits = jaxpool.global_max_pool(x, axis=(1, 2), keepdims=False) @ weights["head"]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


@jax.jit
def step(weights: Weights, x: jax.Array, labels: jax.Array) -> tuple[jax.Array, Weights]:
    """One step of gradient descent."""
    value, gradient = jax.value_and_grad(loss)(weights, x, labels)
    return value, jax.tree.map(lambda weight, slope: weight - 0.5 * slope, weights, gradient)


@pytest.mark.slow
def test_two_processes_train_one_step_like_one() -> None:
    """Joined by `jax.distributed`, they agree with each other and with one process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = [start(2, "tests.properties.test_sharding", *numbers) for numbers in ((port, "0"), (port, "1"), ())]
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


if __name__ == "__main__":
    weights, (x, labels) = initial_weights(), pictures()
    if len(sys.argv) == 3:
        port, number = sys.argv[1:]
        jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=int(number))
        assert jax.process_count() == 2
        assert len(jax.devices()) == 2 * len(jax.local_devices())
        mesh = jax.make_mesh((len(jax.devices()),), ("batch",), axis_types=(AxisType.Auto,))
        whole, cut = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("batch"))
        half = slice(8 * int(number), 8 * int(number) + 8)
        x, labels = (jax.make_array_from_process_local_data(cut, array[half]) for array in (x, labels))
        weights = jax.device_put(weights, whole)
    value, weights = step(weights, x, labels)
    results = {"loss": value, **weights}
    print(json.dumps({name: np.ravel(array.addressable_data(0)).tolist() for name, array in results.items()}))
