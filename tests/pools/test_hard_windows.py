"""Windows that pools take in other ways: long ones, whole axes, many cells, large footprints; each with hard cells."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_fast
from tests.harness.nestings import check_two_orders
from tests.reference.jets import Jet, evaluate
from tests.registry.calls import RANKED, WEIGHTS, Call, compare, outcome
from tests.registry.cases import disk, distinct, weights
from tests.registry.records import RECORDS, row, slow_but

_NORMS = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 7.25, 16.0, 64.0])
_BETAS = np.array([1e-3, -1e-3, 0.1, -1.0, 2.0, -30.0, 1e3, -1e3])


def footprint(cells: np.ndarray, stride: int = 1) -> dict[str, Any]:
    padding = tuple(size // 2 for size in cells.shape)
    return {"kernel_size": jaxpool.footprint(cells), "stride": stride, "padding": padding}


def line(kernel: int, stride: int | None = None, padding: Any = 0, **others: Any) -> dict[str, Any]:
    return {"kernel_size": (kernel,), "stride": stride, "padding": padding, **others}


def plane(kernel: Any, stride: Any = None, padding: Any = 0, **others: Any) -> dict[str, Any]:
    return {"kernel_size": kernel, "stride": stride, "padding": padding, "axis": (0, 1), **others}


_FIRST, _SECOND = (np.random.default_rng(seed).random((2, 150)) < 0.5 for seed in (0, 1))
# The shape of the array, the arguments that place windows, and the shape of numbers of which each channel has one.
WINDOWS: dict[str, tuple[tuple[int, ...], dict[str, Any], tuple[int, ...]]] = {
    "long": ((2, 150), line(35, 1, ((17, 20),)), (2, 1)),
    "longer than the array": ((2, 60), line(131, 1, 65), (2, 1)),
    "long with gaps": ((2, 190), line(67, 6, 5, dilation=2, ceil_mode=True), (2, 1)),
    "long and few": ((2, 150), line(149, 1), (2, 1)),
    "long, masked": ((2, 150), line(66, 4, 3, where=_FIRST), (2, 1)),
    "long tiles": ((2, 150), line(70, padding=3, ceil_mode=True, where=_SECOND), (2, 1)),
    "one number each": ((40,), line(35, 1), (6,)),
    "whole first axes": ((4, 3, 5, 2), plane((4, 3)), (2,)),
    "whole last axes": ((2, 3, 5, 6), {"kernel_size": jaxpool.whole, "axis": (2, 3)}, (3, 1, 1)),
    # The window starts in the padding and does not hold the last cells.
    "nearly whole": ((2, 5, 6), {"kernel_size": (5, 6), "padding": ((1, 0), (1, 0))}, (2, 1, 1)),
    "axis by axis": ((9, 8, 3), plane((5, 4), (1, 3), (2, 0)), (3,)),
    "zeros around": ((6, 5, 3), plane((5, 5), 2, 2), (3,)),
    "zeros along a line": ((20, 2), line(31, 15, 15, axis=0), (2,)),
    # Of the last two windows, which start beyond the cells, ceil_mode leaves out one.
    "zeros beyond": ((6, 3), {"kernel_size": (1, 2), "padding": 2, "dilation": 3, "ceil_mode": True}, (9, 1)),
    "beyond a plane": ((14, 13), plane((16, 16), (3, 2), 2, where=_FIRST[0, :13]), ()),
    # Windows that share cells, share none, or leave gaps, and of which blocks are rows or parts of rows.
    "shared": ((25, 24), plane((10, 9), (7, 4), (2, 4)), ()),
    "apart": ((27, 30), plane((9, 8), (13, 11), (1, 2)), ()),
    "dilated, apart": ((4, 47), plane((2, 33), (2, 13), dilation=(3, 1), ceil_mode=True), ()),
    "dilated rows apart": ((20, 60), plane((3, 23), (7, 50), (0, 11), dilation=2), ()),
    "long line": ((300,), line(130, 60, 20), ()),
    "cubes": ((11, 6, 9), {"kernel_size": (5, 4, 5), "stride": (5, 2, 3), "padding": (1, 0, 1)}, ()),
    "overlapping": ((2, 9, 8, 3), {"kernel_size": (3, 3), "stride": 2, "padding": 1, "axis": (1, 2)}, (3,)),
}
# Not symmetric, so that the windows that hold a cell are another footprint.
_LARGE = jaxpool.footprint(np.arange(110).reshape(10, 11) % 4 > 0)
FOOTPRINTS: dict[str, tuple[tuple[int, ...], dict[str, Any], tuple[int, ...]]] = {
    "disk": ((2, 12, 12), footprint(disk(9)), (2, 1, 1)),
    "disk, stride 2": ((2, 12, 12), {"kernel_size": jaxpool.footprint(disk(9)), "stride": 2}, (2, 1, 1)),
    "disk of blocks": ((2, 13, 13), footprint(disk(10)), (2, 1, 1)),
    "long runs": ((2, 8, 25), footprint(np.pad(np.ones((2, 19), bool), ((0, 1), (3, 0)))), (2, 1, 1)),
    "two columns": ((2, 22, 8), footprint(np.ones((19, 3), bool) & (np.arange(3) != 1)), (2, 1, 1)),
    # The number behind the last cell is that of a cell where the first axis comes last.
    "columns": ((2, 44, 8), footprint(np.arange(41 * 3).reshape(41, 3) > 0), (2, 1, 1)),
    # Nor is a cell what ceil_mode adds beyond the array.
    "no cell": ((2, 3), {"kernel_size": jaxpool.footprint([False, True]), "ceil_mode": True}, (2, 1)),
    "row": ((2, 26), footprint(np.arange(23) % 7 < 5), (2, 1)),
    "offsets beyond 256": ((1, 20, 20), footprint(np.arange(17 * 17).reshape(17, 17) % 9 > 0, 3), (1, 1, 1)),
    "large": ((2, 14, 12), {"kernel_size": _LARGE, "stride": 1, "padding": (2, 3)}, ()),
    "large, dilated": ((22, 20), {"kernel_size": _LARGE, "stride": 1, "dilation": (2, 1)}, ()),
    "large, masked": ((13, 15), {"kernel_size": _LARGE, "stride": 2, "rule": "vjp", "where": _FIRST[0, :15]}, ()),
    "large, apart": ((23, 26), {"kernel_size": _LARGE, "stride": 6}, ()),
}
WINDOWS |= FOOTPRINTS
# Other names than those of functions, which have the options of their records.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "norm 2.5": ("lp_pool", {"norm_type": 2.5}),
    "sharp": ("smooth_max_pool", {"beta": -3000.0}),
    "sharp soft": ("soft_pool", {"beta": 3000.0}),
    "without padding": ("smooth_max_pool", {"beta": -1.7, "count_include_pad": False}),
}
# The function, its argument that is learnt, and the ends of the range of its numbers.
LEARNT = {
    "learnt norm": ("lp_pool", "norm_type", (1.5, 3.0)),
    "learnt power mean": ("gem_pool", "norm_type", (1.5, 3.0)),
    "learnt smooth": ("smooth_max_pool", "beta", (-2.0, 0.7)),
    "learnt mellowmax": ("mellowmax_pool", "beta", (-2.0, 0.7)),
    "learnt soft": ("soft_pool", "beta", (-2.0, 0.7)),
}
# Of these windows, which take long and are like others, no row runs by default.
SLOW = ("long with gaps", "long and few", "zeros around", "disk, stride 2", "large, dilated", "large, masked")
OF_RANKS = ("long line", "shared", "apart", "dilated, apart", "dilated rows apart", "cubes", "large, apart")
# Functions by windows, each of either in several rows. The first one is the one that runs by default.
ROWS = {
    "long": ("stochastic_pool", "learnt soft", "lp_pool", "sharp", "std_pool", "weighted_pool"),
    "longer than the array": ("norm 2.5", "learnt mellowmax", "soft_pool"),
    "long with gaps": ("learnt smooth", "learnt norm", "sharp soft", "var_pool"),
    "long and few": ("learnt power mean", "mellowmax_pool", "attention_pool"),
    "long, masked": ("learnt soft", "smooth_max_pool", "stochastic_pool", "norm 2.5", "median_pool"),
    "long tiles": ("learnt mellowmax", "gem_pool", "soft_pool", "std_pool"),
    "whole first axes": ("var_pool", "learnt smooth", "gem_pool"),
    "whole last axes": ("learnt norm", "mellowmax_pool", "top_k_pool_with_indices"),
    "nearly whole": ("without padding", "learnt soft", "mixed_pool"),
    "axis by axis": ("std_pool", "learnt mellowmax", "soft_pool", "stochastic_pool", "without padding"),
    "zeros around": ("learnt soft", "learnt smooth", "gem_pool"),
    "zeros along a line": ("learnt smooth", "soft_pool", "mellowmax_pool"),
    "zeros beyond": ("soft_pool", "learnt mellowmax"),
    "beyond a plane": ("top_k_pool_with_indices", "quantile_pool"),
    "overlapping": ("weighted_pool", "learnt power mean", "mellowmax_pool", "smooth_max_pool", "var_pool"),
    "disk": ("max_pool", "avg_pool", "norm 2.5", "min_pool"),
    "disk, stride 2": ("std_pool", "max_pool", "median_pool", "sum_pool", "var_pool"),
    "no cell": ("gem_pool", "avg_pool", "smooth_max_pool", "mellowmax_pool", "soft_pool"),
    "disk of blocks": ("avg_pool", "min_pool", "soft_pool"),
    "long runs": ("max_pool", "sum_pool"),
    "two columns": ("min_pool", "avg_pool"),
    "columns": ("sum_pool", "max_pool"),
    "row": ("min_pool", "smooth_max_pool", "top_k_pool_with_indices"),
    "offsets beyond 256": ("avg_pool", "max_pool", "attention_pool"),
    "large": ("gem_pool", "soft_pool", "smooth_max_pool", "lp_pool", "std_pool", "weighted_pool"),
    "large, dilated": ("lp_pool", "smooth_max_pool", "std_pool", "stochastic_pool", "attention_pool"),
    "large, masked": ("stochastic_pool", "gem_pool", "weighted_pool", "soft_pool", "std_pool", "mellowmax_pool"),
    **dict.fromkeys(OF_RANKS, ("median_pool", "top_k_pool_with_indices")),
}


def call_of(window: str, name: str, **others: Any) -> Call:
    shape, arguments, of_channels = WINDOWS[window]
    if name in LEARNT:
        function, argument, ends = LEARNT[name]
        options: dict[str, Any] = {argument: np.linspace(*ends, max(of_channels)).reshape(of_channels)}
    elif name in WEIGHTS:
        function, options = name, {WEIGHTS[name]: 3 * weights(*shape)}
    else:
        function, options = OTHERS.get(name) or (name, RECORDS[name].options)
    cells = ("mixed" if "top" in name else "ties") if name in RANKED else "distinct"
    return Call(function, shape, {**arguments, **options}, **{"cells": cells, **others})


def hold(call: Call, platform: str) -> None:
    """Compare values, indices and both modes with the reference, as compiled for a platform."""
    with jaxpool.compiling_for(platform), np.errstate(all="ignore"):
        compare(call, outcome(call))


@pytest.mark.parametrize(
    ("window", "name", "platform"),
    [
        row(
            *(window, name, platform),
            id=f"{window}-{name}-{platform}",
            quick=number == 0 and platform == "cpu" and window not in (*SLOW, *OF_RANKS[1:]),
        )
        for window, names in ROWS.items()
        for number, name in enumerate(names)
        for platform in (("cpu", "tpu"), ("cpu",), ("gpu",), ("tpu",))[number % 4]
    ],
)
def test_values_and_derivatives(window: str, name: str, platform: str) -> None:
    hold(call_of(window, name), platform)


@pytest.mark.parametrize("window", slow_but(("row",), [one for one in FOOTPRINTS if one != "no cell"]))
def test_winners_among_ties_in_footprints(window: str) -> None:
    """Of NaN, infinities and zeros of either sign, with a mask that leaves windows without a cell."""
    call = call_of(window, "max_pool_with_indices", cells="mixed")
    call.parameters["where"] = np.random.default_rng(len(window)).random(call.shape) < 0.1
    hold(call, "cpu")
    hold(call_of(window, "min_pool_with_indices", cells="ties"), "cpu")


LEARNT_IN = (
    ("one number each", ("attention_pool", "learnt soft", "learnt norm", "learnt mellowmax")),
    ("axis by axis", ("learnt smooth", "weighted_pool")),
    ("long tiles", ("learnt power mean",)),
    ("whole first axes", ("learnt norm",)),
    ("overlapping", ("learnt mellowmax",)),
    ("zeros around", ("learnt smooth",)),
)


@pytest.mark.parametrize(
    ("window", "name"),
    slow_but([("one number each", "attention_pool")], [(window, one) for window, each in LEARNT_IN for one in each]),
)
def test_two_orders_in_numbers_and_weights(window: str, name: str) -> None:
    call = call_of(window, name)
    argument = LEARNT[name][1] if name in LEARNT else WEIGHTS[name]
    hold_two_orders(call.function, call.x, call.parameters, argument, ("jvp",))


_MASK = np.ones((8, 3, 3), bool)
# One window of four is left empty, and one short of a cell in every other channel.
_MASK[:, :2, 1:] = _MASK[::2, 2, 0] = False
_EACH: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "channels": ((8, 3, 3), (8, 1, 1), {"kernel_size": (2, 2), "stride": 1, "where": _MASK}),
    "rows": ((4, 3, 3), (4, 2, 1), {"kernel_size": (2, 2), "stride": 1}),
    "items": ((4, 2, 3, 3), (4, 2, 1, 1), {"kernel_size": (2, 2), "stride": 1}),
    "cut short": ((8, 4), (8, 1), {"kernel_size": (3,), "stride": 2, "ceil_mode": True}),
}


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("learnt power mean", "cut short"),
        ("learnt mellowmax", "channels"),
        *(pytest.param(f"learnt {name}", "channels", marks=pytest.mark.slow) for name in ("norm", "smooth", "soft")),
        pytest.param("learnt power mean", "items", marks=pytest.mark.slow),
        *(pytest.param(f"learnt {name}", "rows", marks=pytest.mark.slow) for name in ("norm", "smooth", "soft")),
    ],
)
def test_two_orders_in_numbers_of_any_size(name: str, layout: str) -> None:
    """Several cells matter in every window, whatever its number."""
    (function, argument, _), (shape, of_numbers, windows) = LEARNT[name], _EACH[layout]
    numbers = (_NORMS if argument == "norm_type" else _BETAS).reshape(of_numbers)
    axes = tuple(range(1, numbers.ndim))
    x = distinct(shape, name) * np.minimum(1, 2 / np.abs(numbers).max(axes, keepdims=True))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], shape)
    x = 0.75 + x if argument == "beta" else np.exp(x) * signs
    x = np.where(windows.get("where", True), x, np.nan)
    hold_two_orders(function, x, {argument: numbers, **windows}, argument, ("jvp", "vjp"))


def hold_two_orders(function: str, x: np.ndarray, parameters: dict[str, Any], argument: str, rules: Any) -> None:
    """Compare first and second derivatives in x and in an argument with the reference."""
    constant = {name: one for name, one in parameters.items() if name != argument}

    def pool(rule: Any, **arrays: jax.Array) -> jax.Array:
        return getattr(jaxpool, function)(**arrays, **constant, rule=rule)

    def expected(**arrays: Jet) -> Jet:
        return evaluate(function, arrays, **constant)

    with jaxpool.compiling_for("cpu"):
        check_two_orders(pool, expected, {"x": x, argument: parameters[argument]}, rules)


@pytest.mark.parametrize("name", ["norm 2.5", pytest.param("sharp", marks=pytest.mark.slow), "sharp soft"])
def test_nan_and_infinities_stay_in_long_windows(name: str) -> None:
    # Parts of 4 cells reach from one window into the next.
    x = distinct((2, 180), name)
    x[0, 69], x[1, 100] = np.nan, np.inf
    (function, options), stride = OTHERS[name], 1 if name == "sharp" else 69

    pool = partial(getattr(jaxpool, function), kernel_size=67, stride=stride, axis=1, **options)

    def derivatives(x: Any) -> Any:
        values, pull_back = jax.vjp(pool, x)
        return values, pull_back(jnp.ones_like(values))[0]

    with jaxpool.compiling_for("cpu"):
        values, gradient = map(np.asarray, compiled_fast(derivatives)(x))
        expected, _ = compiled_fast(derivatives)(np.where(np.isnan(x), 1, x))
    starts = np.arange(values.shape[1]) * stride
    holds = (starts <= 69) & (starts + 67 > 69)
    reached = np.zeros(x.shape[1], bool)
    for start in starts[holds]:
        reached[start : start + 67] = True
    np.testing.assert_array_equal(np.isnan(values), [holds, np.zeros_like(holds)])
    np.testing.assert_array_equal(np.isnan(gradient), [reached, np.zeros_like(reached)])
    np.testing.assert_array_equal(values[0, ~holds], expected[0, ~holds])
