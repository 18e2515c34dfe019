"""Precision: sums of 16-bit floats are accumulated in float32, those of a million float32 keep theirs, float64 stays.

Right to n units in the last place means |found - true| ≤ n·eps·size, where eps is the distance from 1 to the next float
of the dtype, `true` is computed in float64 from the same rounded inputs, and size is the sum of magnitudes.
"""

import itertools
import math
import re
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.reference import oracle, sliding
from tests.registry.cases import mask
from tests.registry.records import KINDS, RECORDS, Record, row, slow_but

pytestmark = pytest.mark.usefixtures("for_this_platform")

HALVES = (jnp.bfloat16, jnp.float16)
SHAPE = (2, 24, 20)
# Windows from 80 cells to all 480 of a plane, where a sum in 16 bits loses all but the first digits.
LARGE: dict[str, dict[str, Any]] = {
    "fixed": {"kernel_size": (12, 10), "stride": (6, 5)},
    "blurred": {"kernel_size": (9, 9), "stride": 5, "padding": 2},
    "bins": {"output_size": (3, 2)},
    "levels": {"levels": ((1, 1), (3, 2))},
    "whole": {},
    "random": {"kernel_size": (12, 10), "output_size": (3, 3), "samples": np.full((2, 2), 0.4)},
    "boxes": {"boxes": np.array([[1.25, 0.5, 20.0, 18.0], [0.0, 3.0, 24.0, 9.0]]), "output_size": (2, 1)},
}


# 527 cells in a window, and 256 windows that hold one cell, whose cotangents would stand still in bfloat16.
OVERLAPPING: dict[str, Any] = {"kernel_size": (31, 17), "stride": 1, "padding": 0}


