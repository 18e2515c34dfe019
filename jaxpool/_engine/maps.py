"""The entry points of the engine: the maps that pools are made of, each with its contract on every platform.

Shapes. x has any rank; a `Window` names the pooled axes, which go from `size` cells to `output` windows; all other axes
are batch axes. Padding: cells beyond the array change no result; where a map needs a value for them, it is `fill`.
Ties: among equal cells the first in row-major order wins. NaN: it wins over every number, and the first NaN over later
ones; it reaches the windows that hold it and no others. Rounding: sums are kept in the dtype of the argument, which
callers widen first unless an entry point says that it does so; the error grows with the logarithm of the window along
axes where it has more than 64 cells. No map scatters, so results do not depend on the order in which a device works.

An entry point is the same for all platforms, or it has a lowering in `cpu/` and one in `xla/`, for GPUs and for TPUs
without a lowering of their own. `lowerings` puts the choice into the traced program. Inside a lowering an entry point
is a plain call.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from jaxpool._engine import correlation, gather, loops, portable, reading, window_offsets, winners
from jaxpool._engine.by_parts import reduce_by_parts, spread_by_parts
from jaxpool._engine.correlation import Order, Weights
from jaxpool._engine.cpu import reduce as cpu_reduce
from jaxpool._engine.cpu import select as cpu_select
from jaxpool._engine.gather import Contribution
from jaxpool._engine.linear_maps import LinearMap
from jaxpool._engine.lowerings import by_platform
from jaxpool._engine.operations import Operation, divided
from jaxpool._engine.platforms import PLATFORMS, PORTABLE
from jaxpool._engine.shards import by_shards
from jaxpool._engine.stages import stage
from jaxpool._engine.winners import Masked, Offsets, Winners
from jaxpool._engine.xla import choose as xla_choose
from jaxpool._engine.xla import reduce as xla_reduce
from jaxpool._engine.xla import select as xla_select
from jaxpool._engine.xla import tpu
from jaxpool._geometry.window import Window

_SELECTIONS = (cpu_select.SELECTION, xla_select.SELECTION, xla_select.SELECTION, portable.SELECTION)
# One axis after the other takes fewer cycles on TPUs, and less time on CPUs.
_CORRELATION_ORDERS = (Window.split, xla_choose.correlation_order, Window.split)


def reduce_windows(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """Reduce every window of x by `op`, one of `lax.max`, `lax.min` and `lax.add`; padded cells change nothing."""

    def reduced(x: jax.Array, lowering: Callable[..., jax.Array]) -> jax.Array:
        return reduce_by_parts(partial(lowering, op=op), window, x, op)

    lowerings = (cpu_reduce.reduce_windows, xla_reduce.reduce_windows, tpu.reduce_windows, portable.reduce_windows)
    return _choose((partial(reduced, lowering=lowering) for lowering in lowerings), x)


def spread(cotangent: jax.Array, window: Window, divisor: float = 1.0) -> jax.Array:
    """Send each output's cotangent, divided by a number, to every cell of its window: a windowed sum's transpose."""

    def divided_first(cotangent: jax.Array, lowering: Callable[[jax.Array, Window], jax.Array]) -> jax.Array:
        return sent(divided(cotangent, divisor), lowering)

    def on_gpu(cotangent: jax.Array) -> jax.Array:
        # Dividing the outputs first, which are read many times, would be a separate kernel.
        return divided(sent(cotangent, xla_reduce.spread), divisor)

    def sent(cotangent: jax.Array, lowering: Callable[[jax.Array, Window], jax.Array]) -> jax.Array:
        return spread_by_parts(lowering, window, cotangent)

    on_cpu, on_tpu = (partial(divided_first, lowering=lowering) for lowering in (cpu_reduce.spread, tpu.spread))
    return by_platform(cotangent, cpu=on_cpu, gpu=on_gpu, tpu=on_tpu)


def first_winners(x: jax.Array, windows: Sequence[Window], op: Operation, masked: Masked | None = None) -> Winners:
    """The extreme of every window by `op` (`lax.max` or `lax.min`), and the offsets of the first cell that has it.

    The windows are taken in turn, and each has row-major offsets of its own: see `winners`. `masked` is a mask
    and its `first_present`: masked-out cells then never win, and an empty window has an unspecified value and an
    offset to which no cotangent is sent.
    """
    plain = winners.first_winners
    by_selection = zip((plain, xla_select.first_winners, plain, plain), _SELECTIONS, strict=True)
    select = (partial(one, selection=selection, windows=tuple(windows), op=op) for one, selection in by_selection)
    return _choose(select, x, masked)


def first_present(mask: jax.Array, windows: Sequence[Window]) -> tuple[jax.Array, Offsets]:
    """Which windows hold a cell of a mask, and the offsets of the first; without any, those of no cell."""
    find = partial(winners.first_present, windows=tuple(windows))
    return _choose((partial(find, selection=selection) for selection in _SELECTIONS), mask)


def route_to_winners(cotangent: jax.Array, offsets: Offsets, windows: Sequence[Window]) -> jax.Array:
    """Send each output's cotangent to the cell at its winner's offsets, as recorded for the same windows.

    16-bit cotangents are added in float32 and rounded once.
    """
    route = partial(winners.route_to_winners, windows=tuple(windows))
    return _choose((partial(route, selection=selection) for selection in _SELECTIONS), cotangent, offsets)


@dataclass(frozen=True)
class ReadWinners(LinearMap):
    """Read the cell at each winner's offsets, as recorded for these windows; the transpose routes to it."""

    windows: tuple[Window, ...]

    def forward(self, x: jax.Array, offsets: Offsets, /) -> jax.Array:
        return on_every_platform(partial(reading.read_winners, windows=self.windows), x, offsets)

    def transpose(self, cotangent: jax.Array, offsets: Offsets, /) -> jax.Array:
        return route_to_winners(cotangent, offsets, self.windows)


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
        exact = partial(winners.send_to_winners, window=self.window, op=self.op)
        cpu, gpu = (partial(exact, selection=selection) for selection in _SELECTIONS[:2])
        native = partial(tpu.send_to_winners, window=self.window, op=self.op)
        return by_platform(cotangent, x, values, cpu=cpu, gpu=gpu, tpu=native)


