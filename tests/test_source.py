"""The source itself: lint, format and types, by the tools and settings of pyproject.toml."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "command",
    [("ruff", "check"), ("ruff", "format", "--check"), ("pyright", "--pythonpath", sys.executable)],
    ids=["lint", "format", "types"],
)
def test_tool_has_nothing_to_say(command: tuple[str, ...]):
    program = Path(sys.executable).parent / command[0]
    assert program.exists(), f"{command[0]} is not installed beside Python: install jaxpool[dev]"
    done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
