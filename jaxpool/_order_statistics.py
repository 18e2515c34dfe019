"""Where a quantile lies among the cells of a window: at the rank of one or between those of two, by their number.

Ranks and weights are tables over the number of cells, computed in Python. Padding differs from window to window by
numbers that are known while tracing; under a mask the tables are looked up on the device.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxpool._engine.ranks import Rank
from jaxpool._geometry.window import Window

# How many cells each window has under a mask; None where that is known while tracing.
Counts = jax.Array | None


@dataclass(frozen=True)
class Quantile:
    """Which quantile: `q` of [0, 1], and `method`, what to do between two cells: "linear", "lower" or "higher"."""

    q: float
    method: str

    def place(self, cells: int) -> tuple[int, int, float]:
        """Ranks of the two cells between which the quantile lies, and the weight of the second; twice one, and 0."""
        place = self.q * (cells - 1)
        # 0.14·50 is 7, and not the float above it, of which "higher" would make 8.
        if abs(place - round(place)) <= 1e-12 * cells:
            place = round(place)
        lower, upper = math.floor(place), math.ceil(place)
        if self.method != "linear":
            lower = upper = lower if self.method == "lower" else upper
        return lower, upper, place - lower if lower < upper else 0.0


class Places(NamedTuple):
    """The ranks of the cells that make the quantile of every window, one or two, and the weight of the second."""

    ranks: tuple[Rank, ...]
    weight: Any


def places_in(counts: Counts, window: Window, quantile: Quantile, rank: int) -> Places:
    """Where the quantile lies in every window, full but for padding if `counts` is None; arrays have `rank` axes."""
    table = [(0, 0, 0.0), *(quantile.place(cells) for cells in range(1, window.cells + 1))]
    dtypes = (np.int32, np.int32, np.float64)
    columns = zip(zip(*table, strict=True), dtypes, strict=True)
    lower, upper, weight = (np.array(column, dtype) for column, dtype in columns)
    if counts is None:
        known = np.ones((1,) * rank, np.int64)
        for axis in window.axes:
            known = known * axis.divisors(False, rank)
        numbers, possible = known, np.unique(known)
    else:
        numbers, possible = counts, np.arange(window.cells + 1)
    ranks = tuple(Rank(_look_up(column, numbers), frozenset(column[possible].tolist())) for column in (lower, upper))
    return Places(ranks if weight[possible].any() else ranks[:1], _look_up(weight, numbers))


def _look_up(column: np.ndarray, numbers: np.ndarray | jax.Array) -> Any:
    if isinstance(numbers, np.ndarray):
        return column[numbers] if numbers.size > 1 else column[numbers.item()].item()
    return jnp.asarray(column).at[numbers].get(mode="clip")
