"""Dilations and erosions cell by cell, from their definition: values, and what each passes to cells and heights.

An element is an array of heights, -inf where it holds no cell: of one height for a flat one. A winner is the first cell
in row-major order that no other one beats; NaN beats numbers.
"""

from typing import NamedTuple

import numpy as np


class Reference(NamedTuple):
    """The values, and for each its winner among the cells and among the heights, or None where there is no cell."""

    values: np.ndarray
    winners: dict[tuple[int, ...], tuple[tuple[int, ...], tuple[int, ...]] | None]

    def backward(self, cotangent: np.ndarray, shape: tuple[int, ...], sign: int) -> tuple[np.ndarray, np.ndarray]:
        """The cotangents of the cells, and of the heights, of this shape."""
        cells, heights = np.zeros(self.values.shape), np.zeros(shape)
        for place, winner in self.winners.items():
            if winner is not None:
                cells[winner[0]] += cotangent[place]
                heights[winner[1]] += sign * cotangent[place]
        return cells, heights


def extremes(x: np.ndarray, heights: np.ndarray, sign: int, mask: np.ndarray | None = None) -> Reference:
    """The dilation (sign 1) or the erosion (sign -1) of x along all axes."""
    centre = np.array(heights.shape) // 2
    values, winners = np.zeros(x.shape), {}
    for place in np.ndindex(x.shape):
        candidates = []
        for offset in np.ndindex(heights.shape):
            cell = tuple(np.array(place) + sign * (centre - offset))
            inside = all(0 <= c < size for c, size in zip(cell, x.shape, strict=True))
            if inside and heights[offset] != -np.inf and (mask is None or mask[cell]):
                candidates.append((cell, offset, sign * x[cell] + heights[offset]))
        candidates.sort(key=lambda each: each[0])
        sums = [each[2] for each in candidates]
        winners[place] = candidates[int(np.argmax(sums))][:2] if candidates else None
        values[place] = sign * sums[int(np.argmax(sums))] if candidates else 0
    return Reference(values, winners)
