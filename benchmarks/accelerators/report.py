"""The figures as text and as JSON: a line per case, with jaxpool's, plain JAX's, the least possible and the goals."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.accelerators.case import OURS, PLAIN, SLICE
from benchmarks.accelerators.goals import Verdict, verdicts
from benchmarks.accelerators.measure import Figures, Row

_HEADINGS = {
    "gpu": ("kernels", "moved", "reads", "temporary", "s", "kernels", "moved", "reads", "temporary", "s", "least"),
    "tpu": ("M cycles", "more", "moved", "temporary", "s", "M cycles", "more", "moved", "temporary", "s", "least"),
}
_WIDTH = 10


def lines(target: str, rows: Sequence[Row]) -> list[str]:
    """The table of one target."""
    width = max(len(row.case.name) for row in rows) + 2
    columns = len(_HEADINGS[target]) // 2 * _WIDTH
    found = [" " * width + f"{OURS:>{columns}}{PLAIN:>{columns}}"]
    found += [" " * width + "".join(f"{heading:>{_WIDTH}}" for heading in _HEADINGS[target]) + "  goals"]
    return found + [line(row, width) for row in rows]


def line(row: Row, width: int = 0) -> str:
    """One case: its figures and its goals, each with a mark for whether it is met."""
    cells = [cell for name in (OURS, PLAIN) for cell in _cells(row, row.figures.get(name))]
    least = row.figures[SLICE].costs.moved if SLICE in row.figures else row.needed
    cells.append(_moved(row, least))
    text = f"{row.case.name:<{width}}" + "".join(f"{cell:>{_WIDTH}}" for cell in cells)
    goals = ", ".join(f"{'✓' if verdict.met else '✗'} {verdict.goal}" for verdict in verdicts(row))
    failures = "".join(f"; {name}: {reason}" for name, reason in row.failures.items())
    return f"{text}  {goals}{failures}"


def summary(target: str, rows: Sequence[Row]) -> str:
    """How many cases meet all of their goals."""
    judged = [found for row in rows if (found := verdicts(row))]
    met = sum(all(verdict.met for verdict in found) for found in judged)
    return f"{target}: {len(rows)} cases, {met} of {len(judged)} with goals meet them"


def save(path: Path, target: str, rows: Sequence[Row], versions: dict[str, str]) -> None:
    """Write all figures of one target."""
    saved = {"target": target, "versions": versions, "cases": [_saved(row) for row in rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(saved, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def flat(figures: Figures) -> dict[str, float]:
    """All figures of one program by name."""
    return asdict(figures.costs) | {"temporary": figures.temporary, "seconds": round(figures.seconds, 2)}


def _saved(row: Row) -> dict[str, Any]:
    goals = [_goal(verdict) for verdict in verdicts(row)]
    figures = {name: flat(row.figures[name]) for name in row.case.functions if name in row.figures}
    return {"case": row.case.name, "needed": row.needed, "figures": figures, "goals": goals, "failures": row.failures}


def _goal(verdict: Verdict) -> dict[str, Any]:
    return {"goal": str(verdict.goal), "limit": verdict.limit, "value": verdict.value, "met": verdict.met}


def _cells(row: Row, figures: Figures | None) -> list[str]:
    if figures is None:
        return ["–"] * 5
    costs = figures.costs
    moved, temporary = _moved(row, costs.moved), f"{figures.temporary / 1e6:.0f} MB"
    seconds = f"{figures.seconds:.1f}"
    if row.case.target == "tpu":
        return [f"{costs.cycles / 1e6:.2f}", str(costs.uncosted), moved, temporary, seconds]
    return [str(costs.kernels), moved, str(costs.reads), temporary, seconds]


def _moved(row: Row, count: int) -> str:
    """Bytes over those needed; in a network, where most are not the pool's, the bytes themselves."""
    return f"{count / 1e6:.0f} MB" if row.case.kind == "network" else f"{count / row.needed:.2f} ×"
