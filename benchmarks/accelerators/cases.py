"""All cases by name: pools by themselves and within networks, for both targets."""

from collections.abc import Sequence
from functools import cache

from benchmarks.accelerators.alone import alone
from benchmarks.accelerators.case import Case
from benchmarks.accelerators.elsewhere import elsewhere
from benchmarks.accelerators.networks import networks


@cache
def all_cases() -> dict[tuple[str, str], Case]:
    """Every case by target and name, networks first: they take longest."""
    cases = [*networks(), *alone(), *elsewhere()]
    return {(case.target, case.name): case for case in cases}


def chosen(targets: Sequence[str], texts: Sequence[str]) -> list[Case]:
    """The cases for these targets whose names contain one of the texts; all cases if there are no texts."""
    found = (case for case in all_cases().values() if case.target in targets)
    return [case for case in found if not texts or any(case.holds(text) for text in texts)]
