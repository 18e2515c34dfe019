"""Medians and quantiles, against SciPy's rank filters and NumPy's quantiles.

The files that run over the registry test what all functions share. This file tests large windows, special values, and
the residuals of the backward pass.
"""

import math
import typing
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from scipy import ndimage

import jaxpool
from jaxpool._engine.window_offsets import pad_windows
from jaxpool._geometry.window import make_window
from jaxpool._ranks.quantile_methods import Quantile, QuantileMethod
from jaxpool._ranks.selection import MOST_IN_NETWORK
from tests.harness.checks import equations
from tests.harness.compilation import compiled_fast
from tests.harness.parts import case_row, crossed
from tests.mistakes.errors import check_wrong_call
from tests.random.call_checks import check
from tests.registry.calls import FLOAT_KINDS, Call
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

METHODS: tuple[QuantileMethod, ...] = typing.get_args(QuantileMethod)
AT_RANKS: tuple[QuantileMethod, ...] = ("linear", "lower", "higher", "midpoint", "nearest")


def test_a_median_filter_of_scipy_is_one_of_stride_one() -> None:
    x = distinct((13, 12), "scipy").astype(np.float32)
    for size in (3, (5, 3), 9):
        expected = ndimage.median_filter(x, size)
        k, m = (size, size) if isinstance(size, int) else size
        inside = expected[k // 2 : 13 - k // 2, m // 2 : 12 - m // 2]
        np.testing.assert_array_equal(jaxpool.median_pool(x, (k, m), 1), inside)


@pytest.mark.parametrize("percentile", [0, 20, 45, 75])
def test_a_percentile_filter_of_scipy_has_a_rank(percentile: int) -> None:
    x = distinct((9, 11), "scipy")
    rank = int(15 * percentile / 100)
    expected = ndimage.percentile_filter(x, percentile, (3, 5))[1:-1, 2:-2]
    for method in AT_RANKS:
        np.testing.assert_array_equal(jaxpool.quantile_pool(x, rank / 14, (3, 5), 1, method=method), expected)
    np.testing.assert_array_equal(ndimage.rank_filter(x, rank, (3, 5))[1:-1, 2:-2], expected)


# Of quarters every window of the numbers of cells below has some between two cells, halfway, and at one.
SEVERAL = (0, 0.1, 0.25, 1 / 3, 0.5, 0.77, 0.75, 1)


@pytest.mark.parametrize(
    ("kernel", "quantiles", "methods"),
    [((2, 3), SEVERAL, METHODS), ((10, 9), (0.77, 1 / 3, 0.34), ("linear", "nearest"))],
    ids=["network", "bisection"],
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
    single = pool(x, quantiles[1])
    np.testing.assert_array_equal(single, pool(x, [quantiles[1]])[0])


@pytest.mark.parametrize("method", METHODS)
def test_every_rank_is_that_of_numpy(method: QuantileMethod) -> None:
    # Sixteenths have no rounding error, so that halves and whole places are met exactly by both.
    for cells in range(1, 18):
        for q in np.arange(17) / 16:
            lower, upper, weight = Quantile(q, method).ranks(np.array(cells), cells)
            expected = np.quantile(np.arange(cells, dtype=np.float64), q, method=method)
            assert (1 - weight) * lower + weight * upper == pytest.approx(expected, abs=1e-12), (cells, q)


def test_several_quantiles_share_cells_and_cotangents() -> None:
    # Of four cells the quantiles are at ranks 0 and 1, at 1 alone, and at 1 and 2.
    x, q = jnp.array([3.0, 0.0, 2.0, 1.0]), (0.25, 1 / 3, 0.5)
    values, pull_back = jax.vjp(lambda x: jaxpool.quantile_pool(x, q, (4,)), x)
    np.testing.assert_allclose(values, [[0.75], [1], [1.5]])
    assert [leaf.shape for leaf in jax.tree.leaves(pull_back)] == [(1,)] * 3
    (gradient,) = pull_back(jnp.array([[1.0], [10.0], [100.0]]))
    np.testing.assert_allclose(gradient, [0, 0.25, 50, 60.75])


@pytest.mark.parametrize("method", AT_RANKS)
def test_ranks_do_not_suffer_from_rounding(method: Any) -> None:
    # In floats they are 7.000000000000001, which "higher" would round to 8, and 28.999999999999996.
    for q, rank in ((0.14, 7), (0.58, 29)):
        assert q * 50 != rank
        assert Quantile(q, method).ranks(np.array(51), 51) == (rank, rank, 0)
    assert jaxpool.quantile_pool(np.arange(26.0), 0.28, (26,), method=method).item() == 7


@pytest.mark.parametrize(
    ("exception", "message", "q"),
    [
        (TypeError, r"q must be a number from 0 to 1, got '0\.5'; use 0\.5", (0.25, "0.5")),
        (ValueError, r"q must be from 0 to 1, got 50; percent 50 is q=0\.5$", [0.25, 50]),
        (ValueError, r"q must be a number or several, got \(\); use 0\.5", ()),
    ],
)
def test_wrong_sequences(exception: type[Exception], message: str, q: Any) -> None:
    check_wrong_call("quantile_pool", exception, message, {"q": q})


@pytest.mark.parametrize("cells", FLOAT_KINDS)
def test_special_values_and_their_derivatives(cells: str) -> None:
    # Even counts and odd ones, in windows at the borders, where masks may leave none.
    where = np.random.default_rng(1).random((4, 6)) < 0.6
    where[:2, :3] = False
    parameters: dict[str, Any] = {"kernel_size": (2, 3), "stride": (2, 1), "padding": (1, 1)}
    if cells in ("ties", "zeros", "mixed"):
        check(Call("median_pool", (2, 4, 6), parameters, cells=cells))
    if cells not in ("ties", "zeros"):
        check(Call("quantile_pool", (4, 6), {**parameters, "q": 0.8, "where": where, "rule": "vjp"}, cells=cells))


LARGE: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "along a line": ((2, 190), {"kernel_size": (139,), "stride": 20, "padding": (9,)}),
    "in a plane": ((14, 13), {"kernel_size": (11, 8), "stride": (3, 2), "padding": (1, 0)}),
    "in space": ((6, 7, 11), {"kernel_size": (3, 5, 7), "stride": (2, 1, 2), "padding": 1, "dilation": (2, 1, 1)}),
}


@pytest.mark.parametrize(
    ("windows", "cells"),
    [
        case_row(windows, cells, id=f"{windows}-{cells}", kept=kept and windows != "in space")
        for windows, cells, kept in crossed(list(LARGE), ["distinct", "ties", "nan"], 3)
    ],
)
def test_large_windows(windows: str, cells: str) -> None:
    # In blocks and what is left over; and with a mask, ranks that differ and are the same or the next one.
    shape, parameters = LARGE[windows]
    kernel_size, stride, padding = (parameters[name] for name in ("kernel_size", "stride", "padding"))
    assert make_window("test", shape, kernel_size, stride, padding, 1, False, None).cells > MOST_IN_NETWORK
    check(Call("median_pool", shape, parameters, cells=cells))
    where = np.random.default_rng(1).random(shape) < 0.5
    check(Call("quantile_pool", shape, {**parameters, "q": 0.3, "where": where}, cells=cells))


def test_windows_that_choose_different_cells_of_a_row() -> None:
    # Two windows share the second row; their medians are in it, in different columns.
    x = np.array([[0.0, 1.0, 2.0], [10.0, 20.0, 30.0], [40.0, 15.0, 50.0]])
    x[0], x[2] = [0, 25, 26], [1, 2, 24]
    gradient = jax.grad(lambda x: (jaxpool.median_pool(x, (2, 3), 1, axis=(0, 1)) * np.array([[1.0], [8.0]])).sum())(x)
    expected = np.zeros((3, 3))
    # Sorted: 0 10 20 25 26 30, and 1 2 10 20 24 30.
    expected[1, 1], expected[0, 1], expected[1, 0] = 0.5 + 4, 0.5, 4
    np.testing.assert_array_equal(gradient, expected)


def test_extremes_are_quantiles() -> None:
    x = np.random.default_rng(0).integers(0, 4, (6, 7)).astype(np.float64)
    window = {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0)}

    def both(pool: Any) -> Any:
        return compiled_fast(jax.value_and_grad(lambda x: (pool(x, **window) ** 2).sum()))(x)

    least, most = (both(partial(jaxpool.quantile_pool, q=q)) for q in (0, 1))
    jax.tree.map(np.testing.assert_array_equal, least, both(jaxpool.min_pool))
    # The last of equal maxima, whereas max_pool picks the first.
    value, gradient = both(jaxpool.max_pool)
    np.testing.assert_array_equal(most[0], value)
    assert (most[1] != gradient).any()
    np.testing.assert_array_equal(most[1].sum(), gradient.sum())


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.float32, jnp.float64])
def test_means_overflow_only_with_their_cells(dtype: Any) -> None:
    largest = jnp.finfo(dtype).max
    x = jnp.array([largest, largest, -largest, largest], dtype)
    np.testing.assert_array_equal(jaxpool.median_pool(x, (2,)), jnp.array([largest, 0], dtype))
    # The quantile of equal cells is their value whatever the weights, and infinities do not become NaN.
    x = jnp.array([0.1, 0.1, 0.1, jnp.inf, jnp.inf, 3], dtype)
    np.testing.assert_array_equal(jaxpool.quantile_pool(x, 0.3, (3,)), x[jnp.array([0, 3])].at[1].set(jnp.inf))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int32, np.int64])
