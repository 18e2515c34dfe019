"""Determinism: equal bits from run to run, and no scatter, whose sums depend on the order in which a device works.

`test_nestings` inspects the programs of derivatives of higher orders, and shows that scatters are found.
"""

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_as_usual
from tests.registry.cases import CASES, PLAIN, Case
from tests.registry.records import KINDS, RECORDS, by_function, row

pytestmark = pytest.mark.usefixtures("for_this_platform")

RULES = ("jvp", "vjp")
# Boxes may overlap anywhere: only their gradients add by a scatter.
WITHOUT_SCATTER = [case for case in CASES if RECORDS[case.function].has_rule]
# The last row of a function often has a mask.
LAST = [case for name, case in {case.function: case for case in WITHOUT_SCATTER}.items() if name in KINDS]


@pytest.mark.parametrize("case", [row(case, id=case.name, quick=case in LAST) for case in WITHOUT_SCATTER])
def test_gradients_scatter_nothing(case: Case) -> None:
    def gradients(x: jax.Array) -> Any:
        return [jax.grad(lambda x, rule=rule: (case.values(x, rule) ** 2).sum())(x) for rule in RULES]

    assert "scatter" not in jax.jit(gradients).lower(case.x).as_text()


# Large enough for a device to use several threads, with ties, so that many windows share few winners.
LARGE = (np.random.default_rng(0).integers(-50, 50, (2, 16, 96, 96)) * 0.1).astype(np.float32)


def bits(results: Any) -> list[bytes]:
    return [np.asarray(result).tobytes() for result in jax.tree.leaves(results)]


@by_function(PLAIN, quick=("max_pool",))
def test_equal_bits_from_run_to_run(case: Case) -> None:
    weights = np.random.default_rng(1).normal(size=jax.eval_shape(case.values, LARGE).shape).astype(np.float32)

    def everything(x: jax.Array, weights: jax.Array) -> Any:
        gradients = [jax.vjp(partial(case.values, rule=rule), x)[1](weights) for rule in RULES]
        return case.outputs(x), gradients, jax.jvp(case.values, (x,), (x,))[1]

    compiled = compiled_as_usual(everything)
    first = bits(compiled(LARGE, weights))
    for _ in range(5):
        assert bits(compiled(LARGE, weights)) == first
    if case.function in ("max_pool", "avg_pool", "lp_pool"):
        jax.clear_caches()
        assert bits(compiled_as_usual(everything)(LARGE, weights)) == first


def test_unpooling_gives_equal_bits() -> None:
    random = np.random.default_rng(2)
    values, weights = random.normal(size=(2, 4, 9000)), random.normal(size=(2, 4, 5000))
    indices = random.integers(0, 5000, values.shape)

    @compiled_as_usual
    def everything(values: jax.Array, indices: jax.Array, weights: jax.Array) -> Any:
        unpooled, pull_back = jax.vjp(lambda values: jaxpool.max_unpool(values, indices, (5000,), axis=-1), values)
        return unpooled, pull_back(weights)[0]

    first = bits(everything(values, indices, weights))
    for _ in range(5):
        assert bits(everything(values, indices, weights)) == first
