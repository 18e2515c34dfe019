"""The stored figures of compiled programs as tables of `benchmarks/README.md`."""

import json
from collections.abc import Sequence
from typing import Any

from benchmarks import report
from benchmarks.accelerators.cases import all_cases
from benchmarks.accelerators.compilers import TARGETS
from benchmarks.report import Row


def stored(target: str) -> dict[str, Any]:
    """The versions and figures of one target; empty if there are none."""
    path = report.RESULTS / f"{TARGETS[target].lower()}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(rows: Sequence[Row], versions: dict[str, str]) -> None:
    """Store these rows beside those that are stored already, and put all into the page."""
    for target, device in TARGETS.items():
        found: dict[str, Row] = {row["case"]: row for row in stored(target).get("cases", [])}
        for row in rows:
            if row["target"] == target:
                found[row["case"]] = found.get(row["case"], {}) | row
        ordered = [found[name] for of, name in all_cases() if of == target and name in found]
        results = {"versions": versions, "cases": ordered}
        report.save(report.RESULTS / f"{device.lower()}.json", results)
    report.write_block(report.ROOT / "benchmarks" / "README.md", "compiled", tables())


def tables() -> str:
    """Pools by themselves and within networks, with the versions of the compilers."""
    found = {target: stored(target) for target in TARGETS}
    versions = ", ".join(f"{name} {version}" for name, version in (found["gpu"] | found["tpu"])["versions"].items())
    rows = [row for each in found.values() for row in each["cases"]]
    return "\n\n".join([f"{versions}.", report.markdown(_alone(rows)), report.markdown(_networks(rows))])


def _alone(rows: list[Row]) -> report.Table:
    """Bytes over those needed and kernels on an H100, cycles on a v5e, from least to most over dtypes and layouts."""
    columns = [f"{device} {what}" for device in TARGETS.values() for what in report.PASSES]
    table = [["", *(f"{column}{of}" for column in columns for of in ("", ", plain JAX"))]]
    alone = [row for row in rows if "slice" not in row]
    for window in dict.fromkeys(_window(row) for row in alone):
        cells = [window]
        for target in TARGETS:
            for what in report.PASSES:
                of_window = [row for row in alone if row["target"] == target and _window(row) == window]
                of_pass = [row for row in of_window if row["case"].endswith(what)]
                cells += [_range(target, of_pass, who) for who in ("jaxpool", "plain")]
        table.append(cells)
    return table


def _networks(rows: list[Row]) -> report.Table:
    """MB on an H100 and millions of cycles on a v5e, with temporaries."""
    units = {"gpu": "MB", "tpu": "M cycles"}
    whose = {"jaxpool": "jaxpool", "plain": "plain JAX", "slice": "strided slice"}
    columns = [f"{TARGETS[target]}, {unit}: {who}" for target, unit in units.items() for who in whose.values()]
    table = [["a training step, bfloat16", *columns]]
    within = {(row["target"], row["case"]): row for row in rows if "slice" in row}
    for name in dict.fromkeys(name for _, name in within):
        cells = [name]
        for target in TARGETS:
            figures = within.get((target, name), {})
            cells += [_cost(target, figures[who]) if who in figures else report.NOTHING for who in whose]
        table.append(cells)
    return table


def _window(row: Row) -> str:
    """The pool and its window, and on how many chips."""
    window, form, _ = row["case"].split(", ")
    return f"{window}{form[form.index(' on ') :]}" if " on " in form else window


def _cost(target: str, figures: dict[str, int]) -> str:
    return f"{figures['moved'] / 1e6:.0f}" if target == "gpu" else f"{figures['cycles'] / 1e6:.2f}"


def _range(target: str, rows: list[Row], who: str) -> str:
    if not rows:
        return report.NOTHING
    if target == "tpu":
        numbers = sorted(row[who]["cycles"] / 1e6 for row in rows)
        return _from_to(numbers) if numbers[0] else report.NOTHING
    numbers = sorted(row[who]["moved"] / row["needed"] for row in rows)
    return f"{_from_to(numbers)}; {max(row[who]['kernels'] for row in rows)}"


def _from_to(numbers: list[float]) -> str:
    least, most = f"{numbers[0]:.2f}", f"{numbers[-1]:.2f}"
    return least if least == most else f"{least} to {most}"
