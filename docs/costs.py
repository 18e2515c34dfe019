"""The figures of the page on speed, read from the results of the benchmark, so that they are those of its last run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

RESULTS = Path(__file__).parent.resolve().parent / "benchmarks" / "results"
PATTERN = "cpu-float32-*.json"

_SHAPE, _BINS = [8, 56, 56, 64], "7×7 bins"
_POOLS = {
    "max": "max_pool",
    "min": "min_pool",
    "sum": "sum_pool",
    "avg": "avg_pool",
    "lp": "lp_pool",
    "gem": "gem_pool",
    "smooth": "smooth_max_pool",
    "mellowmax": "mellowmax_pool",
    "soft": "soft_pool",
    "mixed": "mixed_pool",
    "stochastic": "stochastic_pool",
    "median": "median_pool",
    "blur": "blur_pool",
    "adaptive max": "adaptive_max_pool",
    "adaptive avg": "adaptive_avg_pool",
}
_GROUPS = {
    "max and min": "maxima and minima",
    "sum and avg": "sums and averages",
    "lp": "Lp norms",
    "smooth": "smooth maxima",
    "adaptive": "adaptive pools",
    "global": "global pools",
    "median": "medians",
    "other pools": "the other pools",
}
_KINDS, _LIBRARIES = ("forward", "gradient"), {"plain": "plain JAX", "torch": "PyTorch"}


def fill_figures(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put tables and plot where a page asks for them."""
    for asked, lines in (("RATIOS", _ratios), ("COSTS", _costs), ("PLOT", _plot)):
        if (mark := f"<!-- {asked} -->") in source[0]:
            source[0] = source[0].replace(mark, "\n".join(lines(_newest())))


def _newest() -> Path:
    return max(RESULTS.glob(PATTERN))


def _plot(results: Path) -> Iterator[str]:
    picture = f"../benchmarks/results/{results.with_suffix('.png').name}"
    yield from (f"```{{figure}} {picture}", ":alt: How many times as long plain JAX and PyTorch take, case by case")
    yield from (":class: wide-plot", "", "Each dot is one case, each bar a geometric mean.", "```")


def _ratios(results: Path) -> Iterator[str]:
    """How many times as long the others take: the geometric mean, and where jaxpool does worst."""
    summary = {row["name"]: row for row in json.loads(results.read_text(encoding="utf-8"))["summary"]}
    yield "| | forward: plain JAX | PyTorch | with gradient: plain JAX | PyTorch |"
    yield "|---|---|---|---|---|"
    for group, title in _GROUPS.items():
        rows = [summary[f"{group} {kind}: {name} / jaxpool"] for kind in _KINDS for name in _LIBRARIES.values()]
        cells = [f"**{_number(row['mean'])}** ({_number(row['worst'])})" if row["count"] else "–" for row in rows]
        yield f"| {title} | {' | '.join(cells)} |"


def _costs(results: Path) -> Iterator[str]:
    """What each pool takes in one case that all of them have."""
    rows = json.loads(results.read_text(encoding="utf-8"))["rows"]
    yield "| pool | forward, ms | with gradient, ms | plain JAX | PyTorch | first call, s |"
    yield "|---|---|---|---|---|---|"
    for group, name in _POOLS.items():
        row = next(row for row in rows if row["group"] == group and _is_shown(row))
        times = [f"{row[kind]['jaxpool']:.1f}" for kind in _KINDS]
        others = [", ".join(_ratio(row[kind], library) for kind in _KINDS) for library in _LIBRARIES]
        others = ["–" if "–" in one else one for one in others]
        first = [f"{row[f'compile_{kind}']['jaxpool']:.1f}" for kind in _KINDS]
        yield f"| `{name}` | {' | '.join([*times, *others, ', '.join(first)])} |"


def _is_shown(row: dict[str, Any]) -> bool:
    return row["shape"] == _SHAPE and (_BINS in row["case"] or (row["kernel"], row["stride"]) == (3, 2))


def _ratio(times: dict[str, float | None], library: str) -> str:
    ours, theirs = times["jaxpool"], times.get(library)
    return _number(theirs / ours) if ours and theirs else "–"


def _number(ratio: float) -> str:
    return f"{ratio:.2g}×" if ratio < 10 else f"{ratio:.0f}×"


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.connect("source-read", fill_figures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
