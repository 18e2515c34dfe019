"""Values from plain sums over the windows if these are moderate, and exact values if they are not.

A sum of powers or exponentials may overflow, or lose the cells that matter. If the sums of all windows are moderate,
neither has happened. This is decided at run time, once for a whole array: on a CPU, where memory traffic does not hide
arithmetic, and on one device, since several would have to agree.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._engine.blocks import fold
from jaxpool._engine.maps import reduce_windows
from jaxpool._engine.operations import any_in_batch
from jaxpool._engine.stages import as_call, in_one_row, materialize
from jaxpool._engine.window_offsets import is_innermost
from jaxpool._geometry.window import Window

# Exact pools take an array in pieces of at least so many bytes: in up to 8, they hardly need more memory than the sums.
_LEAST_BYTES, _MOST_PIECES = 2**16, 8

Terms = tuple[jax.Array, ...]


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


def unless_moderate(
    moderate: jax.Array, by_sums: Any, exact: Callable[..., Any], window: Window, *arrays: jax.Array
) -> Any:
    """The results `by_sums` if all sums are moderate, else `exact(*arrays)`, one piece of the arrays after the other.

    The exact pool is a loop that runs or does not, since the compiler gives the branches of a condition a single
    thread. Its memory is reserved in advance, even if it does not run: hence the pieces. It depends on the loop
    counter: otherwise it would be moved out of the loop and always evaluated. It is one call: otherwise its masks would
    be moved out, and then read from memory.
    """
    counts = _pieces(arrays[0], window)
    pieces = math.prod(counts)

    def exact_part(number: jax.Array, results: Any) -> Any:
        if pieces == 1:
            return as_call(exact, *(materialize(array, number) for array in arrays))
        places = jnp.unravel_index(number, counts)

        def starts(array: jax.Array) -> list[jax.Array]:
            return [place * (size // count) for place, size, count in zip(places, array.shape, counts, strict=True)]

        def cut(array: jax.Array) -> jax.Array:
            sizes = [size // count for size, count in zip(array.shape, counts, strict=True)]
            return lax.dynamic_slice(array, starts(array), sizes)

        def put(result: jax.Array, piece: jax.Array) -> jax.Array:
            return lax.dynamic_update_slice(result, piece, starts(result))

        return jax.tree.map(put, results, as_call(exact, *map(cut, arrays)))

    return lax.fori_loop(0, jnp.where(any_in_batch(~jnp.all(moderate)), pieces, 0), exact_part, by_sums)


def _pieces(array: jax.Array, window: Window) -> tuple[int, ...]:
    """Into how many equal parts each axis is cut; not if it is pooled, and the last one into whole vectors only."""
    if not all(isinstance(size, int) for size in array.shape):
        return (1,) * array.ndim
    most, counts = min(_MOST_PIECES, array.nbytes // _LEAST_BYTES), []
    for axis, size in enumerate(array.shape):
        unit = 8 if axis == array.ndim - 1 else 1
        possible = [1] if axis in window.pooled_axes else range(1, most + 1)
        counts.append(max((count for count in possible if size % (count * unit) == 0), default=1))
        most //= counts[-1]
    return tuple(counts)


def zeros_unless_moderate(moderate: jax.Array, sums: Terms) -> Terms:
    """The sums if all of them are moderate, else zeros: sums that are infinite or NaN would look like mistakes."""
    return lax.fori_loop(0, jnp.where(moderate, 0, 1), lambda _, sums: jax.tree.map(jnp.zeros_like, sums), sums)


def all_moderate(moderate: jax.Array) -> jax.Array:
    """Whether all entries are true: one answer for a whole batch, which then takes one branch."""
    if isinstance(moderate.size, int) and moderate.size:
        # Half the time of the compiler's own reduction of booleans.
        moderate = fold(materialize(moderate.reshape(-1)), (0,), lax.bitwise_and)
    return ~any_in_batch(~moderate.all())
