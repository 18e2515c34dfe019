"""Pages and notebooks: every block of Python runs when pasted, figures are measured, notebooks are stored as run.

A block gets a fresh namespace. It must print what the comments after `print` say. Blocks that are sessions, with `>>>`,
are run with the other examples. `pytest notebooks` tests that notebooks run.
"""

import ast
import json
import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import report
from jaxpool import morphology
from tests.harness.compilation import settings_of_users
from tests.project.importing import public_members
from tests.registry.records import RECORDS, row

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("README.md", "docs/index.md", "docs/models.md", "docs/from_flax.md", "docs/from_haiku.md")
BLOCKS = [
    # Whole models of other libraries, and their training, take long.
    row(block, id=f"{page}-{number}", quick=page != "docs/models.md" or not re.search("haiku|equinox|optax", block))
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
    if not block.startswith(">>>")
]


def test_readme_can_be_read_in_one_go() -> None:
    assert len(README.splitlines()) <= 130
    assert ">>>" not in README


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs_when_it_is_pasted(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    for library in re.findall(r"^(?:import|from) (flax|haiku|equinox|optax|sklearn)", block, re.MULTILINE):
        pytest.importorskip(library)
    names: dict[str, Any] = {"__name__": "__main__"}
    # A default session, not the settings of the other tests.
    with settings_of_users():
        exec(compile(block, "block", "exec"), names)
    said = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
    printed = capsys.readouterr().out
    assert not said or printed.splitlines() == said
    assert names.get("accuracy", 1) > 0.9
    assert printed or "print(" not in block


def test_the_change_of_one_import_keeps_the_values() -> None:
    pytest.importorskip("flax")
    (lines,) = re.findall(r"^```diff\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    x = np.random.default_rng(0).normal(size=(1, 4, 6, 2)).astype(np.float32)
    before, after = {"x": x}, {"x": x}
    for mark, names in ("-", before), ("+", after):
        exec("\n".join(line[1:] for line in lines.splitlines() if line[0] in (mark, " ")), names)
    assert before["y"].shape == (1, 2, 3, 2)
    np.testing.assert_array_equal(after["y"], before["y"])


def test_links_of_the_readme_lead_to_files() -> None:
    for text, target in re.findall(r"\[([^\]]*)\]\(([^)]*)\)", README):
        path, _, heading = target.partition("#")
        assert (ROOT / path).exists(), target
        linked = (ROOT / path).read_text(encoding="utf-8") if heading or path.startswith("jaxpool/") else ""
        assert f"## {heading.capitalize()}\n" in linked if heading else True
        if text.startswith("`") and path.startswith("jaxpool/") and "morphology`" not in text:
            assert re.search(rf"^(def |class )?{text.strip('`')}\b", linked, re.MULTILINE), text


def test_every_function_has_a_formula() -> None:
    formulas = (ROOT / "docs" / "api.md").read_text(encoding="utf-8").partition("## Formulas")[2]
    first_column = " ".join(re.findall(r"^\| ([^|]*) \|", formulas, re.MULTILINE))
    assert {*RECORDS, *public_members(morphology)} <= set(re.findall(r"\w+", first_column))


def test_figures_of_speed_are_those_of_the_measurement() -> None:
    for _, results in report.stored("cpu"):
        assert results["summary"] == report.summary(results["cases"])
    assert report.speeds() in README, "measured anew: python -m benchmarks --write does this"


def test_figures_in_the_text_of_the_readme_are_those_of_the_measurement() -> None:
    results = report.stored("cpu")[0][1]
    (row,) = (row for row in results["cases"] if row["case"] == "max 2×2/2, 8×56×56×64 NHWC float32")
    assert f"{report.ratio(row, 'gradient', 'flax'):.1f} times as fast (JAX {results['versions']['jax']}" in README
    compiled = json.loads((report.RESULTS / "h100.json").read_text(encoding="utf-8"))["cases"]
    steps = [row for row in compiled if "slice" in row and re.search(r"\bmax \d", row["case"])]
    assert len(steps) == 5
    added = {
        who: [100 * row[who]["moved"] / row["slice"]["moved"] - 100 for row in steps] for who in ("jaxpool", "plain")
    }
    ours, theirs = (f"{min(each):.0f} to {max(each):.0f} %" for each in added.values())
    said = f"max pooling adds {ours} to the bytes moved, plain JAX's {theirs}"
    assert said in " ".join(README.split())
    slower = {each["family"] for each in results["summary"] if each["peer"] == "plain JAX" and each["mean"] < 1}
    assert slower == {"global"}


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EXTRA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

Cell = dict[str, Any]
every_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)


def cells(notebook: Path) -> list[Cell]:
    return json.loads(notebook.read_text(encoding="utf-8"))["cells"]


def code(notebook: Path) -> list[Cell]:
    return [cell for cell in cells(notebook) if cell["cell_type"] == "code"]


def source(cell: Cell) -> str:
    return "".join(cell["source"])


@every_notebook
def test_installs_what_it_imports(notebook: Path) -> None:
    install, *others = code(notebook)
    found = re.search(r'^%pip install -q "\.\.\[notebooks\]"(.*)$', source(install), re.MULTILINE)
    assert found
    # Tools that run whole notebooks, including the tests, skip cells with the first tag; the site leaves them out.
    assert install["metadata"]["tags"] == ["skip-execution", "remove-cell"]
    assert not [cell for cell in others if "%pip" in source(cell)]
    given = {re.split(r"[>=<]", requirement)[0] for requirement in EXTRA["notebooks"]} | {"jax", "numpy", "jaxpool"}
    given |= {*found[1].split()}
    distributions = packages_distributions()
    text = "\n".join(re.sub(r"^%.*$", "", source(cell), flags=re.MULTILINE) for cell in code(notebook))
    nodes = list(ast.walk(ast.parse(text)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    needed = {name: distributions.get(name.partition(".")[0], []) for name in names}
    # A module that belongs to no distribution is in Python's standard library.
    assert {name for name, owners in needed.items() if owners and not given & set(owners)} == set()


@every_notebook
def test_is_stored_as_it_ran_from_top_to_bottom(notebook: Path) -> None:
    _, *run = code(notebook)
    assert [cell["execution_count"] for cell in run] == list(range(1, len(run) + 1))
    outputs = [(cell, output) for cell in run for output in cell["outputs"]]
    # Neither warnings nor errors.
    kinds = {output.get("name", output["output_type"]) for _, output in outputs}
    assert kinds <= {"stdout", "display_data", "execute_result"}
    drawing = [cell for cell, output in outputs if "image/png" in output.get("data", {})]
    assert drawing
    # Cells that only draw are hidden on the site.
    assert all("hide-input" in cell["metadata"].get("tags", []) for cell in drawing)
    assert source(cells(notebook)[-1]).startswith("## In short\n")


def test_every_function_is_shown() -> None:
    texts = {notebook.stem: "\n".join(map(source, cells(notebook))) for notebook in NOTEBOOKS}
    assert set(RECORDS) <= set(re.findall(r"\w+", " ".join(texts.values())))
    assert f"{len(RECORDS)} functions" in texts["01_tour"]
