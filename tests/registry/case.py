"""One row of the registry, and the arrays and masks that rows are made of."""

import math
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

import jaxpool
from tests.reference import oracle
from tests.registry.records import RECORDS


@dataclass(frozen=True, eq=False)
class Case:
    """One call of one function: `parameters` are all of its arguments but the array and the rule."""

    function: str
    geometry: str
    shape: tuple[int, ...]
    parameters: dict[str, Any]

    @property
    def name(self) -> str:
        """Unique among all rows."""
        options = {key: value for key, value in self.parameters.items() if key not in _PLACING}
        own = "-".join(f"{key}={np.shape(value) or value}" for key, value in options.items())
        return f"{self.function}-{self.geometry}" + (f"-{own}" if own else "")

    @cached_property
    def x(self) -> np.ndarray:
        """The input, the same in every run; masked cells hold NaN and infinities."""
        x, mask = distinct(self.shape, self.name), self.parameters.get("where", True)
        return np.where(mask, x, np.resize([math.nan, math.inf, -math.inf], self.shape))

    @cached_property
    def expected(self) -> oracle.Pooled:
        """The result of the reference for `x`."""
        return self.reference(self.x)

    def reference(self, x: Any) -> oracle.Pooled:
        """The result of the reference for another input."""
        return oracle.evaluate(self.function, x, **self.parameters)

    def outputs(self, x: Any, rule: str = "jvp") -> Any:
        """The outputs of the function; functions that JAX differentiates take no rule."""
        rules = {"rule": rule} if RECORDS[self.function].has_rule else {}
        return self.call(x, **rules, **self.parameters)

    def call(self, x: Any, **parameters: Any) -> Any:
        """The outputs of the function for other parameters."""
        return getattr(jaxpool, self.function)(x, **parameters)

    def values(self, x: Any, rule: str = "jvp") -> jax.Array:
        """Only the values, for functions that return more."""
        outputs = self.outputs(x, rule)
        return outputs[0] if isinstance(outputs, tuple) else outputs


# Arguments that place windows, which the name of the geometry stands for; all others are in the name of a row.
_PLACING = (
    *("kernel_size", "stride", "padding", "dilation", "ceil_mode", "axis", "output_size", "output_ratio"),
    *("key", "samples", "boxes", "sampling_ratio", "aligned", "indices"),
)


def distinct(shape: tuple[int, ...], seed: str, spread: float = 6.0) -> np.ndarray:
    """Equally spaced numbers between ±spread/2, none of which is 0, in an order that depends on the seed."""
    count = math.prod(shape)
    order = np.random.default_rng(zlib.crc32(seed.encode())).permutation(count)
    return ((order - count // 2 + 0.25) * (spread / count)).reshape(shape)


def mask(*shape: int) -> np.ndarray:
    """A random mask, of which a corner of 3 cells along each axis is False."""
    kept = np.random.default_rng(len(shape)).random(shape) < 0.6
    kept[tuple(slice(3) for _ in shape)] = False
    return kept


def weights(*shape: int) -> np.ndarray:
    """Random weights between 0 and 2."""
    return 2 - np.random.default_rng(len(shape) + 7).random(shape) * 2
