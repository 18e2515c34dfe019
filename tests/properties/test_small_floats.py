"""Every function in 16 bits: values and derivatives are those of float64, rounded, however many cells are summed.

Results must be right to two units in the last place of the sum of magnitudes, so that cancellation does not tighten the
bound. Windows hold from 80 cells to all 480 of a plane, where a sum in 16 bits loses all but the first digits. Strides,
layouts and very large windows are in `test_precision.py`.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._arguments import Rule
from tests.harness.compilation import compiled_fast
from tests.harness.parts import MECHANISMS, case_row
from tests.reference import oracle
from tests.registry.records import RECORDS, Record

pytestmark = pytest.mark.usefixtures("for_this_platform")

SHAPE = (2, 24, 20)
LARGE: dict[str, dict[str, Any]] = {
    "fixed": {"kernel_size": (12, 10), "stride": (6, 5)},
    "blurred": {"kernel_size": (9, 9), "stride": 5, "padding": 2},
    "bins": {"output_size": (3, 2)},
    "levels": {"levels": ((1, 1), (3, 2))},
    "whole": {},
    "random": {"kernel_size": (12, 10), "output_size": (3, 3), "samples": np.full((2, 2), 0.4)},
    "boxes": {"boxes": np.array([[1.25, 0.5, 20.0, 18.0], [0.0, 3.0, 24.0, 9.0]]), "output_size": (2, 1)},
}
DTYPES = (jnp.bfloat16, jnp.float16)
# By default every function in one of the dtypes.
ROWS = [
    case_row(
        record,
        dtype,
        id=f"{name}-{jnp.dtype(dtype).name}",
        kept=name in MECHANISMS and (number + place) % 2 == 0,
    )
    for number, (name, record) in enumerate(RECORDS.items())
    for place, dtype in enumerate(DTYPES)
    if record.windows != "indices"
]


def uniform(shape: tuple[int, ...], seed: int, dtype: Any) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(dtype)


def magnitudes(pooled: oracle.Pooled) -> oracle.Pooled:
    """The same with all slopes positive."""
    return replace(pooled, entries=[(output, cell, abs(slope)) for output, cell, slope in pooled.entries])


def check_units(found: jax.Array, true: np.ndarray, size: np.ndarray, what: str) -> None:
    """Check that the result is within two units in the last place of its size."""
    limits = jnp.finfo(found.dtype)
    distances = float(limits.eps) * np.maximum(size, float(limits.tiny))
    assert np.max(np.abs(np.asarray(found).astype(np.float64) - true) / distances) <= 2, what


@pytest.mark.parametrize(("record", "dtype"), ROWS)
def test_every_function_sums_in_more_than_16_bits(record: Record, dtype: Any) -> None:
    parameters = {**record.parameters, **LARGE[record.windows]}
    x, tangent = (uniform(SHAPE, seed, dtype) for seed in (0, 1))
    expected = oracle.evaluate(record.function, x.astype(np.float32), **parameters)
    cotangent = uniform(expected.values.shape, 2, dtype)
    pool = partial(record.values, **LARGE[record.windows])
    rules = {"rule": "jvp"} if record.has_rule else {}

    @compiled_fast
    def everything(x: jax.Array, tangent: jax.Array, cotangent: jax.Array) -> dict[str, jax.Array]:
        values, pull_back = jax.vjp(partial(pool, **rules), x)
        forward = jax.jvp(partial(pool, **rules), (x,), (tangent,))[1]
        return {"values": values, "JVP": forward, "VJP": pull_back(cotangent)[0]}

    wide, positive = (one.astype(np.float64) for one in (tangent, cotangent)), magnitudes(expected)
    wide_tangent, wide_cotangent = wide
    true = {
        "values": (expected.values, np.abs(expected.values)),
        "JVP": (expected.forward(wide_tangent), positive.forward(wide_tangent)),
        "VJP": (expected.backward(wide_cotangent), positive.backward(wide_cotangent)),
    }
    for what, found in everything(x, tangent, cotangent).items():
        assert found.dtype == dtype
        check_units(found, *true[what], what)


def test_small_floats_accumulate_in_float32() -> None:
    ones = jnp.ones((31, 31), jnp.bfloat16)
    # 961 is not a bfloat16, whose neighbours are 960 and 964.
    assert jaxpool.sum_pool(ones, (31, 31)) == 960
    assert jaxpool.sum_pool(ones.astype(jnp.float16), (31, 31)) == 961
    assert jaxpool.avg_pool(ones, (31, 31)) == 1
    assert jaxpool.lp_pool(ones, 2, (31, 31)) == 31
    assert jaxpool.smooth_max_pool(ones, 1.0, (31, 31)) == jnp.bfloat16(1 + math.log(961))


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
@pytest.mark.parametrize(("dtype", "expected"), [(jnp.bfloat16, 960), (jnp.float16, 961)])
def test_gradients_of_small_floats_accumulate_in_float32(dtype: Any, expected: int, rule: Rule) -> None:
    # The cell in the middle is in all 961 windows, and wins all of them.
    x = jnp.zeros((61, 61), dtype).at[30, 30].set(1)
    gradients = jax.jit(
        lambda x: [
            jax.vjp(partial(pool, kernel_size=(31, 31), stride=1, rule=rule), x)[1](jnp.ones((31, 31), dtype))[0]
            for pool in (jaxpool.sum_pool, jaxpool.max_pool)
        ]
    )(x)
    for gradient in gradients:
        assert gradient.dtype == dtype
        assert gradient[30, 30] == expected
    assert gradients[0][0, 0] == 1
    assert jnp.count_nonzero(gradients[1]) == 1


@pytest.mark.parametrize("pool", [jaxpool.roi_align, jaxpool.roi_pool])
def test_cotangents_of_boxes_are_summed_in_float32(pool: Any) -> None:
    x, boxes = jnp.ones((1,), jnp.bfloat16), jnp.tile(jnp.array([[0.0, 1.0]]), (9, 1))
    cotangent = jnp.ones((9, 1), jnp.bfloat16).at[0].set(256)
    (gradient,) = jax.vjp(lambda x: pool(x, boxes, (1,)), x)[1](cotangent)
    assert gradient.dtype == jnp.bfloat16
    assert gradient.tolist() == [264]


@pytest.mark.parametrize("pool", [jaxpool.weighted_pool, jaxpool.attention_pool])
def test_cotangents_of_shared_weights_are_summed_in_float32(pool: Any) -> None:
    random = np.random.default_rng(0)
    x, weights = random.uniform(0, 1, (64, 64)), random.uniform(0.5, 1.5, (1, 64))
    x, weights = x.astype(jnp.bfloat16), weights.astype(jnp.bfloat16)

    def gradient(x: Any, weights: Any) -> jax.Array:
        return jax.grad(lambda weights: pool(x, weights, (2, 2)).astype(np.float32).sum())(weights)

    found, expected = gradient(x, weights), gradient(x.astype(np.float32), weights.astype(np.float32))
    error = np.abs(found.astype(np.float32) - expected)
    # Half a unit of the terms, whose sums may be near 0.
    assert (error <= 2.0**-8 * (np.abs(expected) + 0.05)).all()
