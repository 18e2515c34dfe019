"""Pools whose derivative is a weight for every pair of a window and a cell in it: norms and log-sum-exp.

Such a pool y = f(x, θ), with a number or array θ, is an associative fold: if θ is one number along the pooled axes,
pooling one axis after the other gives the same result as pooling all at once. A family defines the value, the weights
∂y/∂x and the terms of ∂y/∂θ; both derivative rules follow from these. In a *mean* each cell has a multiplicity: 0 if it
is absent, else the number of cells that it is the mean of, which is 1 along the first axis. A family may keep its
values as excesses over a *shift*, constant under differentiation; such pairs are the cells for the next axis.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxpool._derivatives.padded_zeros import sums_with_zeros
from jaxpool._derivatives.residuals import exponentials_order, terms_order
from jaxpool._derivatives.rules import is_symbolic_zero, with_rule
from jaxpool._engine.gather import Covered
from jaxpool._engine.linear_maps import LinearMap, apply_linear_map
from jaxpool._engine.maps import gather_windows, on_every_platform, sum_terms
from jaxpool._engine.operations import Arrays
from jaxpool._engine.platforms import on_one_device
from jaxpool._engine.stages import materialize
from jaxpool._engine.window_offsets import sum_over_offsets
from jaxpool._geometry.window import Window
from jaxpool._sharding import vary_together

Parameter = float | jax.Array
# The multiplicity of each cell and their sum in each window; None if all cells count once.
Multiplicities = tuple[jax.Array, jax.Array] | None
# The cells themselves, or their excesses and shifts.
Cells = tuple[jax.Array, ...]
Shift = jax.Array | None
# Arrays of cells or of windows, and the fill for those outside.
Filled = list[tuple[jax.Array, float]]
Residuals = tuple[Cells, Shift, jax.Array | None, Multiplicities, jax.Array]


@dataclass(frozen=True)
class WeightedPool:
    """One family, as functions of the cells x, the values y of the windows and the parameter θ.

    Attributes:
        value: y, less the shift if there is one, from x, θ, the window, the multiplicities of a mean and the shift.
        cells: what `weight` and `slope` need of x, elementwise, with the values for padded cells.
        outputs: what they need of y and the shift, elementwise, with the fills for windows outside: weights of 0.
        weight: ∂y/∂x from `cells`, `outputs` and θ.
        slope: the terms of ∂y/∂θ from the same, up to a factor that is the same for all cells of a window.
        slope_factor: that factor, from y and θ.
        shift: the shift of every window, from x.
        is_mean: whether weights and slopes are multiplied by the cell's share in the multiplicity of its window.
        stages_on_many_devices: whether each axis is a stage even if arrays may be on many devices. Not if x has been
            extended by padding: devices that share an axis would have to divide its new size to pass it on.
    """

    value: Callable[[Cells, Parameter, Window, Multiplicities, Shift], jax.Array]
    cells: Callable[[Cells, Window], Filled]
    outputs: Callable[[jax.Array, Shift], Filled]
    weight: Callable[[Cells, Cells, Parameter], jax.Array]
    slope: Callable[[Cells, Cells, Parameter], jax.Array]
    slope_factor: Callable[[jax.Array, Parameter], jax.Array]
    shift: Callable[[Cells, Window], jax.Array] | None = None
    is_mean: bool = False
    stages_on_many_devices: bool = True


def weighted_pool(
    x: jax.Array,
    parameter: jax.Array | None,
    window: Window,
    pool: WeightedPool,
    number: float | None,
    rule: str,
    multiplicity: jax.Array | None = None,
    shift_dtype: Any = None,
) -> jax.Array:
    """Pool x with the parameter `number`, or with the array `parameter` if `number` is None.

    For a mean, `multiplicity` is that of every cell, of full size along the pooled axes; None means 1. Shifts have
    dtype `shift_dtype`.
    """
    in_turn = (terms_order if pool.shift is None else exponentials_order)(window)
    if parameter is None:
        parts = in_turn
    else:
        shape = window.output_shape(x.shape)
        parameter = expand_rank(parameter, x.ndim)
        if shared_along_windows(parameter, window):
            parts = in_turn
            shape = [1 if n in [axis.axis for axis in window.axes] else size for n, size in enumerate(shape)]
        else:
            parts = (window,)
        parameter = jnp.broadcast_to(parameter, shape)
        x, parameter = vary_together(x, parameter)

    shift_of = pool.shift

    def pooled(x: jax.Array, parameter: jax.Array | None, multiplicity: jax.Array | None) -> jax.Array:
        cells: Cells = (x,)
        shift: Shift = None
        for part in parts:
            if shift_of is not None:
                shift = materialize(shift_of(cells, part).astype(shift_dtype))
            total = None if multiplicity is None else sums_with_zeros(multiplicity, part)
            multiplicities = None if multiplicity is None or total is None else (multiplicity, total)
            y = _pool(cells, shift, parameter, multiplicities, part, pool, number)
            cells, multiplicity = (y,) if shift is None else (y, shift), total
        return cells[0] if shift is None else cells[0] + shift.astype(cells[0].dtype)

    return with_rule(rule, pooled)(x, parameter, multiplicity)


def expand_rank(parameter: jax.Array, rank: int) -> jax.Array:
    """Add leading axes of size 1 to the parameter, up to this rank."""
    return parameter.reshape((1,) * (rank - parameter.ndim) + parameter.shape)


def shared_along_windows(parameter: jax.Array, window: Window) -> bool:
    """Whether the parameter, of full rank, is one number along the pooled axes."""
    return all(parameter.shape[axis.axis] == 1 for axis in window.axes)


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


@partial(jax.custom_jvp, nondiff_argnums=(4, 5, 6))
def _pool(
    cells: Cells,
    shift: Shift,
    parameter: jax.Array | None,
    multiplicities: Multiplicities,
    window: Window,
    pool: WeightedPool,
    number: float | None,
) -> jax.Array:
    def value(cells: Cells, shift: Shift, parameter: jax.Array | None, multiplicities: Multiplicities) -> jax.Array:
        return pool.value(cells, _either(parameter, number), window, multiplicities, shift)

    # A mark for each number: otherwise two norms of one array would share ratios, and keep them in memory.
    arrays = cells, shift, parameter, multiplicities
    widely = pool.stages_on_many_devices
    return on_every_platform(value, *arrays, in_stage=True, on_many_devices=widely, mark=repr(number))


@partial(_pool.defjvp, symbolic_zeros=True)
def _pool_jvp(window: Window, pool: WeightedPool, number: float | None, primals: Any, tangents: Any) -> Any:
    cells, shift, parameter, multiplicities = primals
    (x_dot, *_), _, parameter_dot, _ = tangents
    y = _pool(cells, shift, parameter, multiplicities, window, pool, number)
    residuals = (cells, shift, parameter, multiplicities, y)
    terms = []
    if not is_symbolic_zero(x_dot):
        terms.append(apply_linear_map(_Weights(window, pool, number), x_dot, residuals, like=y))
    if parameter is not None and not is_symbolic_zero(parameter_dot):
        terms.append(_slopes(residuals, window, pool) * parameter_dot)
    return y, sum(terms[1:], terms[0]) if terms else jnp.zeros_like(y)


def _either(parameter: jax.Array | None, number: float | None) -> Parameter:
    if parameter is not None:
        return parameter
    assert number is not None
    return number


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
            outputs = tuple(array for array, _ in pool.outputs(y, shift))

            def term(*arrays: jax.Array) -> jax.Array:
                return self._weight(arrays[:-1], outputs, parameter) * arrays[-1]

            return sum_over_offsets(term, [*pool.cells(cells, window), (tangent, 0)], window)

        arrays = tangent, cells, shift, y, parameter
        tangent = on_every_platform(total, *arrays, in_stage=True, on_many_devices=pool.stages_on_many_devices)
        return tangent / _totals(window, multiplicities) if pool.is_mean else tangent

    def transpose(self, cotangent: jax.Array, residuals: Residuals, /) -> jax.Array:
        cells, shift, parameter, multiplicities, y = residuals
        pool, window = self.pool, self.window
        parameters: Filled = [] if parameter is None else [(parameter, 1.0)]

        def contribution(_: jax.Array | int, covered: Covered, windows: Arrays, cells: Arrays) -> jax.Array:
            cotangents, *values = windows
            own = values.pop() if parameters else None
            weights = self._weight(cells, tuple(values), own)
            if covered is True:
                return cotangents * weights
            # Both are masked: otherwise 0 would multiply a NaN, in a derivative of the weights or in a cotangent.
            return jnp.where(covered, cotangents * jnp.where(covered, weights, 0), 0)

        if pool.stages_on_many_devices or on_one_device():
            # After y, and then y again: what is padded earlier would fill memory while others are computed.
            y = materialize(y, cotangent := materialize(cotangent, y))
        if pool.is_mean:
            cotangent = cotangent / _totals(window, multiplicities)
        outputs = [(cotangent, 0.0), *pool.outputs(y, shift), *parameters]
        x_bar = gather_windows(contribution, outputs, window, pool.cells(cells, window))
        return x_bar if multiplicities is None else x_bar * multiplicities[0]

    def _weight(self, cells: Cells, outputs: Cells, parameter: jax.Array | None) -> jax.Array:
        return self.pool.weight(cells, outputs, _either(parameter, self.number))


def _totals(window: Window, multiplicities: Multiplicities) -> float | jax.Array:
    """The multiplicities of the windows, or 1 where they are 0."""
    return float(window.cells) if multiplicities is None else jnp.maximum(multiplicities[1], 1)


def _slopes(residuals: Residuals, window: Window, pool: WeightedPool) -> jax.Array:
    """∂y(o)/∂θ = Σ_i s(i, o)."""
    cells, shift, parameter, multiplicities, y = residuals
    assert parameter is not None
    outputs = tuple(array for array, _ in pool.outputs(y, shift))
    multiplicity = None if multiplicities is None else multiplicities[0]
    filled = pool.cells(cells, window)
    terms = sum_terms(lambda *cells: pool.slope(cells, outputs, parameter), filled, window, multiplicity)
    if pool.is_mean:
        terms /= _totals(window, multiplicities)
    return pool.slope_factor(y, parameter) * terms
