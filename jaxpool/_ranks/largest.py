"""The largest cells of every window: the core of top-k pooling and its rule.

Their order is that of descending keys, in which NaN comes first: the k largest cells are those of the lowest ranks.
A selection finds a few of them, each as an array; a sort finds many, as one array with a last axis of ranks: a program
with a hundred arrays takes seconds to compile.
"""

import abc
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._call import core, extended
from jaxpool._jax.linear_map import CellSelector, LinearMap, ValuesAndResiduals, selected_values, values_and_residuals
from jaxpool._jax.stages import stage
from jaxpool._ranks.bisection import descending_keys, values_of_descending
from jaxpool._ranks.order_statistics import Counts
from jaxpool._ranks.selection import Rank, offsets_at_ranks, sorts_windows, values_at_ranks
from jaxpool._ranks.sorting import lowest_cells, read_along_last, route_along_last
from jaxpool._window import Window
from jaxpool._windows.cells import is_looped, present_cells
from jaxpool._windows.choices import on_every_platform, read_at_offsets, reduce_windows, route_to_chosen
from jaxpool._windows.operations import Arrays, identity, pad
from jaxpool._windows.select import winner_positions


@core
def largest(x: jax.Array, mask: jax.Array | None, window: Window, k: int, rule: str) -> jax.Array:
    """The k largest cells of every window along a last axis, over the cells that the mask holds; 0 beyond them."""
    dtype = x.dtype
    x, mask, window = extended(x, mask, window)
    return _of_ranks(selected_values(_selector(window, k), rule, x, mask, _counts(mask, window)), k, 0).astype(dtype)


@core
def largest_with_indices(
    x: jax.Array, mask: jax.Array | None, window: Window, k: int, rule: str
) -> tuple[jax.Array, jax.Array]:
    """The same and their row-major positions in the pooled axes; -1 beyond them."""
    dtype, given = x.dtype, window
    x, mask, window = extended(x, mask, window)
    selector, counts = _selector(window, k), _counts(mask, window)
    values, (offsets,) = values_and_residuals(selector, rule, x, mask, counts)
    positions = jax.tree.map(lambda each: winner_positions(each, given), offsets)
    return _of_ranks(values, k, 0).astype(dtype), _of_ranks(selector.where_present(positions, counts, -1), k, -1)


def _selector(window: Window, k: int) -> "_Largest":
    """What finds the k largest cells, or all if a window has fewer."""
    k = min(k, window.held)
    return _Sorted(window, k) if sorts_windows(window, k) else _Selected(window, k)


def _of_ranks(found: Arrays | jax.Array, k: int, absent: int) -> jax.Array:
    """All ranks along a last axis of size k; `absent` for ranks that no window has."""
    ranks = jnp.stack(found, -1) if isinstance(found, tuple) else found
    return pad(ranks, {ranks.ndim - 1: (0, k - ranks.shape[-1])}, absent)


def _counts(mask: jax.Array | None, window: Window) -> Counts:
    return None if mask is None else reduce_windows(mask.astype(np.int32), window, lax.add)


# Notation: c_r(o) is the cell of window o of rank r, the cells sorted in descending order, equal ones by their offset,
# and NaN before all numbers; a dot marks a tangent, a bar a cotangent.
#
#     y_r(o) = x(c_r(o))        ẏ_r(o) = ẋ(c_r(o))        x̄(i) = Σ_r Σ_{o : c_r(o) = i} ȳ_r(o)
#
# All c_r are locally constant where no two cells are equal. There these are the derivatives, and all higher ones are
# zero; at ties they are the derivatives for one order of the equal cells. The second and third formulas are the two
# directions of `_ReadCells`, which needs the offsets of the cells but not x. A rank that a window does not have records
# the offset of no cell, so that nothing is read or sent. Masked cells have the last key of the dtype, as padding has.


@dataclass(frozen=True)
class _Largest(CellSelector):
    """The selection of the k largest cells; what is found is an array for each rank, or one for all."""

    window: Window
    k: int

    def values(self, x: jax.Array, mask: jax.Array | None, counts: Counts, /) -> Any:
        keys = _masked(descending_keys(x), mask)
        found = on_every_platform(self.lowest, keys, like=self.like(x, keys.dtype))
        return self.where_present(jax.tree.map(lambda each: values_of_descending(each, x.dtype), found), counts, 0)

    def select(self, x: jax.Array, mask: jax.Array | None, _: Counts, /) -> ValuesAndResiduals:
        keys = descending_keys(x)
        if jnp.issubdtype(x.dtype, jnp.floating):
            # Zeros of either sign tie. Read at the offsets, values have the signs of their cells.
            zero, negative = (descending_keys(jnp.array(each, x.dtype)) for each in (0.0, -0.0))
            keys = jnp.where(keys == negative, zero, keys)
        keys = _masked(keys, mask)
        like = self.like(x, np.min_scalar_type(self.window.cells))
        offsets = on_every_platform(self.offsets, keys, mask, like=like)
        return self.read.forward(x, offsets), (offsets,)

    @abc.abstractmethod
    def lowest(self, keys: jax.Array) -> Any:
        """The lowest keys of every window."""

    @abc.abstractmethod
    def offsets(self, keys: jax.Array, mask: jax.Array | None) -> Any:
        """Their offsets; the number of offsets for a rank that a window does not have."""

    @abc.abstractmethod
    def like(self, x: jax.Array, dtype: Any) -> Any:
        """The shapes of what is found, with this dtype."""

    @abc.abstractmethod
    def where_present(self, found: Any, counts: Counts, absent: int) -> Any:
        """What is found in the windows that have the rank, and `absent` in the others."""