def test_integers(dtype: Any) -> None:
    highest = 1 if dtype is np.bool_ else np.iinfo(dtype).max
    x = np.array([[0, 1, highest, highest]]).astype(dtype)
    assert jaxpool.median_pool(x, (3,), 1, 1).dtype == np.float32
    expectations: dict[QuantileMethod, list[int]] = {
        "lower": [0, 1, highest, highest],
        "higher": [1, 1, highest, highest],
    }
    for method, expected in expectations.items():
        values = jaxpool.quantile_pool(x, 0.5, (3,), 1, 1, method=method)
        assert values.dtype == dtype
        np.testing.assert_array_equal(values, np.array([expected]).astype(dtype))


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
@pytest.mark.parametrize(("kernel", "kept"), [(3, ["uint8"]), (4, ["uint8", "uint8"])])
def test_backward_passes_keep_one_offset_per_cell_chosen(kernel: int, kept: list[str], rule: Any) -> None:
    def keep(x: jax.Array) -> Any:
        return jax.vjp(partial(jaxpool.median_pool, kernel_size=kernel, stride=2, axis=(0, 1), rule=rule), x)

    values, pull_back = jax.eval_shape(keep, jax.ShapeDtypeStruct((9, 8), np.float32))
    assert [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(pull_back)] == [(values.shape, one) for one in kept]


@pytest.mark.parametrize("kernel", [5, 11])
@pytest.mark.every_platform
def test_no_array_holds_several_copies_of_the_cells(kernel: int) -> None:
    program = jax.make_jaxpr(lambda x: jaxpool.median_pool(x, (kernel, kernel), 1, kernel // 2))(jnp.ones((16, 16)))
    sizes = [variable.aval.size for equation in equations(program.jaxpr) for variable in equation.outvars]
    assert max(sizes) == (16 + kernel - 1) ** 2


def test_padding_leaves_no_trace() -> None:
    window = make_window("test", (2, 5), (3,), 1, 1, 1, False, None)
    assert (np.asarray(pad_windows(jnp.full((2, 5), -math.inf), window, math.inf))[:, [0, -1]] == math.inf).all()
    for extreme in (math.inf, -math.inf):
        x = np.full((2, 5), extreme)
        np.testing.assert_array_equal(jaxpool.median_pool(x, (3,), 1, 1), x)
        gradient = jax.grad(lambda x: jaxpool.median_pool(x, (3,), 1, 1)[0].sum())(x)
        assert gradient[0].sum() == 5
