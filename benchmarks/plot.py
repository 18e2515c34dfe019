"""The picture of the page on speed: jaxpool beside plain JAX and PyTorch, a dot per case, forward and gradient."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.cases import FAMILIES
from benchmarks.report import ratio

_PANELS = {"forward": "forward", "gradient": "forward and gradient"}
# The background is transparent: all colours can be read on white and on black.
_INK, _SHADE = "#7b7d80", "#80808026"
# Name, colour, and place within the line of a family.
_PEERS = {"best": ("plain JAX", "#3f83d1", -0.2), "torch": ("PyTorch", "#d1600a", 0.2)}


def draw_plot(results: dict[str, Any], path: Path) -> None:
    """Draw the cases of a run and write them as PNG."""
    rows = results["cases"]
    families = [name for name, pools in FAMILIES.items() if any(row["pool"] in pools for row in rows)]
    figure = Figure(figsize=(14, 7.2), dpi=110, facecolor="none", layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True, sharex=True)
    for panel, (what, heading) in zip(panels, _PANELS.items(), strict=True):
        _draw_frame(panel, len(families))
        panel.set_title(heading, fontsize=13, loc="left", color=_INK)
        for line, family in enumerate(families):
            for peer, (_, colour, place) in _PEERS.items():
                ratios = (ratio(row, what, peer) for row in rows if row["pool"] in FAMILIES[family])
                _draw_dots(panel, line + place, colour, sorted(each for each in ratios if each is not None))
    panels[0].set_yticks(range(len(families)), families, fontsize=12)
    panels[0].set_ylim(len(families) - 0.5, -0.5)
    names = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    title = f"Speed-up of jaxpool: time of the others / time of jaxpool\n{results['machine']}; {names}"
    figure.suptitle(title, fontsize=14, color=_INK)
    handles = [panels[0].scatter([], [], s=40, color=colour, alpha=0.7) for _, colour, _ in _PEERS.values()]
    handles += panels[0].plot([], [], color=_INK, linewidth=3)
    labels = [*(f"{name}, a dot per case" for name, *_ in _PEERS.values()), "geometric mean, in numbers at the right"]
    place = {"loc": "outside lower center", "ncols": len(labels), "frameon": False}
    figure.legend(handles, labels, **place, fontsize=12, labelcolor=_INK)
    figure.savefig(path)


def _draw_frame(panel: Any, lines: int) -> None:
    panel.set_xscale("log")
    panel.set_facecolor("none")
    panel.spines[:].set_color(_INK)
    panel.tick_params(colors=_INK, which="both")
    panel.tick_params(axis="y", length=0)
    panel.axvline(1, color=_INK, linewidth=1.2, zorder=1)
    panel.grid(axis="x", color=_SHADE, linewidth=0.8, zorder=0)
    panel.xaxis.set_major_locator(LogLocator(base=10))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    for line in range(1, lines, 2):
        panel.axhspan(line - 0.5, line + 0.5, color=_SHADE, zorder=0, linewidth=0)


def _draw_dots(panel: Any, height: float, colour: str, ratios: list[float]) -> None:
    if not ratios:
        return
    # Neighbours in size are at different heights, so that equal ones do not hide each other.
    heights = height + 0.09 * np.resize([0.0, 1.0, -1.0, 0.5, -0.5], len(ratios))
    panel.scatter(ratios, heights, s=26, color=colour, alpha=0.55, linewidths=0, zorder=2)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    panel.plot([mean, mean], [height - 0.16, height + 0.16], color=_INK, linewidth=3, zorder=3)
    place = {"xycoords": ("axes fraction", "data"), "xytext": (6, 0), "textcoords": "offset points"}
    written = f"{mean:.2g}×" if mean < 10 else f"{mean:.0f}×"
    panel.annotate(written, (1, height), **place, va="center", color=colour, fontsize=11, annotation_clip=False)
