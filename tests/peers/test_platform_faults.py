"""The table of faults: jaxpool is right in every row, docs/conformance.md says so, and nothing in the table is made up.

The program that prints the table runs in a process with four virtual devices, by default for jaxpool and plain JAX
only. The results of other libraries may change, and nothing here depends on them, or on which are installed.
"""

import dataclasses
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.platform_faults import LIBRARIES, ROWS, text

ROOT = Path(__file__).parents[2]
COMMAND = "python -m tests.platform_faults"
PAGE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Where the platform is wrong\n")[2].partition("\n## ")[0]

# One process runs the program.
pytestmark = pytest.mark.xdist_group("platform faults")


def cells(page: str) -> list[list[str]]:
    """The cells of a table, row by row, without the line below its titles."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line[:1] == "|"]
    return [lines[0], *lines[2:]]


# The frameworks take most of the time.
@pytest.fixture(
    scope="module", params=[("plain JAX", "jaxpool"), pytest.param(tuple(LIBRARIES), marks=pytest.mark.slow)], ids=len
)
def table(request: pytest.FixtureRequest) -> list[list[str]]:
    chosen = [f"--library={library}" for library in request.param]
    command = [sys.executable, *COMMAND.split()[1:], *chosen]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert all(row.cause in done.stdout for row in ROWS)
    assert f"jax {jax.__version__}" in done.stdout
    return cells(done.stdout)


def test_jaxpool_is_right(table: list[list[str]]) -> None:
    titles, *rows = table
    assert titles[-1] == "jaxpool"
    assert [(row[0], row[1], row[-1]) for row in rows] == [(one.name, text(one.truth), text(one.truth)) for one in ROWS]


def test_the_page_has_this_table(table: list[list[str]]) -> None:
    titles, *rows = cells(SECTION)
    plain_jax, *others = LIBRARIES
    versions = [title.removeprefix(f"{plain_jax} ") for title in titles if title.startswith(plain_jax)]
    assert titles == ["", "true", *(f"{plain_jax} {version}" for version in versions), *others]
    # What a version does that the page does not name is what the one before it does.
    by_age = sorted(versions, key=numbers)
    earlier = [version for version in by_age if numbers(version) <= numbers(jax.__version__)]
    column = titles.index(f"{plain_jax} {(earlier or by_age)[-1 if earlier else 0]}")
    assert [[*row[:2], row[column], row[-1]] for row in rows] == [[*row[:3], row[-1]] for row in table[1:]]
    assert COMMAND in SECTION


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def test_cells_are_what_libraries_give(monkeypatch: pytest.MonkeyPatch) -> None:
    first, uneven = ROWS[0], next(row for row in ROWS if row.name == "average of 7 cells, all 3")
    for planted, cell in ((np.nan, "nan"), (7.0, "✗ 7")):
        monkeypatch.setattr(lax, "reduce_window", lambda *_: jnp.full((32, 32), planted, jnp.float32))  # noqa: B023
        assert first.cell("plain JAX") == cell
    monkeypatch.undo()
    # Marked as less exact: by one unit in the last place at most.
    above = text(np.nextafter(np.float32(3), np.float32(4)))
    assert uneven.cell("plain JAX") in ("3", f"≈ {above}")
    monkeypatch.setitem(sys.modules, "equinox", None)
    assert first.cell("Equinox") == "not installed"
    assert first.cell("Haiku") == "not installed" or ROWS[2].cell("Haiku") == "–"
    refused = dataclasses.replace(first, arguments={**first.arguments, "kernel_size": (65, 65)})
    assert refused.cell("jaxpool") == "ValueError"
