"""Which cases run by default and which are left to the slow part, as marks on the rows of tables."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

# One function for each mechanism of the package: rules, linear maps, pair maps, conditions, ranks, bins, copies, boxes.
MECHANISMS = (
    "max_pool_with_indices",
    "avg_pool",
    "lp_pool",
    "soft_pool",
    "stochastic_pool",
    "max_blur_pool",
    "median_pool",
    "top_k_pool",
    "var_pool",
    "weighted_pool",
    "adaptive_max_pool",
    "spatial_pyramid_pool",
    "roi_align",
    "max_unpool",
)


def case_row(*values: Any, id: str, kept: bool) -> Any:
    """A row of a parametrized test, left to the slow part unless it is kept."""
    return pytest.param(*values, id=id, marks=() if kept else pytest.mark.slow)


def crossed(rows: Sequence[Any], columns: Iterable[Any], share: int) -> list[tuple[Any, Any, bool]]:
    """Every row with every column, and whether it is kept: one in `share`, so that every row and column is covered."""
    return [
        (one, other, (number + place) % share == 0)
        for place, other in enumerate(columns)
        for number, one in enumerate(rows)
    ]


def mechanisms_first(names: Iterable[str]) -> list[Any]:
    """Functions as rows of a test about the mechanisms that they share: one for each runs by default."""
    return [case_row(name, id=name, kept=name in MECHANISMS) for name in names]
