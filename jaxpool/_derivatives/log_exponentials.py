"""Logarithms of sums and means of exponentials: differences from a shift, the largest cell of a window.

A value m is kept as a pair of the shift c and its excess r = m - c; their sum is rounded once, at the end. These pairs
are the cells for the next axis. So the exponent β·(x - m) = β·((x - c) - r) of a weight has no rounding error on the
scale of m, which a large β would magnify.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._derivatives.exponentials import ExponentialPool, difference
from jaxpool._derivatives.in_turn import exponentials_order, extremes_with_zeros
from jaxpool._derivatives.pairs import Filled
from jaxpool._derivatives.parametric import Cells, Parameter, ParametricPool, parametric_pool
from jaxpool._engine.operations import Arrays, accumulation_dtype
from jaxpool._engine.platforms import is_portable
from jaxpool._engine.stages import materialize
from jaxpool._engine.window_offsets import present_cells
from jaxpool._geometry.window import Window


@dataclass(frozen=True)
class LogExponentials(ExponentialPool, ParametricPool):
    """A family with weights exp(β·(x - y)), whose values are excesses over the largest cells, exact in `dtype`.

    Excesses, which are of the size of 1/β, are normal numbers.
    """

    kept = 1
    largest_beta = 2.0**-28

    @property
    def in_turn(self) -> tuple[Window, ...]:
        return exponentials_order(self.window)

    def pool_present(self, x: jax.Array, mask: jax.Array | None, beta: jax.Array | None, rule: str) -> jax.Array:
        cells = x if mask is None else jnp.where(mask, x, -jnp.inf)
        present = present_cells(mask, self.window, x.ndim) if self.is_mean else None
        return parametric_pool(cells, beta, self, rule, None if present is None else present.astype(x.dtype))

    @property
    def shift_dtype(self) -> np.dtype:
        return self.dtype

    def shift(self, cells: Cells, part: Window) -> jax.Array:
        # Constant under differentiation, as values do not depend on it.
        largest = extremes_with_zeros(lax.stop_gradient(cells[-1]), part, lax.max)
        return materialize(largest.astype(self.dtype))

    def fill_cells(self, cells: Cells, window: Window) -> list[Filled]:
        """Padded cells are absent or zeros."""
        return [*((excess, 0.0) for excess in cells[:-1]), (cells[-1], 0.0 if window.zeros else -math.inf)]

    def fill_windows(self, windows: Arrays) -> list[Filled]:
        return list(zip(windows, (0.0, math.inf, 1.0), strict=False))

    def weight(self, cells: Arrays, outputs: Arrays, parameter: Parameter) -> jax.Array:
        gap, dead = gap_to_value(cells, outputs)
        return jnp.where(dead, 0, jnp.exp(parameter * gap))


def gap_to_shift(cells: Cells, shift: jax.Array) -> jax.Array:
    """The distances of cells from the shift of a window that holds them; 0 for an infinite cell that is the largest."""
    near, shift = _wide(cells[-1]), _wide(shift)
    same = (near == shift) & jnp.isinf(near) if is_portable() else near == shift
    gap = jnp.where(same, 0, near - shift)
    return gap + cells[0] if len(cells) > 1 else gap


def gap_to_value(cells: Cells, value: Cells) -> tuple[jax.Array, jax.Array]:
    """The distances of cells from the value of a window, which need not hold them, and which cells have no weight.

    Infinite cells, and cells of windows with an infinite value, have no weight; they are replaced by 0 here.
    """
    excess, shift = value[0], _wide(value[1])
    near = _wide(cells[-1])
    dead = jnp.isinf(near) | jnp.isinf(shift)
    gap = difference(jnp.where(dead, 0, near), jnp.where(dead, 0, shift), True)
    if len(cells) > 1:
        gap += cells[0]
    return gap - excess, dead


def _wide(array: jax.Array) -> jax.Array:
    return array.astype(accumulation_dtype(array.dtype))
