"""Calls drawn at random: shapes, axes and all parameters of all functions together, most of them valid.

Windows that could not be laid, or that hold padding alone where that is an error, are repaired, but for a few, which
the function has to refuse. Left out, as what the reference says of them in float64 is not what it should be: sums of
integers near the end of their range, and infinite complex numbers. Left to tests of their own: exponents and
sharpnesses that are large or near 0, which multiply rounding, and derivatives with respect to them.
"""

import math
import zlib
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st

from tests import oracle
from tests.call_checks import is_defined
from tests.calls import (
    COMPLEX,
    COMPLEX_KINDS,
    FLOAT_KINDS,
    FLOATS,
    INTEGER_KINDS,
    INTEGERS,
    LINEAR,
    MODES,
    ORDERED,
    Call,
)

Draw = st.DrawFn
Parameters = dict[str, Any]
Shape = tuple[int, ...]

# Exponents and sharpnesses whose derivatives float32 holds to 1e-5: larger ones multiply the rounding of y.
EXPONENTS = (1, 2, math.inf, 3.0, 0.5, 1.25, 2.5, 0.3, 10.0, np.float32(1.5), np.int64(2), math.inf)
SHARPNESSES = (1, -1, 2.0, -2.5, 0.5, 0.05, -0.2, 12.0, -12.0, np.float32(0.5), np.int32(-1))
SHARES = (0.5, 0.25, -0.5, 2, np.float32(0.75), np.int64(3))
NUMBERS: dict[str, tuple[str, tuple[Any, ...]]] = {
    **dict.fromkeys(("lp_pool", "gem_pool", "global_gem_pool"), ("norm_type", EXPONENTS)),
    "smooth_max_pool": ("beta", SHARPNESSES),
    **dict.fromkeys(("mellowmax_pool", "soft_pool"), ("beta", (0, *SHARPNESSES))),
    "mixed_pool": ("alpha", (0, 1, *SHARES)),
}
QUANTILES = (0.5, 0, 1, 0.25, 0.75, 0.3, 0.9, np.float64(0.6))
DIVISORS = (1, 3, -2.5, 0.75, np.int64(4), np.float32(0.5))
# The reference is evaluated in Python, for every cell of every window.
MOST_CELLS, MOST_CELLS_IN_WINDOWS = 400, 12000


# From the tenth example on, those that came before are varied a little. Fewer at a time are all drawn anew, but for the
# first, which is always the simplest call.
EXAMPLES_IN_ROUND = 9
SETTINGS = hypothesis.settings(
    max_examples=EXAMPLES_IN_ROUND,
    deadline=None,
    database=None,
    phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
    report_multiple_bugs=False,
)


def some_calls(strategy: st.SearchStrategy[Call], count: int, seed: str) -> list[Call]:
    """So many different calls, the same ones every time."""
    found: dict[str, Call] = {}
    rounds = 0
    while len(found) < count:
        collect = hypothesis.given(strategy)(lambda call: found.update({repr(call): call}))
        hypothesis.seed(zlib.crc32(f"{seed} {rounds}".encode()))(SETTINGS(collect))()
        rounds += 1
    return list(found.values())[:count]


