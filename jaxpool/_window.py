"""The geometry of fixed windows and of bins, and the errors of impossible sizes.

A `Window` describes how a kernel slides along the pooled axes of one array shape. It is frozen and hashable, so it can
be a static argument of compiled functions. Cells are numbered from the first real one of an axis: padding is below 0
and from `size` upwards. Bin i of m, along n cells, holds the cells u with floor(i·n/m) ≤ u < ceil((i+1)·n/m). If m
divides n these are plain windows; otherwise neighbours sometimes share a cell, which a `BinAxis` describes. Everything
is computed in integers: floating point would put cells into the wrong bin.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._checks import check_flag
from jaxpool._sizes import Axes, OutputSizes, axes_and_sizes, cells_added, channels_last, check_int32, paddings, sizes

# The longest axis of which the program holds tables.
MOST_IN_TABLE = 1024


@dataclass(frozen=True)
class WindowAxis:
    """One pooled axis: `size` cells, and the windows along them; with a word for `extension` its padding is copies."""

    axis: int
    size: int
    kernel: int
    stride: int
    dilation: int
    low: int
    high: int
    output: int
    extension: str | None = None

    @property
    def extent(self) -> int:
        """Cells from the first to the last cell of a window, including the gaps of dilation."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def overhang(self) -> int:
        """Cells that the last window needs above the real ones; negative if real cells are left over."""
        return (self.output - 1) * self.stride + self.extent - self.low - self.size

    def start(self, window: Any) -> Any:
        """The number of the first cell of these windows; negative in the low padding."""
        return window * self.stride - self.low

    def end(self, window: Any) -> Any:
        """The number of the cell after the last one of these windows."""
        return self.start(window) + self.extent

    def first_from(self, cell: int) -> int:
        """The first window that starts at this cell or later, `output` if there is none."""
        return min(max(0, -(-(cell + self.low) // self.stride)), self.output)

    def starts(self, rank: int) -> Any:
        """The number of the first cell of each window, along this axis of an array of `rank` axes."""
        return self.start(self._numbers(self.output, rank)).astype(np.int32)

    def held_by(self, window: Any, *, padding: bool) -> Any:
        """The number of cells in these windows that are real or, with `padding`, in the declared padding."""
        low, high = (self.low, self.high) if padding else (0, 0)
        start = self.start(window)
        first, end = (_steps(cell - start, self.dilation) for cell in (-low, self.size + high))
        of = _of(first)
        return of.maximum(of.minimum(end, self.kernel) - first, 0)

    def counts(self, rank: int, *, padding: bool) -> Any:
        """The same for every window along this axis of an array of `rank` axes; an int if all have as many."""
        of_kinds = self.held_by(self.kinds(), padding=padding)
        if (of_kinds == of_kinds[0]).all():
            return int(of_kinds[0])
        return self.held_by(self._numbers(self.output, rank), padding=padding).astype(np.int32)

    def kinds(self) -> np.ndarray:
        """The windows that meet padding, and one of those that do not: those beside it are like it."""
        before, after = self._full()
        return np.r_[: min(before + 1, after), after : self.output]

    def kind(self, rank: int) -> Any:
        """The number, among `kinds`, of each window along this axis of an array of `rank` axes."""
        before, after = self._full()
        window = self._numbers(self.output, rank)
        return window - _of(window).clip(window - before, 0, max(0, after - before - 1))

    def _full(self) -> tuple[int, int]:
        """The first window without low padding, and the first one behind it that reaches beyond the real cells."""
        before = self.first_from(0)
        return before, max(before, self.first_from(self.size - self.extent + 1))

    def covered(self, rank: int) -> Any:
        """Which cells windows hold, not those in gaps or left over, as in `starts`; True if they hold all."""
        if self.dilation == 1 and (self.stride <= self.kernel or self.output == 1):
            return self.overhang >= 0 or self._numbers(self.size, rank) < self.end(self.output - 1)
        # Along a last axis of offsets: if a cell is at the offset, its window starts so many cells above the first one.
        offsets = numbers([1] * rank + [self.kernel], rank)
        start = self._numbers(self.size, rank)[..., None] + self.low - self.dilation * offsets
        held = (start % self.stride == 0) & (start >= 0) & (start <= (self.output - 1) * self.stride)
        covered = held.any(-1)
        return (isinstance(covered, np.ndarray) and bool(covered.all())) or covered

    def cells_at(self, offset: int) -> slice:
        """The real cells at this offset of all windows."""
        first = offset * self.dilation - self.low
        end = min(first + (self.output - 1) * self.stride + 1, self.size)
        return slice(first if first >= 0 else first % self.stride, max(end, 0), self.stride)

    def offset_in_all(self) -> int | None:
        """The offset of a cell that is real in every window, the middle one if possible; None if there is none."""
        first = -(-self.low // self.dilation)
        last = min(self.kernel, -((self.start(self.output - 1) - self.size) // self.dilation)) - 1
        return min(max(self.kernel // 2, first), last) if first <= last else None

    def first_real_offsets(self, rank: int) -> Any:
        """The offset in each window of its first cell that is not low padding."""
        return _steps(-self.starts(rank), self.dilation)

    def _numbers(self, count: int, rank: int) -> Any:
        """0, 1, … along this axis of an array of `rank` axes."""
        return numbers([count if axis == self.axis else 1 for axis in range(rank)], self.axis)

    def copied(self, positions: Any) -> Any:
        """The cells that the extended axis holds at these positions, an array, as in `np.pad`."""
        if self.extension == "WRAP":
            return positions % self.size
        if self.extension == "EDGE":
            return positions.clip(0, self.size - 1)
        # Places from the first cell to the last one and back.
        last = 2 * self.size - (1 if self.extension == "SYMMETRIC" else 2)
        places = positions % (last + 1 if self.extension == "SYMMETRIC" else max(1, last))
        return _of(places).minimum(places, last - places)

    def along(self, values: Any, rank: int) -> Any:
        """One value per window or cell of this axis, in a shape that broadcasts against an array of `rank` axes."""
        shape = [1] * rank
        shape[self.axis] = -1
        return values.reshape(shape)


# What there is to know of all windows is computed from their numbers: in NumPy, as tables in the program, along short
# axes, since on GPUs whatever is computed from an iota is a kernel of its own; on the device along long ones.


def numbers(shape: Sequence[int], axis: int) -> Any:
    """The int32 numbers 0, 1, … along one axis of this shape, in an array of NumPy or JAX."""
    if shape[axis] > MOST_IN_TABLE:
        return lax.broadcasted_iota(np.int32, shape, axis)
    along = np.arange(shape[axis], dtype=np.int32).reshape([-1 if n == axis else 1 for n in range(len(shape))])
    return np.broadcast_to(along, shape)


def _of(array: Any) -> Any:
    """The library of an array."""
    return jnp if isinstance(array, jax.Array) else np


def _steps(distance: Any, step: int) -> Any:
    """How many steps it takes to cover at least this distance, 0 if it is negative."""
    return (_of(distance).maximum(distance, 0) + step - 1) // step


@dataclass(frozen=True)
class Window:
    """The windows of one pooling call: a `WindowAxis` per pooled axis, in the order of the array's own axes."""

    axes: tuple[WindowAxis, ...]

    # Whether windows have only some of the cells of their boxes; then all axes are taken together.
    has_footprint: ClassVar[bool] = False

    @property
    def cells(self) -> int:
        """Cells in the box of one window, padding included."""
        return math.prod(axis.kernel for axis in self.axes)

    @property
    def numbers(self) -> Sequence[int]:
        """The row-major numbers, in the box, of the cells in one window."""
        return range(self.cells)

    @property
    def held(self) -> int:
        """Cells in one window, padding included."""
        return len(self.numbers)

    @property
    def outputs(self) -> int:
        """Windows along all pooled axes."""
        return math.prod(axis.output for axis in self.axes)

    @property
    def pooled_axes(self) -> tuple[int, ...]:
        """The axes of the array that are pooled."""
        return tuple(axis.axis for axis in self.axes)

    @property
    def has_padding(self) -> bool:
        """Whether any cell of padding is declared."""
        return any(axis.low or axis.high for axis in self.axes)

    @property
    def has_bins(self) -> bool:
        """Whether any axis has bins of unequal sizes."""
        return any(isinstance(axis, BinAxis) for axis in self.axes)

    @property
    def tiles(self) -> bool:
        """Whether no cell is in two windows, and there are no gaps within or between windows."""
        return all((a.stride == a.kernel or a.output == 1) and (a.dilation == 1 or a.kernel == 1) for a in self.axes)

    @property
    def overlap(self) -> bool:
        """Whether the windows along some axis reach into each other."""
        return any(axis.output > 1 and axis.extent > axis.stride for axis in self.axes)

    def split(self) -> tuple["Window", ...]:
        """One window of a single axis for each pooled axis, the last axis first."""
        return tuple(Window((axis,)) for axis in reversed(self.axes))

    def holders(self) -> "Window":
        """The windows that hold each cell, as a window on the outputs, with stride - 1 places between any two."""
        axes = []
        for axis in self.axes:
            size, low = (axis.output - 1) * axis.stride + 1, axis.extent - 1 - axis.low
            axes.append(replace(axis, size=size, stride=1, output=axis.size, low=low, high=axis.extent - 1))
        return Window(tuple(axes))

    def after_padding(self, *, copies: bool = False) -> "Window":
        """The same windows, on the array that already has the declared padding or, of `copies`, only that with them."""
        axes = list(self.axes)
        for number, axis in enumerate(axes):
            if axis.extension or not copies:
                size = axis.low + axis.size + axis.high
                axes[number] = replace(axis, size=size, low=0, high=0, extension=None)
        return replace(self, axes=tuple(axes))

    def output_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the output for an array of this shape."""
        output = list(shape)
        for axis in self.axes:
            output[axis.axis] = axis.output
        return tuple(output)

    @property
    def is_full(self) -> bool:
        """Whether all cells of all windows are real."""
        return not self.has_bins and all(not axis.low and axis.overhang <= 0 for axis in self.axes)

    def counts(self, rank: int, *, padding: bool) -> Any:
        """The same as for an axis, of windows."""
        return math.prod(axis.counts(rank, padding=padding) for axis in self.axes)

    def possible_counts(self) -> tuple[int, ...]:
        """The numbers of real cells that windows have, in ascending order."""
        counts = np.ones(1, np.int64)
        for axis in self.axes:
            counts = np.unique(np.multiply.outer(counts, axis.held_by(axis.kinds(), padding=False)))
        return tuple(counts.tolist())

    def covered(self, rank: int) -> tuple[Any, ...]:
        """Which cells are held by a window: those in all of these arrays, which broadcast against the cells."""
        along = (axis.covered(rank) for axis in self.axes)
        return tuple(covered for covered in along if covered is not True)

    def check_no_window_of_padding(self, function: str, fix: str) -> None:
        """Raise if some window holds no real cell, with the axis and the `fix` in the message."""
        for axis in self.axes:
            # Between a window that starts in the array and another there is a cell, unless dilation steps over it.
            ends = np.unique([0, min(axis.first_from(axis.size), axis.output - 1)])
            windows = ends if axis.dilation <= axis.size else axis.kinds()
            counts = axis.held_by(windows, padding=False)
            if not counts.all():
                raise ValueError(
                    f"{function}: window {int(windows[np.argmin(counts)])} along axis {axis.axis} holds only padding "
                    f"(padding ({axis.low}, {axis.high}), kernel_size {axis.kernel}, dilation {axis.dilation}, "
                    f"{axis.size} cells); {fix}"
                )

    def check_positions_fit(self, function: str) -> None:
        """Raise if the pooled axes hold more cells than an int32 index can number."""
        pooled = tuple(axis.size for axis in self.axes)
        check_int32(function, f"the pooled axes {pooled} hold", math.prod(pooled))

    def check_counts_fit(self, function: str) -> None:
        """Raise if a window holds more cells than an int32 can count."""
        check_int32(function, "a masked or ranked window holds", self.held)


def make_window(
    function: str,
    shape: Sequence[int],
    given: Sequence[Any],
    name: str = "kernel_size",
    remedies: Sequence[str] = ("padding", "ceil_mode"),
    *,
    crops: bool = False,
) -> Window:
    """Parse the sizes `given` to a function: kernel_size, which it calls `name`, and the following arguments.

    `remedies` are its arguments that help if nothing fits. If it `crops`, a single window under `ceil_mode`, which may
    be far larger than the array, lacks the offsets beyond the declared padding, whose cells count in no pool.
    """
    kernel_size, stride, padding, dilation, ceil_mode, axis = given
    ceil_mode = check_flag(function, "ceil_mode", ceil_mode)
    axes, kernels = axes_and_sizes(function, shape, name, kernel_size, axis)
    count = len(axes)
    strides = kernels if stride is None else sizes(function, "stride", stride, count, least=1)
    dilations = sizes(function, "dilation", dilation, count, least=1)
    pads = paddings(function, padding, count)
    made = []
    for a, kernel, step, gap, pad in zip(axes, kernels, strides, dilations, pads, strict=True):
        size, extent = shape[a], gap * (kernel - 1) + 1
        low, high, extension = cells_added(pad, size, extent, step)
        padded = low + size + high
        check_int32(function, f"axis {a} with its padding {(low, high)} has", padded, "use less padding")
        room = padded - extent
        output = (-(-room // step) if ceil_mode else room // step) + 1
        if ceil_mode and (output - 1) * step >= (padded if extension else low + size):
            output -= 1
        if output < 1:
            spans = f"spans {extent} cells" + (f" with dilation {gap}" if gap > 1 else "")
            also, fix = (f" and {low + high} of padding", " or more padding") if "padding" in remedies else ("", "")
            if "ceil_mode" in remedies and not ceil_mode and -(-room // step) == 0:
                fix += " or ceil_mode=True"
            # If a last axis that was not named is too short for a window, it is often that of the channels.
            if axis is None and count <= a == len(shape) - 1:
                fix += f", or {channels_last(len(shape), count)} where channels are last"
            raise ValueError(
                f"{function}: {name} {kernel} along axis {a} {spans} but the input has {size}{also}; use a "
                f"smaller window{fix}"
            )
        if output == 1:
            # It counts as one of a row without overlap, which is evaluated in one step.
            kernel = min(kernel, -(-padded // gap)) if crops else kernel
            step = gap * (kernel - 1) + 1
        made.append(WindowAxis(a, size, kernel, step, 1 if kernel == 1 else gap, low, high, output, extension))
    return Window(tuple(sorted(made, key=lambda one: one.axis)))


@dataclass(frozen=True)
class BinAxis(WindowAxis):
    """One axis in bins of unequal sizes: windows of `kernel` cells, the last of which are absent in a smaller bin."""

    @property
    def overhang(self) -> int:
        """No bin needs cells beyond the axis."""
        return 0

    def start(self, window: Any) -> Any:
        """floor(i·size/bins), the first cell, for bins i, which are ints or a NumPy array."""
        return window * self.size // self.output

    def end(self, window: Any) -> Any:
        """ceil((i + 1)·size/bins), the first cell after them."""
        return -(-(window + 1) * self.size // self.output)

    def held_by(self, window: Any, *, padding: bool) -> Any:
        """The number of cells in these bins."""
        return self.end(window) - self.start(window)

    def kinds(self) -> np.ndarray:
        """All bins."""
        return np.arange(self.output)

    def _numbers(self, count: int, rank: int) -> Any:
        """The same in a table of int64, as products of sizes may be too large for the device."""
        return self.along(np.arange(count), rank)

    def cells(self) -> Any:
        """The cells of each bin, of shape (bins, kernel); `size` where a bin has fewer."""
        bins, places = np.arange(self.output)[:, None], numbers((1, self.kernel), 1)
        starts, counts = (each.astype(np.int32) for each in (self.start(bins), self.held_by(bins, padding=False)))
        return _of(places).where(places < counts, starts + places, np.int32(self.size))

    def holders(self) -> tuple[Any, Any, Any]:
        """The bins that may hold each cell, whether they do, and its place in them, of shape (most bins, cells).

        Bin o of m holds the cells of n that overlap it when both axes are drawn at the same length, so cell u is in the
        bins floor(u·m/n) ≤ o < ceil((u+1)·m/n): the formula of the bins with m and n exchanged. The first one does.
        """
        most = -(-(self.size - math.gcd(self.size, self.output) + self.output) // self.size)
        every = np.arange(self.output)
        number, cell = np.arange(most, dtype=np.int32)[:, None], numbers((1, self.size), 1)
        of = _of(cell)
        starts, ends = (of.asarray(each.astype(np.int32)) for each in (self.start(every), self.end(every)))
        search = np.searchsorted if of is np else partial(jnp.searchsorted, method="scan_unrolled")
        bins = search(ends, cell, side="right").astype(np.int32) + number
        places = cell - of.take(starts, bins, mode="clip")
        held = (bins < self.output) & (places >= 0)
        return of.minimum(bins, np.int32(self.output - 1)), held, of.where(held, places, np.int32(0))

    def as_tiles(self) -> WindowAxis:
        """The bins as windows of one size, on an axis with a separate copy of each bin."""
        return WindowAxis(self.axis, self.output * self.kernel, self.kernel, self.stride, 1, 0, 0, self.output)

    def period(self) -> "BinAxis":
        """The first part of the axis, whose pattern of bins the rest repeats: no bin crosses its end."""
        parts = math.gcd(self.size, self.output)
        return replace(self, size=self.size // parts, output=self.output // parts)


def make_bins(
    function: str, shape: Sequence[int], given: OutputSizes, axis: Axes | None, name: str = "output_size"
) -> Window:
    """Parse the numbers of bins `given` to a function as `name`, and its `axis`."""
    axes, bins = axes_and_sizes(function, shape, name, given, axis, none_allowed=True)
    made = []
    for a, bins_or_none in zip(axes, bins, strict=True):
        size, count = shape[a], bins_or_none or shape[a]
        # Bin i has ⌈(n + i·n mod m)/m⌉ cells, and of i·n mod m, a multiple of gcd(n, m), the largest is m - gcd(n, m).
        kernel = -(-(size + count - math.gcd(size, count)) // count)
        made.append((WindowAxis if size % count == 0 else BinAxis)(a, size, kernel, kernel, 1, 0, 0, count))
    return Window(tuple(sorted(made, key=lambda one: one.axis)))
