"""What `python -m jaxpool` prints: the table of all measurements, and a closing summary."""

import math
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from examples.demonstration.measure import Measurement

# Relative to the largest magnitude of the exact result, in float32, whose precision is 1.2e-7: enough for the rounding
# of sums over windows of about a hundred cells a side, and far below the error of any wrong cell, weight or divisor.
TOLERANCE = 1e-5

_NEEDED_WIDTH = 128


def is_well(measurement: Measurement) -> bool:
    """Whether values and gradient are within the tolerance; NaN is not."""
    return measurement.value_difference <= TOLERANCE and measurement.gradient_difference <= TOLERANCE


def print_table(measurements: Sequence[Measurement]) -> None:
    """Print a line for each measurement, out-of-tolerance differences in red."""
    console = Console()
    # A table squeezed into a narrow terminal loses digits; a wide one only wraps.
    console.width = max(console.width, _NEEDED_WIDTH)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, collapse_padding=True)
    for heading in ("pool\n", "rule\n"):
        table.add_column(heading, no_wrap=True)
    times = ["forward\nms", "plain\nms", "\nratio", "gradient\nms", "plain\nms", "\nratio"]
    for heading in ("output\nshape", "compile\nms", *times, "value\nerror", "gradient\nerror"):
        table.add_column(heading, justify="right", no_wrap=True)
    names = [measurement.name for measurement in measurements]
    for name, previous, measurement in zip(names, ["", *names], measurements, strict=False):
        table.add_row(
            "" if name == previous else name,
            measurement.rule,
            "×".join(map(str, measurement.output_shape)),
            f"{measurement.compile_milliseconds:.0f}",
            *_timing_cells(*measurement.forward),
            *_timing_cells(*measurement.gradient),
            _difference_cell(measurement.value_difference),
            _difference_cell(measurement.gradient_difference),
        )
    console.print(table)


def summary(measurements: Sequence[Measurement], figure: Path) -> str:
    """One line: how much faster than plain JAX, how far from NumPy, and where the figure is."""
    timings = [timing for measurement in measurements for timing in (measurement.forward, measurement.gradient)]
    ratios = [plain / milliseconds for milliseconds, *plains in timings for plain in plains]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    worst = max((max(m.value_difference, m.gradient_difference) for m in measurements), default=0.0)
    bad = [f"{m.name} ({m.rule})" for m in measurements if not is_well(m)]
    verdict = f"OUT OF TOLERANCE: {', '.join(bad)}" if bad else "all well"
    return (
        f"{verdict}; plain JAX takes {mean:.1f}× as long (geometric mean of {len(ratios)}), at most "
        f"{max(ratios, default=math.nan):.0f}×; worst difference {worst:.1e} (tolerance {TOLERANCE:.0e}); "
        f"figure in {figure}"
    )


def _timing_cells(milliseconds: float, plain: float | None = None) -> tuple[str, str, str]:
    if plain is None:
        return _digits(milliseconds), "–", "–"
    return _digits(milliseconds), _digits(plain), f"{plain / milliseconds:.1f}×"


def _digits(milliseconds: float) -> str:
    return f"{milliseconds:.2f}" if milliseconds < 10 else f"{milliseconds:.1f}"


def _difference_cell(difference: float) -> Text:
    return Text(f"{difference:.1e}", style="" if difference <= TOLERANCE else "bold red")
