"""`python -m benchmarks.accelerators`: pools compiled for an H100 and a TPU v5e, on a machine that has neither.

Counts the kernels of their programs, the bytes that these move and the cycles that the compiler for TPUs expects,
beside plain JAX's, with `--against` beside those of another version of the package. Nothing runs, so figures have no
noise.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from benchmarks import report
from benchmarks.accelerators import page
from benchmarks.accelerators.cases import all_cases
from benchmarks.accelerators.compilers import TARGETS, missing
from benchmarks.accelerators.measure import measure, versions
from benchmarks.report import Row

_HEADINGS = ("kernels", "moved", "rarely", "cycles", "uncosted", "temporary")


def main(arguments: Sequence[str] | None = None) -> None:
    """Compile, print, and store."""
    options = _parse(arguments)
    targets = tuple(TARGETS) if options.target == "all" else (options.target,)
    if absent := missing(targets):
        sys.exit(f"not installed: {', '.join(absent)}; benchmarks/README.md says how")
    keys = [key for key in all_cases() if key[0] in targets and _is_wanted(" ".join(key), options.case)]
    rows: list[Row] = []
    for row in measure(keys, options.peers, options.processes, options.against):
        rows.append(row)
        print(f"{len(rows)}/{len(keys)} {row['target']} {row['case']}", file=sys.stderr, flush=True)
    table = _table(rows, only_changed=options.against is not None)
    print(report.text(table) if len(table) > 1 else "no figure differs")
    if options.write:
        page.write(rows, versions())


def _table(rows: Sequence[Row], only_changed: bool) -> report.Table:
    """A line for every program; with another version only for cases whose figures differ from its own."""
    table = [["", "", *_HEADINGS]]
    for row in rows:
        if only_changed and row["before"] == row["jaxpool"]:
            continue
        for who in ("jaxpool", "before", "plain", "slice"):
            if who in row:
                name = f"{row['target']} {row['case']}" if who == "jaxpool" else ""
                table.append([name, who, *(f"{row[who][heading]:,}" for heading in _HEADINGS)])
    return table


def _is_wanted(name: str, texts: Sequence[str]) -> bool:
    return not texts or any(text.replace("×", "x") in name.replace("×", "x") for text in texts)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accelerators",
        description="Compile pools for an H100 and a TPU v5e, and count what their programs cost.",
    )
    parser.add_argument("--target", choices=(*TARGETS, "all"), default="all", help="for which (default: %(default)s)")
    parser.add_argument("--case", action="append", default=[], metavar="TEXT", help="only what holds this text; repeat")
    parser.add_argument("--against", metavar="REVISION", help="what differs from the package at this revision of git")
    peers = ("plain", "slice")
    parser.add_argument("--peers", nargs="*", choices=peers, default=peers, help="beside whom (default: both)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="how many")
    parser.add_argument("--write", action="store_true", help="store these figures, and put them into the page")
    options = parser.parse_args(arguments)
    if options.write and options.against:
        parser.error("argument --write: stores the figures of this version, without --against")
    return options


if __name__ == "__main__":
    main()
