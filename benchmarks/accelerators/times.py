"""The times of cases that ran on a device, as text and as JSON: a line per case, and means by kind of case."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import jax

import jaxpool
from benchmarks.accelerators.case import OURS, PLAIN, SLICE, Case
from benchmarks.accelerators.run import TORCH, Timed

_NAMES = (OURS, PLAIN, TORCH, SLICE)
Rows = Sequence[tuple[Case, Timed]]


def line(timed: Timed) -> str:
    """One case: milliseconds of all who compute it, and of a copy of as many bytes."""
    times = ", ".join(f"{name} {timed.milliseconds[name]:.3f}" for name in _NAMES if name in timed.milliseconds)
    wrong = "".join(f"; DIFFERS from {name}" for name in timed.wrong)
    return f"{timed.name}: {times}, copy {timed.copy:.3f} ms{wrong}"


def summary(rows: Rows) -> Iterator[str]:
    """Geometric means by kind of case: how many times as long as jaxpool the others take, and jaxpool as a copy."""
    for kind in dict.fromkeys(case.kind for case, _ in rows):
        of_kind = [timed for case, timed in rows if case.kind == kind and OURS in timed.milliseconds]
        parts: list[str] = []
        for name in _NAMES[1:]:
            if both := [timed.milliseconds for timed in of_kind if name in timed.milliseconds]:
                parts.append(f"{name} / jaxpool {_mean([times[name] / times[OURS] for times in both])}")
        if kind != "network" and of_kind:
            parts.append(f"jaxpool / copy {_mean([timed.milliseconds[OURS] / timed.copy for timed in of_kind])}")
        yield f"{kind}, {len(of_kind)} cases: {'; '.join(parts)}"


def save(folder: Path, rows: Rows) -> Path:
    """Write all times, named by device and versions; return the path."""
    device = jax.devices()[0].device_kind
    versions = {"jaxpool": jaxpool.__version__, "jax": jax.__version__}
    if any(TORCH in timed.milliseconds for _, timed in rows):
        versions["torch"] = metadata.version("torch").partition("+")[0]
    words = [device.lower().replace(" ", "-"), *(f"{name}-{versions[name]}" for name in versions if name != "jaxpool")]
    path = folder / f"run-{'-'.join(words)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    saved = {"device": device, "versions": versions, "cases": [_rounded(asdict(timed)) for _, timed in rows]}
    path.write_text(json.dumps(saved, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _rounded(saved: Any) -> Any:
    if isinstance(saved, Mapping):
        return {key: _rounded(value) for key, value in saved.items()}
    return round(saved, 5) if isinstance(saved, float) else saved


def _mean(ratios: Sequence[float]) -> str:
    return f"{geometric_mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