@st.composite
def calls(draw: Draw, function: str, most_cells: int = MOST_CELLS) -> Call:
    """A call of the function, whose array has so many cells at most."""
    shape, axes, axis = _draw_axes(draw, most_cells)
    named: Parameters = {} if axis is None else {"axis": axis}
    if function == "max_unpool":
        parameters = _draw_unpooling(draw, shape, axes, named)
    elif function.startswith("global"):
        parameters = {"axis": axes, **named, **_some(draw, keepdims=st.booleans())}
        if function == "global_gem_pool":
            bounds = st.sampled_from([None, 0, 0.25, np.float32(0.5)])
            parameters |= {"norm_type": draw(st.sampled_from(EXPONENTS)), **_some(draw, eps=bounds)}
    elif function.startswith("adaptive"):
        bins = st.tuples(*[st.none() | st.integers(1, shape[a] + 3) for a in axes])
        parameters = {"output_size": draw(st.one_of(bins, bins, st.integers(1, 5)) if named else bins), **named}
    else:
        parameters = _draw_windows(draw, function, shape, axes, named)
        along = oracle.sliding(shape, **parameters)
        parameters |= _draw_options(draw, function, tuple(len(along.get(a, range(n))) for a, n in enumerate(shape)))
    others = [a for a in range(len(shape)) if a not in axes]
    if others and draw(st.integers(0, 11)) == 11:
        empty = draw(st.sampled_from(others))
        shape = tuple(0 if a == empty else size for a, size in enumerate(shape))
        parameters |= {name: np.zeros(shape, np.int32) for name in parameters if name == "indices"}
        # An array of one number per window would no longer broadcast.
        parameters |= {
            name: 2.0 for name in ("norm_type", "beta", "alpha") if isinstance(parameters.get(name), np.ndarray)
        }
    if function != "max_unpool":
        parameters |= _some(draw, rule=st.sampled_from(["jvp", "vjp"]))
        if draw(st.booleans()):
            parameters["where"] = _draw_mask(draw, shape)
    dtype, cells = _draw_numbers(draw, function)
    mode = draw(st.sampled_from([MODES[0], MODES[0], MODES[1], MODES[2]]))
    return Call(function, shape, parameters, dtype, cells, draw(st.integers(0, 99)), mode)


