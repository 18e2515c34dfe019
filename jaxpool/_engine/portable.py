"""Reductions and selections of plain operations, for interpreters of programs that know no windowed ones.

JAX's own derivative of a maximum shares ties, and that of a windowed one scatters. Here a cell replaces another only if
it is strictly better, by comparisons and `select`: so the derivative of the program is that of the winner, and NaN is
kept. One axis is taken after the other, the last one first: the winner is the first in row-major order.
"""

import functools

import jax
from jax import lax

from jaxpool._engine.bins_as_tiles import as_tiles, copy_to_tiles
from jaxpool._engine.operations import Operation, identity
from jaxpool._engine.slices import replaces, select_by_slices
from jaxpool._engine.window_offsets import cells_at_offsets
from jaxpool._engine.winners import PlatformSelection
from jaxpool._engine.xla.select import SELECTION as ON_GPU
from jaxpool._geometry.window import Window

SELECTION = PlatformSelection(
    lambda window, _: window.split(),
    lambda x, numbers, part, op: select_by_slices(
        copy_to_tiles(x, part, identity(op, x.dtype)),
        None if numbers is None else copy_to_tiles(numbers, part, 0),
        as_tiles(part),
        op,
    ),
    ON_GPU.route,
)


def reduce_windows(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window of x by `op`, one of `lax.max`, `lax.min` and `lax.add`."""

    def best(first: jax.Array, later: jax.Array) -> jax.Array:
        return lax.select(replaces(first, later, op), later, first)

    for part in window.split():
        fill = identity(op, x.dtype)
        cells = cells_at_offsets(copy_to_tiles(x, part, fill), as_tiles(part), fill)
        x = functools.reduce(lax.add if op is lax.add else best, cells)
    return x
