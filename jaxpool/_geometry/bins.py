"""The geometry of adaptive pooling: axes cut into a given number of bins, whose sizes may differ by one or two cells.

Bin i of m, along n cells, holds the cells u with floor(i·n/m) ≤ u < ceil((i+1)·n/m). If m divides n these are plain
windows; otherwise neighbours sometimes share a cell, which a `BinAxis` describes. Everything is computed in Python and
NumPy integers: floating point would put cells into the wrong bin.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from jaxpool._geometry.sizes import Axes, OutputSizes, axes_and_sizes
from jaxpool._geometry.window import Window, WindowAxis


@dataclass(frozen=True)
class BinAxis(WindowAxis):
    """One axis in bins of unequal sizes: windows of `kernel` cells, the last of which are absent in a smaller bin.

    `kernel` and `stride` are the size of the largest bin: on an array with a separate copy of each bin, `as_tiles`, the
    bins are ordinary windows.
    """

    is_bins = True

    @property
    def overhang(self) -> int:
        """No bin needs cells beyond the axis."""
        return 0

    @property
    def starts(self) -> np.ndarray:
        """The number of the first cell of each bin."""
        return first_cells(self.size, self.output)

    def counts(self, *, padding: bool) -> np.ndarray:
        """The number of cells in each bin."""
        return last_cells(self.size, self.output) - self.starts

    def as_tiles(self) -> WindowAxis:
        """The bins as windows of one size, on an axis where they share no cells."""
        return WindowAxis(self.axis, self.output * self.kernel, self.kernel, self.stride, 1, 0, 0, self.output)

    def period(self) -> "BinAxis":
        """The first part of the axis, whose pattern of bins the rest repeats: no bin crosses its end."""
        parts = math.gcd(self.size, self.output)
        return replace(self, size=self.size // parts, output=self.output // parts)


def first_cells(size: int, bins: int) -> np.ndarray:
    """floor(i·size/bins) for every bin i."""
    return np.arange(bins) * size // bins


def last_cells(size: int, bins: int) -> np.ndarray:
    """ceil((i + 1)·size/bins) for every bin i: the first cell after it."""
    return -(-(np.arange(bins) + 1) * size // bins)


def make_bins(
    function: str, shape: Sequence[int], output_size: OutputSizes, axis: Axes | None, name: str = "output_size"
) -> Window:
    """Parse the size arguments of adaptive pooling; `function` names the caller.

    `name` is the caller's name for `output_size`.
    """
    axes, bins = axes_and_sizes(function, shape, name, output_size, axis, none_allowed=True)
    made = []
    for a, given in zip(axes, bins, strict=True):
        size, count = shape[a], shape[a] if given is None else given
        # Bin i has ⌈(n + i·n mod m)/m⌉ cells, and of i·n mod m, a multiple of gcd(n, m), the largest is m - gcd(n, m).
        kernel = -(-(size + count - math.gcd(size, count)) // count)
        made.append((WindowAxis if size % count == 0 else BinAxis)(a, size, kernel, kernel, 1, 0, 0, count))
    return Window(tuple(sorted(made, key=lambda one: one.axis)))
