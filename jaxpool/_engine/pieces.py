"""Long windows along one axis taken over pieces: log(kernel) steps instead of one per cell, to the windows and back.

Cells make short pieces, these make longer ones, and a few of each make a window: `_geometry/pieces` divides windows so.
Every step combines its pieces pairwise, so the rounding error of a sum grows with log2(kernel). The transpose of a sum
is itself a windowed sum. On the way back from a window to its winner every step finds the piece that holds it.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.gather import Covered, gather_windows
from jaxpool._engine.operations import Arrays, Operation, combine, identity, merge_axis, reduction_dtype
from jaxpool._engine.reductions import spread_by_windows
from jaxpool._engine.slices import Numbers, Winner, better, number_dtype, pad_winners, route_by_comparison
from jaxpool._engine.stages import stage
from jaxpool._engine.window_offsets import cells_at_offsets, pad_windows
from jaxpool._geometry.pieces import Pieces, divide_window
from jaxpool._window import Window, WindowAxis

# Makes one piece of several, from the number of the first cell of each, and what is known of it for all windows.
Join = Callable[[Sequence[tuple[int, Arrays]]], Arrays]


def reduce_in_pieces(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Combine the cells of every window by `op`, in pairs of pieces."""
    padded = pad_windows(x, window, identity(op, x.dtype))
    (result,) = _join_pieces(partial(join_cells, op=op), (padded,), window)
    return result


def select_in_pieces(x: jax.Array, numbers: Numbers, part: Window, op: Operation) -> Winner:
    """Take the best of the winners of the pieces."""
    padded, added = pad_winners(x, numbers, part, op)
    if added is None:
        added = jnp.zeros_like(padded, number_dtype(numbers, part))
    join = partial(join_winners, op=op, by_number=numbers is not None)
    values, winners = _join_pieces(join, (padded, added), part)
    return values, winners


def join_cells(pieces: Sequence[tuple[int, Arrays]], op: Operation) -> Arrays:
    return (combine(op, [cells for _, (cells,) in pieces]),)


def join_winners(pieces: Sequence[tuple[int, Arrays]], op: Operation, by_number: bool) -> Arrays:
    winners = [(values, within + np.array(start, within.dtype)[()]) for start, (values, within) in pieces]
    return reduce(partial(better, op=op, by_number=by_number), winners)


def _join_pieces(join: Join, padded: Arrays, window: Window) -> Arrays:
    """Combine the cells of every window by `join`, in steps."""
    (axis,) = window.axes
    division = divide_window(Window((replace(axis, size=padded[0].shape[axis.axis], low=0, high=0),)))

    def joined(*sources: Arrays, groups: Sequence[Pieces]) -> Arrays:
        pieces = []
        for group, arrays in zip(groups, sources, strict=True):
            reached = (lax.slice_in_dim(array, group.first, group.end, 1, axis.axis) for array in arrays)
            of_windows = zip(*(cells_at_offsets(array, group.window, 0) for array in reached), strict=True)
            pieces += [(group.start + number * group.width, known) for number, known in enumerate(of_windows)]
        return join(pieces)

    kinds = [padded]
    for pieces in division.kinds:
        kinds.append(stage(partial(joined, groups=(pieces,)), kinds[pieces.kind]))
    return stage(partial(joined, groups=division.groups), *(kinds[pieces.kind] for pieces in division.groups))


