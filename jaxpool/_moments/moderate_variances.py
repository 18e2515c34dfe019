"""Variances of moderate cells on a CPU: in one loop over a window, where the exact ones take three.

A window is known by one of its cells, the mean of all cells less that one, and the variance. The place of that cell is
real in every window, so that nothing has to look for it, as the exact variances look for the largest cell. Those scale
their squares; here squares may overflow or vanish, and the variance is then NaN. So it is where it is the difference of
numbers that are much larger. Derivatives are those of the exact ones, in slabs, which need a third of the memory.
"""

from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._derivatives.powers import corrected_share
from jaxpool._derivatives.rules import LinearMap, apply_linear_map, custom_rule, with_rule
from jaxpool._engine.maps import on_every_platform
from jaxpool._engine.operations import Arrays, combine, if_all
from jaxpool._engine.stages import in_slabs, materialize
from jaxpool._engine.window_offsets import at_offset, offsets_in, pad_windows, present_cells
from jaxpool._geometry.window import Window, WindowAxis
from jaxpool._moments.variances import variances
from jaxpool._platforms import default_platform, known_platform, lowered_for_one_device, may_be_shared

# Windows of so few cells, and a single window, take as long by their exact variances.
_FEWEST = 4
# The most cells of a window that are taken at once, if windows share cells and if they do not; otherwise each axis is a
# loop, which after the first axis reads three arrays.
_MOST_SHARED, _MOST_IN_LOOP = 25, 64

# Notation: window o holds n cells, or parts, i with the cell c(i), the mean r(i) less c(i), and the variance v(i); of a
# cell these are x(i), 0 and 0. C, R and V are those of the window; C is one of the c(i).
#
#     d(i) = c(i) - C + r(i)      R = Σ d(i)/n      V = Σ (v(i) + d(i)²)/n - R²
#
# The difference loses few digits: C deviates by R from the mean, so that R² ≤ n·V for the n cells of a window. With so
# many cells that R² > 256·V it is not moderate. Equal cells have d = 0, and V = 0. Derivatives are those of the exact
# variances.


@dataclass(frozen=True)
class Variances:
    """The variances of all windows, over their numbers of cells less the correction, or the roots of these."""

    window: Window
    correction: float
    root: bool

    def __call__(self, x: jax.Array, mask: jax.Array | None, rule: str) -> jax.Array:
        """The values; without a mask by one loop, if that is faster and loses nothing."""
        if present_cells(mask, self.window, x.ndim) is not None:
            # Absent cells are marked by -inf, so real infinities become NaN first.
            x += jnp.where(jnp.isinf(x), jnp.nan, 0)
        if mask is not None:
            x = jnp.where(mask, x, -jnp.inf)
        if mask is None and default_platform() == "cpu" and self._parts() and not may_be_shared(x):
            return with_rule(rule, partial(_by_one_loop, self))(x)
        return self.exact(x, mask, rule)

    def exact(self, x: jax.Array, mask: jax.Array | None = None, rule: str = "jvp") -> jax.Array:
        """The values for any data, with their derivatives; absent cells are -inf, and no others are."""
        present = present_cells(mask, self.window, x.ndim)
        count = None if present is None else present.astype(x.dtype)
        return variances(x, mask, count, self.window, self.correction, self.root, rule)

    def moderate(self, x: jax.Array) -> jax.Array:
        """The values by one loop for each part, NaN where differences are not moderate."""
        first, *others = self._parts()
        *_, variance = reduce(_merge, others, _merge((x,), first))
        number = jnp.asarray(self.window.counts(x.ndim, padding=False), x.dtype)
        value = variance * corrected_share(number, self.correction)
        return jnp.sqrt(value) if self.root else value

    def _parts(self) -> tuple[Window, ...]:
        """The windows to take one after the other; none if they are not taken by loops."""
        window = self.window
        few = window.is_single or window.cells <= _FEWEST
        if few or window.has_bins or window.has_footprint or None in map(_place_in_all, window.axes):
            return ()
        at_once = window.cells <= (_MOST_IN_LOOP if window.tiles else _MOST_SHARED)
        parts = (window,) if at_once else window.split()[::-1]
        return parts if all(part.cells <= _MOST_IN_LOOP for part in parts) else ()


