"""Smooth maxima, mellowmax, soft means and mixtures: limits, a β learnt through 0, digits, and cells without weight."""

import itertools
import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool import max_pool, mellowmax_pool, min_pool, smooth_max_pool, soft_pool
from tests.harness.checks import check_gradient_and_hessian, cubed
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.reference import oracle
from tests.registry.calls import Call, check
from tests.registry.cases import distinct
from tests.registry.records import slow_but

pytestmark = pytest.mark.usefixtures("for_this_platform")

POOLS: dict[str, Any] = {"smooth": smooth_max_pool, "mellowmax": mellowmax_pool, "soft": soft_pool}
each_pool = pytest.mark.parametrize("name", POOLS)
some_pools = pytest.mark.parametrize("name", ["smooth", pytest.param("mellowmax", marks=pytest.mark.slow), "soft"])


# The quotients that define these pools have limits at 0, and β is learnt through it.
@pytest.mark.parametrize("rules", [("jvp",), pytest.param(("jvp", "vjp"), marks=pytest.mark.slow)], ids="-".join)
@pytest.mark.parametrize("pool", [mellowmax_pool, pytest.param(soft_pool, marks=pytest.mark.slow)])
def test_learnt_sharpness_at_zero(pool: Any, rules: tuple[str, ...]) -> None:
    x, beta = distinct((2, 3), "at zero", 2.0), np.array([[0.0], [0.3]])
    mask = np.array([[True, True, False], [True, True, True]])
    objectives = {
        rule: cubed(lambda x, beta, rule=rule: pool(x, beta, (3,), stride=1, where=mask, rule=rule)) for rule in rules
    }
    check_gradient_and_hessian(objectives, x, beta)
    if len(rules) > 1:
        directions = distinct(x.shape, "direction"), np.array([[1.0], [-2.0]])

        def slope(x: jax.Array, beta: jax.Array, rule: str) -> jax.Array:
            slopes = jax.grad(objectives[rule], (0, 1))(x, beta)
            return sum(map(jnp.vdot, slopes, directions), start=jnp.zeros(()))

        check_gradient_and_hessian({rule: partial(slope, rule=rule) for rule in rules}, x, beta)


def test_slopes_of_mellowmax_near_zero_do_not_cancel() -> None:
    x = jnp.array([0.0, 1.0, 3.0], jnp.float32)
    slopes = jax.vmap(jax.grad(lambda beta: mellowmax_pool(x, beta[None], (3,))[0]))(jnp.array([0, 1e-6, 1e-3, -1e-4]))
    np.testing.assert_allclose(slopes, np.var([0.0, 1.0, 3.0]) / 2, rtol=2e-3)


@each_pool
def test_float32_is_near_float64_on_both_sides_of_moderate_products(name: str) -> None:
    window: dict[str, Any] = {"beta": 1.0, "kernel_size": (3, 3), "stride": 1, "axis": (1, 2)}
    pool = partial(POOLS[name], **window)
    everything = compiled_as_usual(lambda x: (pool(x), jax.grad(lambda x: pool(x).sum())(x)))
    random = np.random.default_rng(1).uniform(-1, 1, (2, 8, 8, 3))
    for exponent in (1e-5, 1e-3, 0.1, 7.9, 8.1, 63.0, 65.0, 1e4):
        x = (random * exponent / np.abs(random).max()).astype(np.float32)
        values, gradient = everything(x)
        exact = oracle.evaluate(POOLS[name].__name__, x, **window)
        # Of small cells the mean of exp(β·x) rounds to 1 plus a few bits, but not the mellowmax.
        size = exponent if name == "mellowmax" else max(exponent, 1)
        np.testing.assert_allclose(values, exact.values, rtol=0, atol=5e-7 * size)
        np.testing.assert_allclose(gradient, exact.backward(np.ones_like(exact.values)), rtol=0, atol=2e-5)


