"""Sums over the pairs of a window and a cell in it: of any elementwise term, closed under differentiation.

A term is a function of arrays of cells and arrays of windows. Its sum over the cells of every window is a pool; its sum
over the windows of every cell is what a backward pass sends to the cells. The tangent of either is the same sum of the
tangent of the term, and the transpose of one is the other, of the transposed term. So a pool that is written as such
sums has derivatives of every order, in every nesting of modes, which are such sums again. No program is differentiated:
no fill, no gather and no mask, so there is neither a scatter nor a NaN from a pair that does not exist.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._jax.platforms import on_one_device
from jaxpool._jax.primitives import ClosedMap, apply_closed_map
from jaxpool._jax.stages import in_one_row, materialize
from jaxpool._sharding import vary_together, vary_with
from jaxpool._window import Window
from jaxpool._windows.cells import (
    at_offset,
    cells_at_offsets,
    cells_first,
    fold,
    fold_offsets,
    holds_all_cells,
    is_looped,
    most_holders,
    offsets_in,
    pad_windows,
    present_cells,
    put_between,
)
from jaxpool._windows.choices import reduce_windows, spread
from jaxpool._windows.gather import Covered, gather_windows, where_covered
from jaxpool._windows.operations import Arrays, Filled, if_all

# The most cells of a window that are added at once; of larger windows axes are taken in turn.
MOST_AT_ONCE = 64

# An elementwise function, which is static in the traced program: hashable, and equal to others that do the same.
Term = Callable[..., Arrays]
Elementwise = Callable[..., jax.Array]

# Notation: c are arrays of cells and w arrays of windows; W(o) are the cells of window o, a dot marks a tangent and a
# bar a cotangent. With the term t,
#
#     y(o) = Σ_{i ∈ W(o)} t(c(i), w(o))        ẏ(o) = Σ_{i ∈ W(o)} ṫ,  ṫ = ∂t/∂c·ċ(i) + ∂t/∂w·ẇ(o)
#     c̄(i) = Σ_{o : i ∈ W(o)} ∂t/∂c·ȳ(o)       w̄(o) = Σ_{i ∈ W(o)} ∂t/∂w·ȳ(o)
#
# The term ṫ is linear in the dots, and ∂t/∂c·ȳ and ∂t/∂w·ȳ are its transposes: terms of the same arrays and of ȳ. The
# sum over the windows of a cell has the same derivatives, with cells and windows exchanged.


def sum_over_cells(
    term: Term, cells: Arrays, windows: Arrays, window: Window, present: jax.Array | None = None, *, results: int = 1
) -> Arrays:
    """Σ term(*cells, *windows) over the cells of every window, for each of the results of the term.

    Cells have full size along the pooled axes; other sizes may be 1. Absent cells, and padding, add nothing.
    """
    cells, windows = _of_one_kind(cells, windows)
    outputs = [window.output_shape(array.shape) for array in cells]
    shape = jnp.broadcast_shapes(*outputs, *(array.shape for array in windows))
    masks = () if present is None else (present,)
    sides = len(cells) * (False,) + len(windows) * (True,)
    closed = PairSum(term, sides, window, True, bool(masks), shape, results)
    like = [jax.ShapeDtypeStruct(shape, cells[0].dtype)] * results
    return tuple(apply_closed_map(closed, *masks, *cells, *windows, like=like))


def in_turn(window: Window) -> tuple[Window, ...]:
    """The windows that a pool takes in turn, the first axis first; at once up to 64 cells, tiles and footprints."""
    at_once = window.cells <= MOST_AT_ONCE or window.tiles or window.has_footprint
    return (window,) if at_once else window.split()[::-1]


def finite(extremes: jax.Array) -> jax.Array:
    """The extremes, or 0 where they are infinite, as those of windows without a cell."""
    return jnp.where(jnp.isinf(extremes), 0, extremes)


def reciprocal(total: jax.Array) -> jax.Array:
    """1/total, and 0 with derivatives 0 where the total is 0."""
    return jnp.where(total == 0, 0, 1 / jnp.where(total == 0, 1, total))


def weighed(weight: jax.Array, x: jax.Array) -> jax.Array:
    """Their product; what has no weight adds nothing, whatever it is."""
    return weight * jnp.where((weight == 0) & ~jnp.isfinite(x), 0, x)


def _of_one_kind(cells: Arrays, windows: Arrays) -> tuple[Arrays, Arrays]:
    """The arrays in the rank of the cells; inside `jax.shard_map` with types that vary over the same devices."""
    arrays = vary_together(*cells, *windows)
    arrays = [lax.expand_dims(array, range(cells[0].ndim - array.ndim)) for array in arrays]
    return tuple(arrays[: len(cells)]), tuple(arrays[len(cells) :])


@dataclass(frozen=True)
class Tangent:
    """The tangent of a term of so many arrays: of these, and then of the tangents of the active ones."""

    term: Term
    arrays: int
    active: tuple[int, ...]

    def __call__(self, *arrays: jax.Array) -> Arrays:
        shape = jnp.broadcast_shapes(*(array.shape for array in arrays))

        def varying(*some: jax.Array) -> Arrays:
            return self.term(*_with(arrays[: self.arrays], dict(zip(self.active, some, strict=True))))

        primals = [jnp.broadcast_to(arrays[number], shape) for number in self.active]
        return jax.jvp(varying, primals, [jnp.broadcast_to(dot, shape) for dot in arrays[self.arrays :]])[1]


@dataclass(frozen=True)
class Transposed:
    """The cotangent of one `linear` array of a term: of its other arrays, then of the given results' cotangents."""

    term: Term
    arrays: int
    linear: tuple[int, ...]
    of: int
    given: tuple[int, ...]

    def __call__(self, *arrays: jax.Array) -> Arrays:
        shape = jnp.broadcast_shapes(*(array.shape for array in arrays))
        zero, known = vary_with(jnp.zeros(shape, arrays[-1].dtype), *arrays), iter(arrays)
        at_zero = [zero if number in self.linear else next(known) for number in range(self.arrays)]

        def linear(one: jax.Array) -> Arrays:
            results = self.term(*_with(at_zero, {self.of: one}))
            return tuple(jnp.broadcast_to(results[number], shape) for number in self.given)

        return jax.linear_transpose(linear, zero)(tuple(jnp.broadcast_to(bar, shape) for bar in known))


