"""The programs of a dozen pools do not grow: kernels, bytes and cycles stay within the stored bounds.

This test needs a separate environment, described in benchmarks/README.md under “GPUs and TPUs”.
"""

import pytest

from benchmarks.accelerators import bounds
from benchmarks.accelerators.case import OURS
from benchmarks.accelerators.measure import Row, measure
from benchmarks.accelerators.programs import TARGETS, missing, prepare


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], Row]:
    """The programs of jaxpool for all cases with bounds."""
    absent = missing(tuple(TARGETS))
    assert not absent, f"not installed: {', '.join(absent)}; run pip install -e '.[accelerators]'"
    expected, _ = bounds.read()
    assert bounds.versions() == expected, "the bounds hold for other compilers; run pip install -e '.[accelerators]'"
    prepare()
    return {(row.case.target, row.case.name): row for row in measure(bounds.bounded_cases(), 2, (OURS,))}


@pytest.mark.parametrize(("target", "name"), bounds.NAMES, ids=lambda text: text.replace("×", "x"))
def test_program_does_not_grow(target: str, name: str, rows: dict[tuple[str, str], Row]) -> None:
    """No figure exceeds its bound; if an increase is intended, its commit rewrites the bounds."""
    row = rows[target, name]
    assert not row.failures, row.failures[OURS]
    _, allowed = bounds.read()
    grown = [
        f"{figure} grew from {allowed[target, name][figure]} to {value}"
        for figure, value in bounds.bounds(row).items()
        if value > allowed[target, name][figure]
    ]
    assert not grown, f"{'; '.join(grown)}; look with --case '{name}', and if it is meant, --write-bounds"
