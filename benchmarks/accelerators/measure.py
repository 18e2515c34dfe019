"""Compile every function of every case, in several processes, and measure the cost of its program."""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

from benchmarks.accelerators.case import OURS, PLAIN, SLICE, Case
from benchmarks.accelerators.cases import all_cases
from benchmarks.accelerators.costs import Costs, costs
from benchmarks.accelerators.programs import compile_for, prepare


@dataclass(frozen=True)
class Figures:
    """The costs of one program, the bytes of its temporaries, and the seconds to trace and compile it."""

    costs: Costs
    temporary: int
    seconds: float


@dataclass
class Row:
    """A case with the figures of every function that computes it, and why some have none."""

    case: Case
    needed: int
    figures: dict[str, Figures] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def figures_of(case: Case, name: str) -> Figures:
    """The figures of one function of a case."""
    program = compile_for(case.target, case.functions[name], case.specifications)
    return Figures(costs(program.text, case.target), program.temporary, program.seconds)


def measure(cases: Sequence[Case], processes: int, names: Sequence[str] = (OURS, PLAIN, SLICE)) -> Iterator[Row]:
    """The rows of these cases, for functions with these names, each as soon as all its programs are compiled."""
    rows = {(case.target, case.name): Row(case, case.needed) for case in cases}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=prepare) as executor:
        futures: dict[Future[Figures], tuple[Row, str]] = {
            executor.submit(_figures, key, name): (row, name)
            for key, row in rows.items()
            for name in row.case.functions
            if name in names
        }
        for future in as_completed(futures):
            row, name = futures[future]
            failure = future.exception()
            if failure is None:
                row.figures[name] = future.result()
            else:
                row.failures[name] = f"{type(failure).__name__}: {failure}".splitlines()[0]
            if len(row.figures) + len(row.failures) == len(set(names) & set(row.case.functions)):
                yield row


def _figures(key: tuple[str, str], name: str) -> Figures:
    return figures_of(all_cases()[key], name)