def on_every_platform(step: Callable[..., Any], *arrays: Any, in_stage: bool = False, mark: str | None = None) -> Any:
    """Evaluate `step(*arrays)`, made of slices, gathers and other entry points, defined once for all platforms.

    Its barriers and stages act only on the CPU; elsewhere it may become one loop. With `in_stage` it is a single stage
    on the CPU, under a `mark`.
    """

    def on_cpu(*arrays: Any) -> Any:
        return stage(step, *arrays, mark=mark) if in_stage else step(*arrays)

    return by_platform(*arrays, cpu=on_cpu, gpu=step)


def gather_windows(
    contribution: Contribution,
    outputs: Sequence[tuple[jax.Array, Any]],
    window: Window,
    inputs: Sequence[tuple[jax.Array, Any]] = (),
) -> jax.Array:
    """For every input cell, add the contributions of the windows that hold it; see `gather.gather_windows`."""
    fills = [fill for _, fill in outputs], [fill for _, fill in inputs]

    def gathered(outputs: Sequence[jax.Array], inputs: Sequence[jax.Array]) -> jax.Array:
        around, cells = (list(zip(*pair, strict=True)) for pair in zip((outputs, inputs), fills, strict=True))

        def here(*arguments: Any) -> jax.Array:
            *arrays, window = arguments
            cells = list(zip(arrays[: len(inputs)], fills[1], strict=True))
            return gather.gather_windows(
                contribution, list(zip(arrays[len(inputs) :], fills[0], strict=True)), window, cells
            )

        return by_shards(here, window, cells, around, to_cells=True)

    return on_every_platform(gathered, [array for array, _ in outputs], [array for array, _ in inputs])


def sum_terms(
    term: Callable[..., Any],
    cells: Sequence[tuple[jax.Array, float]],
    window: Window,
    multiplicity: jax.Array | None = None,
    windows: Sequence[tuple[jax.Array | None, float]] = (),
) -> Any:
    """Σ multiplicity·term(cells, windows) over every window; see `window_offsets.sum_terms`."""
    cell_fills, window_fills = ([fill for _, fill in arrays] for arrays in (cells, windows))

    def summed(arrays: Sequence[jax.Array], multiplicity: jax.Array | None, others: Sequence[Any]) -> Any:
        def here(multiplicity: jax.Array | None, *arguments: Any) -> Any:
            *arrays, window = arguments
            filled = list(zip(arrays[: len(cells)], cell_fills, strict=True))
            return window_offsets.sum_terms(term, filled, window, multiplicity, arrays[len(cells) :])

        around = [(multiplicity, float(window.zeros)), *zip(arrays, cell_fills, strict=True)]
        return by_shards(here, window, around, list(zip(others, window_fills, strict=True)))

    return on_every_platform(summed, [array for array, _ in cells], multiplicity, [array for array, _ in windows])


def read_at_offsets(x: jax.Array, offsets: jax.Array, window: Window) -> jax.Array:
    """The cell of every window at its row-major offset; 0 at the offset that no cell has."""
    return on_every_platform(lambda x, offsets: reading.read_winners(x, (offsets,), (window,)), x, offsets)


def route_to_chosen(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array], window: Window) -> jax.Array:
    """For each of the chosen cells, send each window's cotangent to the cell at its offset."""

    def routed(cotangents: Sequence[jax.Array], offsets: Sequence[jax.Array]) -> jax.Array:
        def here(*arguments: Any) -> jax.Array:
            *arrays, window = arguments
            return loops.route_to_chosen(arrays[: len(cotangents)], arrays[len(cotangents) :], window)

        return by_shards(here, window, [], [(array, 0) for array in (*cotangents, *offsets)], to_cells=True)

    return on_every_platform(routed, list(cotangents), list(offsets))


def correlate(x: jax.Array, window: Window, weights: Weights) -> jax.Array:
    """Sum every window with a weight for each offset along each axis; padded cells are 0."""

    def sums(x: jax.Array, order: Order) -> jax.Array:
        return by_shards(partial(correlation.correlate, weights=weights, order=order), window, [(x, 0)])

    return _choose((partial(sums, order=order) for order in _CORRELATION_ORDERS), x)


def transpose_correlation(cotangent: jax.Array, window: Window, weights: Weights) -> jax.Array:
    """The transpose of `correlate`."""

    def sent(cotangent: jax.Array, order: Order) -> jax.Array:
        step = partial(correlation.transpose_correlation, weights=weights, order=order)
        return by_shards(step, window, [], [(cotangent, 0)], to_cells=True)

    return _choose((partial(sent, order=order) for order in _CORRELATION_ORDERS), cotangent)


def _choose(lowerings: Iterable[Callable[..., Any]], *arrays: Any) -> Any:
    return by_platform(*arrays, **dict(zip((*PLATFORMS, PORTABLE), lowerings, strict=False)))
