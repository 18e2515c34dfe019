"""Means with weights of another array: identities, closed forms, the ends of the range, and cells without weight."""

import itertools
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool import attention_pool, avg_pool, soft_pool, weighted_pool
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.mistakes.errors import Row, check_wrong_call, zeros
from tests.registry.cases import distinct, mask, weights
from tests.registry.records import slow_but

pytestmark = pytest.mark.usefixtures("for_this_platform")

slow = pytest.mark.slow
each_pool = pytest.mark.parametrize("pool", [weighted_pool, attention_pool])
# At once, one axis after the other, and in parts.
SHAPES = {"small": ((6, 7), 3, 1), "by axis": ((8, 9), 5, 2), "long": ((200,), 70, 7)}
each_size = pytest.mark.parametrize(
    ("pool", "size"),
    slow_but(
        [(weighted_pool, "by axis"), (attention_pool, "small")],
        itertools.product((weighted_pool, attention_pool), SHAPES),
    ),
)


def test_attention_to_cells_is_a_soft_pool_and_weights_of_a_mask_are_an_average() -> None:
    x, held, windows = distinct((6, 9), "x"), mask(6, 9), {"kernel_size": (3, 2), "stride": 2}

    def slopes(pool: Any) -> Any:
        return compiled_fast(jax.value_and_grad(lambda x: jnp.sin(pool(x)).sum()))(x)

    for found, expected in (
        (lambda x: attention_pool(x, 0.7 * x, **windows), partial(soft_pool, beta=0.7, **windows)),
        (partial(weighted_pool, weights=held, **windows), partial(avg_pool, where=held, **windows)),
    ):
        jax.tree.map(partial(np.testing.assert_allclose, atol=1e-11), slopes(found), slopes(expected))


@each_pool
@pytest.mark.parametrize("platform", ["cpu", pytest.param("tpu", marks=slow)])
def test_float32_is_near_float64(pool: Any, platform: str) -> None:
    x, w, x_dot, w_dot = np.random.default_rng(0).normal(size=(4, 2, 9, 8, 3))
    # Zeros, and a whole window without weight.
    x[0, :4, :4], w[1, :4, :4] = 0, -np.inf if pool is attention_pool else 0
    w = np.abs(w) if pool is weighted_pool else w
    windows = partial(pool, kernel_size=(3, 3), stride=1, axis=(1, 2))

    def everything(*arrays: jax.Array) -> Any:
        values, pull_back = jax.vjp(windows, *arrays[:2])
        return jax.jvp(windows, arrays[:2], arrays[2:]), pull_back(jnp.cos(values))

    with jaxpool.compiling_for(platform):
        found, expected = (
            compiled_fast(everything)(*(each.astype(dtype) for each in (x, w, x_dot, w_dot)))
            for dtype in (np.float32, np.float64)
        )
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=2e-6), found, expected)


