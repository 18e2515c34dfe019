"""Upper bounds for the figures of some programs, stored next to this file with the versions that they hold for.

The figures have no noise, so any increase is due to a change of the library or of a compiler. After a decrease
`python -m benchmarks.accelerators --write-bounds` writes the new bounds.
"""

import json
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from benchmarks.accelerators.case import OURS, Case
from benchmarks.accelerators.cases import all_cases
from benchmarks.accelerators.measure import Row
from benchmarks.accelerators.report import flat

PATH = Path(__file__).parent / "bounds.json"
COMPILERS = ("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "jax-cuda12-pjrt")
# The bounded figures, by target.
BOUNDED = {
    "gpu": ("kernels", "moved", "rarely", "temporary"),
    "tpu": ("kernels", "moved", "rarely", "cycles", "uncosted", "temporary"),
}
_LAST, _FIRST = "32×112×112×64, channels last", "32×64×112×112, channels first"
NAMES = (
    # First, since it takes longer to compile than all the others.
    ("tpu", "network stem, max 3×3/2 padded 1, bfloat16, 64×224×224×3, channels last"),
    ("tpu", "network DenseNet head, global avg, bfloat16, 128×14×14×512, channels last"),
    ("tpu", f"max 3×3/2 padded 1 forward, bfloat16, {_FIRST}"),
    ("tpu", f"avg 31×31/1 padded 15 forward, float32, {_LAST}"),
    ("tpu", f"sum 3×3/2 padded 1 gradient, float32, {_LAST}"),
    ("tpu", f"smooth 3×3/2 gradient, float32, {_LAST}"),
    ("tpu", f"gem 3×3/2 forward, bfloat16, {_LAST}"),
    ("tpu", f"median 3×3/2 gradient, bfloat16, {_LAST}"),
    ("tpu", f"var 3×3/2 gradient, bfloat16, {_LAST}"),
    ("tpu", f"learnt gem 3×3/2 gradient, bfloat16, {_LAST}"),
    ("tpu", f"learnt soft 3×3/2 gradient, bfloat16, {_LAST}"),
    ("tpu", f"blur 3×3/2 forward, bfloat16, {_LAST}"),
    ("tpu", f"adaptive avg 10×10 bins forward, float32, {_LAST}"),
    ("tpu", f"adaptive avg 10×10 bins gradient, float32, {_LAST}"),
    ("gpu", "network stem, max 3×3/2 padded 1, bfloat16, 64×224×224×3, channels last"),
    ("gpu", "network DenseNet transition, avg 2×2/2, bfloat16, 64×56×56×256, channels last"),
    ("gpu", f"max 3×3/2 padded 1 forward, float32, {_LAST}"),
    ("gpu", f"max 3×3/2 padded 1 gradient, float32, {_LAST}"),
    ("gpu", f"max 3×3/1 padded 1 gradient, bfloat16, {_FIRST}"),
    ("gpu", f"max 31×31/1 padded 15 gradient, float32, {_LAST}"),
    ("gpu", f"avg 7×7/1 padded 3 forward, bfloat16, {_FIRST}"),
    ("gpu", f"avg 3×3/2 padded 1 gradient, float32, {_LAST}"),
    ("gpu", f"lp 3×3/2 gradient, float32, {_LAST}"),
    ("gpu", f"median 3×3/1 forward, float32, {_LAST}"),
    ("gpu", f"weighted 3×3/1 forward, float32, {_LAST}"),
    ("gpu", f"weighted 7×7/1 gradient, float32, {_LAST}"),
)


def bounded_cases() -> list[Case]:
    """The cases that have bounds."""
    return [all_cases()[name] for name in NAMES]


def versions() -> dict[str, str]:
    """The installed compilers."""
    found = {distribution.name: distribution.version for distribution in metadata.distributions()}
    return {name: found[name] for name in COMPILERS if name in found}


def read() -> tuple[dict[str, str], dict[tuple[str, str], dict[str, float]]]:
    """The versions that the bounds hold for, and the bounds by case."""
    saved = json.loads(PATH.read_text(encoding="utf-8"))
    return saved["versions"], {(each["target"], each["case"]): each["bounds"] for each in saved["cases"]}


def write(rows: Iterable[Row]) -> None:
    """Make these figures the bounds."""
    found = {(row.case.target, row.case.name): row for row in rows}
    cases = [{"target": target, "case": name, "bounds": bounds(found[target, name])} for target, name in NAMES]
    saved = {"versions": versions(), "cases": cases}
    PATH.write_text(json.dumps(saved, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def bounds(row: Row) -> dict[str, float]:
    """The bounded figures of a case."""
    figures = flat(row.figures[OURS])
    return {name: figures[name] for name in BOUNDED[row.case.target]}
