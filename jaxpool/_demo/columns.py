"""The large figure of a few pools: a column for each, with the pooled picture above and the gradient below.

The gradient is shown over a detail, on one colour scale for all columns. A row has four columns.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from jaxpool._demo.figure import INK, detail_of, landings_of, save, show_landing, show_pooled
from jaxpool._demo.measure import Drawing
from jaxpool._demo.request import Size

_COLUMNS = 4
_PANEL, _GAP, _TITLE = 3.1, 0.1, 0.34  # inches


def draw(picture: np.ndarray, drawings: Sequence[Drawing], size: Size, out: Path) -> None:
    """Draw a column for each of the pools into the file `out`."""
    detail = detail_of(picture.shape, size)
    landings, brightest = landings_of(drawings, detail)
    tall = max(0.75, _PANEL * picture.shape[0] / picture.shape[1])
    columns, rows = min(len(drawings), _COLUMNS), math.ceil(len(drawings) / _COLUMNS)
    width, height = columns * (_PANEL + _GAP) + _GAP, rows * (2 * tall + _GAP + _TITLE) + _GAP
    figure = Figure((width, height), dpi=130, facecolor="none")
    for index, (drawing, landing) in enumerate(zip(drawings, landings, strict=True)):
        left = (_GAP + index % _COLUMNS * (_PANEL + _GAP)) / width
        below = 1 - (index // _COLUMNS + 1) * (2 * tall + _GAP + _TITLE) / height
        lower = figure.add_axes((left, below, _PANEL / width, tall / height))
        upper = figure.add_axes((left, below + (tall + _GAP) / height, _PANEL / width, tall / height))
        for axes in upper, lower:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set(color=INK, linewidth=0.4)
        show_pooled(upper, drawing, picture, detail)
        show_landing(lower, drawing, landing, detail, brightest)
        above = 1 + 0.08 / tall
        upper.text(0, above, drawing.name, va="bottom", size=12, weight="bold", color=INK, transform=upper.transAxes)
        upper.text(1, above, drawing.detail, va="bottom", size=10, ha="right", color=INK, transform=upper.transAxes)
    save(figure, out)