@pytest.mark.parametrize(
    ("pool", "kernel", "mean", "spread", "atol"),
    [
        (weighted_pool, (3, 3), 4096, 2**-6, 9 * 2.0**-11),
        (attention_pool, (3, 3), 4096, 2**-6, 9 * 2.0**-11),
        # The mean itself is rounded to its last digit, 1e-3.
        pytest.param(weighted_pool, (7, 5), 1e4, 1e-2, 2e-2, marks=slow),
    ],
)
def test_slopes_of_weights_keep_their_digits_far_from_0(
    pool: Any, kernel: tuple[int, int], mean: float, spread: float, atol: float
) -> None:
    x, w = np.random.default_rng(1).normal(size=(2, 1, 16, 16, 8))
    x, w = (mean + spread * x).astype(np.float32), np.exp(w).astype(np.float32)

    @compiled_as_usual
    def slopes(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.grad(lambda w: pool(x, w, kernel, 1, axis=(1, 2)).sum())(w)

    exact = slopes(x.astype(np.float64), w.astype(np.float64))
    # Not better than x less a rounded mean, nor much worse.
    np.testing.assert_allclose(slopes(x, w), exact, rtol=0, atol=atol)


def test_weights_at_the_ends_of_the_range() -> None:
    x = np.array([[1.0, 5.0, 9.0]] * 4, np.float32)
    w = np.array([[1e15, 3e15, 0], [2e-15, 6e-15, 0], [1e-15, 3e15, 0], [0, 0, 0]], np.float32)
    logits = np.array([[1e4, 1e4, -1e4], [-1e4, -1e4, -3e4], [-1e4, 1e4, 0], [-np.inf] * 3], np.float32)

    @compiled_fast
    def values(x: jax.Array) -> tuple[jax.Array, jax.Array, tuple[jax.Array, ...]]:
        slopes = jax.grad(lambda x, logits: attention_pool(x, logits, (3,)).sum(), (0, 1))(x, logits)
        return weighted_pool(x, w, (3,))[:, 0], attention_pool(x, logits, (3,))[:, 0], slopes

    weighted, attentive, (of_cells, of_logits) = values(x)
    np.testing.assert_allclose(weighted, [4, 4, 5, 0], rtol=1e-6)
    np.testing.assert_allclose(attentive, [3, 3, 5, 0], rtol=1e-6)
    np.testing.assert_allclose(of_cells, [[0.5, 0.5, 0]] * 2 + [[0, 1, 0], [0, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(of_logits, [[-1, 1, 0]] * 2 + [[0, 0, 0]] * 2, atol=1e-6)


def test_slopes_of_rows_without_weight() -> None:
    # Windows of 25 cells are taken in parts, some of which have no weight.
    x, w = np.random.default_rng(3).uniform(0.5, 2, (2, 5, 5))
    w[1:4] = 0
    y = (w * x).sum() / w.sum()
    slopes = jax.grad(lambda w: weighted_pool(x, w, (5, 5)).sum())(w)
    np.testing.assert_allclose(slopes, (x - y) / w.sum(), rtol=1e-12)


def test_mixed_derivatives_for_large_and_small_weights() -> None:
    x, w = np.array([1.0, 5.0, 2.0], np.float32), np.array([1.0, 2.0, 3.0], np.float32)

    def in_both_orders(x: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        of_x, of_w = (jax.grad(lambda x, w: weighted_pool(x, w, (3,)).sum(), number) for number in (0, 1))
        return tuple(jac(of_x, 1)(x, w) for jac in (jax.jacfwd, jax.jacrev)) + tuple(
            jac(of_w, 0)(x, w).T for jac in (jax.jacfwd, jax.jacrev)
        )

    derivatives = compiled_fast(in_both_orders)
    # ∂²y/∂x(i)∂w(j) is 1/Σ w if i = j, less w(i)/(Σ w)².
    expected = np.eye(3) / w.sum() - w[:, None] / w.sum() ** 2
    for scale in (1.0, 2.0**-50, 2.0**50):
        for found in derivatives(x, w * np.float32(scale)):
            np.testing.assert_allclose(found * np.float32(scale), expected, rtol=1e-5, atol=1e-6)


def test_weights_may_be_wider_than_cells() -> None:
    x = np.array([1, 3], np.float32)
    for pool, given, expected in (
        (attention_pool, [1e9, 1e9 + 1], 1 + 2 / (1 + np.exp(-1))),
        (attention_pool, [1e200, 1e200], 2),
        (weighted_pool, [1e200, 1e200], 2),
        (weighted_pool, [1e-200, 3e-200], 2.5),
    ):
        result, pull_back = jax.vjp(partial(pool, kernel_size=(2,)), x, np.array(given))
        np.testing.assert_allclose(result, [expected], rtol=1e-6)
        assert [each.dtype for each in (result, *pull_back(result))] == [np.float32, np.float32, np.float64]


@each_pool
def test_what_has_no_weight_adds_nothing(pool: Any) -> None:
    x, w = np.array([np.nan, 1.0, np.inf, 3.0, np.nan, np.inf]), np.array([0.0, 2.0, 0.0, 1.0, 0.0, 0.0])
    w = w if pool is weighted_pool else np.where(w, np.log(np.maximum(w, 1)), -np.inf)
    values, pull_back = jax.vjp(lambda x: pool(x, w, (2,)), x)
    np.testing.assert_allclose(values, [1, 3, 0])
    np.testing.assert_allclose(pull_back(jnp.ones(3))[0], [0, 1, 0, 1, 0, 0])


@each_size
def test_a_weight_that_is_nan_stays_in_its_windows(pool: Any, size: str) -> None:
    """Other windows, and what they send back to cells that they share, are those without the cell."""
    shape, kernel, stride = SHAPES[size]
    axis, absent = tuple(range(len(shape))), 0 if pool is weighted_pool else -np.inf
    x, w = distinct(shape, "cells", 3.0), weights(*shape)
    here = np.arange(x.size).reshape(shape) == x.size // 2
    unknown, without = (np.where(here, other, w) for other in (np.nan, absent))

    @compiled_fast
    def pools(x: jax.Array, w: jax.Array, kept: jax.Array) -> Any:
        def total(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
            values = pool(x, w, kernel, stride, axis=axis)
            return jnp.where(kept, values, 0).sum(), values

        return jax.grad(total, (0, 1), has_aux=True)(x, w)

    kept = ~np.isnan(np.asarray(pool(x, unknown, kernel, stride, axis=axis)))
    assert 0 < kept.sum() < kept.size
    (slopes, values), (expected, others) = (pools(x, given, kept) for given in (unknown, without))
    np.testing.assert_allclose(values[kept], others[kept], rtol=1e-12)
    for found, wanted in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(found[~here], wanted[~here], atol=1e-12)


@each_pool
def test_windows_of_a_weight_that_is_nan_pass_nothing(pool: Any) -> None:
    x, w = np.array([1.0, 2.0, 3.0, 4.0], np.float32), np.array([np.nan, 1e15, np.nan, 1e-15], np.float32)
    slopes = compiled_fast(jax.grad(lambda x, w: pool(x, w, (2,)).sum(), (0, 1)))(x, w)
    np.testing.assert_array_equal(slopes, np.zeros((2, 4)))


@each_size
def test_values_that_are_not_finite_pass_nothing_to_weights(pool: Any, size: str) -> None:
    """What x gets does not depend on the cells."""
    bad = np.nan if pool is weighted_pool else np.inf
    shape, kernel, stride = SHAPES[size]
    x, w, axis = distinct(shape, "cells"), weights(*shape), tuple(range(len(shape)))
    here = np.arange(x.size).reshape(shape) == x.size // 2

    @compiled_fast
    def pools(x: jax.Array, w: jax.Array, kept: jax.Array) -> Any:
        values, pull_back = jax.vjp(lambda x, w: pool(x, w, kernel, stride, axis=axis), x, w)
        return values, *pull_back(jnp.where(kept, jnp.arange(1.0, values.size + 1).reshape(values.shape), 0))

    values = pool(x, w, kernel, stride, axis=axis)
    found, of_x, of_weights = pools(np.where(here, bad, x), w, np.ones_like(values, bool))
    assert 0 < np.isfinite(found).sum() < found.size
    np.testing.assert_allclose(of_x, pools(x, w, np.ones_like(values, bool))[1], rtol=1e-10)
    np.testing.assert_allclose(of_weights, pools(x, w, np.isfinite(found))[2], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_of_zero_have_slopes(dtype: Any) -> None:
    x, w = np.array([1.0, 5.0, 2.0, 8.0, 4.0], dtype), np.array([3.0, 0.0, 0.0, 1e-30, 0.0], dtype)

    def total(w: jax.Array) -> jax.Array:
        return weighted_pool(x, w, (2,), 1, 1).sum()

    slopes, product = compiled_fast(lambda w: jax.jvp(jax.grad(total), (w,), (jnp.ones_like(w),)))(w)
    # The windows: (1), (1, 5), (5, 2) without weight, (2, 8), (8, 4), (4) without weight.
    np.testing.assert_allclose(slopes, [0, 4 / 3, -6 / dtype(1e-30), 0, -4 / dtype(1e-30)], rtol=1e-6)
    assert np.isfinite(product[:2]).all()


@pytest.mark.parametrize(("function", "name"), [("weighted_pool", "weights"), ("attention_pool", "logits")])
def test_wrong_weights(function: str, name: str) -> None:
    rows: list[Row] = [
        (TypeError, rf"{name} must be a JAX or NumPy array, got float; convert it", {name: 1.0}),
        (TypeError, rf"{name} is complex64, .* pool {name}.real", {name: np.ones(8, np.complex64)}),
        (ValueError, rf"{name} of shape \(5,\) do not broadcast to x \(2, 8, 8\); give one", {name: zeros(5)}),
    ]
    for row in rows:
        check_wrong_call(function, *row)
