"""Interfaces that JAX does not guarantee are used in one module only, and everything works without them."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from jaxpool._engine import primitives
from jaxpool._engine.maps import on_every_platform
from jaxpool._platforms import on_one_cpu
from tests.engine.without_primitives import results
from tests.harness.parts import MECHANISMS, case_row
from tests.registry.records import RECORDS

PACKAGE = Path(jaxpool.__file__).parent
NOT_PROMISED = ("jax.extend", "jax.interpreters", "jax.experimental", "jax._src", "jaxlib")
# What the module uses of them.
USED = {
    "jax.extend.core": ("Primitive",),
    "jax.interpreters.ad": (
        "primitive_jvps",
        "primitive_transposes",
        "Zero",
        "instantiate_zeros",
        "is_undefined_primal",
    ),
    "jax.interpreters.batching": ("primitive_batchers",),
    "jax.interpreters.mlir": ("lower_fun", "register_lowering", "core_call_lowering"),
}
# Before jaxpool is imported, and after JAX, which needs them itself.
GONE = """
import jax, jax.extend.core, jax.interpreters, runpy, sys
{}
runpy.run_module("tests.engine.without_primitives", None, "__main__")
"""


# Names without which primitives are not available, and whether they are with all of them.
ATTEMPTS = """
import importlib, jax, jax.extend.core, jax.interpreters, sys
from jaxpool._engine import primitives
for name in sys.argv[1:]:
    module, _, attribute = name.rpartition(".")
    kept = getattr(sys.modules[module], attribute)
    delattr(sys.modules[module], attribute)
    importlib.reload(primitives)
    if not primitives.AVAILABLE:
        print(name)
    setattr(sys.modules[module], attribute, kept)
importlib.reload(primitives)
if primitives.AVAILABLE:
    print("at last")
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


@pytest.mark.parametrize(
    "functions",
    [
        case_row(list(MECHANISMS[::6]), id="mechanisms", kept=True),
        case_row([name for name in RECORDS if name not in MECHANISMS[::6]], id="others", kept=False),
    ],
)
def test_every_function_does_without_primitives(tmp_path: Path, functions: list[str]) -> None:
    compare(tmp_path, 'sys.modules["jax.extend.core"] = None', functions)


def test_everything_is_registered_or_nothing() -> None:
    """Without any one name no primitive is used, as in the tests above."""
    names = [f"{module}.{name}" for module, names in USED.items() for name in names]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ATTEMPTS, *names], capture_output=True, text=True, cwd=PACKAGE.parent
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [*(name for name in names if not name.endswith("core_call_lowering")), "at", "last"]


def compare(folder: Path, removal: str, functions: list[str]) -> None:
    """Compare functions in a process in which something is removed with the same functions in this process."""
    assert primitives.AVAILABLE
    file = folder / "found.npz"
    command = [sys.executable, "-W", "error", "-c", GONE.format(removal), str(file), *functions]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr
    with jax.enable_x64(False), np.load(file) as found:
        expected = [each for function in functions for each in results(RECORDS[function])]
        assert len(found.files) == len(expected)
        for name, each in zip(found.files, expected, strict=True):
            np.testing.assert_allclose(found[name], each, rtol=1e-5, atol=1e-5)


def test_programs_on_one_device_are_known_as_such() -> None:
    # Otherwise the fast lowerings for one CPU would not be taken, which no test of values would notice.
    known = []

    def step(x: jax.Array) -> jax.Array:
        known.append(on_one_cpu(x))
        return 2 * x

    jax.jit(lambda x: on_every_platform(step, x)).lower(np.ones(3, np.float32))
    assert known[-1] == (jax.default_backend() == "cpu")


@pytest.mark.parametrize("name", ["avg_pool", "lp_pool", "smooth_max_pool", "global_max_pool", "blur_pool"])
def test_programs_on_unknown_devices_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(2, 8, 300)).astype(np.float32)

    def compiled(x: np.ndarray) -> Any:
        jax.clear_caches()
        return jax.jit(jax.value_and_grad(lambda x: (RECORDS[name].values(x) ** 2).sum()))(x)

    expected = compiled(x)
    monkeypatch.setattr(primitives, "_device_count", lambda _: 0)
    found = compiled(x)
    jax.clear_caches()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_contexts_of_lowerings_may_lack_the_number_of_devices() -> None:
    assert primitives._device_count(object()) == 0
