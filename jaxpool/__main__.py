"""`python -m jaxpool [IMAGE]`: every variant on a real picture, by both rules, timed, checked and drawn.

Each variant in the table of `jaxpool._demo.variants` pools the picture, forward and with gradient, next to plain JAX
(`lax.reduce_window` where possible) and an independent NumPy evaluation in float64. The command prints a table and a
summary and writes a figure. The exit status is 0 if all is well, 1 if a difference is out of tolerance, and 2 for a
mistake that the user can fix: one line on the error stream says how.
"""

import sys
from collections.abc import Sequence

from jaxpool._demo.request import Mistake, Request, parse

_EXTRAS = ("matplotlib", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job with these command-line arguments, `sys.argv` by default, and return its exit status."""
    try:
        return _run(parse(arguments))
    except Mistake as mistake:
        print(f"python -m jaxpool: {mistake}", file=sys.stderr)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _EXTRAS:
            raise
        print('python -m jaxpool needs matplotlib and rich: pip install "jaxpool[demo]"', file=sys.stderr)
    return 2


def _run(request: Request) -> int:
    # Imported here, so that --help works without them and a missing package is reported in one line.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from jaxpool._demo import columns, figure, report, variants
    from jaxpool._demo.measure import measure
    from jaxpool._demo.picture import check_kernel_fits, read_picture

    picture = read_picture(request.image)
    check_kernel_fits(request.size, picture.shape)
    chosen = variants.chosen(request.pools)
    measurements, drawings = [], []
    shown = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*shown, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(chosen))
        for variant in chosen:
            measured, drawing = measure(
                variant, picture, request.size, lambda step: progress.update(task, description=step)
            )
            measurements += measured
            drawings.append(drawing)
            progress.advance(task)
        progress.update(task, description="drawing")
        (columns if request.pools else figure).draw(picture, drawings, request.size, request.out)
    report.print_table(measurements)
    print(report.summary(measurements, request.out))
    return 0 if all(map(report.is_well, measurements)) else 1


if __name__ == "__main__":
    sys.exit(main())
