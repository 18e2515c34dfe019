"""NaN at every size: it reaches exactly the windows that hold it, in values and derivatives, and no other.

The platform's reductions may drop NaN from 4096 elements on if windows share no cells. The sizes are on both sides of
that. Not every combination is run: every function runs with every size in every layout, every dtype, every kind of
window and both rules, and every exponent is run, as `test_the_combinations_cover` checks.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxpool
from jaxpool._arguments import Rule
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.harness.parts import case_row
from tests.reference import sliding
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

SHAPES = {"10": (2, 5), "4000": (20, 10, 20), "5000": (20, 10, 25), "million": (100, 100, 100)}
DTYPES = (np.float32, jnp.bfloat16, np.float64, jnp.float16)
RULES: tuple[Rule, ...] = ("jvp", "vjp")
EXPONENTS = (2.0, np.inf, 3.0)

# Along every pooled axis.
WINDOWS: dict[str, dict[str, Any]] = {
    "overlapping": {"kernel_size": 3, "stride": 2, "padding": 1},
    "stride 1": {"kernel_size": 2, "stride": 1},
    "disjoint": {"kernel_size": 2},
    "apart": {"kernel_size": 2, "stride": 3},
    "single": {},
    "9": {"kernel_size": 9, "stride": 4, "padding": 4},
    "31": {"kernel_size": 31, "stride": 15, "padding": 15},
    "dilated": {"kernel_size": 2, "stride": 2, "dilation": 3},
}
BINS: dict[str, dict[str, Any]] = {"even bins": {"output_size": 5}, "bins": {"output_size": 3}}

WINNING = {"max_pool": {}, "min_pool": {}, "max_pool_with_indices": {}}
WINNING_IN_BINS = {"adaptive_max_pool": {}, "adaptive_max_pool_with_indices": {}, "global_max_pool": {}}
WEIGHTED = {
    "sum_pool": {},
    "avg_pool": {},
    "lp_pool": {},
    "smooth_max_pool": {"beta": 2.0},
    "adaptive_avg_pool": {},
    "global_avg_pool": {},
}
FUNCTIONS: dict[str, dict[str, Any]] = {**WINNING, **WINNING_IN_BINS, **WEIGHTED}


def kinds_of(function: str) -> list[str]:
    if function.startswith("global"):
        return ["whole"]
    return list(BINS if function.startswith("adaptive") else WINDOWS)


def combinations() -> list[tuple[str, str, str, str, Any, Rule]]:
    made = []
    for row, function in enumerate(FUNCTIONS):
        kinds = kinds_of(function)
        for column, (size, layout) in enumerate((size, layout) for size in SHAPES for layout in ("first", "last")):
            kind = kinds[(row + column) % len(kinds)]
            dtype, rule = DTYPES[(row + column + column // 4) % 4], RULES[(row + column // 2 + column // 4) % 2]
            made.append((function, size, layout, kind, dtype, rule))
    return made


def test_the_combinations_cover() -> None:
    for function in FUNCTIONS:
        _, sizes, layouts, kinds, dtypes, rules = zip(*(c for c in combinations() if c[0] == function), strict=True)
        assert set(zip(sizes, layouts, strict=True)) == {(s, layout) for s in SHAPES for layout in ("first", "last")}
        assert set(kinds) == set(kinds_of(function))
        assert set(dtypes) == set(DTYPES)
        assert set(rules) == set(RULES)


def make(function: str, size: str, layout: str, kind: str) -> tuple[dict[str, Any], np.ndarray]:
    """The arguments of a call, and numbers for it, with channels last if the layout says so."""
    x = distinct(SHAPES[size], f"{function} {kind}")
    last = layout == "last"
    axes: Any = tuple(range(x.ndim - 1)) if last else tuple(range(1, x.ndim))
    if kind == "31":  # along one axis, as two take as long as all other windows together
        axes = axes[-1:]
    exponents = {"norm_type": EXPONENTS[list(WINDOWS).index(kind) % 3]} if function == "lp_pool" else {}
    sizes = {"kernel_size": x.shape[1:]} if kind == "single" else (WINDOWS | BINS).get(kind, {})
    return {**FUNCTIONS[function], **exponents, **sizes, "axis": axes}, np.moveaxis(x, 0, -1) if last else x


def plant(x: np.ndarray, windows: sliding.Tables) -> np.ndarray:
    """The array with NaN in a few cells of some windows, and in all cells of one."""
    cells = sliding.in_windows(np.arange(x.size).reshape(x.shape), windows, -1)
    x, cells = x.copy(), cells.reshape(-1, cells.shape[-1])
    count = min(1000, x.size // (8 * cells.shape[-1]))
    x.flat[np.random.default_rng(0).choice(x.size, count, replace=False)] = np.nan
    x.flat[cells[0][cells[0] >= 0]] = np.nan
    return x


def name_of(combination: Any) -> str:
    return "-".join(getattr(part, "__name__", part) for part in combination)


# A million cells repeat what 5000 do, and 4000 what 10 do.
@pytest.mark.parametrize(
    "combination", [case_row(one, id=name_of(one), kept=one[1] in ("10", "5000")) for one in combinations()]
)
def test_nan_reaches_its_windows_alone(combination: Any) -> None:
    function, size, layout, kind, dtype, rule = combination
    parameters, numbers = make(function, size, layout, kind)
    windows = sliding.tables(numbers.shape, **parameters)
    with_nan = plant(numbers, windows).astype(dtype)
    tangent = jnp.asarray(distinct(numbers.shape, "tangent")).astype(dtype)
    pool = partial(getattr(jaxpool, function), **parameters, rule=rule)

    def everything(x: jax.Array, tangent: jax.Array) -> Any:
        (values, indices), pull_back = jax.vjp(lambda x: [*jax.tree.leaves(pool(x)), None][:2], x)
        no_indices = None if indices is None else np.zeros(indices.shape, jax.dtypes.float0)
        gradient = pull_back([jnp.ones_like(values), no_indices])[0]
        values_dot = jax.jvp(lambda x: jax.tree.leaves(pool(x))[0], (x,), (tangent,))[1] if rule == "jvp" else None
        return values, indices, gradient, values_dot

    # One size in one layout runs operation by operation.
    evaluate = everything if (size, layout) == ("5000", "first") else compiled_as_usual(everything)
    found = evaluate(jnp.asarray(with_nan), tangent)
    if function in WEIGHTED:
        clean = evaluate(jnp.asarray(numbers.astype(dtype)), tangent)
        check_weighted(function, with_nan, windows, found, clean)
    else:
        check_winners(function, with_nan, windows, found, tangent)


def check_winners(function: str, x: np.ndarray, windows: sliding.Tables, found: Any, tangent: jax.Array) -> None:
    values, indices, gradient, values_dot = found
    # In float64, which represents all of them: this test is not about NumPy's maximum of 16-bit floats.
    expected, winners = sliding.first_winners(x.astype(np.float64), windows, largest=function != "min_pool")
    check_some_windows_hold_nan(expected)
    np.testing.assert_array_equal(values.astype(np.float64), expected)
    if indices is not None:
        np.testing.assert_array_equal(indices, winners)
    gradient_of_ones = sliding.to_winners(np.ones(winners.shape), winners, windows, x.shape)
    np.testing.assert_array_equal(gradient.astype(np.float64), gradient_of_ones)
    if values_dot is not None:
        np.testing.assert_array_equal(values_dot, sliding.at_winners(np.asarray(tangent), winners, windows))


def check_weighted(function: str, x: np.ndarray, windows: sliding.Tables, found: Any, clean: Any) -> None:
    """Compare with the result for numbers in place of NaN: equal bits wherever no window holds NaN.

    Smooth maxima and norms of an array with NaN are evaluated differently, with different rounding.
    """
    values, _, gradient, values_dot = found
    nan_windows = np.asarray(sliding.in_windows(np.isnan(x), windows, False).any(-1))
    check_some_windows_hold_nan(np.where(nan_windows, np.nan, 0.0))
    np.testing.assert_array_equal(np.isnan(values), nan_windows)
    linear = function.removeprefix("adaptive_").removeprefix("global_") in ("sum_pool", "avg_pool")
    anywhere, nowhere = np.zeros(x.shape, bool), np.zeros(nan_windows.shape, bool)
    met = anywhere if linear else sliding.held_by(nan_windows, windows, x.shape)
    for result, expected, touched in (
        (values, clean[0], nan_windows),
        (gradient, clean[2], met),
        (values_dot, clean[3], nowhere if linear else nan_windows),
    ):
        if result is not None:
            assert jnp.isfinite(expected).all()
            rounding = 8 * float(jnp.finfo(expected.dtype).eps) if function in ("smooth_max_pool", "lp_pool") else 0.0
            np.testing.assert_allclose(result[~touched], expected[~touched], rtol=rounding, atol=rounding)


def check_some_windows_hold_nan(values: np.ndarray) -> None:
    assert np.isnan(values).any()
    assert not np.isnan(values).all()


def test_a_maximum_by_comparison_drops_nan() -> None:
    # A control: the assertion above can fail. This is how the platform may evaluate a maximum.
    parameters, numbers = make("max_pool", "5000", "first", "disjoint")
    windows = sliding.tables(numbers.shape, **parameters)
    x = plant(numbers, windows).astype(np.float32)
    values = lax.reduce_window(x, -np.float32(np.inf), larger, (1, 2, 2), (1, 2, 2), "VALID")
    with pytest.raises(AssertionError, match="nan location mismatch"):
        check_winners("max_pool", x, windows, (values, None, None, None), jnp.asarray(x))


def larger(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.where(left > right, left, right)


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

    def second(x: jax.Array, cotangent: jax.Array) -> list[jax.Array]:
        found = []
        for pool in (partial(jaxpool.lp_pool, norm_type=3.0), partial(jaxpool.smooth_max_pool, beta=2.0)):
            windows = partial(pool, kernel_size=(3,), stride=2)
            _, pull_back = jax.vjp(lambda x, windows=windows: jax.vjp(windows, x)[1](cotangent)[0], x)
            found += pull_back(jnp.arange(1.0, 8.0))
        return found

    evaluate = compiled_fast(second)
    for first in (np.nan, np.inf):
        pairs = zip(evaluate(x, jnp.array([first, 1, 2])), evaluate(x, jnp.array([0.0, 1, 2])), strict=True)
        for found, expected in pairs:
            assert (jnp.abs(expected[3:]) > 0).all()
            np.testing.assert_array_equal(found[3:], expected[3:])


@pytest.mark.parametrize("cells", [16, 49, 200, 300, 784, 5000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ends_of_the_range_neither_make_nor_hide_nan(cells: int, dtype: Any) -> None:
    rows = distinct((7, cells), "ends of the range").astype(dtype)
    largest = np.finfo(dtype).max
    rows[0, [1, -1]] = np.inf, -np.inf
    rows[1, [2, -2]] = -largest, largest
    rows[2] = -np.inf
    rows[3] = np.inf
    rows[4, [0, 3, -1]] = np.inf, -np.inf, np.nan
    rows[5, -1] = np.nan

    def extremes(rows: jax.Array) -> Any:
        return jaxpool.max_pool(rows, (cells,)), jaxpool.min_pool(rows, (cells,))

    highest, lowest = compiled_as_usual(extremes)(rows)
    np.testing.assert_array_equal(highest, rows.max(-1, keepdims=True))
    np.testing.assert_array_equal(lowest, rows.min(-1, keepdims=True))
