"""Variances and standard deviations: digits far from 0, equal cells, the ends of the range, corrections and errors."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._derivatives.moderate_sums import pool_by_sums_of_cells
from jaxpool._geometry.window import make_window
from jaxpool._moments.moderate_variances import Variances
from jaxpool._moments.variances_by_sums import VariancesBySums
from tests.harness.compilation import compiled_fast
from tests.mistakes.errors import COMPLEX, Row, check_wrong_call
from tests.reference import oracle
from tests.registry.cases import distinct

WINDOWS = {"3×3 / 2": (3, 2), "7×7 / 1": (7, 1), "20×20 / 1": (20, 1), "34 of 40": ((34, 1), (3, 1))}


def _windows(x: np.ndarray, kernel: int | tuple[int, int], stride: int | tuple[int, int]) -> np.ndarray:
    kernels, (down, across) = np.broadcast_to(kernel, 2), np.broadcast_to(stride, 2)
    return np.lib.stride_tricks.sliding_window_view(x, kernels)[::down, ::across]


def test_a_mean_far_from_0_costs_no_digits() -> None:
    x = (1e4 + 1e-2 * np.random.default_rng(0).standard_normal((40, 24))).astype(np.float32)

    def pools(x: jax.Array, name: str) -> tuple[jax.Array, jax.Array, jax.Array]:
        kernel, stride = WINDOWS[name]
        std, pull_back = jax.vjp(lambda x: jaxpool.std_pool(x, kernel, stride, axis=(0, 1)), x)
        return jaxpool.var_pool(x, kernel, stride, correction=1, axis=(0, 1)), std, pull_back(jnp.ones_like(std))[0]

    all_of = compiled_fast(lambda x: {name: pools(x, name) for name in WINDOWS})
    found, exact = all_of(x), all_of(x.astype(np.float64))
    for name, (kernel, stride) in WINDOWS.items():
        windows = _windows(x.astype(np.float64), kernel, stride)
        np.testing.assert_allclose(found[name][0], windows.var((-1, -2), ddof=1), rtol=2e-6, err_msg=name)
        np.testing.assert_allclose(found[name][1], windows.std((-1, -2)), rtol=2e-6, err_msg=name)
        np.testing.assert_allclose(exact[name][0], windows.var((-1, -2), ddof=1), rtol=1e-9, err_msg=name)
        np.testing.assert_allclose(found[name][2], exact[name][2], atol=1e-5 * np.abs(exact[name][2]).max())


def test_one_cell_among_many_equal_ones_costs_no_digits() -> None:
    # It is the one that is subtracted from all others, and the mean of these is then far from 0.
    x = np.zeros((126, 63), np.float32)
    x[31::63, 31] = 1
    found = compiled_fast(lambda x: jaxpool.var_pool(x, (63, 63)))(x)
    np.testing.assert_allclose(found[:, 0], x[:63].astype(np.float64).var(), rtol=2e-6)


@pytest.mark.parametrize("pool", [jaxpool.var_pool, jaxpool.std_pool])
def test_equal_cells_are_exactly_0(pool: Callable[..., jax.Array]) -> None:
    x = np.full((13, 11), 0.1, np.float32)
    mask = np.random.default_rng(1).random(x.shape) < 0.7

    def sums(x: jax.Array) -> jax.Array:
        return pool(x, (3, 3), 1, where=mask).sum() + pool(x, (5, 5), 2, 2).sum()

    def derivatives(x: jax.Array) -> tuple[jax.Array, ...]:
        return sums(x), jax.grad(sums)(x), jax.jvp(jax.grad(sums), (x,), (x,))[1]

    value, slopes, curvature = compiled_fast(derivatives)(x)
    assert value == 0
    assert not np.any(slopes)
    # For the variance, what equal steps of all cells add up to.
    np.testing.assert_allclose(curvature, 0, atol=1e-6)


def test_a_root_of_0_has_derivative_0_at_every_order() -> None:
    x = jnp.array([2.0, 2.0, 2.0, 1.0, 3.0, 5.0], jnp.float32)

    def pool(x: jax.Array) -> jax.Array:
        return jaxpool.std_pool(x, (3,))

    hessians = compiled_fast(jax.hessian(pool))(x)
    assert not np.any(hessians[0])
    # For three cells 2 apart with y² = 8/3, (δ - 1/3)/(3·y) - e·e/(9·y³).
    e, y = np.array([-2.0, 0, 2]), np.sqrt(8 / 3)
    expected = (np.eye(3) - 1 / 3) / (3 * y) - np.outer(e, e) / (9 * y**3)
    np.testing.assert_allclose(hessians[1, 3:, 3:], expected, atol=1e-6)


def test_only_a_value_that_is_too_large_overflows() -> None:
    ends = np.array([[3e38, -3e38, 3e38, -3e38], [3e-30, -3e-30, 3e-30, -3e-30], [2e19, -2e19, 0, 0]], np.float32)
    values, slopes = compiled_fast(
        lambda x: (jaxpool.std_pool(x, (4,)), jax.grad(lambda x: jaxpool.std_pool(x, (4,)).sum())(x))
    )(ends)
    np.testing.assert_allclose(values[:, 0], [3e38, 3e-30, 2e19 / np.sqrt(2)], rtol=1e-6)
    np.testing.assert_allclose(slopes, [[0.25, -0.25, 0.25, -0.25]] * 2 + [[0.5**1.5, -(0.5**1.5), 0, 0]], atol=1e-6)
    large = np.array([1e19, -1e19], np.float32)
    np.testing.assert_allclose(jaxpool.var_pool(large, (2,)), [1e38], rtol=1e-6)


def test_large_windows_keep_numbers_of_any_size() -> None:
    """A 5×7 window is merged from rows, whose variances may be no numbers where their deviations are."""
    random = np.random.default_rng(0)
    x, direction, weights = (random.standard_normal(shape) for shape in ((6, 9), (6, 9), (2, 3)))

    def deviations(x: jax.Array, direction: jax.Array) -> tuple[jax.Array, ...]:
        def total(x: jax.Array) -> jax.Array:
            return (jaxpool.std_pool(x, (5, 7), 1, correction=1) * weights.astype(x.dtype)).sum()

        slopes, curvature = jax.jvp(jax.grad(total), (x,), (direction,))
        reverse = jax.grad(lambda x: jnp.vdot(jax.grad(total)(x), direction))(x)
        return total(x), jax.jvp(total, (x,), (direction,))[1], slopes, curvature, reverse

    evaluate = compiled_fast(deviations)
    exact = evaluate(x, direction)
    for scale in (1e-30, 1e-20, 1e20, 1e30, 1e36):
        found = evaluate(np.float32(scale * x), np.float32(scale * direction))
        for number, power in zip(range(5), (1, 1, 0, 0, 0), strict=True):
            np.testing.assert_allclose(np.float64(found[number]) / scale**power, exact[number], rtol=1e-5, atol=2e-6)
    # And with a step of the size of 1, whose curvature is of the size of 1/scale.
    _, step, _, curvature, _ = evaluate(np.float32(1e-30 * x), np.float32(direction))
    np.testing.assert_allclose(step, exact[1], rtol=1e-5)
    np.testing.assert_allclose(np.float64(curvature) * 1e-30, exact[3], rtol=1e-5, atol=2e-6)
    for scale in (1e-17, 1e18):
        values = jaxpool.var_pool(np.float32(scale * x), (5, 7), 1)
        np.testing.assert_allclose(np.float64(values) / scale**2, _windows(x, (5, 7), 1).var((-1, -2)), rtol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation", "ceil_mode"),
    [
        ((3, 3), 2, 1, 1, False),
        ((3, 3), 1, 0, 2, False),
        ((3, 4), (1, 3), 1, 1, True),
        ((7, 7), 7, 0, 1, False),
        ((6, 5), 1, (2, 2), 1, False),
        ((5, 9), 1, 2, 1, False),
    ],
    ids=str,
)
def test_one_loop_has_the_exact_variances(
    kernel: Any, stride: Any, padding: Any, dilation: int, ceil_mode: bool
) -> None:
    """Of padding, dilation, a last window beyond the array, and axes in turn; and NaN where squares lose digits."""
    window = make_window("std_pool", (2, 15, 14), kernel, stride, padding, dilation, ceil_mode, (1, 2))
    random = np.random.default_rng(0)
    x = (100 + random.standard_normal((2, 15, 14))).astype(np.float32)
    for correction, root in ((1.0, False), (0.0, True)):
        pool = Variances(window, correction, root)
        found, exact = compiled_fast(pool.moderate)(x), compiled_fast(pool.exact)(x.astype(np.float64))
        np.testing.assert_allclose(found, exact, rtol=2e-6)
        assert not compiled_fast(pool.moderate)(np.full_like(x, 0.1)).any()
        for factor in (1e-20, 1e20, np.nan, np.inf):
            spoilt = np.concatenate([x[:1], factor * (x[1:] - 100)])
            is_nan = np.isnan(compiled_fast(pool.moderate)(spoilt))
            assert is_nan[1].all()
            assert not is_nan[0].any()
            if np.isfinite(factor) and root:
                values = compiled_fast(lambda x, pool=pool: pool(x, None, "jvp"))(np.float32(spoilt))
                np.testing.assert_allclose(values[1] / factor, exact[1], rtol=2e-5)


def _close_bfloat16(random: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Cells of a few neighbouring numbers around 1, where the last place doubles, times a number for each row."""
    steps = random.integers(-2, 3, shape) * np.where(random.random(shape) < 0.3, 4, 1)
    x = np.where(steps < 0, 1 + steps / 256, 1 + steps / 128) * 2.0 ** random.integers(-30, 30, (shape[0], 1, 1))
    return x.astype(jnp.bfloat16)


