"""Random calls of every function: right in every way that the reference knows, or refused by name and with a reason.

The calls are the same in every run. More, by hand: `CALLS=500 SEED=3 pytest -m slow` with the path of this file.
"""

import inspect
import math
import os
import zlib
from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import HealthCheck, assume
from hypothesis import strategies as st

import jaxpool
from tests.reference import oracle
from tests.registry import calls as registry
from tests.registry.calls import (
    FUNCTIONS,
    MODES,
    Call,
    check,
    windows_of,
)
from tests.registry.records import KINDS

Draw = st.DrawFn
Parameters = dict[str, Any]
Shape = tuple[int, ...]

# The reference is evaluated in Python, for every cell of every window.
MOST = 12000
# Cells of a window along one, two or three axes.
WIDEST = (45, 18, 4)
COPIES = ("WRAP", "REFLECT", "SYMMETRIC", "EDGE")
WORDS = ("SAME", "SAME_LOWER", "CAUSAL", "SEMICAUSAL", "VALID", "same", *COPIES)
METHODS = (
    *("linear", "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen"),
    *("weibull", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest"),
)
# Exponents and sharpnesses whose derivatives float32 holds to 1e-5: larger ones multiply the rounding of values.
NUMBERS: dict[str, tuple[Any, ...]] = {
    "norm_type": (1, 2, math.inf, 3.0, 0.5, 1.25, 2.5, 0.3, 10.0, np.float32(1.5), np.int64(2)),
    "beta": (1, -1, 2.0, -2.5, 0.5, 0.05, -0.2, 12.0, -12.0, np.float32(0.5), np.int32(-1)),
    "alpha": (0, 1, 0.5, 0.25, -0.5, 2, np.float32(0.75), np.int64(3)),
}
QUANTILES = (0.5, 0, 1, 0.25, 0.75, 0.3, 0.9, np.float64(0.6))
WEIGHTS_OF_CELLS = {"weights": (0.0, 0.25, 1.0, 3.0, 1e30), "logits": (-1e4, -2.0, 0.0, 0.5, 3.0, 1e4)}
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "count_include_pad": st.booleans(),
    "divisor_override": st.sampled_from([None, 1, 3, -2.5, 0.75, np.int64(4), np.float32(0.5)]),
    "correction": st.sampled_from([0, 1, 0.5, 3, np.int64(1)]),
    "method": st.sampled_from(METHODS),
    "kind": st.sampled_from(["max", "avg"]),
    "keepdims": st.booleans(),
    "eps": st.sampled_from([None, 0, 0.25, np.float32(0.5)]),
    "rule": st.sampled_from(["jvp", "vjp"]),
}
# All arguments but the array, and the draws of stochastic pools, which have no reference.
ARGUMENTS = {
    function: [*inspect.signature(getattr(jaxpool, function)).parameters][1:] for function in registry.FUNCTIONS
}
ARGUMENTS["stochastic_pool"].remove("key")
seeds = st.integers(0, 99)


def some(draw: Draw, strategies: dict[str, st.SearchStrategy[Any]]) -> Parameters:
    """Any subset of these arguments."""
    return {name: draw(strategy) for name, strategy in strategies.items() if draw(st.booleans())}


@st.composite
def calls(draw: Draw, function: str) -> Call:
    """A call of the function; a few are not defined, as a window is larger than the array or holds only padding."""
    shape, axes, named = _draw_axes(draw, draw(st.sampled_from([60, 400, 400, 5000])))
    if function == "max_unpool":
        parameters = _draw_unpooling(draw, shape, axes, named)
    elif function == "spatial_pyramid_pool":
        levels = draw(st.lists(_bins(shape, axes, named), min_size=1, max_size=3))
        parameters = {**named, "levels": draw(st.sampled_from([levels, tuple(levels)]))}
    elif "samples" in ARGUMENTS[function]:
        parameters = _draw_fractions(draw, shape, axes, named)
    elif "boxes" in ARGUMENTS[function]:
        parameters = _draw_boxes(draw, function, shape, axes, named)
    elif function.startswith("global"):
        parameters = {"axis": axes, **named}
    elif function.startswith("adaptive"):
        parameters = {**named, "output_size": draw(_bins(shape, axes, named))}
    else:
        parameters = _draw_windows(draw, function, shape, axes, named)
    parameters |= some(draw, {name: OPTIONS[name] for name in ARGUMENTS[function] if name in OPTIONS})
    parameters |= _draw_numbers_of(draw, function, shape, parameters)
    for name in {*WEIGHTS_OF_CELLS} & {*ARGUMENTS[function]}:
        weights = np.random.default_rng(draw(seeds)).choice(WEIGHTS_OF_CELLS[name], _draw_part(draw, shape))
        parameters[name] = np.asarray(weights).astype(draw(st.sampled_from(["float64", "float32"])))
    if "where" in ARGUMENTS[function] and draw(st.booleans()):
        held = np.random.default_rng(draw(seeds)).random(_draw_part(draw, shape))
        mask = np.asarray(held < draw(st.sampled_from([0.8, 0.5, 0.2])))
        parameters["where"] = draw(st.sampled_from([mask] * 7 + [True, False, np.False_]))
    dtype, cells = _draw_cells(draw, Call(function, shape, parameters))
    mode = draw(st.sampled_from(["compiled", *registry.MODES]))
    return Call(function, shape, parameters, dtype, cells, draw(seeds), mode)


