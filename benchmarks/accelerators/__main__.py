"""`python -m benchmarks.accelerators`: pools compiled for an H100 and a TPU v5e, on a machine that has neither.

Counts the kernels of their programs, the bytes that these move and the cycles that the compiler for TPUs expects,
beside plain JAX's, with `--against` beside those of another version of the package. Nothing runs, so figures have no
noise.
"""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from importlib import metadata
from typing import Any

import jaxpool
from benchmarks import against, report
from benchmarks.accelerators import page
from benchmarks.accelerators.cases import all_cases
from benchmarks.accelerators.compilers import TARGETS, compile_for, missing, prepare
from benchmarks.accelerators.costs import costs

COMPILERS = ("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "jax-cuda12-pjrt")
Row = dict[str, Any]
_HEADINGS = ("kernels", "moved", "rarely", "cycles", "uncosted", "temporary")
_before: list[Any] = []


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
    print(report.text(_table(rows, only_changed=options.against is not None)))
    if options.write:
        write(rows)


def measure(
    keys: Sequence[tuple[str, str]], peers: Sequence[str], processes: int, revision: str | None = None
) -> Iterator[Row]:
    """The figures of these cases, for jaxpool, these peers and another version."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_prepare, initargs=(revision,)) as executor:
        yield from executor.map(_measured, keys, [peers] * len(keys))


def write(rows: Sequence[Row]) -> None:
    """Store these rows beside those that are stored already, and put all into the page."""
    for target, device in TARGETS.items():
        found: dict[str, Row] = {row["case"]: row for row in page.stored(target).get("cases", [])}
        for row in rows:
            if row["target"] == target:
                found[row["case"]] = found.get(row["case"], {}) | row
        ordered = [found[name] for of, name in all_cases() if of == target and name in found]
        results = {"versions": {"jaxpool": jaxpool.__version__} | versions(), "cases": ordered}
        report.save(report.RESULTS / f"{device.lower()}.json", results)
    page.write()


def versions() -> dict[str, str]:
    """The installed compilers."""
    found = {distribution.name: distribution.version for distribution in metadata.distributions()}
    return {name: found[name] for name in COMPILERS if name in found}


def _prepare(revision: str | None) -> None:
    prepare()
    if revision is not None:
        _before.append(against.load(revision))


def _measured(key: tuple[str, str], peers: Sequence[str]) -> Row:
    case = all_cases()[key]
    row: Row = {"target": case.target, "case": case.name, "needed": case.needed}
    functions = {"jaxpool": (case.ours(jaxpool), jaxpool)}
    if _before:
        functions["before"] = (case.ours(_before[0]), _before[0])
    functions |= {peer: (case.others[peer], jaxpool) for peer in peers if peer in case.others}
    for name, (pool, library) in functions.items():
        program = compile_for(case.target, case.around(pool), case.arguments, case.chips, library)
        row[name] = asdict(costs(program.text, case.target)) | {"temporary": program.temporary}
    return row


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
