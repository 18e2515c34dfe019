"""Programs of common pools for an H100 and a v5e do not grow: kernels, bytes, cycles and temporaries are those stored.

Their maxima keep NaN, and their means of two large numbers are finite.

`python -m benchmarks.accelerators --write --case …` stores new figures. The compilers need an environment of their own,
which benchmarks/README.md describes.
"""

import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxpool
from benchmarks.accelerators import page
from benchmarks.accelerators.compilers import TARGETS, compile_for, prepare
from benchmarks.accelerators.measure import measure, versions

_LAST, _FIRST = "32×112×112×64 NHWC bfloat16", "32×64×112×112 NCHW float32"
HELD = (
    # First, since it takes longer to compile than all the others.
    ("tpu", "stem, max 3×3/2 + 1"),
    ("tpu", "DenseNet head, global avg whole"),
    ("tpu", f"max 3×3/2 + 1, {_LAST}, forward"),
    ("tpu", f"avg 31×31/1 + 15, {_FIRST}, forward"),
    ("tpu", f"sum 3×3/2 + 1, {_FIRST}, gradient"),
    ("tpu", f"smooth 3×3/2, {_FIRST}, gradient"),
    ("tpu", f"gem 3×3/2, {_LAST}, forward"),
    ("tpu", f"median 3×3/2, {_LAST}, gradient"),
    ("tpu", f"var 3×3/2, {_LAST}, gradient"),
    ("tpu", f"learnt gem 3×3/2, {_LAST}, gradient"),
    ("tpu", f"learnt soft 3×3/2, {_LAST}, gradient"),
    ("tpu", f"blur 3×3/2, {_LAST}, forward"),
    ("tpu", f"adaptive avg 10×10 bins, {_LAST}, forward"),
    ("tpu", f"adaptive avg 10×10 bins, {_FIRST}, gradient"),
    ("tpu", "max 3×3/1, 32×56×56×128 NHWC bfloat16 on 4 chips, gradient"),
    ("tpu", "lp 3×3/2, 32×56×56×128 NHWC bfloat16 on 4 chips, gradient"),
    ("tpu", "smooth 3×3/2, 32×56×56×128 NHWC bfloat16 on 4 chips, gradient"),
    ("tpu", "soft 3×3/2, 32×56×56×128 NHWC bfloat16 on 4 chips, gradient"),
    ("gpu", "stem, max 3×3/2 + 1"),
    ("gpu", "DenseNet transition, avg 2×2/2"),
    ("gpu", f"max 3×3/2 + 1, {_FIRST}, forward"),
    ("gpu", f"max 3×3/2 + 1, {_FIRST}, gradient"),
    ("gpu", f"max 3×3/1 + 1, {_LAST}, gradient"),
    ("gpu", f"max 31×31/1 + 15, {_FIRST}, gradient"),
    ("gpu", f"avg 7×7/1 + 3, {_LAST}, forward"),
    ("gpu", f"avg 3×3/2 + 1, {_FIRST}, gradient"),
    ("gpu", f"lp 3×3/2, {_FIRST}, gradient"),
    ("gpu", f"median 3×3/1, {_FIRST}, forward"),
    ("gpu", f"weighted 3×3/1, {_LAST}, gradient"),
    ("gpu", f"masked max 3×3/2 + 1, {_FIRST}, gradient"),
    ("gpu", f"global max whole, {_LAST}, forward"),
)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the code of the H100's kernels."""
    return tmp_path_factory.mktemp("ptx")


@pytest.fixture(scope="module")
def rows(dump: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The figures of jaxpool for all that is held."""
    for target in TARGETS:
        stored = page.stored(target)["versions"]
        assert {**versions(), "jaxpool": ""} == {**stored, "jaxpool": ""}, "stored for other compilers"
    # The compilers read it in the processes that they start in.
    os.environ["XLA_FLAGS"] = f"--xla_dump_to={dump} --xla_dump_hlo_as_text=false --xla_dump_emitter_re=.*"
    return {(row["target"], row["case"]): row["jaxpool"] for row in measure(HELD, (), 2)}


@pytest.mark.parametrize(("target", "name"), HELD, ids=lambda text: text.replace("×", "x"))
def test_program_does_not_grow(target: str, name: str, rows: dict[tuple[str, str], dict[str, Any]]) -> None:
    """No figure exceeds what is stored."""
    (stored,) = (row["jaxpool"] for row in page.stored(target)["cases"] if row["case"] == name)
    found = rows[target, name]
    assert {figure: value for figure, value in found.items() if value > stored[figure]} == {}


def test_extremes_of_kernels_keep_nan(rows: dict[tuple[str, str], dict[str, Any]], dump: Path) -> None:
    """A GPU has instructions for maxima and minima that keep NaN, and others that lose it."""
    text = "\n".join(path.read_text() for path in dump.glob("*.ptx"))
    extremes = re.findall(r"\b(?:max|min)\.(?:\w+\.)*b?f(?:16|16x2|32|64)\b", text)
    assert extremes, "there are kernels of maxima"
    assert {extreme for extreme in extremes if ".NaN." not in extreme} == set()


@pytest.mark.parametrize("target", TARGETS)
def test_halves_are_halved_before_they_are_added(target: str) -> None:
    """The sum of two large numbers overflows, that of their halves does not."""
    prepare()
    pool = partial(jaxpool.median_pool, kernel_size=2, axis=0)
    text = compile_for(target, pool, [jax.ShapeDtypeStruct((2, 128), jnp.float32)], 1, jaxpool).text
    assert text.count(" multiply(") >= 2
