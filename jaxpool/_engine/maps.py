"""The entry points of the engine: the maps that pools are made of, each with its contract on every platform.

Shapes. x has any rank; a `Window` names the pooled axes, which go from `size` cells to `output` windows; all other axes
are batch axes. Padding: cells beyond the array change no result; where a map needs a value for them, it is `fill`.
Ties: among equal cells the first in row-major order wins. NaN: it wins over every number, and the first NaN over later
ones; it reaches the windows that hold it and no others. Rounding: sums are kept in the dtype of the argument, which
callers widen first unless an entry point says that it does so; the error grows with the logarithm of the window along
axes where it has more than 64 cells. No map scatters, so results do not depend on the order in which a device works.

An entry point is the same for all platforms, or it has a lowering in `cpu` and one in `gpu`, for GPUs and for TPUs
without a lowering of their own. `by_platform` puts the choice into the traced program. Inside a lowering an entry point
is a plain call.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxpool._derivatives.rules import LinearMap
from jaxpool._engine import cpu, gpu, loops, reductions, slices, tpu, winners
from jaxpool._engine.operations import Operation, divided, reduction_dtype
from jaxpool._engine.primitives import by_platform
from jaxpool._engine.reductions import Weights
from jaxpool._engine.stages import stage
from jaxpool._engine.winners import Masked, Offsets, Winners
from jaxpool._platforms import PORTABLE
from jaxpool._window import Window

# What platforms do differently. TPUs do as GPUs do if nothing else is said.
_REDUCTIONS = {
    "cpu": cpu.reduce_windows,
    "gpu": gpu.reduce_windows,
    "tpu": tpu.reduce_windows,
    PORTABLE: slices.reduce_by_comparison,
}
_SELECTIONS = {"cpu": cpu.select, "gpu": gpu.select, PORTABLE: slices.select_by_slices}
_ROUTES = {"cpu": cpu.route, "gpu": gpu.route}
# One axis after the other takes fewer cycles on TPUs, and less time on CPUs.
_CORRELATION_ORDERS = {"cpu": Window.split, "gpu": gpu.correlation_order, "tpu": Window.split}


def reduce_windows(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window of x by `op`, one of `lax.max`, `lax.min` and `lax.add`; padded cells change nothing.

    Sums of 16-bit floats are float32.
    """
    like = jax.ShapeDtypeStruct(window.output_shape(x.shape), reduction_dtype(op, x.dtype))
    lowerings = {platform: partial(lowering, window=window, op=op) for platform, lowering in _REDUCTIONS.items()}
    return by_platform(x, **lowerings, like=like)


def spread(cotangent: jax.Array, window: Window, divisor: float = 1.0) -> jax.Array:
    """Send each output's cotangent, divided by a number, to every cell of its window: a windowed sum's transpose."""

    def sent(
        cotangent: jax.Array, lowering: Callable[[jax.Array, Window], jax.Array], first: float, last: float
    ) -> jax.Array:
        return divided(lowering(divided(cotangent, first), window), last)

    # On GPUs, dividing the outputs first, which are read many times, would be a separate kernel.
    on_gpu = partial(sent, lowering=gpu.spread, first=1.0, last=divisor)
    on_cpu, on_tpu = (partial(sent, lowering=each.spread, first=divisor, last=1.0) for each in (cpu, tpu))
    return by_platform(cotangent, cpu=on_cpu, gpu=on_gpu, tpu=on_tpu)


def first_winners(x: jax.Array, windows: Sequence[Window], op: Operation, masked: Masked | None = None) -> Winners:
    """The extreme of every window by `op` (`lax.max` or `lax.min`), and the offsets of the first cell that has it.

    The windows are taken in turn, and each has row-major offsets of its own: see `winners`. `masked` is a mask
    and its `first_present`: masked-out cells then never win, and an empty window has an unspecified value and an
    offset to which no cotangent is sent.
    """
    lowerings = _on_each(partial(winners.first_winners, windows=tuple(windows), op=op), select=_SELECTIONS)
    on_gpu = partial(gpu.first_winners, windows=tuple(windows), op=op)
    dtypes = [np.min_scalar_type(window.cells - 1) for window in windows]
    like = winners.winners_like(x, windows, dtypes if masked is None else [first.dtype for first in masked[1]])
    return by_platform(x, masked, **(lowerings | {"gpu": on_gpu, "tpu": lowerings["gpu"]}), like=like)


