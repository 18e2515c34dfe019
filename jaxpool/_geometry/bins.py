"""The geometry of adaptive pooling: axes cut into a given number of bins, whose sizes may differ by one or two cells.

Bin i of m, along n cells, holds the cells u with floor(i·n/m) ≤ u < ceil((i+1)·n/m). If m divides n these are plain
windows; otherwise neighbours sometimes share a cell, which a `BinAxis` describes. Everything is computed in Python and
NumPy integers: floating point would put cells into the wrong bin.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpool._geometry.window import Window, WindowAxis, divmod_of_product, numbers
from jaxpool._sizes import Axes, OutputSizes, axes_and_sizes


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
    def is_full(self) -> bool:
        """A smaller bin lacks the last cell of the largest one."""
        return False

    @property
    def is_all_covered(self) -> bool:
        """Every cell is in a bin."""
        return True

    def start(self, window: Any) -> Any:
        """floor(i·size/bins), the first cell, for bins i, which are ints or a NumPy array."""
        return window * self.size // self.output

    def end(self, window: Any) -> Any:
        """ceil((i + 1)·size/bins), the first cell after them."""
        return -(-(window + 1) * self.size // self.output)

    def first_from(self, cell: int) -> int:
        """The first bin that starts at this cell or later, `output` if there is none."""
        return min(max(0, -(-cell * self.output // self.size)), self.output)

    def starts(self, rank: int) -> Any:
        """The first cell of every bin: a table, as products of sizes may be too large for the device."""
        return self.along(self.start(np.arange(self.output)).astype(np.int32), rank)

    def held_by(self, window: Any, *, padding: bool) -> Any:
        """The number of cells in these bins."""
        return self.end(window) - self.start(window)

    def counts(self, rank: int, *, padding: bool) -> Any:
        """The number of cells in each bin."""
        return self.along(self.held_by(np.arange(self.output), padding=padding).astype(np.int32), rank)

    def kinds(self) -> np.ndarray:
        """All bins."""
        return np.arange(self.output)

    def first_real_offsets(self, rank: int) -> Any:
        """No bin has padding."""
        return np.zeros((1,) * rank, np.int32)

    def cells(self) -> Any:
        """The cells of each bin, of shape (bins, kernel); `size` where a bin has fewer."""
        bins = np.arange(self.output)
        starts, counts = (
            each.astype(np.int32)[:, None] for each in (self.start(bins), self.held_by(bins, padding=False))
        )
        places = numbers((1, self.kernel), 1)
        return _of(places).where(places < counts, starts + places, np.int32(self.size))

    def holders(self) -> tuple[Any, Any, Any]:
        """The bins that may hold each cell, whether they do, and its place in them, of shape (most bins, cells).

        Bin o of m holds the cells of n that overlap it when both axes are drawn at the same length, so cell u is in the
        bins floor(u·m/n) ≤ o < ceil((u+1)·m/n): the formula of the bins with m and n exchanged. The first one does.
        """
        most = -(-(self.size - math.gcd(self.size, self.output) + self.output) // self.size)
        number, cell = np.arange(most, dtype=np.int32)[:, None], numbers((1, self.size), 1)
        first, rest = divmod_of_product(cell, self.output, self.size)
        of = _of(cell)
        bins = of.minimum(first + number, np.int32(self.output - 1))
        held = rest + self.output > number * self.size
        starts = self.start(np.arange(self.output)).astype(np.int32)
        places = cell - of.take(of.asarray(starts), bins, mode="clip")
        return bins, held, of.where(held, places, np.int32(0))

    def as_tiles(self) -> WindowAxis:
        """The bins as windows of one size, on an axis where they share no cells."""
        return WindowAxis(self.axis, self.output * self.kernel, self.kernel, self.stride, 1, 0, 0, self.output)

    def period(self) -> "BinAxis":
        """The first part of the axis, whose pattern of bins the rest repeats: no bin crosses its end."""
        parts = math.gcd(self.size, self.output)
        return replace(self, size=self.size // parts, output=self.output // parts)


def _of(array: Any) -> Any:
    """The library of an array."""
    return jnp if isinstance(array, jax.Array) else np


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
