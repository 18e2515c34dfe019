"""What a quantile of n numbers is: every definition in use, as a place among the sorted numbers and a mean there.

The numbers around place h, counted from 0, are those of ranks ⌊h⌋ and ⌊h⌋ + 1, the first and the last one beyond the
ends. The definitions that `np.quantile` has, of which nine are those of Hyndman and Fan, "Sample quantiles in
statistical packages", The American Statistician 1996, differ in h and in the weight of the second number.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.core
import numpy as np

from jaxpool._arrays import check_no_mask

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

    A method that does not average takes one of the two numbers.
    """

    alpha: float
    beta: float
    weight: Callable[[int, float], float] = lambda lower, part: part
    averages: bool = True


_METHODS: dict[str, _Method] = {
    "inverted_cdf": _Method(0, 1, lambda lower, part: part > 0, averages=False),
    "averaged_inverted_cdf": _Method(0, 1, lambda lower, part: 1 if part > 0 else 0.5),
    # Halfway between two numbers, the one whose number from 1 is even; in "nearest", whose number from 0 is.
    "closest_observation": _Method(-0.5, 1.5, lambda lower, part: part > 0 or lower % 2 == 0, averages=False),
    "interpolated_inverted_cdf": _Method(0, 1),
    "hazen": _Method(0.5, 0.5),
    "weibull": _Method(0, 0),
    "linear": _Method(1, 1),
    "median_unbiased": _Method(1 / 3, 1 / 3),
    "normal_unbiased": _Method(3 / 8, 3 / 8),
    "lower": _Method(1, 1, lambda lower, part: 0, averages=False),
    "higher": _Method(1, 1, lambda lower, part: part > 0, averages=False),
    "midpoint": _Method(1, 1, lambda lower, part: 0.5 if part > 0 else 0),
    "nearest": _Method(1, 1, lambda lower, part: part > 0.5 or (part == 0.5 and lower % 2 == 1), averages=False),
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

    def ranks(self, cells: int) -> tuple[int, int, float]:
        """The ranks of the two cells around the quantile and the weight of the second; on a cell, its rank twice, 0."""
        alpha, beta, weight_of, _ = _METHODS[self.method]
        place = self.q * (cells + 1 - alpha - beta) + alpha - 1
        # 0.14·50 must be 7, not the next float, which "higher" would round to 8; "nearest" rounds halves as well.
        if abs(2 * place - round(2 * place)) <= 2e-12 * cells:
            place = round(2 * place) / 2
        first = math.floor(place)
        weight = float(weight_of(first, place - first))
        lower, upper = (min(max(rank, 0), cells - 1) for rank in (first, first + 1))
        if weight in (0, 1):
            lower = upper = upper if weight else lower
        return lower, upper, weight if lower < upper else 0.0


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
