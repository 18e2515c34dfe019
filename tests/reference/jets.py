"""Pools of jets: third derivatives along three directions at once, exactly and without automatic differentiation.

A jet is a number a + Σ a[S]·Π ε[s] over the sets S of directions 1, 2 and 3, where every ε[s]² is 0. Arithmetic with
jets gives f(x + ε1·u + ε2·v + ε3·w), whose part at {1, 2, 3} is the third derivative of f along u, v and w, and whose
other parts are the derivatives of lower orders. Each pool is a formula of the cells of one window, from the definition,
but for boxes and morphology, which come last; pools without a formula are piecewise linear, and need none.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.reference import filters, oracle
from tests.reference.oracle_windows import axes_and_sizes

# Sets of directions are numbers of 3 bits.
SETS = range(8)


class Jet:
    """An array of such numbers, in extended precision; `parts` has a first axis for the sets."""

    __array_ufunc__ = None

    def __init__(self, parts: Any) -> None:
        self.parts = np.asarray(parts, np.longdouble)

    @classmethod
    def of(cls, number: Any) -> "Jet":
        """The same number, if it is a jet, or a constant."""
        if isinstance(number, Jet):
            return number
        value = np.asarray(number, np.longdouble)
        return cls(np.stack([value, *[np.zeros_like(value)] * 7]))

    @property
    def value(self) -> np.ndarray:
        """The numbers themselves."""
        return self.parts[0]

    def __getitem__(self, index: Any) -> "Jet":
        return Jet([part[index] for part in self.parts])

    def __add__(self, other: Any) -> "Jet":
        return Jet(np.stack([one + two for one, two in zip(self.parts, Jet.of(other).parts, strict=True)]))

    def __mul__(self, other: Any) -> "Jet":
        one, two = self.parts, Jet.of(other).parts
        return Jet(
            np.stack([sum(one[part] * two[each ^ part] for part in SETS if part & each == part) for each in SETS])
        )

    def __neg__(self) -> "Jet":
        return Jet(-self.parts)

    def __sub__(self, other: Any) -> "Jet":
        return self + -Jet.of(other)

    def __truediv__(self, other: Any) -> "Jet":
        number = Jet.of(other)
        one = 1 / number.value
        return self * number.applied(one, -(one**2), 2 * one**3, -6 * one**4)

    __radd__, __rmul__ = __add__, __mul__

    def sum(self) -> "Jet":
        """The sum along the first axis."""
        return Jet(self.parts.sum(1))

    def applied(self, *derivatives: Any) -> "Jet":
        """A function with this value and these three derivatives at the value."""
        rest = Jet([np.zeros_like(self.value), *self.parts[1:]])
        terms, power = Jet.of(derivatives[0]), Jet.of(1.0)
        for order, derivative in enumerate(derivatives[1:], 1):
            power = power * rest
            terms = terms + power * (derivative / math.factorial(order))
        return terms

    def exp(self) -> "Jet":
        """The exponentials."""
        return self.applied(*[np.exp(self.value)] * 4)

    def log(self) -> "Jet":
        """The logarithms of positive numbers."""
        one = 1 / self.value
        return self.applied(np.log(self.value), one, -(one**2), 2 * one**3)

    def abs(self) -> "Jet":
        """The magnitudes of numbers that are not 0."""
        return self * np.sign(self.value)

    def power(self, exponent: Any) -> "Jet":
        """For positive numbers."""
        return (self.log() * exponent).exp()


# A rule gets the cells of a window, padding as 0, and which are real; a window without cells never gets here.


def _held(cells: Jet, real: np.ndarray, count_include_pad: bool) -> Jet:
    return cells if count_include_pad else cells[real]


def _norm(cells: Jet, real: np.ndarray, norm_type: Any, mean_of: float = 1) -> Jet:
    magnitudes = cells[cells.value != 0].abs()
    if not magnitudes.value.size:
        return Jet.of(0.0)
    if not isinstance(norm_type, Jet) and norm_type == math.inf:
        return magnitudes[int(magnitudes.value.argmax())]
    total = magnitudes.power(norm_type).sum() / mean_of
    return total.power(Jet.of(1.0) / norm_type)


def _power_mean(cells: Jet, real: np.ndarray, norm_type: Any, count_include_pad: bool = True) -> Jet:
    is_largest = not isinstance(norm_type, Jet) and norm_type == math.inf
    held = _held(cells, real, count_include_pad)
    return _norm(held, real, norm_type, 1 if is_largest else held.value.size)


def _bounded_power_mean(cells: Jet, real: np.ndarray, norm_type: Any, eps: float | None = 1e-6) -> Jet:
    if eps is not None:
        cells = Jet(np.where(cells.value <= eps, Jet.of(np.full(cells.value.shape, eps)).parts, cells.parts))
    return _power_mean(cells, real, norm_type)


def _smooth(cells: Jet, real: np.ndarray, beta: Any, count_include_pad: bool = True) -> Jet:
    return (_held(cells, real, count_include_pad) * beta).exp().sum().log() / beta


def _mellowmax(cells: Jet, real: np.ndarray, beta: Any, count_include_pad: bool = True) -> Jet:
    held = _held(cells, real, count_include_pad)
    count = held.value.size
    if not isinstance(beta, Jet) and beta == 0:
        return held.sum() / count
    return ((held * beta).exp().sum() / count).log() / beta


def _softened(cells: Jet, real: np.ndarray, beta: Any, count_include_pad: bool = True) -> Jet:
    held = _held(cells, real, count_include_pad)
    weights = (held * beta).exp()
    return (weights * held).sum() / weights.sum()


def _mixed(cells: Jet, real: np.ndarray, alpha: Any, count_include_pad: bool = True) -> Jet:
    present, held = cells[real], _held(cells, real, count_include_pad)
    if not real.any():
        return Jet.of(0.0)
    largest = present[int(present.value.argmax())]
    mean = held.sum() / held.value.size
    return mean + (largest - mean) * alpha


def _mean_of_draws(cells: Jet, real: np.ndarray) -> Jet:
    positive = cells[cells.value > 0]
    return (positive * positive).sum() / positive.sum() if positive.value.size else Jet.of(0.0)


def _weighted_mean(cells: Jet, real: np.ndarray, weights: Jet) -> Jet:
    return (weights[real] * cells[real]).sum() / weights[real].sum()


def _attention(cells: Jet, real: np.ndarray, logits: Jet) -> Jet:
    return _weighted_mean(cells, real, (logits - logits.value[real].max()).exp())


def _variance(cells: Jet, real: np.ndarray, correction: float = 0, count_include_pad: bool = False) -> Jet:
    held = _held(cells, real, count_include_pad)
    count = held.value.size
    if count <= correction:
        return Jet.of(0.0)
    deviations = held - held.sum() / count
    return (deviations * deviations).sum() / (count - correction)


def _deviation(cells: Jet, real: np.ndarray, **options: Any) -> Jet:
    variance = _variance(cells, real, **options)
    return variance.power(0.5) if variance.value > 1e-30 else Jet.of(0.0)


RULES: dict[str, Callable[..., Jet]] = {
    "lp_pool": _norm,
    "gem_pool": _power_mean,
    "global_gem_pool": _bounded_power_mean,
    "smooth_max_pool": _smooth,
    "mellowmax_pool": _mellowmax,
    "soft_pool": _softened,
    "mixed_pool": _mixed,
    "stochastic_pool": _mean_of_draws,
    "var_pool": _variance,
    "std_pool": _deviation,
    "weighted_pool": _weighted_mean,
    "attention_pool": _attention,
}


def evaluate(function: str, jets: dict[str, Jet], **parameters: Any) -> Jet:
    """The named function of jets by name, `x` and some of the parameters, and of the other parameters.

    Without a rule of its own it is piecewise linear in x: its value, and its Jacobian there.
    """
    x = jets["x"]
    if "boxes" in jets:
        return _aligned(x, jets["boxes"], **parameters)
    if function in CHAINS:
        return CHAINS[function](x, jets["element"])
    if function not in RULES:
        pooled = oracle.evaluate(function, x.value.astype(np.float64), **parameters)
        return Jet([pooled.values, *(pooled.forward(np.asarray(part, np.float64)) for part in x.parts[1:])])
    along_cells = {name: _broadcast(jets[name], x.value.shape) for name in ("weights", "logits") if name in jets}
    along_windows = {name: jet for name, jet in jets.items() if name not in ("x", *along_cells)}
    # The reference tells which cells windows hold, and which of the numbers each window has.
    numbers: dict[str, Any] = {
        name: np.arange(jet.value.size).reshape(jet.value.shape) for name, jet in along_windows.items()
    }
    results: list[Jet] = []

    def rule(cells: np.ndarray, real: np.ndarray, **here: Any) -> tuple[float, np.ndarray]:
        places = cells.astype(int)
        chosen = {name: _flat(jet)[int(here.pop(name))] for name, jet in along_windows.items()}
        chosen |= {name: _flat(jet)[places] for name, jet in along_cells.items()}
        window = Jet(np.where(real, _flat(x)[places].parts, 0))
        counted = here.get("count_include_pad", function not in _WITHOUT_PADDING)
        has_cell = len(cells) > 0 if counted else bool(real.any())
        results.append(RULES[function](window, real, **chosen, **here) if has_cell else Jet.of(0.0))
        return 0.0, np.zeros(len(cells))

    places = np.arange(x.value.size).reshape(x.value.shape)
    pool = oracle.whole if function.startswith("global") else oracle.pool
    shape = pool(rule, places, **parameters, **numbers).values.shape
    return Jet(np.stack([result.parts for result in results], 1).reshape(8, *shape))


_WITHOUT_PADDING = ("var_pool", "std_pool", "weighted_pool", "attention_pool")


def _flat(jet: Jet) -> Jet:
    return Jet(jet.parts.reshape(8, -1))


def _broadcast(jet: Jet, shape: tuple[int, ...]) -> Jet:
    return Jet(np.stack([np.broadcast_to(part, shape) for part in jet.parts]))


def _aligned(x: Jet, boxes: Jet, output_size: tuple[int, ...], sampling_ratio: int = 2, aligned: bool = True) -> Jet:
    """`roi_align` over the last axes: means of samples, each interpolated between the cells around it."""
    axes, counts = axes_and_sizes(x.value.ndim, output_size, None)
    shape = (len(boxes.value), *x.value.shape[: axes[0]], *counts)
    results = []
    for box, *place in np.ndindex(shape):
        batch, bins = tuple(place[: axes[0]]), place[axes[0] :]
        samples = {batch: Jet.of(1.0)}
        for number, (axis, count) in enumerate(zip(axes, counts, strict=True)):
            low, high = boxes[box, number], boxes[box, number + len(axes)]
            length = high - low
            if aligned:
                low = low - 0.5
            elif length.value < 1:
                length = Jet.of(1.0)
            along: dict[tuple[int, ...], Jet] = {}
            for sample in range(sampling_ratio):
                share = (bins[number] + (sample + 0.5) / sampling_ratio) / count
                for cell, weight in _interpolated(low + length * share, x.value.shape[axis]).items():
                    for before, other in samples.items():
                        found = along.get((*before, cell), Jet.of(0.0))
                        along[*before, cell] = found + other * weight / sampling_ratio
            samples = along
        results.append(sum((weight * x[cell] for cell, weight in samples.items()), Jet.of(0.0)))
    return Jet(np.stack([result.parts for result in results], 1).reshape(8, *shape))


def _interpolated(position: Jet, size: int) -> dict[int, Jet]:
    if position.value < -1 or position.value > size:
        return {}
    if position.value < 0 or position.value >= size - 1:
        return {0 if position.value < 0 else size - 1: Jet.of(1.0)}
    below = int(position.value)
    above = position - below
    return {below: Jet.of(1.0) - above, below + 1: above}


def _extremes(x: Jet, element: Jet, sign: int) -> Jet:
    """The dilation for sign 1, the erosion for -1: the sum of a cell and a height, which the reference chooses."""
    winners = filters.extremes(x.value.astype(np.float64), element.value.astype(np.float64), sign).winners
    results = [
        Jet.of(0.0) if chosen is None else x[chosen[0]] + element[chosen[1]] * sign for chosen in winners.values()
    ]
    return Jet(np.stack([result.parts for result in results], 1).reshape(x.parts.shape))


def _opening(x: Jet, element: Jet) -> Jet:
    return _extremes(_extremes(x, element, -1), element, 1)


def _closing(x: Jet, element: Jet) -> Jet:
    return _extremes(_extremes(x, element, 1), element, -1)


CHAINS: dict[str, Callable[[Jet, Jet], Jet]] = {
    "dilation": lambda x, element: _extremes(x, element, 1),
    "erosion": lambda x, element: _extremes(x, element, -1),
    "opening": _opening,
    "closing": _closing,
    "white_top_hat": lambda x, element: x - _opening(x, element),
    "black_top_hat": lambda x, element: _closing(x, element) - x,
    "gradient": lambda x, element: _extremes(x, element, 1) - _extremes(x, element, -1),
}
