"""Interfaces that JAX does not guarantee are used in one module only, and everything works without them."""

import ast
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np

import jaxpool
from jaxpool._engine import primitives
from tests.engine.without_primitives import results
from tests.registry.records import RECORDS

PACKAGE = Path(jaxpool.__file__).parent
NOT_PROMISED = ("jax.extend", "jax.interpreters", "jax.experimental", "jax._src", "jaxlib")
# Before jaxpool is imported, and after JAX, which needs them itself.
GONE = """
import jax, runpy, sys
sys.modules["jax.extend.core"] = None
runpy.run_module("tests.engine.without_primitives", None, "__main__")
"""


def imports(module: Path) -> set[str]:
    """The modules that a file imports, and the names that it imports from them."""
    nodes = list(ast.walk(ast.parse(module.read_text(encoding="utf-8"))))
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    within = (node for node in nodes if isinstance(node, ast.ImportFrom))
    return named | {f"{node.module}.{alias.name}" for node in within for alias in node.names}


def test_one_module_imports_what_is_not_promised() -> None:
    users = {module.stem for module in PACKAGE.rglob("*.py") if any(map(_is_not_promised, imports(module)))}
    assert users == {"primitives"}


def _is_not_promised(name: str) -> bool:
    return name.startswith(NOT_PROMISED)


def test_every_function_does_without_primitives(tmp_path: Path) -> None:
    assert primitives.AVAILABLE
    file = tmp_path / "found.npz"
    command = [sys.executable, "-W", "error", "-c", GONE, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr
    with jax.enable_x64(False), np.load(file) as found:
        expected = [each for record in RECORDS.values() for each in results(record)]
        assert len(found.files) == len(expected)
        for name, each in zip(found.files, expected, strict=True):
            np.testing.assert_allclose(found[name], each, rtol=1e-5, atol=1e-5)
