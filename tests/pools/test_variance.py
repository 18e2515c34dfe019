"""Variances and standard deviations: digits far from 0, equal cells, the ends of the range, corrections and errors."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_fast
from tests.mistakes.errors import Row, check_wrong_call
from tests.reference import oracle
from tests.registry.calls import Call, check
from tests.registry.records import slow_but

pytestmark = pytest.mark.usefixtures("for_this_platform")

both_pools = pytest.mark.parametrize("function", ["var_pool", "std_pool"])


@both_pools
def test_a_mean_far_from_0_costs_no_digits(function: str) -> None:
    x = (1e4 + 1e-2 * np.random.default_rng(0).standard_normal((40, 24))).astype(np.float32)
    for kernel, stride in ((7, 1), (20, 1)) if function == "std_pool" else ((3, 2), ((34, 1), (3, 1))):
        options = {"kernel_size": kernel, "stride": stride, "axis": (0, 1), "correction": int(function == "var_pool")}
        pool = partial(getattr(jaxpool, function), **options)
        values, gradient = compiled_fast(lambda x, pool=pool: (pool(x), jax.grad(lambda x: pool(x).sum())(x)))(x)
        exact = oracle.evaluate(function, x, **options)
        slopes = exact.backward(np.ones_like(exact.values))
        np.testing.assert_allclose(values, exact.values, rtol=2e-6)
        np.testing.assert_allclose(gradient, slopes, atol=1e-5 * np.abs(slopes).max())


def test_one_cell_among_many_equal_ones_costs_no_digits() -> None:
    # It is the one that is subtracted from all others, and the mean of these is then far from 0.
    x = np.zeros((126, 63), np.float32)
    x[31::63, 31] = 1
    found = compiled_fast(lambda x: jaxpool.var_pool(x, (63, 63)))(x)
    np.testing.assert_allclose(found[:, 0], x[:63].astype(np.float64).var(), rtol=2e-6)


@both_pools
def test_equal_cells_are_exactly_0(function: str) -> None:
    pool: Callable[..., jax.Array] = getattr(jaxpool, function)
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


def test_large_windows_keep_the_digits_of_the_largest_and_the_least_numbers() -> None:
    """A 9×9 window is merged from rows."""
    random = np.random.default_rng(0)
    x, direction, weights = (random.standard_normal(shape) for shape in ((10, 11), (10, 11), (2, 3)))

    def deviations(x: jax.Array, direction: jax.Array) -> tuple[jax.Array, ...]:
        def total(x: jax.Array) -> jax.Array:
            return (jaxpool.std_pool(x, (9, 9), 1, correction=1) * weights.astype(x.dtype)).sum()

        slopes, curvature = jax.jvp(jax.grad(total), (x,), (direction,))
        reverse = jax.grad(lambda x: jnp.vdot(jax.grad(total)(x), direction))(x)
        return total(x), jax.jvp(total, (x,), (direction,))[1], slopes, curvature, reverse

    evaluate = compiled_fast(deviations)
    exact = evaluate(x, direction)
    for scale in (1e-15, 1e-10, 1e10, 1e15):
        found = evaluate(np.float32(scale * x), np.float32(scale * direction))
        for number, power in zip(range(5), (1, 1, 0, 0, 0), strict=True):
            np.testing.assert_allclose(np.float64(found[number]) / scale**power, exact[number], rtol=1e-5, atol=2e-6)
    # And with a step of the size of 1, whose curvature is of the size of 1/scale.
    _, step, _, curvature, _ = evaluate(np.float32(1e-15 * x), np.float32(direction))
    np.testing.assert_allclose(step, exact[1], rtol=1e-5)
    np.testing.assert_allclose(np.float64(curvature) * 1e-15, exact[3], rtol=1e-5, atol=2e-6)
    for scale in (1e-15, 1e15):
        values = jaxpool.var_pool(np.float32(scale * x), (9, 9), 1)
        expected = oracle.evaluate("var_pool", x, kernel_size=(9, 9), stride=1).values
        np.testing.assert_allclose(np.float64(values) / scale**2, expected, rtol=1e-5)


# Of padding, dilation, a last window beyond the array, and axes in turn.
FORMS: dict[str, dict[str, Any]] = {
    "overlapping": {"kernel_size": (3, 3), "stride": 2, "padding": 1},
    "cut short": {"kernel_size": (3, 4), "stride": (1, 3), "padding": 1, "ceil_mode": True},
    "by axis": {"kernel_size": (6, 5), "stride": 1, "padding": 2},
    "wide": {"kernel_size": (5, 9), "stride": 1, "padding": 2},
}


@pytest.mark.parametrize(
    ("function", "form"),
    slow_but([("var_pool", "cut short"), ("std_pool", "by axis")], itertools.product(("var_pool", "std_pool"), FORMS)),
)
def test_numbers_of_any_size_change_no_other_item(function: str, form: str) -> None:
    x = (100 + np.random.default_rng(0).standard_normal((2, 15, 14))).astype(np.float32)
    options = {**FORMS[form], "correction": 1 if function == "var_pool" else 0}
    pool = compiled_fast(partial(getattr(jaxpool, function), **options))
    assert not pool(np.full_like(x, 0.1)).any()
    expected = oracle.evaluate(function, x, **options).values
    np.testing.assert_allclose(pool(x), expected, rtol=2e-6)
    # The other item has other numbers, or none.
    for factor in (1e-15, 1e15, np.nan, np.inf):
        found = pool(np.concatenate([x[:1], np.float32(factor) * (x[1:] - 100)]))
        np.testing.assert_allclose(found[0], expected[0], rtol=2e-6)
        if np.isfinite(factor) and function == "std_pool":
            np.testing.assert_allclose(found[1] / np.float32(factor), expected[1], rtol=2e-5)


@both_pools
@pytest.mark.parametrize(
    # The correction leaves nothing to windows in corners.
    ("kernel", "stride", "padding", "correction"),
    [(3, 2, 1, 4.0), pytest.param(8, 4, 0, 1.0, marks=pytest.mark.slow)],
    ids=str,
)
def test_variances_of_bfloat16_lose_no_digits(
    kernel: int, stride: int, padding: int, correction: float, function: str
) -> None:
    random, shape = np.random.default_rng(0), (4, 24, 24)
    options = {"kernel_size": (kernel,) * 2, "stride": stride, "padding": padding, "correction": correction}
    # A few neighbouring numbers around 1, where the last place doubles, times a number for each plane.
    steps = random.integers(-2, 3, shape) * np.where(random.random(shape) < 0.3, 4, 1)
    close = np.where(steps < 0, 1 + steps / 256, 1 + steps / 128) * 2.0 ** random.integers(-30, 30, (4, 1, 1))
    normal = 2.0 ** random.integers(-9, 9, shape) * random.standard_normal(shape)
    flat = np.where(random.random((4, 1, 1)) < 0.5, 0.1, -3e4) * np.ones(shape)
    pool = partial(getattr(jaxpool, function), **options)
    with jaxpool.compiling_for("tpu"):
        everything = compiled_fast(lambda x: (pool(x), jax.grad(lambda x: pool(x).sum().astype(np.float32))(x)))
        for cells in (close, normal, flat):
            x = cells.astype(jnp.bfloat16)
            values, gradient = (np.float64(each) for each in everything(x))
            exact = oracle.evaluate(function, x.astype(np.float64), **options)
            slopes = exact.backward(np.ones_like(exact.values))
            np.testing.assert_allclose(values, exact.values, rtol=2.0**-8)
            assert (np.abs(gradient - slopes) <= 2.0**-8 * np.abs(slopes).max((1, 2), keepdims=True)).all()


def test_bfloat16_that_are_no_numbers_change_no_other_item() -> None:
    x = np.random.default_rng(0).standard_normal((2, 9, 9))
    pool = partial(jaxpool.std_pool, kernel_size=(3, 3), stride=2)
    with jaxpool.compiling_for("tpu"):
        compiled = jax.jit(pool)
        for factor in (1e-15, 1e15, np.inf, np.nan):
            spoilt = np.stack([x[0], factor * x[1]])
            np.testing.assert_allclose(np.float64(compiled(spoilt.astype(jnp.bfloat16))), pool(spoilt), rtol=0.02)


def test_a_correction_leaves_no_value_to_windows_of_too_few_cells() -> None:
    windows = {"kernel_size": (2,), "where": np.array([True, True, True, False, False, False])}
    for correction in (0, 1, 1.5, 2):
        check(Call("var_pool", (6,), {**windows, "correction": correction}, cells="distinct"))


def test_windows_may_have_no_offset_in_common_that_is_real() -> None:
    check(Call("var_pool", (6,), {"kernel_size": (2,), "stride": 1, "padding": 1}, cells="distinct"))


def test_bad_corrections() -> None:
    rows: list[Row] = [
        (ValueError, r"correction must be finite and not negative, got -1; use 0 or 1", {"correction": -1}),
        (TypeError, r"correction must be a Python number, got None; use 0", {"correction": None}),
    ]
    for function in ("var_pool", "std_pool"):
        for row in rows:
            check_wrong_call(function, *row)
