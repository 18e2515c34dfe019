"""How windows are evaluated: their integers, every lowering, winners, contexts, and what programs cost and keep."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(quick: Iterable[Any], rows: Iterable[Any]) -> list[Any]:
    """The rows of a table, all but some of them slow."""
    kept = [*quick]
    given = [(row, row if isinstance(row, tuple) else (row,)) for row in rows]
    return [pytest.param(*values, marks=() if row in kept else pytest.mark.slow) for row, values in given]
