"""The programs of a dozen pools do not grow: kernels, bytes, cycles and temporaries stay within the stored bounds.

Those of TPU chips that share a batch are as cheap as that of one.

This test needs a separate environment, described in benchmarks/README.md under “GPUs and TPUs”.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxpool
from benchmarks.accelerators import bounds
from benchmarks.accelerators.case import OURS
from benchmarks.accelerators.costs import costs
from benchmarks.accelerators.measure import Row, measure
from benchmarks.accelerators.programs import TARGETS, compile_for, missing, prepare


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], Row]:
    """The programs of jaxpool for all cases with bounds."""
    absent = missing(tuple(TARGETS))
    assert not absent, f"not installed: {', '.join(absent)}; run pip install -e '.[accelerators]'"
    expected, _ = bounds.read()
    assert bounds.versions() == expected, "the bounds hold for other compilers; run pip install -e '.[accelerators]'"
    prepare()
    return {(row.case.target, row.case.name): row for row in measure(bounds.bounded_cases(), 2, (OURS,))}


@pytest.mark.parametrize(("target", "name"), bounds.NAMES, ids=lambda text: text.replace("×", "x"))
def test_program_does_not_grow(target: str, name: str, rows: dict[tuple[str, str], Row]) -> None:
    """No figure exceeds its bound; if an increase is intended, its commit rewrites the bounds."""
    row = rows[target, name]
    assert not row.failures, row.failures[OURS]
    _, allowed = bounds.read()
    grown = [
        f"{figure} grew from {allowed[target, name][figure]} to {value}"
        for figure, value in bounds.bounds(row).items()
        if value > allowed[target, name][figure]
    ]
    assert not grown, f"{'; '.join(grown)}; look with --case '{name}', and if it is meant, --write-bounds"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_halves_are_halved_before_they_are_added(target: str, dtype: str) -> None:
    """The sum of two large numbers overflows, that of their halves does not."""
    prepare()
    pool = partial(jaxpool.median_pool, kernel_size=2, axis=0)
    with jax.enable_x64(True):
        text = compile_for(target, pool, [((2, 128), jnp.dtype(dtype))]).text
    # A TPU has float64 in two parts, the products of which are many.
    assert text.count(" multiply(") >= 2


POOLS = {
    "max": partial(jaxpool.max_pool, stride=1),
    "lp": partial(jaxpool.lp_pool, norm_type=3, stride=2),
    "smooth": partial(jaxpool.smooth_max_pool, beta=2.0, stride=2),
    "soft": partial(jaxpool.soft_pool, beta=2.0, stride=2),
}


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_chips_that_share_a_batch_work_as_one(pool: Any) -> None:
    """An explicit mesh says that no chip needs another, so each takes what is fast on one; exact means take 4 times."""
    prepare()

    def value_and_gradient(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        values, pull_back = jax.vjp(partial(pool, kernel_size=3, padding=1, axis="NHWC"), x)
        return values, pull_back(values)[0]

    one, four = (
        compile_for("tpu", value_and_gradient, [((8 * chips, 56, 56, 128), jnp.bfloat16)], chips) for chips in (1, 4)
    )
    assert costs(four.text, "tpu").cycles <= 1.3 * costs(one.text, "tpu").cycles
