"""Integers and bools: averages never wrap, sums keep their dtype, and maxima and minima never meet a float.

The reference is NumPy with integers throughout, so that the largest 64-bit integers are compared to the last bit. Whole
numbers in floats have exact averages, too.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.checks import equations
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.reference import sliding
from tests.registry.records import row

SMALL = (np.int8, np.uint8, np.int16, np.uint16, np.bool_)
ALL = (*SMALL, np.int32, np.uint32, np.int64, np.uint64)
for_this_platform = pytest.mark.usefixtures("for_this_platform")


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
    "8 of first axes": ("avg_pool", {"kernel_size": (2, 8), "axis": (0, 1)}),
    "31": ("avg_pool", {"kernel_size": 31, "stride": (2, 7), "axis": (1, 2)}),
    "64 overlapping": ("avg_pool", {"kernel_size": 64, "stride": 16, "axis": (1, 2)}),
    "bins": ("adaptive_avg_pool", {"output_size": 3, "axis": (1, 2)}),
    "whole": ("global_avg_pool", {"axis": (1, 2)}),
}


@for_this_platform
@pytest.mark.parametrize("name", [row(name, id=name, quick=name in ("31", "bins")) for name in AVERAGES])
def test_averages_never_wrap(name: str) -> None:
    function, parameters = AVERAGES[name]
    inputs = [near_limits((2, 128, 64), dtype) for dtype in SMALL]
    pool = partial(getattr(jaxpool, function), **parameters)
    for x, found in zip(inputs, compiled_fast(lambda inputs: list(map(pool, inputs)))(inputs), strict=True):
        windows = sliding.tables(x.shape, **parameters)
        held = sliding.in_windows(np.ones(x.shape), windows, 0.0)
        cells = sliding.in_windows(x.astype(np.int64), windows, 0)
        expected = cells.sum(-1) / held.sum(-1)
        assert found.dtype == np.float32
        # Sums of up to 4096 8-bit numbers are exact in float32, and divided with a single rounding; sums of 16-bit
        # numbers are rounded themselves.
        if x.dtype.itemsize == 1:
            np.testing.assert_array_equal(found, expected.astype(np.float32))
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(cells).max())


@for_this_platform
def test_averages_of_large_integers_do_not_wrap() -> None:
    # Sums beyond the reach of int32.
    for dtype in (np.int32, np.uint32):
        np.testing.assert_array_equal(jaxpool.avg_pool(np.full((64,), 2**30, dtype), (8,)), 2**30)


@for_this_platform
@pytest.mark.parametrize("cells", [7, 21, 49])
def test_averages_divide(cells: int) -> None:
    # 21/7 as a product with the rounded reciprocal of 7 is 3.0000002.
    x = np.full((4, cells * 100), 3, np.float32)
    average = partial(jaxpool.avg_pool, kernel_size=(cells,))
    for function in (average, compiled_as_usual(average)):
        np.testing.assert_array_equal(function(x), 3)


@for_this_platform
def test_sums_keep_their_dtype() -> None:
    # A few cells of two digits, which do not wrap, and many near the limits, which do, as those of NumPy.
    random = np.random.default_rng(0)
    inputs = [random.integers(0, min(13, limits(dtype)[1] + 1), (2, 9, 8)).astype(dtype) for dtype in ALL]
    inputs += [near_limits((2, 9, 8), dtype) for dtype in ALL]
    calls: list[dict[str, Any]] = [
        {"kernel_size": 3, "stride": 2, "padding": 1, "axis": (1, 2)},
        {"kernel_size": 2, "axis": (0, 1)},
        {"kernel_size": 8, "axis": 2},
    ]
    sums = compiled_fast(lambda inputs: [[jaxpool.sum_pool(x, **call) for call in calls] for x in inputs])(inputs)
    for x, found in zip(inputs, sums, strict=True):
        wide = np.dtype(np.int32 if x.dtype == bool else x.dtype)
        for call, result in zip(calls, found, strict=True):
            cells = sliding.in_windows(x.astype(wide), sliding.tables(x.shape, **call), 0)
            assert result.dtype == wide
            np.testing.assert_array_equal(result, cells.sum(-1, dtype=wide))


EXTREMES: dict[str, tuple[str, dict[str, Any]]] = {
    "padded": ("max_pool", {"kernel_size": 3, "stride": 2, "padding": 1, "axis": (1, 2)}),
    "first axes": ("max_pool", {"kernel_size": 2, "axis": (0, 1)}),
    "9": ("max_pool", {"kernel_size": 9, "stride": 1, "padding": 4, "axis": 2}),
    "dilated": ("max_pool", {"kernel_size": (2, 3), "stride": 1, "dilation": (3, 2), "padding": 1, "axis": (1, 2)}),
    "least padded": ("min_pool", {"kernel_size": 3, "stride": 1, "padding": (0, 1), "axis": (1, 2)}),
    "least disjoint": ("min_pool", {"kernel_size": (3, 8), "axis": (1, 2)}),
    "bins": ("adaptive_max_pool", {"output_size": (4, 3), "axis": (1, 2)}),
    "whole": ("global_max_pool", {"axis": (1, 2)}),
}


def evaluations(name: str, x: Any, mask: Any) -> list[Any]:
    """All results of the named pool for x: with and without mask, with and without indices."""
    function, parameters = EXTREMES[name]
    indexed = getattr(jaxpool, f"{function}_with_indices", None)
    pools = [pool for pool in (getattr(jaxpool, function), indexed) if pool is not None]
    return [pool(x, **parameters, where=where) for where in (None, mask) for pool in pools]


def specials(dtype: Any) -> np.ndarray:
    """Planes with only one end of the range, and with both."""
    x = near_limits((2, 9, 8), dtype)
    return np.stack([np.full((9, 8), end, dtype) for end in limits(dtype)] + [*x, np.roll(x[0], 5, 1)])


@for_this_platform
@pytest.mark.parametrize("name", [row(name, id=name, quick=name in ("padded", "whole")) for name in EXTREMES])
def test_maxima_and_minima_are_exact(name: str) -> None:
    function, parameters = EXTREMES[name]
    mask = np.random.default_rng(1).random((5, 9, 8)) < 0.7
    mask[:, 3:, :5] = False
    inputs = [specials(dtype) for dtype in ALL]
    found = compiled_fast(lambda inputs: [evaluations(name, x, mask) for x in inputs])(inputs)
    for x, results in zip(inputs, found, strict=True):
        windows = sliding.tables(x.shape, **parameters)
        expected = [
            sliding.first_winners(x, windows, largest=function != "min_pool", where=where) for where in (True, mask)
        ]
        for number, result in enumerate(results):
            values, winners = expected[number * 2 // len(results)]
            outputs = result if isinstance(result, tuple) else (result,)
            np.testing.assert_array_equal(outputs[0], values, strict=True)
            for indices in outputs[1:]:
                np.testing.assert_array_equal(indices, winners)


def floats_in(function: Any, *arguments: Any) -> list[Any]:
    """The floating-point dtypes of all intermediate results, including those in nested programs."""
    jaxpr = jax.make_jaxpr(function)(*arguments)
    arrays = [array.aval for one in equations(jaxpr.jaxpr) for array in (*one.invars, *one.outvars)]
    return [array.dtype for array in arrays if jnp.issubdtype(array.dtype, jnp.inexact)]


# For every platform.
@pytest.mark.parametrize(
    "dtype", [row(one, id=one.__name__, quick=one in (np.bool_, np.uint8, np.int64)) for one in ALL]
)
def test_no_float_is_met(dtype: Any) -> None:
    x = specials(dtype)
    for name in EXTREMES:
        assert not floats_in(partial(evaluations, name), x, np.ones(x.shape, bool)), name
    assert not floats_in(partial(jaxpool.sum_pool, kernel_size=(3, 3), stride=2, padding=1), x)
    values, indices = jaxpool.max_pool_with_indices(x, (2, 2))
    assert not floats_in(partial(jaxpool.max_unpool, output_size=(9, 8)), values, indices)


def test_floats_are_found() -> None:
    # A control: one is met within a nested program.
    assert floats_in(lambda x: jax.jit(lambda x: x.astype(np.float64).max())(x).astype(x.dtype), np.arange(2))