def test_windows_of_one_cell_are_that_cell() -> None:
    # Windows in the corners hold a single cell, whose exponential is 1 and a few bits.
    x = np.random.default_rng(1).uniform(-1, 1, (2, 4, 4)).astype(np.float32)
    corners = partial(smooth_max_pool, kernel_size=(2, 2), padding=1, count_include_pad=False)
    np.testing.assert_array_equal(compiled_fast(partial(corners, beta=1e-3))(x)[:, ::2, ::2], x[:, ::3, ::3])
    for rule in ("jvp", "vjp"):
        x, beta = distinct((4, 3), "ones"), np.array([[1e-3], [-1.0], [-30.0], [1e3]])
        values, pull_back = jax.vjp(partial(smooth_max_pool, kernel_size=(1,), rule=rule), x, beta)
        for found, expected in zip((values, *pull_back(x)), (x, x, 0 * beta), strict=True):
            np.testing.assert_array_equal(found, expected)


@some_pools
@pytest.mark.parametrize("cells", [4, 16])
def test_single_cells_under_a_mask_keep_their_digits(name: str, cells: int) -> None:
    x = np.random.default_rng(2).normal(size=(2, 64)).astype(np.float32) * np.float32(1e-3)
    mask = np.arange(64) % cells == (np.arange(64) // 4 % 4 if cells == 4 else 5)
    values = compiled_as_usual(lambda x: POOLS[name](x, beta=1.5, kernel_size=(cells,), where=mask))(x)
    np.testing.assert_allclose(values, x[:, mask], rtol=3e-7)


@pytest.mark.parametrize("name", slow_but(["smooth"], POOLS))
@pytest.mark.parametrize("platform", ["cpu", pytest.param("tpu", marks=pytest.mark.slow)])
def test_a_large_cell_or_nan_changes_no_other_item(name: str, platform: str) -> None:
    x = np.random.default_rng(2).normal(size=(4, 7, 7, 2)).astype(np.float32)
    pool = partial(POOLS[name], beta=-1.7, kernel_size=(3, 3), stride=1, axis=(-3, -2))
    with jaxpool.compiling_for(platform):
        gradient = compiled_as_usual(jax.grad(lambda x: jnp.where(jnp.isnan(pool(x)), 0, pool(x)).sum()))
        batched = compiled_as_usual(jax.vmap(jax.grad(lambda x: pool(x).sum())))
        clean = gradient(x)
        for number in (1e30, np.nan, np.inf, -np.inf):
            spoilt = x.copy()
            spoilt[1, 3, 3, 0] = number
            assert np.isnan(pool(spoilt)).any() == np.isnan(number)
            for found in (gradient(spoilt), batched(spoilt)):
                np.testing.assert_allclose(found[::2], clean[::2], rtol=1e-5, atol=1e-6)


@each_pool
def test_cells_in_no_window_have_no_derivative(name: str) -> None:
    # Their terms are in no sum that could show how large they are.
    x = np.random.default_rng(7).normal(size=(2, 7)).astype(np.float32)
    x[:, 2::3] = [[np.inf, np.nan], [-np.inf, 1e30]]
    gradient = compiled_fast(jax.grad(lambda x: POOLS[name](x, -1.7, (2,), 3).sum()))(x)
    np.testing.assert_array_equal(gradient[:, 2::3], 0)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("name", ["smooth", *(pytest.param(one, marks=pytest.mark.slow) for one in ("soft", "norm"))])
def test_parts_of_large_arrays_are_pooled_alike(name: str) -> None:
    """Of an array that is pooled in parts, one item with a cell so large that it is pooled in another way."""
    x = np.random.default_rng(0).normal(size=(6, 48, 32, 4)).astype(np.float32)
    x[4, 3, 5, 2] = 1e20
    pool = partial(jaxpool.lp_pool, norm_type=3.0) if name == "norm" else partial(POOLS[name], beta=-1.7)

    @compiled_as_usual
    def value_and_gradient(x: Any) -> Any:
        def total(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            values = pool(x, kernel_size=(3, 3), stride=1, axis=(1, 2))
            return jnp.tanh(values).sum(), values

        return jax.value_and_grad(total, has_aux=True)(x)

    (_, values), gradient = value_and_gradient(x)
    for number in range(len(x)):
        (_, expected), slopes = value_and_gradient(x[number : number + 1])
        np.testing.assert_allclose(values[number], expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(gradient[number], slopes[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "size"), slow_but([("mellowmax", 8), ("soft", 3)], itertools.product(("mellowmax", "soft"), (3, 8)))
)
def test_slopes_of_a_learnt_number_far_from_zero_keep_their_digits(name: str, size: int) -> None:
    # Differences of sums would lose the square of 100, and of exponentials that of β.
    x = (100 + np.random.default_rng(1).uniform(-1, 1, (2, 8, 8, 3))).astype(np.float32)
    x[0, 0, 0, 0] = -np.inf if name == "mellowmax" else -1e30
    slopes = compiled_fast(jax.jacfwd(lambda beta, x: POOLS[name](x, beta, (size, size), 1, axis=(1, 2))))
    for beta in (1e-5, -1e-3, 0.1):
        x = np.where(np.abs(x) > 1e3, np.copysign(x, -beta), x)
        found, exact = slopes(np.float32(beta), x), slopes(float(np.float32(beta)), x.astype(np.float64))
        np.testing.assert_allclose(found, exact, rtol=2e-5)
        assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("name", "dtype", "platform"),
    slow_but(
        [("mellowmax", "bfloat16", "cpu"), ("soft", "bfloat16", "tpu"), ("soft", "float16", "cpu")],
        itertools.product(("mellowmax", "soft"), ("bfloat16", "float16"), ("cpu", "tpu")),
    ),
)
def test_slopes_of_a_learnt_number_are_from_values_before_they_are_rounded(
    name: str, dtype: str, platform: str
) -> None:
    # A step of bfloat16 is as large as the differences of these cells.
    x = jnp.array([100.0, 100.5, 100.0, 101.0, 100.5], dtype)
    with jaxpool.compiling_for(platform):
        slope = compiled_fast(jax.grad(lambda beta, x: POOLS[name](x, beta, (2,), 1).astype(beta.dtype).sum()))
        found, exact = slope(np.float32(0.1), x), slope(0.1, x.astype(np.float64))
    np.testing.assert_allclose(found, exact, rtol=1e-3)


@pytest.mark.parametrize("name", slow_but(["soft"], POOLS))
def test_slopes_beside_infinite_cells_without_weight(name: str) -> None:
    for beta in (0.5, -0.5):
        infinite = math.copysign(np.inf, -beta)
        x = np.array([1.0, 2.0, infinite, 0.5, -3.0, 1.0])

        def values(beta: Any, x: np.ndarray = x) -> jax.Array:
            return POOLS[name](x, beta, (2,))

        found, exact = (jax.jacfwd(values)(beta, x.astype(dtype)) for dtype in (np.float32, np.float64))
        np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-6)
        # An array with a number for every window.
        np.testing.assert_allclose(exact, jax.jacfwd(values)(np.full(3, beta)).diagonal(), rtol=1e-12, atol=1e-12)
        step = 1e-5
        difference = (values(beta + step) - values(beta - step)) / (2 * step)
        np.testing.assert_allclose(exact, difference, rtol=1e-7, atol=1e-9)


SHARP = [(1e6, 1.0), (-1e6, 1.0), (1e3, 1e3), (-1.0, 1e6)]
# Weights are accurate to |β·y| units in the last place of y. If cells are far apart, one of them has all the weight.
FAR, NEAR = False, True
ACCURACY = [(np.float32, FAR, 1e-5), (np.float32, NEAR, 0.12), (np.float64, FAR, 2e-9), (np.float64, NEAR, 2e-9)]


@pytest.mark.parametrize(("dtype", "close", "rtol"), slow_but(ACCURACY[:2], ACCURACY))
def test_sharp_maxima(dtype: type, close: bool, rtol: float) -> None:
    beta, scale = (np.array(one).reshape(4, 1) for one in zip(*SHARP, strict=True))
    # Ties, cells one or two units of 1/β apart, and a cell that does not count; or cells far apart.
    cells = np.array([0.0, 0.0, 1.0, 3.0, -0.5 * 1e6]) / beta if close else np.array([0.3, -0.1, 0.2, -0.4, 0]) * scale
    x = (cells + scale).astype(dtype)
    exact = oracle.evaluate("smooth_max_pool", x, beta=beta, kernel_size=(3,), stride=1)
    for rule in ("jvp", "vjp"):
        pool = partial(smooth_max_pool, kernel_size=(3,), stride=1, rule=rule)
        everything = compiled_as_usual(lambda *at, pool=pool: (pool(*at), *jax.jacrev(pool, (0, 1))(*at)))
        values, by_cell, by_beta = map(np.asarray, everything(x, beta.astype(dtype)))
        np.testing.assert_allclose(values, exact.values, rtol=min(rtol, 1e-6))
        np.testing.assert_allclose(by_cell, exact.jacobian(), rtol=0, atol=rtol)
        # ∂y/∂β is the mean of the cells by their weights, less y, over β.
        slopes = beta * (exact.forward(x.astype(np.float64)) - exact.values)
        atol = rtol if close else 1e6 * np.finfo(dtype).eps
        np.testing.assert_allclose(by_beta.sum((2, 3)) * beta**2, slopes, rtol=0, atol=atol)
        if not close:
            limits = np.where(beta > 0, max_pool(x, (3,), 1), min_pool(x, (3,), 1))
            np.testing.assert_allclose(values, limits, rtol=rtol)


@each_pool
def test_weights_of_a_huge_learnt_number_add_up_to_1(name: str) -> None:
    gradient = jax.grad(lambda x, beta: POOLS[name](x, beta, (9,)).sum())
    for beta in (1e30, -1e37, 3e38):
        np.testing.assert_allclose(gradient(jnp.zeros(9), np.float32(beta)), np.full(9, 1 / 9), rtol=1e-6)


@some_pools
def test_learnt_numbers_of_batches_without_items(name: str) -> None:
    x, beta = jnp.zeros((0, 3, 6, 6)), jnp.ones((3, 1, 1))
    values, pull_back = jax.vjp(lambda x, beta: POOLS[name](x, beta, (3, 3)), x, beta)
    assert [one.shape for one in (values, *pull_back(values))] == [(0, 3, 2, 2), (0, 3, 6, 6), (3, 1, 1)]
    assert not pull_back(values)[1].any()


# Numbers and weights that are constant, and whose own derivatives overflow.
CONSTANT: dict[str, tuple[Any, list[float], list[float]]] = {
    "smooth": (smooth_max_pool, [1.0, 2.0], [1e-20]),
    "mellowmax": (mellowmax_pool, [1e20, -1e20], [1e-20]),
    "soft": (soft_pool, [1e20, -1e20], [1e-20]),
    "weighted": (jaxpool.weighted_pool, [1e10, 2e10], [1e-30, 1e-30]),
    "attention": (jaxpool.attention_pool, [3e38, -3e38], [1.0, 1.0]),
}


@pytest.mark.parametrize("platform", ["cpu", pytest.param("gpu", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CONSTANT)
def test_tangents_leave_out_slopes_of_constants(name: str, platform: str) -> None:
    pool, cells, constants = CONSTANT[name]
    number = np.asarray(constants, np.float32)
    # A window of two cells, and one that is merged from parts.
    for kernel_size in ((1, 2), (10, 2)):
        x = np.broadcast_to(np.asarray(cells, np.float32), kernel_size)
        with jaxpool.compiling_for(platform):
            tangent = jax.jvp(lambda x, k=kernel_size: pool(x, number, k), (x,), (np.ones_like(x),))[1]
        np.testing.assert_allclose(tangent, 1, rtol=1e-5)


@each_pool
def test_zeros_in_the_padding_far_above_all_cells_are_the_largest_ones(name: str) -> None:
    # The first window of 9 cells has 5 zeros, next to which the other cells have no weight.
    closed = {"smooth": np.log(5) / 2, "mellowmax": np.log(5 / 9) / 2, "soft": 0.0}
    found = POOLS[name](jnp.full((6, 6, 1), -1e4), 2.0, 3, 2, 1, axis=(0, 1))
    np.testing.assert_allclose(found[0, 0, 0], closed[name], rtol=1e-12)


@pytest.mark.parametrize("rule", ["jvp", pytest.param("vjp", marks=pytest.mark.slow)])
def test_infinite_means_have_no_derivative(rule: Any) -> None:
    pool = partial(mellowmax_pool, kernel_size=(2,), rule=rule)
    x = np.array([-np.inf, 2.0, 1.0, 3.0])
    by_cell, by_beta = jax.jacrev(pool, (0, 1))(x, 0.0)
    for found in (by_cell, jax.jacrev(partial(pool, beta=0))(x)):
        np.testing.assert_array_equal(found, [[0, 0, 0, 0], [0, 0, 0.5, 0.5]])
    np.testing.assert_allclose(by_beta, [0, 0.5])


@pytest.mark.parametrize("beta", [pytest.param(2.0, marks=pytest.mark.slow), -2.0, 0])
def test_infinite_cells(beta: float) -> None:
    for function in ("mellowmax_pool", "soft_pool") if beta else ("mellowmax_pool",):
        for cells in ("infinite", "mixed"):
            check(Call(function, (8, 6), {"beta": beta, "kernel_size": (2, 3)}, cells=cells))


@pytest.mark.parametrize("low", [-1e19, -1e25, np.finfo(np.float32).min])
def test_cells_far_below(low: float) -> None:
    # The fill of masked cells in other pools: such a cell counts, and has no weight.
    x = jnp.array([1.0, 2.0, 0.5, low], jnp.float32)
    for pool, value, slope in ((mellowmax_pool, 1.0781, 0.4803), (soft_pool, 1.558, 0.352)):
        found = jax.value_and_grad(lambda beta, pool=pool: pool(x, beta, (4,))[0])(jnp.ones(1, jnp.float32))
        np.testing.assert_allclose(found[0], value, rtol=1e-3)
        np.testing.assert_allclose(found[1], slope, rtol=1e-3)


def test_few_cells_that_matter_among_many_keep_their_digits() -> None:
    x = jnp.full(200, -10.5, jnp.float32).at[0].set(0)
    expected = np.log(np.exp(3 * np.asarray(x, np.float64)).mean()) / 3
    np.testing.assert_allclose(mellowmax_pool(x, 3.0, (200,))[0], expected, rtol=1e-6)
    # The last cell of each first window has all of the weight.
    x = np.zeros((64, 257), np.float32)
    x[:, 256] = np.linspace(8, 24, 64)
    values = compiled_fast(lambda x: mellowmax_pool(x, jnp.ones((), x.dtype), (257,), 1, ((0, 3),)))(x)[:, 0]
    np.testing.assert_allclose(values, np.log((np.exp(x[:, 256].astype(np.float64)) + 256) / 257), rtol=3e-7)


def test_means_of_cells_whose_distance_has_no_square() -> None:
    apart = jnp.array([0.0, 1e20], jnp.float32)
    for beta, mean in ((1e-17, 1e20), (0.0, 5e19), (-1.0, 0.0)):
        np.testing.assert_allclose(soft_pool(apart, beta, (2,)), [mean], rtol=1e-6)
