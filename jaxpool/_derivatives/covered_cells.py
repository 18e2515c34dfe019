"""Cells that no window holds, after the last window or in gaps: they affect neither values nor derivatives.

The backward pass of a weighted pool reaches all cells. The weight of a cell that no window holds is multiplied by 0,
but the weight of a NaN is NaN.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jaxpool._engine import primitives
from jaxpool._engine.linear_maps import LinearMap, apply_linear_map
from jaxpool._geometry.window import Window


def without_uncovered(x: jax.Array, window: Window, *, learnt: bool) -> jax.Array:
    """The array, with cotangent 0 for cells that no window holds; if a number is learnt, these cells are also 0.

    The cotangent of the number is a sum over all windows along the first axes, even those that no window along the next
    axes holds.
    """
    if all(axis.covered().all() for axis in window.axes):
        return x
    if learnt or not primitives.available():
        return _zero_uncovered(x, window)
    return apply_linear_map(_PassBackToCovered(window), x)


def _zero_uncovered(x: jax.Array, window: Window) -> jax.Array:
    for axis in window.axes:
        x = jnp.where(axis.along(axis.covered(), x.ndim), x, jnp.zeros_like(x))
    return x


@dataclass(frozen=True)
class _PassBackToCovered(LinearMap):
    """The identity, as uncovered cells change no value; its transpose sets their cotangents to 0.

    In a program of one loop, setting the cells to 0 would be repeated for every window that reads a cell.
    """

    window: Window

    def forward(self, x: jax.Array, /) -> jax.Array:
        return x

    def transpose(self, cotangent: jax.Array, /) -> jax.Array:
        return _zero_uncovered(cotangent, self.window)
