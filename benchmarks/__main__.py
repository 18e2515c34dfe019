"""`python -m benchmarks`: the speed and memory of pools beside plain JAX, Flax, PyTorch and a copy of the array.

All who compute a case run in turns on the same arrays in one process, after their results have been compared; figures
are medians. `--write` stores them in benchmarks/results/ and puts them into both pages.
"""

import argparse
import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

import jaxpool
from benchmarks import against, report
from benchmarks.cases import all_cases, cases, growth
from benchmarks.measure import DISPATCHED, PEERS, WrongResult, measure
from benchmarks.measure import dispatch as measure_dispatch
from benchmarks.measure import growth as measure_growth

_PICTURES_ON_ACCELERATORS = 16


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and store."""
    options = _parse(arguments)
    # First calls are those of a new process, without a persistent cache.
    jax.config.update("jax_enable_compilation_cache", False)
    device = jax.devices(options.platform)[0]
    with jax.default_device(device):
        results, wrong = _run(options, device)
    for heading, table in report.tables(results):
        if len(table) > 1:
            print("", heading, report.text(table), sep="\n")
    if options.write:
        path = report.RESULTS / f"{device.platform}-jax-{jax.__version__}.json"
        report.save(path, results)
        from benchmarks.plot import draw_plot

        draw_plot(results, path.with_suffix(".png"))
        report.write_pages()
        print(f"stored {path}")
    if wrong:
        raise SystemExit("\n".join(wrong))


def _run(options: argparse.Namespace, device: Any) -> tuple[dict[str, Any], list[str]]:
    batch = options.batch or (1 if device.platform == "cpu" else _PICTURES_ON_ACCELERATORS)
    before = against.load(options.against) if options.against else None
    rows, wrong = [], []
    for case in all_cases(batch) if options.all else cases(batch):
        if not _is_wanted(case.name, options.case):
            continue
        try:
            rows.append(measure(case, options.peers, options.repetitions, device.platform, before))
            print(*report.lines(rows[-1:]), flush=True)
        except WrongResult as reason:
            wrong.append(str(reason))
            print(reason, flush=True)
    growths = [
        measure_growth(name, each, options.repetitions, device.platform)
        for name, each in growth()
        if _is_wanted(f"growth {name}", options.case)
    ]
    calls = [
        measure_dispatch(name, case, options.repetitions, device.platform)
        for name, case in DISPATCHED.items()
        if _is_wanted(f"dispatch {name}", options.case)
    ]
    versions = {"jaxpool": jaxpool.__version__, "jax": jax.__version__}
    versions |= {name: metadata.version(name).partition("+")[0] for name in _installed(options.peers)}
    results: dict[str, Any] = {"machine": _machine(device), "versions": versions}
    results |= {"summary": report.summary(rows), "cases": rows, "growth": growths, "dispatch": calls}
    return results, wrong


def _is_wanted(name: str, texts: Sequence[str]) -> bool:
    return not texts or any(text.replace("×", "x") in name.replace("×", "x") for text in texts)


def _installed(peers: Sequence[str]) -> list[str]:
    known = {each.name for each in metadata.distributions()}
    return [name for name in ("flax", "torch") if name in peers and name in known]


def _machine(device: Any) -> str:
    """The device, or the cores of a processor and the width of their vectors."""
    if device.platform != "cpu":
        return device.device_kind
    about = Path("/proc/cpuinfo")
    is_wide = about.exists() and "avx512f" in about.read_text(encoding="utf-8")
    return f"{os.cpu_count()} {platform.machine()} cores" + (", vectors of 512 bits" if is_wide else "")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure jaxpool beside others.")
    parser.add_argument("--case", action="append", default=[], metavar="TEXT", help="only what holds this text; repeat")
    parser.add_argument("--all", action="store_true", help="every pool over many windows, layouts and dtypes")
    parser.add_argument("--against", metavar="REVISION", help="beside the package at this revision of git, “before”")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="beside whom (default: all there are)")
    parser.add_argument("--platform", choices=("cpu", "gpu", "tpu"), help="where to run (default: where JAX does)")
    parser.add_argument("--repetitions", type=int, default=15, help="rounds at most, of which the median counts")
    parser.add_argument("--batch", type=int, help="times every batch (default: 1 on a CPU, 16 elsewhere)")
    parser.add_argument("--write", action="store_true", help="store the results, and put them into the pages")
    options = parser.parse_args(arguments)
    if options.write and (options.case or options.all or options.against):
        parser.error("argument --write: stores a whole run, not one with --case, --all or --against")
    return options


if __name__ == "__main__":
    main()
