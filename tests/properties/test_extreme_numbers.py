"""Numbers at the ends of their dtype, and far from the others: values and derivatives are right where possible.

Expected results come from the definitions, in float64, for the same cells. Compilers rewrite arithmetic: sums of
products with the same power of two become a product with the sum, which may overflow.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._arguments import Rule
from tests.harness.compilation import compiled_fast
from tests.harness.parts import case_row
from tests.reference import oracle

RULES: tuple[Rule, ...] = ("jvp", "vjp")
LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16, np.float64])
def test_means_of_large_cells_do_not_overflow(dtype: Any, sign: int) -> None:
    x = sign * np.array([[0.875, 0.9375], [0.75, -0.75], [1.0, 1.0], [0.5, math.inf]]) * float(jnp.finfo(dtype).max)
    lower, upper = np.sort(x).T
    for q in (0.5, 0.25):
        expected = np.where(np.isinf(lower), lower, (1 - q) * lower + q * upper)
        found = jax.jit(partial(jaxpool.quantile_pool, q=q, kernel_size=(2,)))(x.astype(dtype))
        np.testing.assert_allclose(found[:, 0].astype(np.float64), expected, rtol=float(jnp.finfo(dtype).eps))


@pytest.mark.parametrize("alpha", [0.5, 0.25])
def test_blends_of_large_cells_do_not_overflow(alpha: float) -> None:
    x = np.array([[3e38, 1.0, -1.0], [-3e38, -2.0, -1e37]], np.float32)
    expected = alpha * x.max(1) + (1 - alpha) * x.astype(np.float64).mean(1)
    found = jax.jit(partial(jaxpool.mixed_pool, alpha=alpha, kernel_size=(3,)))(x)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6)


def test_blurs_of_large_cells_do_not_overflow() -> None:
    x = np.array([[3e38, 3.2e38], [-3e38, -3.2e38]], np.float32)
    for size in (2, 3):
        found = jax.jit(partial(jaxpool.blur_pool, kernel_size=(size,), stride=1, padding="EDGE"))(x)
        assert (np.abs(found) >= 3e38).all()
        assert np.isfinite(found).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_gradients_of_16_bits_are_rounded_once_for_all_levels(kind: Any, rule: Rule) -> None:
    x = np.random.default_rng(0).normal(size=(3, 12, 10)).astype(jnp.bfloat16)
    pool = partial(jaxpool.spatial_pyramid_pool, levels=((1, 1), (2, 2), (3, 4)), kind=kind, rule=rule)
    values, pull_back = jax.vjp(pool, x)
    cotangent = np.random.default_rng(1).normal(size=values.shape).astype(jnp.bfloat16)
    wide_values, wide_pull_back = jax.vjp(pool, x.astype(np.float32))
    assert values.dtype == jnp.bfloat16
    np.testing.assert_array_equal(values, wide_values.astype(jnp.bfloat16))
    (wide,) = wide_pull_back(cotangent.astype(np.float32))
    np.testing.assert_array_equal(pull_back(cotangent)[0], wide.astype(jnp.bfloat16))


# A single largest cell, ties, cells that differ only in the last place, large cells, and both ends of the dtype.
CELLS = np.array(
    [[1000, 1000.4, 1000.1], [1000.3, 1000.3, 1000.1], [1e10, 1e10, 1e10 * (1 + 2**-23)], [3e38, 3e38, 3.2e38]],
    np.float32,
)
ENDS = np.array([[-LARGEST, LARGEST, 1], [-LARGEST, LARGEST, LARGEST], [1, -3e38, -1], [0, 1e38, -3e38]], np.float32)


@pytest.mark.parametrize("rule", ["jvp", pytest.param("vjp", marks=pytest.mark.slow)])
@pytest.mark.parametrize("by_array", [False, True], ids=["number", "array"])
@pytest.mark.parametrize("function", ["soft_pool", "smooth_max_pool", "mellowmax_pool"])
def test_weights_add_up_under_every_beta(function: str, by_array: bool, rule: Rule) -> None:
    x = np.concatenate([CELLS, ENDS])
    for beta in (1e-3, 1.0, -1e3, 1e4, -1e4, 3e38):
        given = jnp.full((1, 1), beta, jnp.float32) if by_array else beta
        pool = partial(getattr(jaxpool, function), beta=given, kernel_size=(3,), rule=rule)
        values, pull_back = jax.vjp(pool, x)
        expected = oracle.evaluate(function, x, kernel_size=(3,), beta=beta)
        np.testing.assert_allclose(values, expected.values, rtol=1e-6, atol=1e-6, err_msg=f"{beta}")
        (gradient,) = pull_back(jnp.ones_like(values))
        wanted = expected.backward(np.ones(values.shape))
        np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=1e-6, err_msg=f"{beta}")


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["jvp", "vjp"])
@pytest.mark.parametrize("function", ["soft_pool", "smooth_max_pool", "mellowmax_pool"])
def test_weights_add_up_over_all_axes(function: str, rule: Rule) -> None:
    # One axis after the other: rows of one, two and three largest cells are as far apart as rounding of their values.
    x = np.full((2, 6, 6), 1000.3, np.float32)
    x[:, 1, 2] = x[:, 3, 1:4] = x[:, 5, 4] = 1000.25
    x[1] *= -1
    for beta in (1e3, 1e4, 1e6):
        expected = oracle.evaluate(function, x, kernel_size=(5, 5), stride=1, beta=beta, where=x != np.float32(1000.25))
        pool = partial(getattr(jaxpool, function), beta=beta, kernel_size=(5, 5), stride=1, rule=rule)
        gradient = jax.vjp(partial(pool, where=x != np.float32(1000.25)), x)[1](jnp.ones((2, 2, 2), jnp.float32))[0]
        np.testing.assert_allclose(gradient, expected.backward(np.ones((2, 2, 2))), rtol=1e-5, atol=1e-7)
        gradient = jax.vjp(pool, x)[1](jnp.ones((2, 2, 2), jnp.float32))[0]
        expected = oracle.evaluate(function, x, kernel_size=(5, 5), stride=1, beta=beta)
        np.testing.assert_allclose(gradient, expected.backward(np.ones((2, 2, 2))), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-15, 1e15])
def test_means_of_draws_have_derivatives_at_every_magnitude(scale: float) -> None:
    x = (np.array([[1.0, 3.0, 2.0], [2.0, -1.0, 0.0]]) * scale).astype(np.float32)
    values, pull_back = jax.vjp(partial(jaxpool.stochastic_pool, kernel_size=(3,)), x)
    expected = oracle.evaluate("stochastic_pool", x, kernel_size=(3,))
    np.testing.assert_allclose(values, expected.values, rtol=1e-6)
    np.testing.assert_allclose(pull_back(jnp.ones_like(values))[0], expected.backward(np.ones((2, 1))), atol=1e-6)


def test_infinite_power_means_pass_nothing_on() -> None:
    # With an array as exponent, or an exponent so near 0 that the power of the number of cells overflows.
    x = jnp.array([math.inf, 1.0], jnp.float32)
    by_number = jax.value_and_grad(lambda x: jaxpool.gem_pool(x, 0.005, (2,))[0])(x)
    by_array = jax.value_and_grad(lambda x, p: jaxpool.gem_pool(x, p, (2,))[0], (0, 1))(x, jnp.full(1, 2, x.dtype))
    for value, slopes in (by_number, by_array):
        assert value == math.inf
        assert all((slope == 0).all() for slope in jax.tree.leaves(slopes))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("count_include_pad", "kernel_size"), [(True, (3, 3)), (False, (3, 3)), (True, (5, 7))])
def test_power_means_of_small_exponents(
    count_include_pad: bool, kernel_size: tuple[int, int], masked: bool, rule: Rule
) -> None:
    # The power 1/p of the number of cells overflows.
    x = np.random.default_rng(0).uniform(0.5, 3, (9, 8)).astype(np.float32)
    where = np.random.default_rng(1).uniform(size=x.shape) < 0.5 if masked else None
    options: dict[str, Any] = {"stride": 2, "padding": 1, "count_include_pad": count_include_pad, "where": where}
    expected = oracle.evaluate("gem_pool", x, norm_type=0.03, kernel_size=kernel_size, **options)
    pool = partial(jaxpool.gem_pool, kernel_size=kernel_size, rule=rule, **options)
    ones = np.ones_like(expected.values)
    for p in (0.03, jnp.float32(0.03)):
        values, pull_back = jax.vjp(lambda x, p=p: pool(x, p), x)
        np.testing.assert_allclose(values, expected.values, rtol=1e-4)
        np.testing.assert_allclose(pull_back(jnp.ones_like(values))[0], expected.backward(ones), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("number", [1e-46, 1e-38, 1e39])
@pytest.mark.parametrize("function", ["lp_pool", "gem_pool", "smooth_max_pool", "mellowmax_pool", "soft_pool"])
def test_parameters_beyond_float32(function: str, number: float) -> None:
    # As for the nearest number, without a warning.
    x = jnp.array([1.0, 3.0], jnp.float32)

    def evaluated(parameter: Any) -> tuple[Any, Any]:
        values, pull_back = jax.vjp(lambda x: getattr(jaxpool, function)(x, parameter, (2,)), x)
        return values, pull_back(jnp.ones_like(values))[0]

    nearest = min(max(number, 2.0**-126), LARGEST)
    for parameter, expected in ((number, nearest), (np.array([number]), jnp.array([nearest], jnp.float32))):
        for found, one in zip(evaluated(parameter), evaluated(expected), strict=True):
            np.testing.assert_allclose(found, one, rtol=1e-6)
            assert not np.isnan(found).any()


@pytest.mark.parametrize("number", [1e-46, -1e-38, 1e39, -1e39])
def test_numbers_beyond_float32(number: float) -> None:
    x = jnp.array([1.0, 3.0], jnp.float32)
    nearest = math.copysign(min(max(abs(number), 2.0**-126), LARGEST), number)
    average, power_mean = partial(jaxpool.avg_pool, x, (2,)), partial(jaxpool.global_gem_pool, x, 2, axis=0)
    np.testing.assert_array_equal(average(divisor_override=number), average(divisor_override=nearest))
    np.testing.assert_array_equal(power_mean(eps=abs(number)), power_mean(eps=abs(nearest)))


def test_blends_of_one_part_have_no_infinities_of_the_other() -> None:
    # The average of the last window is NaN, as it holds both infinities.
    x = jnp.array([[math.inf, 1.0], [-math.inf, 1.0], [math.inf, -math.inf]])
    for alpha, expected in ((0, [math.inf, -math.inf, math.nan]), (1, [math.inf, 1, math.inf])):
        for share in (alpha, jnp.full((), alpha, x.dtype), jnp.full((3, 1), alpha, x.dtype)):
            values, pull_back = jax.vjp(lambda x, share=share: jaxpool.mixed_pool(x, share, (2,)), x)
            np.testing.assert_array_equal(values.ravel(), expected)
            slopes = [[1, 0], [0, 1], [1, 0]] if alpha else np.full((3, 2), 0.5)
            np.testing.assert_array_equal(pull_back(jnp.ones_like(values))[0], slopes)


# Windows of 2 cells with gaps between them, and overlapping ones. A number that is learnt is an array.
BESIDE_LARGE_CELLS: dict[str, Any] = {
    "norm": partial(jaxpool.lp_pool, norm_type=500.0),
    "norm, learnt": partial(jaxpool.lp_pool, norm_type=np.array(500.0)),
    "power mean": partial(jaxpool.gem_pool, norm_type=500.0),
    "smooth": partial(jaxpool.smooth_max_pool, beta=20.0),
    "smooth, negative": partial(jaxpool.smooth_max_pool, beta=np.array(-20.0)),
    "smooth, of each window": partial(jaxpool.smooth_max_pool, beta=np.full(3, 20.0)),
    "mellowmax": partial(jaxpool.mellowmax_pool, beta=20.0),
    "soft": partial(jaxpool.soft_pool, beta=np.array(20.0)),
    "shares": jaxpool.stochastic_pool,
    "variance": jaxpool.var_pool,
}


@pytest.mark.parametrize("window", [(2, 3, 0), (3, 2, 1)], ids=["apart", "overlapping"])
@pytest.mark.parametrize("name", [case_row(name, id=name, kept="," not in name) for name in BESIDE_LARGE_CELLS])
def test_second_derivatives_beside_large_cells(name: str, window: tuple[int, int, int]) -> None:
    # A cell beside a window may have an infinite weight in it, which counts for nothing.
    x = np.array([100.0, 101, 1e8, 102, 101.5, -1e8, 100, 100.5])[: 6 if window[0] == 3 else None]
    kernel, stride, padding = window
    pool = partial(BESIDE_LARGE_CELLS[name], kernel_size=(kernel,), stride=stride, padding=padding)

    def gradient(x: jax.Array) -> jax.Array:
        values, pull_back = jax.vjp(pool, x)
        return pull_back(jnp.arange(1.0, len(values) + 1))[0]

    backward, forward = compiled_fast(lambda x: (jax.jacrev(gradient)(x), jax.jacfwd(gradient)(x)))(x)
    assert np.isfinite(forward).all()
    np.testing.assert_allclose(backward, forward, rtol=1e-9, atol=1e-9)


HOMOGENEOUS: dict[str, Any] = {
    "norm": lambda x, p: jaxpool.lp_pool(x, 2.0, (3,)),
    "norm, learnt": lambda x, p: jaxpool.lp_pool(x, p, (3,)),
    "power mean": lambda x, p: jaxpool.gem_pool(x, p, (3,)),
    "shares": lambda x, p: jaxpool.stochastic_pool(x, (3,)),
}


@pytest.mark.parametrize("name", HOMOGENEOUS)
def test_second_derivatives_of_tiny_and_huge_cells(name: str) -> None:
    # They are of the order of 1/x.
    def gradient(x: jax.Array, p: jax.Array) -> Any:
        return jax.grad(lambda x, p: HOMOGENEOUS[name](x, p).sum(), (0, 1))(x, p)

    hessians = compiled_fast(lambda x, p: [jac(gradient, (0, 1))(x, p) for jac in (jax.jacfwd, jax.jacrev)])
    x, p = np.array([3.0, 4.0, 1.0], np.float32), np.float32(2.0)
    expected = hessians(x.astype(np.float64), np.float64(p))
    for scale in (2.0**48, 2.0**-48):
        # Of cells twice, of a cell and the exponent, and of the exponent twice.
        factors = ((1 / scale, 1.0), (1.0, scale))
        for found, exact in zip(hessians(x * np.float32(scale), p), expected, strict=True):
            for factor, one, other in zip(*map(jax.tree.leaves, (factors, found, exact)), strict=True):
                np.testing.assert_allclose(one / factor, other, rtol=1e-4, atol=1e-5)
