"""Precision: 16-bit floats are accumulated in float32 in every pool, and sums of a million float32 keep theirs.

Right to n units in the last place means |found - true| ≤ n·eps·|true|, where eps is the distance from 1 to the next
float of the dtype and `true` is computed in float64 from the same rounded inputs. All numbers are positive, so that
no sum cancels. Not every combination of 16-bit pools is run: every function and every kernel size run with every
stride, layout, dtype and rule, and sums of the largest window at stride 1 run in both dtypes by both rules.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxpool
from jaxpool._arguments import Rule
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.harness.parts import case_row
from tests.reference import sliding

pytestmark = pytest.mark.usefixtures("for_this_platform")

RULES: tuple[Rule, ...] = ("jvp", "vjp")
KERNELS = (3, 5, 8, 16, 31, 64, 128)
HALVES = (jnp.bfloat16, jnp.float16)
OPTIONS: dict[str, dict[str, Any]] = {
    "sum_pool": {},
    "avg_pool": {},
    "max_pool": {},
    "smooth_max_pool": {"beta": 2.0},
    "lp_pool 2": {"norm_type": 2.0},
    "lp_pool 3": {"norm_type": 3.0},
    "lp_pool 1.5": {"norm_type": 1.5},
}
# Stride 0 means the kernel size. The rows are ordered so that, for pools that compile slowly, the largest window has a
# large stride; two exponents share one.
ROWS = ("sum_pool", "avg_pool", "lp_pool", "max_pool", "lp_pool 2", "smooth_max_pool")
SLIDING = [
    (
        function,
        kernel,
        (1, 2, 0)[(r + c) % 3],
        ("first", "last")[(r + c) % 2],
        HALVES[(r + c // 2) % 2],
        RULES[(r // 2 + c + 1) % 2],
    )
    for r, function in enumerate(ROWS)
    for c, kernel in enumerate(KERNELS)
]
SLIDING = list(
    dict.fromkeys([*SLIDING, *(("sum_pool", 128, 1, "first", dtype, rule) for dtype in HALVES for rule in RULES)])
)


def uniform(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def check_units(found: jax.Array, true: np.ndarray, what: str, units: float = 2) -> None:
    limits = jnp.finfo(found.dtype)
    # Below the smallest normal number the spacing of floats is constant.
    distances = float(limits.eps) * np.maximum(np.abs(true), float(limits.tiny))
    assert np.max(np.abs(wide(np.asarray(found)) - true) / distances) <= units, what


def test_the_combinations_cover() -> None:
    columns = list(zip(*SLIDING, strict=True))
    for group in columns[:2]:
        for other in columns[2:]:
            assert len(set(zip(group, other, strict=True))) == len(set(group)) * len(set(other))


Results = dict[str, np.ndarray]


def true_results(function: str, x: np.ndarray, t: np.ndarray, g: np.ndarray, windows: sliding.Tables) -> Results:
    """Values, their change along t and the gradient of g·values, in float64, for positive x."""
    x, t, g = wide(x), wide(t), wide(g)
    matrices = {a: sliding.holds(table, x.shape[a]) for a, table in windows.items()}

    def along(array: np.ndarray, transposed: bool) -> np.ndarray:
        for a, matrix in matrices.items():
            array = np.moveaxis(np.tensordot(matrix, array, (0 if transposed else 1, a)), 0, a)
        return array

    sums, spread = partial(along, transposed=False), partial(along, transposed=True)
    if function.startswith("lp_pool"):
        p = OPTIONS[function]["norm_type"]
        y = sums(x**p) ** (1 / p)
        slopes = x ** (p - 1)
        return {"values": y, "JVP": y ** (1 - p) * sums(slopes * t), "VJP": slopes * spread(g * y ** (1 - p))}
    if function == "smooth_max_pool":
        powers = np.exp(2.0 * x)
        total = sums(powers)
        return {"values": np.log(total) / 2.0, "JVP": sums(powers * t) / total, "VJP": powers * spread(g / total)}
    # Padding, which only averages over planes have here, counts in the divisor.
    count = 1.0 if function == "sum_pool" else math.prod(table.shape[1] for table in windows.values())
    if function == "adaptive_avg_pool":
        count = sums(np.ones(x.shape))
    return {"values": sums(x) / count, "JVP": sums(t) / count, "VJP": spread(g / count)}


def true_winners(x: np.ndarray, t: np.ndarray, g: np.ndarray, windows: sliding.Tables) -> Results:
    x, t, g = wide(x), wide(t), wide(g)
    values, winners = sliding.first_winners(x, windows)
    gathered = sliding.to_winners(g, winners, windows, x.shape)
    return {"values": values, "JVP": sliding.at_winners(t, winners, windows), "VJP": gathered}


def check_all(function: str, pool: Callable[..., jax.Array], x: Any, windows: sliding.Tables, rule: Rule) -> None:
    """Compare values, VJP and, if the rule has one, JVP with the truth, with all numbers in x's dtype."""
    tangent = uniform(x.shape, 1).astype(x.dtype)
    outputs = [len(windows[a]) if a in windows else size for a, size in enumerate(x.shape)]
    cotangent = uniform(tuple(outputs), 2).astype(x.dtype)
    pool = partial(pool, rule=rule)

    @compiled_fast
    def everything(x: jax.Array, tangent: jax.Array, cotangent: jax.Array) -> dict[str, jax.Array]:
        values, pull_back = jax.vjp(pool, x)
        forward = {"JVP": jax.jvp(pool, (x,), (tangent,))[1]} if rule == "jvp" else {}
        return {"values": values, "VJP": pull_back(cotangent)[0], **forward}

    reads = "max_pool" in function and "smooth" not in function
    true = (
        true_winners(x, tangent, cotangent, windows)
        if reads
        else true_results(function, x, tangent, cotangent, windows)
    )
    for what, result in everything(x, tangent, cotangent).items():
        assert result.dtype == x.dtype
        check_units(result, true[what], what, 0 if reads and what != "VJP" else 2)


