"""Sharded arrays: processes of their own with several virtual devices, as this one may have but one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.compilation import flags
from tests.properties.sharded import POOLS, UNEVEN
from tests.registry.records import RECORDS


def lines_of_program(devices: int, *arguments: str) -> list[str]:
    """What the program says, one line for each check."""
    # The programs are many, and they are small; what devices send each other is settled before loops are emitted.
    given = flags(f"--xla_force_host_platform_device_count={devices}")
    environment = os.environ | {"XLA_FLAGS": given, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", "-m", "tests.properties.sharded", *arguments]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_arrays_on_several_devices() -> None:
    functions = [name for name in POOLS if name in RECORDS]
    assert len(lines_of_program(4)) == 3 * len(POOLS) + len(functions) + 2 * len(UNEVEN) + 6


# One axis at a time, and other numbers of devices.
@pytest.mark.exhaustive
@pytest.mark.parametrize(("count", "kind"), [(4, "Auto"), (4, "Explicit"), (8, "Auto")])
def test_each_axis_on_more_devices(count: int, kind: str) -> None:
    assert len(lines_of_program(count, str(count), kind)) == 3 * len(POOLS) + len(UNEVEN)
