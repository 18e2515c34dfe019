"""What the definitions say at the edges: ties, padding, NaN, infinities, and norms of zeros.

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
from tests.harness.checks import check_first_derivatives
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.reference import oracle, sliding
from tests.registry.cases import PLAIN, Case, distinct
from tests.registry.records import RECORDS, by_function, row, slow_but

pytestmark = pytest.mark.usefixtures("for_this_platform")

RULES = ("jvp", "vjp")
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


# Where a platform may take another winner, `engine/test_winners` has windows of every kind.
OTHER_ORDER = {"kernel_size": (2, 3), "stride": (1, 2), "padding": ((0, 1), (2, 0)), "axis": (2, 1)}
SELECTING = {name: record.parameters for name, record in RECORDS.items() if record.selects and name in PLAIN}


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        pytest.param("max_pool", OTHER_ORDER, id="other order"),
        *[row(name, layout, id=name, quick=name == "top_k_pool") for name, layout in SELECTING.items()],
    ],
)
def test_the_first_of_equal_cells_wins_and_nan_before_numbers(function: str, parameters: dict[str, Any]) -> None:
    x = special_planes()
    expected = oracle.evaluate(function, x, **parameters)
    pool = partial(getattr(jaxpool, function), **parameters)
    if RECORDS[function].has_indices:
        np.testing.assert_array_equal(jax.jit(pool)(x)[1], expected.indices)
    rules = {rule: lambda x, rule=rule: jax.tree.leaves(pool(x, rule=rule))[0] for rule in RULES}
    check_first_derivatives(rules, x, expected.values, expected.jacobian())


DTYPES = (jnp.bfloat16, np.float32, np.int8, np.uint8, np.int32, np.bool_)


@pytest.mark.parametrize("dtype", [row(one, id=str(jnp.dtype(one)), quick=one is not jnp.bfloat16) for one in DTYPES])
@pytest.mark.parametrize(
    "function",
    slow_but(["max_pool_with_indices"], ("max_pool_with_indices", "min_pool_with_indices", "top_k_pool_with_indices")),
)
def test_padding_never_wins(function: str, dtype: Any) -> None:
    # Not against the lowest number there is, or the highest for minima, which may itself stand for padding.
    limits: tuple[Any, Any] = (False, True) if dtype is np.bool_ else (-INF, INF)
    if jnp.issubdtype(dtype, jnp.integer):
        limits = jnp.iinfo(dtype).min, jnp.iinfo(dtype).max
    options = {"k": 1} if "top_k" in function else {}
    window: dict[str, Any] = {**options, "kernel_size": (5, 5), "stride": 1, "padding": 2}
    pools = [partial(getattr(jaxpool, name), **window) for name in (function, function.removesuffix("_with_indices"))]
    x = np.full((6, 7), limits[int("min" in function)], dtype)
    expected = oracle.evaluate(function, x.astype(np.float64), **window)
    values, indices = pools[0](x)
    np.testing.assert_array_equal(values, np.broadcast_to(x.flat[0], values.shape))
    np.testing.assert_array_equal(pools[1](x), values)
    np.testing.assert_array_equal(indices, expected.indices)
    assert (expected.indices >= 0).all()
    if jnp.issubdtype(dtype, jnp.inexact):
        for rule in RULES:
            # No gradient is lost to padding.
            (gradient,) = jax.vjp(partial(pools[1], rule=rule), jnp.asarray(x))[1](jnp.ones_like(values))
            np.testing.assert_array_equal(gradient.astype(np.float64), expected.backward(np.ones(values.shape)))
            assert gradient.sum() == 42


@by_function(PLAIN)
def test_nan_and_infinities_stay_in_their_windows(case: Case) -> None:
    x = case.x.copy()
    x[0, 1, 2] = NAN
    x[1, 0, 5], x[1, 6, 0] = INF, -INF
    with np.errstate(all="ignore"):
        expected = case.reference(x)
    tangent, cotangent = np.cos(np.arange(x.size)).reshape(x.shape), 1 + np.sin(np.arange(expected.values.size))
    cotangent = cotangent.reshape(expected.values.shape)

    @compiled_fast
    def everything(x: jax.Array) -> Any:
        gradients = [jax.vjp(partial(case.values, rule=rule), x)[1](cotangent)[0] for rule in RULES]
        return *jax.jvp(case.values, (x,), (tangent,)), gradients

    values, values_dot, gradients = everything(x)
    np.testing.assert_allclose(values, expected.values, rtol=1e-12, atol=1e-12)
    with np.errstate(all="ignore"):
        wanted = [(values_dot, expected.forward(tangent))] + [(one, expected.backward(cotangent)) for one in gradients]
    for found, derivative in wanted:
        # A window with NaN has NaN weights; what these do to its own cells is not defined.
        defined = ~np.isnan(derivative)
        assert defined.any()
        np.testing.assert_allclose(found[defined], derivative[defined], rtol=1e-10, atol=1e-10)


# At more than 4096 cells the platform's reductions may drop NaN where windows share no cells.
WINDOWS: dict[str, dict[str, Any]] = {
    "overlapping": {"kernel_size": 3, "stride": 2, "padding": 1},
    "stride 1": {"kernel_size": 2, "stride": 1},
    "disjoint": {"kernel_size": 2},
    "rows": {"kernel_size": (1, 5)},
    "apart": {"kernel_size": 2, "stride": 3},
    # With one output per axis no windows overlap, whatever the stride.
    "single": {"kernel_size": (10, 25), "stride": 1},
    "9": {"kernel_size": 9, "stride": 4, "padding": 4},
    "dilated": {"kernel_size": 2, "stride": 2, "dilation": 3},
    "even bins": {"output_size": 5},
    "bins": {"output_size": 3},
    "whole": {},
}
LARGE: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "max_pool": ({}, tuple(WINDOWS)[:8]),
    "min_pool": ({}, ("disjoint", "single")),
    "max_pool_with_indices": ({}, ("overlapping", "disjoint", "apart")),
    "adaptive_max_pool_with_indices": ({}, ("even bins", "bins")),
    "global_max_pool": ({}, ("whole",)),
    "avg_pool": ({}, ("disjoint", "9")),
    "lp_pool": ({"norm_type": INF}, ("disjoint", "single")),
    "smooth_max_pool": ({"beta": 2.0}, ("stride 1", "disjoint")),
}
ROWS = [(function, kind) for function, (_, kinds) in LARGE.items() for kind in kinds]


@pytest.mark.parametrize(
    ("function", "kind", "dtype", "last"),
    [
        row(*one, (np.float32, jnp.bfloat16)[n % 2], n % 3 == 0, id="-".join(one), quick=one[1] in ("disjoint", "bins"))
        for n, one in enumerate(ROWS)
    ],
)
def test_nan_reaches_its_windows_alone_in_large_arrays(function: str, kind: str, dtype: Any, last: bool) -> None:
    numbers = distinct((20, 10, 25), f"{function} {kind}")
    numbers = np.moveaxis(numbers, 0, -1) if last else numbers
    parameters = {**LARGE[function][0], **WINDOWS[kind], "axis": (0, 1) if last else (1, 2)}
    windows = sliding.tables(numbers.shape, **parameters)
    x = numbers.copy()
    x.flat[np.random.default_rng(0).choice(x.size, 10, replace=False)] = NAN
    # All cells of the first window.
    cells = sliding.in_windows(np.arange(x.size).reshape(x.shape), windows, -1)
    x.flat[[cell for cell in cells.reshape(-1, cells.shape[-1])[0] if cell >= 0]] = NAN
    x = x.astype(dtype)
    pool = partial(getattr(jaxpool, function), **parameters)

    @compiled_as_usual
    def everything(x: jax.Array) -> Any:
        values, pull_back = jax.vjp(lambda x: jax.tree.leaves(pool(x))[0], x)
        return values, jax.tree.leaves(pool(x))[1:], pull_back(jnp.ones_like(values))[0]

    values, indices, gradient = everything(x)
    holds_nan = np.asarray(sliding.in_windows(np.isnan(x.astype(np.float64)), windows, False).any(-1))
    assert holds_nan.any()
    assert not holds_nan.all()
    np.testing.assert_array_equal(np.isnan(values), holds_nan)
    if RECORDS[function].selects:
        expected, winners = sliding.first_winners(x.astype(np.float64), windows, largest=function != "min_pool")
        np.testing.assert_array_equal(values.astype(np.float64), expected)
        wanted = sliding.to_winners(np.ones(winners.shape), winners, windows, x.shape)
        np.testing.assert_array_equal(gradient.astype(np.float64), wanted)
        for one in indices:
            np.testing.assert_array_equal(one, winners)
    else:
        held = sliding.held_by(holds_nan, windows, x.shape)
        assert np.isfinite(gradient[~held]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cells", [49, 300, 5000])
def test_ends_of_the_range_neither_make_nor_hide_nan(cells: int, dtype: Any) -> None:
    rows = distinct((6, cells), "ends of the range").astype(dtype)
    largest = np.finfo(dtype).max
    rows[0, [1, -1]] = INF, -INF
    rows[1, [2, -2]] = -largest, largest
    rows[2], rows[3] = -INF, INF
    rows[4, [0, 3, -1]] = INF, -INF, NAN
    rows[5, -1] = NAN
    extremes = compiled_as_usual(lambda rows: (jaxpool.max_pool(rows, (cells,)), jaxpool.min_pool(rows, (cells,))))
    highest, lowest = extremes(rows)
    np.testing.assert_array_equal(highest, rows.max(-1, keepdims=True))
    np.testing.assert_array_equal(lowest, rows.min(-1, keepdims=True))


def test_cells_beyond_the_array_weigh_nothing() -> None:
    # They are read along with the real ones if the stride does not divide the axis, and exp(0 - y) overflows.
    x = jnp.array([-300.0, -310.0, -305.0, -303.0, -302.0])
    window: dict[str, Any] = {"kernel_size": (4,), "stride": 2, "padding": 1, "count_include_pad": False}
    for options in ({"ceil_mode": True}, {"where": np.arange(5) > 0}):
        pool = partial(jaxpool.smooth_max_pool, beta=1.0, **window, **options)
        values, slopes = jax.jvp(pool, (x,), (jnp.ones_like(x),))
        assert jnp.isfinite(values).all()
        np.testing.assert_allclose(slopes, 1, atol=1e-4)
        assert jnp.isfinite(jax.grad(lambda x, pool=pool: pool(x).sum())(x)).all()


def test_cotangents_of_nan_stay_among_the_cells_of_their_window() -> None:
    # Differentiated once more in reverse, as the weights are: cell 3 is next to those of the first window, 0 to 2.
    x = jnp.array([0.5, 1.5, 0.75, 1.25, 1.0, 0.25, 2.0])

    @compiled_fast
    def second(x: jax.Array, cotangent: jax.Array) -> list[jax.Array]:
        found = []
        for pool in (partial(jaxpool.lp_pool, norm_type=3.0), partial(jaxpool.smooth_max_pool, beta=2.0)):
            windows = partial(pool, kernel_size=(3,), stride=2)
            _, pull_back = jax.vjp(lambda x, windows=windows: jax.vjp(windows, x)[1](cotangent)[0], x)
            found += pull_back(jnp.arange(1.0, 8.0))
        return found

    for first in (NAN, INF):
        pairs = zip(second(x, jnp.array([first, 1, 2])), second(x, jnp.array([0.0, 1, 2])), strict=True)
        for found, expected in pairs:
            assert (jnp.abs(expected[3:]) > 0).all()
            np.testing.assert_array_equal(found[3:], expected[3:])


EXPONENTS = (0.5, 1.0, 1.5, 2.0, 3.0)


@pytest.mark.parametrize("rule", ["jvp", pytest.param("vjp", marks=pytest.mark.slow)])
def test_an_lp_gradient_at_zero_is_zero_at_every_order(rule: Any) -> None:
    def by_number(x: jax.Array) -> jax.Array:
        return jnp.stack([jaxpool.lp_pool(x, p, (2,), rule=rule) for p in EXPONENTS])

    def by_array(joint: jax.Array) -> jax.Array:
        # Of the cells and of the exponents.
        return jaxpool.lp_pool(jnp.broadcast_to(joint[:4], (5, 4)), joint[4:].reshape(5, 1), (2,), rule=rule)

    @jax.jit
    def orders(x: jax.Array) -> Any:
        found = []
        for function, at in ((by_number, x), (by_array, jnp.concatenate([x, jnp.array(EXPONENTS)]))):
            first = jax.jacrev(function)
            found.append((function(at), first(at), jax.jacfwd(first)(at), jax.jacfwd(jax.jacfwd(first))(at)))
        return found

    for derivatives in orders(np.zeros(4)):
        for derivative in derivatives:
            np.testing.assert_array_equal(derivative, 0)
    # One zero cell in each window: nothing is NaN, and a Euclidean norm has the curvature 1/y there.
    for values, first, second, third in orders(np.array([0.0, 3.0, -2.0, 0.0])):
        np.testing.assert_allclose(values, np.tile([3.0, 2.0], (5, 1)), rtol=1e-14)
        assert all(np.isfinite(derivative).all() for derivative in (first, second, third))
        np.testing.assert_allclose(second[3, 0, 0, 0], 1 / 3, rtol=1e-14)
        np.testing.assert_allclose(second[3, 1, 3, 3], 1 / 2, rtol=1e-14)


# A box, and one of which some windows have their only cell beyond the padding.
ALONE = [pytest.param((2,), id="box"), row(jaxpool.footprint([True, False]), id="footprint", quick=False)]


@pytest.mark.parametrize("kernel_size", ALONE)
@pytest.mark.parametrize("name", [name for name, record in RECORDS.items() if record.windows == "fixed"])
def test_windows_of_padding_alone(name: str, kernel_size: Any) -> None:
    """They are refused, or are what the reference gives, and have no derivative that is not finite."""
    window = {"kernel_size": kernel_size, "stride": 2, "padding": 2}
    case = Case(name, "padding", (4,), {**window, **RECORDS[name].options})
    try:
        values, refused = case.values(case.x), ""
    except ValueError as error:
        values, refused = None, str(error)
    if values is None:
        assert "holds only padding" in refused
        return
    np.testing.assert_allclose(values, case.expected.values, rtol=1e-6)
    assert np.isfinite(jax.grad(lambda x: case.values(x).sum())(case.x)).all()