@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize(
    # The correction leaves nothing to windows in corners.
    ("kernel", "stride", "padding", "correction"),
    [(3, 2, 1, 4.0), (8, 4, 0, 1.0), (2, 2, 0, 0.0)],
    ids=str,
)
def test_sums_of_bfloat16_lose_no_digits(kernel: int, stride: int, padding: int, correction: float, root: bool) -> None:
    """On a TPU a variance is a difference of two sums, which would lose its digits if they were rounded."""
    random = np.random.default_rng(0)
    shape = (4, 24, 24)
    window = make_window("std_pool", shape, (kernel,) * 2, stride, padding, 1, False, (1, 2))
    pool = Variances(window, correction, root)
    by_sums = partial(pool_by_sums_of_cells, VariancesBySums(window, pool), "jvp")
    direction, cotangent = random.standard_normal(shape), random.standard_normal(window.output_shape(shape))

    def everything(x: Any, pool: Any) -> Any:
        values, pull_back = jax.vjp(pool, x)
        return values, pull_back(cotangent.astype(x.dtype))[0], jax.jvp(pool, (x,), (direction.astype(x.dtype),))[1]

    normal, size = random.standard_normal(shape), 2.0 ** random.integers(-9, 9, shape)
    flat = np.where(random.random((4, 1, 1)) < 0.5, 0.1, -3e4) * np.ones(shape)
    for cells in (_close_bfloat16(random, shape), normal, size * normal, flat):
        # Of float32, so that the results are not rounded.
        x = cells.astype(jnp.bfloat16).astype(np.float32)
        exact = compiled_fast(partial(everything, pool=lambda x: pool(x, None, "jvp")))(x.astype(np.float64))
        with jaxpool.compiling_for("tpu"):
            found = compiled_fast(partial(everything, pool=by_sums))(x)
        for one, other in zip(found, exact, strict=True):
            error, largest = np.abs(np.float64(one) - other), np.abs(other).max((1, 2), keepdims=True)
            assert (error <= 2.0**-13 * largest).all()
        np.testing.assert_allclose(found[0], exact[0], rtol=2.0**-13)


