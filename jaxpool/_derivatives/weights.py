"""Pools whose derivative is a weight for every pair of a window and a cell in it: norms and log-sum-exp.

Such a pool y = f(x, θ), with a number or array θ, is an associative fold: if θ is one number along the pooled axes,
pooling one axis after the other gives the same result as pooling all at once. A family defines the value, the weights
∂y/∂x and the terms of ∂y/∂θ; both derivative rules follow from these. In a *mean* each cell has a multiplicity: 0 if it
is absent, else the number of cells that it is the mean of, which is 1 along the first axis. A family may keep
its values as excesses over a *shift*, constant under differentiation; such pairs are the cells for the next axis.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxpool._derivatives.parameters import Parameter, either
from jaxpool._derivatives.rules import is_symbolic_zero
from jaxpool._engine.custom_rules import custom_rule
from jaxpool._engine.gather import Covered
from jaxpool._engine.linear_maps import LinearMap, apply_linear_map
from jaxpool._engine.maps import gather_windows, on_every_platform, sum_terms
from jaxpool._engine.operations import Arrays
from jaxpool._engine.stages import materialize
from jaxpool._geometry.window import Window

# The multiplicity of each cell and their sum in each window; None if all cells count once.
Multiplicities = tuple[jax.Array, jax.Array] | None
# The cells themselves, or their excesses and shifts.
Cells = tuple[jax.Array, ...]
Shift = jax.Array | None
# An array and its value outside.
Filled = tuple[Any, Any]
Residuals = tuple[Cells, Shift, jax.Array | None, Multiplicities, jax.Array]


@dataclass(frozen=True)
class WeightedPool:
    """One family, as functions of the cells x, the values y of the windows and the parameter θ.

    Attributes:
        value: y, less the shift if there is one, from x, θ, the window, the multiplicities, if any, and the shift.
        cells: what `weight` and `slope` need of x, elementwise, with the values for padded cells.
        outputs: what they need of y and the shift, elementwise, with the fills for windows outside: weights of 0.
        weight: ∂y/∂x from `cells`, `outputs` and θ.
        slope: the terms of ∂y/∂θ from the same, up to a factor that is the same for all cells of a window.
        slope_factor: that factor, from y and θ.
        shift: the shift of every window, from x.
        is_mean: whether weights and slopes are multiplied by the cell's share in the multiplicity of its window.
    """

    value: Callable[[Cells, Parameter, Window, Multiplicities, Shift], jax.Array]
    cells: Callable[[Cells, Window], list[Filled]]
    outputs: Callable[[jax.Array, Shift], list[Filled]]
    weight: Callable[[Cells, Cells, Parameter], jax.Array]
    slope: Callable[[Cells, Cells, Parameter], jax.Array]
    slope_factor: Callable[[jax.Array, Parameter], jax.Array]
    shift: Callable[[Cells, Window], jax.Array] | None = None
    is_mean: bool = False


# Notation: window o holds the cells W(o), y(o) = f({x(i) : i ∈ W(o)}, θ); a dot marks a tangent, a bar a cotangent.
# With w(i, o) = ∂y(o)/∂x(i), and s(i, o) the terms of ∂y(o)/∂θ,
#
#     ẏ(o) = Σ_{i ∈ W(o)} w(i, o) ẋ(i) + θ̇ Σ_{i ∈ W(o)} s(i, o)
#     x̄(i) = Σ_{o : i ∈ W(o)} w(i, o) ȳ(o)        θ̄ = Σ_o ȳ(o) Σ_{i ∈ W(o)} s(i, o)
#
# where the outer sum of θ̄ runs over the outputs that share θ. The first term of ẏ and x̄ are the two directions of
# `_Weights`. Weights are functions of x(i), y(o) and θ only, so only x, y and a shift are kept. For higher orders they
# are differentiated in turn, y by this same rule; excesses over a shift vary as x and y do. In a mean with
# multiplicities a(i) and A(o) = Σ_{i ∈ W(o)} a(i), w and s have a constant factor a(i)/A(o).


@custom_rule((3, 4, 5, 6))
def pool_part(
    cells: Cells,
    parameter: jax.Array | None,
    multiplicities: Multiplicities,
    window: Window,
    pool: WeightedPool,
    number: float | None,
    shift_dtype: Any,
) -> tuple[jax.Array, Shift]:
    """The values of windows that are taken at once, less the shift if there is one, and the shift."""

    def both(cells: Cells, parameter: jax.Array | None, multiplicities: Multiplicities) -> tuple[jax.Array, Shift]:
        shift = None if pool.shift is None else materialize(pool.shift(cells, window).astype(shift_dtype))

        def value(cells: Cells, shift: Shift, parameter: jax.Array | None, multiplicities: Multiplicities) -> jax.Array:
            return pool.value(cells, either(parameter, number), window, multiplicities, shift)

        # A mark for each number: otherwise two norms of one array would share ratios, and keep them in memory.
        given = cells, shift, parameter, multiplicities
        return on_every_platform(value, *given, in_stage=True, mark=repr(number)), shift

    return on_every_platform(both, cells, parameter, multiplicities)


@partial(pool_part.defjvp, symbolic_zeros=True)
def _pool_jvp(
    window: Window, pool: WeightedPool, number: float | None, shift_dtype: Any, primals: Any, tangents: Any
) -> Any:
    cells, parameter, multiplicities = primals
    (x_dot, *_), parameter_dot, _ = tangents
    y, shift = pool_part(cells, parameter, multiplicities, window, pool, number, shift_dtype)
    residuals = (cells, shift, parameter, multiplicities, y)
    terms = []
    if not is_symbolic_zero(x_dot):
        terms.append(apply_linear_map(_Weights(window, pool, number), x_dot, residuals, like=y))
    if parameter is not None and not is_symbolic_zero(parameter_dot):
        terms.append(_slopes(residuals, window, pool) * parameter_dot)
    y_dot = sum(terms[1:], terms[0]) if terms else jnp.zeros_like(y)
    return (y, shift), (y_dot, None if shift is None else jnp.zeros_like(shift))


@dataclass(frozen=True)
class _Weights(LinearMap):
    """The weighted sums of tangents, and their transpose."""

    window: Window
    pool: WeightedPool
    number: float | None

    residuals_vary = True

    def forward(self, tangent: jax.Array, residuals: Residuals, /) -> jax.Array:
        cells, shift, parameter, multiplicities, y = residuals
        pool, window = self.pool, self.window
        if multiplicities is not None:
            tangent = tangent * multiplicities[0]

        def total(
            tangent: jax.Array, cells: Cells, shift: Shift, y: jax.Array, parameter: jax.Array | None
        ) -> jax.Array:
            def term(cells: Arrays, windows: Arrays) -> jax.Array:
                parameter, *outputs = windows
                return self._weight(cells[:-1], tuple(outputs), parameter) * cells[-1]

            filled = [*pool.cells(cells, window), (tangent, 0)]
            return sum_terms(term, filled, window, None, [parameter, *(array for array, _ in pool.outputs(y, shift))])

        tangent = on_every_platform(total, tangent, cells, shift, y, parameter, in_stage=True)
        return tangent / _totals(window, multiplicities) if pool.is_mean else tangent

    def transpose(self, cotangent: jax.Array, residuals: Residuals, /) -> jax.Array:
        cells, shift, parameter, multiplicities, y = residuals
        pool, window = self.pool, self.window
        parameters: list[Filled] = [] if parameter is None else [(parameter, 1.0)]

        def contribution(_: jax.Array | int, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
            cotangents, *values = windows
            own = values.pop() if parameters else None
            weights = self._weight(cells, tuple(values), own)
            if covered is True:
                return cotangents * weights
            # Both are masked: otherwise 0 would multiply a NaN, in a derivative of the weights or in a cotangent.
            return jnp.where(covered, cotangents * jnp.where(covered, weights, 0), 0)

        # After y, and then y again: what is padded earlier would fill memory while others are computed.
        y = materialize(y, cotangent := materialize(cotangent, y))
        if pool.is_mean:
            cotangent = cotangent / _totals(window, multiplicities)
        outputs = [(cotangent, 0.0), *pool.outputs(y, shift), *parameters]
        x_bar = gather_windows(contribution, outputs, window, pool.cells(cells, window))
        return x_bar if multiplicities is None else x_bar * multiplicities[0]

    def _weight(self, cells: Cells, outputs: Cells, parameter: jax.Array | None) -> jax.Array:
        return self.pool.weight(cells, outputs, either(parameter, self.number))


def _totals(window: Window, multiplicities: Multiplicities) -> float | jax.Array:
    """The multiplicities of the windows, or 1 where they are 0."""
    return float(window.cells) if multiplicities is None else jnp.maximum(multiplicities[1], 1)


def _slopes(residuals: Residuals, window: Window, pool: WeightedPool) -> jax.Array:
    """∂y(o)/∂θ = Σ_i s(i, o)."""
    cells, shift, parameter, multiplicities, y = residuals
    assert parameter is not None

    def term(cells: Arrays, windows: Arrays) -> jax.Array:
        parameter, *outputs = windows
        return pool.slope(cells, tuple(outputs), parameter)

    multiplicity = None if multiplicities is None else multiplicities[0]
    windows = [parameter, *(array for array, _ in pool.outputs(y, shift))]
    terms = sum_terms(term, pool.cells(cells, window), window, multiplicity, windows)
    if pool.is_mean:
        terms /= _totals(window, multiplicities)
    return pool.slope_factor(y, parameter) * terms
