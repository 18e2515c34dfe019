"""Means with weights of another array: identities, closed forms of derivatives, the ends of the range, and errors."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool import attention_pool, avg_pool, soft_pool, weighted_pool
from tests.harness.compilation import compiled_fast
from tests.mistakes.errors import Row, check_wrong_call, zeros
from tests.registry.cases import distinct, mask, weights


def _twice(pool: Any, *arrays: Any) -> Any:
    """The value, its gradient and a product with its Hessian, for all arrays."""

    def value(*arrays: jax.Array) -> jax.Array:
        values = pool(*arrays)
        return (values * jnp.cos(jnp.arange(values.size, dtype=values.dtype)).reshape(values.shape)).sum()

    slopes = jax.grad(value, tuple(range(len(arrays))))
    return pool(*arrays), *jax.jvp(slopes, arrays, tuple(jnp.sin(array) for array in arrays))


# At once, one axis after the other, and in pieces.
@pytest.mark.parametrize(
    "window",
    [
        pytest.param(((3, 2), 2), id="3×2"),
        pytest.param(((5, 5), 1), id="5×5", marks=pytest.mark.slow),
        pytest.param(((1, 40), 1), id="1×40", marks=pytest.mark.slow),
    ],
)
def test_closed_forms_and_identities(window: tuple[Any, Any]) -> None:
    shape = (6, 47)
    x, w, held = distinct(shape, "x"), weights(*shape), mask(*shape)

    def sums(x: jax.Array, w: jax.Array) -> jax.Array:
        return avg_pool(w * x, *window) / avg_pool(w, *window)

    @compiled_fast
    def pairs(x: jax.Array, w: jax.Array) -> list[tuple[Any, Any]]:
        logits = jnp.log(w)
        return [
            (_twice(lambda x, w: weighted_pool(x, w, *window), x, w), _twice(sums, x, w)),
            (
                _twice(lambda x, logits: attention_pool(x, logits, *window), x, logits),
                _twice(lambda x, logits: sums(x, jnp.exp(logits)), x, logits),
            ),
            (
                _twice(lambda x: attention_pool(x, 0.7 * x, *window), x),
                _twice(lambda x: soft_pool(x, 0.7, *window), x),
            ),
            (
                _twice(lambda x: weighted_pool(x, held, *window), x),
                _twice(lambda x: avg_pool(x, *window, where=held), x),
            ),
        ]

    for found, expected in pairs(x, w):
        jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=1e-11), found, expected)


def test_weights_at_the_ends_of_the_range() -> None:
    x = np.array([[1.0, 5.0, 9.0]] * 4, np.float32)
    w = np.array([[1e38, 3e38, 0], [2e-38, 6e-38, 0], [1e-30, 3e38, 0], [0, 0, 0]], np.float32)
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
    # Where cells are as large as their weights, slopes are no smaller than numbers can be.
    slopes = jax.grad(lambda w: weighted_pool(np.float32(3e37) * x[:1], w, (3,)).sum())(jnp.full((1, 3), 1e38))
    np.testing.assert_allclose(slopes, [[-0.4, 0, 0.4]], atol=1e-6)


def test_products_of_small_weights_and_cells() -> None:
    # The exponential of -79.8 times the cell is no number, but it is all that either window holds.
    x, logits = np.array([0, 1e-15, 0], np.float32), np.array([-39.9, -79.8, -39.9], np.float32)
    found = compiled_fast(lambda x: attention_pool(x, logits, (2,), 1))(x)
    share = np.exp(np.float64(logits[1]) - np.float64(logits[0]))
    np.testing.assert_allclose(found, [1e-15 * share / (1 + share)] * 2, rtol=1e-5)


def test_slopes_of_weights_keep_their_digits_far_from_0() -> None:
    x = (1e4 + 1e-2 * np.random.default_rng(2).standard_normal((9, 11))).astype(np.float32)
    w = weights(9, 11)

    def slopes(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.grad(lambda w: weighted_pool(x, w, (7, 5), 2).sum())(w)

    found, exact = compiled_fast(lambda x, w: (slopes(x, w.astype(x.dtype)), slopes(x.astype(w.dtype), w)))(x, w)
    # The mean itself is rounded to its last digit, 1e-3.
    np.testing.assert_allclose(found, exact, atol=2e-3)


def test_slopes_of_rows_without_weight() -> None:
    # Windows of 25 cells are taken in parts, some of which have no weight.
    x, w = np.random.default_rng(3).uniform(0.5, 2, (2, 5, 5))
    w[1:4] = 0
    y = (w * x).sum() / w.sum()
    slopes = jax.grad(lambda w: weighted_pool(x, w, (5, 5)).sum())(w)
    np.testing.assert_allclose(slopes, (x - y) / w.sum(), rtol=1e-12)


def test_mixed_derivatives_for_weights_of_any_size() -> None:
    x, w = np.array([1.0, 5.0, 2.0], np.float32), np.array([1.0, 2.0, 3.0], np.float32)

    def in_both_orders(x: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        of_x, of_w = (jax.grad(lambda x, w: weighted_pool(x, w, (3,)).sum(), number) for number in (0, 1))
        return tuple(jac(of_x, 1)(x, w) for jac in (jax.jacfwd, jax.jacrev)) + tuple(
            jac(of_w, 0)(x, w).T for jac in (jax.jacfwd, jax.jacrev)
        )

    derivatives = compiled_fast(in_both_orders)
    # ∂²y/∂x(i)∂w(j) is 1/Σ w if i = j, less w(i)/(Σ w)².
    expected = np.eye(3) / w.sum() - w[:, None] / w.sum() ** 2
    for scale in (1.0, 2.0**-80, 2.0**80):
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


def test_what_has_no_weight_adds_nothing() -> None:
    x = np.array([np.nan, 1.0, np.inf, 3.0, np.nan, np.inf])
    w = np.array([0.0, 2.0, 0.0, 1.0, 0.0, 0.0])

    @compiled_fast
    def pools(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        slopes = jax.grad(lambda x: weighted_pool(x, w, (2,)).sum())(x)
        return weighted_pool(x, w, (2,)), attention_pool(x, jnp.log(w), (2,)), slopes

    weighted, attentive, slopes = pools(x, w)
    np.testing.assert_allclose(weighted, [1, 3, 0])
    np.testing.assert_allclose(attentive, [1, 3, 0])
    np.testing.assert_allclose(slopes, [0, 1, 0, 1, 0, 0])


@pytest.mark.parametrize("kernel", [3, 5, 70])
@pytest.mark.parametrize(("pool", "absent"), [(weighted_pool, 0.0), (attention_pool, -np.inf)])
def test_a_weight_that_is_nan_stays_in_its_windows(pool: Any, absent: float, kernel: int) -> None:
    """Other windows, and what they send back to cells that they share, are those without the cell."""
    axis, shape = (0, (180,)) if kernel == 70 else ((0, 1), (12, 13))
    x, w = distinct(shape, "cells", 3.0), weights(*shape)
    here = np.arange(x.size).reshape(shape) == x.size // 2
    unknown, without = (np.where(here, other, w) for other in (np.nan, absent))

    @compiled_fast
    def pools(x: jax.Array, w: jax.Array, kept: jax.Array) -> Any:
        def total(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
            values = pool(x, w, kernel, 2, axis=axis)
            return jnp.where(kept, values, 0).sum(), values

        return jax.grad(total, (0, 1), has_aux=True)(x, w)

    kept = ~np.isnan(np.asarray(pool(x, unknown, kernel, 2, axis=axis)))
    assert 0 < kept.sum() < kept.size
    (slopes, values), (expected, others) = (pools(x, given, kept) for given in (unknown, without))
    np.testing.assert_allclose(values[kept], others[kept], rtol=1e-12)
    for found, wanted in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(found[~here], wanted[~here], atol=1e-12)


@pytest.mark.parametrize("pool", [weighted_pool, attention_pool])
def test_windows_of_a_weight_that_is_nan_pass_nothing(pool: Any) -> None:
    x, w = np.array([1.0, 2.0, 3.0, 4.0], np.float32), np.array([np.nan, 1e38, np.nan, 1e-30], np.float32)
    slopes = compiled_fast(jax.grad(lambda x, w: pool(x, w, (2,)).sum(), (0, 1)))(x, w)
    np.testing.assert_array_equal(slopes, np.zeros((2, 4)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(("shape", "kernel", "stride"), [((6, 7), 3, 1), ((8, 9), 5, 2), ((200,), 70, 7)])
@pytest.mark.parametrize("pool", [weighted_pool, attention_pool])
def test_values_that_are_not_finite_pass_nothing_to_weights(
    pool: Any, shape: tuple[int, ...], kernel: int, stride: int, bad: float
) -> None:
    """At once, over one axis after the other, and in pieces; what x gets does not depend on the cells."""
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
        (
            TypeError,
            rf"{name} is complex64, .* not supported; pool {name}.real",
            {name: np.ones(8, np.complex64)},
        ),
        (ValueError, rf"{name} of shape \(5,\) does not broadcast to x \(2, 8, 8\); give one", {name: zeros(5)}),
        (ValueError, r"window 0 along axis 1 holds only padding .*; use less padding", {"padding": 2}),
    ]
    for row in rows:
        check_wrong_call(function, *row)
