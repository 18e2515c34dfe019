"""What a quantile of n numbers is: every definition in use, as a place among the sorted numbers and a mean there.

The numbers around place h, counted from 0, are those of ranks ⌊h⌋ and ⌊h⌋ + 1, the first and the last one beyond the
ends. The definitions that `np.quantile` has, of which nine are those of Hyndman and Fan, "Sample quantiles in
statistical packages", The American Statistician 1996, differ in h and in the weight of the second number.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxpool._checks import check_no_mask

QuantileMethod = Literal[
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "linear",
    "median_unbiased",
    "normal_unbiased",
    "lower",
    "higher",
    "midpoint",
    "nearest",
]


class _Method(NamedTuple):
    """A definition: h = q·(n + 1 - α - β) + α - 1, the weight of the second number for ⌊h⌋ and h - ⌊h⌋, and its kind.

    The weight is elementwise in arrays. A method that does not average takes one of the two numbers.
    """

    alpha: float
    beta: float
    weight: Callable[[Any, Any], Any] = lambda lower, part: part
    averages: bool = True


_METHODS: dict[str, _Method] = {
    "inverted_cdf": _Method(0, 1, lambda lower, part: part > 0, averages=False),
    "averaged_inverted_cdf": _Method(0, 1, lambda lower, part: ((part > 0).astype(part.dtype) + 1) / 2),
    # Halfway between two numbers, the one whose number from 1 is even; in "nearest", whose number from 0 is.
    "closest_observation": _Method(-0.5, 1.5, lambda lower, part: (part > 0) | (lower % 2 == 0), averages=False),
    "interpolated_inverted_cdf": _Method(0, 1),
    "hazen": _Method(0.5, 0.5),
    "weibull": _Method(0, 0),
    "linear": _Method(1, 1),
    "median_unbiased": _Method(1 / 3, 1 / 3),
    "normal_unbiased": _Method(3 / 8, 3 / 8),
    "lower": _Method(1, 1, lambda lower, part: part < 0, averages=False),
    "higher": _Method(1, 1, lambda lower, part: part > 0, averages=False),
    "midpoint": _Method(1, 1, lambda lower, part: (part > 0).astype(part.dtype) / 2),
    "nearest": _Method(1, 1, lambda lower, part: (part > 0.5) | ((part == 0.5) & (lower % 2 == 1)), averages=False),
}


@dataclass(frozen=True)
class Quantile:
    """Which quantile: `q` in [0, 1], and `method`, how to go between two cells."""

    q: float
    method: str

    @property
    def averages(self) -> bool:
        """Whether it may be a mean of two cells."""
        return _METHODS[self.method].averages

    def ranks(self, counts: Any, most: int) -> tuple[Any, Any, Any]:
        """The ranks of the two cells around the quantile of so many cells, and the weight of the second.

        On a cell, its rank twice and the weight 0. The numbers are at most `most`, in a NumPy array or a JAX array,
        whose results are in int32, and in float32 unless JAX has wider floats.
        """
        xp, alpha, beta, weight_of = jnp if isinstance(counts, jax.Array) else np, *_METHODS[self.method][:3]
        first, part = _place(counts, most, Fraction(self.q), self.q * (1 - alpha - beta) + alpha - 1, xp)
        weight = weight_of(first, part).astype(part.dtype)
        lower, upper = (xp.clip(rank, 0, xp.maximum(counts - 1, 0)) for rank in (first, first + 1))
        is_one = (weight == 0) | (weight == 1)
        alone = xp.where(weight == 1, upper, lower)
        lower, upper = xp.where(is_one, alone, lower), xp.where(is_one, alone, upper)
        return lower, upper, xp.where(lower < upper, weight, 0)


def _place(counts: Any, most: int, slope: Fraction, shift: float, xp: Any) -> tuple[Any, Any]:
    """⌊h⌋ and h - ⌊h⌋ for h = slope·n + shift, in integers, as float32 has no digits for the h of a million cells.

    Fractions have the bits of half an integer. slope·n is a sum over the bits of n, with a carry after every one.
    """
    bits = 8 * jax.dtypes.canonicalize_dtype(np.int64).itemsize - 2
    integers = np.dtype(f"int{bits + 2}")

    def fixed(number: Fraction) -> tuple[Any, Any]:
        whole, part = divmod(round(number * 2**bits), 2**bits)
        return np.array(whole, integers)[()], np.array(part, integers)[()]

    counts = counts.astype(integers)
    first, part = (xp.full_like(counts, each) for each in fixed(Fraction(shift)))
    for bit in range(most.bit_length()):
        whole, fraction = fixed(slope * 2**bit)
        is_set = (counts >> bit) & 1
        part = part + is_set * fraction
        first = first + is_set * whole + (part >> bits)
        part = part & (2**bits - 1)
    # 0.14·50 must be 7, not the next number, which "higher" would round to 8; "nearest" rounds halves as well.
    half = 2 ** (bits - 1)
    # 1e-12 of the numbers that there are, and the rounding of the sum.
    near = counts * (2**bits // 10**12) + counts // (10**12 // 2**bits + 1) + 2 * most.bit_length()
    nearest = (part + half // 2) // half * half
    part = xp.where(abs(part - nearest) <= near, nearest, part)
    first, part = first + (part >> bits), part & (2**bits - 1)
    return first.astype(np.int32), part.astype(np.float64 if bits > 32 else np.float32) / 2**bits


def make_quantiles(function: str, q: Any, method: Any) -> tuple[Quantile, ...]:
    """The quantiles; raise if q holds anything but numbers from 0 to 1, or the method is unknown."""
    check_no_mask(function, "q", q)
    if isinstance(q, (jax.Array, np.ndarray)):
        given, fix = ("a traced value", "") if isinstance(q, jax.core.Tracer) else ("an array", ", as in tuple(q)")
        raise TypeError(
            f"{function}: q must be a Python number or a sequence of them, got {given}; give a number or a tuple{fix}"
        )
    if isinstance(q, Sequence) and not isinstance(q, str) and not q:
        raise ValueError(f"{function}: q must be a number or several, got {q!r}; use 0.5 for the median")
    if not isinstance(method, str) or method not in _METHODS:
        raise ValueError(
            f"{function}: method {method!r} is unknown; use 'linear' (a weighted mean of two), 'lower' or 'higher', or "
            f"another one of np.quantile: {', '.join(map(repr, _METHODS))}"
        )
    return tuple(Quantile(_checked(function, each), method) for each in (q if is_several(q) else (q,)))


def is_several(q: Any) -> bool:
    """Whether q is a sequence of quantiles, not a single one."""
    return isinstance(q, Sequence) and not isinstance(q, str)


def _checked(function: str, q: Any) -> float:
    if isinstance(q, (bool, np.bool_)) or not isinstance(q, (int, float, np.integer, np.floating)):
        raise TypeError(f"{function}: q must be a number from 0 to 1, got {q!r}; use 0.5 for the median")
    if not 0 <= q <= 1:
        hint = f"; percent {q} is q={float(q) / 100:g}" if 1 < q <= 100 else "; use 0.5 for the median"
        raise ValueError(f"{function}: q must be from 0 to 1, got {q}{hint}")
    return float(q)
