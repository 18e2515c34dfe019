"""Pools by plain sums of one term per cell if these sums are moderate, and the exact pools if they are not.

exp(β·x) and x² are one number per cell, whatever windows hold it. They may overflow, or vanish in windows far below the
others, so the exact pools evaluate exponentials of distances to a number of each window, or powers of ratios, for every
cell of every window. A sum of moderate size shows that neither has happened in its window, whatever the cells are. If
the sums of all windows are moderate, the pool is a function of them. This is decided at run time, once for a whole
array. It pays off on CPUs and TPUs; on GPUs traffic hides the arithmetic. Devices that share an array would have to
agree, and to exchange borders again for the exact pool; inside `jax.shard_map`, as on explicit meshes, each decides.
"""

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jaxpool._derivatives.in_turn import without_uncovered
from jaxpool._derivatives.rules import LinearMap, apply_linear_map, custom_rule, is_symbolic_zero, with_rule
from jaxpool._engine.maps import on_every_platform, reduce_windows, spread
from jaxpool._engine.operations import accumulation_dtype, if_all
from jaxpool._engine.reductions import terms_of_cells
from jaxpool._engine.stages import in_one_row, in_slabs, materialize
from jaxpool._geometry.window import Window
from jaxpool._platforms import default_platform, known_platform, lowered_for_one_device, may_be_shared

Terms = tuple[jax.Array, ...]


@dataclass(frozen=True)
class SumsOfCells(abc.ABC):
    """A pool as a function of sums of terms, and the exact pool; static in the traced program."""

    window: Window
    # How many of the arrays are cells, not parameters, one number along the pooled axes; which have no derivatives.
    arrays: ClassVar[int] = 1
    constant: ClassVar[tuple[int, ...]] = ()
    # How many of the sums are kept for derivatives; the value of these sums alone has the same derivatives.
    kept: ClassVar[int]
    # Whether sums pay off on a CPU for tiles of few cells, too.
    sums_small_tiles: ClassVar[bool] = True

    @property
    def platforms(self) -> tuple[str, ...]:
        """Where sums pay off, and a branch on whether they are moderate."""
        is_small_tile = self.window.tiles and self.window.cells <= 9
        return ("tpu",) if is_small_tile and not self.sums_small_tiles else ("cpu", "tpu")

    @property
    def has_derivative(self) -> bool:
        """Whether the derivative is by sums, too."""
        return True

    @property
    def keeps_values(self) -> bool:
        """Whether derivatives get the values as a last sum, in the dtype of sums."""
        return False

    def cells_to_sum(self, *cells: jax.Array) -> Terms:
        """The cells in the dtype of their sums; those that no window holds pass nothing back."""
        # Called within branches, which then get narrow cells: on a TPU, what a branch gets or returns is in memory.
        wide = (each.astype(accumulation_dtype(each.dtype)) for each in cells[: self.arrays])
        parameters = cells[self.arrays :]
        return *(without_uncovered(each, self.window, learnt=bool(parameters)) for each in wide), *parameters

    def exact_values(self, *cells: jax.Array) -> jax.Array:
        """The values in the dtype of the cells."""
        return self.exact(*self.cells_to_sum(*cells)).astype(cells[0].dtype)

    @abc.abstractmethod
    def exact(self, *cells: Any, **_: Any) -> jax.Array:
        """The values of the windows for any data, with their derivatives."""

    @abc.abstractmethod
    def terms(self, *cells: Any, **_: Any) -> Terms:
        """The terms of the sums, elementwise."""

    @abc.abstractmethod
    def value_of_sums(self, sums: Terms, counts: ArrayLike, *parameters: Any) -> jax.Array:
        """The values, elementwise in the sums, the numbers of cells of the windows, and the parameters."""

    @abc.abstractmethod
    def is_moderate(self, sums: Terms) -> jax.Array:
        """Which sums have neither overflowed nor lost digits."""

    def are_moderate(self, *cells: Any, **_: Any) -> jax.Array | bool:
        """Whether the parameters allow such sums, which these do not show."""
        return True

    def kept_terms(self, *cells: Any, **_: Any) -> Terms:
        return terms_of_cells(self.terms, cells, self.window)[: self.kept]

    def sums(self, *cells: jax.Array) -> Terms:
        """The sums of the terms, including those of zeros in the padding if they count."""
        terms = terms_of_cells(self.terms, cells, self.window)
        # Read twice: to judge them, and for the values.
        sums = tuple(materialize(reduce_windows(each, self.window, lax.add)) for each in terms)
        if not self.window.zeros:
            return sums
        padded = jnp.asarray(self.window.cells - self.window.counts(sums[0].ndim, padding=False), sums[0].dtype)
        zeros = self.terms(jnp.zeros((), sums[0].dtype), *cells[self.arrays :])
        return tuple(total + zero * padded for total, zero in zip(sums, zeros, strict=True))

    def counts(self, sums: Terms, *_: jax.Array) -> Any:
        """The numbers of cells of the windows, given the sums and the cells."""
        cells = self.window.cells if self.window.zeros else self.window.counts(sums[0].ndim, padding=False)
        return jnp.asarray(cells, sums[0].dtype)

    def value_of_kept(self, cells: Terms, sums: Terms) -> jax.Array:
        return self.value_of_sums(sums, self.counts(sums, *cells), *cells[self.arrays :])

    def push_forward(self, cells: Terms, dots: Mapping[int, jax.Array], sums: Terms) -> jax.Array:
        """The tangent of the values, from moderate sums and the tangents of the cells with these numbers."""
        # A tangent of 0 for the others would meet their slopes, which may overflow.
        varying = {number: cells[number] for number in dots}
        _, terms_dot = jax.jvp(lambda each: self.kept_terms(*_with_varying(cells, each)), (varying,), (dots,))
        sums_dot = tuple(reduce_windows(materialize(term), self.window, lax.add) for term in terms_dot)
        return jax.jvp(
            lambda each, sums: self.value_of_kept(_with_varying(cells, each), sums), (varying, sums), (dots, sums_dot)
        )[1]

    def pull_back(self, cells: Terms, values_bar: jax.Array, sums: Terms) -> Terms:
        """The cotangents of the cells, from moderate sums."""
        direct, sums_bar = jax.vjp(self.value_of_kept, cells, sums)[1](values_bar)
        # Materialized, since every offset of a window reads them, and one after the other, to pad one at a time.
        spread_bar: Terms = ()
        for each in sums_bar:
            spread_bar += (materialize(spread(materialize(each, *spread_bar), self.window)),)
        return jax.tree.map(lax.add, direct, jax.vjp(self.kept_terms, *cells)[1](spread_bar))


