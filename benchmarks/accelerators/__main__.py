"""`python -m benchmarks.accelerators`: pools compiled for an H100 and a TPU v5e, on a machine that has neither.

Compiles every case for both targets, prints jaxpool's figures next to plain JAX's, the least possible and the goals,
and saves the figures and a plot in benchmarks/results/accelerators/. On a machine with a GPU, `--run` times the cases
of a GPU instead, and saves milliseconds there.
"""

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import jax

import jaxpool
from benchmarks.accelerators import bounds, report, run, times
from benchmarks.accelerators.case import OURS, Case
from benchmarks.accelerators.cases import all_cases, chosen
from benchmarks.accelerators.measure import Row, measure
from benchmarks.accelerators.programs import TARGETS, missing, prepare

RESULTS = Path(__file__).parent.parent / "results" / "accelerators"


def main(arguments: Sequence[str] | None = None) -> None:
    """Compile, print, save."""
    options = _parse(arguments)
    if options.run:
        _run(options)
        return
    targets = tuple(TARGETS) if options.target == "all" or options.write_bounds else (options.target,)
    if absent := missing(targets):
        sys.exit(f"not installed: {', '.join(absent)}; benchmarks/README.md says how, under “GPUs and TPUs”")
    prepare()
    if options.write_bounds:
        bounds.write(measure(bounds.bounded_cases(), options.processes, (OURS,)))
        print(f"saved {bounds.PATH}")
        return
    cases = chosen(targets, options.case)
    if not cases:
        sys.exit("no case holds this text")
    rows: list[Row] = []
    for row in measure(cases, options.processes):
        rows.append(row)
        print(f"{len(rows)}/{len(cases)} {row.case.target} {row.case.name}", file=sys.stderr, flush=True)
    order = {key: number for number, key in enumerate(all_cases())}
    rows.sort(key=lambda row: order[row.case.target, row.case.name])
    folder = options.output or (None if options.case else RESULTS)
    versions = {"jaxpool": jaxpool.__version__} | bounds.versions()
    for target in targets:
        of_target = [row for row in rows if row.case.target == target]
        if not of_target:
            continue
        print("", *report.lines(target, of_target), report.summary(target, of_target), sep="\n")
        if folder is not None:
            path = folder / f"{TARGETS[target].lower()}-jax-{jax.__version__}.json"
            report.save(path, target, of_target, versions)
            print(f"saved {path}")
            _plot(target, of_target, versions, path.with_suffix(".png"))


def _run(options: argparse.Namespace) -> None:
    """Time the cases of a GPU, print, save."""
    cases = chosen(("gpu",), options.case)
    if not cases:
        sys.exit("no case holds this text")
    rows: list[tuple[Case, run.Timed]] = []
    try:
        for case, timed in run.run(cases, options.processes):
            rows.append((case, timed))
            print(f"{len(rows)}/{len(cases)} {times.line(timed)}", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    order = {case.name: number for number, case in enumerate(cases)}
    rows.sort(key=lambda row: order[row[0].name])
    print("", *times.summary(rows), sep="\n")
    folder = options.output or (None if options.case else RESULTS)
    if folder is not None:
        print(f"saved {times.save(folder, rows)}")
    if wrong := [f"{timed.name}: {', '.join(timed.wrong)}" for _, timed in rows if timed.wrong]:
        sys.exit("\n".join(["different results:", *wrong]))


def _plot(target: str, rows: Sequence[Row], versions: dict[str, str], path: Path) -> None:
    """Draw the figures if Matplotlib is installed; nothing else here needs it."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no plot: Matplotlib is not installed")
        return
    from benchmarks.accelerators.plot import draw_plot

    numbers = ", ".join(f"{name} {version}" for name, version in versions.items())
    draw_plot(target, rows, f"Compiled for {TARGETS[target]}, not run on it: {numbers}", path)
    print(f"saved {path}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accelerators",
        description="Compile pools for an H100 and a TPU v5e, and count what their programs cost.",
    )
    parser.add_argument("--target", choices=(*TARGETS, "all"), default="all", help="for which (default: %(default)s)")
    parser.add_argument("--case", action="append", default=[], metavar="TEXT", help="only what holds this text; repeat")
    processors = os.cpu_count() or 1
    parser.add_argument(
        "--processes", type=int, default=processors, metavar="N", help="how many (default: %(default)s)"
    )
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="save there, even if cases are left out")
    parser.add_argument(
        "--write-bounds", action="store_true", help="store what test_programs.py compares with, no more"
    )
    parser.add_argument(
        "--run", action="store_true", help="run a GPU's cases on the GPU of this machine, and time them"
    )
    options = parser.parse_args(arguments)
    if options.processes < 1:
        parser.error(f"argument --processes: must be at least 1, got {options.processes}")
    return options


if __name__ == "__main__":
    main()
