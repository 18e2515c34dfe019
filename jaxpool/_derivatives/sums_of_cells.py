"""Pools of exponentials and squares that evaluate only one of them per cell, if the sums show that this loses nothing.

exp(β·x) and x² are one number per cell, whatever windows hold it. They may overflow, or vanish in windows far below the
others, so the exact pools evaluate exponentials of distances to a number of each window, or squares of ratios, for
every cell of every window. A sum of moderate size shows that neither has happened in its window, whatever the cells
are. If all sums are moderate, the pool is a function of them. This is decided at run time. It pays off on a CPU;
elsewhere memory traffic hides the arithmetic. Several devices would have to agree, and would exchange borders again to
linearise the exact pool.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._derivatives.moderate_sums import (
    Terms,
    all_moderate,
    sums_of_terms,
    terms_of_cells,
    unless_moderate,
    zeros_unless_moderate,
)
from jaxpool._derivatives.rules import with_rule
from jaxpool._engine.custom_rules import custom_rule
from jaxpool._engine.linear_maps import LinearMap, apply_linear_map
from jaxpool._engine.maps import on_every_platform, reduce_windows, spread
from jaxpool._engine.platforms import default_platform, may_be_shared, on_one_cpu
from jaxpool._engine.stages import in_one_row, materialize
from jaxpool._geometry.window import Window


@dataclass(frozen=True)
class ExactPool(abc.ABC):
    """The pool for any data, with its derivatives; static in the traced program."""

    window: Window

    @abc.abstractmethod
    def __call__(self, x: jax.Array, /) -> jax.Array:
        """The values of the windows."""


@dataclass(frozen=True)
class SumsOfCells:
    """A family as a function of sums, with a number θ.

    Attributes:
        terms: The terms of the sums, elementwise in x and θ.
        value: y, elementwise in the sums, the numbers of cells of the windows and θ.
        kept: How many of the sums are kept for derivatives; the value of these sums alone has the same derivatives.
        is_moderate: Which sums have neither overflowed nor lost digits, elementwise in the sums and θ.
    """

    terms: Callable[[jax.Array, float], Terms]
    value: Callable[[Terms, ArrayLike, float], jax.Array]
    kept: int
    is_moderate: Callable[[Terms, float], jax.Array]


def pool_by_sums_of_cells(x: jax.Array, family: SumsOfCells, exact: ExactPool, number: float, rule: str) -> jax.Array:
    """The exact pool of an array without absent cells, by sums of its cells if that pays off and loses nothing."""
    if default_platform() != "cpu" or may_be_shared():
        return with_rule(rule, exact)(x)
    return with_rule(rule, lambda x: _values_and_sums(_Pool(family, exact, number), x)[0])(x)


# Notation: window o holds the cells W(o); t_k are the terms; a dot marks a tangent, a bar a cotangent.
#
#     T_k(o) = Σ_{i ∈ W(o)} t_k(x(i))        y(o) = f(T(o))
#     ẏ(o) = Σ_k ∂f/∂T_k(o)·Σ_{i ∈ W(o)} t_k'(x(i))·ẋ(i)
#     x̄(i) = Σ_k t_k'(x(i))·Σ_{o : i ∈ W(o)} ∂f/∂T_k(o)·ȳ(o)
#
# The residuals are the sums and whether all are moderate, which decides in both directions. If not, the exact pool is
# linearised again. Second derivatives are those of the exact pool's derivative.


@dataclass(frozen=True)
class _Pool:
    """One pool, exact and by sums."""

    family: SumsOfCells
    exact: ExactPool
    number: float

    @property
    def window(self) -> Window:
        return self.exact.window

    def terms(self, x: jax.Array) -> Terms:
        return self.family.terms(x, self.number)

    def kept_terms(self, x: jax.Array) -> Terms:
        return terms_of_cells(self.terms, x, self.window)[: self.family.kept]

    def value(self, sums: Terms) -> jax.Array:
        return self.family.value(sums, self._counts(sums), self.number)

    def value_in_one_row(self, sums: Terms) -> jax.Array:
        """The value of sums that are in memory, for the forward pass."""
        counts = jnp.broadcast_to(self._counts(sums), sums[0].shape)
        return in_one_row(lambda counts, *sums: self.family.value(sums, counts, self.number), counts, *sums)

    def _counts(self, sums: Terms) -> np.ndarray:
        window = self.window
        counts = window.counts(sums[0].ndim, padding=False) if not window.zeros else np.asarray(window.cells)
        return counts.astype(sums[0].dtype)

    def sums(self, x: jax.Array) -> Terms:
        """The sums of the terms, including those of zeros in the padding if they count."""
        window = self.window
        sums = sums_of_terms(self.terms, x, window)
        if not window.zeros:
            return sums
        padded = (window.cells - window.counts(x.ndim, padding=False)).astype(x.dtype)
        zeros = self.terms(jnp.zeros((), x.dtype))
        return tuple(total + zero * padded for total, zero in zip(sums, zeros, strict=True))


@custom_rule((0,))
def _values_and_sums(pool: _Pool, x: jax.Array) -> tuple[jax.Array, Terms, jax.Array]:
    """The values, the sums, and whether the values come from the sums: whether all of them are moderate."""

    def evaluated(x: jax.Array) -> tuple[jax.Array, Terms, jax.Array]:
        if not on_one_cpu(x):
            values = pool.exact(x)
            return values, (jnp.zeros_like(values),) * pool.family.kept, jnp.zeros((), bool)
        sums = pool.sums(x)
        moderate = all_moderate(pool.family.is_moderate(sums, pool.number))
        # Apart from the values, so that a program that reads only derivatives does not evaluate the exact pool twice.
        kept = zeros_unless_moderate(moderate, sums[: pool.family.kept])
        values = unless_moderate(moderate, pool.value_in_one_row(sums), pool.exact, pool.window, x)
        return values, kept, moderate

    like = jax.ShapeDtypeStruct(pool.window.output_shape(x.shape), x.dtype)
    return on_every_platform(evaluated, x, like=(like, (like,) * pool.family.kept, jax.ShapeDtypeStruct((), bool)))


@_values_and_sums.defjvp
def _values_and_sums_jvp(pool: _Pool, primals: Any, tangents: Any) -> Any:
    values, sums, moderate = _values_and_sums(pool, *primals)
    values_dot = apply_linear_map(_Derivative(pool), tangents[0], *primals, sums, moderate, like=values)
    return (values, sums, moderate), (
        values_dot,
        *jax.tree.map(jax.custom_derivatives.zero_from_primal, (sums, moderate)),
    )


@dataclass(frozen=True)
class _Derivative(LinearMap):
    pool: _Pool

    residuals_vary = True

    def forward(self, x_dot: jax.Array, x: jax.Array, sums: Terms, moderate: jax.Array, /) -> jax.Array:
        pool = self.pool

        def exact(x: jax.Array, x_dot: jax.Array) -> jax.Array:
            return jax.jvp(pool.exact, (x,), (x_dot,))[1]

        if not on_one_cpu(x, x_dot):
            return exact(x, x_dot)
        _, terms_dot = jax.jvp(pool.kept_terms, (x,), (x_dot,))
        sums_dot = tuple(reduce_windows(materialize(term), pool.window, lax.add) for term in terms_dot)
        by_sums = jax.jvp(pool.value, (sums,), (sums_dot,))[1]
        return unless_moderate(moderate, by_sums, exact, pool.window, x, x_dot)

    def transpose(self, values_bar: jax.Array, x: jax.Array, sums: Terms, moderate: jax.Array, /) -> jax.Array:
        pool = self.pool

        def exact(x: jax.Array, values_bar: jax.Array) -> jax.Array:
            return jax.vjp(pool.exact, x)[1](values_bar)[0]

        if not on_one_cpu(x, values_bar):
            return exact(x, values_bar)
        (sums_bar,) = jax.vjp(pool.value, sums)[1](values_bar)
        # Materialized, since every offset of a window reads them, and one after the other, to pad one at a time.
        spread_bar: Terms = ()
        for each in sums_bar:
            spread_bar += (materialize(spread(materialize(each, *spread_bar), pool.window)),)
        (by_sums,) = jax.vjp(pool.kept_terms, x)[1](spread_bar)
        return unless_moderate(moderate, by_sums, exact, pool.window, x, values_bar)
