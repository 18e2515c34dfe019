"""What goes in the place of a `kernel_size`, besides sizes: bins, whole axes and footprints, and the windows they make.

They are small frozen values, so that a call with one is compiled once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from jaxpool._geometry.footprint import Footprint, FootprintWindow, make_footprint
from jaxpool._sizes import Axes, Padding, Sizes, pooled_axes
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
    """One window over the whole of every axis."""

    def __repr__(self) -> str:
        return "whole"


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
