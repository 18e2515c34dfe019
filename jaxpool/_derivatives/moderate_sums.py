"""Pools by plain sums of one term per cell if these sums are moderate, and the exact pools if they are not.

exp(β·x) and x² are one number per cell, whatever windows hold it. They may overflow, or vanish in windows far below the
others, so the exact pools evaluate exponentials of distances to a number of each window, or powers of ratios, for every
cell of every window. A sum of moderate size shows that neither has happened in its window, whatever the cells are. If
the sums of all windows are moderate, the pool is a function of them. This is decided at run time, once for a whole
array. It pays off on CPUs and TPUs; on GPUs traffic hides the arithmetic. Several devices would have to agree, and
would exchange borders again to linearise the exact pool.
"""

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._derivatives.rules import LinearMap, apply_linear_map, custom_rule, with_rule
from jaxpool._engine.blocks import fold
from jaxpool._engine.maps import on_every_platform, reduce_windows, spread
from jaxpool._engine.operations import any_in_batch
from jaxpool._engine.platforms import default_platform, known_platform, may_be_shared, on_one_of_any_kind
from jaxpool._engine.stages import in_one_row, materialize
from jaxpool._engine.window_offsets import is_innermost
from jaxpool._geometry.window import Window

Terms = tuple[jax.Array, ...]
# Where a branch on a value pays off.
_PLATFORMS = "cpu", "tpu"


@dataclass(frozen=True)
class SumsOfCells(abc.ABC):
    """A pool as a function of sums of terms, and the exact pool; static in the traced program."""

    window: Window

    # How many of the sums are kept for derivatives; the value of these sums alone has the same derivatives.
    kept: ClassVar[int]

    @abc.abstractmethod
    def exact(self, x: jax.Array, /) -> jax.Array:
        """The values of the windows for any data, with their derivatives."""

    @abc.abstractmethod
    def terms(self, x: jax.Array) -> Terms:
        """The terms of the sums, elementwise."""

    @abc.abstractmethod
    def value_of_sums(self, sums: Terms, counts: ArrayLike) -> jax.Array:
        """The values, elementwise in the sums and the numbers of cells of the windows."""

    @abc.abstractmethod
    def is_moderate(self, sums: Terms) -> jax.Array:
        """Which sums have neither overflowed nor lost digits."""

    def kept_terms(self, x: jax.Array) -> Terms:
        return terms_of_cells(self.terms, x, self.window)[: self.kept]

    def sums(self, x: jax.Array) -> Terms:
        """The sums of the terms, including those of zeros in the padding if they count."""
        sums = sums_of_terms(self.terms, x, self.window)
        if not self.window.zeros:
            return sums
        padded = (self.window.cells - self.window.counts(x.ndim, padding=False)).astype(x.dtype)
        zeros = self.terms(jnp.zeros((), x.dtype))
        return tuple(total + zero * padded for total, zero in zip(sums, zeros, strict=True))

    def counts(self, sums: Terms) -> np.ndarray:
        """The numbers of cells of the windows."""
        window = self.window
        counts = np.asarray(window.cells) if window.zeros else window.counts(sums[0].ndim, padding=False)
        return counts.astype(sums[0].dtype)

    def value_of_kept(self, sums: Terms) -> jax.Array:
        return self.value_of_sums(sums, self.counts(sums))


def pool_by_sums_of_cells(x: jax.Array, pool: SumsOfCells, rule: str) -> jax.Array:
    """Pool an array without absent cells, by sums of its cells if that pays off and loses nothing."""
    if default_platform() not in _PLATFORMS or may_be_shared():
        return with_rule(rule, pool.exact)(x)
    return with_rule(rule, lambda x: _values_and_sums(pool, x)[0])(x)


# Notation: window o holds the cells W(o); t_k are the terms; a dot marks a tangent, a bar a cotangent.
#
#     T_k(o) = Σ_{i ∈ W(o)} t_k(x(i))        y(o) = f(T(o))
#     ẏ(o) = Σ_k ∂f/∂T_k(o)·Σ_{i ∈ W(o)} t_k'(x(i))·ẋ(i)
#     x̄(i) = Σ_k t_k'(x(i))·Σ_{o : i ∈ W(o)} ∂f/∂T_k(o)·ȳ(o)
#
# The residuals are the sums and whether all are moderate, which decides in both directions. If not, the exact pool is
# linearised again. Second derivatives are those of the exact pool's derivative.


@custom_rule((0,))
def _values_and_sums(pool: SumsOfCells, x: jax.Array) -> tuple[jax.Array, Terms, jax.Array]:
    """The values, the sums, and whether the values come from the sums: whether all of them are moderate."""

    def pool_on_platform(x: jax.Array) -> tuple[jax.Array, Terms, jax.Array]:
        if not _takes_sums(x):
            values = pool.exact(x)
            return values, (jnp.zeros_like(values),) * pool.kept, jnp.zeros((), bool)
        sums = pool.sums(x)
        moderate = all_moderate(pool.is_moderate(sums))
        # Sums that are infinite or NaN would look like mistakes. Apart from the values, so that a program that reads
        # only derivatives does not evaluate the exact pool twice.
        kept = tuple(jnp.where(moderate, total, 0) for total in sums[: pool.kept])

        def pool_sums(x: jax.Array, *sums: jax.Array) -> jax.Array:
            counts = jnp.broadcast_to(pool.counts(sums), sums[0].shape)
            return in_one_row(lambda counts, *sums: pool.value_of_sums(sums, counts), counts, *sums)

        return (
            if_moderate(moderate, pool_sums, lambda x, *_: in_slabs(pool.exact, pool.window, x), x, *sums),
            kept,
            moderate,
        )

    like = jax.ShapeDtypeStruct(pool.window.output_shape(x.shape), x.dtype)
    return on_every_platform(pool_on_platform, x, like=(like, (like,) * pool.kept, jax.ShapeDtypeStruct((), bool)))


