"""The argument `padding`: amounts, or words that say how many cells are added to an axis and whether they are copies.

"VALID" adds no cells; "SAME" and "SAME_LOWER" add enough for ⌈n/stride⌉ windows along n cells. With "CAUSAL" a window
ends at its cell, and with "SEMICAUSAL" with the stride that starts there, so that later cells do not matter. "WRAP",
"REFLECT", "SYMMETRIC" and "EDGE" extend the axis by copies of its own cells, as in `np.pad`: by as many as keep its
size at a stride of 1, or by given amounts.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxpool._geometry.sizes import (
    EXTENSIONS,
    PADDING_WORDS,
    PADDINGS,
    SEQUENCES,
    Padding,
    entries_of,
    integer,
    is_scalar,
)

# The names of words elsewhere.
_SYNONYMS = {"CIRCULAR": "WRAP", "REPLICATE": "EDGE"}


class AxisPadding(NamedTuple):
    """The padding of one axis: amounts below and above it, or a word that determines them, or a word with amounts."""

    word: str | None
    amounts: tuple[int, int] | None

    @property
    def extension(self) -> str | None:
        """The word, if it is one for copies."""
        return self.word if self.word in EXTENSIONS else None

    def cells_added(self, size: int, extent: int, stride: int) -> tuple[int, int]:
        """The cells added below and above an axis of `size` cells, for windows of this extent and stride."""
        if self.amounts is not None:
            return self.amounts
        if self.extension is not None:
            return (extent - 1) // 2, extent // 2
        if self.word in ("CAUSAL", "SEMICAUSAL"):
            low = extent - 1 if self.word == "CAUSAL" else max(extent - stride, 0)
            return low, extent - 1 - low
        total = 0 if self.word == "VALID" else max((-(-size // stride) - 1) * stride + extent - size, 0)
        half = total // 2
        return (total - half, half) if self.word == "SAME_LOWER" else (half, total - half)


def paddings(function: str, padding: Padding, count: int) -> tuple[AxisPadding, ...]:
    """The padding of each of `count` axes."""
    if isinstance(padding, str):
        return (AxisPadding(_word(function, padding), None),) * count
    entries = (padding,) * count if is_scalar(padding) else entries_of(function, "padding", padding, count)
    return tuple(_of_axis(function, entry) for entry in entries)


def _of_axis(function: str, entry: Any) -> AxisPadding:
    if isinstance(entry, str) and _known(entry) is not None:
        return AxisPadding(_word(function, entry), None)
    if isinstance(entry, Sequence) and not isinstance(entry, str) and entry and isinstance(entry[0], str):
        word = _word(function, entry[0])
        if word not in EXTENSIONS:
            raise ValueError(
                f"{function}: padding entry {entry!r}: {word!r} itself says how many cells it adds; write {word!r}, or "
                f"its amounts alone"
            )
        if len(entry) != 2:
            raise ValueError(
                f"{function}: padding entry {entry!r} must be a word and its amounts, an int or a (low, high) pair, as "
                f"in {(word, (2, 1))}"
            )
        return AxisPadding(word, _amounts(function, entry[1]))
    return AxisPadding(None, _amounts(function, entry))


def _amounts(function: str, given: Any) -> tuple[int, int]:
    pair: Any = (given, given) if is_scalar(given) else given
    if isinstance(pair, str) or not isinstance(pair, SEQUENCES):
        raise TypeError(f"{function}: padding entry {given!r} must be an int or a (low, high) pair, or a known word")
    pair = tuple(integer(function, "padding", one, least=0) for one in pair)
    if len(pair) != 2:
        raise ValueError(f"{function}: padding entry {pair} must be an int or a (low, high) pair")
    return pair


def _word(function: str, given: str) -> str:
    """The word in upper case, or raise if there is none."""
    word = _known(given)
    if word is not None and word == given.upper():
        return word
    fix = f"use {PADDINGS}" if word is None else f"write padding={word!r}"
    raise ValueError(f"{function}: padding {given!r} is unknown; {fix}")


def _known(given: str) -> str | None:
    """The word that is meant; None if there is none."""
    word = _SYNONYMS.get(given.upper(), given.upper())
    return word if word in PADDING_WORDS else None


def copied_cells(positions: Any, size: int, word: str) -> Any:
    """The cells of an axis of this size that its extension holds at these positions, counted from the first cell.

    Outside, cells continue from the other end ("WRAP"), repeat the outermost one ("EDGE"), or are mirrored repeatedly,
    with the outermost one ("SYMMETRIC") or without it ("REFLECT"). Positions are a NumPy or JAX array.
    """
    if word == "WRAP":
        return positions % size
    if word == "EDGE":
        return positions.clip(0, size - 1)
    last = size - 1
    if word == "SYMMETRIC":
        # The distance from the middle of a period, in half cells: both cells beside it have 1.
        return last - abs(2 * size - 1 - 2 * (positions % (2 * size))) // 2
    return last - abs(last - positions % max(1, 2 * last))
