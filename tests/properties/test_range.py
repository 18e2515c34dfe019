"""Numbers of every magnitude, at the ends of their dtype, and far from the others: right where they are representable.

Expected results come from the definitions, in float64, for the same cells. Compilers rewrite arithmetic: sums of
products with the same power of two become a product with the sum, which may overflow.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_fast
from tests.reference import oracle
from tests.registry.cases import PLAIN, Case
from tests.registry.records import KINDS, row, slow_but

pytestmark = pytest.mark.usefixtures("for_this_platform")

LARGEST = float(np.finfo(np.float32).max)
INF = math.inf
# Of tiny and of huge cells: a third power has to be representable, and β·x to be at most 1e4.
SMALLER = ("lp_pool", "gem_pool", "global_gem_pool", "stochastic_pool")
# Norms whose powers are not representable and sums of squares, to the first order; sharp maxima, to the second.
OTHERS: list[tuple[str, dict[str, Any], float, int]] = [
    *(("lp_pool", {"norm_type": p}, scale, 1) for p in (0.75, 16.0) for scale in (1e-30, 1e30)),
    *(("lp_pool", {"norm_type": np.array([[2.0], [16.0]] * 2)}, scale, 1) for scale in (1e-30, 1e30)),
    *(("stochastic_pool", {}, scale, 1) for scale in (1e-15, 1e15)),
    *(("stochastic_pool", {}, scale, 2) for scale in (1e-11, 1e11)),
    *(("smooth_max_pool", {"beta": b}, 1e15, 2) for b in (1e3, -1e3)),
    ("smooth_max_pool", {"beta": 1e3, "count_include_pad": False}, 1e15, 2),
]


def magnitudes() -> list[Any]:
    """Every function with tiny and with huge cells."""
    rows = [
        row(case, scale, 2, id=f"{name}-{scale}", quick=name in KINDS and number == n % 2)
        for n, (name, case) in enumerate(PLAIN.items())
        for number, scale in enumerate((1e-10, 1e10) if name in SMALLER else (1e-15, 1e15))
    ]
    for name, options, scale, order in OTHERS:
        case = replace(PLAIN[name], parameters={**PLAIN[name].parameters, **options})
        rows.append(row(case, scale, order, id=f"{case.name}-{scale}-order {order}", quick=scale == 1e30))
    return rows


@pytest.mark.parametrize(("case", "scale", "order"), magnitudes())
def test_cells_of_every_magnitude(case: Case, scale: float, order: int) -> None:
    parameters = dict(case.parameters)
    if "beta" in parameters:
        parameters["beta"] /= scale
    x = (case.x * scale).astype(np.float32)
    expected = oracle.evaluate(case.function, x, **parameters)
    cotangent = np.cos(np.arange(expected.values.size)).reshape(expected.values.shape)
    # Along the cells themselves nothing bends; the other direction has their size.
    step = 1e-5 * scale * np.sin(np.arange(x.size)).reshape(x.shape)
    around = [oracle.evaluate(case.function, x + sign * step, **parameters).backward(cotangent) for sign in (1, -1)]

    @compiled_fast
    def everything(x: jax.Array, direction: jax.Array) -> Any:
        def gradient(x: jax.Array) -> jax.Array:
            _, pull_back = jax.vjp(lambda x: jax.tree.leaves(case.call(x, **parameters))[0], x)
            return pull_back(cotangent.astype(np.float32))[0]

        values = jax.tree.leaves(case.call(x, **parameters))[0]
        return values, *jax.jvp(gradient, (x,), (direction,))

    found = everything(x, (step * 1e5).astype(np.float32))
    wanted = expected.values, expected.backward(cotangent), (around[0] - around[1]) / 2e-5
    for one, other in list(zip(found, wanted, strict=True))[: order + 1]:
        # To 1e-5 of the largest term.
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-5 * np.abs(other).max() + 1e-30 * scale)


def test_blends_of_large_cells_do_not_overflow() -> None:
    x = np.array([[3e38, 1.0, -1.0], [-3e38, -2.0, -1e37]], np.float32)
    found = jax.jit(partial(jaxpool.mixed_pool, alpha=0.25, kernel_size=(3,)))(x)
    expected = 0.25 * x.max(1) + 0.75 * x.astype(np.float64).mean(1)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6)


def test_blends_of_one_part_have_no_infinities_of_the_other() -> None:
    # The average of the last window is NaN, as it holds both infinities.
    x = jnp.array([[INF, 1.0], [-INF, 1.0], [INF, -INF]])
    for alpha, expected in ((0, [INF, -INF, math.nan]), (1, [INF, 1, INF])):
        for share in (alpha, jnp.full((), alpha, x.dtype), jnp.full((3, 1), alpha, x.dtype)):
            values, pull_back = jax.vjp(lambda x, share=share: jaxpool.mixed_pool(x, share, (2,)), x)
            np.testing.assert_array_equal(values.ravel(), expected)
            slopes = [[1, 0], [0, 1], [1, 0]] if alpha else np.full((3, 2), 0.5)
            np.testing.assert_array_equal(pull_back(jnp.ones_like(values))[0], slopes)


# A single largest cell, ties, cells that differ only in the last place, and cells far from each other.
CELLS = np.array(
    [[1000, 1000.4, 1000.1], [1000.3, 1000.3, 1000.1], [1000, 1000, 1000 * (1 + 2**-23)], [-1000, 1000, 999]],
    np.float32,
)


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
@pytest.mark.parametrize("by_array", [False, True], ids=["number", "array"])
@pytest.mark.slow
@pytest.mark.parametrize("function", ["soft_pool", "smooth_max_pool", "mellowmax_pool"])
def test_weights_add_up_under_every_beta(function: str, by_array: bool, rule: Any) -> None:
    x = CELLS
    for beta in (1e-3, 1.0, 10.0, -10.0):
        given = jnp.full((1, 1), beta, jnp.float32) if by_array else beta
        pool = partial(getattr(jaxpool, function), beta=given, kernel_size=(3,), rule=rule)
        values, pull_back = jax.vjp(pool, x)
        expected = oracle.evaluate(function, x, kernel_size=(3,), beta=beta)
        np.testing.assert_allclose(values, expected.values, rtol=1e-6, atol=1e-6, err_msg=f"{beta}")
        (gradient,) = pull_back(jnp.ones_like(values))
        wanted = expected.backward(np.ones(values.shape))
        np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=1e-6, err_msg=f"{beta}")


def test_infinite_power_means_pass_nothing_on() -> None:
    # With an array as exponent, or an exponent so near 0 that the power of the number of cells overflows.
    x = jnp.array([INF, 1.0], jnp.float32)
    by_number = jax.value_and_grad(lambda x: jaxpool.gem_pool(x, 0.005, (2,))[0])(x)
    by_array = jax.value_and_grad(lambda x, p: jaxpool.gem_pool(x, p, (2,))[0], (0, 1))(x, jnp.full(1, 2, x.dtype))
    for value, slopes in (by_number, by_array):
        assert value == INF
        assert all((slope == 0).all() for slope in jax.tree.leaves(slopes))


@pytest.mark.parametrize(
    ("count_include_pad", "kernel_size", "masked"),
    [(True, (3, 3), False), pytest.param(False, (3, 3), True, marks=pytest.mark.slow)]
    + [pytest.param(True, (5, 7), masked, marks=pytest.mark.slow) for masked in (False, True)],
)
def test_power_means_of_small_exponents(count_include_pad: bool, kernel_size: tuple[int, int], masked: bool) -> None:
    # The power 1/p of the number of cells overflows.
    x = np.random.default_rng(0).uniform(0.5, 3, (9, 8)).astype(np.float32)
    where = np.random.default_rng(1).uniform(size=x.shape) < 0.5 if masked else None
    options: dict[str, Any] = {"stride": 2, "padding": 1, "count_include_pad": count_include_pad, "where": where}
    expected = oracle.evaluate("gem_pool", x, norm_type=0.03, kernel_size=kernel_size, **options)
    ones = np.ones_like(expected.values)
    for p, rule in ((0.03, "jvp"), (0.03, "vjp"), (jnp.float32(0.03), "jvp"), (jnp.float32(0.03), "vjp")):
        pool = partial(jaxpool.gem_pool, norm_type=p, kernel_size=kernel_size, rule=rule, **options)
        values, pull_back = jax.vjp(compiled_fast(pool), x)
        np.testing.assert_allclose(values, expected.values, rtol=1e-4)
        np.testing.assert_allclose(pull_back(jnp.ones_like(values))[0], expected.backward(ones), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("number", [1e-46, 1e39])
@pytest.mark.parametrize("function", slow_but(["lp_pool"], ("lp_pool", "gem_pool")))
def test_parameters_beyond_float32(function: str, number: float) -> None:
    # As for the nearest number, without a warning.
    x = jnp.array([1.0, 3.0], jnp.float32)

    def evaluated(parameter: Any) -> tuple[Any, Any]:
        values, pull_back = jax.vjp(lambda x: getattr(jaxpool, function)(x, parameter, (2,)), x)
        return values, pull_back(jnp.ones_like(values))[0]

    nearest = min(max(number, 2.0**-126), LARGEST)
    # A power mean has only values of such an exponent.
    last = 1 if function == "gem_pool" else 2
    for parameter, expected in ((number, nearest), (np.array([number]), jnp.array([nearest], jnp.float32))):
        for found, one in zip(evaluated(parameter)[:last], evaluated(expected)[:last], strict=True):
            np.testing.assert_allclose(found, one, rtol=1e-6)
            assert not np.isnan(found).any()


@pytest.mark.parametrize("number", [1e-46, -1e-38, 1e39, -1e39])
def test_numbers_beyond_float32(number: float) -> None:
    x = jnp.array([1.0, 3.0], jnp.float32)
    nearest = math.copysign(min(max(abs(number), 2.0**-126), LARGEST), number)
    average, power_mean = partial(jaxpool.avg_pool, x, (2,)), partial(jaxpool.global_gem_pool, x, 2, axis=0)
    np.testing.assert_array_equal(average(divisor_override=number), average(divisor_override=nearest))
    np.testing.assert_array_equal(power_mean(eps=abs(number)), power_mean(eps=abs(nearest)))


# In windows of 2 cells with gaps between them, and in overlapping ones.
BESIDE_LARGE_CELLS: dict[str, Any] = {
    "norm": partial(jaxpool.lp_pool, norm_type=500.0),
    "norm, learnt": partial(jaxpool.lp_pool, norm_type=np.array(500.0)),
    "power mean": partial(jaxpool.gem_pool, norm_type=500.0),
    "smooth": partial(jaxpool.smooth_max_pool, beta=20.0),
    "smooth, of each window": partial(jaxpool.smooth_max_pool, beta=np.full(3, -20.0)),
    "soft": partial(jaxpool.soft_pool, beta=np.array(20.0)),
    "shares": jaxpool.stochastic_pool,
    "variance": jaxpool.var_pool,
}


@pytest.mark.parametrize(
    "name", [row(name, id=name, quick=name in ("norm", "smooth", "variance")) for name in BESIDE_LARGE_CELLS]
)
def test_second_derivatives_beside_large_cells(name: str) -> None:
    # A cell beside a window may have an infinite weight in it, which counts for nothing.
    x = np.array([100.0, 101, 1e8, 102, 101.5, -1e8, 100, 100.5])
    for kernel, stride, padding, cells in ((2, 3, 0, 8), (3, 2, 1, 6)):
        pool = partial(BESIDE_LARGE_CELLS[name], kernel_size=(kernel,), stride=stride, padding=padding)

        def gradient(x: jax.Array, pool: Any = pool) -> jax.Array:
            values, pull_back = jax.vjp(pool, x)
            return pull_back(jnp.arange(1.0, len(values) + 1))[0]

        jacobians = compiled_fast(lambda x, gradient=gradient: (jax.jacrev(gradient)(x), jax.jacfwd(gradient)(x)))
        backward, forward = jacobians(x[:cells])
        assert np.isfinite(forward).all()
        np.testing.assert_allclose(backward, forward, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_tiny_cells_have_no_nan_in_higher_derivatives(p: float) -> None:
    x = jnp.array([1.0, 1e-20], jnp.float32)
    third = jax.jacfwd(jax.hessian(lambda x: jaxpool.lp_pool(x, p, (2,)).sum()))(x)
    assert jnp.isfinite(third).all()
