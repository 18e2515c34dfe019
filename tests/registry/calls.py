"""One call of any function, as data: what random tests draw, and others write; and what it is for it to be right.

A `Call` holds everything that decides the outcome. Its array is not stored but made from a kind of cells and a seed,
and the printed form of a call is the Python expression that makes it again. Values, indices, reverse mode and forward
mode are compared with the reference in float64, to the precision of each dtype. A call that the definitions exclude
must raise a TypeError or ValueError that names the function.
"""

import itertools
import math
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxpool
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.reference import oracle, positions
from tests.registry.records import RECORDS, names

FUNCTIONS = tuple(RECORDS)
BLURS = names(lambda record: record.windows == "blurred")
FRACTIONAL = names(lambda record: record.windows == "random")
BOXES = names(lambda record: record.windows == "boxes")
ORDERED = tuple(name for name, rule in oracle.RULES.items() if rule in (oracle.largest, oracle.smallest))
RANKED = ("median_pool", "quantile_pool", "top_k_pool", "top_k_pool_with_indices")
# Those of equal cells are 0, and padding takes no part unless it is asked to.
MOMENTS = ("var_pool", "std_pool")
# The arguments that broadcast to the array.
WEIGHTS = {"weighted_pool": "weights", "attention_pool": "logits"}
# The methods of quantiles that take a cell, without a mean of two.
TAKING = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
SELECTING = names(lambda record: record.selects)
LINEAR = names(lambda record: record.linear and record.has_mask)

# How a call is run: compiled fast with only x as an argument, compiled as usual with all arrays as arguments, or
# operation by operation.
MODES = ("compiled", "traced", "eager")
FLOATS = ("float64", "float32", "bfloat16", "float16")
INTEGERS = ("int32", "uint8", "bool", "int8", "int16", "int64", "uint32")
COMPLEX = ("complex128", "complex64")

Generator = np.random.Generator
Shape = tuple[int, ...]