@dataclass(frozen=True)
class _Selected(_Largest):
    """A few ranks: an array for each."""

    def lowest(self, keys: jax.Array) -> Arrays:
        return values_at_ranks(keys, self.window, self._ranks)

    def offsets(self, keys: jax.Array, mask: jax.Array | None) -> Arrays:
        values = stage(self.lowest, keys)
        find = partial(offsets_at_ranks, window=self.window, ranks=self._ranks, most=self.window.cells)
        return stage(find, keys, present_cells(mask, self.window, keys.ndim), values)

    @property
    def _ranks(self) -> tuple[Rank, ...]:
        return tuple(Rank(rank, frozenset({rank}), rank - 1 if rank else None) for rank in range(self.k))

    def like(self, x: jax.Array, dtype: Any) -> tuple[jax.ShapeDtypeStruct, ...]:
        return (jax.ShapeDtypeStruct(self.window.output_shape(x.shape), dtype),) * self.k

    def where_present(self, found: Arrays, counts: Counts, absent: int) -> Arrays:
        return tuple(_where_held(each, number, counts, self.window, absent) for number, each in enumerate(found))

    @property
    def read(self) -> LinearMap:
        return _ReadCells(self.window)


@dataclass(frozen=True)
class _Sorted(_Largest):
    """Many ranks: one array, with a last axis of ranks."""

    def lowest(self, keys: jax.Array) -> jax.Array:
        return lowest_cells(keys, None, self.window, self.k, self.window.cells)[0]

    def offsets(self, keys: jax.Array, mask: jax.Array | None) -> jax.Array:
        present = present_cells(mask, self.window, keys.ndim)
        return lowest_cells(keys, present, self.window, self.k, self.window.cells)[1]

    def like(self, x: jax.Array, dtype: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((*self.window.output_shape(x.shape), self.k), dtype)

    def where_present(self, found: jax.Array, counts: Counts, absent: int) -> jax.Array:
        ranks = np.arange(self.k, dtype=np.int32).reshape([1] * (found.ndim - 1) + [self.k])
        return _where_held(found, ranks, None if counts is None else counts[..., None], self.window, absent)

    @property
    def read(self) -> LinearMap:
        return _ReadSorted(self.window)


def _where_held(array: jax.Array, rank: Any, counts: Counts, window: Window, absent: int) -> jax.Array:
    """The array in the windows that have this rank."""
    held: Any = window.counts(array.ndim, padding=False) if counts is None else counts
    if counts is None and window.possible_counts()[0] > np.max(rank):
        return array
    return jnp.where(held > rank, array, np.array(absent, array.dtype)[()])


def _masked(keys: jax.Array, mask: jax.Array | None) -> jax.Array:
    return keys if mask is None else jnp.where(mask, keys, identity(lax.min, keys.dtype))


@dataclass(frozen=True)
class _ReadCells(LinearMap):
    """Read the cells at several offsets of every window."""

    window: Window

    def forward(self, x: jax.Array, offsets: Arrays, /) -> Arrays:
        return tuple(read_at_offsets(x, each, self.window) for each in offsets)

    def transpose(self, cotangents: Arrays, offsets: Arrays, /) -> jax.Array:
        def route(cotangents: Arrays, offsets: Arrays) -> jax.Array:
            return route_to_chosen(cotangents, offsets, self.window).astype(cotangents[0].dtype)

        return on_every_platform(route, cotangents, offsets, in_stage=not is_looped(self.window))


@dataclass(frozen=True)
class _ReadSorted(LinearMap):
    """The same for offsets along a last axis, one after the other."""

    window: Window

    def forward(self, x: jax.Array, offsets: jax.Array, /) -> jax.Array:
        return read_along_last(x, offsets, self.window)

    def transpose(self, cotangents: jax.Array, offsets: jax.Array, /) -> jax.Array:
        def route(cotangents: jax.Array, offsets: jax.Array) -> jax.Array:
            return route_along_last(cotangents, offsets, self.window).astype(cotangents.dtype)

        return on_every_platform(route, cotangents, offsets, in_stage=not is_looped(self.window))