# By default every pool has a window with more cells than 8 bits can count, and one with more than 16 bits can.
ENDS = (8, 31, 128)


@pytest.mark.parametrize(
    ("function", "kernel", "stride", "layout", "dtype", "rule"),
    [
        case_row(*row, id="-".join(getattr(one, "__name__", str(one)) for one in row), kept=row[1] in ENDS)
        for row in SLIDING
    ],
)
def test_16_bit_floats_of_windows(function: str, kernel: int, stride: int, layout: str, dtype: Any, rule: Rule) -> None:
    # Where up to 64×64 windows hold a cell, a sum of their cotangents in bfloat16 would stand still at 256.
    cells = kernel + (63 if function == "sum_pool" else 15) if stride else 2 * kernel
    x = uniform((cells, cells, 1), 0).astype(dtype)
    x = x if layout == "last" else np.moveaxis(x, -1, 0)
    parameters = {"kernel_size": kernel, "stride": stride or kernel, "axis": (0, 1) if layout == "last" else (1, 2)}
    if function == "lp_pool":
        function = "lp_pool 1.5" if kernel in (3, 8, 128) else "lp_pool 3"
    pool = partial(getattr(jaxpool, function.split()[0]), **OPTIONS[function], **parameters)
    check_all(function, pool, x, sliding.tables(x.shape, **parameters), rule)


WHOLE: list[tuple[str, dict[str, Any]]] = [
    ("adaptive_avg_pool", {"output_size": 3}),
    ("adaptive_avg_pool", {"output_size": 150}),
    ("adaptive_max_pool", {"output_size": 3}),
    ("global_avg_pool", {}),
    ("global_max_pool", {}),
]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("layout", "rule"), [("first", "vjp"), ("last", "jvp")])
@pytest.mark.parametrize(("function", "parameters"), WHOLE)
def test_16_bit_floats_of_bins(function: str, parameters: Any, layout: str, rule: Rule, dtype: Any) -> None:
    axis = (1, 2) if layout == "first" else (0, 1)
    x = uniform((2, 128, 100), 0).astype(dtype)
    x = x if layout == "first" else np.moveaxis(x, 0, -1)
    pool = partial(getattr(jaxpool, function), **parameters, axis=axis)
    check_all(function, pool, x, sliding.tables(x.shape, **parameters, axis=axis), rule)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="only the CPU rounds at every addition")
