"""`python -m benchmarks`: the speed and memory of every pool against plain JAX, Flax, PyTorch and the copy limit.

Plain JAX is `lax.reduce_window`, and `reshape` where windows tile the array; in figures of both the quicker one counts.
All contenders run in one process, alternately, on the same arrays; the figures are medians. Results are compared before
anything is timed. Tables are printed; numbers and a plot are saved in benchmarks/results/, or elsewhere with --output.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import jaxpool
from benchmarks.cases import cases
from benchmarks.compare import Mismatch
from benchmarks.dispatch import Dispatch, dispatch_cases, measure_dispatch
from benchmarks.goals import Figure, missed, summarise
from benchmarks.growth import Growth, growth_cases, measure_growth
from benchmarks.measure import Row, measure
from benchmarks.options import Options, parse
from benchmarks.plot import draw_plot
from benchmarks.report import line, make_console, print_growth, print_rows, print_summary


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, save."""
    options = parse(arguments)
    console = make_console()
    with jax.enable_x64(options.dtype.itemsize == 8), jax.default_device(options.device):
        rows, growths, dispatches, wrong = _run(options, console)
    if not rows and not growths and not dispatches:
        console.print("no case holds this text")
        return
    reasons = dict.fromkeys(row.reasons[peer] for row in rows for peer in options.peers if peer in row.reasons)
    figures = summarise(rows, growths, dispatches)
    if rows:
        print_rows(console, rows)
        console.print(f"left out: {'; '.join(reasons)}" if reasons else "")
    print_growth(console, growths, dispatches)
    print_summary(console, figures)
    console.print("{} of {} comparisons with plain JAX and PyTorch miss their goal".format(*missed(rows)))
    if options.folder is not None:
        for path in save(options, options.folder, rows, growths, dispatches, figures):
            console.print(f"saved {path}", soft_wrap=True)
    if wrong:
        raise SystemExit("\n".join(wrong))


def _run(options: Options, console: Any) -> tuple[list[Row], list[Growth], list[Dispatch], list[str]]:
    """All requested measurements, with a progress bar, or with one line each if there is no terminal.

    A wrong result is told at once and again at the end: it costs its own row and no other.
    """
    rows: list[Row] = []
    growths: list[Growth] = []
    dispatches: list[Dispatch] = []
    wrong: list[str] = []
    tasks: list[tuple[str, Callable[[], str]]] = []

    def case_task(case: Any) -> str:
        rows.append(measure(case, options))
        return line(rows[-1])

    def growth_task(name: str, studied: Any) -> str:
        growths.append(measure_growth(name, studied, options))
        return name

    def dispatch_task(name: str, case: Any) -> str:
        dispatches.append(measure_dispatch(name, case, options))
        return name

    for case in cases(options.batch):
        tasks.append((f"{case.group} {case.name}", lambda case=case: case_task(case)))
    for name, studied in growth_cases(options):
        tasks.append((name, lambda name=name, studied=studied: growth_task(name, studied)))
    for name, case in dispatch_cases():
        tasks.append((name, lambda name=name, case=case: dispatch_task(name, case)))
    tasks = [(name, task) for name, task in tasks if options.wants(name)]
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=len(tasks))
        for name, task in tasks:
            progress.update(bar, description=name)
            try:
                done = task()
            except Mismatch as mismatch:
                done = f"WRONG: {mismatch}"
                wrong.append(done)
            progress.advance(bar)
            if not console.is_terminal or done in wrong:
                console.print(done, soft_wrap=True)
    return rows, growths, dispatches, wrong


def save(
    options: Options,
    folder: Path,
    rows: Sequence[Row],
    growths: Sequence[Growth],
    dispatches: Sequence[Dispatch],
    figures: Sequence[Figure],
) -> list[Path]:
    """Write the numbers and, if there are cases, the plot, named by device and versions; return the paths."""
    device = options.device.device_kind
    versions = {"jax": jax.__version__} | {
        name: metadata.version(name).partition("+")[0]
        for peer in ("flax", "torch")
        if any(row.forward.get(peer) for row in rows)
        for name in [peer]
    }
    words = [device.lower().replace(" ", "-"), options.dtype.name, "jax", versions["jax"]]
    words += ["torch", versions["torch"]] if "torch" in versions else []
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{'-'.join(words)}.json"
    saved = {
        "device": device,
        "dtype": options.dtype.name,
        "batch": options.batch,
        "repetitions": options.repetitions,
        "versions": {"jaxpool": jaxpool.__version__, **versions},
        "summary": [{**asdict(figure), "met": figure.met} for figure in figures],
        "dispatch": [asdict(dispatch) for dispatch in dispatches],
        "growth": [asdict(growth) for growth in growths],
        "rows": [asdict(row) for row in rows],
    }
    path.write_text(json.dumps(saved, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if not rows:
        return [path]
    title = f"{device}, {options.dtype.name}, " + ", ".join(f"{name} {version}" for name, version in versions.items())
    draw_plot(rows, title, path.with_suffix(".png"))
    return [path, path.with_suffix(".png")]


if __name__ == "__main__":
    # Compile times are those of a first run, without a persistent cache.
    jax.config.update("jax_enable_compilation_cache", False)
    main()