@pytest.mark.parametrize("factor", [1e-30, 1e30, np.inf, np.nan])
def test_squares_of_bfloat16_that_are_no_numbers_change_no_other_item(factor: float) -> None:
    x = np.random.default_rng(0).standard_normal((2, 9, 9))
    x[1] *= factor
    pool = jax.jit(partial(jaxpool.std_pool, kernel_size=(3, 3), stride=2))
    exact = pool(x)
    with jaxpool.compiling_for("tpu"):
        found = pool(x.astype(jnp.bfloat16))
    np.testing.assert_allclose(np.float64(found), exact, rtol=0.02)


def test_a_correction_leaves_no_value_to_windows_of_too_few_cells() -> None:
    x = np.array([1.0, 4.0, 9.0, 2.0, np.nan, 7.0])
    mask = np.array([True, True, True, False, False, False])
    for correction, expected in ((0, [2.25, 0, 0]), (1, [4.5, 0, 0]), (2, [0, 0, 0]), (1.5, [9, 0, 0])):
        values, slopes = compiled_fast(
            jax.value_and_grad(
                lambda x, c=correction: (lambda y: (y.sum(), y))(jaxpool.var_pool(x, (2,), correction=c, where=mask)),
                has_aux=True,
            )
        )(x)
        np.testing.assert_allclose(values[1], expected)
        assert np.any(slopes) == np.any(expected)
        assert not np.any(slopes[2:])


def test_footprints_count_their_own_cells() -> None:
    # Without padding, where windows of one number of cells need no counts.
    x = distinct((7, 6), "footprint")
    window = {"kernel_size": jaxpool.footprint(np.array([[True, False, True], [False, True, True]])), "stride": 1}
    for function, correction in (("var_pool", 1), ("std_pool", 0)):
        pool = getattr(jaxpool, function)
        values, pull_back = jax.vjp(lambda x, pool=pool, c=correction: pool(x, correction=c, **window), x)
        expected = oracle.evaluate(function, x, correction=correction, **window)
        np.testing.assert_allclose(values, expected.values, rtol=1e-12)
        np.testing.assert_allclose(pull_back(np.cos(values))[0], expected.backward(np.cos(values)), atol=1e-12)


def test_bad_corrections() -> None:
    rows: list[Row] = [
        (ValueError, r"correction must be finite and not negative, got -1; use 0 or 1", {"correction": -1}),
        (TypeError, r"correction must be a Python number, got None; use 0", {"correction": None}),
        (TypeError, r"x is complex64, and complex numbers are not supported", COMPLEX),
        (ValueError, r"window 0 along axis 1 holds only padding .* or count_include_pad=True", {"padding": 2}),
    ]
    for function in ("var_pool", "std_pool"):
        for row in rows:
            check_wrong_call(function, *row)
