"""Sums over the cells of windows, in which every pair of a window and a cell has a weight, and their transpose.

Norms, log-sum-exp and soft means are such sums, or roots and logarithms of them, and so are all their derivatives. Here
are the sums, for several weights with one exponential, and the linear map that both modes of differentiation use.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxpool._derivatives.rules import LinearMap
from jaxpool._engine.gather import Covered
from jaxpool._engine.maps import gather_windows, on_every_platform
from jaxpool._engine.operations import Arrays
from jaxpool._engine.stages import marked, materialize
from jaxpool._engine.window_offsets import sum_over_offsets
from jaxpool._geometry.window import Window

# An array and its value outside.
Filled = tuple[Any, Any]


class Weights(abc.ABC):
    """Weights of pairs: elementwise functions of arrays of cells and of windows; static in the traced program."""

    @property
    def each(self) -> "tuple[Weights, ...]":
        """The weights one by one."""
        return (self,)

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name of the first one, different from those of all other weights of the same cells."""

    @abc.abstractmethod
    def fill_cells(self, cells: Arrays, window: Window) -> list[Filled]:
        """The arrays of cells, with their values in the padding."""

    @abc.abstractmethod
    def fill_windows(self, windows: Arrays) -> list[Filled]:
        """The arrays of windows, with their values for windows outside, of which all weights are finite."""

    def prepared(self, cells: Arrays, windows: Arrays) -> tuple[Arrays, Arrays]:
        """What the weights are computed from: elementwise functions of the arrays, which have the same fills."""
        return cells, windows

    @abc.abstractmethod
    def exponent_and_factors(self, cells: Arrays, windows: Arrays) -> tuple[jax.Array | None, Arrays]:
        """The exponent z and factors f from prepared arrays: weights are exp(z)·f, or f itself without an exponent."""


# Notation: window o holds the cells W(o); k are the weights, x(i) the arrays of cells, v(o) those of windows, a(i) the
# multiplicities; a bar marks a cotangent.
#
#     y_k(o) = Σ_{i ∈ W(o)} k(x(i), v(o))·a(i)        ā(i) = Σ_k Σ_{o : i ∈ W(o)} k(x(i), v(o))·ȳ_k(o)
#
# The CPU compiler stores expensive results that are read twice. So each exponential is read only once: the sums are
# separate stages, and in ā the factors are added first.


@dataclass(frozen=True)
class PairMap(LinearMap):
    """The sums y, linear in a, and their transpose; what several maps compute is shared only under the same `mark`."""

    weights: Weights
    window: Window
    mark: str = ""

    residuals_vary = True

    def forward(self, multiplicity: jax.Array, cells: Arrays, windows: Arrays, /) -> Arrays:

        def sum_on_platform(multiplicity: jax.Array, cells: Arrays, windows: Arrays) -> Arrays:
            of_cells = [*self.weights.fill_cells(cells, self.window), (multiplicity, 0.0)]
            return sum_pairs(self.weights, of_cells, windows, self.window, self.mark)

        return on_every_platform(sum_on_platform, multiplicity, cells, windows)

    def transpose(self, cotangents: Arrays, cells: Arrays, windows: Arrays, /) -> jax.Array:
        count = len(cotangents)

        def send_to_cell(_: jax.Array | int, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
            exponent, factors = self.weights.exponent_and_factors(cells, windows[count:])
            if covered is not True:
                # And the result, too: otherwise 0 would multiply a NaN, in a derivative of them or in a cotangent.
                factors = tuple(jnp.where(covered, factor, 0) for factor in factors)
            sent = [cotangent * factor for cotangent, factor in zip(windows[:count], factors, strict=True)]
            total = sum(sent[1:], sent[0])
            total = total if exponent is None else jnp.exp(exponent) * total
            return total if covered is True else jnp.where(covered, total, 0)

        # All of them, and then one after the other: what is padded earlier would fill memory while others are computed.
        cotangents = tuple(materialize(each, *windows) for each in cotangents)
        windows = tuple(materialize(each, *cotangents) for each in windows)
        cells = tuple(marked(each, f"back {self.mark} {self.weights.name}") for each in cells)
        cells, windows = self.weights.prepared(cells, windows)
        around = [*((each, 0.0) for each in cotangents), *self.weights.fill_windows(windows)]
        return gather_windows(send_to_cell, around, self.window, self.weights.fill_cells(cells, self.window))


def sum_pairs(weights: Weights, cells: Sequence[Filled], windows: Arrays, window: Window, mark: str) -> Arrays:
    """The sums; the last of the cells are the multiplicities, or None for 1."""
    *fills, outside = (fill for _, fill in cells)

    def sum_one(cells: Sequence[Any], windows: Arrays, weight: Weights) -> jax.Array:
        *cells, multiplicity = cells
        of_cells, of_windows = weight.prepared(tuple(cells), windows)

        def value(*cells: jax.Array) -> jax.Array:
            exponent, (factor,) = weight.exponent_and_factors(cells, of_windows)
            return factor if exponent is None else jnp.exp(exponent) * factor

        filled = list(zip(of_cells, fills, strict=True))
        if multiplicity is None:
            return sum_over_offsets(value, filled, window)
        return sum_over_offsets(
            lambda *cells: value(*cells[:-1]) * cells[-1], [*filled, (multiplicity, outside)], window
        )

    arrays, in_stage = [array for array, _ in cells], partial(on_every_platform, in_stage=True)
    return tuple(in_stage(partial(sum_one, weight=one), arrays, windows, mark=mark + one.name) for one in weights.each)