@_values_and_sums.defjvp
def _values_and_sums_jvp(pool: SumsOfCells, primals: Any, tangents: Any) -> Any:
    values, *residuals = _values_and_sums(pool, *primals)
    values_dot = apply_linear_map(_Derivative(pool), tangents[0], *primals, *residuals, like=values)
    zeros = jax.tree.map(jax.custom_derivatives.zero_from_primal, residuals)
    return (values, *residuals), (values_dot, *zeros)


@dataclass(frozen=True)
class _Derivative(LinearMap):
    pool: SumsOfCells

    residuals_vary = True

    def forward(self, x_dot: jax.Array, x: jax.Array, sums: Terms, moderate: jax.Array, /) -> jax.Array:
        pool = self.pool

        def push_forward(x: jax.Array, x_dot: jax.Array) -> jax.Array:
            return jax.jvp(pool.exact, (x,), (x_dot,))[1]

        if not _takes_sums(x, x_dot):
            return push_forward(x, x_dot)

        def push_sums(x: jax.Array, x_dot: jax.Array) -> jax.Array:
            _, terms_dot = jax.jvp(pool.kept_terms, (x,), (x_dot,))
            sums_dot = tuple(reduce_windows(materialize(term), pool.window, lax.add) for term in terms_dot)
            return jax.jvp(pool.value_of_kept, (sums,), (sums_dot,))[1]

        return if_moderate(moderate, push_sums, partial(in_slabs, push_forward, pool.window), x, x_dot)

    def transpose(self, values_bar: jax.Array, x: jax.Array, sums: Terms, moderate: jax.Array, /) -> jax.Array:
        pool = self.pool

        def pull_back(x: jax.Array, values_bar: jax.Array) -> jax.Array:
            return jax.vjp(pool.exact, x)[1](values_bar)[0]

        if not _takes_sums(x, values_bar):
            return pull_back(x, values_bar)

        def pull_sums(x: jax.Array, values_bar: jax.Array) -> jax.Array:
            (sums_bar,) = jax.vjp(pool.value_of_kept, sums)[1](values_bar)
            # Materialized, since every offset of a window reads them, and one after the other, to pad one at a time.
            spread_bar: Terms = ()
            for each in sums_bar:
                spread_bar += (materialize(spread(materialize(each, *spread_bar), pool.window)),)
            return jax.vjp(pool.kept_terms, x)[1](spread_bar)[0]

        return if_moderate(moderate, pull_sums, partial(in_slabs, pull_back, pool.window), x, values_bar)


def _takes_sums(*arrays: jax.Array) -> bool:
    """Whether sums are judged: in a lowering for such a platform, on one device."""
    return known_platform() in _PLATFORMS and on_one_of_any_kind(*arrays)


def sums_of_terms(terms: Callable[[jax.Array], Terms], x: jax.Array, window: Window) -> Terms:
    """The sums over the windows of terms, elementwise functions of the cells; padding adds 0."""
    # Read twice: to judge them, and for the values.
    return tuple(materialize(reduce_windows(each, window, lax.add)) for each in terms_of_cells(terms, x, window))


def terms_of_cells(terms: Callable[[jax.Array], Terms], x: jax.Array, window: Window) -> Terms:
    """The terms of all cells, in memory if that is faster than to evaluate them in the loop that sums them."""
    return tuple(map(materialize, in_one_row(terms, x))) if _keeps_terms(window, x.shape) else terms(x)


def _keeps_terms(window: Window, shape: Sequence[int]) -> bool:
    """Whether terms of cells are computed before the loop that sums them over windows, instead of in it.

    Windows that share cells would compute them again. Without overlap a separate loop takes up to 1.9 times as long,
    except along the innermost axis, where terms of a slice with a stride are not computed in vectors.
    """
    return not window.tiles or is_innermost(window, shape)


def if_moderate(moderate: jax.Array, by_sums: Callable[..., Any], exact: Callable[..., Any], *arrays: jax.Array) -> Any:
    """The function `by_sums` of the arrays if all sums are moderate, else the other: one of them for a whole batch."""
    return lax.cond(~any_in_batch(~moderate), by_sums, exact, *arrays)


def in_slabs(exact: Callable[..., jax.Array], window: Window, *arrays: jax.Array) -> jax.Array:
    """The function `exact` of the arrays, for one slab of the first axis after the other, unless that is pooled.

    Memory is reserved for the branch of a condition that is not taken, too. In up to 8 slabs of 64 KiB and more, exact
    pools hardly need more than the sums.
    """
    size, *_ = shape = arrays[0].shape
    count = 1
    # Sizes are symbols in programs exported for any size.
    if 0 not in window.pooled_axes and all(isinstance(each, int) for each in shape):
        most = min(8, arrays[0].dtype.itemsize * math.prod(shape) // 2**16)
        count = max((count for count in range(1, most + 1) if size % count == 0), default=1)
    if count == 1:
        return exact(*arrays)
    slabs = tuple(array.reshape(count, size // count, *array.shape[1:]) for array in arrays)
    return lax.collapse(lax.map(lambda slab: exact(*slab), slabs), 0, 2)


def all_moderate(moderate: jax.Array) -> jax.Array:
    """Whether all entries are true; on a CPU in half the time of the compiler's own reduction of booleans."""
    if known_platform() != "cpu" or not (isinstance(moderate.size, int) and moderate.size):
        return jnp.all(moderate)
    return fold(materialize(moderate.reshape(-1)), (0,), lax.bitwise_and)[0]
