"""The figure: the picture pooled by every variant, and beside each where the gradient lands.

The pictures stand in a grid of cards, four to a row. The first card is the picture itself beside an enlarged
detail of it; in every other card the left half is the whole picture pooled and the right half the gradient over
that same detail, when every output sends its own brightness back, all on one colour scale; the last card is the
legend. A variant that returns indices shows the cells it names in place of the same pooled picture again, one whose
output is as large as the picture shows its detail, and one that pools to a single cell the gradient over the whole
picture, on a scale of its own: elsewhere it would be invisible.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from jaxpool._demo.measure import Drawing
from jaxpool._demo.request import Mistake, Size

Detail = tuple[slice, slice]

_CARDS_PER_ROW = 4
_WIDTH, _MARGIN, _GAP, _SEAM, _TITLE = 13.0, 0.06, 0.22, 0.04, 0.3  # inches
_COLOURS = "magma"
_INK, _FAINT, _BOX = "#1a1a1a", "#666666", "#ffd23f"
_PIXELS_SHOWN = 1200  # more than any panel has, so that large pictures are drawn quickly
_DIMMED = 0.3  # brightness of the cells that no index names
_SPOTS = 36  # along each side of a whole picture's gradient, so that a single cell is large enough to be seen


def draw(picture: np.ndarray, drawings: Sequence[Drawing], size: Size, out: Path) -> None:
    """Draw all cards into the file `out`."""
    rows = math.ceil((len(drawings) + 2) / _CARDS_PER_ROW)
    layout = _Layout(picture.shape[0] / picture.shape[1], rows)
    detail = _detail(picture.shape, size)
    landings = [np.nan_to_num(drawing.landing).mean(-1) for drawing in drawings]
    # The cube root makes room for the small shares of an average beside the whole that a winner gets.
    brightest = max((float(landing[detail].max()) for landing in landings), default=1) or 1
    scale = PowerNorm(1 / 3, 0, brightest)

    left, right = layout.card(0, "the picture", "and a detail")
    _show_whole(left, picture)
    _outline(left, detail, picture.shape)
    _show_detail(right, picture[detail])
    for index, (drawing, landing) in enumerate(zip(drawings, landings, strict=True)):
        left, right = layout.card(1 + index, drawing.name, drawing.detail)
        if drawing.indices is not None:
            _show_detail(left, _named_cells(picture, drawing.indices)[detail])
        elif drawing.values.shape == picture.shape:
            _show_detail(left, np.clip(drawing.values[detail], 0, 1))
        else:
            _show_whole(left, np.clip(drawing.values, 0, 1))
        if drawing.values.shape[:2] == (1, 1):
            _show_landing(right, _spots(landing), PowerNorm(1 / 3, 0, float(landing.max()) or 1))
        else:
            _show_landing(right, landing[detail], scale)
    layout.legend(1 + len(drawings), scale, brightest, size)
    try:
        layout.figure.savefig(out)
    except OSError as error:
        raise Mistake(f"--out {out} cannot be written: {error.strerror or error}") from None


def _detail(shape: Sequence[int], size: Size) -> Detail:
    """Some twelve windows a side, in the picture's proportions, where a portrait has its eyes."""
    height, width = shape[:2]
    wide = min(width, max(12 * size.kernel, 48))
    tall = min(height, max(1, round(wide * height / width)))
    # Starting at a window's first cell keeps the windows whole.
    top = max(0, height // 3 - tall // 2) // size.stride * size.stride
    left = max(0, (width - wide) // 2) // size.stride * size.stride
    return slice(top, top + tall), slice(left, left + wide)


def _named_cells(picture: np.ndarray, indices: np.ndarray) -> np.ndarray:
    cells = picture.reshape(-1, picture.shape[2])
    shown, flat = _DIMMED * cells, indices.reshape(-1, picture.shape[2])
    np.put_along_axis(shown, flat, np.take_along_axis(cells, flat, 0), 0)
    return shown.reshape(picture.shape)


def _spots(landing: np.ndarray) -> np.ndarray:
    """The brightest cell of each of some blocks, whichever the picture's size."""
    for axis, length in enumerate(landing.shape):
        count = min(_SPOTS, length)
        landing = np.maximum.reduceat(landing, np.arange(count) * length // count, axis)
    return landing


def _show_whole(axes: Axes, shown: np.ndarray) -> None:
    step = max(1, max(shown.shape) // _PIXELS_SHOWN)
    axes.imshow(shown[::step, ::step], interpolation="nearest", aspect="auto", extent=(0, 1, 1, 0))


def _outline(axes: Axes, detail: Detail, shape: Sequence[int]) -> None:
    (top, bottom), (left, right) = (
        (cells.start / length, cells.stop / length) for cells, length in zip(detail, shape, strict=False)
    )
    axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=_BOX, linewidth=0.9))


def _show_detail(axes: Axes, shown: np.ndarray) -> None:
    axes.imshow(shown, interpolation="nearest", aspect="auto", vmin=0, vmax=1)


def _show_landing(axes: Axes, landing: np.ndarray, scale: PowerNorm) -> None:
    axes.imshow(landing, cmap=_COLOURS, norm=scale, interpolation="nearest", aspect="auto")


class _Layout:
    """A grid of cards, measured in inches from the top left corner of the figure."""

    def __init__(self, proportion: float, rows: int) -> None:
        inner = _WIDTH - 2 * _MARGIN - (_CARDS_PER_ROW - 1) * _GAP
        self.panel_width = (inner / _CARDS_PER_ROW - _SEAM) / 2
        # However flat the picture, a card stays high enough for the legend.
        self.panel_height = max(0.75, self.panel_width * proportion)
        self.row_height = self.panel_height + _TITLE
        self.height = rows * self.row_height + _MARGIN
        self.figure = Figure((_WIDTH, self.height), dpi=200, facecolor="white")
        FigureCanvasAgg(self.figure)

    def card(self, index: int, title: str, remark: str) -> tuple[Axes, Axes]:
        """Two empty panels side by side under a title."""
        left, top = self._corner(index)
        self._text(left, top - 0.07, title, 9, _INK, fontweight="bold")
        self._text(left + 2 * self.panel_width + _SEAM, top - 0.07, remark, 8.5, _FAINT, ha="right")
        return self._panel(left, top), self._panel(left + self.panel_width + _SEAM, top)

    def legend(self, index: int, scale: PowerNorm, brightest: float, size: Size) -> None:
        """In a few words what is drawn, and the colour scale."""
        left, top = self._corner(index)
        middle = top + self.panel_height / 2
        width = 2 * self.panel_width + _SEAM
        windows = f"{size.kernel}×{size.kernel} windows, stride {size.stride}"
        self._text(left + 0.1, middle - 0.35, f"left: pooled, {windows}", 8.5, _INK)
        self._text(left + 0.1, middle - 0.17, "right: where the gradient lands, in the detail", 8.5, _INK)
        axes = self.figure.add_axes(self._place(left + 0.1, middle, width - 0.2, 0.13))
        bar = self.figure.colorbar(ScalarMappable(scale, _COLOURS), cax=axes, orientation="horizontal")
        bar.outline.set_visible(False)
        ticks = [0, *(float(f"{brightest * share:.1g}") for share in (0.01, 0.1, 0.4)), brightest]
        bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks], fontsize=8, color=_FAINT)
        bar.ax.tick_params(length=2.5, color=_FAINT)

    def _corner(self, index: int) -> tuple[float, float]:
        row, column = divmod(index, _CARDS_PER_ROW)
        left = _MARGIN + column * (2 * self.panel_width + _SEAM + _GAP)
        return left, row * self.row_height + _TITLE

    def _panel(self, left: float, top: float) -> Axes:
        axes = self.figure.add_axes(self._place(left, top, self.panel_width, self.panel_height))
        axes.set(xticks=[], yticks=[])
        # Without a frame a panel that is all white is no panel.
        axes.spines[:].set(color=_FAINT, linewidth=0.4)
        return axes

    def _place(self, left: float, top: float, width: float, height: float) -> tuple[float, float, float, float]:
        return left / _WIDTH, 1 - (top + height) / self.height, width / _WIDTH, height / self.height

    def _text(self, left: float, bottom: float, text: str, points: float, colour: str, **style: str) -> None:
        at_left, at_bottom = left / _WIDTH, 1 - bottom / self.height
        self.figure.text(at_left, at_bottom, text, {"va": "bottom", **style}, fontsize=points, color=colour)