def spread_in_pieces(cotangent: jax.Array, part: Window) -> jax.Array:
    """For every cell, add the windows that hold it, in pieces.

    A window of kernel = blocks·stride + rest cells consists of `blocks` blocks of `stride` cells, and a rest. Block b
    of window o is block o + b·dilation of the axis. So the cells of a block get a windowed sum of the cotangents, and
    those of the rests get theirs as from separate windows.
    """
    (axis,) = part.axes
    blocks, rest = divmod(axis.kernel, axis.stride)
    if not blocks:
        return spread_by_windows(cotangent, part)
    reach = (blocks - 1) * axis.dilation
    windows = WindowAxis(axis.axis, axis.output, blocks, 1, axis.dilation, reach, reach, axis.output + reach)
    sums = reduce_in_pieces(cotangent, Window((windows,)), lax.add)
    result = spread_by_windows(sums, Window((replace(axis, kernel=axis.stride, output=axis.output + reach),)))
    if rest:
        last = replace(axis, kernel=rest, low=axis.low - blocks * axis.stride * axis.dilation)
        result += spread_by_windows(cotangent, Window((last,)))
    return result


def route_in_pieces(array: jax.Array, offsets: jax.Array, part: Window, op: Operation) -> jax.Array:
    """Send each window's entry to the cell at its offset: first to the piece that holds it, then to a piece of that.

    Several windows share a piece. Those with their winner in it agree on which of its cells that is, so one offset per
    piece is enough. Here pieces start at every cell, and the last one in a window may overlap the one before: if it
    reached beyond the window, other windows could have a better cell of it.
    """
    (axis,) = part.axes
    array = array.astype(reduction_dtype(op, array.dtype))
    if axis.stride > 1:
        array, offsets = (_interleave_zeros(each, axis.axis, axis.stride) for each in (array, offsets))
    kernel = axis.kernel
    # Up to 8 pieces per step cost less than two, as every step reads and writes whole arrays.
    count = next(count for count in itertools.count(1) if 8**count >= kernel)
    most = next(most for most in itertools.count(2) if most**count >= kernel)
    while kernel > most:
        width = -(-kernel // most)
        starts = [min(start, kernel - width) for start in range(0, kernel, width)]
        # The offsets and the values sent to them are separate stages: the map is linear only in the latter.
        route = partial(route_to_pieces, starts=starts, width=width, axis=axis)
        array, offsets = stage(partial(route, op=op), offsets, array), stage(partial(route, op=lax.max), offsets)
        kernel = width
    cells = replace(axis, kernel=kernel, stride=1, output=array.shape[axis.axis])
    return stage(partial(route_by_comparison, part=Window((cells,)), op=op), [array], [offsets])


def route_to_pieces(
    *arrays: jax.Array, starts: Sequence[int], width: int, axis: WindowAxis, op: Operation
) -> jax.Array:
    """The entries of the windows with their winner in a piece, or else the winner's offset in the piece; 0 in others.

    The offsets of winners come before the entries. Windows start at every cell along the axis; their pieces have this
    width, and these starts in the window, whose last cell is that of the last piece.
    """
    output = arrays[0].shape[axis.axis]
    size, kernel = output + starts[-1] * axis.dilation, starts[-1] + width
    windows = Window((replace(axis, size=size, kernel=kernel, stride=1, low=0, output=output),))

    def contribution(start: Any, _: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
        offset, *entry = windows
        number = partial(np.full, (), dtype=offset.dtype)
        # A cell in the last two pieces counts as one of the first of them.
        low = -(-start // width) * width
        chosen = offset >= number(low)
        if start < starts[-1]:
            chosen &= offset < number(low + width)
        sent = entry[0] if entry else offset - number(start)
        return jnp.where(chosen, sent, jnp.zeros_like(sent))

    return gather_windows(contribution, [(each, 0) for each in arrays], windows, combine=op, offsets=starts)


def _interleave_zeros(array: jax.Array, axis: int, stride: int) -> jax.Array:
    """Put stride - 1 zeros between the entries of an axis."""
    shape = [1] * (array.ndim + 1)
    shape[axis + 1] = stride
    first = lax.broadcasted_iota(np.int32, shape, axis + 1) == 0
    spaced = jnp.where(first, jnp.expand_dims(array, axis + 1), np.array(0, array.dtype)[()])
    return lax.slice_in_dim(merge_axis(spaced, axis), 0, (array.shape[axis] - 1) * stride + 1, 1, axis)
