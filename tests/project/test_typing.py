"""What type checkers and editors see: complete types, and a user's project in strict mode.

The project is in `typed_project`, to which a typical call of every function is added. Its right calls give no error.
Each of its wrong calls gives one: a comment that silences an error is itself an error if there is none.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from tests.project.importing import MODULES, public_members
from tests.project.typed_project import right, wrong
from tests.registry.records import RECORDS

PROJECT = Path(right.__file__).parent
PUBLIC = [(module, name) for module in MODULES for name in public_members(module)]


def pyright(*arguments: str) -> Any:
    """The type checker's report, as JSON."""
    programs = Path(sys.executable).parent
    assert (programs / "pyright").exists(), "pyright is not installed beside Python: install jaxpool[dev]"
    command = [str(programs / "pyright"), "--pythonpath", sys.executable, "--outputjson", *arguments]
    # To verify a package it asks the Python on the path for the location of packages, not the given one.
    environment = os.environ | {"PATH": os.pathsep.join((str(programs), os.environ["PATH"]))}
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, env=environment)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_strict_project_has_no_error(tmp_path: Path) -> None:
    project = shutil.copytree(PROJECT, tmp_path / PROJECT.name)
    (project / "every.py").write_text(every_call(), encoding="utf-8")
    report = pyright("--project", str(project))
    assert report["generalDiagnostics"] == []
    assert report["summary"]["filesAnalyzed"] == len(list(project.glob("*.py"))) == 4


def every_call() -> str:
    """A module that makes the typical call of every function and asserts the type of its result."""
    lines = [
        "from typing import assert_type",
        "import jax",
        "import numpy as np",
        "import jaxpool",
        "",
        "def every(x: jax.Array, indices: jax.Array, table: np.ndarray) -> None:",
    ]
    for record in RECORDS.values():
        given = {name: "table" if isinstance(one, np.ndarray) else repr(one) for name, one in record.parameters.items()}
        if record.windows == "indices":
            given |= {"indices": "indices", "output_size": "(4, 4)"}
        if record.windows == "random":
            given |= {"samples": "table"}
        arguments = ", ".join(["x", *(f"{name}={one}" for name, one in given.items())])
        returned = "tuple[jax.Array, jax.Array]" if record.has_indices else "jax.Array"
        lines.append(f"    assert_type(jaxpool.{record.function}({arguments}), {returned})")
    return "\n".join(lines) + "\n"


def test_types_are_complete() -> None:
    report = pyright("--verifytypes", "jaxpool", "--ignoreexternal")["typeCompleteness"]
    assert {module["name"] for module in report["modules"]} >= {module.__name__ for module in MODULES}
    assert [symbol["name"] for symbol in report["symbols"] if not symbol["isTypeKnown"]] == []
    assert report["completenessScore"] == 1


def test_project_calls_every_stand_in() -> None:
    source = ast.parse(Path(right.__file__).read_text(encoding="utf-8"))
    called = {ast.unparse(node.func) for node in ast.walk(source) if isinstance(node, ast.Call)}
    assert {
        f"{module.__name__.split('.')[-1]}.{name}" for module, name in PUBLIC if module is not jaxpool
    } - called == set()


def test_right_calls_work() -> None:
    def calls(x: jax.Array) -> list[jax.Array]:
        present, boxes = np.arange(8) < 5, jax.numpy.zeros((3, 4))
        return (
            right.windows(x)
            + right.indices(x)
            + right.bins_and_axes(x, present)
            + right.placed(x, boxes)
            + right.frameworks(x)
            + right.layers_of_equinox(x)
            + right.functions_of_pytorch(x)
        )

    outputs = jax.eval_shape(calls, jax.ShapeDtypeStruct((2, 3, 8, 8), np.float32))
    assert {output.dtype.kind for output in outputs} == {"f"}
    assert [y.shape for y in right.partial_calls(np.ones((4, 6), np.float32))] == [(2, 3), (2, 3), (1, 1)]


@pytest.mark.parametrize("number", range(len(wrong.CALLS)))
def test_wrong_calls_fail(number: int) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        wrong.CALLS[number]()
    assert raised.type in (TypeError, ValueError)
