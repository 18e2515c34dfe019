"""Determinism: equal bits from run to run; that no program scatters is held in `test_nestings`."""

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_as_usual
from tests.registry.cases import PLAIN, Case
from tests.registry.records import by_function

pytestmark = pytest.mark.usefixtures("for_this_platform")

# Large enough for a device to use several threads, with ties, so that many windows share few winners.
LARGE = (np.random.default_rng(0).integers(-50, 50, (2, 16, 96, 96)) * 0.1).astype(np.float32)


def bits(results: Any) -> list[bytes]:
    return [np.asarray(result).tobytes() for result in jax.tree.leaves(results)]


@by_function(PLAIN, quick=("max_pool",))
def test_equal_bits_from_run_to_run(case: Case) -> None:
    weights = np.random.default_rng(1).normal(size=jax.eval_shape(case.values, LARGE).shape).astype(np.float32)

    def everything(x: jax.Array, weights: jax.Array) -> Any:
        gradients = [jax.vjp(partial(case.values, rule=rule), x)[1](weights) for rule in ("jvp", "vjp")]
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
