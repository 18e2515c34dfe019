"""Ties, padding, NaN, infinities, zeros, extreme magnitudes and small dtypes: what the definitions say at the edges.

Special inputs are side by side along a batch axis, so that one compiled program sees all of them, and none may disturb
another.
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
from tests.harness.checks import check_first_derivatives
from tests.harness.compilation import compiled_as_usual
from tests.harness.parts import case_row, crossed
from tests.reference import oracle
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

RULES: tuple[Rule, ...] = ("jvp", "vjp")
INF, NAN = math.inf, math.nan


def special_planes() -> np.ndarray:
    """Planes of 6×8 cells: ties, equal cells, few or many infinities, NaN among all of these, zeros of both signs."""
    random = np.random.default_rng(0)
    ties = random.integers(0, 3, (6, 8)).astype(np.float64)
    lowest = np.where(ties == 0, ties, -INF)
    mixed = random.choice([-INF, INF, NAN, 0.0, 1.0], (6, 8))
    constant = [np.full((6, 8), number) for number in (2.0, -INF, INF, NAN)]
    with_nan = [np.where(random.random((6, 8)) < 0.15, NAN, plane) for plane in (ties, lowest)]
    zeros = random.choice([0.0, -0.0], (6, 8))
    return np.stack([ties, *constant, lowest, -lowest, *with_nan, mixed, zeros])


LAYOUTS: dict[str, dict[str, Any]] = {
    "overlapping": {"kernel_size": (3, 3), "stride": 2, "padding": 1},
    "disjoint": {"kernel_size": (2, 4)},
    "other order": {"kernel_size": (2, 3), "stride": (1, 2), "padding": ((0, 1), (2, 0)), "axis": (2, 1)},
    "channels last": {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0), "axis": (0, 1)},
    "wide": {"kernel_size": 9, "stride": 1, "padding": 4, "axis": 2},
    "wide, first axis": {"kernel_size": (9, 2), "stride": (2, 1), "padding": (4, 0), "axis": (1, 2)},
    "dilated": {"kernel_size": (2, 3), "stride": (1, 2), "dilation": (2, 3), "padding": (1, 2)},
}


# Minima are negated maxima of the negated array, and `test_winners.py` tests indices on these planes in every layout.
@pytest.mark.parametrize(
    ("function", "layout"),
    [
        case_row(name, layout, id=f"{name}-{layout}", kept=kept or name == "max_pool")
        for name, layout, kept in crossed(
            ("max_pool", "min_pool", "max_pool_with_indices", "min_pool_with_indices"), LAYOUTS, 3
        )
    ],
)
def test_winners(function: str, layout: str) -> None:
    parameters = LAYOUTS[layout]
    x = special_planes()
    if layout == "channels last":
        x = np.moveaxis(x, 0, -1)
    expected = oracle.pool(oracle.RULES[function], x, **parameters)
    pool = partial(getattr(jaxpool, function), **parameters)
    if function.endswith("with_indices"):
        np.testing.assert_array_equal(pool(x)[1], expected.indices)
    rules = {rule: lambda x, rule=rule: jax.tree.leaves(pool(x, rule=rule))[0] for rule in RULES}
    check_first_derivatives(rules, x, expected.values, expected.jacobian())


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float32])
def test_no_gradient_is_lost_to_padding(dtype: Any) -> None:
    x = jnp.full((8, 8), -jnp.inf, dtype)
    cotangent = jnp.ones((8, 8), dtype)
    for rule in RULES:
        values, pull_back = jax.vjp(partial(jaxpool.max_pool, kernel_size=(5, 5), stride=1, padding=2, rule=rule), x)
        assert (values == -jnp.inf).all()
        assert pull_back(cotangent)[0].sum() == 64


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.bool_], ids=lambda dtype: dtype.__name__)
def test_extreme_integers_beside_padding(dtype: Any) -> None:
    lowest, highest = (False, True) if dtype is np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for number in (lowest, highest):
        x = np.full((3, 4), number, dtype)
        expected = oracle.pool(oracle.largest, x, (3, 3), 1, 1)
        values, indices = jaxpool.max_pool_with_indices(x, (3, 3), 1, 1)
        np.testing.assert_array_equal(values, x)
        np.testing.assert_array_equal(indices, expected.indices)
        np.testing.assert_array_equal(jaxpool.max_pool(x, (3, 3), 1, 1), x)
        np.testing.assert_array_equal(jaxpool.min_pool(x, (3, 3), 1, 1), x)


WEIGHTED: dict[str, dict[str, Any]] = {
    "sum_pool": {},
    "avg_pool": {"count_include_pad": False},
    "lp_pool": {"norm_type": 3.0},
    "smooth_max_pool": {"beta": 2.0},
    "smooth_max_pool negative": {"beta": -2.0, "count_include_pad": False},
    "smooth_max_pool learnt": {"beta": np.array([[1.5], [-2.0], [1.0]])},
    "lp_pool learnt": {"norm_type": np.array([[1.5], [2.0], [4.0]])},
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_nan_and_infinities_stay_in_their_windows(name: str) -> None:
    function, options = name.split()[0], WEIGHTED[name]
    x = distinct((3, 6, 8), "special")
    x[0, 1, 2] = x[0, 4, 6] = NAN
    x[1, 0, 7] = INF
    x[2, 3, 3] = x[2, 5, 0] = -INF
    x[2, 0:3, 4:8] = -INF
    parameters = {"kernel_size": (3, 3), "stride": (2, 1), "padding": 1, **options}
    expected = oracle.pool(oracle.RULES[function], x, **parameters)
    pool = partial(getattr(jaxpool, function), **parameters)

    @jax.jit
    def everything(x: jax.Array) -> Any:
        return pool(x), jax.jacfwd(pool)(x), [jax.jacrev(partial(pool, rule=rule))(x) for rule in RULES]

    values, forward, reverse = everything(x)
    np.testing.assert_allclose(values, expected.values, rtol=1e-12)
    nan_windows = np.isnan(expected.values)
    jacobian = expected.jacobian()
    # A window without NaN has exact derivatives with respect to all cells. In reverse mode a cell gets 0·NaN from a
    # window with NaN that holds it: only the other cells are determined.
    np.testing.assert_allclose(forward[~nan_windows], jacobian[~nan_windows], atol=1e-12)
    ones = oracle.pool(oracle.total, np.ones_like(x), (3, 3), (2, 1), 1)
    held = ones.backward(nan_windows.astype(np.float64)) > 0
    for backward in reverse:
        np.testing.assert_allclose(backward[:, :, :, ~held], jacobian[:, :, :, ~held], atol=1e-12)
        if name in ("sum_pool", "avg_pool"):
            np.testing.assert_allclose(backward, jacobian, atol=1e-12)


EXPONENTS = (0.5, 1.0, 1.5, 2.0, 3.0)


@pytest.mark.parametrize("rule", ["jvp", pytest.param("vjp", marks=pytest.mark.slow)])
def test_norms_of_zeros_have_no_derivative_of_any_order(rule: Rule) -> None:
    def by_number(x: jax.Array) -> jax.Array:
        return jnp.stack([jaxpool.lp_pool(x, p, (2,), rule=rule) for p in EXPONENTS])

    def by_array(x: jax.Array, p: jax.Array) -> jax.Array:
        return jaxpool.lp_pool(jnp.broadcast_to(x, (5, 4)), p, (2,), rule=rule)

    @jax.jit
    def orders(x: jax.Array, p: jax.Array) -> Any:
        joint = jnp.concatenate([x, p])

        def both(joint: jax.Array) -> jax.Array:
            return by_array(joint[:4], joint[4:].reshape(5, 1))

        found = []
        for function, at in ((by_number, x), (both, joint)):
            first = jax.jacrev(function)
            found.append((function(at), first(at), jax.jacfwd(first)(at), jax.jacfwd(jax.jacfwd(first))(at)))
        return found

    p = np.array(EXPONENTS)
    for derivatives in orders(np.zeros(4), p):
        for derivative in derivatives:
            np.testing.assert_array_equal(derivative, 0)
    # One zero cell in each window: nothing is NaN, and a Euclidean norm has the curvature 1/y there.
    for number, (values, first, second, third) in enumerate(orders(np.array([0.0, 3.0, -2.0, 0.0]), p)):
        np.testing.assert_allclose(values, np.tile([3.0, 2.0], (5, 1)), rtol=1e-14)
        for derivative in (first, second, third):
            assert np.isfinite(derivative).all(), ("number", "array")[number]
        np.testing.assert_allclose(second[3, 0, 0, 0], 1 / 3, rtol=1e-14)
        np.testing.assert_allclose(second[3, 1, 3, 3], 1 / 2, rtol=1e-14)


@pytest.mark.parametrize("scale", [1e-30, pytest.param(1.0, marks=pytest.mark.slow), 1e30])
def test_norms_neither_overflow_nor_underflow(scale: float) -> None:
    x = (distinct((3, 6), "scale") * scale).astype(np.float32)
    exponents = (0.75, 1.0, 2.0, 3.5, 8.0, 16.0)

    def pools(x: jax.Array) -> list[jax.Array]:
        array = jnp.array(exponents[3:], jnp.float32).reshape(3, 1)
        return [jaxpool.lp_pool(x, p, (4,), 1) for p in exponents] + [jaxpool.lp_pool(x, array, (4,), 1)]

    @compiled_as_usual
    def everything(x: jax.Array) -> Any:
        values, pull_back = jax.vjp(pools, x)
        zeros = [jnp.zeros_like(one) for one in values]
        alone = [[*zeros[:n], jnp.ones_like(one), *zeros[n + 1 :]] for n, one in enumerate(values)]
        return values, [pull_back(cotangents)[0] for cotangents in alone]

    for p, values, gradient in zip((*exponents, np.array(exponents[3:])[:, None]), *everything(x), strict=True):
        expected = oracle.pool(oracle.norm, x, (4,), 1, norm_type=p)
        np.testing.assert_allclose(values, expected.values, rtol=3e-6)
        np.testing.assert_allclose(gradient, expected.backward(np.ones(values.shape)), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("beta", [1e3, -1e3, 1e-3])
@pytest.mark.parametrize("include", [True, False])
def test_smooth_maximum_is_exact_for_large_products(beta: float, include: bool) -> None:
    x = (distinct((2, 12), "smooth") * 300).astype(np.float32)
    x[0, :5] = -INF
    parameters = {"kernel_size": (3,), "stride": 2, "padding": 1, "count_include_pad": include}

    def pools(x: jax.Array) -> list[jax.Array]:
        array = jnp.full((2, 1), beta, jnp.float32)
        return [jaxpool.smooth_max_pool(x, one, **parameters) for one in (beta, array)]

    values, pull_back = compiled_as_usual(partial(jax.vjp, pools))(x)
    expected = oracle.pool(oracle.smooth, x, beta=beta, **parameters)
    gradient = pull_back([jnp.ones_like(one) for one in values])[0]
    for one in values:
        np.testing.assert_allclose(one, expected.values, rtol=1e-6)
    np.testing.assert_allclose(gradient, 2 * expected.backward(np.ones(values[0].shape)), rtol=1e-3, atol=1e-6)


def test_integer_averages_do_not_wrap() -> None:
    for dtype in (np.uint8, np.int32, np.uint32):
        averages = jaxpool.avg_pool(np.full((2, 64, 64), 200, dtype), (8, 8))
        assert averages.dtype == np.float32
        np.testing.assert_array_equal(averages, 200)
    # Beyond the reach of int32 sums.
    np.testing.assert_array_equal(jaxpool.avg_pool(np.full((64,), 2**30, np.int32), (8,)), 2**30)


@pytest.mark.parametrize("cells", [7, 21, 49])
def test_averages_divide(cells: int) -> None:
    # 21/7 as a product with the rounded reciprocal of 7 is 3.0000002.
    x = np.full((4, cells * 100), 3, np.float32)
    average = partial(jaxpool.avg_pool, kernel_size=(cells,))
    for function in (average, compiled_as_usual(average)):
        np.testing.assert_array_equal(function(x), 3)
