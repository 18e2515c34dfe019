"""Where a quantile is among the cells of a window: at one rank or between two, depending on the number of cells.

Ranks and weights are tables over the number of cells, computed in Python. The number of padded cells in each window is
known while tracing; with a mask the tables are looked up on the device.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxpool._engine.operations import Arrays, accumulation_dtype
from jaxpool._engine.ranks import Rank, offsets_at_ranks, values_at_ranks
from jaxpool._engine.stages import materialize, separate_term, stage
from jaxpool._geometry.window import Window

# The number of unmasked cells in each window; None if it is known while tracing.
Counts = jax.Array | None


@dataclass(frozen=True)
class Quantile:
    """Which quantile: `q` in [0, 1], and `method`, how to go between two cells: "linear", "lower" or "higher"."""

    q: float
    method: str

    def ranks(self, cells: int) -> tuple[int, int, float]:
        """The ranks of the two cells around the quantile and the weight of the second; on a cell, its rank twice, 0."""
        rank = self.q * (cells - 1)
        # 0.14·50 must be 7, not the next float, which "higher" would round to 8.
        if abs(rank - round(rank)) <= 1e-12 * cells:
            rank = round(rank)
        lower, upper = math.floor(rank), math.ceil(rank)
        if self.method != "linear":
            lower = upper = lower if self.method == "lower" else upper
        return lower, upper, rank - lower if lower < upper else 0.0


def make_quantile(function: str, q: Any, method: Any) -> Quantile:
    """The quantile; raise if q is not a number from 0 to 1 known while tracing, or the method is unknown."""
    if isinstance(q, (jax.Array, np.ndarray)):
        given = "a traced value" if isinstance(q, jax.core.Tracer) else "an array"
        raise TypeError(f"{function}: q must be a Python number, got {given}; call it once for every quantile")
    if isinstance(q, (bool, np.bool_)) or not isinstance(q, (int, float, np.integer, np.floating)):
        raise TypeError(f"{function}: q must be a number from 0 to 1, got {q!r}; use 0.5 for the median")
    if not 0 <= q <= 1:
        hint = f"; percent {q} is q={float(q) / 100:g}" if 1 < q <= 100 else "; use 0.5 for the median"
        raise ValueError(f"{function}: q must be from 0 to 1, got {q}{hint}")
    if not isinstance(method, str) or method not in ("linear", "lower", "higher"):
        raise ValueError(
            f"{function}: method {method!r} is unknown; use 'linear' (a weighted mean of two), 'lower' or 'higher'"
        )
    return Quantile(float(q), method)


class Ranks(NamedTuple):
    """The one or two ranks that determine the quantile of every window, and the weight of the second."""

    ranks: tuple[Rank, ...]
    weight: Any


def ranks_in(counts: Counts, window: Window, quantile: Quantile, rank: int) -> Ranks:
    """The ranks in every window; if `counts` is None, only padding is absent. Arrays have `rank` axes."""
    known = window.counts(rank, padding=False)
    possible, columns = _ranks_by_count(counts, window, quantile)

    def look_up(column: np.ndarray) -> Any:
        if counts is not None:
            return jnp.asarray(column).at[counts].get(mode="clip")
        return column[known] if possible.size > 1 else column[possible.item()].item()

    *ranks, weights = columns
    made = [Rank(look_up(each.astype(np.int32)), frozenset(each[possible].tolist())) for each in ranks]
    return Ranks(tuple(made), look_up(weights))


def rank_count(counts: Counts, window: Window, quantile: Quantile) -> int:
    """Whether one rank or two determine the quantiles."""
    _, (*ranks, _) = _ranks_by_count(counts, window, quantile)
    return len(ranks)


def _ranks_by_count(counts: Counts, window: Window, quantile: Quantile) -> tuple[np.ndarray, list[np.ndarray]]:
    """The numbers of cells that windows may hold; and by number of cells the one or two ranks, and the weight.

    A window without cells has any rank.
    """
    known = window.counts(window.axes[-1].axis + 1, padding=False)
    possible = np.unique(known) if counts is None else np.arange(window.held + 1)
    table = zip((0, 0, 0.0), *(quantile.ranks(cells) for cells in range(1, window.held + 1)), strict=True)
    lower, upper, weights = map(np.array, table)
    return possible, [lower, upper, weights] if weights[possible].any() else [lower, weights]


def chosen_cells(x: jax.Array, counts: Counts, window: Window, quantile: Quantile) -> Arrays:
    """The values of c, and of d if there is one; inside a lowering."""
    return tuple(values_at_ranks(x, window, ranks_in(counts, window, quantile, x.ndim).ranks))


def chosen(
    x: jax.Array, mask: jax.Array | None, counts: Counts, window: Window, quantile: Quantile
) -> tuple[Arrays, Arrays]:
    """The values and the offsets of c, and of d if there is one; inside a lowering."""
    if mask is None and (window.has_bins or any(max(axis.low, axis.overhang) > 0 for axis in window.axes)):
        # Padding is absent, and so are cells that smaller bins do not have.
        mask = jnp.ones([size if n in window.pooled_axes else 1 for n, size in enumerate(x.shape)], bool)
    ranks = ranks_in(None if counts is None else materialize(counts), window, quantile, x.ndim).ranks
    cells = stage(partial(values_at_ranks, window=window, ranks=ranks), x)
    return cells, stage(partial(offsets_at_ranks, window=window, ranks=ranks), x, mask, cells)


def mean_of_chosen(cells: Arrays, counts: Counts, window: Window, quantile: Quantile) -> jax.Array:
    """The value y from c and d: never outside the two, and exact if they are equal, even infinite."""
    dtype = cells[0].dtype
    if quantile.method == "linear" and not jnp.issubdtype(dtype, jnp.inexact):
        dtype = np.dtype(np.float32)
    if len(cells) == 1:
        return cells[0].astype(dtype)
    lower, upper = (each.astype(accumulation_dtype(dtype)) for each in cells)
    weight = weight_of_second(counts, window, quantile, lower)
    mean = jnp.clip(separate_term((1 - weight) * lower) + weight * upper, lower, upper)
    return jnp.where(lower == upper, lower, mean).astype(dtype)


def weight_of_second(counts: Counts, window: Window, quantile: Quantile, like: jax.Array) -> jax.Array:
    """The weight of the second cell, in the form of this array."""
    return jnp.asarray(ranks_in(counts, window, quantile, like.ndim).weight).astype(like.dtype)
