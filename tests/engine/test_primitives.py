"""Interfaces that JAX does not guarantee are used in one module only, and everything works without them.

`python -m tests.engine.test_primitives FILE FUNCTION...` writes the results of some functions to a file.
"""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._jax import platforms, primitives
from tests.harness.compilation import compiled_fast
from tests.registry.records import RECORDS

PACKAGE = Path(jaxpool.__file__).parent
NOT_PROMISED = ("jax.extend", "jax.interpreters", "jax.experimental", "jax._src", "jaxlib")
# What the module uses of them.
USED = [
    *("jax.extend.core.Primitive", "jax.interpreters.batching.primitive_batchers"),
    *("jax.interpreters.ad.primitive_jvps", "jax.interpreters.ad.primitive_transposes", "jax.interpreters.ad.Zero"),
    *("jax.interpreters.ad.instantiate_zeros", "jax.interpreters.ad.is_undefined_primal"),
    *("jax.interpreters.mlir.lower_fun", "jax.interpreters.mlir.register_lowering"),
]
# Before jaxpool is imported, and after JAX, which needs it itself.
WITHOUT = """
import jax, jax.extend.core, jax.interpreters, runpy, sys
sys.modules["jax.extend.core"] = None
runpy.run_module("tests.engine.test_primitives", None, "__main__")
"""
# Names without which primitives are not available, and whether they are with all of them.
ATTEMPTS = """
import importlib, jax, jax.extend.core, jax.interpreters, sys
from jaxpool._jax import primitives
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


def results(name: str) -> list[Any]:
    """Value, tangent, gradient, gradient of a batch and, unless it selects, a second derivative."""
    record = RECORDS[name]
    x, direction = np.random.default_rng(0).normal(size=(2, 3, 7, 6)).astype(np.float32)[:, None]

    def everything(x: jax.Array, direction: jax.Array) -> Any:
        def loss(x: jax.Array) -> jax.Array:
            return (record.values(x) ** 2).sum()

        gradient = jax.grad(loss)
        found = [*jax.jvp(record.values, (x,), (direction,)), gradient(x), jax.vmap(gradient)(jnp.stack([x, -x]))]
        if not record.selects:
            found.append(jax.jvp(gradient, (x,), (direction,))[1])
        return found

    return compiled_fast(everything)(x, direction)


def run(program: str, *arguments: str) -> list[str]:
    """The words that a Python program prints."""
    command = [sys.executable, "-W", "error", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def compare(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def imports(module: Path) -> set[str]:
    """The modules that a file imports, and the names that it imports from them."""
    nodes = list(ast.walk(ast.parse(module.read_text(encoding="utf-8"))))
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    within = (node for node in nodes if isinstance(node, ast.ImportFrom))
    return named | {f"{node.module}.{alias.name}" for node in within for alias in node.names}


def test_one_module_imports_what_is_not_promised() -> None:
    users = {
        module.stem
        for module in PACKAGE.rglob("*.py")
        if any(name.startswith(NOT_PROMISED) for name in imports(module))
    }
    assert users == {"primitives"}


# By default a pool that selects, one with a nonlinear rule, and one of boxes.
QUICK = ["max_pool_with_indices", "lp_pool", "roi_align"]


@pytest.mark.parametrize(
    "names",
    [QUICK, pytest.param([name for name in RECORDS if name not in QUICK], marks=pytest.mark.slow)],
    ids=["some", "others"],
)
def test_every_function_does_without_primitives(tmp_path: Path, names: list[str]) -> None:
    assert primitives.AVAILABLE
    run(WITHOUT, str(tmp_path / "found.npz"), *names)
    with jax.enable_x64(False), np.load(tmp_path / "found.npz") as found:
        compare([found[each] for each in found.files], [each for name in names for each in results(name)])


def test_everything_is_registered_or_nothing() -> None:
    """Without any one name no primitive is used, as in the test above."""
    assert run(ATTEMPTS, *USED) == [*USED, "at", "last"]


def test_programs_on_one_device_are_known_as_such() -> None:
    # Otherwise the fast lowerings for one CPU would not be taken, which no test of values would notice.
    known = []

    def step(platform: str, x: jax.Array) -> jax.Array:
        known.append((platform, platforms.on_one_device()))
        return 2 * x

    jax.jit(lambda x: primitives.call(step, x)).lower(np.ones(3, np.float32))
    assert known[-1] == ("cpu" if jax.default_backend() == "cpu" else "gpu", True)


if __name__ == "__main__":
    _, file, *functions = sys.argv
    assert not primitives.AVAILABLE
    np.savez(file, *(each for name in functions for each in results(name)))
