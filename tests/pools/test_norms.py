"""Norms and power means: exponents from 0.5 to infinity, learnt ones, limits, and digits at every size of cells."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool import gem_pool, global_gem_pool, lp_pool
from tests.harness.checks import ROUNDING_OF_QUOTIENTS
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.reference import jets, oracle
from tests.reference.jets import Jet
from tests.registry.calls import Call, check
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")


def exact(function: str, x: np.ndarray, p: Any, **windows: Any) -> tuple[np.ndarray, ...]:
    """Values, and the gradients of their sum in cells and in exponents, one for each of the last axis."""
    pooled = oracle.evaluate(function, x, norm_type=p, **windows)
    ones = np.ones_like(pooled.values)
    if not np.ndim(p):
        return pooled.values, pooled.backward(ones)
    along = Jet([p, np.ones_like(p), *[np.zeros_like(p)] * 6])
    # Cells of a moderate size, as powers of others are beyond any range.
    size = np.abs(x).max()
    slopes = size * jets.evaluate(function, {"x": Jet.of(x / size), "norm_type": along}, **windows).parts[1]
    return pooled.values, pooled.backward(ones), slopes.sum(tuple(range(slopes.ndim - 1))).astype(np.float64)


SCALES = (1e-15, 1e-9, 1e-5, 1e-3, 1.0, 1e3, 1e9, 1e15)


def with_powers(p: float) -> list[float]:
    """The scales at which all powers of cells up to 3 are numbers; larger ones are of ratios."""
    return [scale for scale in SCALES if p > 3 or ((1e-6 * scale) ** p > 1e-37 and (4 * scale) ** p < 1e37)]


def cells_of_scale(scale: float) -> np.ndarray:
    x = np.random.default_rng(6).normal(size=(2, 31, 2)) * scale
    x[0, :12] = 0
    # A cell far below the others, which is all there is in its window of zeros.
    x[0, 0, 0] = 1e-6 * scale
    return x.astype(np.float32)


@pytest.mark.parametrize(
    ("function", "p", "platform"),
    [
        *(("lp_pool", 1, "cpu"), ("lp_pool", 3, "tpu"), ("lp_pool", 8, "cpu"), ("global_gem_pool", 2.5, "cpu")),
        *(pytest.param("lp_pool", p, "cpu", marks=pytest.mark.slow) for p in (1.3, 2, 2.5, 7.9)),
        *(pytest.param("global_gem_pool", p, "tpu", marks=pytest.mark.slow) for p in (1, 2, 8)),
    ],
)
def test_digits_at_every_size_of_cells(function: str, p: float, platform: str) -> None:
    whole = function == "global_gem_pool"
    windows: dict[str, Any] = (
        {"axis": 1, "eps": None} if whole else {"axis": 1, "kernel_size": 11, "stride": 4, "padding": 1}
    )
    pool = partial(getattr(jaxpool, function), norm_type=p, **windows)
    with jaxpool.compiling_for(platform):
        everything = compiled_as_usual(lambda x: (pool(x), jax.grad(lambda x: pool(x).sum())(x)))
        for scale in with_powers(p):
            x = cells_of_scale(scale)
            values, gradient = everything(x)
            wanted, slopes = exact(function, x.astype(np.float64), p, **windows)
            np.testing.assert_allclose(values / np.float32(scale), wanted / scale, rtol=1e-5)
            np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("function", "platform"),
    [("lp_pool", "cpu"), *(pytest.param("gem_pool", one, marks=pytest.mark.slow) for one in ("cpu", "tpu"))],
)
def test_digits_of_learnt_exponents_at_every_size_of_cells(function: str, platform: str) -> None:
    windows: dict[str, Any] = {"axis": 1, "kernel_size": 11, "stride": 4, "padding": 1}

    def everything(x: jax.Array, p: jax.Array) -> Any:
        values, pull_back = jax.vjp(lambda x, p: getattr(jaxpool, function)(x, p, **windows), x, p)
        return values, *pull_back(jnp.ones_like(values))

    with jaxpool.compiling_for(platform):
        compiled = compiled_as_usual(everything)
        for p in (0.9, 1.0, 7.9, 8.1, 40.0):
            for scale in SCALES if p in (1.0, 8.1) else SCALES[::2]:
                x, exponents = cells_of_scale(scale), np.array([p, 2], np.float32)
                wanted = exact(function, x.astype(np.float64), exponents.astype(np.float64), **windows)
                for one, other, size in zip(compiled(x, exponents), wanted, (scale, 1, scale), strict=True):
                    np.testing.assert_allclose(one / np.float32(size), other / size, rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize(("scales", "p"), [((1e-15, 1e15), [1.0, 1.5, 2.5]), ((1.0, 1e12), [3.0])])
def test_tiny_beside_huge_cells(scales: tuple[float, float], p: list[float]) -> None:
    x = (distinct((6, len(p)), "scale") * np.resize(scales, (6, 1))).astype(np.float32)
    windows: dict[str, Any] = {"kernel_size": 3, "stride": 1, "axis": 0}
    wanted = exact("lp_pool", x.astype(np.float64), np.array(p), **windows)
    sizes = np.float32(1), wanted[0].max(0).astype(np.float32)
    values, pull_back = jax.vjp(compiled_as_usual(partial(lp_pool, **windows)), x, np.array(p, np.float32))
    np.testing.assert_allclose(values, wanted[0], rtol=1e-6)
    for found, expected, size in zip(pull_back(jnp.ones_like(values)), wanted[1:], sizes, strict=True):
        np.testing.assert_allclose(found / size, expected / size, rtol=1e-4, atol=4e-6)


@pytest.mark.parametrize("p", [1.99, 7.9])
def test_powers_far_from_1_keep_their_digits(p: float) -> None:
    # exp(p·log(x)) has an error of as many units in the last place as its logarithm, which the root divides by p.
    random = np.random.default_rng(7).uniform(0.5, 1, (4, 64))
    norms = compiled_as_usual(lambda x: lp_pool(x, p, (3,), 1))
    for size in (2.0**-76, 2.0**-40, 2.0**40, 2.0**76):
        x = (random * size ** (1 / p)).astype(np.float32)
        np.testing.assert_allclose(norms(x), norms(x.astype(np.float64)), rtol=5e-6)


def test_cells_far_below_those_of_other_windows_keep_their_derivatives() -> None:
    """Their powers vanish beside those of the largest cells, but not the powers in their derivatives."""
    tiny = np.array([[1e-14, -1e-15, 1e-3, 0.5], [1e-9, 0, -1e-12, 0], [1e-15, 1e15, -1e-14, 1]])
    apart = np.array([[1e6, 1e-8, -2e-8, 3e-8, -1e6, 0]])

    @compiled_as_usual
    def derivatives(tiny: jax.Array, apart: jax.Array, p: jax.Array) -> Any:
        _, slopes = jax.jvp(lambda x: lp_pool(x, p, (3,), 1), (tiny,), (jnp.sign(tiny),))
        values, of_exponents = jax.jvp(lambda p: lp_pool(apart, p, (2,)), (p,), (jnp.ones_like(p),))
        gradients = [jax.grad(lambda x, k=k: lp_pool(x, p, (k,), 1).sum())(x) for x, k in ((tiny, 3), (apart, 2))]
        return slopes, of_exponents / values, gradients

    for p in (1.0, 1.01, 1.1, 3.0):
        found, expected = (
            derivatives(*(np.array(x, dtype) for x in (tiny, apart, [p]))) for dtype in (np.float32, float)
        )
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7), found, expected)


def test_slopes_of_exponents_of_cells_far_from_1() -> None:
    # Differences of logarithms, which would lose the digits that log(1000) has before the point.
    x = (1000 * np.random.default_rng(0).uniform(0.5, 1, (4, 256))).astype(np.float32)
    p = np.array([1.3, 2.3, 3.7, 5.0], np.float32)
    slopes = compiled_as_usual(jax.grad(lambda p, x: gem_pool(x, p[:, None], (5,), 3).sum()))(p, x)
    wide, windows = x.T.astype(np.float64), {"kernel_size": 5, "stride": 3, "axis": 0}
    values, _, expected = exact("gem_pool", wide, p.astype(np.float64), **windows)
    share = p / values.sum(0)
    np.testing.assert_allclose(np.float64(slopes) * share, expected * share, rtol=0, atol=5e-7)


def test_batches_of_exponents() -> None:
    x, ps = np.random.default_rng(1).normal(size=(7, 6)), np.array([[1.5], [3.0]])

    def slopes(x: jax.Array, p: jax.Array) -> Any:
        return jax.grad(lambda x, p: (gem_pool(x, p, (3, 3), 2) ** 2).sum(), (0, 1))(x, p)

    found = compiled_fast(jax.vmap(slopes, (None, 0)))(x, ps)
    for number, p in enumerate(ps):
        for one, other in zip(found, compiled_fast(slopes)(x, p), strict=True):
            np.testing.assert_allclose(one[number], other, rtol=1e-12)


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
@pytest.mark.parametrize("function", ["lp_pool", "gem_pool", "global_gem_pool"])
def test_exponents_that_are_not_positive_are_nan(function: str, rule: str) -> None:
    """At once, in values and slopes, and in their own channel alone."""
    p = jnp.array([3.0, 0.0, -0.0, -1e-3, -2.0, np.nan, 2.0], np.float32)
    x = np.random.default_rng(0).normal(size=(2, 6, 6, p.size)).astype(np.float32)
    x[0, :3, :3] = 0
    sizes: dict[str, Any] = {"kernel_size": 3, "stride": 1, "padding": 1} if function != "global_gem_pool" else {}
    pool = partial(getattr(jaxpool, function), axis=(1, 2), rule=rule, **sizes)
    values, pull_back = jax.vjp(compiled_fast(lambda x, p: pool(x, norm_type=p)), x, p)
    slopes = pull_back(jnp.ones_like(values))
    assert np.isnan(values[..., 1:-1]).all()
    for array in (values, *slopes):
        is_nan = np.isnan(array).any(tuple(range(array.ndim - 1)))
        np.testing.assert_array_equal(is_nan, [False, True, True, True, True, True, False])


def test_exponents_that_differ_along_an_axis_have_no_derivative_at_zeros() -> None:
    third = compiled_fast(jax.jacfwd(jax.jacfwd(jax.jacrev(lambda joint: lp_pool(joint[:5], joint[5:], (2,), 1)))))
    found = third(jnp.array([0, 0, 0, 0, -2, 0.5, 2.0, 3.0, 16.0], jnp.float32))
    np.testing.assert_array_equal(found[:3], 0)
    assert np.isfinite(found).all()


@pytest.mark.slow
def test_third_derivatives_at_an_exponent_of_one() -> None:
    def plain(v: jax.Array) -> jax.Array:
        return (abs(v[:-1]) ** v[-1]).sum() ** (1 / v[-1])

    third = (jax.jacfwd(jax.jacfwd(jax.grad(f))) for f in (lambda v: lp_pool(v[:-1], v[-1:], (4,))[0], plain))
    found, expected = (compiled_fast(one)(np.array([1.3, -0.7, 2.1, 0.4, 1.0])) for one in third)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_infinite_norms_are_the_first_of_the_largest_magnitudes(rule: Any) -> None:
    arguments = {"norm_type": math.inf, "kernel_size": (2, 3), "stride": 1, "rule": rule}
    for cells in ("ties", "zeros", "nan"):
        check(Call("lp_pool", (5, 7), arguments, cells=cells))


def test_power_means_of_equal_cells() -> None:
    threes = jnp.full(7, 3.0, jnp.float32)
    np.testing.assert_allclose(gem_pool(threes, 1, (7,)), [3.0], rtol=ROUNDING_OF_QUOTIENTS)
    assert jax.grad(lambda p: gem_pool(jnp.zeros(196), p, (196,)).sum())(jnp.array([0.05])).tolist() == [0.0]


def test_retrieval_descriptor() -> None:
    # As published: mean over the plane of max(x, ε)^p, to the power of 1/p.
    cells, p = distinct((2, 4, 5), "means"), np.array([1.0, 3.0, 6.5])
    expected = np.mean(np.maximum(cells[..., None], 1e-6) ** p, (1, 2)) ** (1 / p)
    tiled = jnp.broadcast_to(cells[..., None], (*cells.shape, 3))
    np.testing.assert_allclose(global_gem_pool(tiled, p, axis=(1, 2), keepdims=False), expected, rtol=1e-6)
    gradient = jax.grad(lambda x: global_gem_pool(x, 3.0, axis=(0, 1, 2)).sum())(jnp.asarray(cells))
    assert ((np.asarray(gradient) > 0) == (cells > 1e-6)).all()
    assert partial(global_gem_pool, axis=-1, eps=None)(jnp.array([-3.0, 0.0]), 1).tolist() == [1.5]


@pytest.mark.parametrize(
    "p", [pytest.param(4.0, id="number", marks=pytest.mark.slow), pytest.param(np.array([2.5, 6.0]), id="learnt")]
)
@pytest.mark.parametrize("function", ["lp_pool", "gem_pool"])
def test_large_windows_take_their_axes_in_turn(function: str, p: Any) -> None:
    x = distinct((12, 11, 2), function)
    windows = {"kernel_size": (9, 8), "stride": (1, 3), "padding": (4, 2), "axis": (0, 1)}
    pool = partial(getattr(jaxpool, function), **windows)
    values, *slopes = exact(function, x, p, **windows)
    np.testing.assert_allclose(pool(x, p), values, rtol=1e-12)
    found = jax.grad(lambda x, p: pool(x, p).sum(), (0, 1))(x, p)
    for own, expected in zip(found, slopes, strict=False):
        np.testing.assert_allclose(own, expected, rtol=1e-9, atol=1e-12)