@custom_rule((0,))
def _by_one_loop(pool: Variances, x: jax.Array) -> jax.Array:
    """The values by loops if all are moderate, else the exact ones."""

    def pool_on_platform(x: jax.Array) -> jax.Array:
        if known_platform() != "cpu" or not lowered_for_one_device():
            return pool.exact(x)
        values = materialize(pool.moderate(x))
        exact = partial(in_slabs, pool.exact, pool.window)
        return if_all(values == values, lambda _, values: values, lambda x, _: exact(x), x, values)

    like = jax.ShapeDtypeStruct(pool.window.output_shape(x.shape), x.dtype)
    return on_every_platform(pool_on_platform, x, like=like)


@_by_one_loop.defjvp
def _by_one_loop_jvp(pool: Variances, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    values = _by_one_loop(pool, *primals)
    return values, apply_linear_map(_Derivative(pool), *tangents, *primals, like=values)


@dataclass(frozen=True)
class _Derivative(LinearMap):
    """That of the exact variances, which are linearised again, in slabs on a CPU: all at once they fill much memory."""

    pool: Variances

    residuals_vary = True

    def forward(self, x_dot: jax.Array, x: jax.Array, /) -> jax.Array:
        def push_exact(x: jax.Array, x_dot: jax.Array) -> jax.Array:
            return jax.jvp(self.pool.exact, (x,), (x_dot,))[1]

        return in_slabs(push_exact, self.pool.window, x, x_dot, for_time=True)

    def transpose(self, values_bar: jax.Array, x: jax.Array, /) -> jax.Array:
        def pull_exact(x: jax.Array, values_bar: jax.Array) -> jax.Array:
            return jax.vjp(self.pool.exact, x)[1](values_bar)[0]

        return in_slabs(pull_exact, self.pool.window, x, values_bar, for_time=True)


def _place_in_all(axis: WindowAxis) -> int | None:
    """The number of a cell that is real in every window, the middle one if possible; None if there is none."""
    first = -(-axis.low // axis.dilation)
    last = min(axis.kernel, -((axis.start(axis.output - 1) - axis.size) // axis.dilation)) - 1
    return min(max(axis.kernel // 2, first), last) if first <= last else None


def _merge(state: Arrays, part: Window) -> Arrays:
    """C, R and V of every window, from the cells, and r and v if these are parts; V is NaN if it is not moderate."""
    padded = [pad_windows(array, part, fill) for array, fill in zip(state, (-np.inf, 0.0, 0.0), strict=False)]
    near = at_offset(padded[0], part, tuple(_place_in_all(axis) or 0 for axis in part.axes))
    number = jnp.asarray(materialize(part.counts(near.ndim, padding=False)), near.dtype)

    def gap_and_square(*given: jax.Array) -> Arrays:
        cell, *excess = given
        gap = sum(excess[:1], cell - near)
        gap = gap if part.is_full else jnp.where(cell == -jnp.inf, 0, gap)
        return gap, sum(excess[1:], gap * gap)

    terms = [gap_and_square(*(at_offset(array, part, offset) for array in padded)) for offset in offsets_in(part)]
    gaps, squares = zip(*terms, strict=True)
    largest = combine(lax.max, [jnp.abs(gap) for gap in gaps])
    mean, limits = combine(lax.add, gaps) / number, jnp.finfo(near.dtype)
    variance = jnp.maximum(combine(lax.add, squares) / number - mean * mean, 0)
    # Squares neither overflow, nor vanish beside the largest one.
    least = float(limits.tiny / limits.eps) ** 0.5
    is_moderate = (largest >= least) & (largest <= 1 / least) & (mean * mean <= 256 * variance)
    is_moderate |= largest == 0
    return near, materialize(mean), materialize(jnp.where(is_moderate, variance, jnp.nan))