def pool_by_sums_of_cells(pool: SumsOfCells, rule: str, *cells: jax.Array) -> jax.Array:
    """Pool arrays without absent cells, by sums of their cells if that pays off and loses nothing; in x's dtype."""
    if default_platform() not in pool.platforms or may_be_shared(*cells):
        return with_rule(rule, pool.exact_values)(*cells)
    return with_rule(rule, lambda *cells: _values_and_sums(pool, *cells)[0])(*cells)


# Notation: window o holds the cells W(o); t_k are the terms; a dot marks a tangent, a bar a cotangent.
#
#     T_k(o) = Σ_{i ∈ W(o)} t_k(x(i))        y(o) = f(T(o))
#     ẏ(o) = Σ_k ∂f/∂T_k(o)·Σ_{i ∈ W(o)} t_k'(x(i))·ẋ(i)
#     x̄(i) = Σ_k t_k'(x(i))·Σ_{o : i ∈ W(o)} ∂f/∂T_k(o)·ȳ(o)
#
# The residuals are the sums, perhaps y as another one, and whether all sums are moderate, which decides in both
# directions. If not, the exact pool is linearised again. Second derivatives are those of the exact pool's derivative.


@custom_rule((0,))
def _values_and_sums(pool: SumsOfCells, *cells: jax.Array) -> tuple[jax.Array, Terms, jax.Array]:
    """The values, the sums, and whether the values come from the sums: whether all of them are moderate."""
    shape, dtype = pool.window.output_shape(cells[0].shape), cells[0].dtype
    like, summed = (jax.ShapeDtypeStruct(shape, each) for each in (dtype, accumulation_dtype(dtype)))
    # Values that are kept are rounded when they are returned.
    kept, pooled = pool.kept + pool.keeps_values, summed.dtype if pool.keeps_values else dtype

    def pool_on_platform(*cells: jax.Array) -> tuple[jax.Array, Terms, jax.Array]:
        if not _takes_sums(pool):
            values = pool.exact_values(*cells)
            # Not jnp.zeros: residuals vary over devices, as those of other platforms do.
            sums = (jnp.zeros_like(values, dtype=summed.dtype),) * kept
            return values, sums, jnp.zeros_like(values, shape=(), dtype=bool)
        wide = pool.cells_to_sum(*cells)
        moderate = pool.is_moderate(sums := pool.sums(*wide)).all() & pool.are_moderate(*wide)
        # Infinite sums would look like mistakes. Apart from the values, whose branch no derivative should evaluate.
        known = tuple(jnp.where(moderate, total, 0) for total in sums[: pool.kept])

        def pool_sums(*cells: jax.Array) -> jax.Array:
            counts, count = jnp.broadcast_to(pool.counts(sums, *cells), sums[0].shape), len(sums)
            rows = *sums, counts, *cells[pool.arrays :]
            values = in_one_row(lambda *rows: pool.value_of_sums(rows[:count], *rows[count:]), *rows)
            return values.astype(pooled)

        exact = partial(in_slabs, pool.exact_values, pool.window, strided=len(cells) > 1)
        values = if_all(moderate, pool_sums, lambda *cells: exact(*cells).astype(pooled), *cells)
        return values.astype(dtype), (*known, values)[:kept], moderate

    kinds = like, (summed,) * kept, jax.ShapeDtypeStruct((), bool)
    return on_every_platform(pool_on_platform, *cells, like=kinds)