def uniform(shape: tuple[int, ...], seed: int, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(dtype)


def check_units(found: jax.Array, dtype: Any, true: np.ndarray, size: Any) -> None:
    """Check that the result is of the dtype, and within two units in the last place of its size."""
    assert found.dtype == dtype
    limits = jnp.finfo(dtype)
    # Below the smallest normal number the spacing of floats is constant.
    distances = float(limits.eps) * np.maximum(size, float(limits.tiny))
    assert np.max(np.abs(np.asarray(found).astype(np.float64) - true) / distances) <= 2


@pytest.mark.parametrize(
    ("record", "dtype", "shape", "windows"),
    [
        row(record, HALVES[n % 2], SHAPE, LARGE[record.windows], id=name, quick=name in KINDS[::2])
        for n, (name, record) in enumerate(RECORDS.items())
        if record.windows != "indices"
    ]
    + [
        row(record, HALVES[1 - n % 2], (46, 32), OVERLAPPING, id=f"{name}-overlapping", quick=name == "avg_pool")
        for n, (name, record) in enumerate(RECORDS.items())
        if record.windows == "fixed"
    ],
)
def test_every_function_sums_in_more_than_16_bits(
    record: Record, dtype: Any, shape: tuple[int, ...], windows: dict[str, Any]
) -> None:
    x, tangent = (uniform(shape, seed, dtype) for seed in (0, 1))
    expected = oracle.evaluate(record.function, x.astype(np.float32), **{**record.parameters, **windows})
    cotangent = uniform(expected.values.shape, 2, dtype)
    rules = ("jvp", "vjp") if record.has_rule else (None,)

    @compiled_fast
    def everything(x: jax.Array, tangent: jax.Array, cotangent: jax.Array) -> Any:
        pools = [partial(record.values, **windows, **({"rule": rule} if rule else {})) for rule in rules]
        values, values_dot = jax.jvp(pools[0], (x,), (tangent,))
        return values, values_dot, [jax.vjp(pool, x)[1](cotangent)[0] for pool in pools]

    values, values_dot, gradients = everything(x, tangent, cotangent)
    # With all slopes positive, so that cancellation does not tighten the bound.
    sizes = replace(expected, entries=[(output, cell, abs(slope)) for output, cell, slope in expected.entries])
    wide_tangent, wide_cotangent = tangent.astype(np.float64), cotangent.astype(np.float64)
    check_units(values, dtype, expected.values, np.abs(expected.values))
    check_units(values_dot, dtype, expected.forward(wide_tangent), sizes.forward(wide_tangent))
    for gradient in gradients:
        check_units(gradient, dtype, expected.backward(wide_cotangent), sizes.backward(wide_cotangent))


@pytest.mark.parametrize("pool", [jaxpool.roi_align, jaxpool.roi_pool])
def test_cotangents_of_boxes_are_summed_in_float32(pool: Any) -> None:
    x, boxes = jnp.ones((1,), jnp.bfloat16), jnp.tile(jnp.array([[0.0, 1.0]]), (9, 1))
    cotangent = jnp.ones((9, 1), jnp.bfloat16).at[0].set(256)
    (gradient,) = jax.vjp(lambda x: pool(x, boxes, (1,)), x)[1](cotangent)
    assert gradient.dtype == jnp.bfloat16
    assert gradient.tolist() == [264]


@pytest.mark.parametrize("pool", [pytest.param(jaxpool.weighted_pool, marks=pytest.mark.slow), jaxpool.attention_pool])
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


@pytest.mark.parametrize(
    ("kind", "rule"), slow_but([("max", "jvp"), ("avg", "vjp")], itertools.product(("max", "avg"), ("jvp", "vjp")))
)
def test_gradients_of_16_bits_are_rounded_once_for_all_levels(kind: Any, rule: Any) -> None:
    x = np.random.default_rng(0).normal(size=(3, 12, 10)).astype(jnp.bfloat16)
    pool = partial(jaxpool.spatial_pyramid_pool, levels=((1, 1), (2, 2), (3, 4)), kind=kind, rule=rule)
    values, pull_back = jax.vjp(pool, x)
    cotangent = np.random.default_rng(1).normal(size=values.shape).astype(jnp.bfloat16)
    wide_values, wide_pull_back = jax.vjp(pool, x.astype(np.float32))
    np.testing.assert_array_equal(values, wide_values.astype(jnp.bfloat16))
    (wide,) = wide_pull_back(cotangent.astype(np.float32))
    np.testing.assert_array_equal(pull_back(cotangent)[0], wide.astype(jnp.bfloat16))


MILLION = 1_000_000
LONG: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "whole line": ("global_avg_pool", (2**20,), {"axis": 0}),
    "whole plane, channels last": ("global_avg_pool", (1000, 1000, 2), {"axis": (0, 1)}),
    "bins": ("adaptive_avg_pool", (2 * MILLION + 1,), {"output_size": 2, "axis": 0}),
    "disjoint planes": ("avg_pool", (2000, 1000), {"kernel_size": 1000, "axis": (0, 1)}),
    "overlapping lines": ("sum_pool", (MILLION + 1,), {"kernel_size": MILLION, "stride": 1, "axis": 0}),
    "overlapping planes": ("avg_pool", (1001, 1001), {"kernel_size": 1000, "stride": 1, "axis": (0, 1)}),
    "padded planes": ("avg_pool", (1024, 1024), {"kernel_size": 1024, "stride": 256, "padding": 512, "axis": (0, 1)}),
}


def true_sums(function: str, windows: sliding.Tables, x: Any, t: Any, g: Any) -> list[np.ndarray]:
    """Values, their change along t and the gradient of g·values, in float64."""
    x, t, g = (one.astype(np.float64) for one in (x, t, g))
    matrices = {a: sliding.holds(table, x.shape[a]) for a, table in windows.items()}

    def along(array: np.ndarray, transposed: bool) -> np.ndarray:
        for a, matrix in matrices.items():
            array = np.moveaxis(np.tensordot(matrix, array, (0 if transposed else 1, a)), 0, a)
        return array

    # Declared padding counts in the divisor.
    count: Any = 1.0 if function == "sum_pool" else math.prod(table.shape[1] for table in windows.values())
    if function == "adaptive_avg_pool":
        count = along(np.ones(x.shape), False)
    return [along(x, False) / count, along(t, False) / count, along(g / count, True)]


