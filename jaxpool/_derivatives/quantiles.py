"""The quantiles of every window: the core of rank filters and its rule.

Like an extreme, a quantile only reads cells: forward mode averages the tangents at the chosen cells, and reverse mode
sends the cotangent to them in proportion to the weights of the mean. Several quantiles have one selection, of all ranks
that any of them reads, and one map back.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._call import core, extended
from jaxpool._derivatives.rules import CellSelector, LinearMap, ValuesAndResiduals, selected_values
from jaxpool._engine.loops import is_looped
from jaxpool._engine.maps import on_every_platform, read_at_offsets, reduce_windows, route_to_chosen
from jaxpool._engine.operations import Arrays, identity
from jaxpool._geometry.window import Window
from jaxpool._order_statistics import (
    Counts,
    Quantiles,
    chosen,
    chosen_cells,
    means_of_chosen,
    rank_count,
    ranks_in,
    shares_of_ranks,
    weighted,
)


@core
def quantiles_of_windows(
    x: jax.Array, mask: jax.Array | None, window: Window, quantiles: Quantiles, rule: str
) -> list[jax.Array]:
    """The quantiles of every window, over the cells that the mask holds; 0 without any."""
    dtype, counts = x.dtype, None
    x, mask, window = extended(x, mask, window)
    if mask is not None:
        x = jnp.where(mask, x, identity(lax.min, x.dtype))
        counts = reduce_windows(mask.astype(np.int32), window, lax.add)
    values = selected_values(_Chosen(window, quantiles), rule, x, mask, counts)
    if jnp.issubdtype(dtype, jnp.inexact):
        values = [each.astype(dtype) for each in values]
    return [each if counts is None else jnp.where(counts > 0, each, jnp.zeros_like(each)) for each in values]


# Notation: c(o) and d(o) are the cells of window o at the two ranks around a quantile, sorted by value and then by
# offset; w(o) is the weight of the second, which depends only on the number of cells. If the quantile is at one rank,
# or one is asked for, there is no d. A dot marks a tangent, a bar a cotangent; the first sum is over the quantiles.
#
#     y(o) = (1-w(o))·x(c(o)) + w(o)·x(d(o))        ẏ(o) = (1-w(o))·ẋ(c(o)) + w(o)·ẋ(d(o))
#     x̄(i) = Σ (Σ_{o : c(o) = i} (1-w(o))·ȳ(o) + Σ_{o : d(o) = i} w(o)·ȳ(o))
#
# c and d are locally constant where no two cells are equal. There these are the derivatives, and all higher ones are
# zero. At ties they are the derivatives for one order of the equal cells. The second and third formulas are the two
# directions of `_MeansOfChosen`. Both need the offsets of the cells, one for each rank, but not x. In a window with
# NaN, all cells are its first NaN. Masked cells are replaced by the largest value of the dtype, and are never chosen.


@dataclass(frozen=True)
class _Chosen(CellSelector):
    window: Window
    quantiles: Quantiles

    def values(self, x: jax.Array, mask: jax.Array | None, counts: Counts, /) -> Arrays:
        select = partial(chosen_cells, window=self.window, quantiles=self.quantiles)
        cells = on_every_platform(select, x, counts, like=self._each_like(x, counts, x.dtype))
        return means_of_chosen(cells, counts, self.window, self.quantiles)

    def select(self, x: jax.Array, mask: jax.Array | None, counts: Counts, /) -> ValuesAndResiduals:
        select = partial(chosen, window=self.window, quantiles=self.quantiles)
        like = tuple(
            self._each_like(x, counts, dtype) for dtype in (x.dtype, np.min_scalar_type(self.window.cells - 1))
        )
        cells, offsets = on_every_platform(select, x, mask, counts, like=like)
        return means_of_chosen(cells, counts, self.window, self.quantiles), (offsets, counts)

    def _each_like(self, x: jax.Array, counts: Counts, dtype: Any) -> tuple[jax.ShapeDtypeStruct, ...]:
        """An array of windows for each rank."""
        like = jax.ShapeDtypeStruct(self.window.output_shape(x.shape), dtype)
        return (like,) * rank_count(counts, self.window, self.quantiles)

    @property
    def read(self) -> LinearMap:
        return _MeansOfChosen(self.window, self.quantiles)


@dataclass(frozen=True)
class _MeansOfChosen(LinearMap):
    """The means of the cells at the offsets of all ranks."""

    window: Window
    quantiles: Quantiles

    def forward(self, x: jax.Array, offsets: Arrays, counts: Counts, /) -> Arrays:
        cells = [read_at_offsets(x, each, self.window) for each in offsets]
        means = ranks_in(counts, self.window, self.quantiles, x.ndim).means
        return tuple(weighted(cells, mean) for mean in means)

    def transpose(self, cotangents: Arrays, offsets: Arrays, counts: Counts, /) -> jax.Array:
        def route(cotangents: Arrays, offsets: Arrays, counts: Counts) -> jax.Array:
            means = ranks_in(counts, self.window, self.quantiles, cotangents[0].ndim).means
            shares = shares_of_ranks(cotangents, means, len(offsets))
            return route_to_chosen(shares, offsets, self.window).astype(cotangents[0].dtype)

        return on_every_platform(route, cotangents, offsets, counts, in_stage=not is_looped(self.window))