@partial(_values_and_sums.defjvp, symbolic_zeros=True)
def _values_and_sums_jvp(pool: SumsOfCells, primals: Any, tangents: Any) -> Any:
    values, sums, moderate = _values_and_sums(pool, *primals)
    varying = tuple(n for n, dot in enumerate(tangents) if not (is_symbolic_zero(dot) or n in pool.constant))
    dots = tuple(tangents[number] for number in varying)
    apply = partial(apply_linear_map, _Derivative(pool, varying), like=values)
    values_dot = apply(dots, primals, sums, moderate) if dots else jnp.zeros_like(values)
    zeros = jax.tree.map(jax.custom_derivatives.zero_from_primal, (sums, moderate))
    return (values, sums, moderate), (values_dot, *zeros)


@dataclass(frozen=True)
class _Derivative(LinearMap):
    """The derivative with respect to the arrays of cells with these numbers."""

    pool: SumsOfCells
    varying: tuple[int, ...]

    residuals_vary = True

    def forward(self, dots: Terms, cells: Terms, sums: Terms, moderate: jax.Array, /) -> jax.Array:
        def push_exact(cells: Terms, dots: Terms, _: Terms) -> jax.Array:
            return jax.jvp(partial(self.exact, cells), self.chosen(cells), dots)[1]

        def push_sums(cells: Terms, dots: Terms, sums: Terms) -> jax.Array:
            wide = self.pool.cells_to_sum(*cells)
            each = {n: dot.astype(wide[n].dtype) for n, dot in zip(self.varying, dots, strict=True)}
            return self.pool.push_forward(wide, each, sums).astype(cells[0].dtype)

        return self.choose(moderate, push_sums, push_exact, cells, dots, sums)

    def transpose(self, values_bar: jax.Array, cells: Terms, sums: Terms, moderate: jax.Array, /) -> Terms:
        def pull_exact(cells: Terms, values_bar: jax.Array, _: Terms) -> Terms:
            return jax.vjp(partial(self.exact, cells), *self.chosen(cells))[1](values_bar)

        def pull_sums(cells: Terms, values_bar: jax.Array, sums: Terms) -> Terms:
            wide, pull_back = jax.vjp(self.pool.cells_to_sum, *cells)
            return self.chosen(pull_back(self.pool.pull_back(wide, values_bar.astype(sums[0].dtype), sums)))

        return self.choose(moderate, pull_sums, pull_exact, cells, values_bar, sums)

    def choose(self, moderate: jax.Array, by_sums: Any, exact: Any, cells: Terms, *others: Any) -> Any:
        if not (self.pool.has_derivative and _takes_sums(self.pool)):
            return exact(cells, *others)
        several, window = len(cells) > 1, self.pool.window
        # Derivatives in several arrays take much memory by sums, too.
        by_sums = partial(in_slabs, by_sums, window, for_time=True) if several else by_sums
        return if_all(moderate, by_sums, partial(in_slabs, exact, window, strided=several), cells, *others)

    def chosen(self, arrays: Terms) -> Terms:
        return tuple(arrays[number] for number in self.varying)

    def exact(self, cells: Terms, *varying: jax.Array) -> jax.Array:
        return self.pool.exact_values(*_with_varying(cells, dict(zip(self.varying, varying, strict=True))))


def _with_varying(cells: Terms, varying: Mapping[int, jax.Array]) -> Terms:
    """The cells, in which those with these numbers are replaced."""
    return tuple(varying.get(number, array) for number, array in enumerate(cells))


def _takes_sums(pool: SumsOfCells) -> bool:
    """Whether sums are judged: in a lowering for such a platform and one device; JAX differentiates exact pools."""
    return known_platform() in pool.platforms and lowered_for_one_device()