@pytest.mark.parametrize(
    "name", [row(name, id=name, quick=name in ("whole line", "overlapping planes")) for name in LONG]
)
def test_sums_of_a_million_float32(name: str) -> None:
    function, shape, parameters = LONG[name]
    pool = partial(getattr(jaxpool, function), **parameters)
    windows = sliding.tables(shape, **parameters)
    outputs = tuple(len(windows[a]) if a in windows else size for a, size in enumerate(shape))

    @compiled_as_usual
    def everything(x: jax.Array, tangent: jax.Array, cotangent: jax.Array) -> Any:
        return *jax.jvp(pool, (x,), (tangent,)), jax.vjp(pool, x)[1](cotangent)[0]

    thirds = [np.full(sizes, 1 / 3) for sizes in (shape, shape, outputs)]
    for arrays in (thirds, [uniform(sizes, seed) for seed, sizes in enumerate((shape, shape, outputs))]):
        given = [array.astype(np.float32) for array in arrays]
        for found, true in zip(everything(*given), true_sums(function, windows, *given), strict=True):
            np.testing.assert_allclose(found, true, rtol=1e-6)


# Floats other than float64, operations that truncate, and bitcasts of floats. This also finds "bf16" and "tf32".
# Rounding to the precision of float64 or more truncates nothing, nor do bitcasts to signed integers and back.
KEYS = r"\S+ : \(tensor<\w*(f64>\) -> tensor<\w*i64|i64>\) -> tensor<\w*f64)>"
ROUNDING = r"reduce_precision(?!.*format = e11m5[2-4]\b)"
NARROWER = re.compile(rf"f(8\w*|16|32)\b|{ROUNDING}|bitcast_convert(?! {KEYS})|ui(64|128)")

OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "max_pool of 31": ("max_pool", {"kernel_size": (31, 2), "stride": 1, "padding": (15, 1)}),
    "max_pool disjoint": ("max_pool", {"kernel_size": (4, 3)}),
    "max_pool masked": ("max_pool", {"kernel_size": (3, 3), "stride": 2, "padding": 1, "where": mask(16, 12)}),
    "avg_pool masked": ("avg_pool", {"kernel_size": (9, 3), "stride": 1, "where": mask(16, 12)}),
    "lp_pool inf": ("lp_pool", {"norm_type": np.inf, "kernel_size": (3, 2)}),
    "lp_pool learnt": ("lp_pool", {"norm_type": np.full((2, 1, 1), 2.5), "kernel_size": (3, 2), "stride": 1}),
    "smooth_max_pool learnt": ("smooth_max_pool", {"beta": np.full((2, 1, 1), -2.5), "kernel_size": (3, 2)}),
}
# Boxes, samples and keys are of float32, whatever the array.
OF_RECORDS = {name: (name, {}) for name, record in RECORDS.items() if record.windows not in ("boxes", "random")}


def program_for_cuda(function: Any, *arguments: Any) -> str:
    # Traced for GPUs only, in half the time; the lowered program is the same.
    with jaxpool.compiling_for("gpu"):
        return jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize(
    ("function", "parameters"),
    [row(*call, id=name, quick=name in KINDS[1::2]) for name, call in {**OF_RECORDS, **OTHERS}.items()],
)
def test_nothing_narrower_is_in_programs_for_cuda(function: str, parameters: dict[str, Any]) -> None:
    # Where the derivative of a windowed maximum packed a value and its tangent into one word, before JAX 0.12.
    record = RECORDS[function]
    rules: list[dict[str, Any]] = [{"rule": "jvp"}, {"rule": "vjp"}] if record.has_rule else [{}]

    def everything(x: jax.Array, tangent: jax.Array) -> Any:
        def cubed(x: jax.Array, rule: dict[str, Any]) -> jax.Array:
            return (record.values(x, **parameters, **rule) ** 3).sum()

        first = [jax.grad(lambda x, rule=rule: cubed(x, rule))(x) for rule in rules]
        second = jax.jvp(jax.grad(lambda x: cubed(x, rules[0])), (x,), (tangent,))
        return first, second, jax.jvp(lambda x: record.values(x, **parameters, **rules[0]), (x,), (tangent,))

    x = jax.ShapeDtypeStruct((2, 16, 12), jnp.float64)
    text = program_for_cuda(everything, x, x)
    assert "f64" in text
    assert not NARROWER.search(text), NARROWER.findall(text)


def test_narrower_numbers_are_found() -> None:
    # A control.
    text = program_for_cuda(lambda x: jax.lax.reduce_precision(x, 11, 20), jax.ShapeDtypeStruct((3,), jnp.float64))
    assert NARROWER.search(text)