@dataclass(frozen=True)
class Product:
    """A term whose sums are combinations of sums over cells alone: Σ u·v = v·Σ u, with u of cells and v of windows.

    They are computed so where windows overlap: each u is then evaluated once for a cell, not once for every pair. GPUs
    wait for memory, not for arithmetic: there only sums over cells that need no flag are computed so.

    `direct` is the term itself, for any data; nothing overflows or vanishes where all of `are_moderate` is true.
    `of_cells` gives all u of the arrays of the term, of which those of windows are one number along the pooled axes;
    `of_windows` the results of the term, from the sums of the u. The term is linear in one array at most, which is one
    of cells, and so is every u; then it has one result, linear in the sums.
    """

    direct: Term
    of_cells: Term
    of_windows: Term
    are_moderate: Elementwise | None = None

    def __call__(self, *arrays: jax.Array) -> Arrays:
        return self.direct(*arrays)


def _with(arrays: Sequence[jax.Array], others: dict[int, jax.Array]) -> list[jax.Array]:
    return [others.get(number, array) for number, array in enumerate(arrays)]


@dataclass(frozen=True)
class PairSum(ClosedMap):
    """A sum over pairs, of a mask of the cells that are present, if it is `masked`, and of the arrays of the term.

    `of_windows` tells which of these are arrays of windows. The result has this shape: where it is 1 along an axis, as
    for the cotangent of a number that many windows share, it is the sum along that axis.
    """

    term: Term
    of_windows: tuple[bool, ...]
    window: Window
    per_window: bool
    masked: bool
    shape: tuple[Any, ...]
    results: int = 1

    def tangent(self, active: tuple[int, ...]) -> "PairSum":
        varying = tuple(number - self.masked for number in active)
        sides = self.of_windows + tuple(self.of_windows[number] for number in varying)
        return replace(self, term=Tangent(self.term, len(self.of_windows), varying), of_windows=sides)

    def transposed(self, number: int, linear: tuple[int, ...], given: tuple[int, ...], shape: Any) -> "PairSum":
        linear, of = tuple(each - self.masked for each in linear), number - self.masked
        known = tuple(side for each, side in enumerate(self.of_windows) if each not in linear)
        term = Transposed(self.term, len(self.of_windows), linear, of, given)
        sides = known + (self.per_window,) * len(given)
        return PairSum(term, sides, self.window, self.of_windows[of], self.masked, shape)

    def __call__(self, platform: str, *arrays: jax.Array) -> Arrays:
        present, arrays = (arrays[0], arrays[1:]) if self.masked else (None, arrays)
        cells, windows = (
            tuple(array for array, side in zip(arrays, self.of_windows, strict=True) if side == of_windows)
            for of_windows in (False, True)
        )
        exact, given = self._over_cells if self.per_window else self._over_windows, (present, cells, windows)
        by_sums = self._by_sums(platform, cells, windows) if self.window.overlap else None
        quick, are_moderate = by_sums or (exact, None)
        if are_moderate is None:
            sums = quick(*given)
        else:
            # Devices would have to agree.
            sums = if_all(are_moderate, quick, exact, *given) if on_one_device() else exact(*given)
        return tuple(map(self._shaped, sums))

    def _by_sums(
        self, platform: str, cells: Arrays, windows: Arrays
    ) -> tuple[Callable[..., Arrays], jax.Array | None] | None:
        """How to add a product up by plain sums, and where that loses nothing; None if it is not worth it."""
        term = self.term
        if isinstance(term, Product) and self.per_window:
            quick, product, arrays = partial(self._products_of_sums, term), term, (*cells, *windows)
        elif isinstance(term, Transposed) and isinstance(term.term, Product) and not self.per_window:
            quick, product = partial(self._spread_products, term, term.term), term.term
            arrays = self._with_linear(term, cells, windows)
        else:
            return None
        are_moderate = product.are_moderate
        if platform not in ("cpu", "tpu") and not (self.per_window and are_moderate is None):
            return None
        return quick, None if are_moderate is None else are_moderate(*arrays)

    def _with_linear(self, term: Transposed, cells: Arrays, windows: Arrays) -> Arrays:
        """The arrays of the term that is transposed, with zeros for the one in which it is linear."""
        zero = vary_with(jnp.zeros(self.shape, windows[-1].dtype), *cells, *windows)
        return (*cells[: term.of], zero, *cells[term.of :], *windows[:-1])

    def _shaped(self, total: jax.Array) -> jax.Array:
        shared = [axis for axis, size in enumerate(self.shape) if size == 1 and total.shape[axis] != 1]
        return jnp.broadcast_to(total.sum(shared, keepdims=True) if shared else total, self.shape)

    def _in_order(self, cells: Arrays, windows: Arrays) -> Arrays:
        """The arrays in the order in which the term takes them."""
        of_cells, of_windows = iter(cells), iter(windows)
        return tuple(next(of_windows if side else of_cells) for side in self.of_windows)

    def _products_of_sums(self, product: Product, present: jax.Array | None, cells: Arrays, windows: Arrays) -> Arrays:
        """The results from the windowed sums S(u)."""
        sums = []
        for each in product.of_cells(*cells, *windows):
            each = materialize(each if present is None else jnp.where(present, each, 0))
            sums.append(reduce_windows(each, self.window, lax.add))
        return tuple(product.of_windows(sums, *cells, *windows))

    def _spread_products(
        self, term: Transposed, product: Product, present: jax.Array | None, cells: Arrays, windows: Arrays
    ) -> Arrays:
        """Its transpose: Σ ∂u/∂c times the transpose of S at v·ȳ."""
        arrays = self._with_linear(term, cells, windows)
        bar = jnp.broadcast_to(windows[-1], jnp.broadcast_shapes(*(array.shape for array in windows)))

        def of_cells(one: jax.Array) -> Arrays:
            return product.of_cells(*_with(arrays, {term.of: one}))

        count = len(jax.eval_shape(of_cells, arrays[term.of]))
        of_windows = jax.linear_transpose(lambda *sums: product.of_windows(sums, *arrays)[0], *[bar] * count)
        sent = [materialize(spread(materialize(each), self.window)) for each in of_windows(bar)]
        shape = jnp.broadcast_shapes(sent[0].shape, *(array.shape for array in cells))
        zero = vary_with(jnp.zeros(shape, bar.dtype), *sent, *cells)
        linear = jax.linear_transpose(lambda one: tuple(jnp.broadcast_to(u, shape) for u in of_cells(one)), zero)
        (total,) = linear(tuple(jnp.broadcast_to(each, shape) for each in sent))
        return (total if present is None else jnp.where(present, total, 0),)

    def _over_cells(self, present: jax.Array | None, cells: Arrays, windows: Arrays) -> Arrays:
        window = self.window
        present = present_cells(present, window, cells[0].ndim)

        def summed(number: int, cells: Arrays) -> jax.Array:
            if window.outputs == 1:
                # Of all cells, and one reduction.
                whole = in_one_row(lambda *arrays: self.term(*arrays)[number], *self._in_order(cells, windows))
                whole = whole if present is None else jnp.where(present, whole, 0)
                return reduce_windows(whole, window, lax.add)

            def added(*given: jax.Array) -> jax.Array:
                one = self.term(*self._in_order(given[: len(cells)], windows))[number]
                return one if present is None else jnp.where(given[-1], one, 0)

            filled = [*((array, 0) for array in cells), *([] if present is None else [(present, False)])]
            return _sum_over_offsets(added, filled, window)

        sums: Arrays = ()
        windows = tuple(map(materialize, windows))
        for number in range(self.results):
            # A loop of its own, that shares no terms with others: a compiler would store them.
            cells = tuple(materialize(array, *windows, *sums) for array in cells)
            sums += (materialize(summed(number, cells)),)
        return sums

    def _over_windows(self, present: jax.Array | None, cells: Arrays, windows: Arrays) -> Arrays:
        window = self.window
        windows = tuple(map(materialize, windows))
        cells = tuple(materialize(array, *windows) for array in cells)
        exists = jnp.ones(window.output_shape((1,) * windows[0].ndim), bool)
        term = jax.jit(lambda cells, windows: self.term(*self._in_order(cells, windows))[0])

        def sent(_: Any, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
            added = term(cells, windows[:-1])
            return jnp.where(where_covered(covered, windows[-1], False), added, jnp.zeros_like(added))

        around = [*((array, 0) for array in windows), (exists, False)]
        if holds_all_cells(window):
            total = in_one_row(lambda *arrays: self.term(*arrays)[0], *self._in_order(cells, windows))
        elif not window.has_bins and most_holders(window) > MOST_AT_ONCE:
            # In a loop over the places of a cell in windows.
            around = [(put_between(array, window, fill), fill) for array, fill in around]
            total = _sum_over_offsets(lambda *windows: sent(0, True, windows, cells), around, window.holders())
        else:
            total = gather_windows(sent, around, window, [(array, 0) for array in cells])
        return (total if present is None else jnp.where(present, total, 0),)


def _sum_over_offsets(term: Elementwise, cells: Filled, window: Window) -> jax.Array:
    """Σ term(*cells) over every window, each array with its padding value: of large tiles for all cells together."""
    if window.tiles and window.cells > MOST_AT_ONCE:
        blocks = [cells_first(pad_windows(array, window, fill), window) for array, fill in cells]
        for _ in window.axes:
            term = jax.vmap(term)
        axes = range(len(window.axes))
        return lax.squeeze(fold(term(*blocks), axes, lax.add), axes)
    # Traced once for all offsets.
    term = jax.jit(term)
    if not is_looped(window):
        at_offsets = (cells_at_offsets(array, window, fill) for array, fill in cells)
        return reduce(lax.add, itertools.starmap(term, zip(*at_offsets, strict=True)))
    padded = tuple(pad_windows(array, window, fill) for array, fill in cells)
    first = term(*(at_offset(array, window, next(offsets_in(window))) for array in padded))
    start = vary_with(jnp.zeros_like(first), first)
    return fold_offsets(lambda total, cells, _: total + term(*cells), start, padded, window)
