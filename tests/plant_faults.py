"""Plant faults in the package, one at a time, and see whether the tests reject them.

`python -m tests.plant_faults` plants every fault of the files `faults_of_*` in a copy of the tree, runs the tests there
until one fails, and prints which one. Faults that no test rejects are listed at the end, and make the exit status 1.
Both parts of the tests are run; with `--part "not slow"` the default part. `--likely` runs only the tests named
with the fault, which is faster and finds fewer.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.project import (
    faults_of_arguments,
    faults_of_engine,
    faults_of_means,
    faults_of_moments,
    faults_of_platforms,
    faults_of_pools,
    faults_of_ranks,
    faults_of_windows,
)
from tests.project.fault import Fault

ROOT = Path(__file__).parent.parent
_FILES = (
    faults_of_engine,
    faults_of_platforms,
    faults_of_pools,
    faults_of_ranks,
    faults_of_means,
    faults_of_moments,
    faults_of_arguments,
    faults_of_windows,
)
FAULTS = tuple(fault for file in _FILES for fault in file.FAULTS)
# Tests of sources and programs as text, not of what they compute: some cannot see a fault, others reject any change.
_NOT_RUN = (
    "test_source",
    "test_planted",
    "test_wheel",
    "test_typing",
    "test_docs",
    "test_docstrings",
    "test_benchmarks",
    "test_goals",
    "test_kernels",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.plant_faults", description=__doc__)
    parser.add_argument("--part", default="", help="the tests to run, as for pytest -m")
    parser.add_argument("--fault", action="append", help="the name of one fault alone, or of several")
    parser.add_argument("--likely", action="store_true", help="run the files alone that are likely to see the fault")
    parser.add_argument("--processes", default="0", help="as for pytest -n")
    asked = parser.parse_args(arguments)
    chosen = [fault for fault in FAULTS if asked.fault is None or fault.name in asked.fault]
    missed = []
    for fault in chosen:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            tree = plant(fault, Path(folder) / "tree")
            rejected = rejecting_test(tree, fault, asked.part, asked.processes, asked.likely)
        print(f"{fault.name:45} {time.monotonic() - start:5.0f} s  {rejected or 'MISSED'}", flush=True)
        if rejected is None:
            missed.append(fault.name)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults rejected")
    for name in missed:
        print(f"missed: {name}")
    return bool(missed)


def plant(fault: Fault, tree: Path) -> Path:
    """A copy of the tree with the fault in it."""
    source, text = found_in(fault)
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "results"))
    (tree / source).write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")
    return tree


def found_in(fault: Fault) -> tuple[Path, str]:
    """The file with the text of a fault, and its contents; raise unless the text occurs exactly once in the package."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "jaxpool").rglob("*.py"))}
    found = [(path.relative_to(ROOT), text) for path, text in texts.items() if fault.right in text]
    if len(found) != 1 or found[0][1].count(fault.right) != 1:
        places = ", ".join(str(path) for path, _ in found) or "no file"
        raise LookupError(f"{fault.name}: {fault.right!r} must occur once in the package, and is in {places}")
    return found[0]


def rejecting_test(tree: Path, fault: Fault, part: str, processes: str, likely: bool) -> str | None:
    """The first test that fails, first among the likely ones and then among all; None if all pass."""
    files, _, keyword = fault.seen_by.partition(" -k ")
    places = {path.stem: str(path.relative_to(tree)) for path in sorted((tree / "tests").rglob("test_*.py"))}
    first = [places[name] for name in files.split()]
    every = [place for name, place in places.items() if name not in _NOT_RUN]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", processes, "-p", "no:cacheprovider", "-m", part]
    for files in [[*first, "-k", keyword]] if likely else [[*first, "-k", keyword], every]:
        # This environment has the package installed from elsewhere.
        environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([*command, *files], cwd=tree, env=environment, capture_output=True, text=True)
        if done.returncode not in (0, 5):
            failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
            if failed is None:
                raise RuntimeError(done.stdout + done.stderr)
            return failed[1]
    return None


if __name__ == "__main__":
    sys.exit(main())
