"""Reductions and selections of plain operations, for interpreters of programs that know no windowed ones.

JAX's own derivative of a maximum shares ties, and that of a windowed one scatters. Here a cell replaces another only if
it is strictly better, by comparisons and `select`: so the derivative of the program is that of the winner, and NaN is
kept. One axis is taken after the other, the last one first: the winner is the first in row-major order.
"""

import functools

import jax
from jax import lax

from jaxpool._engine import gpu
from jaxpool._engine.operations import Operation, identity
from jaxpool._engine.slices import replaces, select_by_slices
from jaxpool._engine.window_offsets import cells_at_offsets
from jaxpool._engine.winners import PlatformSelection
from jaxpool._geometry.window import Window

SELECTION = PlatformSelection(
    lambda window, _: window.split(),
    select_by_slices,
    gpu.SELECTION.route,
)


def reduce_windows(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window of x by `op`, one of `lax.max`, `lax.min` and `lax.add`."""

    def best(first: jax.Array, later: jax.Array) -> jax.Array:
        return lax.select(replaces(first, later, op), later, first)

    for part in window.split():
        cells = cells_at_offsets(x, part, identity(op, x.dtype))
        x = functools.reduce(lax.add if op is lax.add else best, cells)
    return x
