"""Winners: which cell of each window is chosen, where it is, and how cotangents are routed to it.

A selection takes windows in turn, the last axes first: the first winner of a window in row-major order is the winner of
the first row that has the best winner. Each of these windows records the row-major offset of the winner in it, in the
smallest unsigned dtype that numbers its cells: one byte per output up to 256 cells.

All windows that pick the same row share its winner, and so does the way back: cotangents go from the last of these
windows to the first, each along its own offsets.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import Operation, decode, encode, identity
from jaxpool._engine.slices import Winner, read_winners
from jaxpool._kernels import FootprintWindow
from jaxpool._platforms import known_platform
from jaxpool._sizes import copied_cells
from jaxpool._window import Window

# One array for each of the windows that are taken in turn.
Offsets = tuple[jax.Array, ...]
Winners = tuple[jax.Array, Offsets]
# A mask that broadcasts against the cells, and the offsets of the first cells that it holds; for an empty window the
# last of them is the offset of no cell.
Masked = tuple[jax.Array, Offsets]


def first_winners(
    x: jax.Array,
    masked: Masked | None,
    select: Callable[[jax.Array, Window, Operation], Winner],
    windows: Sequence[Window],
    op: Operation,
) -> Winners:
    """The extreme of every window by `op` (`lax.max` or `lax.min`), and the offsets of the first cell that has it.

    A mask restricts this to the cells that it holds; the value of an empty window is unspecified.
    """
    first = None
    if masked is not None:
        mask, first = masked
        x = jnp.where(mask, x, identity(op, x.dtype))
    recorded: list[jax.Array] = []
    for number, window in enumerate(windows):
        if recorded and known_platform() == "gpu":
            # These are separate kernels. Without this, one would write all cells of a window for the next.
            x, recorded[-1] = lax.optimization_barrier((x, recorded[-1]))
        x, offsets = select(x, window, op)
        # Low padding and leading masked cells win only if no cell is better.
        if first is not None:
            offsets = jnp.maximum(offsets.astype(first[number].dtype), first[number])
        elif _may_start_with_padding(window):
            offsets = jnp.maximum(offsets, first_real_offsets(x.ndim, window, offsets.dtype))
        recorded.append(offsets)
    return x, tuple(recorded)


def first_present(
    mask: jax.Array, select: Callable[..., Winner], windows: Sequence[Window]
) -> tuple[jax.Array, Offsets]:
    """Which windows hold a cell of a mask, and the offsets of the first, in the form that `first_winners` expects."""
    nonempty, (*inner, first) = first_winners(mask, None, select, windows, lax.max)
    none = no_offset(windows[-1])
    return nonempty, (*inner, jnp.where(nonempty, first.astype(none.dtype), none))


def no_offset(window: Window) -> Any:
    """An offset that no cell has."""
    return np.array(window.cells, np.min_scalar_type(window.cells))[()]


def route_to_winners(
    cotangent: jax.Array, offsets: Offsets, route: Callable[..., jax.Array], windows: Sequence[Window]
) -> jax.Array:
    """Send each output's cotangent to the cell at its winner's offsets, from the last window back to the first."""
    dtype = cotangent.dtype
    for window, own in zip(reversed(windows), reversed(offsets), strict=True):
        cotangent = route(cotangent, own, window)
    return cotangent.astype(dtype)


def _may_start_with_padding(window: Window) -> bool:
    """Whether a cell of padding may come before all real cells of a window, in row-major order."""
    return any(axis.low or (window.has_footprint and axis.overhang > 0) for axis in window.axes)


def first_real_offsets(rank: int, window: Window, dtype: np.dtype) -> jax.Array:
    """The offset of the first cell of every window that is not low padding, broadcastable against the output.

    With a footprint it is the first cell that is no padding at all, as the first one may be in the high padding.
    """
    if isinstance(window, FootprintWindow):
        return jnp.asarray(window.first_real_numbers(rank), dtype)
    # One for each axis, joined in the program, which need not read a table of them all.
    along = (jnp.asarray(axis.first_real_offsets(rank), dtype) for axis in window.axes)
    return encode(along, [axis.kernel for axis in window.axes[1:]])


def composed(*offsets: jax.Array, windows: Sequence[Window]) -> jax.Array:
    """The row-major offsets of winners among all cells, from those in windows that are taken in turn."""
    (numbers, *others), cells = offsets, windows[0].cells
    for window, own in zip(windows[1:], others, strict=True):
        inner = read_winners(numbers, (own,), (window,))
        numbers = encode((own, inner.astype(np.min_scalar_type(window.cells * cells - 1))), (cells,))
        cells *= window.cells
    return numbers


def winner_positions(offsets: jax.Array, window: Window) -> jax.Array:
    """The int32 row-major position of each winner, or of the cell it copies, among the cells of the pooled axes."""
    positions = []
    along = decode(offsets.astype(jnp.int32), [axis.kernel for axis in window.axes[1:]])
    for axis, offset in zip(window.axes, along, strict=True):
        position = offset * axis.dilation + axis.starts(offsets.ndim)
        if axis.extension is not None:
            position = copied_cells(position, axis.size, axis.extension)
        positions.append(position)
    return encode(positions, [axis.size for axis in window.axes[1:]])


def winners_like(x: jax.Array, windows: Sequence[Window], dtypes: Sequence[Any]) -> tuple[Any, Any]:
    """Shapes and dtypes of winners: their values, and the offsets of these dtypes in one window after the other."""
    shape, offsets = x.shape, []
    for window, dtype in zip(windows, dtypes, strict=True):
        shape = window.output_shape(shape)
        offsets.append(jax.ShapeDtypeStruct(shape, dtype))
    return jax.ShapeDtypeStruct(shape, x.dtype), tuple(offsets)
