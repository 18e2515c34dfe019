"""The table of faults as a program: where XLA on the CPU, plain JAX and the frameworks are silently wrong today.

`python -m tests.platform_faults` evaluates every row of `platform_rows` and prints the truth, the result of each
library and why wrong results are wrong, with ✗ at wrong values, ≈ at those that are only less exact or as documented,
and – where a library has no such pool; `--markdown` prints the table of docs/conformance.md for the versions that are
installed, and `--json` what the tests read. The versions are below the tables. JAX is imported after the environment is
set, as sharded rows need four virtual devices.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from importlib import metadata
from typing import Any

# Rows whose results are only less exact, by one unit in the last place, or are what JAX documents.
NOT_WRONG = ("average 2×2, uint8 200s", "average of 7 cells, all 3")
PACKAGES = ("jax", "jaxlib", "numpy", "flax", "dm-haiku", "equinox", "keras")


def main() -> None:
    """Evaluate every row with every library, and print them in the form asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.platform_faults", description=__doc__)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print the table of docs/conformance.md")
    form.add_argument("--json", action="store_true", help="print rows, columns and versions for programs")
    parser.add_argument("--library", action="append", help="one of the libraries alone, or several")
    asked = parser.parse_args()
    # Keras writes a settings file into its home when it is imported.
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {
            "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
            "JAX_PLATFORMS": "cpu",
            "KERAS_BACKEND": "jax",
            "KERAS_HOME": home,
        }
        table = evaluated(asked.library)
    if asked.json:
        print(json.dumps(table))
    elif asked.markdown:
        print(markdown(table))
    else:
        print(plain(table))


def evaluated(chosen: Sequence[str] | None = None) -> dict[str, Any]:
    """All rows, in the order of their table: names, truth, what each library gives, and causes."""
    from tests.peers.platform_libraries import LIBRARIES
    from tests.peers.platform_rows import ROWS, evaluate, text, truth

    libraries = [library for library in LIBRARIES if chosen is None or library in chosen]
    rows = []
    for row in ROWS:
        cells = {library: evaluate(row, library) for library in libraries}
        rows.append(
            {
                "name": row.name,
                "true": text(truth(row)),
                "texts": {library: cell.text for library, cell in cells.items()},
                "wrong": [library for library, cell in cells.items() if cell.right is False],
                "mark": "≈" if row.name in NOT_WRONG else "✗",
                "cause": row.cause,
            }
        )
    return {"columns": ["", "true", *libraries], "rows": rows, "versions": versions()}


def versions() -> str:
    """The packages that the table depends on."""
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join(found)


def entries(table: dict[str, Any]) -> list[list[str]]:
    """The text of every cell, row by row, under the row of titles."""
    lines = [table["columns"]]
    for row in table["rows"]:
        wrong, mark = row["wrong"], row["mark"]
        marked = [f"{mark} {text}" if library in wrong else text for library, text in row["texts"].items()]
        lines.append([row["name"], row["true"], *marked])
    return lines


def markdown(table: dict[str, Any]) -> str:
    """The table as docs/conformance.md has it, with one version of JAX."""
    titles, *rows = [f"| {' | '.join(line)} |" for line in entries(table)]
    return "\n".join([titles, "|" + "---|" * len(table["columns"]), *rows, "", f"Made with {table['versions']}."])


def plain(table: dict[str, Any]) -> str:
    """The table in columns for a terminal, with the causes below."""
    lines = entries(table)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    causes: dict[str, list[str]] = {}
    for row in table["rows"]:
        causes.setdefault(row["cause"], []).append(row["name"])
    notes = [f"{'; '.join(names)}:\n    {cause}" for cause, names in causes.items()]
    return "\n".join([*rows, "", *notes, "", table["versions"]])


if __name__ == "__main__":
    main()
