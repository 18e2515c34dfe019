"""What goes in the place of a `kernel_size`, besides sizes: bins, whole axes and footprints, and the windows they make.

They are small frozen values, so that a call with one is compiled once. A footprint says which cells of a box are in a
window. The offsets of cells, and their row-major numbers, are those in the box. Where a cell of it is real depends on
one axis at a time, so what there is to know of all windows are sums of products of one matrix for each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxpool._checks import as_jax_takes, check_no_mask
from jaxpool._sizes import Sizes, pooled_axes
from jaxpool._sizes import sizes as parse_sizes
from jaxpool._window import Window, make_bins, make_window


@dataclass(frozen=True, repr=False)
class Bins:
    """A number of bins for each pooled axis, None for one that is kept; a single number is for every axis."""

    sizes: tuple[int | None, ...]

    def __repr__(self) -> str:
        return f"bins({', '.join(map(str, self.sizes))})"


@dataclass(frozen=True, repr=False)
class Whole:
    """The whole of every pooled axis as a `kernel_size`: one window over all of it, as in global pools.

    Every pool with a `kernel_size` and a `stride` takes it, except blurs. It is a value, not a function, and needs
    `axis`; leave out `stride`, `padding`, `dilation` and `ceil_mode`. The pooled axes remain, with size 1: remove them
    by an index, as in y[:, 0], or by jnp.squeeze(y, axis).

    Derivative:
        That of the pool, over all cells of the pooled axes.

    Example:
        >>> x = jnp.array([[[1.0, 2.0], [5.0, 4.0], [9.0, 9.0]]])  # batch, time, channels
        >>> present = jnp.array([True, True, False])[:, None]
        >>> jaxpool.std_pool(x, jaxpool.whole, axis="NTC", where=present)[:, 0]
        Array([[2., 1.]], dtype=float32)
    """

    def __repr__(self) -> str:
        return "whole"


@dataclass(frozen=True, repr=False)
class Footprint:
    """A box of this shape, and for each of its cells a byte in row-major order: 1 for those that are in the window."""

    shape: tuple[int, ...]
    cells: bytes

    def __repr__(self) -> str:
        return f"footprint({'×'.join(map(str, self.shape))}, {len(self.numbers)} cells)"

    @classmethod
    def of(cls, held: np.ndarray) -> Footprint:
        """The footprint of these cells."""
        return cls(held.shape, held.tobytes())

    @cached_property
    def held(self) -> np.ndarray:
        """Which cells are in the window, as a bool array."""
        return np.frombuffer(self.cells, np.bool_).reshape(self.shape)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The row-major numbers, in the box, of the cells."""
        return tuple(np.flatnonzero(self.held).tolist())

    def mirrored(self) -> Footprint:
        """The footprint in the opposite direction along every axis."""
        return Footprint.of(np.flip(self.held))


KernelSize = Sizes | Bins | Whole | Footprint
# Those that are values in place of sizes.
VALUES = (Bins, Whole, Footprint)

whole: Whole = Whole()


def bins(*sizes: int | None) -> Bins:
    """Bins as a `kernel_size` (adaptive pooling): each pooled axis is split into this many, whatever its length.

    Bin i of m, along n cells, holds the cells u with floor(i·n/m) ≤ u < ceil((i+1)·n/m), as in PyTorch. Every pool with
    a `kernel_size` and a `stride` takes bins, except blurs. With bins, leave out `stride`, `padding`, `dilation` and
    `ceil_mode`.

    Args:
        sizes: The number of bins, one int per pooled axis, in the order of `axis`: bins(7, 7) pools two axes. It may
            exceed the number of cells; None keeps an axis as it is. A single int applies to every axis in `axis`.

    Returns:
        An immutable object; equal sizes give equal bins. The pooled axes of the output have these sizes.

    Raises:
        TypeError: a number is not an int.
        ValueError: there is no number, or one is less than 1.

    Derivative:
        That of the pool, over the cells of each bin; neighbouring bins may share a cell, which then gets both shares.

    Example:
        >>> jaxpool.max_pool(jnp.array([1.0, 2.0, 5.0, 4.0, 3.0]), jaxpool.bins(3))
        Array([2., 5., 4.], dtype=float32)
        >>> jaxpool.lp_pool(jnp.ones((1, 16, 16, 3)), 2, jaxpool.bins(2, 2), axis="NHWC").shape
        (1, 2, 2, 3)
    """
    if not sizes:
        raise ValueError("bins: no size is given; give one for each pooled axis, as in bins(7, 7)")
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        raise TypeError(f"bins: size must be an int, got {sizes[0]!r}; write bins{(*sizes[0],)}")
    return Bins(parse_sizes("bins", "size", sizes, None, least=1, none_allowed=True))


