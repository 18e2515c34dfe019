"""Padding that is given by a word: how many cells it adds, and which cells of the axis its copies are copies of.

"VALID" adds none, "SAME" and "SAME_LOWER" as many as make n/stride windows, rounded up, of n cells. "WRAP", "REFLECT"
and "EDGE" surround the axis by copies of its own cells, as `np.pad` has them.
"""

from typing import Any

# The words for copies of the array's own cells.
EXTENSIONS = ("WRAP", "REFLECT", "EDGE")
PADDING_WORDS = ("VALID", "SAME", "SAME_LOWER", *EXTENSIONS)


def cells_added(word: str, size: int, extent: int, stride: int) -> tuple[int, int]:
    """Cells below and above an axis of `size` cells, for windows of this extent and stride."""
    if word == "VALID":
        return 0, 0
    if word in EXTENSIONS:
        return (extent - 1) // 2, extent // 2
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    half = total // 2
    return (half, total - half) if word == "SAME" else (total - half, half)


def copied_cells(positions: Any, size: int, word: str) -> Any:
    """The cells, of `size` along an axis, that an extended axis holds at these positions, counted from the first cell.

    Outside, cells start again from the other end, are mirrored without repeating the outermost one, over and over, or
    are the outermost one. Positions are NumPy's or JAX's.
    """
    if word == "WRAP":
        return positions % size
    if word == "EDGE":
        return positions.clip(0, size - 1)
    last = size - 1
    return last - abs(last - positions % max(1, 2 * last))
