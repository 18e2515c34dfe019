"""The table of faults: jaxpool is right in every row, docs/conformance.md says so, and nothing in the table is made up.

The program that prints the table runs in a separate process with four virtual devices, by default for jaxpool and plain
JAX only. The results of other libraries may change, and nothing here depends on them, or on which of them are
installed.
"""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.peers.platform_libraries import LIBRARIES
from tests.peers.platform_rows import ROWS, Row, evaluate, text, truth
from tests.platform_faults import NOT_WRONG, entries, markdown, plain

ROOT = Path(__file__).parents[2]
HEADING = "## Where the platform is wrong\n"
COMMAND = "python -m tests.platform_faults"


# One process runs the program.
pytestmark = pytest.mark.xdist_group("platform faults")

# The frameworks take most of the time.
OURS = ("plain JAX", "jaxpool")


@pytest.fixture(scope="module", params=[OURS, pytest.param(None, marks=pytest.mark.slow)], ids=["ours", "all"])
def table(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The output of the program, which must end without errors."""
    chosen = [f"--library={library}" for library in request.param or ()]
    command = [sys.executable, "-m", "tests.platform_faults", "--json", *chosen]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row.name for row in ROWS])
def test_jaxpool_is_right(table: dict[str, Any], number: int) -> None:
    row = table["rows"][number]
    assert row["name"] == ROWS[number].name
    assert row["texts"]["jaxpool"] == row["true"] == text(truth(ROWS[number]))
    assert "jaxpool" not in row["wrong"]


def test_the_page_has_this_table(table: dict[str, Any]) -> None:
    section = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8").partition(HEADING)[2].partition("\n## ")[0]
    written = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line[:1] == "|"]
    titles, _, *rows = written
    plain_jax, *others = LIBRARIES
    versions = [title.removeprefix(f"{plain_jax} ") for title in titles if title.startswith(plain_jax)]
    assert titles == ["", "true", *(f"{plain_jax} {version}" for version in versions), *others]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        (row["name"], row["true"], row["texts"]["jaxpool"]) for row in table["rows"]
    ]
    # What a version does that the page does not name is what the one before it does.
    by_age = sorted(versions, key=numbers)
    earlier = [version for version in by_age if numbers(version) <= numbers(jax.__version__)]
    column = titles.index(f"{plain_jax} {(earlier or by_age)[-1 if earlier else 0]}")
    assert [row[column] for row in rows] == [cells[2] for cells in entries(table)[1:]]
    assert COMMAND in section
    assert "jaxlib " in section


def numbers(version: str) -> list[int]:
    """A version of numbers and dots, to be compared."""
    return [int(part) for part in version.split(".")]


def test_wrong_is_told_from_less_exact(table: dict[str, Any]) -> None:
    assert {row["name"]: row["mark"] for row in table["rows"]} == {
        row.name: "≈" if row.name in NOT_WRONG else "✗" for row in ROWS
    }
    wraps, rounds = (next(row for row in ROWS if row.name == name) for name in NOT_WRONG)
    assert wraps.x.dtype == np.uint8
    above = np.nextafter(truth(rounds).astype(np.float32), np.float32(np.inf))
    assert evaluate(rounds, "plain JAX").text in (text(truth(rounds)), text(above))


def test_both_forms_have_every_cell(table: dict[str, Any]) -> None:
    for form in (markdown(table), plain(table)):
        lines = iter(form.splitlines())
        for cells in entries(table):
            line = next(line for line in lines if cells[0] in line and cells[1] in line)
            assert all(cell in line for cell in cells)
        assert form.rstrip(".").endswith(table["versions"])
    assert all(row["cause"] in plain(table) for row in table["rows"])


def test_rows_are_told_apart() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert not any("|" in name for name in names)


@pytest.mark.parametrize("row", [row for row in ROWS if not row.sharded], ids=lambda row: row.name)
def test_plain_jax_is_asked(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    for module, name in ((lax, "reduce_window"), (jnp, "max")):
        monkeypatch.setattr(module, name, counting(getattr(module, name), calls))
    # Plain JAX divides sums of float16 by Python numbers, and adds a float infinity to sums of integers.
    with jax.numpy_dtype_promotion("standard"):
        cell = evaluate(row, "plain JAX")
    assert bool(calls) == (cell.text != "–")


def counting(function: Any, calls: list[str]) -> Any:
    def counted(*arguments: Any, **named: Any) -> Any:
        calls.append(function.__name__)
        return function(*arguments, **named)

    return counted


@pytest.mark.parametrize(("planted", "right"), [(np.nan, True), (7.0, False)])
def test_what_plain_jax_gives_is_what_the_table_says(
    planted: float, right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lax, "reduce_window", lambda *_: jnp.full((32, 32), planted, jnp.float32))
    cell = evaluate(ROWS[0], "plain JAX")
    assert cell.text == text(np.array(planted))
    assert cell.right is right


def test_a_library_that_is_not_there_or_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "equinox", None)
    assert evaluate(ROWS[0], "Equinox").text == "not installed"
    refused = dataclasses.replace(ROWS[0], arguments={**ROWS[0].arguments, "kernel_size": (65, 65)})
    assert evaluate(refused, "jaxpool").text == "ValueError"
    assert list(LIBRARIES)[-1] == "jaxpool"
