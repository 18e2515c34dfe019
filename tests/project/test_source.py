"""The source itself: lint, format and types, by the tools and settings of pyproject.toml."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


TYPES = ("pyright", "--pythonpath", sys.executable)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("ruff", "check"), id="lint"),
        pytest.param(("ruff", "format", "--check"), id="format"),
        pytest.param((*TYPES, "jaxpool", "examples"), id="types"),
        # Tests and benchmarks are not published, and take most of the time.
        pytest.param(TYPES, id="types of all", marks=pytest.mark.slow),
    ],
)
def test_tool_has_nothing_to_say(command: tuple[str, ...]) -> None:
    program = Path(sys.executable).parent / command[0]
    assert program.exists(), f"{command[0]} is not installed beside Python: install jaxpool[dev]"
    done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


FILES = sorted(
    [*(file for part in ("examples", "tests") for file in (ROOT / part).rglob("*.py")), *(ROOT / "docs").glob("*.py")]
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_files_can_be_read_in_one_go(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 600
    docstring = ast.get_docstring(ast.parse(source))
    assert docstring, "every file opens with a paragraph that says what it holds"
    assert docstring.partition("\n\n")[0].endswith((".", ":"))