def _draw_axes(draw: Draw, most_cells: int) -> tuple[Shape, Shape, Any]:
    """A shape, the axes of it that are pooled, and an `axis` that says so, None where they are the last ones."""
    longest = draw(st.sampled_from([4, 6, 6, 9, 9, 20, 60]))
    sizes: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        sizes.append(draw(st.integers(1, max(1, min(longest, most_cells // math.prod(sizes))))))
    shape = tuple(draw(st.permutations(sizes)))
    rank, count = len(shape), draw(st.integers(1, min(3, len(shape))))
    if draw(st.booleans()):
        return shape, tuple(range(rank - count, rank)), None
    axes = tuple(draw(st.permutations(range(rank)))[:count])
    axis = tuple(a - rank if draw(st.booleans()) else a for a in axes)
    return shape, axes, draw(st.sampled_from([axis, list(axis), axis[0] if count == 1 else axis]))


def _draw_windows(draw: Draw, function: str, shape: Shape, axes: Shape, named: Parameters) -> Parameters:
    """How windows lie on the axes."""
    count = len(axes)
    widest = (45, 18, 4)[count - 1]
    beyond = draw(st.sampled_from([0, 0, 0, 2]))
    kernels = draw(st.tuples(*[st.integers(1, min(shape[a] + beyond, widest)) for a in axes]))
    extra = draw(st.integers(0, 3))

    def each(strategy: st.SearchStrategy[Any]) -> Any:
        return draw(
            st.one_of(strategy, st.tuples(*[strategy] * count), st.lists(strategy, min_size=count, max_size=count))
        )

    parameters: Parameters = {**named, "kernel_size": kernels}
    if named and draw(st.integers(0, 3)) == 3:
        parameters["kernel_size"] = min(kernels)
    if draw(st.booleans()):
        parameters["stride"] = draw(st.none()) if extra == 3 else each(st.integers(1, max(kernels) + extra))
    if draw(st.booleans()):
        number = st.integers(0, min(3, max(min(kernels) - 1, extra)))
        entry = number | st.tuples(number, number) | st.lists(number, min_size=2, max_size=2)
        words = st.sampled_from(["SAME", "SAME_LOWER", "SAME", "SAME_LOWER", "VALID", "WRAP", "REFLECT", "EDGE"])
        parameters["padding"] = draw(st.one_of(number, st.tuples(*[entry] * count), words))
    if draw(st.booleans()):
        parameters["dilation"] = each(st.integers(1, 3))
    parameters |= _some(draw, ceil_mode=st.booleans())
    partial: Parameters = {"stride": None, "ceil_mode": True}
    repairs: list[Parameters] = [{}, {"dilation": 1}, partial, {"dilation": 1, **partial}]
    for repaired in (parameters | repair for repair in repairs):
        along = oracle.sliding(shape, **repaired)
        outputs = math.prod(len(along.get(a, range(size))) for a, size in enumerate(shape))
        if outputs * math.prod(kernels) <= MOST_CELLS_IN_WINDOWS:
            if is_defined(Call(function, shape, repaired)) or draw(st.integers(0, 9)) == 9:
                return repaired
    return parameters | {"dilation": 1, "padding": 0, **partial}


def _draw_options(draw: Draw, function: str, output_shape: Shape) -> Parameters:
    """The arguments that only this function has."""
    options: Parameters = {}
    if function in ("avg_pool", "smooth_max_pool", "gem_pool", "mellowmax_pool", "soft_pool", "mixed_pool"):
        options |= _some(draw, count_include_pad=st.booleans())
    if function == "avg_pool":
        options |= _some(draw, divisor_override=st.none() | st.sampled_from(DIVISORS))
    if function == "quantile_pool":
        options["q"] = draw(st.sampled_from(QUANTILES))
        options |= _some(draw, method=st.sampled_from(["linear", "lower", "higher"]))
    if function in NUMBERS:
        name, numbers = NUMBERS[function]
        options[name] = draw(st.sampled_from(numbers))
        if draw(st.booleans()) and math.prod(output_shape):
            last = output_shape[draw(st.integers(0, len(output_shape))) :]
            shape = tuple(draw(st.sampled_from([1, size])) for size in last)
            finite = [number for number in numbers if math.isfinite(number) and number not in (0, 1)]
            random = np.random.default_rng(draw(st.integers(0, 99)))
            array = random.choice(np.array(finite, np.float64), shape)
            dtype = draw(st.sampled_from(["float64", "float32", "float16", "int32"]))
            options[name] = np.asarray(np.where(abs(array) < 1, 1, array) if dtype == "int32" else array).astype(dtype)
    return options


def _draw_unpooling(draw: Draw, shape: Shape, axes: Shape, named: Parameters) -> Parameters:
    """Indices, some of which name one cell or none, and the sizes of the output."""
    sizes: Any = draw(st.tuples(*[st.integers(1, 6)] * len(axes)))
    if named and draw(st.integers(0, 3)) == 3:
        sizes = sizes[0]
    cells = sizes ** len(axes) if isinstance(sizes, int) else math.prod(sizes)
    random = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = draw(st.sampled_from(["int32", "int32", "int64", "uint8", "int16"]))
    least = 0 if dtype == "uint8" else -2
    return {"indices": random.integers(least, cells + 2, shape).astype(dtype), "output_size": sizes, **named}


def _draw_mask(draw: Draw, shape: Shape) -> Any:
    if draw(st.integers(0, 7)) == 7:
        return draw(st.sampled_from([True, False, np.False_]))
    last = shape[draw(st.integers(0, len(shape))) :]
    held = np.random.default_rng(draw(st.integers(0, 99))).random(tuple(draw(st.sampled_from([1, n])) for n in last))
    return np.asarray(held < draw(st.sampled_from([0.8, 0.5, 0.2])))


def _draw_numbers(draw: Draw, function: str) -> tuple[str, str]:
    """The dtype of the array, and the kind of its cells."""
    dtypes = [FLOATS[0]] * 3 + [FLOATS[1]] * 2 + [draw(st.sampled_from(FLOATS[2:])), draw(st.sampled_from(INTEGERS))]
    if function in (*LINEAR, "max_unpool"):
        dtypes.append(draw(st.sampled_from(COMPLEX)))
    dtype = draw(st.sampled_from(dtypes))
    if dtype in FLOATS:
        return dtype, draw(st.sampled_from(list(FLOAT_KINDS)))
    if dtype in COMPLEX:
        return dtype, draw(st.sampled_from(COMPLEX_KINDS))
    # The reference, in float64, does not know how sums of extreme integers wrap.
    return dtype, draw(st.sampled_from(INTEGER_KINDS if function in (*ORDERED, "max_unpool") else INTEGER_KINDS[:-1]))


def _some(draw: Draw, **strategies: st.SearchStrategy[Any]) -> Parameters:
    """Each of these arguments, or not."""
    return {name: draw(strategy) for name, strategy in strategies.items() if draw(st.booleans())}
