"""How the notebooks are stored: with their output, their requirements, and figures for light and dark pages.

`pytest notebooks` tests that they run.
"""

import ast
import base64
import io
import json
import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from tests.registry.records import RECORDS

image = pytest.importorskip("PIL.Image")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EXTRA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
STYLE = re.compile(r"%config .*?^\)$", re.DOTALL | re.MULTILINE)
WIDTH = 9 * 160  # inches, and dots for each of them

Cell = dict[str, Any]


def cells(notebook: Path) -> list[Cell]:
    return json.loads(notebook.read_text(encoding="utf-8"))["cells"]


def code(notebook: Path) -> list[Cell]:
    return [cell for cell in cells(notebook) if cell["cell_type"] == "code"]


def tags(cell: Cell) -> list[str]:
    return cell["metadata"].get("tags", [])


def source(cell: Cell) -> str:
    return "".join(cell["source"])


def figures(cell: Cell) -> list[bytes]:
    found = [output["data"]["image/png"] for output in cell["outputs"] if "image/png" in output.get("data", {})]
    return [base64.b64decode(figure) for figure in found]


every_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)


def test_notebooks_were_found() -> None:
    assert len(NOTEBOOKS) >= 9


@every_notebook
def test_installs_what_it_needs_where_it_is_asked_to(notebook: Path) -> None:
    install, *others = code(notebook)
    assert '%pip install -q "..[notebooks]"' in source(install)
    # Tools that run whole notebooks, including the tests, skip cells with this tag.
    assert tags(install) == ["skip-execution"]
    assert install["execution_count"] is None
    assert not [cell for cell in others if "%pip" in source(cell) or "skip-execution" in tags(cell)]


@every_notebook
def test_extra_has_what_is_imported(notebook: Path) -> None:
    given = {re.split(r"[>=<]", requirement)[0] for requirement in EXTRA["notebooks"]} | {"jax", "numpy", "jaxpool"}
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
    kinds = {output.get("name", output["output_type"]) for cell in run for output in cell["outputs"]}
    assert kinds <= {"stdout", "display_data", "execute_result"}


@every_notebook
def test_figures_have_nothing_behind_them(notebook: Path) -> None:
    drawing = [cell for cell in code(notebook) if figures(cell)]
    assert drawing
    for cell in drawing:
        # Cells that only draw are hidden on the site.
        assert "hide-input" in tags(cell), source(cell)
        for figure in map(io.BytesIO, figures(cell)):
            with image.open(figure) as opened:
                assert opened.mode == "RGBA"
                assert opened.width == WIDTH
                edge = opened.getchannel("A").crop((0, 0, opened.width, 1))
                assert edge.getextrema() == (0, 0), source(cell)


def test_style_of_figures_is_the_same_everywhere() -> None:
    styles = {notebook.stem: STYLE.findall("\n".join(map(source, code(notebook)))) for notebook in NOTEBOOKS}
    (first, *_) = styles.values()
    assert len(first) == 1
    assert styles == dict.fromkeys(styles, first)


@every_notebook
def test_ends_with_what_to_keep(notebook: Path) -> None:
    last = cells(notebook)[-1]
    assert last["cell_type"] == "markdown"
    assert source(last).startswith("## In short\n")


def test_every_function_is_shown() -> None:
    texts = {notebook.stem: "\n".join(map(source, cells(notebook))) for notebook in NOTEBOOKS}
    words = set(re.findall(r"\w+", " ".join(texts.values())))
    assert set(RECORDS) <= words
    assert f"{len(RECORDS)} functions" in texts["01_tour"]
