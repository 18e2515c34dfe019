"""Winners: which cell of each window is chosen, where it is, and how cotangents are routed to it.

A winner is recorded as its row-major offset in the window, in the smallest unsigned dtype that numbers the cells: one
byte per output up to 256 cells. Windows are split into groups of axes, the last axes first, whose offsets are recorded
separately: the first winner of the window in row-major order is the winner of the first row that has the best winner.
Within a group a platform may take one axis after the other in the same way, or the first axis first: equal cells are
then compared by their offsets.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.operations import Operation, accumulation_dtype, identity
from jaxpool._engine.platforms import known_platform
from jaxpool._engine.slices import Winner
from jaxpool._geometry.sizes import copied_cells
from jaxpool._geometry.window import Window

# One array for each group of axes.
Offsets = tuple[jax.Array, ...]
Winners = tuple[jax.Array, Offsets]
# A mask that broadcasts against the cells, and the offsets of the first cells that it holds, in each group of axes; for
# an empty window the last group has the offset of no cell.
Masked = tuple[jax.Array, Offsets]


@dataclass(frozen=True)
class PlatformSelection:
    """How a platform selects and routes.

    Attributes:
        order: The parts that a group is split into for arrays of a shape, the last axes first or the first ones first.
        select: The extreme of every window, and its offset times a factor plus the offset already recorded for the
            cell; with `by_offset`, equal cells are compared by these offsets.
        route: What the windows send to the cells at their offsets, combined by a sum or a maximum.
    """

    order: Callable[[Window, Sequence[int]], tuple[Window, ...]]
    select: Callable[..., Winner]
    route: Callable[[jax.Array, jax.Array, Window, Operation], jax.Array]


def first_winners(
    x: jax.Array,
    masked: Masked | None,
    selection: PlatformSelection,
    groups: Sequence[Window],
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
    for number, group in enumerate(groups):
        if recorded and known_platform() == "gpu":
            # Groups are separate kernels. Without this, one would write all cells of a window for the next.
            x, recorded[-1] = lax.optimization_barrier((x, recorded[-1]))
        least = None if first is None else first[number]
        dtype = np.min_scalar_type(group.cells - 1) if least is None else least.dtype
        if least is None and any(axis.low for axis in group.axes):
            least = first_real_offsets(x.ndim, group, dtype)
        offsets, parts = None, selection.order(group, x.shape)
        for part in parts:
            select, place_value = selection.select, np.array(_place_value(part, group), dtype)[()]
            if offsets is not None and _starts_with_first_axis(parts, group):
                # The cells of a window are then not visited in row-major order.
                select = partial(select, by_offset=True)
            x, offsets = select(x, offsets, place_value, part, op)
        assert offsets is not None
        # Low padding and leading masked cells win only if no cell is better.
        recorded.append(offsets if least is None else jnp.maximum(offsets, least))
    return x, tuple(recorded)


def first_present(mask: jax.Array, selection: PlatformSelection, groups: Sequence[Window]) -> tuple[jax.Array, Offsets]:
    """Which windows hold a cell of a mask, and the offsets of the first, in the form that `first_winners` expects."""
    nonempty, (*inner, first) = first_winners(mask, None, selection, groups, lax.max)
    none = no_offset(groups[-1])
    return nonempty, (*inner, jnp.where(nonempty, first.astype(none.dtype), none))


def has_winner(offsets: Offsets, groups: Sequence[Window]) -> jax.Array:
    """Whether the offsets are those of a cell."""
    return offsets[-1] != no_offset(groups[-1])


def no_offset(group: Window) -> Any:
    """An offset that no cell has."""
    return np.array(group.cells, np.min_scalar_type(group.cells))[()]


def route_to_winners(
    cotangent: jax.Array, offsets: Sequence[jax.Array], selection: PlatformSelection, groups: Sequence[Window]
) -> jax.Array:
    """Send each output's cotangent to the cell at its winner's offsets, in one group of axes after the other."""
    dtype = cotangent.dtype
    cotangent = cotangent.astype(accumulation_dtype(dtype))
    for group, group_offsets in zip(reversed(groups), reversed(offsets), strict=True):
        cotangent = _route_in_group(cotangent, group_offsets, selection, group)
    return cotangent.astype(dtype)


def send_to_winners(
    cotangent: jax.Array, x: jax.Array, _: Any = None, *, selection: PlatformSelection, window: Window, op: Operation
) -> jax.Array:
    """Send each output's cotangent to its winner, found again among the cells x; the extremes are not needed."""
    _, offsets = first_winners(x, None, selection, (window,), op)
    return route_to_winners(cotangent, offsets, selection, (window,))


