"""Maps of windows along a sharded axis, by parts of windows or, if there are none, by shards.

Sums and extremes of parts are combined by the same operation. A winner is the winner of the parts' winners. A cotangent
goes to the part that has its winner, and a cell is read by the part that has it: the others send and read nothing.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._engine.blocks import reduce_blocks
from jaxpool._engine.operations import Operation, identity
from jaxpool._engine.parts import Parts
from jaxpool._engine.platforms import known_platform
from jaxpool._engine.shards import Shards, by_shards
from jaxpool._geometry.bins import BinAxis
from jaxpool._geometry.window import Window, WindowAxis

Step = Callable[..., jax.Array]


def parts_of(window: Window) -> Parts | None:
    """The parts of the windows along the first pooled axis that is evaluated by parts, if there is one."""
    if known_platform() == "tpu":
        return None
    return next((Parts(axis) for axis in window.axes if _is_in_parts(axis)), None)


def _is_in_parts(along: WindowAxis) -> bool:
    if along.devices < 2 or along.output == 1:
        # A single window is folded on each device, and then over the devices.
        return False
    if isinstance(along, BinAxis):
        crosses = math.gcd(along.size, along.output) % along.devices > 0
    else:
        shards = Shards(along)
        crosses = along.stride >= along.extent == along.kernel and shards.cross and not shards.exchange
    return crosses and Parts(along).counts.sum() < along.size


def reduce_by_parts(step: Step, window: Window, x: jax.Array, op: Operation) -> jax.Array:
    """Evaluate `step(x, window)`, which reduces every window by `op`."""
    fill, parts = identity(op, x.dtype), parts_of(window)
    if parts is None:
        return by_shards(step, window, [(x, fill)])
    reduced = reduce_by_parts(step, parts.of_device(window), parts.split_cells(x, fill), op)
    return reduce_blocks(parts.join_windows(reduced, fill), Window((parts.together,)), op)


def select_by_parts(
    step: Callable[..., tuple[jax.Array, jax.Array]],
    window: Window,
    x: jax.Array,
    numbers: jax.Array | None,
    op: Operation,
) -> tuple[jax.Array, jax.Array]:
    """Evaluate `step(x, numbers, window)`, which selects a cell of every window by `op`.

    A window in parts has one axis.
    """
    fill, parts = identity(op, x.dtype), parts_of(window)
    if parts is None:
        return by_shards(step, window, [(x, fill), (numbers, 0)])
    dtype = np.min_scalar_type(window.cells - 1) if numbers is None else numbers.dtype
    inner = None if numbers is None else parts.split_cells(numbers, 0)
    values, found = step(parts.split_cells(x, fill), inner, parts.of_device(window))
    found = found.astype(np.int32) + parts.offsets(x.ndim).astype(np.int32)
    values, found = parts.join_windows(values, fill), parts.join_windows(found, 0)
    # The winner of the winners, without its place among them.
    places = np.int32(parts.together.kernel)
    values, found = step(values, found * places, Window((parts.together,)))
    return values, lax.div(found, places).astype(dtype)


def spread_by_parts(step: Step, window: Window, cotangent: jax.Array) -> jax.Array:
    """Evaluate `step(cotangent, window)`, which sends the cotangent of every window to all of its cells."""
    parts = parts_of(window)
    if parts is None:
        return by_shards(step, window, [], [(cotangent, 0)], to_cells=True)
    sent = spread_by_parts(step, parts.of_device(window), parts.split_windows(cotangent))
    return parts.join_cells(sent, lax.add)


def route_by_parts(step: Step, window: Window, array: jax.Array, offsets: jax.Array, op: Operation) -> jax.Array:
    """Evaluate `step(array, offsets, window)`, which sends an entry of every window to the cell at its offset.

    What a cell gets from several windows is combined by `op`.
    """
    parts = parts_of(window)
    if parts is None:
        return by_shards(step, window, [], [(array, 0), (offsets, 0)], to_cells=True)
    here = _offsets_in_parts(parts.split_windows(offsets), parts, window)
    sent = route_by_parts(step, parts.of_device(window), parts.split_windows(array), here, op)
    return parts.join_cells(sent, op)


def read_by_parts(step: Step, window: Window, x: jax.Array, offsets: jax.Array) -> jax.Array:
    """Evaluate `step(x, offsets, window)`, which reads the cell of every window at its offset; 0 if there is none."""
    parts = parts_of(window)
    if parts is None:
        return by_shards(step, window, [(x, 0)], [(offsets, 0)])
    here = _offsets_in_parts(parts.split_windows(offsets), parts, window)
    read = read_by_parts(step, parts.of_device(window), parts.split_cells(x, 0), here)
    return reduce_blocks(parts.join_windows(read, 0), Window((parts.together,)), lax.add)


def _offsets_in_parts(offsets: jax.Array, parts: Parts, window: Window) -> jax.Array:
    """Row-major offsets in windows as those in the parts, or the offset of no cell where another part has the cell."""
    behind = np.int32(math.prod(axis.kernel for axis in window.axes if axis.axis > parts.along.axis))
    none, cells = parts.of_device(window).cells, np.int32(parts.tiles.kernel)
    offsets = offsets.astype(np.int32)
    rows, inner = lax.div(offsets, behind), lax.rem(offsets, behind)
    outer, along = lax.div(rows, np.int32(parts.along.kernel)), lax.rem(rows, np.int32(parts.along.kernel))
    along -= parts.offsets(offsets.ndim - 1).astype(np.int32)
    here = (along >= 0) & (along < cells) & (offsets < window.cells)
    return jnp.where(here, (outer * cells + along) * behind + inner, none).astype(np.min_scalar_type(none))
