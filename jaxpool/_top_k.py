"""Top-k pooling: the k largest cells of every window, and their indices.

Cells have keys, integers in the descending order of their values. The lowest keys are found one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._call import LESS_PADDING, core, extended, sliding
from jaxpool._checks import Rule, check_no_mask
from jaxpool._jax.linear_map import CellSelector, LinearMap, ValuesAndResiduals, selected_values, values_and_residuals
from jaxpool._jax.stages import materialize, stage
from jaxpool._kernels import KernelSize
from jaxpool._ranks import offsets_of_equal, same_or_next
from jaxpool._sharding import vary_with
from jaxpool._sizes import Axes, Padding, Sizes, integer
from jaxpool._window import Window
from jaxpool._windows.cells import pad_in_tiles, present_cells
from jaxpool._windows.choices import on_every_platform, read_at_offsets, reduce_windows, route_to_chosen
from jaxpool._windows.operations import Arrays, identity, keys_of, pad, values_of
from jaxpool._windows.select import winner_positions


def top_k_pool(
    x: ArrayLike,
    k: int,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Top-k pooling, or k-max pooling: the k largest cells of every window, in descending order.

    Formula: with the n cells of a window sorted, s[0] ≥ … ≥ s[n-1], y[…, r] = s[r] for 0 ≤ r < k, and 0 for r ≥ n.
    Padded and masked cells are left out, so that n may differ between windows. y[…, 0] is `max_pool`.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        k: The number of cells, an int of at least 1; it may exceed the number of cells in a window.
        kernel_size, stride, padding, dilation, ceil_mode, axis, where, rule: As in `max_pool`.

    Returns:
        Array of x's dtype and `max_pool`'s shape, with a new last axis of k cells: a pooled axis of n cells becomes
        floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without `ceil_mode`.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: k is less than 1, arguments do not fit x, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y[…, r]/∂x[i] = 1 where i is the cell that is s[r], 0 elsewhere; higher derivatives are 0. Ties: equal cells
        are sorted in row-major order, the first cell first. +0 and -0 tie. NaN comes before every number, the first NaN
        first. A rank that a window does not have is 0 with derivative 0, as is every rank of a window that `where`
        empties.

    Example:
        >>> x = jnp.array([3.0, 1.0, 2.0, 5.0, 7.0, 7.0])
        >>> jaxpool.top_k_pool(x, 2, (3,))
        Array([[3., 2.],
               [7., 7.]], dtype=float32)
        >>> jax.grad(lambda x: jaxpool.top_k_pool(x, 2, (3,)).sum())(x)
        Array([1., 0., 1., 0., 1., 1.], dtype=float32)

    Source: Kalchbrenner, Grefenstette and Blunsom, "A convolutional neural network for modelling sentences", ACL 2014,
    which keeps the k cells in their own order.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("top_k_pool", x, sizes, where, rule, only_padding=LESS_PADDING)
    window.check_counts_fit("top_k_pool")
    return _largest(array, mask, window, _check_k("top_k_pool", k), rule)


def top_k_pool_with_indices(
    x: ArrayLike,
    k: int,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> tuple[jax.Array, jax.Array]:
    """Top-k pooling with indices: the k largest cells of every window, and where each of them is.

    Formula: values as in `top_k_pool`, each with the row-major position of its cell, or -1 for a rank that a window
    does not have.

    Args:
        x, k, kernel_size, stride, padding, dilation, ceil_mode, axis, where, rule: As in `top_k_pool`.

    Returns:
        Values of x's dtype and int32 indices, both of `top_k_pool`'s shape: that of `max_pool`, and a last axis of k
        cells. An index is the row-major position of a cell in x's pooled axes, without padding, in x's own order; a
        copy has that of its cell.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: k is less than 1, arguments do not fit x, `rule` is unknown, a window holds only padding, or indices
            exceed int32.

    Derivative:
        That of `top_k_pool` for the values: 1 at the cell that the index names, 0 elsewhere; none for the indices. A
        rank that a window does not have has the value 0, the index -1 and derivative 0.

    Example:
        >>> x = jnp.array([3.0, 1.0, 2.0, 5.0, 7.0, 7.0])
        >>> values, indices = jaxpool.top_k_pool_with_indices(x, 2, (3,))
        >>> indices
        Array([[0, 2],
               [4, 5]], dtype=int32)
    """
    function = "top_k_pool_with_indices"
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding(function, x, sizes, where, rule, only_padding=LESS_PADDING)
    window.check_counts_fit(function)
    window.check_positions_fit(function)
    return _largest_with_indices(array, mask, window, _check_k(function, k), rule)


def _check_k(function: str, k: Any) -> int:
    check_no_mask(function, "k", k)
    if isinstance(k, jax.core.Tracer):
        return integer(function, "k", k, least=1)
    if isinstance(k, (bool, np.bool_)) or not isinstance(k, (int, np.integer)):
        given = "an array" if isinstance(k, (jax.Array, np.ndarray)) else repr(k)
        raise TypeError(f"{function}: k must be an int, got {given}; it comes before kernel_size, as in (x, 3, (2, 2))")
    if k < 1:
        raise ValueError(f"{function}: k must be at least 1, got {k}; it is the number of cells of each window")
    return int(k)


@core
def _largest(x: jax.Array, mask: jax.Array | None, window: Window, k: int, rule: str) -> jax.Array:
    """The k largest cells of every window along a last axis, over the cells that the mask holds; 0 beyond them."""
    dtype = x.dtype
    x, mask, window = extended(x, mask, window)
    selector = _Largest(window, min(k, window.held))
    return _ranks_last(selected_values(selector, rule, x, mask), k, 0).astype(dtype)


@core
def _largest_with_indices(
    x: jax.Array, mask: jax.Array | None, window: Window, k: int, rule: str
) -> tuple[jax.Array, jax.Array]:
    """The same and their row-major positions in the pooled axes; -1 beyond them."""
    dtype, given = x.dtype, window
    x, mask, window = extended(x, mask, window)
    values, (offsets,) = values_and_residuals(_Largest(window, min(k, window.held)), rule, x, mask)
    positions = jax.vmap(partial(winner_positions, window=given))(offsets)
    positions = jnp.where(offsets < window.cells, positions, -1)
    return _ranks_last(values, k, 0).astype(dtype), _ranks_last(positions, k, -1)


def _ranks_last(found: jax.Array, k: int, absent: int) -> jax.Array:
    """What is found for each rank, along a last axis of size k in place of the first one."""
    return pad(jnp.moveaxis(found, 0, -1), {found.ndim - 1: (0, k - found.shape[0])}, absent)


# Notation: c_r(o) is the cell of window o of rank r, the cells sorted in descending order, equal ones by their offset,
# and NaN before all numbers; a dot marks a tangent, a bar a cotangent.
#
#     y_r(o) = x(c_r(o))        ẏ_r(o) = ẋ(c_r(o))        x̄(i) = Σ_r Σ_{o : c_r(o) = i} ȳ_r(o)
#
# All c_r are locally constant where no two cells are equal. There these are the derivatives, and all higher ones are
# zero; at ties they are the derivatives for one order of the equal cells. The second and third formulas are the two
# directions of `_ReadCells`, which needs the offsets of the cells but not x. A rank that a window does not have records
# the offset of no cell, so that nothing is read or sent.


@dataclass(frozen=True)
class _Largest(CellSelector):
    """The selection of the k largest cells; results and residuals have a first axis of ranks."""

    window: Window
    k: int

    def values(self, x: jax.Array, mask: jax.Array | None, /) -> jax.Array:
        keys, _ = self._lowest(_descending_keys(x), mask)
        held = self.window.counts(x.ndim, padding=False)
        if mask is not None:
            held = reduce_windows(mask.astype(np.int32), self.window, lax.add)

        def value(key: jax.Array, rank: Any) -> jax.Array:
            return jnp.where(rank < held, values_of(~key, x.dtype), np.zeros((), x.dtype))

        return jax.vmap(value)(keys, np.arange(self.k, dtype=np.int32))

    def select(self, x: jax.Array, mask: jax.Array | None, /) -> ValuesAndResiduals:
        keys = _descending_keys(x)
        if jnp.issubdtype(x.dtype, jnp.floating):
            # Zeros of either sign tie. Read at the offsets, values have the signs of their cells.
            zero, negative = (_descending_keys(jnp.array(each, x.dtype)) for each in (0.0, -0.0))
            keys = jnp.where(keys == negative, zero, keys)
        _, offsets = self._lowest(keys, mask)
        return self.read.forward(x, offsets), (offsets,)

    def _lowest(self, keys: jax.Array, mask: jax.Array | None) -> Arrays:
        """The lowest keys of every window and their offsets; the last key and that of no cell beyond the cells."""
        if mask is not None:
            keys = jnp.where(mask, keys, identity(lax.min, keys.dtype))
        find = partial(_lowest_keys, window=self.window, k=self.k)
        return on_every_platform(partial(stage, find), keys, mask)

    @property
    def read(self) -> LinearMap:
        return _ReadCells(self.window)


@dataclass(frozen=True)
class _ReadCells(LinearMap):
    """Read the cells of every window at the offsets of each rank; 0 at the offset of no cell."""

    window: Window

    def forward(self, x: jax.Array, offsets: jax.Array, /) -> jax.Array:
        return jax.vmap(partial(read_at_offsets, window=self.window), (None, 0))(x, offsets)

    def transpose(self, cotangents: jax.Array, offsets: jax.Array, /) -> jax.Array:
        def route(cotangents: jax.Array, offsets: jax.Array) -> jax.Array:
            def add_rank(total: jax.Array, rank: Arrays) -> tuple[jax.Array, None]:
                return total + route_to_chosen([rank[0]], [rank[1]], self.window), None

            total = route_to_chosen([cotangents[0]], [offsets[0]], self.window)
            return lax.scan(add_rank, total, (cotangents[1:], offsets[1:]))[0].astype(cotangents.dtype)

        return on_every_platform(partial(stage, route), cotangents, offsets)


def _lowest_keys(keys: jax.Array, mask: jax.Array | None, window: Window, k: int) -> Arrays:
    """The k lowest keys of every window, with a first axis of ranks, and the offsets of their cells."""
    present = present_cells(mask, window, keys.ndim)
    filled = [(keys, identity(lax.min, keys.dtype)), *([] if present is None else [(present, False)])]
    padded, windows = pad_in_tiles(filled, window)

    def offset_of(key: jax.Array, number: jax.Array) -> jax.Array:
        (offset,) = offsets_of_equal(padded, (key,), (number,), windows)
        return offset.astype(np.min_scalar_type(window.cells))

    def next_one(last: Arrays, rank: jax.Array) -> tuple[Arrays, Arrays]:
        key = same_or_next(padded[0], windows, last[0], rank)
        number = jnp.where(key == last[0], last[1] + 1, 0)
        return (key, number), (key, offset_of(key, number))

    # A key, and the number of a cell among those that have it.
    key = materialize(reduce_windows(keys, window, lax.min))
    first = tuple(vary_with(each, *padded) for each in (key, jnp.full(key.shape, -1, np.int32)))
    return lax.scan(next_one, first, jnp.arange(k, dtype=np.int32))[1]


def _descending_keys(x: jax.Array) -> jax.Array:
    """Integers in the opposite order of the cells: NaN comes first, whatever its sign, and 0 just before -0."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        x = jnp.where(x != x, np.array(np.nan, x.dtype)[()], x)
    return ~keys_of(x)