def _route_in_group(cotangent: jax.Array, offsets: jax.Array, selection: PlatformSelection, group: Window) -> jax.Array:
    """Undo the offsets of a group one part at a time, in the opposite order of its selection.

    Dividing an offset by the number of cells along the inner axes gives the row of the window, and the remainder is the
    winner's offset in that row. All outputs that picked the same row at the same inner position share its winner, and
    so agree on the remainder. The maximum over them, or 0 if there are none, carries it to the next axis. In the same
    way all outputs that picked the same column agree on the row.
    """
    inner_cells = group.cells
    parts = selection.order(group, cotangent.shape)
    rows_last = _starts_with_first_axis(parts, group)
    *outer_parts, last_part = parts[::-1]
    for part in outer_parts:
        inner_cells //= part.cells
        divisor = np.array(part.cells if rows_last else inner_cells, offsets.dtype)[()]
        row, rest = lax.div(offsets, divisor), lax.rem(offsets, divisor)
        here, rest = (rest, row) if rows_last else (row, rest)
        cotangent = selection.route(cotangent, here, part, lax.add)
        offsets = selection.route(rest, here, part, lax.max)
    return selection.route(cotangent, offsets, last_part, lax.add)


def _starts_with_first_axis(parts: Sequence[Window], group: Window) -> bool:
    return len(parts) > 1 and parts[0].axes[0] == group.axes[0]


def _place_value(part: Window, group: Window) -> int:
    """The cells of a group along the axes behind a part."""
    return math.prod(axis.kernel for axis in group.axes[group.axes.index(part.axes[-1]) + 1 :])


def first_real_offsets(rank: int, window: Window, dtype: np.dtype) -> jax.Array:
    """The offset of the first cell of every window that is not low padding, broadcastable against the output."""
    total, place_value = jnp.zeros([1] * rank, dtype), window.cells
    for axis in window.axes:
        place_value //= axis.kernel
        total += axis.along((axis.first_real_offsets() * place_value).astype(dtype), rank)
    return total


def winner_positions(offsets: jax.Array, window: Window) -> jax.Array:
    """The int32 row-major position of each winner, or of the cell it copies, among the cells of the pooled axes."""
    positions, place_value = jnp.zeros(offsets.shape, jnp.int32), window.cells
    offsets = offsets.astype(jnp.int32)
    for axis in window.axes:
        place_value //= axis.kernel
        offset = lax.rem(lax.div(offsets, np.int32(place_value)), np.int32(axis.kernel))
        position = offset * axis.dilation + axis.along(axis.starts.astype(np.int32), offsets.ndim)
        if window.extension is not None:
            position = copied_cells(position, axis.size, window.extension)
        positions = positions * axis.size + position
    return positions


def winners_like(x: jax.Array, groups: Sequence[Window], dtypes: Sequence[Any]) -> tuple[Any, Any]:
    """Shapes and dtypes of winners: their values, and the offsets of these dtypes in one group after the other."""
    shape, offsets = x.shape, []
    for group, dtype in zip(groups, dtypes, strict=True):
        shape = group.output_shape(shape)
        offsets.append(jax.ShapeDtypeStruct(shape, dtype))
    return jax.ShapeDtypeStruct(shape, x.dtype), tuple(offsets)
