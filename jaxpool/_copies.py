"""Arrays that padding words extend by copies of their own cells: "WRAP", "REFLECT", "SYMMETRIC" and "EDGE".

The copies are real cells, so an axis with such a word becomes one without padding. Where a call gives such words, the
core of every function first extends its array and mask. Copying is linear. JAX derives the transpose of its tangent
map, which adds up the cotangents of the copies of each cell.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._derivatives.rules import custom_rule
from jaxpool._engine.bins_as_tiles import take
from jaxpool._engine.primitives import by_platform
from jaxpool._engine.stages import materialize
from jaxpool._sizes import copied_cells
from jaxpool._window import Window, WindowAxis


def extend(array: jax.Array, window: Window) -> jax.Array:
    """The array with the copies that the words of its axes ask for."""
    for axis in window.axes:
        if axis.extension is not None:
            array = _copy(array, axis)
    return array


@custom_rule((1,))
def _copy(array: jax.Array, axis: WindowAxis) -> jax.Array:
    """Extend the array along one axis; on GPUs by reading it cell by cell, which fuses with the consumer."""
    return by_platform(array, cpu=partial(_concatenate, axis=axis), gpu=partial(_read, axis=axis))


@_copy.defjvp
def _copy_jvp(axis: WindowAxis, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    # In stretches, whose transpose adds slices; the transpose of a gather would scatter.
    return _copy(*primals, axis), _concatenate(*tangents, axis=axis)


def _read(array: jax.Array, *, axis: WindowAxis) -> jax.Array:
    assert axis.extension is not None
    places = lax.iota(np.int32, axis.low + axis.size + axis.high) - axis.low
    return take(array, copied_cells(places, axis.size, axis.extension), axis.axis, 0, inside=True)


def _concatenate(array: jax.Array, *, axis: WindowAxis) -> jax.Array:
    assert axis.extension is not None
    ends = np.arange(-axis.low, 0), np.arange(axis.size, axis.size + axis.high)
    # The array is one operand: the transpose then adds narrow slices to a wide one, and pads no wide ones.
    before, after = (_stretches(array, axis.axis, copied_cells(each, axis.size, axis.extension)) for each in ends)
    array = lax.concatenate([*before, array, *after], axis.axis)
    # Otherwise every cell of every window would be looked up in the stretches again.
    return materialize(array) if jnp.issubdtype(array.dtype, jnp.inexact) else array


def _stretches(array: jax.Array, axis: int, cells: np.ndarray) -> Iterator[jax.Array]:
    """The cells with these numbers, in parts along which the number rises by 1, falls by 1 or stays."""
    while cells.size:
        steps = np.diff(cells)
        steady = (steps == steps[:1]) & (abs(steps) <= 1)
        length = 1 + int(np.argmin(np.append(steady, False)))
        first, last = int(cells[0]), int(cells[length - 1])
        part = lax.slice_in_dim(array, min(first, last), max(first, last) + 1, 1, axis)
        if first > last:
            part = lax.rev(part, (axis,))
        elif first == last:
            shape = list(array.shape)
            shape[axis] = length
            part = jnp.broadcast_to(part, shape)
        yield part
        cells = cells[length:]
