"""The command line of `python -m jaxpool`, parsed and checked before anything is computed.

Every mistake a user can make, here or in reading the picture, is a `Mistake`, whose text is the single line that the
user sees. The output file is tried at once, so that a long run is not lost for a missing folder.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

FIGURE_FORMATS = (".png", ".jpg", ".jpeg", ".webp", ".pdf", ".svg")


class Mistake(Exception):
    """Something the user can fix, in one line that says how."""


@dataclass(frozen=True)
class Size:
    """The square window that slides over the picture: `kernel` cells a side, moved by `stride` cells."""

    kernel: int
    stride: int

    def bins(self, length: int) -> int:
        """The number of bins along an axis: one less than its windows, which rarely divides the axis."""
        return max(1, (length - self.kernel) // self.stride)


@dataclass(frozen=True)
class Request:
    """One run: the picture (None for the photograph that matplotlib ships), the window, the output file, the pools.

    Without `pools` it covers all of them.
    """

    image: Path | None
    size: Size
    out: Path
    pools: tuple[str, ...]


def parse(arguments: Sequence[str] | None) -> Request:
    """Parse the command line, `sys.argv` if `arguments` is None."""
    parser = _Parser(
        prog="python -m jaxpool",
        description="Pool a picture with every function of jaxpool; time, check and draw each.",
        epilog="The exit status is 0 when all is well, 1 when a result differs from NumPy, 2 for a mistake of usage.",
    )
    parser.add_argument("image", nargs="?", type=Path, help="the picture to pool (default: a photograph)")
    parser.add_argument("--kernel", type=_positive, default=8, help="side of a window, in cells (default: %(default)s)")
    parser.add_argument("--stride", type=_positive, help="cells from one window to the next (default: the kernel)")
    parser.add_argument("--out", type=Path, default=Path("jaxpool.png"), help="the figure (default: %(default)s)")
    parser.add_argument("--pools", default="", help="only these, larger, such as max_pool,avg_pool (default: all)")
    given = parser.parse_args(arguments)
    _check_writable(given.out)
    pools = tuple(name.strip() for name in given.pools.split(",") if name.strip())
    return Request(given.image, Size(given.kernel, given.stride or given.kernel), given.out, pools)


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
