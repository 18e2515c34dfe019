"""The source: lint, format and types by the settings of pyproject.toml; opening paragraphs; public JAX."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    file for part in ("jaxpool", "examples", "tests", "benchmarks", "docs") for file in (ROOT / part).rglob("*.py")
)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("ruff", "check"), id="lint"),
        pytest.param(("ruff", "format", "--check"), id="format"),
        pytest.param(("pyright", "--pythonpath", sys.executable), id="types", marks=pytest.mark.slow),
    ],
)
def test_tool_has_nothing_to_say(command: tuple[str, ...]) -> None:
    program = Path(sys.executable).parent / command[0]
    assert program.exists(), f"{command[0]} is not installed beside Python: install jaxpool[dev]"
    done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_open_with_a_paragraph_and_can_be_read_in_one_go() -> None:
    assert len(FILES) > 100
    for file in FILES:
        source = file.read_text(encoding="utf-8")
        docstring = ast.get_docstring(ast.parse(source)) or ""
        assert docstring.partition("\n\n")[0].endswith((".", ":")), file
        assert len(source.splitlines()) <= 600, file


def test_package_uses_public_jax_and_names_modules_in_full() -> None:
    for file in (ROOT / "jaxpool").rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        assert "jax._src" not in source, file
        assert not re.search(r"^\s*from \.", source, re.MULTILINE), file


def test_tests_know_few_private_modules() -> None:
    importing = {
        (module, file.relative_to(ROOT / "tests"))
        for file in (ROOT / "tests").rglob("*.py")
        for module in re.findall(r"(?:from|import) (jaxpool\.\S*\b_[a-z]\S*)", file.read_text(encoding="utf-8"))
    }
    assert len({module for module, _ in importing}) <= 5, importing
    assert {file.parent.name for _, file in importing} <= {"engine"}, importing
