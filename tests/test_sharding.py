"""Sharded arrays: processes of their own with several virtual devices, as this one may have but one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compilation import flags
from tests.sharded import POOLS, UNEVEN


@pytest.mark.parametrize("count", [4, 8])
def test_arrays_on_several_devices(count: int) -> None:
    # The programs are many, and they are small; what devices send each other is settled before loops are emitted.
    given = flags(f"--xla_force_host_platform_device_count={count}")
    environment = os.environ | {"XLA_FLAGS": given, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", "-m", "tests.sharded", str(count)]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    one_kind = 3 * len(POOLS) + len(UNEVEN)
    assert len(done.stdout.splitlines()) == (2 * one_kind + len(POOLS) + 4 if count == 4 else one_kind)
