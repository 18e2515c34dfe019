"""Two processes joined by `jax.distributed` train one step together, and agree with each other and with one process."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.harness.compilation import flags
from tests.properties.two_processes import initial_weights

ROOT = Path(__file__).parents[2]


def start(*arguments: str) -> subprocess.Popen[str]:
    given = flags("--xla_force_host_platform_device_count=2")
    environment = os.environ | {"XLA_FLAGS": given, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", "-m", "tests.properties.two_processes", *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def results(process: subprocess.Popen[str]) -> dict[str, np.ndarray]:
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    # The library that joins the processes prints lines before the output.
    return {name: np.array(numbers) for name, numbers in json.loads(output.splitlines()[-1]).items()}


@pytest.mark.slow
def test_two_processes_train_one_step_like_one() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = [start(port, "0"), start(port, "1"), start()]
    try:
        first, second, alone = map(results, processes)
    finally:
        for process in processes:
            process.kill()
    assert set(alone) == {"loss", *initial_weights()}
    for name, expected in alone.items():
        np.testing.assert_array_equal(first[name], second[name])
        np.testing.assert_allclose(first[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)
    for name, weights in initial_weights().items():
        assert np.all(alone[name] != weights.ravel()), name
