"""Random calls: shapes, axes and all parameters of all functions together, most of them valid.

The position of windows is drawn in `call_windows`, and everything else here. Left out, because the reference in float64
is wrong for them: sums of integers near the end of their range, and infinite complex numbers. Left to separate tests:
exponents and sharpnesses that are large or near 0, which amplify rounding, and derivatives with respect to them.
"""

import inspect
import math
import typing
import zlib
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st

import jaxpool
from jaxpool._ranks.quantile_methods import QuantileMethod
from tests.random.call_checks import windows_of
from tests.random.call_windows import (
    Draw,
    Parameters,
    Shape,
    draw_axes,
    draw_bins,
    draw_boxes,
    draw_fractions,
    draw_levels,
    draw_windows,
    some,
)
from tests.registry.calls import (
    BOXES,
    COMPLEX,
    COMPLEX_KINDS,
    FLOAT_KINDS,
    FLOATS,
    FRACTIONAL,
    INTEGER_KINDS,
    INTEGERS,
    LINEAR,
    MODES,
    WEIGHTS,
    WITHOUT_MASK,
    WITHOUT_RULE,
    Call,
)

# Exponents and sharpnesses whose derivatives float32 holds to 1e-5: larger ones multiply the rounding of y.
EXPONENTS = (1, 2, math.inf, 3.0, 0.5, 1.25, 2.5, 0.3, 10.0, np.float32(1.5), np.int64(2), math.inf)
SHARPNESSES = (1, -1, 2.0, -2.5, 0.5, 0.05, -0.2, 12.0, -12.0, np.float32(0.5), np.int32(-1))
SHARES = (0.5, 0.25, -0.5, 2, np.float32(0.75), np.int64(3))
NUMBERS: dict[str, tuple[Any, ...]] = {
    "norm_type": EXPONENTS,
    "beta": (0, *SHARPNESSES),
    "alpha": (0, 1, *SHARES),
}
QUANTILES = (0.5, 0, 1, 0.25, 0.75, 0.3, 0.9, np.float64(0.6))
WEIGHTS_OF_CELLS, LOGITS = (0.0, 0.25, 1.0, 3.0, 1e30), (-1e4, -2.0, 0.0, 0.5, 3.0, 1e4)
CORRECTIONS = (0, 1, 0.5, 3, np.int64(1))
DIVISORS = (1, 3, -2.5, 0.75, np.int64(4), np.float32(0.5))
MOST_CELLS = 400


# From the tenth example on, earlier ones are varied a little. With fewer at a time all are drawn independently, except
# the first, which is always the simplest call.
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
    """This many different calls, the same ones every time."""
    found: dict[str, Call] = {}
    rounds = 0
    while len(found) < count:
        collect = hypothesis.given(strategy)(lambda call: found.update({repr(call): call}))
        hypothesis.seed(zlib.crc32(f"{seed} {rounds}".encode()))(SETTINGS(collect))()
        rounds += 1
    return list(found.values())[:count]


@st.composite
def calls(draw: Draw, function: str, most_cells: int = MOST_CELLS) -> Call:
    """A call of the function, with an array of at most this many cells."""
    shape, axes, axis = draw_axes(draw, most_cells)
    named: Parameters = {} if axis is None else {"axis": axis}
    if function == "max_unpool":
        parameters = _draw_unpooling(draw, shape, axes, named)
    elif function == "spatial_pyramid_pool":
        parameters = draw_levels(draw, shape, axes, named) | some(draw, kind=st.sampled_from(["max", "avg"]))
    elif function in FRACTIONAL:
        parameters = draw_fractions(draw, function, shape, axes, named)
    elif function in BOXES:
        parameters = draw_boxes(draw, function, shape, axes, named)
    elif function.startswith("global"):
        parameters = {"axis": axes, **named, **some(draw, keepdims=st.booleans())}
        if function == "global_gem_pool":
            bounds = st.sampled_from([None, 0, 0.25, np.float32(0.5)])
            parameters |= {"norm_type": draw(st.sampled_from(EXPONENTS)), **some(draw, eps=bounds)}
    elif function.startswith("adaptive"):
        parameters = draw_bins(draw, shape, axes, named)
    else:
        parameters = draw_windows(draw, function, shape, axes, named)
        along = windows_of(Call(function, shape, parameters))
        parameters |= _draw_options(draw, function, tuple(len(along.get(a, range(n))) for a, n in enumerate(shape)))
    others = [a for a in range(len(shape)) if a not in axes]
    if others and draw(st.integers(0, 11)) == 11:
        empty = draw(st.sampled_from(others))
        shape = tuple(0 if a == empty else size for a, size in enumerate(shape))
        parameters |= _without_cells(parameters, shape, [shape[a] for a in others])
    if function not in WITHOUT_RULE:
        parameters |= some(draw, rule=st.sampled_from(["jvp", "vjp"]))
    if function in WEIGHTS:
        parameters[WEIGHTS[function]] = _draw_weights(draw, shape, function == "attention_pool")
    if function not in WITHOUT_MASK and draw(st.booleans()):
        parameters["where"] = _draw_mask(draw, shape)
    dtype, cells = _draw_numbers(draw, Call(function, shape, parameters))
    mode = draw(st.sampled_from([MODES[0], MODES[0], MODES[1], MODES[2]]))
    return Call(function, shape, parameters, dtype, cells, draw(st.integers(0, 99)), mode)


