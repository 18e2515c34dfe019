"""Medians, quantiles and the largest cells: against NumPy, SciPy and `lax.top_k`, with ties, NaN and many ranks."""

import math
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from numpy.lib.stride_tricks import sliding_window_view

import jaxpool
from tests.harness.compilation import compiled_fast
from tests.mistakes.errors import Traced, check_wrong_call
from tests.registry.calls import FLOAT_KINDS, Call, check
from tests.registry.cases import distinct
from tests.registry.records import slow_but

pytestmark = pytest.mark.usefixtures("for_this_platform")

slow = pytest.mark.slow
TAKING: tuple[Literal["lower", "higher", "nearest"], ...] = ("lower", "higher", "nearest")
METHODS: tuple[Any, ...] = (
    *("linear", "midpoint", "inverted_cdf", "averaged_inverted_cdf", "closest_observation"),
    *("interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased"),
)


# Of quarters every window of the numbers of cells below has some between two cells, halfway, and at one.
SEVERAL = (0, 0.1, 0.25, 1 / 3, 0.5, 0.77, 0.75, 1)


@pytest.mark.parametrize(
    ("kernel", "quantiles", "methods"),
    [
        pytest.param((2, 3), SEVERAL, ("linear", "hazen", "nearest"), id="small"),
        pytest.param((2, 3), SEVERAL, (*METHODS, *TAKING), id="small, all methods", marks=slow),
        pytest.param((10, 9), (0.77, 1 / 3, 0.34), ("linear", "nearest"), id="large"),
    ],
)
def test_quantiles_of_numpy(kernel: tuple[int, int], quantiles: tuple[float, ...], methods: Any) -> None:
    # In one call and one by one, in windows of every number of cells.
    x = distinct((2, 8, 9), "numpy")
    hidden = np.random.default_rng(0).random(x.shape) < 0.3
    around = np.pad(np.where(hidden, math.nan, x), [(0, 0), (1, 1), (1, 1)], constant_values=math.nan)
    windows = sliding_window_view(around, kernel, (1, 2))
    windows = np.where(np.isnan(windows).all((-2, -1), keepdims=True), 0, windows)
    pool = partial(jaxpool.quantile_pool, kernel_size=kernel, stride=1, padding=1)

    @compiled_fast
    def all_of_them(x: jax.Array, kept: jax.Array) -> list[jax.Array]:
        return [pool(x, quantiles, method=method, where=kept) for method in methods]

    found = all_of_them(np.where(hidden, math.nan, x), ~hidden)
    for method, values in zip(methods, found, strict=True):
        expected = np.nanquantile(windows, quantiles, axis=(-2, -1), method=method)
        np.testing.assert_allclose(values, expected, rtol=1e-12, err_msg=method)
    np.testing.assert_array_equal(pool(x, quantiles[1]), pool(x, [quantiles[1]])[0])


@pytest.mark.parametrize("method", slow_but(["closest_observation"], METHODS))
def test_every_rank_is_that_of_numpy(method: Any) -> None:
    # Windows of 1 to 17 cells. Sixteenths have no rounding error, so that both meet halves and whole places exactly.
    quantiles, kept = np.arange(17) / 16, np.tri(17, dtype=bool)
    found = jaxpool.quantile_pool(
        np.tile(np.arange(17.0), (17, 1)), quantiles.tolist(), (17,), method=method, where=kept
    )
    for cells in range(1, 18):
        expected = np.quantile(np.arange(cells, dtype=np.float64), quantiles, method=method)
        np.testing.assert_allclose(found[:, cells - 1, 0], expected, atol=1e-12)


def test_ranks_do_not_suffer_from_rounding() -> None:
    # In floats they are 7.000000000000001, which "higher" would round to 8, and 28.999999999999996.
    assert 0.14 * 50 > 7
    assert 0.58 * 50 < 29
    for method in ("linear", "midpoint", *TAKING):
        found = jaxpool.quantile_pool(np.arange(51.0), (0.14, 0.58), (51,), method=method)
        assert found.ravel().tolist() == [7, 29]


