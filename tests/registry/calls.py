"""One call of one function, as data: what random tests draw, check and print.

A `Call` holds everything that decides the outcome. Its array is not stored but made from a kind of cells and a seed,
and the printed form of a call is the Python expression that makes it again.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxpool
from tests.reference import oracle
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
WITHOUT_RULE = names(lambda record: not record.has_rule)
WITHOUT_MASK = names(lambda record: not record.has_mask)

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
