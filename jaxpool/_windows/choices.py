"""The maps that pools are made of, and the choice of what evaluates them on every platform.

x has any rank; a `Window` names the pooled axes, which go from `size` cells to `output` windows; all other axes are
batch axes. Padding changes no result. Among equal cells the first in row-major order wins, NaN over every number, and
the first NaN over later ones. Sums are kept in the dtype of the argument, which callers widen first unless a map says
that it does so. No map scatters, so results do not depend on the order in which a device works.

The choice is made while a program is lowered for a platform. A reduction over axes in turn costs the sum of the kernel
sizes per output, instead of their product. On a CPU the steps of a selection have to be kept apart; its thresholds are
measured. On GPUs loops are bound by memory bandwidth, and repeated reads come from a cache, about nine times as fast:
up to about fifty reads per result cost less than writing and reading one more array. TPUs have native windowed
operations, and do as GPUs do in all else.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._jax.linear_map import LinearMap
from jaxpool._jax.platforms import PORTABLE, default_platform, is_portable, known_platform, on_one_device
from jaxpool._jax.primitives import by_platform
from jaxpool._jax.stages import materialize, stage
from jaxpool._window import Window
from jaxpool._windows import select
from jaxpool._windows.cells import (
    MOST_COMBINED,
    MOST_UNROLLED,
    holds_all_cells,
    most_holders,
    present_cells,
    put_between,
    reduce_axes,
    slices_at_offsets,
)
from jaxpool._windows.operations import Operation, accumulation_dtype, divided, identity, if_all, reduction_dtype
from jaxpool._windows.reduce import (
    native_reduce_window,
    reduce_bins,
    reduce_blocks,
    reduce_by_reduce_window,
    reduce_by_slices,
    reduce_footprint,
    reduce_in_pieces,
    spread_bins,
    spread_by_windows,
)
from jaxpool._windows.select import Masked, Offsets, Winner, Winners

# The most reads per result in one loop on a GPU: windows of 7×7 cells.
MOST_READS = 49
# The most terms per result that are unrolled there.
MOST_TERMS = 16


def on_every_platform(step: Callable[..., Any], *arrays: Any, like: Any = None) -> Any:
    """Evaluate `step(*arrays)`, whose results are like `like`, in the lowering; it may ask for the platform."""
    return by_platform(*arrays, gpu=step, like=like)


# Reductions and their transposes.


def reduce_windows(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window by `lax.max`, `lax.min` or `lax.add`, without padding; sums of 16-bit floats are float32."""
    like = jax.ShapeDtypeStruct(window.output_shape(x.shape), reduction_dtype(op, x.dtype))
    steps = {"cpu": _reduce_on_cpu, "gpu": _reduce_on_gpu, PORTABLE: _reduce_anywhere}
    lowerings = {platform: partial(step, window=window, op=op) for platform, step in steps.items()}
    return by_platform(x, **lowerings, like=like)


def spread(cotangent: jax.Array, window: Window, divisor: float = 1.0) -> jax.Array:
    """Send each output's cotangent, divided by a number, to every cell of its window: a windowed sum's transpose."""
    return on_every_platform(partial(_spread, window=window, divisor=divisor), cotangent)