def _distinct(random: Generator, shape: Shape) -> np.ndarray:
    count = math.prod(shape)
    order = random.permutation(count).reshape(shape)
    return (order - count // 2 + 0.25) * (6 / max(count, 1))


def _ties(random: Generator, shape: Shape) -> np.ndarray:
    return random.integers(-1, 2, shape).astype(np.float64)


def _zeros(random: Generator, shape: Shape) -> np.ndarray:
    return np.where(random.random(shape) < 0.8, random.choice([0.0, -0.0], shape), random.choice([1.0, -1.5], shape))


def _infinite(random: Generator, shape: Shape) -> np.ndarray:
    signs = ([1.0], [-1.0], [1.0, -1.0])[random.integers(3)]
    infinities = math.inf * random.choice(signs, shape)
    return np.where(random.random(shape) < random.choice([0.2, 0.7]), infinities, _distinct(random, shape))


# Kinds of cells, the simplest first. Integers have no NaN or infinities, but have extremes.
FLOAT_KINDS: dict[str, Callable[[Generator, Shape], np.ndarray]] = {
    "ties": _ties,
    "distinct": _distinct,
    "constant": lambda random, shape: np.full(shape, random.choice([1.0, -2.5, 0.0])),
    "zeros": _zeros,
    "nan": lambda random, shape: np.where(random.random(shape) < 0.25, math.nan, _ties(random, shape)),
    "infinite": _infinite,
    "mixed": lambda random, shape: random.choice([-math.inf, math.inf, math.nan, 0.0, -0.0, 1.0], shape),
}
INTEGER_KINDS = ("ties", "distinct", "constant", "zeros", "extreme")
# NumPy's division of complex infinities makes the other part NaN, so the reference is of no use there.
COMPLEX_KINDS = ("ties", "distinct", "constant", "zeros", "nan")


@dataclass(frozen=True, eq=False)
class Call:
    """A function, the array it gets and all of its other arguments.

    Attributes:
        function: its name.
        shape: of the array.
        parameters: the other arguments, by name; all arrays are NumPy's.
        dtype: of the array.
        cells: the kind of numbers in the array.
        seed: for these numbers, and for tangents and cotangents.
        mode: how it is run, one of `MODES`.
        arbitrary: whether arguments were combined without regard to what the function allows.
    """

    function: str
    shape: Shape
    parameters: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float64"
    cells: str = "ties"
    seed: int = 0
    mode: str = "compiled"
    arbitrary: bool = False

    @property
    def x(self) -> np.ndarray:
        """The array; cells that a mask leaves out hold NaN and infinities, or extreme integers."""
        random, dtype = np.random.default_rng(self.seed), np.dtype(self.dtype)
        if jnp.issubdtype(dtype, np.complexfloating):
            x = np.empty(self.shape, dtype)
            x.real, x.imag = (FLOAT_KINDS[self.cells](random, self.shape) for _ in range(2))
        elif self.is_inexact:
            x = np.asarray(FLOAT_KINDS[self.cells](random, self.shape)).astype(dtype)
        else:
            x = _integers(random, self.shape, dtype, self.cells)
        mask = self.parameters.get("where")
        if mask is None or self.arbitrary:
            return x
        hidden = [math.nan, math.inf, -math.inf] if self.is_inexact else _extremes(dtype)
        return np.where(mask, x, np.resize(np.array(hidden).astype(dtype), self.shape))

    @property
    def is_inexact(self) -> bool:
        """Whether there is anything to differentiate."""
        return jnp.issubdtype(np.dtype(self.dtype), np.inexact)

    @property
    def is_exact(self) -> bool:
        """Whether values are cells, without any rounding."""
        if self.parameters.get("kind", "max") != "max":
            return False
        return self.function in SELECTING or self.parameters.get("method") in TAKING

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arguments besides x that can be traced."""
        return {name: value for name, value in self.parameters.items() if isinstance(value, np.ndarray)}

    def outputs(self, x: Any, **arrays: Any) -> tuple[Any, Any]:
        """Values, and indices or None, of the function at x; `arrays` take the place of parameters."""
        outputs = getattr(jaxpool, self.function)(x, **{**self.parameters, **arrays})
        return outputs if isinstance(outputs, tuple) else (outputs, None)

    @property
    def expected(self) -> oracle.Pooled:
        """The result of the reference for the same arguments."""
        parameters = {name: value for name, value in self.parameters.items() if name != "rule"}
        x = self.x
        # NumPy has no arithmetic for bfloat16. Keys draw float64 numbers only for float64 arrays.
        return oracle.evaluate(self.function, x if x.dtype.kind in "cfiub" else x.astype(np.float32), **parameters)

    def direction(self, shape: Shape, seed: int) -> np.ndarray:
        """A tangent or cotangent of x's dtype."""
        random = np.random.default_rng((self.seed, seed))
        both = [random.normal(size=shape) for _ in range(2)]
        complex_part = 1j * both[1] if np.dtype(self.dtype).kind == "c" else 0
        return (both[0] + complex_part).astype(self.dtype)

    def __repr__(self) -> str:
        positional = ", ".join(expression(one) for one in (self.function, self.shape, self.parameters))
        plain = Call("", ())
        named = "".join(
            f", {name}={expression(getattr(self, name))}"
            for name in ("dtype", "cells", "seed", "mode", "arbitrary")
            if getattr(self, name) != getattr(plain, name)
        )
        return f"Call({positional}{named})"


def expression(value: Any) -> str:
    """The Python expression of an argument."""
    if isinstance(value, np.ndarray):
        dtype = expression(str(value.dtype))
        return f"np.array({expression(value.tolist())}, {dtype})" if value.size else f"np.zeros({value.shape}, {dtype})"
    if isinstance(value, np.generic):
        return f"np.{type(value).__name__}({expression(value.item())})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{expression(key)}: {expression(one)}" for key, one in value.items()) + "}"
    if type(value).__name__ in ("Bins", "Whole"):
        return f"jaxpool.{value}"
    if type(value).__name__ == "Footprint":
        return f"jaxpool.footprint({expression(value.held)})"
    if isinstance(value, (tuple, list)):
        entries = ", ".join(expression(one) for one in value)
        if isinstance(value, list):
            return f"[{entries}]"
        return f"({entries},)" if len(value) == 1 else f"({entries})"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{'-' if value < 0 else ''}np.{'nan' if math.isnan(value) else 'inf'}"
    return repr(value)


def _integers(random: Generator, shape: Shape, dtype: np.dtype, kind: str) -> np.ndarray:
    if kind == "extreme":
        return np.asarray(random.choice(_extremes(dtype), shape))
    if kind == "distinct":
        numbers = random.permutation(math.prod(shape)).reshape(shape) - math.prod(shape) // 2
    else:
        numbers = np.asarray(FLOAT_KINDS[kind](random, shape)).round().astype(np.int64)
    if dtype == np.bool_:
        return np.asarray(numbers > 0)
    return np.asarray(abs(numbers) if dtype.kind == "u" else numbers).astype(dtype)


def _extremes(dtype: np.dtype) -> np.ndarray:
    if dtype == np.bool_:
        return np.array([False, True])
    return np.array([np.iinfo(dtype).min, 0, np.iinfo(dtype).max], dtype)


Outcome = dict[str, np.ndarray]
Windows = dict[int, list[list[int | None]]]

# Pools whose weights are differences of numbers, or of positions and cells: small weights have the rounding error of
# large ones, so the error of a value is bounded by this many times the largest cell.
ROUNDED_WEIGHTS = {"soft_pool": 1, "mixed_pool": 1, "var_pool": 1, "std_pool": 1, "roi_align": 4}


