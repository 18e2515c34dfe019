"""Where quantiles are among the cells of a window, and these cells: how they are found, read and sent cotangents.

A quantile is at one rank or between two, depending on the number of cells. Where this differs between windows, ranks
and weights are computed from it on the device. Quantiles that read the same ranks share them.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxpool._jax.stages import materialize, separate_term, stage
from jaxpool._ranks.quantile_methods import Quantile
from jaxpool._ranks.selection import MOST_IN_NETWORK, Rank, offsets_at_ranks, sorts_windows, values_at_ranks
from jaxpool._ranks.sorting import cells_at_ranks, read_along_last, route_along_last
from jaxpool._window import Window
from jaxpool._windows.cells import present_cells
from jaxpool._windows.choices import read_at_offsets, route_to_chosen
from jaxpool._windows.operations import Arrays, accumulation_dtype

# The number of unmasked cells in each window; None if it is known while tracing.
Counts = jax.Array | None
Quantiles = tuple[Quantile, ...]


class Mean(NamedTuple):
    """A quantile of every window as a mean of cells: the numbers of one rank or two, and the weight of the second."""

    ranks: tuple[int, ...]
    weight: Any


class Ranks(NamedTuple):
    """The different ranks that determine the quantiles of every window, in ascending order, and their means."""

    ranks: tuple[Rank, ...]
    means: tuple[Mean, ...]


class _Columns(NamedTuple):
    """The different ranks, each with what tells it from others, and the numbers of those of every quantile.

    Where windows have few numbers of cells, that is the rank for each of the `possible` numbers.
    """

    possible: np.ndarray | None
    ranks: list[tuple[Any, ...]]
    means: list[tuple[int, ...]]


def ranks_in(counts: Counts, window: Window, quantiles: Quantiles, rank: int) -> Ranks:
    """The ranks in every window; if `counts` is None, only padding is absent. Arrays have `rank` axes."""
    possible, columns, means = _columns(counts, window, quantiles)
    held = window.counts(rank, padding=False) if counts is None else counts
    found = [quantile.ranks(np.array(held) if isinstance(held, int) else held, window.held) for quantile in quantiles]
    if counts is None:
        # The same for all entries of the other axes.
        found = jax.tree.map(materialize, found)
    wanted: dict[int, Any] = {}
    weighted_means = []
    for numbers, (lower, upper, weight) in zip(means, found, strict=True):
        wanted |= dict(zip(numbers, (lower, upper), strict=False))
        weighted_means.append(Mean(numbers, weight))
    ranks: list[Rank] = []
    for number, column in enumerate(columns):
        given = wanted[number].item() if isinstance(held, int) else wanted[number]
        if possible is None:
            # The second rank of a quantile follows the first.
            after = next((first for first, *second in means if [number] == second), None)
            ranks.append(Rank(given, frozenset(), after))
        else:
            steps = [set(np.subtract(column, earlier).tolist()) for earlier in columns[:number]]
            after = next((earlier for earlier, step in enumerate(steps) if step <= {0, 1}), None)
            ranks.append(Rank(given, frozenset(column), after))
    return Ranks(tuple(ranks), tuple(weighted_means))


def rank_count(counts: Counts, window: Window, quantiles: Quantiles) -> int:
    """How many ranks determine the quantiles."""
    return len(_columns(counts, window, quantiles).ranks)


def _columns(counts: Counts, window: Window, quantiles: Quantiles) -> _Columns:
    """The ranks; a window without cells has any rank."""
    possible = None
    if counts is None:
        possible = np.array(window.possible_counts())
    elif window.held <= MOST_IN_NETWORK:
        possible = np.arange(window.held + 1)
    columns: list[list[tuple[Any, ...]]] = []
    for quantile in quantiles:
        if possible is None:
            between = quantile.averages and 0 < quantile.q < 1
            columns.append([(quantile.q, second) for second in range(1 + between)])
        else:
            lower, upper, weight = quantile.ranks(possible, window.held)
            columns.append([tuple(each.tolist()) for each in (lower, upper)[: 1 + weight.any()]])
    ranks = sorted({rank for own in columns for rank in own})
    return _Columns(possible, ranks, [tuple(map(ranks.index, own)) for own in columns])


def _sorts(window: Window, ranks: int) -> bool:
    """Whether the ranks are found by sorting; a network has all of them at once, in a fifth of the time."""
    return window.held > MOST_IN_NETWORK and sorts_windows(window, ranks)


def chosen_cells(x: jax.Array, counts: Counts, window: Window, quantiles: Quantiles) -> Arrays:
    """The values of the cells at the ranks of the quantiles; inside a lowering."""
    ranks = ranks_in(counts, window, quantiles, x.ndim).ranks
    if _sorts(window, len(ranks)):
        return cells_at_ranks(x, None, window, [rank.wanted for rank in ranks])[0]
    return tuple(values_at_ranks(x, window, ranks))


def chosen(
    x: jax.Array, mask: jax.Array | None, counts: Counts, window: Window, quantiles: Quantiles
) -> tuple[Arrays, Arrays]:
    """The values and the offsets of the cells at the ranks of the quantiles; inside a lowering."""
    present = present_cells(mask, window, x.ndim)
    ranks = ranks_in(None if counts is None else materialize(counts), window, quantiles, x.ndim).ranks
    if _sorts(window, len(ranks)):
        return cells_at_ranks(x, present, window, [rank.wanted for rank in ranks])
    cells = stage(partial(values_at_ranks, window=window, ranks=ranks), x)
    return cells, stage(partial(offsets_at_ranks, window=window, ranks=ranks), x, present, cells)


def means_of_chosen(cells: Arrays, counts: Counts, window: Window, quantiles: Quantiles) -> Arrays:
    """The values of the quantiles: never outside their two cells, and exact if they are equal, even infinite."""
    means = ranks_in(counts, window, quantiles, cells[0].ndim).means
    return tuple(_mean(cells, mean, quantile) for mean, quantile in zip(means, quantiles, strict=True))


def _mean(cells: Arrays, mean: Mean, quantile: Quantile) -> jax.Array:
    dtype = cells[0].dtype
    if quantile.averages and not jnp.issubdtype(dtype, jnp.inexact):
        dtype = np.dtype(np.float32)
    chosen = [cells[each] for each in mean.ranks]
    if len(chosen) == 1:
        return chosen[0].astype(dtype)
    lower, upper = (each.astype(accumulation_dtype(dtype)) for each in chosen)
    weight = weight_like(mean, lower)
    value = jnp.clip(separate_term((1 - weight) * lower) + weight * upper, lower, upper)
    return jnp.where(lower == upper, lower, value).astype(dtype)


def weight_like(mean: Mean, like: jax.Array) -> jax.Array:
    """The weight of the second cell, in the form of this array."""
    return jnp.asarray(mean.weight).astype(like.dtype)


def weighted(cells: Sequence[jax.Array], mean: Mean) -> jax.Array:
    """The mean of tangents of the cells; in portable programs of the cells themselves, which may be infinite."""
    chosen = [cells[each] for each in mean.ranks]
    if len(chosen) == 1:
        return chosen[0]
    lower, upper = (each.astype(accumulation_dtype(each.dtype)) for each in chosen)
    weight = weight_like(mean, lower)
    mean_of_both = separate_term((1 - weight) * lower) + weight * upper
    return jnp.where(weight == 0, lower, mean_of_both).astype(cells[0].dtype)


def shares_of_ranks(cotangents: Sequence[jax.Array], means: Sequence[Mean], ranks: int) -> list[jax.Array]:
    """The cotangent of the cell at each rank, given those of the means; products and sums are in the dtype of sums."""
    shares: list[Any] = [None] * ranks
    for cotangent, mean in zip(cotangents, means, strict=True):
        wide = cotangent.astype(accumulation_dtype(cotangent.dtype))
        weight = None if len(mean.ranks) == 1 else weight_like(mean, wide)
        sent = (cotangent,) if weight is None else ((1 - weight) * wide, weight * wide)
        for rank, share in zip(mean.ranks, sent, strict=True):
            shares[rank] = share if shares[rank] is None else shares[rank].astype(wide.dtype) + share.astype(wide.dtype)
    return shares


def read_ranks(x: jax.Array, offsets: Arrays, window: Window) -> Arrays:
    """The cells at the offsets of each rank."""
    if sorts_windows(window, len(offsets)):
        cells = read_along_last(x, jnp.stack(offsets, -1), window)
        return tuple(cells[..., rank] for rank in range(len(offsets)))
    return tuple(read_at_offsets(x, each, window) for each in offsets)


def route_ranks(cotangents: Sequence[jax.Array], offsets: Arrays, window: Window) -> jax.Array:
    """Send the cotangents of each rank to the cells at its offsets."""
    if not sorts_windows(window, len(offsets)):
        return route_to_chosen(cotangents, offsets, window)
    cotangents = [each.astype(accumulation_dtype(each.dtype)) for each in cotangents]
    return route_along_last(jnp.stack(cotangents, -1), jnp.stack(offsets, -1), window)
