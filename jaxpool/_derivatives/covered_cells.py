"""Cells that no window holds, after the last one or in gaps between them: they have no part in values or derivatives.

The way back of a weighted pool reaches all cells. Where no window holds one its weight is multiplied by 0, and the
weight of a NaN is NaN.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jaxpool._engine import primitives
from jaxpool._engine.linear_maps import LinearMap, apply_linear_map
from jaxpool._geometry.window import Window


def without_uncovered(x: jax.Array, window: Window, *, learnt: bool) -> jax.Array:
    """The array, whose cells that no window holds get a cotangent of 0; if a number is learnt they are 0, too.

    The cotangent of the number is a sum over windows of the first axes, some of which those of the next ones leave out.
    """
    if all(axis.covered().all() for axis in window.axes):
        return x
    if learnt or not primitives.AVAILABLE:
        return _zero_uncovered(x, window)
    return apply_linear_map(_PassBackToCovered(window), x)


def _zero_uncovered(x: jax.Array, window: Window) -> jax.Array:
    for axis in window.axes:
        x = jnp.where(axis.along(axis.covered(), x.ndim), x, jnp.zeros_like(x))
    return x


@dataclass(frozen=True)
class _PassBackToCovered(LinearMap):
    """The identity, as these cells change no value; its transpose puts the cotangents of cells outside windows to 0.

    In a program of one loop the choice would be made anew for every window that reads a cell.
    """

    window: Window

    def forward(self, x: jax.Array, /) -> jax.Array:
        return x

    def transpose(self, cotangent: jax.Array, /) -> jax.Array:
        return _zero_uncovered(cotangent, self.window)
