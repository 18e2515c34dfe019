"""`python -m jaxpool [IMAGE]`: every variant on a real picture, timed, checked and drawn.

The program is `examples/demonstration`, which lies beside the package in a copy of the repository, and is not installed
with it. Where it is missing, the exit status is 2, and one line on the error stream says where to find it.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

_REPOSITORY = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration with these command-line arguments, `sys.argv` by default, and return its exit status."""
    if not (_REPOSITORY / "examples" / "demonstration").is_dir():
        print(
            "python -m jaxpool runs examples/demonstration of the repository of jaxpool, which is not installed with "
            f'{Path(__file__).parent}: in a copy of the repository, pip install -e ".[demo]" and run this again',
            file=sys.stderr,
        )
        return 2
    if str(_REPOSITORY) not in sys.path:
        sys.path.insert(0, str(_REPOSITORY))
    return import_module("examples.demonstration.command").main(arguments)


if __name__ == "__main__":
    sys.exit(main())
