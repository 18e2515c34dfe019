"""Integers and bools: averages never wrap, sums keep their dtype, and maxima and minima never meet a float.

The reference is NumPy with integers throughout, so that the largest 64-bit integers are compared to the last bit.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxpool
from tests.harness.checks import equations
from tests.harness.compilation import compiled_fast
from tests.harness.parts import case_row
from tests.reference import sliding

pytestmark = pytest.mark.usefixtures("for_this_platform")

SMALL = (np.int8, np.uint8, np.int16, np.uint16, np.bool_)
ALL = (*SMALL, np.int32, np.uint32, np.int64, np.uint64)


def named(dtype: Any) -> str:
    return dtype.__name__


def limits(dtype: Any) -> tuple[int, int]:
    return (0, 1) if dtype is np.bool_ else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def near_limits(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """One end of the range in the first half, the other in the second, and some cells one step away from the end."""
    lowest, highest = limits(dtype)
    step = np.random.default_rng(0).random(shape) < 0.2
    upper = np.arange(np.prod(shape)).reshape(shape) < np.prod(shape) // 2
    low, high = (np.array(numbers, dtype) for numbers in ([lowest, lowest + 1], [highest, highest - 1]))
    return np.where(upper, high[step.astype(int)], low[step.astype(int)])


AVERAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "3": ("avg_pool", {"kernel_size": 3, "stride": 1, "axis": (1, 2)}),
    "8 channels last": ("avg_pool", {"kernel_size": 8, "axis": (0, 1)}),
    "31": ("avg_pool", {"kernel_size": 31, "stride": (2, 7), "axis": (1, 2)}),
    "64 disjoint": ("avg_pool", {"kernel_size": 64, "axis": (1, 2)}),
    "64 overlapping": ("avg_pool", {"kernel_size": 64, "stride": 16, "axis": (0, 1)}),
    "bins": ("adaptive_avg_pool", {"output_size": 3, "axis": (1, 2)}),
    "whole": ("global_avg_pool", {"axis": (1, 2)}),
}


def planes(dtype: Any, axis: tuple[int, ...]) -> np.ndarray:
    x = near_limits((2, 128, 64), dtype)
    return x if axis == (1, 2) else np.moveaxis(x, 0, -1)


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_never_wrap(name: str) -> None:
    function, parameters = AVERAGES[name]
    inputs = [planes(dtype, parameters["axis"]) for dtype in SMALL]
    pool = partial(getattr(jaxpool, function), **parameters)
    averages = compiled_fast(lambda inputs: [pool(x) for x in inputs])(inputs)
    masks = [sliding.in_windows(np.ones(x.shape), sliding.tables(x.shape, **parameters), 0.0) for x in inputs]
    for x, held, found in zip(inputs, masks, averages, strict=True):
        cells = sliding.in_windows(x.astype(np.int64), sliding.tables(x.shape, **parameters), 0)
        expected = cells.sum(-1) / held.sum(-1)
        assert found.dtype == np.float32
        # Sums of up to 4096 8-bit numbers are exact in float32, and divided with a single rounding; sums of 16-bit
        # numbers are rounded themselves.
        if x.dtype.itemsize == 1:
            np.testing.assert_array_equal(found, expected.astype(np.float32))
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(cells).max())


@pytest.mark.parametrize("dtype", ALL, ids=named)
def test_sums_keep_their_dtype(dtype: Any) -> None:
    # A few cells of two digits, which do not wrap, and many near the limits, which do, as those of NumPy.
    few = (np.random.default_rng(0).integers(0, min(13, limits(dtype)[1] + 1), (2, 9, 8))).astype(dtype)
    calls: list[dict[str, Any]] = [
        {"kernel_size": 3, "stride": 2, "padding": 1, "axis": (1, 2)},
        {"kernel_size": 2, "axis": (0, 1)},
        {"kernel_size": 8, "axis": 2},
    ]
    inputs = [few, near_limits((2, 9, 8), dtype)]
    sums = compiled_fast(lambda inputs: [[jaxpool.sum_pool(x, **call) for call in calls] for x in inputs])(inputs)
    wide = np.dtype(np.int32 if dtype is np.bool_ else dtype)
    for x, found in zip(inputs, sums, strict=True):
        for call, result in zip(calls, found, strict=True):
            cells = sliding.in_windows(x.astype(wide), sliding.tables(x.shape, **call), 0)
            assert result.dtype == wide
            np.testing.assert_array_equal(result, cells.sum(-1, dtype=wide))


EXTREMES: dict[str, tuple[str, dict[str, Any]]] = {
    "padded": ("max_pool", {"kernel_size": 3, "stride": 2, "padding": 1, "axis": (1, 2)}),
    "channels last": ("max_pool", {"kernel_size": 2, "axis": (0, 1)}),
    "9": ("max_pool", {"kernel_size": 9, "stride": 1, "padding": 4, "axis": 2}),
    "dilated": (
        "max_pool",
        {"kernel_size": (2, 3), "stride": (1, 2), "dilation": (3, 2), "padding": 1, "axis": (1, 2)},
    ),
    "least padded": ("min_pool", {"kernel_size": 3, "stride": 1, "padding": (0, 1), "axis": (1, 2)}),
    "least disjoint": ("min_pool", {"kernel_size": (3, 8), "axis": (1, 2)}),
    "bins": ("adaptive_max_pool", {"output_size": (4, 3), "axis": (1, 2)}),
    "whole": ("global_max_pool", {"axis": (1, 2)}),
}


def evaluations(name: str, x: Any, mask: Any) -> list[Any]:
    """All results of the named pool for x: with and without mask, with and without indices."""
    function, parameters = EXTREMES[name]
    others = {"max_pool": jaxpool.max_pool_with_indices, "adaptive_max_pool": jaxpool.adaptive_max_pool_with_indices}
    pools = [getattr(jaxpool, function), *([others[function]] if function in others else [])]
    return [pool(x, **parameters, where=where) for where in (None, mask) for pool in pools]


def specials(dtype: Any) -> np.ndarray:
    """Planes with only one end of the range, and with both, compared as integers so that the last bit counts."""
    x = near_limits((2, 9, 8), dtype)
    return np.stack([np.full((9, 8), end, dtype) for end in limits(dtype)] + [*x, np.roll(x[0], 5, 1)])


# By default those that have a sign and those that have none, the narrowest and the widest.
@pytest.mark.parametrize(
    "dtypes",
    [
        pytest.param((np.int8, np.bool_, np.int64, np.uint64), id="ends"),
        pytest.param(ALL, id="all", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", EXTREMES)
def test_maxima_and_minima_are_exact(name: str, dtypes: tuple[Any, ...]) -> None:
    function, parameters = EXTREMES[name]
    mask = np.random.default_rng(1).random((5, 9, 8)) < 0.7
    mask[:, 3:, :5] = False
    mask = mask if name != "channels last" else np.moveaxis(mask, 0, -1)
    inputs = [specials(dtype) for dtype in dtypes]
    inputs = inputs if name != "channels last" else [np.moveaxis(x, 0, -1) for x in inputs]
    found = compiled_fast(lambda inputs: [evaluations(name, x, mask) for x in inputs])(inputs)
    for x, results in zip(inputs, found, strict=True):
        windows = sliding.tables(x.shape, **parameters)
        expected = [
            sliding.first_winners(x, windows, largest=function != "min_pool", where=where) for where in (True, mask)
        ]
        assert (expected[1][1] == -1).any() or name in ("whole", "least disjoint"), "no window is empty"
        for number, result in enumerate(results):
            values, winners = expected[number * 2 // len(results)]
            outputs = result if isinstance(result, tuple) else (result,)
            assert outputs[0].dtype == x.dtype
            np.testing.assert_array_equal(outputs[0], values, strict=True)
            for indices in outputs[1:]:
                np.testing.assert_array_equal(indices, winners)


def dtypes_in(function: Any, *arguments: Any) -> set[Any]:
    """The dtypes of all intermediate results, including those in nested programs."""
    jaxpr = jax.make_jaxpr(function)(*arguments)
    arrays = [array for one in equations(jaxpr.jaxpr) for array in (*one.invars, *one.outvars)]
    return {np.dtype(array.aval.dtype) for array in arrays}


def is_float(dtype: np.dtype) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.inexact))


@pytest.mark.parametrize(
    "dtype", [case_row(one, id=named(one), kept=one in (np.bool_, np.uint8, np.int64)) for one in ALL]
)
@pytest.mark.every_platform
def test_no_float_is_met(dtype: Any) -> None:
    x, mask = specials(dtype), np.ones((5, 9, 8), bool)
    for name in EXTREMES:
        array = np.moveaxis(x, 0, -1) if name == "channels last" else x
        where = np.moveaxis(mask, 0, -1) if name == "channels last" else mask
        met = dtypes_in(partial(evaluations, name), array, where)
        assert not [one for one in met if is_float(one)], name
    sums = partial(jaxpool.sum_pool, kernel_size=(3, 3), stride=2, padding=1)
    assert not [one for one in dtypes_in(sums, x) if is_float(one)]
    values, indices = jaxpool.max_pool_with_indices(x, (2, 2))
    unpool = partial(jaxpool.max_unpool, output_size=(9, 8))
    assert not [one for one in dtypes_in(unpool, values, indices) if is_float(one)]


@pytest.mark.every_platform
def test_the_checks_can_fail() -> None:
    # Controls: sums in the dtype itself wrap, and a maximum by way of float64 loses the last bits and is seen.
    x = planes(np.uint8, (1, 2))
    wrapped = lax.reduce_window(x, np.uint8(0), lax.add, (1, 8, 8), (1, 8, 8), "VALID")
    assert not np.array_equal(wrapped, x.reshape(2, 16, 8, 8, 8).astype(np.int64).sum((2, 4)))

    def by_float(x: jax.Array) -> jax.Array:
        return jax.jit(lambda x: x.astype(np.float64).max())(x).astype(x.dtype)

    largest = np.array([2**62 + 1, 0])
    assert by_float(jnp.asarray(largest)) != largest.max()
    assert any(is_float(one) for one in dtypes_in(by_float, largest))
