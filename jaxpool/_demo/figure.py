"""The figure: the picture pooled by every variant, and next to each where the gradient lands.

The pictures form a grid of cards, four to a row. The first card is the picture itself next to an enlarged detail of it;
the last is the legend. In every other card the left half is the whole picture pooled. The right half is the gradient
over that detail if every output sends back its own brightness, on one colour scale for all cards. A variant that
returns indices shows the cells that they name instead of the same pooled picture again. A variant whose output is as
large as the picture shows its detail. One that pools to a single cell shows the gradient over the whole picture, on its
own scale, as it would otherwise be invisible. The background is transparent, and the text is readable on white and on
black.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from jaxpool._demo.measure import Drawing
from jaxpool._demo.request import Mistake, Size

_CARDS_PER_ROW = 4
_WIDTH, _MARGIN, _GAP, _SEAM, _TITLE = 13.0, 0.06, 0.22, 0.04, 0.3  # inches
_CARD = (_WIDTH - 2 * _MARGIN - (_CARDS_PER_ROW - 1) * _GAP) / _CARDS_PER_ROW
_PANEL = (_CARD - _SEAM) / 2
_COLOURS = "magma"
INK, _BOX = "#7b7d80", "#ffd23f"  # the ink has a contrast of 4 with white and with near-black
_PIXELS_SHOWN = 1200  # more than any panel has, so that large pictures are drawn quickly
_DIMMED = 0.3  # brightness of the cells that no index names
_SPOTS = 36  # blocks along each side of a whole picture's gradient, so that a single cell is visible


def draw(picture: np.ndarray, drawings: Sequence[Drawing], size: Size, out: Path) -> None:
    """Draw all cards into the file `out`."""
    cards = _Cards(picture.shape[0] / picture.shape[1], len(drawings) + 2)
    detail = detail_of(picture.shape, size)
    landings, brightest = landings_of(drawings, detail)
    left, right = cards.panels(0, "the picture", "and a detail")
    _show(left, picture)
    corner, (tall, wide, _) = (detail[1].start, detail[0].start), picture[detail].shape
    left.add_patch(Rectangle(corner, wide, tall, fill=False, edgecolor=_BOX, linewidth=0.9))
    _show(right, picture[detail])
    for index, (drawing, landing) in enumerate(zip(drawings, landings, strict=True), 1):
        left, right = cards.panels(index, drawing.name, drawing.detail)
        show_pooled(left, drawing, picture, detail)
        show_landing(right, drawing, landing, detail, brightest)
    cards.legend(len(drawings) + 1, brightest, size)
    save(cards.figure, out)


def show_pooled(axes: Axes, drawing: Drawing, picture: np.ndarray, detail: tuple[slice, slice]) -> None:
    """Show the pooled picture, or the cells that the indices name."""
    if drawing.indices is not None:
        _show(axes, _named_cells(picture, drawing.indices)[detail])
    else:
        as_large = drawing.values.shape == picture.shape
        _show(axes, np.clip(drawing.values[detail] if as_large else drawing.values, 0, 1))


def show_landing(
    axes: Axes, drawing: Drawing, landing: np.ndarray, detail: tuple[slice, slice], brightest: float
) -> None:
    """Show where the gradient lands: in the detail, or in the whole picture if it is pooled to a single cell."""
    if drawing.values.shape[:2] == (1, 1):
        _show(axes, _spots(landing), _scale(float(landing.max()) or 1))
    else:
        _show(axes, landing[detail], _scale(brightest))


def save(figure: Figure, out: Path) -> None:
    """Write the file, or say why it cannot be written."""
    try:
        figure.savefig(out)
    except OSError as error:
        raise Mistake(f"--out {out} cannot be written: {error.strerror or error}") from None


def landings_of(drawings: Sequence[Drawing], detail: tuple[slice, slice]) -> tuple[list[np.ndarray], float]:
    """The gradients over height and width, and their largest number in the detail."""
    landings = [np.nan_to_num(drawing.landing).mean(-1) for drawing in drawings]
    return landings, max((float(landing[detail].max()) for landing in landings), default=1) or 1


def detail_of(shape: Sequence[int], size: Size) -> tuple[slice, slice]:
    """About twelve windows a side, in the picture's proportions, where a portrait has its eyes."""
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
    """The brightest cell of each block, with the same number of blocks whatever the picture's size."""
    for axis, length in enumerate(landing.shape):
        count = min(_SPOTS, length)
        landing = np.maximum.reduceat(landing, np.arange(count) * length // count, axis)
    return landing


def _scale(brightest: float) -> PowerNorm:
    # The cube root makes room for the small shares of an average next to the whole that a winner gets.
    return PowerNorm(1 / 3, 0, brightest)


def _show(axes: Axes, shown: np.ndarray, scale: PowerNorm | None = None) -> None:
    height, width = shown.shape[:2]
    step = max(1, max(shown.shape) // _PIXELS_SHOWN)
    style = {"cmap": _COLOURS, "norm": scale, "interpolation": "nearest", "aspect": "auto"}
    axes.imshow(shown[::step, ::step], extent=(0, width, height, 0), **style)


class _Cards:
    """A grid of cards as wide as the figure, in which the lengths are inches."""

    def __init__(self, proportion: float, count: int) -> None:
        # A card is high enough for the legend, however flat the picture.
        self.panel_height = max(0.75, _PANEL * proportion)
        rows = math.ceil(count / _CARDS_PER_ROW)
        height = rows * (self.panel_height + _TITLE) + _MARGIN
        self.figure = Figure((_WIDTH, height), dpi=200, facecolor="none")
        side = _MARGIN / _WIDTH
        self.figure.subplots_adjust(side, _MARGIN / height, 1 - side, 1 - _TITLE / height)
        self.grid = self.figure.add_gridspec(
            rows, _CARDS_PER_ROW, wspace=_GAP / _CARD, hspace=_TITLE / self.panel_height
        )

    def panels(self, index: int, title: str, remark: str) -> tuple[Axes, Axes]:
        """Two empty panels side by side under a title."""
        halves = self.grid[index].subgridspec(1, 2, wspace=_SEAM / _PANEL)
        left, right = (self.figure.add_subplot(halves[side]) for side in range(2))
        for axes in left, right:
            axes.set(xticks=[], yticks=[])
            # Without a frame an all-white panel would be invisible.
            axes.spines[:].set(color=INK, linewidth=0.4)
        above = 1 + 0.07 / self.panel_height
        left.text(0, above, title, va="bottom", size=9, weight="bold", color=INK, transform=left.transAxes)
        right.text(1, above, remark, va="bottom", size=8.5, ha="right", color=INK, transform=right.transAxes)
        return left, right

    def legend(self, index: int, brightest: float, size: Size) -> None:
        """Explain in a few words what is drawn, and show the colour scale."""
        card = self.figure.add_subplot(self.grid[index])
        card.set(xlim=(0, _CARD), ylim=(-self.panel_height / 2, self.panel_height / 2))
        card.axis("off")
        windows = f"{size.kernel}×{size.kernel} windows, stride {size.stride}"
        card.text(0.1, 0.35, f"left: pooled, {windows}", va="bottom", size=8.5, color=INK)
        card.text(0.1, 0.17, "right: where the gradient lands, in the detail", va="bottom", size=8.5, color=INK)
        axes = card.inset_axes((0.1, -0.13, _CARD - 0.2, 0.13), transform=card.transData)
        bar = self.figure.colorbar(ScalarMappable(_scale(brightest), _COLOURS), cax=axes, orientation="horizontal")
        bar.outline.set_visible(False)
        ticks = [0, *(float(f"{brightest * share:.1g}") for share in (0.01, 0.1, 0.4)), brightest]
        bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks], fontsize=8, color=INK)
        bar.ax.tick_params(length=2.5, color=INK)