def _draw_axes(draw: Draw, most_cells: int) -> tuple[Shape, Shape, Parameters]:
    """A shape, its pooled axes, and the `axis` argument for them unless they are the last ones and it is left out."""
    longest = draw(st.sampled_from([4, 6, 6, 9, 9, 20, 60]))
    sizes: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        sizes.append(draw(st.integers(1, max(1, min(longest, most_cells // math.prod(sizes))))))
    shape = tuple(draw(st.permutations(sizes)))
    rank, count = len(shape), draw(st.integers(1, min(3, len(shape))))
    if draw(st.booleans()):
        return shape, tuple(range(rank - count, rank)), {}
    axes = tuple(draw(st.permutations(range(rank)))[:count])
    if rank - count <= 2 and draw(st.integers(0, 3)) == 3:
        names, others = iter(draw(st.sampled_from(["THW", "zyx"]))), iter(draw(st.sampled_from(["NC", "CN"])))
        letters = "".join(next(names if a in axes else others) for a in range(rank))
        return shape, tuple(sorted(axes)), {"axis": letters}
    axis = tuple(a - rank if draw(st.booleans()) else a for a in axes)
    return shape, axes, {"axis": draw(st.sampled_from([axis, list(axis), axis[0] if count == 1 else axis]))}


def _draw_windows(draw: Draw, function: str, shape: Shape, axes: Shape, named: Parameters) -> Parameters:
    """Windows that slide along the axes, or bins, or the whole of each axis."""
    kind = "sizes" if "blur" in function else draw(st.sampled_from([*["sizes"] * 6, "footprint", "bins", "whole"]))
    if kind == "whole":
        return {"axis": axes, **named, "kernel_size": jaxpool.whole}
    if kind == "bins":
        bins = draw(_bins(shape, axes, named))
        return {**named, "kernel_size": jaxpool.bins(*([bins] if isinstance(bins, int) else bins))}
    count = len(axes)
    beyond = draw(st.sampled_from([0, 0, 0, 2]))
    kernels = draw(st.tuples(*[st.integers(1, min(shape[a] + beyond, WIDEST[count - 1])) for a in axes]))

    def each(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(strategy, st.tuples(*[strategy] * count), st.lists(strategy, min_size=count, max_size=count))

    number = st.integers(0, min(3, min(kernels) - 1 + beyond))
    pair = st.tuples(number, number) | st.lists(number, min_size=2, max_size=2)
    words, copies = st.sampled_from(WORDS), st.tuples(st.sampled_from(COPIES), number | st.tuples(number, number))
    placing = {
        "stride": st.none() | each(st.integers(1, max(kernels) + beyond)),
        "padding": st.one_of(number, words, st.tuples(*[st.one_of(number, pair, pair, words, copies)] * count)),
        "dilation": each(st.integers(1, 2 if function == "max_blur_pool" else 3)),
        "ceil_mode": st.booleans(),
        "blur_size": each(st.integers(1, 5)),
    }
    parameters = {**named, "kernel_size": kernels}
    if kind == "footprint":
        held = np.random.default_rng(draw(seeds)).random(kernels)
        parameters["kernel_size"] = jaxpool.footprint(held <= max(draw(st.sampled_from([0.7, 0.3])), held.min()))
    elif named and draw(st.integers(0, 3)) == 3:
        parameters["kernel_size"] = min(kernels)
    parameters |= some(draw, {name: one for name, one in placing.items() if name in ARGUMENTS[function]})
    outputs = math.prod(_outputs(Call(function, shape, parameters)))
    # Blurred maxima are taken at every cell.
    assume((max(outputs, math.prod(shape)) if function == "max_blur_pool" else outputs) * math.prod(kernels) <= MOST)
    return parameters


def _outputs(call: Call) -> Shape:
    along = windows_of(call) if "kernel_size" in call.parameters else {}
    return tuple(len(along.get(a, range(size))) for a, size in enumerate(call.shape))


def _bins(shape: Shape, axes: Shape, named: Parameters) -> st.SearchStrategy[Any]:
    bins = st.tuples(*[st.none() | st.integers(1, shape[a] + 3) for a in axes])
    return st.one_of(bins, bins, st.integers(1, 5)) if named else bins


def _draw_fractions(draw: Draw, shape: Shape, axes: Shape, named: Parameters) -> Parameters:
    """Windows at random positions, by their number or ratio, with the key or the samples that determine them."""
    # No wider than half an axis and a cell, so that there is room to draw from.
    widest = (MOST / math.prod(shape)) ** (1 / len(axes))
    kernels = draw(st.tuples(*[st.integers(1, max(1, min(shape[a] // 2 + 1, int(widest)))) for a in axes]))
    parameters: Parameters = {**named, "kernel_size": kernels}
    if draw(st.booleans()):
        ratio = st.sampled_from([0.5, 0.75, 0.3, 0.9, np.float32(0.6)])
        parameters["output_ratio"] = draw(ratio | st.tuples(*[ratio] * len(axes)))
    else:
        beyond = int(draw(st.integers(0, 19)) == 19)
        most = [shape[a] - kernel + 1 + beyond for a, kernel in zip(axes, kernels, strict=True)]
        parameters["output_size"] = draw(st.tuples(*[st.integers(1, one) for one in most]))
    random = np.random.default_rng(draw(seeds))
    if draw(st.booleans()):
        return parameters | {"key": random.integers(0, 2**32, 2, np.uint32)}
    dtype = draw(st.sampled_from(["float64", "float32", "float16"]))
    others = [size for a, size in enumerate(shape) if a not in axes]
    below_one = np.nextafter(np.dtype(dtype).type(1), 0)
    drawn = random.choice([0, 0.25, 0.5, float(below_one), *random.random(9)], (*others, len(axes)))
    return parameters | {"samples": np.minimum(drawn.astype(dtype), below_one)}


def _draw_boxes(draw: Draw, function: str, shape: Shape, axes: Shape, named: Parameters) -> Parameters:
    """Boxes inside the array, across its ends and beyond, of any length, and with swapped corners."""
    bins = draw(st.tuples(*[st.integers(1, 5)] * len(axes)))
    parameters: Parameters = {**named, "output_size": min(bins) if named and draw(st.booleans()) else bins}
    if function == "roi_align":
        parameters |= some(draw, {"sampling_ratio": st.sampled_from([1, 2, 3]), "aligned": st.booleans()})
    ratio = parameters.get("sampling_ratio", 2)
    cells = math.prod(size for a, size in enumerate(shape) if a not in axes) * math.prod(
        2 * ratio * one for one in bins
    )
    count = draw(st.integers(0, max(1, min(4, MOST // cells))))
    random = np.random.default_rng(draw(seeds))
    sizes = np.array([shape[a] for a in axes])
    low = random.integers(-12, 4 * sizes + 9, (count, len(axes))) / 4
    length = random.choice([1, 1, 1, -0.3, 0.2], low.shape) * random.random(low.shape) * (sizes + 4)
    boxes = np.concatenate([low, low + (length * 4).round() / 4], 1)
    if function == "roi_align":
        boxes = beside_centres(boxes)
    # Below 16, float16 represents every 64th of a cell.
    dtypes = ["float64", "float32", "float16"][: 3 if np.abs(boxes).max(initial=0) < 16 else 2]
    return {"boxes": boxes.astype(draw(st.sampled_from(dtypes))), **parameters}


def beside_centres(boxes: np.ndarray) -> np.ndarray:
    """Boxes with a length of whole cells, and corners 1/64 of a cell beyond whole numbers.

    Samples, at low + (2k + 1)·length/(2·bins·samples), are then never at a whole number, also in float32.
    """
    return (np.floor(boxes) + 1 / 64).astype(boxes.dtype)


def _draw_unpooling(draw: Draw, shape: Shape, axes: Shape, named: Parameters) -> Parameters:
    """Indices, some of which name one cell or none, and the sizes of the output."""
    sizes = tuple(max(draw(st.integers(1, 6)), -(-shape[a] // 2)) for a in axes)
    given = max(sizes) if named and draw(st.integers(0, 3)) == 3 else sizes
    cells = given ** len(axes) if isinstance(given, int) else math.prod(given)
    dtype = draw(st.sampled_from(["int32", "int32", "int64", "uint8", "int16"]))
    least = 0 if dtype == "uint8" else -2
    indices = np.random.default_rng(draw(seeds)).integers(least, cells + 2, shape).astype(dtype)
    return {"indices": indices, "output_size": given, "axis": axes, **named}


def _draw_numbers_of(draw: Draw, function: str, shape: Shape, parameters: Parameters) -> Parameters:
    """The arguments of this function that are numbers, or arrays that broadcast to the windows."""
    drawn: Parameters = {}
    if "q" in ARGUMENTS[function]:
        one = st.sampled_from(QUANTILES)
        drawn["q"] = draw(one | st.lists(one, min_size=1, max_size=3))
    if "k" in ARGUMENTS[function]:
        drawn["k"] = draw(st.integers(1, 6))
    for name in NUMBERS.keys() & {*ARGUMENTS[function]}:
        numbers = (*NUMBERS[name], *([0] if name == "beta" and function != "smooth_max_pool" else []))
        drawn[name] = draw(st.sampled_from(numbers))
        outputs = _outputs(Call(function, shape, parameters))
        if draw(st.booleans()) and math.prod(outputs) and function != "global_gem_pool":
            finite = [number for number in numbers if math.isfinite(number) and number not in (0, 1)]
            array = np.random.default_rng(draw(seeds)).choice(np.array(finite, float), _draw_part(draw, outputs))
            dtype = draw(st.sampled_from(["float64", "float32", "float16", "int32"]))
            drawn[name] = np.asarray(np.where(abs(array) < 1, 1, array) if dtype == "int32" else array).astype(dtype)
    return drawn


def _draw_part(draw: Draw, shape: Shape) -> Shape:
    """A shape that broadcasts to this one."""
    return tuple(draw(st.sampled_from([1, size])) for size in shape[draw(st.integers(0, len(shape))) :])


def _draw_cells(draw: Draw, call: Call) -> tuple[str, str]:
    """The dtype of the array, and the kind of its cells."""
    dtypes = ["float64"] * 3 + ["float32"] * 2 + draw(st.sampled_from([["bfloat16"], ["float16"]]))
    dtypes.append(draw(st.sampled_from(registry.INTEGERS)))
    if call.function in (*registry.LINEAR, "max_unpool"):
        dtypes.append(draw(st.sampled_from(registry.COMPLEX)))
    dtype = draw(st.sampled_from(dtypes))
    if dtype in registry.FLOATS:
        return dtype, draw(st.sampled_from(list(registry.FLOAT_KINDS)))
    # The reference, in float64, does not wrap sums of extreme integers.
    integers = registry.INTEGER_KINDS if call.is_exact else registry.INTEGER_KINDS[:-1]
    return dtype, draw(st.sampled_from(registry.COMPLEX_KINDS if dtype in registry.COMPLEX else integers))


# Values that some arguments take and others refuse.
ODD: tuple[Any, ...] = (
    *(0, 1, 2, 5, 7, 40, -1, 1.5, 0.5, 2j, math.nan, math.inf, 10**400, np.float32(0.5), np.int64(2), np.True_),
    *(True, False, None, "2", "SAME", "same", "max", "lower", "jvp", "JVP", "NC", "NHWC", "nwc", "HH", {1}),
    *((), (0,), (1,), (2, 1), (0, 1), (1, -1), (2, 1.0), (1, 1, 1), [3], [2, 2], [2.0], (None,), (None, 2)),
    *((1, "SAME"), ((1, 0),), ((1, 0), (0, 1)), ((1, 2, 3),), [2, [1, 1]], ((2, 2), (1, 3))),
    *([[2, 1], [None, 1]], (1, (1, 2))),
    *(jaxpool.bins(2), jaxpool.bins(3, None), jaxpool.whole),
    *(jaxpool.footprint(np.tri(2, 3) > 0), jaxpool.footprint(np.arange(3) != 1)),
    *(np.ones(shape, dtype) for shape in ((), 1, 2, 3, 0, (2, 1), (1,) * 5) for dtype in (float, bool)),
    *(np.zeros(2), np.full((1, 1), math.inf), np.zeros((2, 2), np.int32), np.ones((1, 5, 4)), np.ones((2, 6))),
    *(np.zeros(2, np.uint32), np.ones((2, 2), np.uint32), np.full((1, 1), 0.5, np.float32), np.zeros((1, 2), np.int32)),
)


@st.composite
def arbitrary_calls(draw: Draw, function: str) -> Call:
    """A call in which one argument or two, and at times the array, are replaced by odd ones."""
    call = draw(calls(function).filter(lambda call: math.prod(call.shape) <= 60))
    parameters = dict(call.parameters)
    if "boxes" in parameters:
        # Bins other than those for which the boxes were drawn.
        parameters["boxes"] = beside_centres(parameters["boxes"])
    for name in draw(st.lists(st.sampled_from(ARGUMENTS[function]), min_size=1, max_size=2, unique=True)):
        parameters[name] = draw(st.sampled_from(ODD))
    shape = draw(st.sampled_from([*[call.shape] * 6, call.shape[1:], (0, *call.shape[1:]), (*call.shape[:-1], 0)]))
    dtype = draw(st.sampled_from([*[call.dtype] * 6, "float32", "complex64"]))
    cells = call.cells if dtype == call.dtype else "ties"
    # The numbers of traced arrays are not checked: any result for a wrong one is right.
    mode = "compiled" if call.mode == "traced" else call.mode
    return Call(function, shape, parameters, dtype, cells, call.seed, mode, arbitrary=True)


pytestmark = pytest.mark.usefixtures("for_this_platform")

UNCHECKED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
SETTINGS = hypothesis.settings(deadline=None, database=None, suppress_health_check=UNCHECKED)
CALLS, SEED = int(os.environ.get("CALLS", "8")), os.environ.get("SEED", "0")


def for_each(strategy: st.SearchStrategy[Call], count: int, what: str, judge: Callable[[Call], Any]) -> None:
    """Judge so many random calls; the first one that fails is shrunk and printed."""

    @hypothesis.seed(zlib.crc32(f"{what} {SEED}".encode()))
    @hypothesis.settings(SETTINGS, max_examples=count)
    @hypothesis.given(strategy)
    def one_by_one(call: Call) -> None:
        judge(call)

    one_by_one()


few_or_many = pytest.mark.parametrize(
    ("function", "count"),
    # The programs of bins are the longest.
    [(name, 2) for name in KINDS if name != "adaptive_max_pool"]
    + [pytest.param(name, CALLS, marks=pytest.mark.slow) for name in FUNCTIONS],
)


@few_or_many
def test_calls(function: str, count: int) -> None:
    for_each(calls(function), count, f"{function} {count}", check)


@few_or_many
def test_arbitrary_arguments(function: str, count: int) -> None:
    for_each(arbitrary_calls(function), count, f"{function} {count}", check)


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
def test_calls_have_every_argument(function: str) -> None:
    drawn: list[Call] = []
    for_each(calls(function), 60, function, drawn.append)
    assert {name for call in drawn for name in call.parameters} >= {*ARGUMENTS[function]}


def last_winner(cells: np.ndarray, real: np.ndarray) -> tuple[Any, np.ndarray]:
    """The last of the largest cells: the first when read backwards."""
    value, slopes = oracle.largest(cells[::-1], real[::-1])
    return value, slopes[::-1]


def slightly_steeper(cells: np.ndarray, real: np.ndarray) -> tuple[Any, np.ndarray]:
    value, slopes = oracle.total(cells, real)
    return value, slopes * (1 + 1e-9)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("function", "rule"), [("max_pool", last_winner), ("sum_pool", slightly_steeper)])
def test_wrong_outcomes_are_rejected(
    function: str, rule: oracle.WindowRule, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A control: of the reference, so that the library's result is the wrong one.
    call = Call(function, (2, 6), {"kernel_size": (3,), "stride": 1}, mode=mode)
    assert check(call)
    monkeypatch.setitem(oracle.RULES, function, rule)
    with pytest.raises(AssertionError, match="reverse mode: "):
        check(call)
