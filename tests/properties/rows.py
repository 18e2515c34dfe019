"""Which rows of tables over the registry run by default: those of one function of each kind; the others are slow."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

# A selection, a linear pool, powers, bins, copies of cells, boxes and an unpooling. The others compile for longer.
KINDS = ("max_pool_with_indices", "avg_pool", "lp_pool", "adaptive_max_pool", "blur_pool", "roi_align", "max_unpool")


def row(*values: Any, id: str, quick: bool) -> Any:
    """A row of a table, slow unless it is quick."""
    return pytest.param(*values, id=id, marks=() if quick else pytest.mark.slow)


def by_function(rows: Mapping[str, Any], quick: Collection[str] = KINDS) -> Any:
    """A decorator: the test gets one row for each function."""
    return pytest.mark.parametrize("case", [row(one, id=name, quick=name in quick) for name, one in rows.items()])


def first_by_default(*names: str) -> list[Any]:
    """Rows of which all but the first are slow."""
    return [row(name, id=name, quick=name == names[0]) for name in names]
