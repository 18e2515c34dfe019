"""The plot: how far programs are from the least possible, a dot per case, filled if its goals are met.

On an H100 these are bytes moved over the least possible, for jaxpool and plain JAX; on a v5e, where the least is not
known for a pool by itself, cycles over plain JAX's.
"""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.accelerators.case import OURS, PLAIN, SLICE
from benchmarks.accelerators.goals import verdicts
from benchmarks.accelerators.measure import Row

_OURS_COLOUR, _PLAIN_COLOUR = "#1f5fa8", "#d1600a"
_HEADINGS = {"gpu": "bytes moved, over the least possible", "tpu": "cycles, over plain JAX's"}
# Vertical positions within a group's row.
_OURS_HEIGHT, _PLAIN_HEIGHT, _SPREAD = -0.2, 0.22, 0.13
_SHARE_OF_LINE, _DOTS_PER_INCH = 0.34, 160


def draw_plot(target: str, rows: Sequence[Row], title: str, path: Path) -> None:
    """Draw the cases of one target, and write them as PNG."""
    groups = list(dict.fromkeys(row.case.kind for row in rows))
    size = (10, 1.6 + _SHARE_OF_LINE * len(groups))
    figure = Figure(figsize=size, dpi=_DOTS_PER_INCH, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    panel.set_xscale("log")
    panel.axvline(1, color="black", linewidth=1, zorder=1)
    panel.grid(axis="x", color="#dddddd", linewidth=0.8, zorder=0)
    for position, group in enumerate(groups):
        if position % 2:
            panel.axhspan(position - 0.5, position + 0.5, color="#f5f5f5", zorder=0, linewidth=0)
        _draw_group(panel, target, position, [row for row in rows if row.case.kind == group])
    panel.set_yticks(range(len(groups)), groups, fontsize=10)
    panel.set_ylim(len(groups) - 0.5, -0.5)
    panel.tick_params(axis="y", length=0)
    panel.set_xlabel(_HEADINGS[target], fontsize=11)
    panel.xaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    figure.suptitle(textwrap.fill(title, 90), fontsize=12)
    handles = _legend(target)
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=10)
    figure.savefig(path)


def _draw_group(panel: Any, target: str, position: int, rows: Sequence[Row]) -> None:
    for number, row in enumerate(rows):
        height = position + _SPREAD * (2 * number / max(1, len(rows) - 1) - 1)
        met = all(verdict.met for verdict in verdicts(row))
        for name, colour, shift in ((PLAIN, _PLAIN_COLOUR, _PLAIN_HEIGHT), (OURS, _OURS_COLOUR, _OURS_HEIGHT)):
            ratio = _ratio(target, row, name)
            if ratio is not None:
                filled = colour if met or name == PLAIN else "white"
                middle = height if target == "tpu" else height + shift
                panel.scatter([ratio], [middle], s=16, facecolor=filled, edgecolor=colour, linewidth=0.9, zorder=3)


def _ratio(target: str, row: Row, name: str) -> float | None:
    """The ratio to draw for one function of a case; None if it was not compiled."""
    if name not in row.figures or (target == "tpu" and (name == PLAIN or PLAIN not in row.figures)):
        return None
    costs = row.figures[name].costs
    if target == "tpu":
        cycles = row.figures[PLAIN].costs.cycles
        return costs.cycles / cycles if costs.cycles and cycles else None
    least = row.figures[SLICE].costs.moved if SLICE in row.figures else row.needed
    return costs.moved / least


def _legend(target: str) -> list[Line2D]:
    def dot(filled: str, colour: str, label: str) -> Line2D:
        return Line2D([], [], linestyle="", marker="o", color=colour, markerfacecolor=filled, label=label)

    dots = [
        dot(_OURS_COLOUR, _OURS_COLOUR, "jaxpool, goals met or none set"),
        dot("white", _OURS_COLOUR, "jaxpool, a goal missed"),
    ]
    return dots if target == "tpu" else [*dots, dot(_PLAIN_COLOUR, _PLAIN_COLOUR, "plain JAX")]