def test_16_bit_sums_of_the_platform_lose_precision() -> None:
    # A control: the assertion above can fail.
    x = uniform((1, 128, 128), 0).astype(jnp.bfloat16)
    found = lax.reduce_window(x, jnp.bfloat16(0), lax.add, (1, 128, 128), (1, 1, 1), "VALID")
    with pytest.raises(AssertionError):
        check_units(found, wide(x).sum(), "values")


MILLION = 1_000_000
LONG: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "whole line": ("global_avg_pool", (2**20,), {"axis": 0}),
    "whole plane": ("global_avg_pool", (1000, 1000), {"axis": (0, 1)}),
    "whole plane, channels last": ("global_avg_pool", (1000, 1000, 2), {"axis": (0, 1)}),
    "bins": ("adaptive_avg_pool", (2 * MILLION + 1,), {"output_size": 2, "axis": 0}),
    "disjoint lines": ("sum_pool", (2 * MILLION,), {"kernel_size": MILLION, "axis": 0}),
    "disjoint planes": ("avg_pool", (2000, 1000), {"kernel_size": 1000, "axis": (0, 1)}),
    "one plane at stride 1": ("avg_pool", (1000, 1000), {"kernel_size": 1000, "stride": 1, "axis": (0, 1)}),
    "overlapping lines": ("sum_pool", (MILLION + 1,), {"kernel_size": MILLION, "stride": 1, "axis": 0}),
    "overlapping planes": ("avg_pool", (1001, 1001), {"kernel_size": 1000, "stride": 1, "axis": (0, 1)}),
    "padded lines": ("sum_pool", (2**20,), {"kernel_size": 2**20, "stride": 2**18, "padding": 2**19, "axis": 0}),
    "padded planes": ("avg_pool", (1024, 1024), {"kernel_size": 1024, "stride": 256, "padding": 512, "axis": (0, 1)}),
}


# The others are lines whose planes are here, or planes whose lines are.
KEPT = (
    "whole line",
    "whole plane, channels last",
    "bins",
    "disjoint planes",
    "overlapping lines",
    "overlapping planes",
)
KEPT += ("padded planes",)


@pytest.mark.parametrize("derivative", [False, True], ids=["values", "derivatives"])
@pytest.mark.parametrize("name", [case_row(name, id=name, kept=name in KEPT) for name in LONG])
def test_sums_of_a_million_float32(name: str, derivative: bool) -> None:
    function, shape, parameters = LONG[name]
    pool = partial(getattr(jaxpool, function), **parameters)
    windows = sliding.tables(shape, **parameters)
    outputs = tuple(len(windows[a]) if a in windows else size for a, size in enumerate(shape))

    @compiled_as_usual
    def everything(x: jax.Array, tangent: jax.Array, cotangent: jax.Array) -> dict[str, jax.Array]:
        if not derivative:
            return {"values": pool(x)}
        return {"JVP": jax.jvp(pool, (x,), (tangent,))[1], "VJP": jax.vjp(pool, x)[1](cotangent)[0]}

    third = [np.full(sizes, 1 / 3) for sizes in (shape, shape, outputs)]
    random = [uniform(sizes, seed) for seed, sizes in enumerate((shape, shape, outputs))]
    errors = {}
    for kind, arrays in (("thirds", third), ("random", random)):
        x, tangent, cotangent = (array.astype(np.float32) for array in arrays)
        true = true_results(function, x, tangent, cotangent, windows)
        for what, result in everything(x, tangent, cotangent).items():
            errors[f"{what}, {kind}"] = np.max(np.abs(np.asarray(result) / true[what] - 1))
    assert max(errors.values()) <= 1e-6, errors