def first_present(mask: jax.Array, windows: Sequence[Window]) -> tuple[jax.Array, Offsets]:
    """Which windows hold a cell of a mask, and the offsets of the first; without any, those of no cell."""
    find = partial(winners.first_present, windows=tuple(windows))
    dtypes = [np.min_scalar_type(window.cells - (window != windows[-1])) for window in windows]
    return by_platform(mask, **_on_each(find, select=_SELECTIONS), like=winners.winners_like(mask, windows, dtypes))


def route_to_winners(cotangent: jax.Array, offsets: Offsets, windows: Sequence[Window]) -> jax.Array:
    """Send each output's cotangent to the cell at its winner's offsets, as recorded for the same windows.

    16-bit cotangents are added in float32 and rounded once.
    """
    route = partial(winners.route_to_winners, windows=tuple(windows))
    return by_platform(cotangent, offsets, **_on_each(route, route=_ROUTES))


@dataclass(frozen=True)
class ReadWinners(LinearMap):
    """Read the cell at each winner's offsets, as recorded for these windows; the transpose routes to it."""

    windows: tuple[Window, ...]

    def forward(self, x: jax.Array, offsets: Offsets, /) -> jax.Array:
        return on_every_platform(partial(slices.read_winners, windows=self.windows), x, offsets)

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


@dataclass(frozen=True)
class FindWinners(LinearMap):
    """Read the cell that wins by `op`, found again among the cells x; the transpose routes to it.

    The residuals are x and the extremes.
    """

    window: Window
    op: Operation

    def forward(self, vector: jax.Array, x: jax.Array, _: jax.Array, /) -> jax.Array:
        _, offsets = first_winners(x, (self.window,), self.op)
        return ReadWinners((self.window,)).forward(vector, offsets)

    def transpose(self, cotangent: jax.Array, x: jax.Array, values: jax.Array, /) -> jax.Array:
        def exact(cotangent: jax.Array, x: jax.Array, _: jax.Array) -> jax.Array:
            _, offsets = first_winners(x, (self.window,), self.op)
            return route_to_winners(cotangent, offsets, (self.window,))

        native = partial(tpu.send_to_winners, exact=exact, window=self.window, op=self.op)
        return by_platform(cotangent, x, values, cpu=exact, gpu=exact, tpu=native)


def on_every_platform(step: Callable[..., Any], *arrays: Any, in_stage: bool = False, like: Any = None) -> Any:
    """Evaluate `step(*arrays)`, made of slices, gathers and other entry points, defined once for all platforms.

    Its barriers and stages act only on the CPU; elsewhere it may become one loop. With `in_stage` it is a single stage
    on the CPU. Its results are like `like`, if that is known.
    """
    return by_platform(*arrays, cpu=partial(stage, step) if in_stage else step, gpu=step, like=like)


def read_at_offsets(x: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """The cell of every window at its row-major offset; 0 at the offset that no cell has."""
    like = jax.ShapeDtypeStruct(offsets.shape, x.dtype)
    return on_every_platform(lambda x, offsets: slices.read_winners(x, (offsets,), (window,)), x, offsets, like=like)


def route_to_chosen(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array], window: Window) -> jax.Array:
    """For each of the chosen cells, send each window's cotangent to the cell at its offset; in the dtype of sums."""
    return on_every_platform(partial(loops.route_to_chosen, window=window), list(cotangents), list(offsets))


def correlate(x: jax.Array, window: Window, weights: Weights) -> jax.Array:
    """Sum every window with a weight for each offset along each axis; padded cells are 0."""
    sums = partial(reductions.correlate, window=window, weights=weights)
    return by_platform(x, **_on_each(sums, order=_CORRELATION_ORDERS))


def transpose_correlation(cotangent: jax.Array, window: Window, weights: Weights) -> jax.Array:
    """The transpose of `correlate`."""
    sent = partial(reductions.transpose_correlation, window=window, weights=weights)
    return by_platform(cotangent, **_on_each(sent, order=_CORRELATION_ORDERS))


def _on_each(step: Callable[..., Any], **options: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """A step for each platform, with an argument of the platform's."""
    ((name, by_name),) = options.items()
    return {platform: partial(step, **{name: option}) for platform, option in by_name.items()}
