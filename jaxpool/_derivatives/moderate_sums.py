"""Values from plain sums over the windows if these are moderate, and exact values if they are not.

A sum of powers or exponentials may overflow, or lose the cells that matter. If the sums of all windows are moderate,
neither has happened. This is decided at run time, once for a whole array: on a CPU, where memory traffic does not hide
arithmetic, and on one device, since several would have to agree.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

from jaxpool._engine.blocks import fold
from jaxpool._engine.cpu.choose import keeps_terms
from jaxpool._engine.maps import reduce_windows
from jaxpool._engine.stages import as_call, in_one_row, materialize
from jaxpool._geometry.window import Window

# In bytes: larger arrays are pooled exactly by halves, which needs hardly more memory at a time than the sums.
_LARGE = 2**22


Terms = tuple[jax.Array, ...]


def sums_of_terms(terms: Callable[[jax.Array], Terms], x: jax.Array, window: Window) -> Terms:
    """The sums over the windows of terms, elementwise functions of the cells; padding adds 0."""
    # Read twice: to judge them, and for the values.
    return tuple(materialize(reduce_windows(each, window, lax.add)) for each in terms_of_cells(terms, x, window))


def terms_of_cells(terms: Callable[[jax.Array], Terms], x: jax.Array, window: Window) -> Terms:
    """The terms of all cells, in memory if that is faster than to evaluate them in the loop that sums them."""
    return tuple(map(materialize, in_one_row(terms, x))) if keeps_terms(window, x.shape) else terms(x)


def unless_moderate(
    moderate: jax.Array, by_sums: Any, exact: Callable[..., Any], window: Window, *arrays: jax.Array
) -> Any:
    """The results `by_sums` if all sums are moderate, else `exact(*arrays)`, by halves if the arrays are large.

    The exact pool is a loop that runs or does not, since the compiler gives the branches of a condition a single
    thread. Its memory is reserved in advance. It depends on the loop counter: otherwise it would be moved out of the
    loop and always evaluated. It is one call: otherwise its masks would be moved out, and then read from memory.
    """
    rows = len(arrays[0])
    halves = arrays[0].nbytes > _LARGE and rows % 2 == 0 and 0 not in window.pooled_axes

    def exact_part(number: jax.Array, results: Any) -> Any:
        if not halves:
            return as_call(exact, *(materialize(array, number) for array in arrays))
        start = number * (rows // 2)
        block = as_call(exact, *(lax.dynamic_slice_in_dim(array, start, rows // 2) for array in arrays))
        return jax.tree.map(partial(lax.dynamic_update_slice_in_dim, start_index=start, axis=0), results, block)

    return lax.fori_loop(0, jnp.where(jnp.all(moderate), 0, 1 + halves), exact_part, by_sums)


def zeros_unless_moderate(moderate: jax.Array, sums: Terms) -> Terms:
    """The sums if all of them are moderate, else zeros: sums that are infinite or NaN would look like mistakes."""
    return lax.fori_loop(0, jnp.where(moderate, 0, 1), lambda _, sums: jax.tree.map(jnp.zeros_like, sums), sums)


@custom_vmap
def all_moderate(moderate: jax.Array) -> jax.Array:
    """Whether all entries are true: one answer for a whole batch, which then takes one branch."""
    if not (isinstance(moderate.size, int) and moderate.size):
        return jnp.all(moderate)
    # Half the time of the compiler's own reduction of booleans.
    return fold(materialize(moderate.reshape(-1)), (0,), lax.bitwise_and)[0]


@all_moderate.def_vmap
def _all_in_batch(size: int, batched: Any, moderate: jax.Array) -> tuple[jax.Array, bool]:
    return all_moderate(moderate), False
