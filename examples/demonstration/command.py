"""The command line: it is checked before anything is computed, and then variants are run, a few at a time.

Each variant in the table of `variants` pools the picture, forward and with gradient, next to plain JAX
(`lax.reduce_window` where possible) and an independent NumPy evaluation in float64. A few variants are prepared side by
side, in threads; then each is timed while nothing else runs, and its row printed. At last come a summary and a figure.
The exit status is 0 if all is well, 1 if a difference is out of tolerance, and 2 for a `Mistake`, which the user can
fix: one line on the error stream says how. The output file is tried at once, so that a run is not lost for a missing
folder.
"""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

from examples.demonstration.size import Mistake, Size

FIGURE_FORMATS = (".png", ".jpg", ".jpeg", ".webp", ".pdf", ".svg")
_EXTRAS = ("matplotlib", "rich")
_AT_ONCE = 6


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job with these command-line arguments, `sys.argv` by default, and return its exit status."""
    try:
        return _run(_parsed(arguments))
    except Mistake as mistake:
        print(f"python -m jaxpool: {mistake}", file=sys.stderr)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _EXTRAS:
            raise
        print('python -m jaxpool needs matplotlib and rich: pip install "jaxpool[demo]"', file=sys.stderr)
    return 2


def _run(given: argparse.Namespace) -> int:
    # Imported here, so that --help works without them and a missing package is reported in one line.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from examples.demonstration import figure, report, variants
    from examples.demonstration.measure import Prepared, measure, prepare
    from examples.demonstration.picture import check_kernel_fits, detail_of, read_picture

    picture, size = read_picture(given.image), Size(given.kernel, given.stride or given.kernel)
    check_kernel_fits(size, picture.shape)
    chosen, detail = variants.chosen(given.pools), detail_of(picture, size)
    measurements, drawings = [], []

    def prepared(variant: variants.Variant) -> Prepared:
        return prepare(variant, picture, detail.cells, size, given.rules == "both")

    shown = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    bar = Progress(*shown, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())
    with bar as progress, ThreadPoolExecutor() as threads:
        task = progress.add_task("", total=len(chosen))
        print(report.heading())
        for few in (chosen[first : first + _AT_ONCE] for first in range(0, len(chosen), _AT_ONCE)):
            progress.update(task, description=f"compiling {few[0].name} and others")
            for each in list(threads.map(prepared, few)):
                progress.update(task, description=f"timing {each.variant.name}")
                measurements += (measured := measure(each, picture))
                drawings.append(each.drawing)
                print(*map(report.row, measured), sep="\n", flush=True)
                progress.advance(task)
        progress.update(task, description="drawing")
        large = [each for each in drawings if given.pools or each.name in variants.LARGE]
        figure.draw(picture, detail, large, [each for each in drawings if each not in large], size, given.out)
    print(f"\n{report.summary(measurements, given.out)}")
    return 0 if all(map(report.is_well, measurements)) else 1


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m jaxpool",
        description="Pool a picture with every function of jaxpool; time, check and draw each.",
        epilog="The exit status is 0 when all is well, 1 when a result differs from NumPy, 2 for a mistake of usage.",
    )
    parser.add_argument("image", nargs="?", type=Path, help="the picture to pool (default: a photograph)")
    parser.add_argument("--kernel", type=_positive, default=4, help="side of a window, in cells (default: %(default)s)")
    parser.add_argument("--stride", type=_positive, help="cells from one window to the next (default: the kernel)")
    parser.add_argument("--out", type=Path, default=Path("jaxpool.png"), help="the figure (default: %(default)s)")
    parser.add_argument("--pools", default="", help="only these, such as max_pool,avg_pool (default: all)")
    parser.add_argument("--rules", choices=("one", "both"), default="one", help="rules of derivatives (default: one)")
    given = parser.parse_args(arguments)
    _check_writable(given.out)
    given.pools = tuple(name.strip() for name in given.pools.split(",") if name.strip())
    return given


class _Parser(argparse.ArgumentParser):
    """A parser that reports a mistake in one line, without the usage text."""

    def error(self, message: str) -> NoReturn:
        raise Mistake(message)


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _check_writable(out: Path) -> None:
    if out.suffix.lower() not in FIGURE_FORMATS:
        raise Mistake(f"--out {out} must end in one of {', '.join(FIGURE_FORMATS)}")
    new = not out.exists()
    try:
        # Opening is the only reliable test on every file system and for every user; nothing is overwritten yet.
        with out.open("ab"):
            pass
        if new:
            out.unlink()
    except OSError as error:
        raise Mistake(f"--out {out} cannot be written: {error.strerror}") from None
