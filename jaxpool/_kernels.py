"""What goes in the place of a `kernel_size`, besides sizes: bins, whole axes and footprints, and the windows they make.

They are small frozen values, so that a call with one is compiled once. A footprint says which cells of a box are in a
window, for windows of any shape, such as disks and crosses. The offsets of cells, and their row-major numbers, are
those in the box. Where a cell of it is real depends on one axis at a time, so what there is to know of all windows are
sums of products of one matrix for each axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._checks import as_jax_takes, check_no_mask
from jaxpool._sizes import Axes, Padding, Sizes, pooled_axes
from jaxpool._sizes import sizes as parse_sizes
from jaxpool._window import Window, WindowAxis, make_bins, make_window, numbers


@dataclass(frozen=True, repr=False)
class Bins:
    """A number of bins for each pooled axis, None for one that is kept; a single number is for every axis."""

    sizes: tuple[int | None, ...]

    def __repr__(self) -> str:
        return f"bins({', '.join(map(str, self.sizes))})"


@dataclass(frozen=True, repr=False)
class Whole:
    """One window over the whole of every axis."""

    def __repr__(self) -> str:
        return "whole"


@dataclass(frozen=True, repr=False)
class Footprint:
    """A box of this shape, and for each of its cells a byte in row-major order: 1 for those that are in the window."""

    shape: tuple[int, ...]
    cells: bytes

    def __repr__(self) -> str:
        return f"footprint({'×'.join(map(str, self.shape))}, {len(self.numbers)} cells)"

    @cached_property
    def held(self) -> np.ndarray:
        """Which cells are in the window, as a bool array."""
        return np.frombuffer(self.cells, np.bool_).reshape(self.shape)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The row-major numbers, in the box, of the cells."""
        return tuple(np.flatnonzero(self.held).tolist())

    @property
    def is_full(self) -> bool:
        """Whether the whole box is in the window."""
        return len(self.numbers) == math.prod(self.shape)

    def in_order(self, axes: Sequence[int]) -> Footprint:
        """The footprint whose axes are these of this one."""
        return _of(self.held.transpose(axes))

    def mirrored(self) -> Footprint:
        """The footprint in the opposite direction along every axis."""
        return _of(np.flip(self.held))

    def sums(self, along: Sequence[np.ndarray]) -> np.ndarray:
        """Σ over the offsets j of the window of Π along[a][j_a, ·]: an entry for each product of columns."""
        total = self.held.astype(np.int64)
        for matrix in along:
            total = np.tensordot(total, matrix.astype(np.int64), (0, 0))
        return total

    def first_numbers(self, along: Sequence[np.ndarray]) -> np.ndarray:
        """The row-major number of the first offset j of the window with Π along[a][j_a, ·], or 0; as in `sums`."""
        found = np.zeros([matrix.shape[1] for matrix in along], np.int64)
        for place in np.ndindex(found.shape):
            present = self.held
            for axis, (matrix, column) in enumerate(zip(along, place, strict=True)):
                present = present & matrix[:, column].reshape([-1 if a == axis else 1 for a in range(present.ndim)])
            found[place] = np.argmax(present)
        return found


KernelSize = Sizes | Bins | Whole | Footprint
# Those that are values in place of sizes.
VALUES = (Bins, Whole, Footprint)

whole: Whole = Whole()


def bins(*sizes: int | None) -> Bins:
    """Bins as a `kernel_size`: each pooled axis is cut into so many, whatever its size (adaptive pooling).

    Bin i of m, along n cells, holds the cells u with floor(i·n/m) ≤ u < ceil((i+1)·n/m), as in PyTorch. Every pool with
    a `kernel_size` and a `stride` takes bins, except blurs. With bins, leave out `stride`, `padding`, `dilation` and
    `ceil_mode`.

    Args:
        sizes: The number of bins, one int per pooled axis, in the order of `axis`: bins(7, 7) pools two axes. It may
            exceed the number of cells; None keeps an axis as it is. A single int is for every axis in `axis`.

    Returns:
        A frozen value, equal to that of the same sizes. The pooled axes of a result have these sizes.

    Raises:
        TypeError: a number is not an int.
        ValueError: there is no number, or one is less than 1.

    Derivative:
        That of the pool, over the cells of each bin; neighbouring bins may share a cell, which then gets both shares.

    Example:
        >>> jaxpool.max_pool(jnp.array([1.0, 2.0, 5.0, 4.0, 3.0]), jaxpool.bins(3))
        Array([2., 5., 4.], dtype=float32)
        >>> jaxpool.lp_pool(jnp.ones((1, 16, 16, 3)), 2, jaxpool.bins(2, 2), axis=(-3, -2)).shape
        (1, 2, 2, 3)
    """
    if not sizes:
        raise ValueError("bins: no size is given; give one for each pooled axis, as in bins(7, 7)")
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        raise TypeError(f"bins: size must be an int, got {sizes[0]!r}; write bins{(*sizes[0],)}")
    return Bins(parse_sizes("bins", "size", sizes, None, least=1, none_allowed=True))