def test_several_quantiles_share_cells_and_cotangents() -> None:
    # Of four cells the quantiles are at ranks 0 and 1, at 1 alone, and at 1 and 2.
    x, q = jnp.array([3.0, 0.0, 2.0, 1.0]), (0.25, 1 / 3, 0.5)
    values, pull_back = jax.vjp(lambda x: jaxpool.quantile_pool(x, q, (4,)), x)
    np.testing.assert_allclose(values, [[0.75], [1], [1.5]])
    assert [leaf.shape for leaf in jax.tree.leaves(pull_back)] == [(1,)] * 3
    (gradient,) = pull_back(jnp.array([[1.0], [10.0], [100.0]]))
    np.testing.assert_allclose(gradient, [0, 0.25, 50, 60.75])


@pytest.mark.parametrize("cells", slow_but(["mixed"], FLOAT_KINDS))
def test_special_values_and_their_derivatives(cells: str) -> None:
    # Even counts and odd ones, fewer at the borders than ranks, and none where the mask leaves none.
    where = np.random.default_rng(1).random((4, 6)) < 0.6
    where[:2, :3] = False
    windows: dict[str, Any] = {"kernel_size": (2, 3), "stride": (2, 1), "padding": (1, 1)}
    check(Call("median_pool", (2, 4, 6), windows, cells=cells))
    check(Call("quantile_pool", (4, 6), {**windows, "q": 0.8, "where": where, "rule": "vjp"}, cells=cells))
    check(Call("top_k_pool", (4, 6), {**windows, "k": 4}, cells=cells))
    check(Call("top_k_pool_with_indices", (4, 6), {**windows, "k": 4, "where": where, "rule": "vjp"}, cells=cells))


SHAPE, K, Q = (10, 16), 11, tuple(np.linspace(0, 1, 5).tolist())
MASK = np.random.default_rng(2).random(SHAPE) < 0.7
# Windows of which more of the largest cells are found than are unrolled.
MANY: dict[str, dict[str, Any]] = {
    "one": {"kernel_size": jaxpool.whole},
    "bins": {"kernel_size": jaxpool.bins(1, 2)},
    "shared": {"kernel_size": (9, 8), "stride": (2, 4), "padding": (1, 2)},
    "gaps": {"kernel_size": (5, 14), "stride": (5, 1), "dilation": (2, 1)},
    "footprint": {"kernel_size": jaxpool.footprint(np.arange(108).reshape(9, 12) % 3 > 0), "stride": 2},
    "fewer cells than ranks": {"kernel_size": (3, 4), "padding": 1},
}


@pytest.mark.parametrize(
    ("windows", "cells", "dtype"),
    [
        ("shared", "ties", "int8"),
        *(pytest.param("shared", "ties", dtype, marks=slow) for dtype in ("uint32", "bfloat16")),
        *(pytest.param(windows, "mixed", "float64", marks=slow) for windows in ("one", "shared", "footprint")),
        pytest.param("fewer cells than ranks", "mixed", "float64", marks=slow),
        *(pytest.param(windows, "ties", "float64", marks=slow) for windows in ("bins", "gaps")),
    ],
)
def test_many_ranks(windows: str, cells: str, dtype: str) -> None:
    parameters, masked = {"axis": (0, 1), **MANY[windows]}, {"where": MASK, "rule": "vjp"}
    check(Call("top_k_pool", SHAPE, {**parameters, "k": K}, dtype=dtype, cells=cells))
    check(Call("quantile_pool", SHAPE, {**parameters, "q": Q, **masked}, dtype=dtype, cells=cells))
    if cells == "ties":
        check(Call("top_k_pool_with_indices", SHAPE, {**parameters, "k": K, **masked}, dtype=dtype, cells=cells))
        check(Call("quantile_pool", SHAPE, {**parameters, "q": Q}, dtype=dtype, cells=cells))


def test_batches_of_many_largest_cells() -> None:
    x = np.random.default_rng(0).normal(size=(3, *SHAPE))
    slopes = jax.vmap(jax.grad(lambda x: (jaxpool.top_k_pool(x, K, SHAPE) ** 2).sum()))
    least = np.sort(x.reshape(3, -1))[:, -K].reshape(3, 1, 1)
    np.testing.assert_allclose(compiled_fast(slopes)(x), np.where(x >= least, 2 * x, 0), rtol=1e-12)


