"""The figure: a detail of the picture pooled by every variant, and below each where the gradient lands.

All variants pool the same few cells, so that every window can be seen. A card shows the pooled detail, and below it the
detail itself with the gradient of the sum of all outputs on top, on a scale of its own: orange cells raise the sum,
blue ones lower it. Lines are drawn between the windows where each output is one of them. A variant that returns indices
shows the cells that they name in place of the same pooled detail again. The picture and the detail come first; some
cards are large, the others follow in rows of small ones. The background is transparent, and the text is readable on
white and on black.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from examples.demonstration.measure import Drawing
from examples.demonstration.picture import Detail
from examples.demonstration.size import Mistake, Size

_INK, _BOX = "#7b7d80", "#ffd23f"  # the ink has a contrast of 4 with white and with near-black
_RAISES, _LOWERS = np.array((1, 0.55, 0.1)), np.array((0.25, 0.6, 1))
_DIMMED = 0.35  # brightness below a gradient, and of the cells that no index names

# In inches, and points for text.
_LARGE, _LARGE_ROW, _GAP, _RESOLUTION = 2.0, 4, 0.16, 130
_SMALL_ROW = 9
_WIDTH = (_LARGE_ROW + 1) * (_LARGE + _GAP)
_SMALL = _WIDTH / _SMALL_ROW - _GAP
_LARGE_TITLE, _SMALL_TITLE = 0.42, 0.28
_LARGE_TEXT, _SMALL_TEXT = 10, 6.5
_EXPLANATION = """Above: the detail pooled or,
where a pool returns indices,
the cells that they name.

Below: the gradient of the sum
of all outputs over the detail,
each on a scale of its own;
orange is positive, blue negative."""
_INDICES = "_with_indices"


def draw(
    picture: np.ndarray, detail: Detail, large: Sequence[Drawing], small: Sequence[Drawing], size: Size, out: Path
) -> None:
    """Draw the picture, its detail and all cards into a file."""
    large_rows, small_rows = math.ceil(len(large) / _LARGE_ROW), math.ceil(len(small) / _SMALL_ROW)
    large_row, small_row = _LARGE_TITLE + 2 * _LARGE + 2 * _GAP, _SMALL_TITLE + 2 * _SMALL + 1.5 * _GAP
    sheet = _Sheet(large_rows * large_row + small_rows * small_row, detail, size)
    sheet.original(picture)
    if large_rows > 1:
        sheet.text(0, large_row + _LARGE_TITLE + 1.5, _EXPLANATION, 0.9 * _LARGE_TEXT)
    for number, drawing in enumerate(large):
        row, column = divmod(number, _LARGE_ROW)
        left, top = (column + 1) * (_LARGE + _GAP), row * large_row + _LARGE_TITLE
        sheet.card(drawing, left, top, _LARGE, _LARGE_TEXT)
    for number, drawing in enumerate(small):
        row, column = divmod(number, _SMALL_ROW)
        left, top = column * (_SMALL + _GAP), large_rows * large_row + row * small_row + _SMALL_TITLE
        sheet.card(drawing, left, top, _SMALL, _SMALL_TEXT)
    try:
        sheet.figure.savefig(out)
    except OSError as error:
        raise Mistake(f"--out {out} cannot be written: {error.strerror or error}") from None


class _Sheet:
    """A figure with panels and text at places in inches from the upper left corner."""

    def __init__(self, height: float, detail: Detail, size: Size) -> None:
        self._height, self._detail, self._size = height, detail, size
        self.figure = Figure((_WIDTH, height), dpi=_RESOLUTION, facecolor="none")

    def text(self, left: float, bottom: float, text: str, size: float, weight: str = "normal") -> None:
        style = {"size": size, "weight": weight, "color": _INK, "va": "bottom"}
        self.figure.text((left + _GAP / 2) / _WIDTH, 1 - bottom / self._height, text, style)

    def original(self, picture: np.ndarray) -> None:
        """The picture, with the detail marked, and the detail below it."""
        upper, lower = self._panels(0, _LARGE_TITLE, _LARGE, "the picture", "and a detail", _LARGE_TEXT)
        upper.imshow(picture)
        side = self._detail.step * len(self._detail.cells)
        corner = self._detail.left, self._detail.top
        upper.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=_BOX, linewidth=1.2))
        self._show(lower, self._detail.cells[..., 0])

    def card(self, drawing: Drawing, left: float, top: float, side: float, text: float) -> None:
        """What one variant makes of the detail, and its gradient."""
        cells, size = self._detail.cells[..., 0], self._size
        windows = (len(cells) - size.kernel) // size.stride + 1
        lines = drawing.values.shape[:2] == (windows, windows)
        module, _, name = drawing.name.rpartition(".")
        suffix = _INDICES if name.endswith(_INDICES) else ""
        remark = ", ".join(filter(None, (module, suffix, drawing.detail)))
        pooled, landed = self._panels(left, top, side, name.removesuffix(suffix), remark, text)
        named = None if drawing.indices is None else _named_cells(cells, drawing.indices)
        self._show(pooled, drawing.values[..., 0] if named is None else named, lines)
        self._show(landed, _landed(cells, drawing.landing[..., 0]), lines)

    def _panels(self, left: float, top: float, side: float, name: str, remark: str, text: float) -> list[Axes]:
        """Two empty squares, one below the other, under a name and a remark."""
        self.text(left, top - 0.021 * text, name, text, "bold")
        self.text(left, top - 0.005 * text, remark, 0.9 * text)
        panels: list[Axes] = []
        for bottom in (top + side, top + 2 * side + _GAP / 2):
            place = (left + _GAP / 2) / _WIDTH, 1 - bottom / self._height, side / _WIDTH, side / self._height
            axes = self.figure.add_axes(place, xticks=[], yticks=[], anchor="NW")
            # Without a frame an all-white panel would be invisible.
            axes.spines[:].set(color=_INK, linewidth=0.4)
            panels.append(axes)
        return panels

    def _show(self, axes: Axes, shown: np.ndarray, lines: bool = True) -> None:
        """Stretch an array over the square, in grey if it has no colours, with lines between the windows."""
        cells = len(self._detail.cells)
        axes.imshow(shown, "gray", vmin=0, vmax=1, extent=(0, cells, cells, 0), interpolation="nearest")
        for start in range(self._size.stride, cells, self._size.stride) if lines else ():
            axes.axhline(start, color=_BOX, linewidth=0.5, alpha=0.6)
            axes.axvline(start, color=_BOX, linewidth=0.5, alpha=0.6)


def _named_cells(cells: np.ndarray, indices: np.ndarray) -> np.ndarray:
    named = np.isin(np.arange(cells.size), indices).reshape(cells.shape)
    return np.where(named, cells, _DIMMED * cells)


def _landed(cells: np.ndarray, landing: np.ndarray) -> np.ndarray:
    """The cells, dimmed, and the more coloured the larger their share of the largest slope is."""
    share = np.nan_to_num(landing) / (np.nanmax(np.abs(landing)) or 1)
    colours, strength = np.where(share[..., None] > 0, _RAISES, _LOWERS), np.abs(share)[..., None]
    return (1 - strength) * _DIMMED * cells[..., None] + strength * colours
