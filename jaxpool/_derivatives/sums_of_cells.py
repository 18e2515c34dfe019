"""Pools of exponentials and squares that evaluate only one of them per cell, if the data allow it without loss.

exp(β·x) and x² are one number per cell, whatever windows hold it. They may overflow, or vanish in windows far below the
others, so the exact pools take exponentials of distances to a number of each window, or squares of ratios, for every
cell of a window. If all cells are of moderate size neither happens, and the pool is a function of plain sums over the
windows. This is decided at run time. It pays off on a CPU; elsewhere memory traffic hides the arithmetic. Several
devices would have to agree, and would exchange borders again to linearise the exact pool.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from jaxpool._derivatives.rules import with_rule
from jaxpool._engine.cpu.choose import shares_terms_of_cells
from jaxpool._engine.linear_maps import LinearMap, apply_linear_map
from jaxpool._engine.maps import on_every_platform, reduce_windows, spread
from jaxpool._engine.platforms import default_platform, known_platform, on_one_device
from jaxpool._engine.stages import materialize
from jaxpool._geometry.window import Window

# In bytes: larger arrays are pooled exactly by halves, which needs hardly more memory at a time than the sums.
_LARGE = 2**22

Terms = tuple[jax.Array, ...]


@dataclass(frozen=True)
class ExactPool(abc.ABC):
    """The pool for any data, with its derivatives; static in the traced program."""

    window: Window

    @abc.abstractmethod
    def __call__(self, x: jax.Array, /) -> jax.Array:
        """The values of the windows."""

    def behind_one_axis(self) -> Self:
        """The same pool for arrays with one more leading axis."""
        return replace(self, window=self.window.behind_one_axis())


@dataclass(frozen=True)
class SumsOfCells:
    """A family as a function of sums, with a number θ.

    Attributes:
        terms: The terms of the sums, elementwise in x and θ.
        value: y, elementwise in the sums, the numbers of cells of the windows and θ.
        kept: How many of the sums are kept for derivatives; the value of these sums alone has the same derivatives.
        is_moderate: For which cells sums of terms neither overflow nor lose digits, elementwise in x and θ.
    """

    terms: Callable[[jax.Array, float], Terms]
    value: Callable[[Terms, np.ndarray, float], jax.Array]
    kept: int
    is_moderate: Callable[[jax.Array, float], jax.Array]


def pool_by_sums_of_cells(x: jax.Array, family: SumsOfCells, exact: ExactPool, number: float, rule: str) -> jax.Array:
    """The exact pool of an array without absent cells, by sums of its cells if that pays off and the data allow it."""
    may_pay = default_platform() == "cpu" and jax.device_count() == 1 and shares_terms_of_cells(exact.window)
    if not may_pay:
        return with_rule(rule, exact)(x)
    return with_rule(rule, lambda x: _values_and_sums(_Pool(family, exact, number), x)[0])(x)


# Notation: window o holds the cells W(o); t_k are the terms; a dot marks a tangent, a bar a cotangent.
#
#     T_k(o) = Σ_{i ∈ W(o)} t_k(x(i))        y(o) = f(T(o))
#     ẏ(o) = Σ_k ∂f/∂T_k(o)·Σ_{i ∈ W(o)} t_k'(x(i))·ẋ(i)
#     x̄(i) = Σ_k t_k'(x(i))·Σ_{o : i ∈ W(o)} ∂f/∂T_k(o)·ȳ(o)
#
# The residuals are the sums and whether the data allow them, which decides in both directions. If they do not, the
# exact pool is linearised again. Second derivatives are those of the exact pool's derivative.


@dataclass(frozen=True)
class _Pool:
    """One pool, exact and by sums."""

    family: SumsOfCells
    exact: ExactPool
    number: float

    @property
    def window(self) -> Window:
        return self.exact.window

    def behind_one_axis(self) -> "_Pool":
        return replace(self, exact=self.exact.behind_one_axis())

    def terms(self, x: jax.Array) -> Terms:
        return self.family.terms(x, self.number)

    def kept_terms(self, x: jax.Array) -> Terms:
        return self.terms(x)[: self.family.kept]

    def value(self, sums: Terms) -> jax.Array:
        window = self.window
        counts = window.counts(sums[0].ndim, padding=False) if not window.zeros else np.asarray(window.cells)
        return self.family.value(sums, counts.astype(sums[0].dtype), self.number)

    def sums(self, x: jax.Array) -> Terms:
        """The sums of the terms, including those of zeros in the padding if they count."""
        window = self.window
        sums = tuple(reduce_windows(materialize(term), window, lax.add) for term in self.terms(x))
        if not window.zeros:
            return sums
        padded = (window.cells - window.counts(x.ndim, padding=False)).astype(x.dtype)
        zeros = self.terms(jnp.zeros((), x.dtype))
        return tuple(total + zero * padded for total, zero in zip(sums, zeros, strict=True))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _values_and_sums(pool: _Pool, x: jax.Array) -> tuple[jax.Array, Terms, jax.Array]:
    """The values, the sums, and whether the values come from the sums."""

    def evaluated(x: jax.Array) -> tuple[jax.Array, Terms, jax.Array]:
        def from_exact(x: jax.Array) -> tuple[jax.Array, Terms]:
            values = pool.exact(x)
            return values, (jnp.zeros_like(values),) * pool.family.kept

        def from_sums(x: jax.Array) -> tuple[jax.Array, Terms]:
            sums = pool.sums(x)
            return pool.value(sums), sums[: pool.family.kept]

        allowed = _all(pool.family.is_moderate(x, pool.number)) if _may_look(x) else jnp.zeros((), bool)
        return *_either(allowed, from_sums, from_exact, pool.window, x), allowed

    return on_every_platform(evaluated, x)


@_values_and_sums.defjvp
def _values_and_sums_jvp(pool: _Pool, primals: Any, tangents: Any) -> Any:
    values, sums, allowed = _values_and_sums(pool, *primals)
    values_dot = apply_linear_map(_Derivative(pool), tangents[0], *primals, sums, allowed, like=values)
    return (values, sums, allowed), (
        values_dot,
        *jax.tree.map(jax.custom_derivatives.zero_from_primal, (sums, allowed)),
    )


@dataclass(frozen=True)
class _Derivative(LinearMap):
    pool: _Pool

    residuals_vary = True

    def forward(self, x_dot: jax.Array, x: jax.Array, sums: Terms, allowed: jax.Array, /) -> jax.Array:
        pool = self.pool

        def by_sums(x: jax.Array, x_dot: jax.Array) -> jax.Array:
            _, terms_dot = jax.jvp(pool.kept_terms, (x,), (x_dot,))
            sums_dot = tuple(reduce_windows(materialize(term), pool.window, lax.add) for term in terms_dot)
            return jax.jvp(pool.value, (sums,), (sums_dot,))[1]

        def exact(x: jax.Array, x_dot: jax.Array) -> jax.Array:
            return jax.jvp(pool.exact, (x,), (x_dot,))[1]

        return _either(allowed, by_sums, exact, pool.window, x, x_dot)

    def transpose(self, values_bar: jax.Array, x: jax.Array, sums: Terms, allowed: jax.Array, /) -> jax.Array:
        pool = self.pool

        def by_sums(x: jax.Array, values_bar: jax.Array) -> jax.Array:
            (sums_bar,) = jax.vjp(pool.value, sums)[1](values_bar)
            return jax.vjp(pool.kept_terms, x)[1](tuple(spread(each, pool.window) for each in sums_bar))[0]

        def exact(x: jax.Array, values_bar: jax.Array) -> jax.Array:
            return jax.vjp(pool.exact, x)[1](values_bar)[0]

        return _either(allowed, by_sums, exact, pool.window, x, values_bar)


def _may_look(x: jax.Array) -> bool:
    """Whether this is a lowering for a CPU with all arrays on one device, and x is not in a mesh."""
    of_no_mesh = jax.typeof(x) == jax.typeof(jnp.zeros(x.shape, x.dtype))
    return known_platform() == "cpu" and on_one_device() and of_no_mesh


def _either(
    allowed: jax.Array, by_sums: Callable[..., Any], exact: Callable[..., Any], window: Window, *arrays: jax.Array
) -> Any:
    """The results by sums, or the exact ones, by halves along the first axis if arrays are large.

    Each is a loop that runs or does not, since the compiler gives the branches of a condition a single thread. The
    memory for both is reserved in advance. Everything depends on the loop counter: otherwise it would be moved out of
    the loop and always evaluated.
    """
    if not all(map(_may_look, arrays)):
        return exact(*arrays)
    rows = len(arrays[0])
    halves = arrays[0].nbytes > _LARGE and rows % 2 == 0 and 0 not in window.pooled_axes

    def exact_part(number: jax.Array, results: Any) -> Any:
        if not halves:
            return exact(*(materialize(array, number) for array in arrays))
        start = number * (rows // 2)
        block = exact(*(lax.dynamic_slice_in_dim(array, start, rows // 2) for array in arrays))
        return jax.tree.map(partial(lax.dynamic_update_slice_in_dim, start_index=start, axis=0), results, block)

    def all_by_sums(number: jax.Array, _: Any) -> Any:
        return by_sums(*(materialize(array, number) for array in arrays))

    allowed = jnp.all(allowed)
    results = jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), jax.eval_shape(exact, *arrays))
    results = lax.fori_loop(0, allowed.astype(int), all_by_sums, results)
    return lax.fori_loop(0, jnp.where(allowed, 0, 1 + halves), exact_part, results)


@custom_vmap
def _all(cells: jax.Array) -> jax.Array:
    """Whether all cells are true: one answer for a whole batch, which then takes one branch."""
    return jnp.all(cells)


@_all.def_vmap
def _all_in_batch(size: int, batched: Any, cells: jax.Array) -> tuple[jax.Array, bool]:
    return _all(cells), False
