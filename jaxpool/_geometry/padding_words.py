"""Padding given by a word: how many cells it adds, and which cells of the axis the added cells copy.

"VALID" adds none; "SAME" and "SAME_LOWER" add enough for ⌈n/stride⌉ windows along n cells. "WRAP", "REFLECT" and "EDGE"
surround the axis by copies of its own cells, as in `np.pad`.
"""

from typing import Any

# The words for copies of the array's own cells.
EXTENSIONS = ("WRAP", "REFLECT", "EDGE")
PADDING_WORDS = ("VALID", "SAME", "SAME_LOWER", *EXTENSIONS)


def cells_added(word: str, size: int, extent: int, stride: int) -> tuple[int, int]:
    """The cells added below and above an axis of `size` cells, for windows of this extent and stride."""
    if word == "VALID":
        return 0, 0
    if word in EXTENSIONS:
        return (extent - 1) // 2, extent // 2
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    half = total // 2
    return (half, total - half) if word == "SAME" else (total - half, half)


def copied_cells(positions: Any, size: int, word: str) -> Any:
    """The cells of an axis of this size that its extension holds at these positions, counted from the first cell.

    Outside, cells continue from the other end, are mirrored repeatedly without repeating the outermost one, or repeat
    the outermost one. Positions are a NumPy or JAX array.
    """
    if word == "WRAP":
        return positions % size
    if word == "EDGE":
        return positions.clip(0, size - 1)
    last = size - 1
    return last - abs(last - positions % max(1, 2 * last))