def check(call: Call) -> bool:
    """Compare the call with the reference; return whether the function accepts it.

    One call in three runs with the lowerings of this machine's platform, one with a GPU's, one with a TPU's.
    """
    platform: Any = ("", "gpu", "tpu")[zlib.crc32(repr(call).encode()) % 3]
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        found, refusal = None, None
        try:
            with jaxpool.compiling_for(platform) if platform else nullcontext():
                found = outcome(call)
        except (TypeError, ValueError) as error:
            refusal = error
        if found is None:
            assert type(refusal) in (TypeError, ValueError), f"refused by an exception of its own: {refusal!r}"
            assert str(refusal).startswith(f"{call.function}: "), f"refused without the function's name: {refusal!r}"
            assert call.arbitrary or not is_defined(call), f"refused, but defined: {refusal!r}"
            return False
        assert call.arbitrary or is_defined(call), "accepted, but not defined"
        with np.errstate(all="ignore"):
            compare(call, found)
    return True


def is_defined(call: Call) -> bool:
    """Whether the definitions give these windows a value; everything else about the call is valid."""
    if call.function in FRACTIONAL:
        names = ("kernel_size", "output_size", "output_ratio", "axis")
        windows = positions.windows(call.shape, **{name: call.parameters.get(name) for name in names})
        return all(1 <= count <= call.shape[a] - kernel + 1 for a, kernel, count in zip(*windows, strict=True))
    kernel: Any = call.parameters.get("kernel_size")
    kind = type(kernel).__name__
    if kind in ("NoneType", "Bins", "Whole"):
        return True
    needs_cells = call.function in (*ORDERED, *RANKED, *WEIGHTS, "mixed_pool") or (
        not call.parameters.get("count_include_pad", call.function not in MOMENTS)
        and call.parameters.get("divisor_override") is None
    )
    along = windows_of(call)
    if not (needs_cells and all(along.values())):
        return all(along.values())
    real = [[[cell is not None for cell in window] for window in along[a]] for a in sorted(along)]
    if kind != "Footprint":
        return all(any(window) for windows in real for window in windows)
    axes, _ = oracle.axes_and_sizes(len(call.shape), kernel.shape, call.parameters.get("axis"))
    held = kernel.held.transpose(np.argsort(axes))
    return all(held[np.ix_(*windows)].any() for windows in itertools.product(*real))


def windows_of(call: Call) -> Windows:
    """The windows along each pooled axis; for blurred maxima those of the maxima, if there are any."""
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "axis")
    given = {name: call.parameters[name] for name in names if name in call.parameters}
    kernel = given["kernel_size"]
    kind = type(kernel).__name__
    if kind in ("Bins", "Whole"):
        return oracle.kernel_bins(call.shape, getattr(kernel, "sizes", (1,)), given.get("axis"))
    if kind == "Footprint":
        given["kernel_size"] = kernel.shape
    if call.function in BLURS:
        given = {"stride": 2, "padding": "REFLECT"} | given
    if call.function != "max_blur_pool":
        return oracle.sliding(call.shape, **given)
    kernels, axis = given["kernel_size"], given.get("axis")
    maxima = oracle.sliding(call.shape, kernels, 1, dilation=given.get("dilation", 1), axis=axis)
    if not all(maxima.values()):
        return maxima
    shape = tuple(len(maxima.get(a, range(size))) for a, size in enumerate(call.shape))
    axes, _ = oracle.axes_and_sizes(len(shape), kernels, axis)
    strides = kernels if given["stride"] is None else given["stride"]
    blurs, ceil_mode = call.parameters.get("blur_size", 3), given.get("ceil_mode", False)
    return oracle.sliding(shape, blurs, strides, given["padding"], ceil_mode=ceil_mode, axis=axes)


def outcome(call: Call) -> Outcome:
    """The library's result for the call."""
    x = call.x
    arrays = call.arrays if call.mode == "traced" else {}
    values, _ = jax.eval_shape(call.outputs, x, **arrays)
    tangent, cotangent = call.direction(call.shape, 0), call.direction(values.shape, 1)

    def everything(x: Any, arrays: dict[str, Any], tangent: Any, cotangent: Any) -> dict[str, Any]:
        def pool(x: Any) -> Any:
            return call.outputs(x, **arrays)

        if not call.is_inexact:
            values, indices = pool(x)
            return {"values": values, "indices": indices}
        values, pull_back, indices = jax.vjp(pool, x, has_aux=True)
        found = {"values": values, "indices": indices, "reverse mode": pull_back(cotangent)[0]}
        if call.parameters.get("rule") != "vjp":
            found["forward mode"] = jax.jvp(lambda x: pool(x)[0], (x,), (tangent,))[1]
        return found

    compiled = {"compiled": compiled_fast, "traced": compiled_as_usual, "eager": lambda function: function}[call.mode](
        everything
    )
    found = compiled(x, arrays, tangent, cotangent)
    return {what: np.asarray(result) for what, result in found.items() if result is not None}