@slow
def test_batches_of_many_quantiles() -> None:
    x = np.random.default_rng(0).normal(size=(3, *SHAPE))
    slopes = jax.grad(lambda x: (jaxpool.quantile_pool(x, Q, SHAPE) ** 2).sum())
    np.testing.assert_allclose(compiled_fast(jax.vmap(slopes))(x), compiled_fast(slopes)(x), rtol=1e-12)


def test_windows_that_choose_different_cells_of_a_row() -> None:
    # Two windows share the second row; their medians are in it, in different columns.
    x = np.array([[0.0, 25, 26], [10, 20, 30], [1, 2, 24]])
    gradient = jax.grad(lambda x: (jaxpool.median_pool(x, (2, 3), 1, axis=(0, 1)) * np.array([[1.0], [8.0]])).sum())(x)
    expected = np.zeros((3, 3))
    # Sorted: 0 10 20 25 26 30, and 1 2 10 20 24 30.
    expected[1, 1], expected[0, 1], expected[1, 0] = 0.5 + 4, 0.5, 4
    np.testing.assert_array_equal(gradient, expected)


def test_extremes_are_quantiles_and_the_first_of_the_largest() -> None:
    x = np.random.default_rng(0).integers(0, 4, (6, 7)).astype(np.float64)
    window: dict[str, Any] = {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0)}

    def both(pool: Any) -> Any:
        return compiled_fast(jax.value_and_grad(lambda x: (pool(x, **window) ** 2).sum()))(x)

    least, most = (both(partial(jaxpool.quantile_pool, q=q)) for q in (0, 1))
    jax.tree.map(np.testing.assert_array_equal, least, both(jaxpool.min_pool))
    value, gradient = both(jaxpool.max_pool)
    np.testing.assert_array_equal(both(lambda x, **window: jaxpool.top_k_pool(x, 2, **window)[..., 0])[1], gradient)
    # The last of equal maxima, whereas max_pool picks the first.
    np.testing.assert_array_equal(most[0], value)
    assert (most[1] != gradient).any()
    np.testing.assert_array_equal(most[1].sum(), gradient.sum())


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64])
def test_means_overflow_only_with_their_cells(dtype: Any) -> None:
    largest = jnp.finfo(dtype).max
    x = jnp.array([largest, largest, -largest, largest, -largest, -largest / 2], dtype)
    np.testing.assert_array_equal(jaxpool.median_pool(x, (2,)), jnp.array([largest, 0, -0.75 * largest], dtype))
    # To the last place: a quarter of -0.5 and three of -1.
    lower = np.array([1, -0.5, -0.875]) * float(largest)
    found = jaxpool.quantile_pool(x, 0.25, (2,))
    np.testing.assert_allclose(found.astype(np.float64), lower, rtol=float(jnp.finfo(dtype).eps))
    # The quantile of equal cells is their value whatever the weights, and infinities do not become NaN.
    x = jnp.array([0.1, 0.1, 0.1, jnp.inf, jnp.inf, 3], dtype)
    np.testing.assert_array_equal(jaxpool.quantile_pool(x, 0.3, (3,)), x[jnp.array([0, 3])].at[1].set(jnp.inf))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
def test_integers(dtype: str) -> None:
    for method in TAKING[:2]:
        windows = {"kernel_size": (3,), "stride": 1, "padding": 1}
        check(Call("quantile_pool", (2, 9), {"q": 0.5, "method": method, **windows}, dtype=dtype, cells="extreme"))


@pytest.mark.parametrize("dtype", slow_but([np.float32], [np.float32, jnp.bfloat16, np.int8, np.uint32]))
def test_the_largest_cells_of_whole_axes_are_those_of_lax(dtype: Any) -> None:
    # Ties included. As many as there are, and of many cells a few.
    for cells, k in ((7, 7), (150, 3)):
        x = np.random.default_rng(0).integers(0, 9, (3, cells)).astype(dtype)
        for found, expected in zip(jaxpool.top_k_pool_with_indices(x, k, (cells,)), lax.top_k(x, k), strict=True):
            np.testing.assert_array_equal(found[:, 0], expected)