def footprint(cells: ArrayLike | Sequence[Any]) -> Footprint:
    """A footprint as a `kernel_size`: a window of any shape, such as a disk or a cross.

    The window is a box of the shape of `cells`, without the cells that are False there. These are not in the window:
    they never win, add nothing and count in no divisor, not even in the padding. Every pool with a `kernel_size` and a
    `stride` takes a footprint, except blurs. All other arguments mean what they mean for the box: `stride`, for
    example, is its shape unless given.

    Args:
        cells: Bool array, with an axis for each pooled axis, in the order of `axis`. Make it with NumPy: what `jnp`
            makes inside `jax.jit` is traced, which is an error.

    Returns:
        A frozen value, equal to that of an equal array. A result has the shape that it has for the box.

    Raises:
        TypeError: `cells` is not bool, or traced.
        ValueError: `cells` has no axis, has rows of different lengths, or none is True.

    Derivative:
        That of the pool, over the cells of the footprint; among equal ones, the first in row-major order wins.

    Example:
        >>> disk = np.hypot(*np.mgrid[-1:2, -1:2]) <= 1
        >>> x = jnp.arange(16.0).reshape(4, 4)
        >>> jaxpool.min_pool(x, jaxpool.footprint(disk), stride=1)
        Array([[1., 2.],
               [5., 6.]], dtype=float32)
    """
    return make_footprint(cells)


def make_footprint(cells: Any, function: str = "footprint", name: str = "cells") -> Footprint:
    """The footprint of a bool array, or raise if it is not one, or holds no cell; `name` is the function's for it."""
    cells = as_jax_takes(function, name, cells)
    for row in cells if isinstance(cells, (list, tuple)) else ():
        check_no_mask(function, name, row)
    if isinstance(cells, jax.core.Tracer):
        raise TypeError(f"{function}: {name} must be known while tracing, got a traced value; use a NumPy array")
    try:
        array = np.asarray(cells)
    except ValueError:
        raise ValueError(
            f"{function}: {name} has rows of different lengths; give an array, with False to fill them"
        ) from None
    if array.dtype != np.bool_:
        fix = f"compare it first, as in {name} != 0"
        raise TypeError(f"{function}: {name} must be bool, got dtype {array.dtype}; {fix}")
    if not array.ndim:
        raise ValueError(f"{function}: {name} has no axes; give an array with an axis for each pooled axis")
    if not array.any():
        raise ValueError(f"{function}: {name} of shape {array.shape}: all False; set at least one to True")
    return _of(array)


def _of(held: np.ndarray) -> Footprint:
    return Footprint(held.shape, np.ascontiguousarray(held).tobytes())


def make_windows(
    function: str,
    shape: Sequence[int],
    kernel_size: Bins | Whole | Footprint,
    stride: Sizes | None,
    padding: Padding,
    dilation: Sizes,
    ceil_mode: bool,
    axis: Axes | None,
    name: str = "kernel_size",
    remedies: Sequence[str] = ("padding", "ceil_mode"),
) -> Window:
    """Parse the size arguments of a windowed pool with a value in place of sizes, as `make_window` parses sizes."""
    if isinstance(kernel_size, Footprint):
        box = kernel_size.shape
        window = make_window(function, shape, box, stride, padding, dilation, ceil_mode, axis, name, remedies)
        return _of_footprint(function, shape, kernel_size, axis, window)
    arguments: tuple[tuple[str, Any, Any], ...] = (
        ("stride", stride, None),
        ("padding", padding, 0),
        ("dilation", dilation, 1),
        ("ceil_mode", ceil_mode, False),
    )
    for argument, given, default in arguments:
        if type(given) is not type(default) or given != default:
            raise ValueError(
                f"{function}: {argument} {given!r} places windows of one size, but kernel_size {kernel_size} places "
                f"its own; leave {argument} out"
            )
    if isinstance(kernel_size, Bins):
        numbers = kernel_size.sizes
        one_for_all = numbers[0] if len(numbers) == 1 and axis is not None else None
        return make_bins(function, shape, numbers if one_for_all is None else one_for_all, axis, "kernel_size")
    if axis is None:
        raise ValueError(f"{function}: kernel_size whole needs axis; name the pooled axes, as in axis=(-2, -1)")
    return make_bins(function, shape, 1, pooled_axes(function, shape, axis), "kernel_size")


def _of_footprint(
    function: str, shape: Sequence[int], footprint: Footprint, axis: Axes | None, window: Window
) -> Window:
    """The windows of the box, with the cells that the footprint holds, its axes in the order of the array's own."""
    if axis is not None:
        footprint = footprint.in_order(np.argsort(pooled_axes(function, shape, axis)).tolist())
    return window if footprint.is_full else FootprintWindow(window.axes, footprint=footprint)


