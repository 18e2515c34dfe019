"""The geometry of fixed windows: every argument about sizes is understood, checked and named here, once.

A `Window` says how a kernel slides along the pooled axes of one array shape. It is frozen and hashable, so
that it serves as a static argument of compiled functions, and it owns the output-shape formula and the
messages of every mistake that can be made with sizes. All sizes are counted in cells. The cells of an axis are
numbered from the first real one; padding lies below 0 and from `size` upwards.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np

Sizes = int | Sequence[int]
Padding = int | Sequence[int | Sequence[int]] | Literal["VALID", "SAME", "SAME_LOWER"]


@dataclass(frozen=True)
class WindowAxis:
    """One pooled axis: `size` cells, and the windows that slide along them."""

    axis: int
    size: int
    kernel: int
    stride: int
    dilation: int
    low: int
    high: int
    output: int

    @property
    def extent(self) -> int:
        """Cells from the first to the last cell of a window, the gaps of dilation included."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def beyond(self) -> int:
        """Cells that the last window needs above the real ones; negative where real cells are left over."""
        return (self.output - 1) * self.stride + self.extent - self.low - self.size

    @property
    def starts(self) -> np.ndarray:
        """Number of the first cell of each window, below 0 in the low padding."""
        return np.arange(self.output) * self.stride - self.low

    def counts(self, *, padding: bool) -> np.ndarray:
        """Cells of each window that are real or, with `padding`, in the declared padding."""
        cells = self.starts[:, None] + np.arange(self.kernel) * self.dilation
        low, high = (self.low, self.high) if padding else (0, 0)
        return ((cells >= -low) & (cells < self.size + high)).sum(1)

    def first_real_offsets(self) -> np.ndarray:
        """Offset in each window of its first cell that does not lie in the low padding."""
        return np.maximum(0, -(self.starts // self.dilation))


@dataclass(frozen=True)
class Window:
    """The windows of one pooling call: a `WindowAxis` per pooled axis, in the order of the array's own axes."""

    axes: tuple[WindowAxis, ...]

    @property
    def cells(self) -> int:
        """Cells in one window, padding included."""
        return math.prod(axis.kernel for axis in self.axes)

    def split(self) -> tuple["Window", ...]:
        """One window of a single axis for each pooled axis, the last axis first."""
        return tuple(Window((axis,)) for axis in reversed(self.axes))

    def after_padding(self) -> "Window":
        """The same windows, seen from the array that already carries the declared padding."""
        return Window(tuple(replace(a, size=a.low + a.size + a.high, low=0, high=0) for a in self.axes))

    def output_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape that pooling gives to an array of `shape`."""
        sizes = list(shape)
        for axis in self.axes:
            sizes[axis.axis] = axis.output
        return tuple(sizes)

    def check_no_window_of_padding(self, function: str, fix: str) -> None:
        """Raise where some window holds no real cell, naming the axis and the `fix`."""
        for axis in self.axes:
            counts = axis.counts(padding=False)
            if not counts.all():
                raise ValueError(
                    f"{function}: window {int(np.argmin(counts))} along axis {axis.axis} holds only padding "
                    f"(padding ({axis.low}, {axis.high}), kernel_size {axis.kernel}, dilation {axis.dilation}, "
                    f"{axis.size} cells); {fix}"
                )

    def check_positions_fit(self, function: str) -> None:
        """Raise where the pooled axes hold more cells than an int32 index can number."""
        sizes = tuple(axis.size for axis in self.axes)
        if math.prod(sizes) > 2**31 - 1:
            raise ValueError(
                f"{function}: the pooled axes {sizes} hold {math.prod(sizes)} cells, but int32 indices number "
                f"2147483647 at most; pool the array in parts"
            )


def make_window(
    function: str,
    shape: Sequence[int],
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Padding,
    dilation: Sizes,
    ceil_mode: bool,
    axis: Sizes | None,
) -> Window:
    """Understand the size arguments that every fixed-window function shares; `function` names the caller."""
    if not isinstance(ceil_mode, (bool, np.bool_)):
        raise TypeError(f"{function}: ceil_mode must be True or False, got {ceil_mode!r}")
    axes, kernels = _axes_and_kernels(function, shape, kernel_size, axis)
    count = len(axes)
    strides = kernels if stride is None else _sizes(function, "stride", stride, count, least=1)
    dilations = _sizes(function, "dilation", dilation, count, least=1)
    paddings = _paddings(function, padding, count)
    made = (
        _window_axis(function, a, shape[a], k, s, d, p, bool(ceil_mode))
        for a, k, s, d, p in zip(axes, kernels, strides, dilations, paddings, strict=True)
    )
    return Window(tuple(sorted(made, key=lambda one: one.axis)))


def _window_axis(
    function: str,
    axis: int,
    size: Any,
    kernel: int,
    stride: int,
    dilation: int,
    padding: tuple[int, int] | str,
    ceil_mode: bool,
) -> WindowAxis:
    if not isinstance(size, int):
        raise TypeError(f"{function}: axis {axis} has the symbolic size {size}; a pooled axis needs a known size")
    if size == 0:
        raise ValueError(f"{function}: axis {axis} is pooled but has no cells; pool arrays with at least one cell")
    extent = dilation * (kernel - 1) + 1
    low, high = _same(padding, size, extent, stride) if isinstance(padding, str) else padding
    room = low + size + high - extent
    output = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (output - 1) * stride >= size + low:
        output -= 1
    if output < 1:
        needs = f"spans {extent} cells" + (f" with dilation {dilation}" if dilation > 1 else "")
        raise ValueError(
            f"{function}: kernel_size {kernel} along axis {axis} {needs} but the input has {size} and "
            f"{low + high} of padding; use a smaller window, more padding or ceil_mode=True"
        )
    return WindowAxis(axis, size, kernel, stride, dilation, low, high, output)


def _same(word: str, size: int, extent: int, stride: int) -> tuple[int, int]:
    if word == "VALID":
        return 0, 0
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    half = total // 2
    return (half, total - half) if word == "SAME" else (total - half, half)


def _axes_and_kernels(
    function: str, shape: Sequence[int], kernel_size: Sizes, axis: Sizes | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    ndim = len(shape)
    if axis is None:
        if _is_scalar(kernel_size):
            size = _integer(function, "kernel_size", kernel_size, least=1)
            raise ValueError(
                f"{function}: kernel_size {size} does not say how many axes to pool; write kernel_size "
                f"({size}, {size}) for the last two axes, or name the axes, as in axis=(-2, -1)"
            )
        kernels = _sizes(function, "kernel_size", kernel_size, None, least=1)
        if len(kernels) > ndim:
            raise ValueError(
                f"{function}: kernel_size {kernels} has {len(kernels)} entries but x has {ndim} axes {tuple(shape)}"
            )
        return tuple(range(ndim - len(kernels), ndim)), kernels
    named = (axis,) if _is_scalar(axis) else tuple(axis)  # type: ignore[arg-type]
    axes = tuple(_integer(function, "axis", a, least=None) for a in named)
    for a in axes:
        if not -ndim <= a < ndim:
            raise ValueError(f"{function}: axis {a} is out of range for x with {ndim} axes {tuple(shape)}")
    if not axes:
        raise ValueError(f"{function}: axis () names no axis; name at least one axis to pool")
    positions = tuple(a % ndim for a in axes)
    if len(set(positions)) < len(positions):
        raise ValueError(f"{function}: axis {axes} names an axis of x {tuple(shape)} twice; name each axis once")
    return positions, _sizes(function, "kernel_size", kernel_size, len(positions), least=1)


def _paddings(function: str, padding: Padding, count: int) -> tuple[tuple[int, int] | str, ...]:
    if isinstance(padding, str):
        if padding not in ("VALID", "SAME", "SAME_LOWER"):
            raise ValueError(
                f"{function}: padding {padding!r} is unknown; use 'VALID', 'SAME', 'SAME_LOWER', "
                f"an int, ints per axis or (low, high) pairs per axis"
            )
        return (padding,) * count
    if _is_scalar(padding):
        both = _integer(function, "padding", padding, least=0)
        return ((both, both),) * count
    entries = _entries(function, "padding", padding, count)
    pairs = []
    for entry in entries:
        if _is_scalar(entry):
            both = _integer(function, "padding", entry, least=0)
            pairs.append((both, both))
        else:
            pair = tuple(_integer(function, "padding", one, least=0) for one in entry)
            if len(pair) != 2:
                raise ValueError(f"{function}: padding entry {pair} must be an int or a (low, high) pair")
            pairs.append(pair)
    return tuple(pairs)


def _sizes(function: str, name: str, given: Sizes, count: int | None, *, least: int) -> tuple[int, ...]:
    if _is_scalar(given):
        return (_integer(function, name, given, least=least),) * (count or 1)
    return tuple(_integer(function, name, one, least=least) for one in _entries(function, name, given, count))


def _entries(function: str, name: str, given: Any, count: int | None) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, (Sequence, np.ndarray, jax.Array)):
        raise TypeError(f"{function}: {name} must be an int or a sequence of ints, got {given!r}")
    entries = tuple(given)
    if not entries:
        raise ValueError(f"{function}: {name} () is empty; give one entry per pooled axis")
    if count is not None and len(entries) != count:
        pairs = " ((low, high) pairs need one pair per axis)" if name == "padding" else ""
        raise ValueError(
            f"{function}: {name} {entries} has {len(entries)} entries but {count} axes are pooled; "
            f"give one int for all axes or {count} entries{pairs}"
        )
    return entries


def _is_scalar(given: Any) -> bool:
    return isinstance(given, (int, float, np.generic, jax.Array)) and np.ndim(given) == 0


def _integer(function: str, name: str, given: Any, *, least: int | None) -> int:
    if isinstance(given, jax.core.Tracer):
        raise TypeError(
            f"{function}: {name} must be a Python int, got a traced value; sizes shape the program, so pass "
            f"them as static arguments (jax.jit(..., static_argnames={name!r}))"
        )
    if isinstance(given, (bool, np.bool_)) or not hasattr(given, "__index__"):
        raise TypeError(f"{function}: {name} must be an int, got {given!r} of type {type(given).__name__}")
    try:
        value = operator.index(given)
    except TypeError:
        raise TypeError(f"{function}: {name} must be an int, got {given!r}") from None
    if least is not None and value < least:
        raise ValueError(f"{function}: {name} must be at least {least}, got {value}")
    return value
