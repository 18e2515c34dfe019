"""The README and the pages about models: every block of Python runs when pasted, and figures are measured.

A block gets a fresh namespace. It must print what the comments after `print` say. Blocks that are sessions, with `>>>`,
are run with the other examples.
"""

import re
from pathlib import Path
from typing import Any

import jax
import pytest

from benchmarks import report

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
    assert set(re.findall(r"\(benchmarks/(results/.*\.png)\)", README)) <= {
        f"results/{path.stem}.png" for path, _ in report.stored("cpu")
    }
    for _, results in report.stored("cpu"):
        assert results["summary"] == report.summary(results["cases"])
    assert report.speeds() in README, "measured anew: python -m benchmarks --write does this"