def _without_cells(parameters: Parameters, shape: Shape, others: list[int]) -> Parameters:
    """The replacements for arrays whose shape depends on that of x, when x becomes an array without cells."""
    replaced: Parameters = {}
    for name, given in parameters.items():
        if name == "indices":
            replaced[name] = np.zeros(shape, np.int32)
        elif name == "samples":
            replaced[name] = np.zeros((*others, given.shape[-1]), given.dtype)
        elif name in ("norm_type", "beta", "alpha") and isinstance(given, np.ndarray):
            # An array of one number per window would no longer broadcast.
            replaced[name] = 2.0
    return replaced


def _draw_options(draw: Draw, function: str, output_shape: Shape) -> Parameters:
    """The arguments specific to this function."""
    options: Parameters = {}
    arguments = inspect.signature(getattr(jaxpool, function)).parameters
    if "count_include_pad" in arguments:
        options |= some(draw, count_include_pad=st.booleans())
    if function == "avg_pool":
        options |= some(draw, divisor_override=st.none() | st.sampled_from(DIVISORS))
    if "correction" in arguments:
        options |= some(draw, correction=st.sampled_from(CORRECTIONS))
    if function == "quantile_pool":
        options["q"] = draw(st.sampled_from(QUANTILES) | st.lists(st.sampled_from(QUANTILES), min_size=1, max_size=3))
        options |= some(draw, method=st.sampled_from(typing.get_args(QuantileMethod)))
    if "k" in arguments:
        options["k"] = draw(st.integers(1, 6))
    for name in arguments.keys() & NUMBERS:
        numbers = SHARPNESSES if function == "smooth_max_pool" else NUMBERS[name]
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
    if named:
        sizes = tuple(max(size, -(-shape[a] // 2)) for size, a in zip(sizes, axes, strict=True))
    if named and draw(st.integers(0, 3)) == 3:
        sizes = max(sizes)
    # Without axes all are not pooled, and no size is smaller than that of the values.
    if not named and (2 < len(axes) == len(shape) or any(sizes[n] < shape[a] for n, a in enumerate(axes))):
        named = {"axis": axes}
        sizes = tuple(max(size, -(-shape[a] // 2)) for size, a in zip(sizes, axes, strict=True))
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


def _draw_weights(draw: Draw, shape: Shape, exponents: bool) -> np.ndarray:
    last = shape[draw(st.integers(0, len(shape))) :]
    numbers = LOGITS if exponents else WEIGHTS_OF_CELLS
    random = np.random.default_rng(draw(st.integers(0, 99)))
    drawn = random.choice(numbers, tuple(draw(st.sampled_from([1, n])) for n in last))
    return np.asarray(drawn).astype(draw(st.sampled_from(["float64", "float32"])))


def _draw_numbers(draw: Draw, call: Call) -> tuple[str, str]:
    """The dtype of the array, and the kind of its cells."""
    dtypes = [FLOATS[0]] * 3 + [FLOATS[1]] * 2 + [draw(st.sampled_from(FLOATS[2:])), draw(st.sampled_from(INTEGERS))]
    if call.function in (*LINEAR, "max_unpool"):
        dtypes.append(draw(st.sampled_from(COMPLEX)))
    dtype = draw(st.sampled_from(dtypes))
    if dtype in FLOATS:
        return dtype, draw(st.sampled_from(list(FLOAT_KINDS)))
    if dtype in COMPLEX:
        return dtype, draw(st.sampled_from(COMPLEX_KINDS))
    # The reference, in float64, does not wrap sums of extreme integers.
    return dtype, draw(st.sampled_from(INTEGER_KINDS if call.is_exact else INTEGER_KINDS[:-1]))
