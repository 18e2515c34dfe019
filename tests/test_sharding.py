"""Sharded arrays: a process of its own with four virtual devices, as this one may have but one."""

import os
import subprocess
import sys
from pathlib import Path

from tests.sharded import POOLS


def test_batches_and_channels_on_four_devices() -> None:
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", "-m", "tests.sharded"]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 4 * len(POOLS)
