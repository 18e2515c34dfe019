"""Pools between the mean and the maximum: limits, identities, and a β that is learnt through 0."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool import (
    avg_pool,
    gem_pool,
    global_gem_pool,
    lp_pool,
    max_pool,
    mellowmax_pool,
    min_pool,
    mixed_pool,
    smooth_max_pool,
    soft_pool,
)
from tests.harness.checks import ROUNDING_OF_QUOTIENTS, check_gradient_and_hessian, check_third_order, cubed
from tests.harness.compilation import compiled_fast
from tests.reference import oracle
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

WINDOW: dict[str, Any] = {"kernel_size": (3, 2), "stride": (1, 2), "padding": ((1, 0), (0, 1)), "ceil_mode": True}
X = distinct((2, 4, 5), "means")


def test_limits() -> None:
    positive = np.abs(X) + 0.25

    def everything(x: jax.Array, positive: jax.Array) -> dict[str, tuple[Any, Any]]:
        outside = {**WINDOW, "count_include_pad": False}
        return {
            "power mean, p = 1": (gem_pool(positive, 1, **WINDOW), avg_pool(positive, **WINDOW)),
            "power mean, p = inf": (gem_pool(x, math.inf, **outside), max_pool(jnp.abs(x), **WINDOW)),
            "power mean, large p": (gem_pool(positive, 4000.0, **WINDOW), max_pool(positive, **WINDOW)),
            "mellowmax, 0": (mellowmax_pool(x, 0, **WINDOW), avg_pool(x, **WINDOW)),
            "mellowmax, large": (mellowmax_pool(x, 4000.0, **outside), max_pool(x, **WINDOW)),
            "mellowmax, low": (mellowmax_pool(x, -4000.0, **outside), min_pool(x, **WINDOW)),
            "soft, 0": (soft_pool(x, 0, **outside), avg_pool(x, **outside)),
            "soft, large": (soft_pool(x, 4000.0, **outside), max_pool(x, **WINDOW)),
            "soft, low": (soft_pool(x, -4000.0, **outside), min_pool(x, **WINDOW)),
            "mixed, 0": (mixed_pool(x, 0, **WINDOW), avg_pool(x, **WINDOW)),
            "mixed, 1": (mixed_pool(x, 1, **WINDOW), max_pool(x, **WINDOW)),
        }

    for name, (found, limit) in compiled_fast(everything)(X, positive).items():
        np.testing.assert_allclose(found, limit, rtol=1e-3, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("beta", [2.0, -0.7, 1e-3, -40.0])
def test_mellowmax_is_the_smooth_maximum_less_a_constant(beta: float) -> None:
    counts = 6 * avg_pool(np.ones_like(X), (3, 2), stride=(2, 2))
    found = mellowmax_pool(X, beta, (3, 2), stride=(2, 2))
    expected = smooth_max_pool(X, beta, (3, 2), stride=(2, 2)) - np.log(counts) / beta
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_power_mean_is_the_norm_over_a_root() -> None:
    root = np.float64(6) ** (1 / 2.5)
    np.testing.assert_allclose(gem_pool(X, 2.5, (3, 2)), lp_pool(X, 2.5, (3, 2)) / root, rtol=1e-12)


# The quotients that define these pools have limits at 0, and β is learnt through it.
@pytest.mark.parametrize(
    "rules", [pytest.param(("jvp",), id="jvp"), pytest.param(("jvp", "vjp"), id="both", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("pool", [mellowmax_pool, pytest.param(soft_pool, marks=pytest.mark.slow)])
def test_learnt_sharpness_at_zero(pool: Any, rules: tuple[str, ...]) -> None:
    x, beta = distinct((2, 3), "at zero", 2.0), np.array([[0.0], [0.3]])
    mask = np.array([[True, True, False], [True, True, True]])
    objectives = {
        rule: cubed(lambda x, beta, rule=rule: pool(x, beta, (3,), stride=1, where=mask, rule=rule)) for rule in rules
    }
    check_gradient_and_hessian(objectives, x, beta)
    check_third_order(objectives, x, beta)


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_infinite_means_have_no_derivative(rule: Any) -> None:
    x = np.array([-np.inf, 2.0, 1.0, 3.0])

    def pool(x: jax.Array, beta: float | jax.Array) -> jax.Array:
        return mellowmax_pool(x, beta, (2,), rule=rule)

    by_cell, by_beta = jax.jacrev(pool, (0, 1))(x, 0.0)
    for found in (by_cell, jax.jacrev(partial(pool, beta=0))(x)):
        np.testing.assert_array_equal(found, [[0, 0, 0, 0], [0, 0, 0.5, 0.5]])
    np.testing.assert_allclose(by_beta, [0, 0.5])


def test_curvature_of_mellowmax_far_from_zero() -> None:
    # With the softmax w of β·x, M = Σ w·x and the value m: ∂²m/∂x∂β = w·(x - M) and ∂²m/∂β² = (V - 2·(M - m)/β)/β with
    # V = Σ w·(x - M)². All β·(x - m) are beyond 1 in magnitude, and of both signs.
    x, beta = np.array([0.0, 1.0, 4.0]), 2.0
    w = np.exp(beta * x) / np.exp(beta * x).sum()
    m, mean = np.log(np.exp(beta * x).mean()) / beta, w @ x
    assert (np.abs(beta * (x - m)) > 1).all()
    slope = jax.grad(lambda x, beta: mellowmax_pool(x, beta, (3,))[0], 1)
    by_cells, by_beta = compiled_fast(jax.jacrev(slope, (0, 1)))(x, np.full(1, beta))
    np.testing.assert_allclose(by_cells[0], w * (x - mean), rtol=1e-12)
    np.testing.assert_allclose(by_beta, (w @ (x - mean) ** 2 - 2 * (mean - m) / beta) / beta, rtol=1e-12)


def test_slopes_of_mellowmax_do_not_cancel() -> None:
    x = jnp.array([0.0, 1.0, 3.0], jnp.float32)
    slopes = jax.vmap(jax.grad(lambda beta: mellowmax_pool(x, beta[None], (3,))[0]))(jnp.array([0, 1e-6, 1e-3, -1e-4]))
    np.testing.assert_allclose(slopes, np.var([0.0, 1.0, 3.0]) / 2, rtol=2e-3)


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_learnt_shares(rule: Any) -> None:
    x, alpha = jnp.array([[1.0, 2.0, 6.0], [4.0, 4.0, 1.0]]), jnp.array([[0.25], [1.0]])
    slopes = jax.grad(lambda x, alpha: mixed_pool(x, alpha, (3,), rule=rule).sum(), (0, 1))(x, alpha)
    np.testing.assert_allclose(slopes[0], [[0.25, 0.25, 0.5], [1, 0, 0]])
    np.testing.assert_allclose(slopes[1], [[3.0], [1.0]])


def test_retrieval_descriptor() -> None:
    # As published: mean over the plane of max(x, ε)^p, to the power of 1/p.
    x, p = np.asarray(X)[..., None], np.array([1.0, 3.0, 6.5])
    expected = np.mean(np.maximum(x, 1e-6) ** p, (1, 2)) ** (1 / p)
    tiled = jnp.broadcast_to(x, (*X.shape, 3))
    np.testing.assert_allclose(global_gem_pool(tiled, p, axis=(1, 2), keepdims=False), expected, rtol=1e-6)
    gradient = jax.grad(lambda x: global_gem_pool(x, 3.0, axis=(0, 1, 2)).sum())(jnp.asarray(X))
    assert ((np.asarray(gradient) > 0) == (X > 1e-6)).all()
    assert partial(global_gem_pool, axis=-1, eps=None)(jnp.array([-3.0, 0.0]), 1).tolist() == [1.5]


def test_infinite_cells() -> None:
    x = jnp.array([[-jnp.inf, 0.0, 1.0], [jnp.inf, 0.0, 1.0], [-jnp.inf, -jnp.inf, -jnp.inf], [jnp.inf, 0.0, -jnp.inf]])
    for beta, sign in ((2.0, 1), (-2.0, -1)):
        for pool in (mellowmax_pool, soft_pool):
            values, pull_back = jax.vjp(lambda x, pool=pool, beta=beta: pool(x, beta, (3,)), sign * x)
            assert np.isfinite(values[0])
            assert (sign * values[1:]).ravel().tolist() == [math.inf, -math.inf, math.inf]
            (gradient,) = pull_back(jnp.ones_like(values))
            assert gradient[0, 0] == 0
            assert gradient[0, 2] != 0
            assert (gradient[1:] == 0).all()
    means = mellowmax_pool(x, 0, (3,)).ravel().tolist()
    assert means[:3] == [-math.inf, math.inf, -math.inf]
    assert math.isnan(means[3])


def test_means_under_large_products() -> None:
    # One unit in the last place of the mellowmax times 1000 would be seen.
    x = jnp.array([1000.0, 1000.9, 1000.3, 1000.7], jnp.float32)
    for beta, expected in ((1.0, 1000.5904), (10.0, 1000.8748), (100.0, 1000.9)):
        value, slopes = jax.value_and_grad(lambda x, beta=beta: soft_pool(x, beta, (4,))[0])(x)
        np.testing.assert_allclose(value, expected, rtol=2e-7)
        np.testing.assert_allclose(slopes.sum(), 1, atol=2e-3)


@pytest.mark.parametrize("low", [-1e19, -1e25, np.finfo(np.float32).min])
def test_cells_far_below(low: float) -> None:
    # The fill of masked cells in other pools: such a cell counts, and has no weight.
    x = jnp.array([1.0, 2.0, 0.5, low], jnp.float32)
    for pool, value, slope in ((mellowmax_pool, 1.0781, 0.4803), (soft_pool, 1.558, 0.352)):
        found = jax.value_and_grad(lambda beta, pool=pool: pool(x, beta, (4,))[0])(jnp.ones(1, jnp.float32))
        np.testing.assert_allclose(found[0], value, rtol=1e-3)
        np.testing.assert_allclose(found[1], slope, rtol=1e-3)


def test_many_cells_far_below() -> None:
    x = jnp.full(200, -10.5, jnp.float32).at[0].set(0)
    expected = np.log(np.exp(3 * np.asarray(x, np.float64)).mean()) / 3
    np.testing.assert_allclose(mellowmax_pool(x, 3.0, (200,))[0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        ("gem_pool", {"norm_type": 3.0}),
        ("mellowmax_pool", {"beta": np.array([[2.0], [-0.5]])}),
        ("soft_pool", {"beta": -1.5}),
        ("soft_pool", {"beta": np.array([1.5, -2.0])}),
    ],
)
def test_large_windows_that_tile(function: str, options: dict[str, Any]) -> None:
    # All of their cells are evaluated together: here with padding, masked cells, and a last window that is cut short.
    window = {"kernel_size": (70,), "padding": 3, "ceil_mode": True, "axis": 1}
    x, where = distinct((2, 130), function), np.random.default_rng(0).random(130) < 0.7
    expected = oracle.evaluate(function, x, **window, **options, where=where)
    cotangent = np.random.default_rng(1).normal(size=expected.values.shape)

    @compiled_fast
    def everything(x: jax.Array) -> Any:
        values, pull_back = jax.vjp(lambda x: getattr(jaxpool, function)(x, **window, **options, where=where), x)
        return values, pull_back(cotangent)[0]

    values, gradient = everything(x)
    np.testing.assert_allclose(values, expected.values, rtol=1e-11)
    np.testing.assert_allclose(gradient, expected.backward(cotangent), rtol=1e-9, atol=1e-13)


def test_power_means_are_exact_and_dead_where_norms_are() -> None:
    np.testing.assert_allclose(gem_pool(jnp.full(7, 3.0, jnp.float32), 1, (7,)), [3.0], rtol=ROUNDING_OF_QUOTIENTS)
    assert jax.grad(lambda p: gem_pool(jnp.zeros(196), p, (196,)).sum())(jnp.array([0.05])).tolist() == [0.0]


def test_means_near_the_largest_number() -> None:
    x = jnp.full(2, 3e38, jnp.float32)
    for pool in (mellowmax_pool, soft_pool):
        value, slopes = jax.value_and_grad(lambda x, pool=pool: pool(x, 1.0, (2,))[0])(x)
        assert value == x[0]
        assert slopes.tolist() == [0.5, 0.5]
    # So far apart that the square of their distance overflows.
    apart = jnp.array([0.0, 1e20], jnp.float32)
    for beta, mean in ((1e-17, 1e20), (0.0, 5e19), (-1.0, 0.0)):
        np.testing.assert_allclose(soft_pool(apart, beta, (2,)), [mean], rtol=1e-6)


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_exponents_of_generalised_means_are_learnt(rule: Any) -> None:
    optax = pytest.importorskip("optax")
    known = np.array([1.5, 3.0, 6.0])
    images = np.random.default_rng(0).uniform(0.05, 1.0, (32, 3, 4, 4))
    targets = np.mean(images ** known.reshape(3, 1, 1), (2, 3)) ** (1 / known)
    optimiser = optax.adam(0.3)

    def loss(p: jax.Array) -> jax.Array:
        norms = lp_pool(images, p.reshape(3, 1, 1), (4, 4), rule=rule)[..., 0, 0]
        return ((norms * 16 ** (-1 / p[None]) - targets) ** 2).sum()

    def step(carry: Any, _: None) -> tuple[Any, None]:
        p, state = carry
        updates, state = optimiser.update(jax.grad(loss)(p), state, p)
        return (optax.apply_updates(p, updates), state), None

    # Optax itself promotes.
    with jax.numpy_dtype_promotion("standard"):
        (learnt, _), _ = jax.jit(lambda p: jax.lax.scan(step, (p, optimiser.init(p)), None, 80))(jnp.full(3, 2.0))
    np.testing.assert_allclose(learnt, known, rtol=0.02)


def test_the_mean_of_infinities_of_either_sign_is_nan() -> None:
    x = np.zeros((5, 5))
    x[0, 0], x[4, 4] = np.inf, -np.inf
    assert np.isnan(jaxpool.mellowmax_pool(x, 0.0, (5, 5))).all()
