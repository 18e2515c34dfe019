"""The plot: jaxpool's speed-up over plain JAX and PyTorch, a dot per case, forward and gradient."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.cases import LEARNT_GROUPS, ZOO_GROUPS
from benchmarks.goals import PEER_NAMES, geometric_mean, ratio
from benchmarks.measure import Row

_GROUPS = {
    "max": ("max",),
    "min": ("min",),
    "sum": ("sum",),
    "average": ("avg",),
    "Lp": ("lp",),
    "smooth maximum": ("smooth",),
    "between, ranks, blurs": ZOO_GROUPS,
    "learnt numbers": LEARNT_GROUPS,
    "adaptive": ("adaptive max", "adaptive avg"),
    "global": ("global max", "global avg"),
}
_PANELS = {"forward": "forward", "gradient": "forward and gradient"}
# The background is transparent: all colours can be read on white and on black.
_INK, _SHADE = "#7b7d80", "#80808026"
# Colour, and vertical position within a group's row.
_PEERS = {"jax": ("#3f83d1", 0.2), "torch": ("#d1600a", -0.2)}
_SPREAD = 0.09


def draw_plot(rows: Sequence[Row], title: str, path: Path) -> None:
    """Draw the cases of `rows` and write them as PNG."""
    figure = Figure(figsize=(14, 7.2), dpi=110, facecolor="none", layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True, sharex=True)
    groups = [name for name, members in _GROUPS.items() if any(row.group in members for row in rows)]
    for panel, (what, heading) in zip(panels, _PANELS.items(), strict=True):
        _draw_panel(panel, rows, groups, what)
        panel.set_title(heading, fontsize=13, loc="left", color=_INK)
    panels[0].set_yticks(range(len(groups)), groups, fontsize=12)
    panels[0].set_ylim(len(groups) - 0.5, -0.5)
    _mark_axis(panels[0])
    figure.suptitle(f"Speed-up of jaxpool: time of the others / time of jaxpool\n{title}", fontsize=14, color=_INK)
    handles, labels = _legend(panels[0])
    place = {"loc": "outside lower center", "ncols": len(labels)}
    figure.legend(handles, labels, **place, frameon=False, fontsize=12, labelcolor=_INK)
    figure.savefig(path)


def _draw_panel(panel: Any, rows: Sequence[Row], groups: Sequence[str], what: str) -> None:
    """Draw dots, a bar at every geometric mean, and its number at the right edge."""
    panel.set_xscale("log")
    panel.set_facecolor("none")
    panel.spines[:].set_color(_INK)
    panel.tick_params(colors=_INK, which="both")
    panel.axvline(1, color=_INK, linewidth=1.2, zorder=1)
    panel.grid(axis="x", color=_SHADE, linewidth=0.8, zorder=0)
    panel.tick_params(axis="y", length=0)
    for position, group in enumerate(groups):
        if position % 2:
            panel.axhspan(position - 0.5, position + 0.5, color=_SHADE, zorder=0, linewidth=0)
        for peer, (colour, height) in _PEERS.items():
            ratios = [ratio(row, what, peer) for row in rows if row.group in _GROUPS[group]]
            known = sorted(number for number in ratios if number is not None)
            if not known:
                continue
            centre = position - (height if _has_both(rows, group, what) else 0)
            # Neighbours in size are at different heights, so that equal ones do not hide each other.
            heights = centre + _SPREAD * np.resize([0.0, 1.0, -1.0, 0.5, -0.5], len(known))
            panel.scatter(known, heights, s=26, color=colour, alpha=0.55, linewidths=0, zorder=2)
            mean = geometric_mean(known) or 0.0
            panel.plot([mean, mean], [centre - 0.16, centre + 0.16], color=_INK, linewidth=3, zorder=3)
            panel.annotate(
                f"{mean:.2g}×" if mean < 10 else f"{mean:.0f}×",
                (1, centre),
                xycoords=("axes fraction", "data"),
                xytext=(6, 0),
                textcoords="offset points",
                verticalalignment="center",
                color=colour,
                fontsize=11,
                annotation_clip=False,
            )


def _has_both(rows: Sequence[Row], group: str, what: str) -> bool:
    """Whether every peer has a dot in the row of this group."""
    members = [row for row in rows if row.group in _GROUPS[group]]
    return all(any(ratio(row, what, peer) is not None for row in members) for peer in _PEERS)


def _mark_axis(panel: Any) -> None:
    panel.xaxis.set_major_locator(LogLocator(base=10))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))


def _legend(panel: Any) -> tuple[list[Any], list[str]]:
    dots = [panel.scatter([], [], s=40, color=colour, alpha=0.7, linewidths=0) for colour, _ in _PEERS.values()]
    (bar,) = panel.plot([], [], color=_INK, linewidth=3)
    names = [f"{PEER_NAMES[peer]}, a dot per case" for peer in _PEERS]
    return [*dots, bar], [*names, "geometric mean, in numbers at the right"]