def compare(call: Call, found: Outcome) -> None:
    """Compare every part of the outcome with the reference."""
    expected = call.expected
    values = found["values"]
    dtype = values.dtype
    assert dtype == _dtype_of_values(call), f"values: of dtype {dtype}"
    if not jnp.issubdtype(dtype, np.inexact):
        # Integers wrap.
        wrapped = expected.values.astype(np.int64).astype(dtype) if call.function == "sum_pool" else expected.values
        _hold("values", values.astype(np.float64), wrapped.astype(np.float64), 0)
    else:
        tolerance = 0 if call.is_exact else _tolerance(call, dtype, expected.values, _magnitudes(call, expected))
        _hold("values", values, expected.values, tolerance)
    if "indices" in found:
        assert found["indices"].dtype == np.int32, f"indices: of dtype {found['indices'].dtype}"
        _hold("indices", found["indices"], expected.indices, 0)
    # The rounding error of sums of these derivatives is bounded by the sums of magnitudes.
    absolute = replace(expected, entries=[(output, cell, abs(slope)) for output, cell, slope in expected.entries])
    for what, direction, reference, magnitudes in (
        ("reverse mode", call.direction(values.shape, 1), expected.backward, absolute.backward),
        ("forward mode", call.direction(call.shape, 0), expected.forward, absolute.forward),
    ):
        if what in found:
            wide = direction.astype(np.result_type(expected.values))
            derivative = reference(wide)
            # A window with NaN has NaN weights; no convention says what these do to its cells.
            bound = ~np.isnan(derivative)
            assert found[what].dtype == call.x.dtype, f"{what}: of dtype {found[what].dtype}"
            assert found[what].shape == derivative.shape, f"{what}: of shape {found[what].shape}"
            terms = np.abs(magnitudes(np.abs(wide)))
            terms = terms + ROUNDED_WEIGHTS.get(call.function, 0) * _largest(terms)
            tolerance = _tolerance(call, call.x.dtype, derivative, terms)
            _hold(what, np.where(bound, found[what], 0), np.where(bound, derivative, 0), tolerance)


def _dtype_of_values(call: Call) -> Any:
    if call.is_exact or call.is_inexact:
        return np.dtype(call.dtype)
    if call.function == "sum_pool":
        return np.int32 if call.dtype == "bool" else np.dtype(call.dtype)
    return np.float32


def _magnitudes(call: Call, expected: oracle.Pooled) -> np.ndarray:
    """The magnitudes of the terms of every value."""
    x = np.abs(call.x.astype(np.complex128 if np.dtype(call.dtype).kind == "c" else np.float64))
    terms = replace(expected, entries=[(output, cell, abs(slope)) for output, cell, slope in expected.entries])
    magnitudes = np.abs(terms.forward(np.where(np.isfinite(x), x, 0))) + np.abs(expected.values)
    if call.function in ("smooth_max_pool", "mellowmax_pool"):
        # The logarithm is of a number of cells.
        beta = np.abs(call.parameters["beta"])
        magnitudes = magnitudes + 10 / np.where(beta == 0, 1, beta)
    return magnitudes + ROUNDED_WEIGHTS.get(call.function, 0) * _largest(x)


def _largest(numbers: np.ndarray) -> Any:
    return np.max(numbers, where=np.isfinite(numbers), initial=0)


def _tolerance(call: Call, dtype: Any, expected: np.ndarray, magnitudes: np.ndarray) -> np.ndarray:
    """Rounding in the dtype of the arithmetic, and for small floats the single rounding of the result."""
    wide = dtype in (np.float64, np.complex128)
    numbers = jnp.finfo(dtype)
    linear = call.function in LINEAR
    relative = (1e-13 if linear else 1e-10) if wide else (2e-6 if linear else 1e-5)
    last_place = float(numbers.eps) * np.abs(expected) if numbers.bits == 16 else 0
    return np.where(np.isfinite(magnitudes), relative * magnitudes, 0) + last_place + 2 * float(numbers.tiny)


def _hold(what: str, found: np.ndarray, expected: np.ndarray, tolerance: Any) -> None:
    assert found.shape == expected.shape, f"{what}: of shape {found.shape}, expected {expected.shape}"
    found = found.astype(np.result_type(expected))
    right = (found == expected) | (np.isnan(found) & np.isnan(expected)) | (np.abs(found - expected) <= tolerance)
    wrong = np.argwhere(~right)
    if len(wrong):
        place = tuple(int(one) for one in wrong[0])
        raise AssertionError(
            f"{what}: {len(wrong)} of {right.size} are wrong, the first at {place}: "
            f"found {found[place]}, expected {expected[place]}"
        )