@dataclass(frozen=True)
class FootprintWindow(Window):
    """Windows that have only the cells of a footprint, whose axes are those of the window."""

    footprint: Footprint = field(kw_only=True)

    has_footprint = True

    @property
    def numbers(self) -> Sequence[int]:
        return self.footprint.numbers

    @property
    def tiles(self) -> bool:
        return False

    def split(self) -> tuple[Window, ...]:
        """The windows themselves, which are no product of windows along each axis."""
        return (self,)

    def holders(self) -> FootprintWindow:
        return FootprintWindow(super().holders().axes, footprint=self.footprint.mirrored())

    def counts(self, rank: int, *, padding: bool) -> Any:
        counts = self._counts_of_kinds(padding=padding)
        return int(counts.flat[0]) if (counts == counts.flat[0]).all() else self._of_windows(counts, rank)

    def possible_counts(self) -> tuple[int, ...]:
        return tuple(np.unique(self._counts_of_kinds(padding=False)).tolist())

    def _counts_of_kinds(self, *, padding: bool) -> np.ndarray:
        return self.footprint.sums([_present(axis, padding=padding) for axis in self.axes])

    def uncovered_axes(self) -> tuple[WindowAxis, ...]:
        return () if self._covered_kinds().all() else self.axes

    def covered(self, rank: int) -> tuple[Any, ...]:
        kinds = self._covered_kinds()
        return () if kinds.all() else (_expanded(kinds, [_kind_of_cells(axis, rank) for axis in self.axes]),)

    def _covered_kinds(self) -> np.ndarray:
        return self.footprint.sums([_holders(axis) for axis in self.axes]) > 0

    def first_real_numbers(self, rank: int) -> Any:
        """The row-major number, in the box, of the first real cell of each window; 0 if there is none."""
        numbers = self.footprint.first_numbers([_present(axis, padding=False) for axis in self.axes])
        return self._of_windows(numbers, rank)

    def _of_windows(self, values: np.ndarray, rank: int) -> Any:
        """The values of all windows, from those of each kind along the pooled axes."""
        return _expanded(values, [axis.kind(rank) for axis in self.axes])

    def check_no_window_of_padding(self, function: str, fix: str) -> None:
        counts = self.footprint.sums([_present(axis, padding=axis.extension is not None) for axis in self.axes])
        if not counts.all():
            kinds = np.unravel_index(np.argmin(counts), counts.shape)
            place = tuple(int(axis.kinds()[kind]) for axis, kind in zip(self.axes, kinds, strict=True))
            raise ValueError(
                f"{function}: window {place} along axes {self.pooled_axes} holds only padding with kernel_size "
                f"{self.footprint}; {fix}"
            )


# What differs between windows, or between cells, does so near the ends of an axis, or repeats with the stride. So it is
# computed in NumPy for one of each kind, and looked up on the device by the number of the kind.


def _present(axis: WindowAxis, *, padding: bool) -> np.ndarray:
    """Whether the cell at each offset (rows) of each kind of window (columns) is real or, with `padding`, declared."""
    cells = np.arange(axis.kernel)[:, None] * axis.dilation + axis.start(axis.kinds())
    low, high = (axis.low, axis.high) if padding else (0, 0)
    return (cells >= -low) & (cells < axis.size + high)


def _holders(axis: WindowAxis) -> np.ndarray:
    """Whether a window has a cell of each kind (columns) at each offset (rows)."""
    distances = _one_of_each(axis) + axis.low - np.arange(axis.kernel)[:, None] * axis.dilation
    return (distances >= 0) & (distances <= (axis.output - 1) * axis.stride) & (distances % axis.stride == 0)


def _one_of_each(axis: WindowAxis) -> np.ndarray:
    """Cells of all kinds: those near the ends, and one stride of those between, which repeat with it."""
    before, after = _between(axis)
    return np.r_[: min(before + axis.stride, after), after : axis.size]


def _kind_of_cells(axis: WindowAxis, rank: int) -> Any:
    """The number of the kind of each cell along an axis of an array of `rank` axes."""
    before, after = _between(axis)
    cells = numbers([axis.size if a == axis.axis else 1 for a in range(rank)], axis.axis)
    if after - before <= axis.stride:
        return cells
    repeated = before + lax.rem(jnp.maximum(cells - before, 0), np.int32(axis.stride))
    behind = cells - (after - before - axis.stride)
    return jnp.where(cells < before, cells, jnp.where(cells < after, repeated, behind))


def _between(axis: WindowAxis) -> tuple[int, int]:
    """The first cell that windows hold at all offsets, and the first one behind it that they do not."""
    before = min(axis.extent, axis.size)
    return before, min(max(before, (axis.output - 1) * axis.stride - axis.low), axis.size)


def _expanded(values: np.ndarray, kinds: Sequence[Any]) -> Any:
    """The values at these kinds along the axes of the window, each an array that broadcasts against its arrays."""
    number: Any = 0
    for kind, size in zip(kinds, values.shape, strict=True):
        number = number * size + kind
    table = values.ravel().astype(values.dtype if values.dtype == np.bool_ else np.int32)
    return jnp.take(table, number, mode="clip") if isinstance(number, jax.Array) else table[number]
