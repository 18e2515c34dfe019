"""The figures of the page on speed, read from the results of the benchmark, so that they are those of its last runs.

Each result is for one version of JAX; the newest comes first.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

RESULTS = Path(__file__).parent.resolve().parent / "benchmarks" / "results"
PATTERN = "cpu-*.json"

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
    "weighted": "weighted_pool",
    "attention": "attention_pool",
    "var": "var_pool",
    "std": "std_pool",
    "blur": "blur_pool",
    "adaptive max": "adaptive_max_pool",
    "adaptive avg": "adaptive_avg_pool",
}
_TITLES = {
    "max and min": "maxima and minima",
    "sum and avg": "sums and averages",
    "norms": "norms and power means",
    "soft maxima and means": "smooth maxima, mellowmax, soft means",
    "var and std": "variances and deviations",
    "median": "medians",
    "adaptive": "adaptive pools",
    "global": "global pools",
    "other pools": "the other pools",
    "trained numbers": "pools with a trained p or β",
}
_KINDS = ("forward", "gradient")
# How the results call each library. Plain JAX is written in two ways, of which the quicker one counts.
_LIBRARIES = {"plain JAX": ("plain", "reshape"), "PyTorch": ("torch",)}


def fill_figures(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put tables and plot where a page asks for them."""
    for asked, lines in (("RATIOS", _ratios), ("COSTS", _costs), ("PLOT", _plot)):
        if (mark := f"<!-- {asked} -->") in source[0]:
            source[0] = source[0].replace(mark, "\n".join(lines()))


def _results() -> list[tuple[str, Path, dict[str, Any]]]:
    """Version of JAX, file and contents of every result, newest version first."""
    read = [(path, json.loads(path.read_text(encoding="utf-8"))) for path in RESULTS.glob(PATTERN)]
    results = [(saved["versions"]["jax"], path, saved) for path, saved in read]
    return sorted(results, key=lambda result: [int(part) for part in result[0].split(".")], reverse=True)


def _plot() -> Iterator[str]:
    for version, path, _ in _results():
        picture = f"../benchmarks/results/{path.with_suffix('.png').name}"
        yield from (f"```{{figure}} {picture}", f":alt: The speed-up of jaxpool, case by case, with JAX {version}")
        yield from (":class: wide-plot", "", f"JAX {version}. A dot is one case, a bar a geometric mean.", "```", "")


def _ratios() -> Iterator[str]:
    """How many times as long the others take: the geometric mean, and where jaxpool does worst."""
    for version, _, saved in _results():
        summary = {(row["family"], row["pass"], row["peer"]): row for row in saved["summary"]}
        yield f"| JAX {version} | forward: plain JAX | PyTorch | with gradient: plain JAX | PyTorch |"
        yield "|---|---|---|---|---|"
        for family, title in _TITLES.items():
            rows = [summary.get((family, kind, name)) for kind in _KINDS for name in _LIBRARIES]
            cells = [f"**{_number(row['mean'])}** ({_number(row['least'])})" if row else "–" for row in rows]
            yield f"| {title} | {' | '.join(cells)} |"
        yield ""


def _costs() -> Iterator[str]:
    """What each pool of the last run takes, in one case that all of them have."""
    version, _, saved = _results()[0]
    rows = saved["cases"]
    yield f"With JAX {version}:"
    yield ""
    yield "| pool | forward, ms | with gradient, ms | plain JAX | PyTorch | first call, s | plain JAX's, s |"
    yield "|---|---|---|---|---|---|---|"
    for group, name in _POOLS.items():
        row = next((row for row in rows if row["pool"] == group and _is_shown(row)), None)
        if row is None:
            continue
        times = [f"{row[kind]['jaxpool']:.1f}" for kind in _KINDS]
        others = [", ".join(_ratio(row[kind], ways) for kind in _KINDS) for ways in _LIBRARIES.values()]
        others = ["–" if "–" in one else one for one in others]
        firsts = [", ".join(f"{row[f'first {kind}'][who]:.2f}" for kind in _KINDS) for who in ("jaxpool", "plain")]
        yield f"| `{name}` | {' | '.join([*times, *others, *firsts])} |"


def _is_shown(row: dict[str, Any]) -> bool:
    is_usual = _BINS in row["case"] or (row["kernel"], row["stride"]) == (3, 2)
    return is_usual and row["shape"] == _SHAPE and row["dtype"] == "float32"


def _ratio(times: dict[str, float | None], ways: tuple[str, ...]) -> str:
    ours, theirs = times["jaxpool"], [time for way in ways if (time := times.get(way))]
    return _number(min(theirs) / ours) if ours and theirs else "–"


def _number(ratio: float) -> str:
    return f"{ratio:.2g}×" if ratio < 10 else f"{ratio:.0f}×"


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.connect("source-read", fill_figures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
