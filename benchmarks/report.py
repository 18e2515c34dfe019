"""The measurements as text: a table of cases, a table of goals, a line per case."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.dispatch import Dispatch
from benchmarks.goals import PEER_NAMES, Figure, ratio
from benchmarks.growth import Growth
from benchmarks.measure import Row

NOTHING = "–"
_WIDTH_OF_FILES = 260


def make_console() -> Console:
    """The standard output, wide enough for the tables if it is not a terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(width=_WIDTH_OF_FILES, highlight=False)


def line(row: Row) -> str:
    """A case in one line."""
    parts = []
    for what in ("forward", "gradient"):
        peers = ", ".join(f"{name} {_times(ratio(row, what, peer))}" for peer, name in PEER_NAMES.items())
        parts.append(f"{what} {_number(getattr(row, what)['jaxpool'])} ms ({peers})")
    return f"{row.group} {row.case}: {'; '.join(parts)}"


def print_rows(console: Console, rows: Sequence[Row]) -> None:
    """Print milliseconds of jaxpool, how many times as long the others and a copy take, and further figures."""
    table = Table(title="ms: jaxpool; ×: how many times longer the others take", title_justify="left")
    table.add_column("", no_wrap=True)
    for what in ("forward", "gradient"):
        for heading in (f"{what} ms", "plain", "reshape", "Flax", "torch", "copy"):
            table.add_column(heading, justify="right")
    headings = ("tangent ms", "plain", "behind relu ms", "plain", "compile s", "plain", "gradient s", "plain")
    for heading in (*headings, "bytes", "temporaries"):
        table.add_column(heading, justify="right")
    for row in rows:
        cells = [f"{row.group} {row.case}"]
        for what in ("forward", "gradient"):
            cells.append(_number(getattr(row, what)["jaxpool"]))
            cells += [_times(ratio(row, what, peer)) for peer in ("plain", "reshape", "flax", "torch", "copy")]
        cells += [_number(row.tangent["jaxpool"]), _times(ratio(row, "tangent", "plain"))]
        cells += [_number(row.activated.get("jaxpool")), _times(ratio(row, "activated", "jax"))]
        for seconds in (row.compile_forward, row.compile_gradient):
            cells += [_number(seconds.get("jaxpool")), _number(seconds.get("plain"))]
        cells += [_number(row.residual_bytes_per_output.get("jaxpool"))]
        cells += [_number(row.temporary_bytes_over_input.get("jaxpool"))]
        table.add_row(*cells)
    console.print(table)


def print_growth(console: Console, growths: Sequence[Growth], dispatches: Sequence[Dispatch]) -> None:
    """Print milliseconds by kernel and by size, and microseconds per call."""
    table = Table("growth", "forward ms", "gradient ms", "compile s, forward", "compile s, gradient")
    for growth in growths:
        columns = (growth.forward, growth.gradient, growth.compile_forward, growth.compile_gradient)
        cells = ("  ".join(f"{key}: {_number(value)}" for key, value in column.items()) for column in columns)
        table.add_row(growth.name, *cells)
    if growths:
        console.print(table)
    for dispatch in dispatches:
        console.print(f"{dispatch.name}: {dispatch.jaxpool:.1f} µs a call, plain JAX {dispatch.plain:.1f} µs")


def print_summary(console: Console, figures: Sequence[Figure]) -> None:
    """Print every figure that has a number, with its goals."""
    table = Table("", title="summary", title_justify="left")
    for heading in ("cases", "mean", "goal", "worst", "goal", "met"):
        table.add_column(heading, justify="right")
    table.add_column("worst case")
    for figure in figures:
        if figure.count:
            sign = "≥ " if figure.more_is_better else "≤ "
            goals = [NOTHING if goal is None else f"{sign}{goal:g}" for goal in (figure.mean_goal, figure.worst_goal)]
            met = {True: "yes", False: "[bold red]no[/]", None: NOTHING}[figure.met]
            numbers = [_number(figure.mean), goals[0], _number(figure.worst), goals[1]]
            table.add_row(figure.name, str(figure.count), *numbers, met, figure.worst_case)
    console.print(table)


def _number(number: float | None) -> str:
    if number is None:
        return NOTHING
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def _times(number: float | None) -> str:
    return NOTHING if number is None else f"{_number(number)}×"
