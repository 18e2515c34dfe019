"""The goals for the cost of programs on an H100 and a v5e, by the kind of case, and whether they are met.

A goal is an upper limit: a multiple of the bytes of arguments and results, of the same figure for plain JAX or for a
strided slice in the pool's place, or an absolute number.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.accelerators.case import OURS, PLAIN, SLICE, Case
from benchmarks.accelerators.measure import Figures, Row

NEEDED, ITSELF = "needed", ""
_LARGEST_AT_ONCE = 7
_OTHERS = ("lp", "gem", "smooth", "mellowmax", "soft", "mixed", "blur", "median")
_MOST_READS = 16


@dataclass(frozen=True)
class Goal:
    """At most `factor` times the figure of `beside`."""

    figure: str
    factor: float
    beside: str

    def __str__(self) -> str:
        return f"{self.figure} ≤ {self.factor:g}{f' × {self.beside}' if self.beside else ''}"


@dataclass(frozen=True)
class Verdict:
    """A goal, its limit in this case, and the actual figure."""

    goal: Goal
    limit: float
    value: float

    @property
    def met(self) -> bool:
        """Whether the goal is met."""
        return self.value <= self.limit


def verdicts(row: Row) -> list[Verdict]:
    """The goals of a case whose figures are known."""
    if OURS not in row.figures:
        return []
    ours = row.figures[OURS]
    found = []
    for goal in _goals(row.case):
        if goal.beside in row.case.functions and goal.beside not in row.figures:
            continue
        reference = {NEEDED: row.needed, ITSELF: 1}.get(goal.beside)
        if reference is None:
            reference = value(row.figures[goal.beside], goal.figure)
        found.append(Verdict(goal, goal.factor * reference, value(ours, goal.figure)))
    return found


def value(figures: Figures, name: str) -> float:
    """A figure by its name."""
    return figures.temporary if name == "temporary" else getattr(figures.costs, name)


def _goals(case: Case) -> Iterator[Goal]:
    if case.target == "tpu":
        yield from _on_tpu(case)
        return
    if case.kind == "network":
        yield Goal("moved", 1, PLAIN)
        if max(case.kernel, default=1) <= 3:
            yield Goal("moved", 1.1, SLICE)
        return
    group, _, what = case.kind.removeprefix("masked ").rpartition(" ")
    masked = case.kind.startswith("masked ")
    yield from _alone(group, what, case.kernel, masked)
    if case.kernel and max(case.kernel) > _LARGEST_AT_ONCE:
        yield Goal("reads", max(case.kernel), ITSELF)
    elif len(case.kernel) > 1 and math.prod(case.kernel) <= _MOST_READS:
        # Larger windows up to 7×7 have no such goal, since a single kernel for all axes must read every cell of them.
        yield Goal("reads", _MOST_READS, ITSELF)


def _on_tpu(case: Case) -> Iterator[Goal]:
    within = case.kind == "network"
    yield Goal("cycles", 1.1 if within else 1, PLAIN)
    yield Goal("uncosted", 1, PLAIN)
    yield Goal("moved", 1.1 if within else 1, PLAIN)
    if within:
        yield Goal("temporary", 2, PLAIN)


def _alone(group: str, what: str, kernel: tuple[int, ...], masked: bool) -> Iterator[Goal]:
    largest = max(kernel, default=0)
    is_forward = what == "forward"
    if group.startswith("adaptive"):
        if not kernel:
            yield Goal("moved", 1.6, NEEDED)
            return
        group = group.removeprefix("adaptive ")
    if group.startswith("global"):
        yield Goal("moved", 1.2 if group == "global max" and not is_forward else 1.1, NEEDED)
        yield Goal("kernels", 3, ITSELF)
    elif group in _OTHERS:
        yield Goal("moved", 1.2 if is_forward else 1.6, NEEDED)
    elif group in ("sum", "avg") and masked and not is_forward:
        # The counts of an average are a separate pass.
        yield Goal("moved", 1.05 if group == "sum" else 1.6, NEEDED)
    elif group in ("max", "min") and not is_forward:
        yield from _gradient_of_extremes(largest)
    elif group in ("max", "min", "sum", "avg"):
        at_once = largest <= _LARGEST_AT_ONCE
        yield Goal("moved", 1.05 if at_once else 2.1, NEEDED)
        yield Goal("kernels", 1 if at_once else len(kernel), ITSELF)


def _gradient_of_extremes(largest: int) -> Iterator[Goal]:
    if largest <= 3:
        yield Goal("moved", 1.2, NEEDED)
        yield Goal("kernels", 3, ITSELF)
    elif largest <= _LARGEST_AT_ONCE:
        yield Goal("moved", 2.3, NEEDED)
    else:
        yield Goal("moved", 4.4, NEEDED)
        yield Goal("kernels", 6, ITSELF)
    yield Goal("shuffles", 0, ITSELF)