def footprint(cells: ArrayLike | Sequence[Any]) -> Footprint:
    """A footprint as a `kernel_size`: a window of any shape, such as a disk or a cross.

    The window is a box of the shape of `cells` without its False cells, which never win, add nothing and count in no
    divisor, not even in the padding. Every pool with a `kernel_size` and a `stride` takes a footprint, except blurs.
    All other arguments mean what they mean for the box; `stride`, for example, defaults to its shape.

    Args:
        cells: Bool array, with an axis for each pooled axis, in the order of `axis`. Make it with NumPy: an array that
            `jnp` makes inside `jax.jit` is traced, which is an error.

    Returns:
        An immutable object; equal arrays give equal footprints. The output has the same shape as for the full box.

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
        raise ValueError(f"{function}: {name} has rows of different lengths; fill them with False") from None
    if array.dtype != np.bool_:
        raise TypeError(f"{function}: {name} must be bool, got dtype {array.dtype}; compare it, as in {name} != 0")
    if not array.ndim:
        raise ValueError(f"{function}: {name} has no axes; give an array with an axis for each pooled axis")
    if not array.any():
        raise ValueError(f"{function}: {name} of shape {array.shape}: all False; set at least one to True")
    return Footprint.of(array)


def make_windows(
    function: str, shape: Sequence[int], given: Sequence[Any], name: str, remedies: Sequence[str]
) -> Window:
    """Parse sizes as `make_window` does, with a value of `VALUES` in place of kernel_size."""
    kernel_size, *others, axis = given
    if isinstance(kernel_size, Footprint):
        window = make_window(function, shape, (kernel_size.shape, *others, axis), name, remedies)
        if kernel_size.held.all():
            return window
        if axis is not None:
            # Its axes in the order of the array's own.
            order = np.argsort(pooled_axes(function, shape, axis))
            kernel_size = Footprint.of(kernel_size.held.transpose(order))
        return FootprintWindow(window.axes, footprint=kernel_size)
    arguments = ("stride", "padding", "dilation", "ceil_mode")
    for argument, value, default in zip(arguments, others, (None, 0, 1, False), strict=True):
        if type(value) is not type(default) or value != default:
            raise ValueError(
                f"{function}: {argument} {value!r} places windows of one size, but kernel_size {kernel_size} places "
                f"its own; leave {argument} out"
            )
    if isinstance(kernel_size, Whole) and axis is None:
        raise ValueError(f"{function}: kernel_size whole needs axis; name the pooled axes, as in axis=(-2, -1)")
    numbers: Any = (1,) if isinstance(kernel_size, Whole) else kernel_size.sizes
    # A single int applies to every axis that is named.
    numbers = numbers if axis is None or len(numbers) > 1 or numbers[0] is None else numbers[0]
    return make_bins(function, shape, numbers, axis, "kernel_size")


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
        counts = self._counts_of_kinds(padding).astype(np.int32)
        if (counts == counts.flat[0]).all():
            return int(counts.flat[0])
        kinds = tuple(axis.kind(rank) for axis in self.axes)
        on_device = any(isinstance(each, jax.Array) for each in kinds)
        return jnp.asarray(counts).at[kinds].get(mode="clip") if on_device else counts[kinds]

    def possible_counts(self) -> tuple[int, ...]:
        return tuple(np.unique(self._counts_of_kinds(False)).tolist())

    # What differs between windows does so near the ends of an axis. So it is computed in NumPy for one of each kind,
    # and looked up on the device by the number of the kind.

    def _counts_of_kinds(self, padding: bool) -> np.ndarray:
        """The cells in one window of each kind that are real or, with `padding`, in the declared padding."""
        total = self.footprint.held.astype(np.int64)
        for axis in self.axes:
            low, high = (axis.low, axis.high) if padding else (0, 0)
            # At each offset (rows) of each kind of window (columns).
            cells = np.arange(axis.kernel)[:, None] * axis.dilation + axis.start(axis.kinds())
            present = (cells >= -low) & (cells < axis.size + high)
            total = np.tensordot(total, present.astype(np.int64), (0, 0))
        return total

    def covered(self, rank: int) -> tuple[Any, ...]:
        covered = np.zeros([axis.size for axis in self.axes], bool)
        for offsets in np.argwhere(self.footprint.held).tolist():
            covered[tuple(axis.cells_at(offset) for axis, offset in zip(self.axes, offsets, strict=True))] = True
        sizes = {axis.axis: axis.size for axis in self.axes}
        return () if covered.all() else (covered.reshape([sizes.get(axis, 1) for axis in range(rank)]),)

    def check_no_window_of_padding(self, function: str, fix: str) -> None:
        counts = self._counts_of_kinds(False)
        if not counts.all():
            kinds = np.unravel_index(np.argmin(counts), counts.shape)
            place = tuple(int(axis.kinds()[kind]) for axis, kind in zip(self.axes, kinds, strict=True))
            raise ValueError(
                f"{function}: window {place} along axes {self.pooled_axes} holds only padding with kernel_size "
                f"{self.footprint}; {fix}"
            )