def test_zeros_of_either_sign_tie_and_subnormal_numbers_are_no_zeros() -> None:
    x = np.random.default_rng(0).choice([0.0, -0.0], (9, 8)).astype(np.float32)
    values, indices = jaxpool.top_k_pool_with_indices(x, 3, (3, 4), (2, 2))
    assert 0 < np.signbit(values).sum() < values.size
    np.testing.assert_array_equal(np.signbit(values), np.signbit(x.ravel()[np.asarray(indices)]))
    np.testing.assert_array_equal(indices[0, 0], [0, 1, 2])
    x = np.float32(1e-40) * np.array([1, 3, -1, 2, 0], np.float32)
    values, indices = jaxpool.top_k_pool_with_indices(x, 4, (5,))
    np.testing.assert_array_equal(indices[0], [1, 3, 0, 4])
    np.testing.assert_array_equal(np.asarray(jaxpool.top_k_pool(x, 4, (5,))), np.asarray(values))


def test_beyond_the_cells_there_are_no_ranks() -> None:
    x = jnp.array([3, 1, 2, 5])
    values, indices = jaxpool.top_k_pool_with_indices(x, 3, (2,))
    np.testing.assert_array_equal(values, [[3, 1, 0], [5, 2, 0]])
    np.testing.assert_array_equal(indices, [[0, 1, -1], [3, 2, -1]])
    _, pull_back = jax.vjp(lambda x: jaxpool.top_k_pool(x, 3, (2,)), x.astype(np.float32))
    np.testing.assert_array_equal(pull_back(jnp.arange(6.0, dtype=np.float32).reshape(2, 3))[0], [0, 1, 4, 3])
    # Nor do they make programs longer.
    few, many = (
        jax.jit(lambda x, k=k: jaxpool.top_k_pool_with_indices(x, k, (2,))).lower(x).as_text() for k in (3, 1000)
    )
    assert few.count("\n") == many.count("\n")


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_backward_passes_keep_one_offset_per_cell_chosen(rule: Any) -> None:
    x = jax.ShapeDtypeStruct((9, 8), np.float32)
    for pool, kept in (
        (partial(jaxpool.median_pool, kernel_size=3), 1),
        (partial(jaxpool.median_pool, kernel_size=4), 2),
        (partial(jaxpool.top_k_pool, k=3, kernel_size=3), 3),
    ):
        values, pull_back = jax.eval_shape(partial(jax.vjp, partial(pool, stride=2, axis=(0, 1), rule=rule)), x)
        leaves = jax.tree.leaves(pull_back)
        assert {leaf.dtype for leaf in leaves} == {np.dtype(np.uint8)}
        assert sum(leaf.size for leaf in leaves) == kept * math.prod(values.shape[:2])


def test_padding_is_not_among_infinite_cells() -> None:
    for extreme in (math.inf, -math.inf):
        x = np.full((2, 5), extreme)
        np.testing.assert_array_equal(jaxpool.median_pool(x, (3,), 1, 1), x)
        gradient = jax.grad(lambda x: jaxpool.median_pool(x, (3,), 1, 1)[0].sum())(x)
        assert gradient[0].sum() == 5


WRONG: list[tuple[str, type[Exception], str, Any]] = [
    ("q", TypeError, r"q must be a number from 0 to 1, got '0\.5'; use 0\.5", (0.25, "0.5")),
    ("q", ValueError, r"q must be from 0 to 1, got 50; percent 50 is q=0\.5$", [0.25, 50]),
    ("q", ValueError, r"q must be a number or several, got \(\); use 0\.5", ()),
    ("k", ValueError, r"k must be at least 1, got 0; it is the number of cells", 0),
    ("k", TypeError, r"k must be an int, got \(2, 2\); it comes before kernel_size, as in \(x, 3, \(2, 2\)\)", (2, 2)),
    *(("k", TypeError, rf"k must be an int, got {k}; it comes", k) for k in (2.0, True, None)),
    ("k", TypeError, "k must be a Python int, got a traced value; .*static_argnames='k'", Traced(np.array(2))),
]


@pytest.mark.parametrize(("argument", "exception", "message", "value"), WRONG)
def test_wrong_numbers(argument: str, exception: type[Exception], message: str, value: Any) -> None:
    for function in ("quantile_pool",) if argument == "q" else ("top_k_pool", "top_k_pool_with_indices"):
        check_wrong_call(function, exception, message, {argument: value})
