"""Which cases run by default and which are left to the exhaustive part, as marks on the rows of tables."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def case_row(*values: Any, id: str, kept: bool) -> Any:
    """A row of a parametrized test, left to the exhaustive part unless it is kept."""
    return pytest.param(*values, id=id, marks=() if kept else pytest.mark.exhaustive)


def crossed(rows: Sequence[Any], columns: Iterable[Any], share: int) -> list[tuple[Any, Any, bool]]:
    """Every row with every column, and whether it is kept: one in `share`, so that every row and column is covered."""
    return [
        (one, other, (number + place) % share == 0)
        for place, other in enumerate(columns)
        for number, one in enumerate(rows)
    ]
