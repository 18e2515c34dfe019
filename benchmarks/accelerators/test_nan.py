"""NaN is kept in the code for an H100: its maxima and minima return NaN if an operand is NaN.

PTX has such instructions for float32 and for 16-bit numbers. It has none for float64, where the compiler selects NaN if
the operands are unordered. The CPU's `lax.reduce_window` loses NaN; a GPU's does not.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.accelerators import maxima
from benchmarks.accelerators.programs import missing

ROOT = Path(__file__).parent.parent.parent
_LETTERS = {"float32": "f32", "bfloat16": r"bf16(?:x2)?"}
_NAN = "0d7FF8000000000000"


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the PTX of all modules."""
    absent = missing(("gpu",))
    assert not absent, f"not installed: {', '.join(absent)}; run pip install -e '.[accelerators]'"
    folder = tmp_path_factory.mktemp("ptx")
    # The code is dumped with what the kernels' emitters produce.
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text=false --xla_dump_emitter_re=.*"
    environment = os.environ | {"XLA_FLAGS": flags}
    command = [sys.executable, "-m", maxima.__name__]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(("author", "extreme", "window", "dtype"), list(maxima.names()))
def test_nan_wins(author: str, extreme: str, window: str, dtype: str, dump: Path) -> None:
    """Every maximum of the module keeps NaN, and there is at least one."""
    files = dump.glob(f"*.jit_{author}_{extreme}_{window}_{dtype}.*ptx")
    text = "\n".join(file.read_text() for file in files)
    if dtype == "float64":
        extremes = re.findall(rf"\b{extreme}\.f64\s+(%\w+), (%\w+), (%\w+);", text)
        kept = [one for one in extremes if _selects_nan(text, *one)]
    else:
        extremes = re.findall(rf"\b{extreme}(?:\.\w+)*\.{_LETTERS[dtype]}\s", text)
        kept = [one for one in extremes if one.startswith(f"{extreme}.NaN.")]
    assert extremes, f"no {extreme} in the code"
    assert kept == extremes


def _selects_nan(text: str, result: str, first: str, second: str) -> bool:
    """Whether a result is replaced by NaN whenever one of its operands is NaN."""
    unordered = re.search(rf"setp\.nan\.f64\s+(%\w+), (?:{first}, {second}|{second}, {first});", text)
    return unordered is not None and f"{_NAN}, {result}, {unordered.group(1)};" in text
