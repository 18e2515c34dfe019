"""The benchmark runs: all who compute a case agree on its shape, and the command compares and times them."""

import subprocess
import sys
from pathlib import Path

import jax
import pytest

from benchmarks import pools
from benchmarks.cases import POOLS, all_cases, cases

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("pool", POOLS)
def test_everybody_computes_the_same_shape(pool: str) -> None:
    for case in [case for case in (*cases(), *all_cases()) if case.pool == pool][:5]:
        made = (pools.ours(case), pools.plain(case), pools.reshape(case), pools.flax(case))
        with jax.numpy_dtype_promotion("standard"):
            shapes = {jax.eval_shape(call, case.x).shape for call in made if call is not None}
        assert len(shapes) == 1, case.name


@pytest.mark.slow
def test_the_command_compares_and_times() -> None:
    command = [sys.executable, "-m", "benchmarks", "--case", "avg 2x2/2, 8x56", "--repetitions", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "avg 2×2/2, 8×56×56×64 NHWC float32: forward" in done.stdout
