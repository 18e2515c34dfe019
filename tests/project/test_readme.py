"""The README and the pages about models: every block of Python runs when pasted, and the figures are measured ones.

A block gets a fresh namespace. It must print what the comments after `print` say. Blocks that are sessions, with `>>>`,
are run with the other examples.
"""

import json
import re
from pathlib import Path
from typing import Any

import jax
import pytest

from benchmarks.goals import summarise
from benchmarks.measure import Row

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("README.md", "docs/index.md", "docs/models.md", "docs/from_flax.md", "docs/from_haiku.md")
BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
    if not block.startswith(">>>")
]


def test_readme_can_be_read_in_one_go() -> None:
    assert len(README.splitlines()) <= 160


def test_blocks_were_found() -> None:
    assert len(BLOCKS) > 5
    assert ">>>" not in README


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs_when_it_is_pasted(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    for library in re.findall(r"^(?:import|from) (flax|haiku|equinox|optax|sklearn)", block, re.MULTILINE):
        pytest.importorskip(library)
    names: dict[str, Any] = {"__name__": "__main__"}
    # A default session, not the settings of the other tests.
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        exec(compile(block, "block", "exec"), names)
    said = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
    printed = capsys.readouterr().out
    assert not said or printed.splitlines() == said
    assert names.get("accuracy", 1) > 0.9
    assert printed or "print(" not in block


def test_figures_of_speed_are_those_of_the_measurement() -> None:
    results = {path.stem: path for path in (ROOT / "benchmarks" / "results").glob("cpu-float32-*.json")}
    assert set(re.findall(r"\(benchmarks/results/(cpu-.*)\.png\)", README)) <= set(results)
    saved = [json.loads(path.read_text(encoding="utf-8")) for path in results.values()]
    # From the rows, by the benchmark's own rule: a case that plain JAX compiles to the same program counts as 1.
    measured = {}
    for one in saved:
        figures = summarise([Row(**row) for row in one["rows"]], [], [])
        measured[one["versions"]["jax"]] = {figure.name: figure for figure in figures}
    libraries = ("plain JAX", "PyTorch")
    (heading,) = re.findall(r"^\| (\| plain JAX, JAX .*) \|$", README, re.MULTILINE)
    columns = [tuple(title.split(", JAX ")) for title in heading.removeprefix("| ").split(" | ")]
    assert sorted(columns) == sorted((library, version) for library in libraries for version in measured)
    written = re.findall(r"^\| (\w+ and \w+) \| (.*?) \|$", README, re.MULTILINE)
    assert len(written) == 2
    for groups, cells in written:
        for (library, version), cell in zip(columns, cells.split(" | "), strict=True):
            figure = measured[version][f"{groups} gradient: {library} / jaxpool"]
            assert cell == f"{figure.mean:.2g}× ({figure.worst:.2g}×)", "measured anew: write these"