def _reduce_anywhere(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """By plain operations, for interpreters of programs that know no windowed ones."""
    x = x.astype(reduction_dtype(op, x.dtype))
    return reduce(lambda x, part: reduce_by_slices(x, part, op), window.split(), x)


def _reduce_on_cpu(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    x = x.astype(reduction_dtype(op, x.dtype))
    for number, part in enumerate((window,) if reduces_at_once(window, op) else window.split()[::-1]):
        if part.has_footprint:
            x = reduce_footprint(x, part, op)
        elif part.tiles:
            # A dozen slices of the cells of all windows at a time.
            x = materialize(x) if number else x
            x = reduce_blocks(x, part, op)
        elif folds_pieces(part):
            x = reduce_in_pieces(x, part, op)
        elif not reduces_by_slices(part, op):
            x = reduce_by_reduce_window(x, part, op)
        elif part.has_padding and not (on_one_device() and has_strides(part)):
            x = reduce_by_slices(x, part, op)
        else:
            # In memory, as what computes x would be evaluated for every slice.
            x = reduce(op, slices_at_offsets(materialize(x), part, identity(op, x.dtype)))
    return x


def _reduce_on_gpu(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    native = known_platform() == "tpu"
    for part in window.split()[::-1] if native and window.has_bins else order(window):
        # Between devices maxima may drop NaN.
        if native and slices_bins(part) and (op is lax.add or on_one_device()):
            x = reduce_bins(x, part, op)
            continue
        x = x.astype(reduction_dtype(op, x.dtype))
        if part.has_footprint:
            x = reduce_footprint(x, part, op)
        elif reduces_whole_axes(part):
            x = reduce_blocks(x, part, op, reduce_axes)
        elif takes_pieces(part) and not native:
            x = reduce_in_pieces(x, part, op)
        elif part.cells <= MOST_TERMS and not native:
            x = reduce_by_slices(x, part, op)
        else:
            # It is native on a TPU, and computes four results at once on a GPU.
            x = reduce_by_reduce_window(x, part, op)
    return x


def _spread(cotangent: jax.Array, window: Window, divisor: float) -> jax.Array:
    on_cpu, native = known_platform() == "cpu", known_platform() == "tpu" and not window.has_footprint
    if on_cpu:
        at_once = reduces_at_once(window, lax.add) or (window.tiles and not window.has_bins)
        parts = (window,) if at_once else window.split()
    else:
        parts = window.split() if native and window.has_bins else order(window)[::-1]
    # On a GPU, dividing the outputs, which are read many times, would be a separate kernel.
    divides_outputs = known_platform() in ("cpu", "tpu")
    cotangent = divided(cotangent, divisor) if divides_outputs else cotangent
    for part in parts:
        if native and slices_bins(part):
            cotangent = spread_bins(cotangent, part)
        elif part.has_bins or (part.cells == 1 or holds_all_cells(part) if native else adds_few_windows(part)):
            cotangent = spread_by_windows(cotangent, part)
        elif native:
            cotangent = native_reduce_window(cotangent, part.holders(), lax.add, [axis.stride for axis in part.axes])
        else:
            step = _reduce_on_cpu if on_cpu else _reduce_on_gpu
            cotangent = step(put_between(cotangent, part, 0), part.holders(), lax.add)
    return cotangent if divides_outputs else divided(cotangent, divisor)


def adds_few_windows(part: Window) -> bool:
    """Whether the windows that hold a cell are few enough to be added one by one, not as a sum over windows."""
    return not part.has_footprint and most_holders(part) <= MOST_TERMS


def reduces_at_once(window: Window, op: Operation) -> bool:
    """Whether a CPU reduces all axes at once: few cells, and a single window without gaps.

    Otherwise it takes one axis at a time, the first one first: with strides most cells are then reduced in long slices,
    and those along the innermost axis, where a stride fills no vectors, are fewer.
    """
    if window.has_bins:
        return False
    if window.tiles:
        return window.outputs == 1 or window.cells <= MOST_COMBINED
    # Padded maxima of 3×3 cells at stride 1 take 1.2 to 1.5 times as long at once.
    return window.cells <= (9 if op is lax.add or not window.has_padding or has_strides(window) else 8)


def reduces_by_slices(part: Window, op: Operation) -> bool:
    """Whether shifted slices reduce this window, instead of `lax.reduce_window`.

    Up to 16 cells they are faster, unless windows overlap along a single axis at a stride of 1. For maxima correctness
    decides: without overlap `lax.reduce_window` may drop NaN on the CPU, for 4096 elements and more.
    """
    if not part.overlap:
        return part.cells <= MOST_TERMS or op is not lax.add
    return part.cells <= MOST_TERMS and (has_strides(part) or len(part.axes) > 1)


def has_strides(window: Window) -> bool:
    """Whether windows move by more than a cell, along every axis."""
    return all(axis.stride > 1 for axis in window.axes)


def folds_pieces(part: Window) -> bool:
    """Whether a sum, or an extreme and its winner, comes from pieces of the window, instead of one cell at a time.

    All steps but the last are evaluated at every cell, whatever the stride, so this pays off only if windows overlap
    strongly; sums round less. Beyond 64 cells the program would otherwise be long and slow to compile.
    """
    return len(part.axes) == 1 and all(axis.kernel > min(64, max(16, 8 * axis.stride)) for axis in part.axes)


def slices_bins(part: Window) -> bool:
    """Whether a TPU slices bins one by one, up to 64 along an axis: copies of them take 2 to 6 times the cycles."""
    return part.has_bins and part.outputs <= MOST_UNROLLED


def order(window: Window) -> tuple[Window, ...]:
    """The windows that a GPU or a TPU applies one after the other, the last axes first."""
    return (window,) if window.cells <= MOST_READS or reduces_whole_axes(window) else window.split()


def reduces_whole_axes(window: Window) -> bool:
    """Whether windows are reduced as whole axes: large windows that share no cells."""
    return window.tiles and window.cells > MOST_READS and not window.has_bins


def takes_pieces(part: Window) -> bool:
    """Whether windows are assembled from pieces: beyond 64 cells along an axis, so that work grows logarithmically."""
    return len(part.axes) == 1 and part.cells > 64 and not (part.tiles or part.has_footprint)


# Selections, reading what they find, and routing to it.


def windows_in_turn(window: Window, shape: Sequence[int]) -> tuple[Window, ...]:
    """The windows that a selection takes in turn, the last axes first: a backward pass keeps offsets for each."""
    if is_portable() or window.cells > 2**32:
        # JAX has no wider offsets unless x64 is enabled.
        return window.split()
    return selection_order(window, shape) if default_platform() == "cpu" else order(window)


def first_winners(x: jax.Array, windows: Sequence[Window], op: Operation, masked: Masked | None = None) -> Winners:
    """The extreme of every window by `op`, and the offsets of the first cell that has it, in each window in turn.

    `masked` is a mask and its `first_present`: masked-out cells then never win, and an empty window has an unspecified
    value and an offset to which no cotangent is sent.
    """
    return on_every_platform(partial(_first_winners, windows=tuple(windows), op=op), x, masked)


def first_present(mask: jax.Array, windows: Sequence[Window]) -> tuple[jax.Array, Offsets]:
    """Which windows hold a cell of a mask, and the offsets of the first; without any, those of no cell."""

    def find(mask: jax.Array) -> tuple[jax.Array, Offsets]:
        nonempty, (*inner, first) = _first_winners(mask, None, windows, lax.max)
        none = select.no_offset(windows[-1])
        return nonempty, (*inner, jnp.where(nonempty, first.astype(none.dtype), none))

    return on_every_platform(find, mask)


def _first_winners(x: jax.Array, masked: Masked | None, windows: Sequence[Window], op: Operation) -> Winners:
    first = None
    if masked is not None:
        mask, first = masked
        x = jnp.where(mask, x, identity(op, x.dtype))
    recorded: list[jax.Array] = []
    for number, window in enumerate(windows):
        if recorded and known_platform() == "gpu":
            # These are separate kernels. Without this, one would write all cells of a window for the next.
            x, recorded[-1] = lax.optimization_barrier((x, recorded[-1]))
        x, offsets = _select(x, window, op)
        # Low padding and leading masked cells win only if no cell is better.
        if first is not None:
            offsets = jnp.maximum(offsets.astype(first[number].dtype), first[number])
        elif window.has_footprint and (present := present_cells(None, window, x.ndim)) is not None:
            _, real = _select(present, window, lax.max)
            offsets = jnp.maximum(offsets, real)
        elif any(axis.low for axis in window.axes):
            offsets = jnp.maximum(offsets, select.first_real_offsets(x.ndim, window, offsets.dtype))
        recorded.append(offsets)
    return x, tuple(recorded)


def route_to_winners(cotangent: jax.Array, offsets: Offsets, windows: Sequence[Window]) -> jax.Array:
    """Send each output's cotangent to its winner; 16-bit cotangents are added in float32 and rounded once."""

    def sent(cotangent: jax.Array, offsets: Offsets) -> jax.Array:
        dtype = cotangent.dtype
        for window, own in zip(reversed(windows), reversed(offsets), strict=True):
            cotangent = _route(cotangent, own, window)
        return cotangent.astype(dtype)

    return on_every_platform(sent, cotangent, offsets)


def _select(x: jax.Array, window: Window, op: Operation) -> Winner:
    platform = known_platform()
    if window.has_footprint and platform != PORTABLE:
        lowering = select.select_footprint
    elif platform == "cpu" and window.tiles and (window.has_bins or window.cells > 64 or window.outputs == 1):
        # Faster than strided slices for bins and a single window; beyond 64 cells it keeps the program short.
        lowering = select.select_by_blocks
    elif platform in ("gpu", "tpu") and reduces_whole_axes(window):
        lowering = select.select_by_axes
    else:
        in_pieces = platform != PORTABLE and (folds_pieces if platform == "cpu" else takes_pieces)(window)
        lowering = select.select_in_pieces if in_pieces else select.select_by_slices
    return stage(partial(lowering, window=window, op=op), x)


def _route(cotangent: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    if known_platform() == "cpu":
        # Widened once, not for every window that holds a cell.
        cotangent = cotangent.astype(accumulation_dtype(cotangent.dtype))
    if takes_pieces(window):
        return select.route_in_pieces(cotangent, offsets, window)
    # The offsets and the values sent to them are separate: the map is linear only in the latter.
    return stage(partial(select.add_to_chosen, window=window), [cotangent], [offsets])


def selection_order(window: Window, shape: Sequence[int]) -> tuple[Window, ...]:
    """The windows that a selection takes one after the other: all axes at once, or one at a time, the last one first.

    All at once is faster for up to 9 cells, without overlap for up to 64, and for a single window. With 6 channels last
    or more, it is 1.3 to 4 times as fast for windows of up to 27 cells that share few of them.
    """
    few = window.cells <= 9 or (window.tiles and (window.outputs == 1 or window.cells <= 64))
    share_few = window.cells <= min(27, 4 * math.prod(axis.stride for axis in window.axes))
    channels = shape[window.axes[-1].axis + 1 :]
    # A symbolic size may have any value.
    at_once = few or (share_few and not (all(isinstance(size, int) for size in channels) and math.prod(channels) < 6))
    return (window,) if window.has_footprint or (at_once and not window.has_bins) else window.split()


def read_at_offsets(x: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """The cell of every window at its row-major offset; 0 at the offset that no cell has."""
    return on_every_platform(lambda x, offsets: select.read_winners(x, (offsets,), (window,)), x, offsets)


def route_to_chosen(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array], window: Window) -> jax.Array:
    """For each of the chosen cells, send each window's cotangent to the cell at its offset; in the dtype of sums."""
    return on_every_platform(partial(select.add_to_chosen, window=window), list(cotangents), list(offsets))


@dataclass(frozen=True)
class ReadWinners(LinearMap):
    """Read the cell at each winner's offsets, as recorded for these windows; the transpose routes to it."""

    windows: tuple[Window, ...]

    def forward(self, x: jax.Array, offsets: Offsets, /) -> jax.Array:
        return on_every_platform(partial(select.read_winners, windows=self.windows), x, offsets)

    def transpose(self, cotangent: jax.Array, offsets: Offsets, /) -> jax.Array:
        return route_to_winners(cotangent, offsets, self.windows)


@dataclass(frozen=True)
class ReadChosen(LinearMap):
    """Read the cell of every window at its row-major offset; the transpose adds up in the accumulation dtype."""

    window: Window

    def forward(self, x: jax.Array, offsets: jax.Array, /) -> jax.Array:
        return read_at_offsets(x, offsets, self.window)

    def transpose(self, cotangent: jax.Array, offsets: jax.Array, /) -> jax.Array:
        return route_to_chosen([cotangent], [offsets], self.window).astype(cotangent.dtype)


def keeps_cells(window: Window, dtype: Any) -> bool:
    """Whether a selection keeps cells and routes by `select-and-scatter`, of all axes at once, without dilation."""
    return (
        dtype in (jnp.float32, jnp.bfloat16)
        and window.cells <= MOST_READS
        and not (window.has_bins or window.has_footprint)
        and all(axis.dilation == 1 for axis in window.axes)
    )


@dataclass(frozen=True)
class FindWinners(LinearMap):
    """Read the cell that wins by `op`, found again among the cells x; the residuals are x and the extremes."""

    window: Window
    op: Operation

    def forward(self, vector: jax.Array, x: jax.Array, _: jax.Array, /) -> jax.Array:
        _, offsets = first_winners(x, (self.window,), self.op)
        return ReadWinners((self.window,)).forward(vector, offsets)

    def transpose(self, cotangent: jax.Array, x: jax.Array, values: jax.Array, /) -> jax.Array:
        """Route to the winners; on a TPU by `select-and-scatter`, where that keeps the contract.

        It picks the first of equal cells, but the cell after a NaN in place of the NaN, and padding in place of a cell
        that is as low: not if any extreme is NaN or infinite. Where devices may share an axis, it would be wrong at the
        edges, unless windows overlap only their neighbours.
        """

        def exact(cotangent: jax.Array, x: jax.Array, _: jax.Array) -> jax.Array:
            _, offsets = first_winners(x, (self.window,), self.op)
            return route_to_winners(cotangent, offsets, (self.window,))

        def native(cotangent: jax.Array, x: jax.Array, _: jax.Array) -> jax.Array:
            wide = accumulation_dtype(x.dtype)
            _, pull_back = jax.vjp(partial(native_reduce_window, window=self.window, op=self.op), x.astype(wide))
            return pull_back(cotangent.astype(wide))[0].astype(cotangent.dtype)

        def on_tpu(cotangent: jax.Array, x: jax.Array, values: jax.Array) -> jax.Array:
            if not (on_one_device() or all(axis.extent < 2 * axis.stride for axis in self.window.axes)):
                return exact(cotangent, x, values)
            return if_all(jnp.isfinite(values), native, exact, cotangent, x, values)

        return by_platform(cotangent, x, values, gpu=exact, tpu=on_tpu)
