"""Windows given as values in place of sizes: bins, whole axes and footprints, and what each makes of an array.

They are small frozen values, so that a call with one is compiled once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxpool._geometry.bins import make_bins
from jaxpool._geometry.footprint import Footprint, FootprintWindow
from jaxpool._geometry.sizes import Axes, Padding, Sizes, pooled_axes, sizes
from jaxpool._geometry.window import Window, make_window


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


def parse_bins(given: Sequence[Any]) -> Bins:
    """The bins, or raise if there is none or a number is no int."""
    if not given:
        raise ValueError("bins: no size is given; give one for each pooled axis, as in bins(7, 7)")
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        raise TypeError(f"bins: size must be an int, got {given[0]!r}; write bins{(*given[0],)}")
    return Bins(sizes("bins", "size", given, None, least=1, none_allowed=True))


def make_windows(
    function: str,
    shape: Sequence[int],
    kernel_size: Bins | Whole | Footprint,
    stride: Sizes | None,
    padding: Padding,
    dilation: Sizes,
    ceil_mode: bool,
    axis: Axes | None,
    **options: Any,
) -> Window:
    """Parse the size arguments of a windowed pool with a value in place of sizes; `options` are for `make_window`."""
    if isinstance(kernel_size, Footprint):
        window = make_window(function, shape, kernel_size.shape, stride, padding, dilation, ceil_mode, axis, **options)
        return _of_footprint(function, shape, kernel_size, axis, window)
    arguments: tuple[tuple[str, Any, Any], ...] = (
        ("stride", stride, None),
        ("padding", padding, 0),
        ("dilation", dilation, 1),
        ("ceil_mode", ceil_mode, False),
    )
    for name, given, default in arguments:
        if type(given) is not type(default) or given != default:
            raise ValueError(
                f"{function}: {name} {given!r} places windows of one size, but kernel_size {kernel_size} places its "
                f"own; leave {name} out"
            )
    if isinstance(kernel_size, Bins):
        given = kernel_size.sizes
        one_for_all = given[0] if len(given) == 1 and axis is not None else None
        return make_bins(function, shape, given if one_for_all is None else one_for_all, axis, "kernel_size")
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
