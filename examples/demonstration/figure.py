"""The figure: the picture pooled by every variant, and next to each where the gradient lands.

The pictures form a grid of cards of two panels. The first card is the picture itself next to an enlarged detail of it;
the last is the legend. In every other card the left panel is the whole picture pooled. The right one is the gradient
over that detail if every output sends back its own brightness, on one colour scale for all cards. A variant that
returns indices shows the cells that they name instead of the same pooled picture again. A variant whose output is as
large as the picture shows its detail. One that pools to a single cell shows the gradient over the whole picture, on its
own scale, as it would otherwise be invisible. A few pools that the user chose have larger cards, with the gradient
below, and no others beside them. The background is transparent, and the text is readable on white and on black.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from examples.demonstration.measure import Drawing
from examples.demonstration.size import Mistake, Size

_COLOURS = "magma"
_INK, _BOX = "#7b7d80", "#ffd23f"  # the ink has a contrast of 4 with white and with near-black
_PIXELS_SHOWN = 1200  # more than any panel has, so that large pictures are drawn quickly
_DIMMED = 0.3  # brightness of the cells that no index names
_SPOTS = 36  # blocks along each side of a whole picture's gradient, so that a single cell is visible


@dataclass(frozen=True)
class _Layout:
    """A card's two panels, side by side or stacked, under a line of text: lengths in inches, text sizes in points."""

    panel: float
    seam: float
    gap: float
    margin: float
    title: float
    sizes: tuple[float, float]
    stacked: bool
    resolution: int


_CARDS_PER_ROW = 4
_ALL = _Layout(1.5075, 0.04, 0.22, 0.06, 0.3, (9, 8.5), False, 200)
_FEW = _Layout(3.1, 0.1, 0.1, 0.1, 0.34, (12, 10), True, 130)


def draw(picture: np.ndarray, drawings: Sequence[Drawing], size: Size, out: Path, *, few: bool) -> None:
    """Draw all cards into the file `out`, or only those of a few pools."""
    cards = _Cards(_FEW if few else _ALL, picture.shape[0] / picture.shape[1], len(drawings) + (0 if few else 2))
    detail = _detail_of(picture.shape, size)
    landings = [np.nan_to_num(drawing.landing).mean(-1) for drawing in drawings]
    brightest = max(float(landing[detail].max()) for landing in landings) or 1
    if not few:
        whole, enlarged = cards.panels("the picture", "and a detail")
        _show(whole, picture)
        corner, (tall, wide, _) = (detail[1].start, detail[0].start), picture[detail].shape
        whole.add_patch(Rectangle(corner, wide, tall, fill=False, edgecolor=_BOX, linewidth=0.9))
        _show(enlarged, picture[detail])
    for drawing, landing in zip(drawings, landings, strict=True):
        pooled, landed = cards.panels(drawing.name, drawing.detail)
        if drawing.indices is not None:
            _show(pooled, _named_cells(picture, drawing.indices)[detail])
        else:
            as_large = drawing.values.shape == picture.shape
            _show(pooled, np.clip(drawing.values[detail] if as_large else drawing.values, 0, 1))
        if drawing.values.shape[:2] == (1, 1):
            _show(landed, _spots(landing), _scale(float(landing.max()) or 1))
        else:
            _show(landed, landing[detail], _scale(brightest))
    if not few:
        cards.legend(brightest, size)
    try:
        cards.figure.savefig(out)
    except OSError as error:
        raise Mistake(f"--out {out} cannot be written: {error.strerror or error}") from None


def _detail_of(shape: Sequence[int], size: Size) -> tuple[slice, slice]:
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
    """A grid of cards, placed in inches from the lower left corner, that are taken one after the other."""

    def __init__(self, layout: _Layout, proportion: float, count: int) -> None:
        self._layout, self._taken = layout, 0
        # A card is high enough for the legend, however flat the picture.
        self._tall = max(0.75, layout.panel * proportion)
        self._card = (2 * layout.panel + layout.seam, self._tall)
        if layout.stacked:
            self._card = (layout.panel, 2 * self._tall + layout.seam)
        columns, rows = min(count, _CARDS_PER_ROW), math.ceil(count / _CARDS_PER_ROW)
        self._width = columns * (self._card[0] + layout.gap) - layout.gap + 2 * layout.margin
        self._height = rows * (self._card[1] + layout.title) + layout.margin
        self.figure = Figure((self._width, self._height), dpi=layout.resolution, facecolor="none")

    def panels(self, title: str, remark: str) -> tuple[Axes, Axes]:
        """The two empty panels of the next card, under a title."""
        layout, (left, top) = self._layout, self._next()
        right, lower = (
            (left, top - self._tall - layout.seam) if layout.stacked else (left + layout.panel + layout.seam, top)
        )
        first, second = (
            self._axes(x, y - self._tall, layout.panel, self._tall) for x, y in ((left, top), (right, lower))
        )
        for axes in first, second:
            axes.set(xticks=[], yticks=[])
            # Without a frame an all-white panel would be invisible.
            axes.spines[:].set(color=_INK, linewidth=0.4)
        self._text(left, top + 0.07, title, layout.sizes[0], weight="bold")
        self._text(left + self._card[0], top + 0.07, remark, layout.sizes[1], ha="right")
        return first, second

    def legend(self, brightest: float, size: Size) -> None:
        """Explain in a few words what is drawn, and show the colour scale, in the next card."""
        left, top = self._next()
        left, middle = left + 0.1, top - self._tall / 2
        self._text(left, middle + 0.35, f"left: pooled, {size.kernel}×{size.kernel} windows, stride {size.stride}", 8.5)
        self._text(left, middle + 0.17, "right: where the gradient lands, in the detail", 8.5)
        axes = self._axes(left, middle - 0.13, self._card[0] - 0.2, 0.13)
        bar = self.figure.colorbar(ScalarMappable(_scale(brightest), _COLOURS), cax=axes, orientation="horizontal")
        bar.outline.set_visible(False)
        ticks = [0, *(float(f"{brightest * share:.1g}") for share in (0.01, 0.1, 0.4)), brightest]
        bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks], fontsize=8, color=_INK)
        bar.ax.tick_params(length=2.5, color=_INK)

    def _next(self) -> tuple[float, float]:
        """The upper left corner of the next card, below its title."""
        row, column = divmod(self._taken, _CARDS_PER_ROW)
        self._taken += 1
        layout, (width, height) = self._layout, self._card
        return layout.margin + column * (width + layout.gap), self._height - row * (
            height + layout.title
        ) - layout.title

    def _axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        across, up = self._width, self._height
        return self.figure.add_axes((left / across, bottom / up, width / across, height / up))

    def _text(
        self, left: float, bottom: float, text: str, size: float, weight: str = "normal", ha: str = "left"
    ) -> None:
        style = {"size": size, "weight": weight, "color": _INK, "ha": ha, "va": "bottom"}
        self.figure.text(left / self._width, bottom / self._height, text, style)
