"""What `python -m jaxpool` prints, in 100 columns: a row for each measurement, and a closing summary."""

import math
from collections.abc import Sequence
from pathlib import Path

from examples.demonstration.measure import Measurement

# Relative to the largest magnitude of the exact result, in float32, whose precision is 1.2e-7: enough for the rounding
# of sums over windows of about a hundred cells a side, and far below the error of any wrong cell, weight or divisor.
TOLERANCE = 1e-5

_NAME, _WIDTHS = 32, (7, 7, 6, 5, 8, 6, 5, 5, 8)


def is_well(measurement: Measurement) -> bool:
    """Whether values and gradient are within the tolerance; NaN is not."""
    return measurement.value_difference <= TOLERANCE and measurement.gradient_difference <= TOLERANCE


def heading() -> str:
    """Two lines above the rows; times are in milliseconds."""
    above = "", "forward", "plain", "", "gradient", "plain", "", "value", "gradient"
    below = "output", "ms", "ms", "ratio", "ms", "ms", "ratio", "error", "error"
    return f"{_line('', above)}\n{_line('pool', below)}"


def row(measurement: Measurement) -> str:
    """The row of one measurement; that of the second rule has no name of its own."""
    shape = "×".join(map(str, measurement.output_shape[:2]))
    errors = (f"{error:.0e}" for error in (measurement.value_difference, measurement.gradient_difference))
    name = measurement.name if measurement.rule == "jvp" else '  rule="vjp"'
    return _line(name, (shape, *_timing(*measurement.forward), *_timing(*measurement.gradient), *errors))


def summary(measurements: Sequence[Measurement], figure: Path) -> str:
    """Three lines: how far from NumPy, how much faster than plain JAX, and where the figure is."""
    timings = [timing for measurement in measurements for timing in (measurement.forward, measurement.gradient)]
    ratios = [plain / milliseconds for milliseconds, *plains in timings for plain in plains]
    worst = max((max(m.value_difference, m.gradient_difference) for m in measurements), default=0.0)
    bad = ", ".join(f"{m.name} ({m.rule})" for m in measurements if not is_well(m))
    lines = [f"{f'OUT OF TOLERANCE: {bad}' if bad else 'all well'}; worst error {worst:.0e} of the largest"]
    if ratios:
        mean, most = math.exp(sum(map(math.log, ratios)) / len(ratios)), max(ratios)
        lines.append(f"plain JAX takes {mean:.1f}× as long (geometric mean of {len(ratios)}), at most {most:.0f}×")
    return "\n".join([*lines, f"figure in {figure}"])


def _line(name: str, cells: Sequence[str]) -> str:
    return " ".join([name.ljust(_NAME), *(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True))])


def _timing(milliseconds: float, plain: float | None = None) -> tuple[str, str, str]:
    if plain is None:
        return _digits(milliseconds), "–", "–"
    return _digits(milliseconds), _digits(plain), f"{_digits(plain / milliseconds, 1)}×"


def _digits(number: float, decimals: int = 2) -> str:
    return f"{number:.{decimals if number < 10 else decimals - 1 if number < 100 else 0}f}"
