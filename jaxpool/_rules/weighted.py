"""Pools whose derivative is a weight for every pair of a window and a cell of it: norms and log-sum-exp.

Such a pool y = f(x, θ), with a number or array θ, is an associative fold: pooling one axis after the other gives
the same as pooling all of them at once, as long as θ is one number along the pooled axes. A family says what
the value, the weights ∂y/∂x and the terms of ∂y/∂θ are; both derivative rules follow from that here. In a *mean*
each cell stands for an amount of cells, 0 for one that is absent and as many as it is the mean of on a later axis.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._engine.gather import Held
from jaxpool._engine.linear_maps import LinearMap, apply_linear_map
from jaxpool._engine.maps import evaluate, gather_windows, reduce_windows, sum_terms, terms_order
from jaxpool._engine.operations import Arrays
from jaxpool._engine.stages import finish
from jaxpool._engine.taps import pad_windows, sum_over_taps
from jaxpool._geometry.window import Window
from jaxpool._rules.reverse import with_rule
from jaxpool._sharding import vary_together

Parameter = float | jax.Array
# The amount of each cell and the sum of the amounts of each window; none where all cells count once.
Amounts = tuple[jax.Array, jax.Array] | None
Residuals = tuple[jax.Array, jax.Array | None, Amounts, jax.Array]


@dataclass(frozen=True)
class WeightedPool:
    """One family, as functions of the cells x, the values y of the windows and the parameter θ.

    Attributes:
        value: y from x, θ, the window and, for a mean, the amounts.
        cells: what `weight` and `slope` need of x, elementwise.
        outputs: what they need of y, elementwise, and what stands for a window outside, whose weights must be 0.
        weight: ∂y/∂x from the two and θ.
        slope: the terms of ∂y/∂θ from the two and θ, up to a factor that is the same for all cells of a window.
        slope_factor: that factor, from y and θ.
        fill: what padded cells hold.
        is_mean: whether weights and slopes are to be multiplied by the cell's share in the amount of its window.
        in_stages: whether each axis is a stage of the program. Not where x has been extended by padding: devices that
            share an axis would have to divide its new size evenly to hand it to a stage.
    """

    value: Callable[[jax.Array, Parameter, Window, Amounts], jax.Array]
    cells: Callable[[jax.Array], jax.Array]
    outputs: Callable[[jax.Array], tuple[jax.Array, float]]
    weight: Callable[[jax.Array, jax.Array, Parameter], jax.Array]
    slope: Callable[[jax.Array, jax.Array, Parameter], jax.Array]
    slope_factor: Callable[[jax.Array, Parameter], jax.Array]
    fill: float
    is_mean: bool = False
    in_stages: bool = True


def weighted_pool(
    x: jax.Array,
    parameter: jax.Array | None,
    window: Window,
    pool: WeightedPool,
    number: float | None,
    rule: str,
    amount: jax.Array | None = None,
) -> jax.Array:
    """Pool x with the parameter `number`, or with the array `parameter` where `number` is None.

    A mean takes the `amount` of every cell, whole along the pooled axes; None is 1.
    """
    in_turn = terms_order(window)
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
    for part in parts:
        step = with_rule(rule, partial(_pool, window=part, pool=pool, number=number))
        total = None if amount is None else reduce_windows(amount, part, lax.add)
        x = step(x, parameter, None if amount is None or total is None else (amount, total))
        amount = total
    return x


def expand_rank(parameter: jax.Array, rank: int) -> jax.Array:
    """The parameter with leading axes of size 1 up to the rank of the array it goes with."""
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
# `_Weights`. Weights are functions of x(i), y(o) and θ alone, so that nothing but x and y is kept, and they are
# differentiated in turn for the higher orders, y by this same rule. In a mean of amounts a(i), with
# A(o) = Σ_{i ∈ W(o)} a(i), w and s carry a factor a(i)/A(o), which is constant.


@partial(jax.custom_jvp, nondiff_argnums=(3, 4, 5))
def _pool(
    x: jax.Array,
    parameter: jax.Array | None,
    amounts: Amounts,
    window: Window,
    pool: WeightedPool,
    number: float | None,
) -> jax.Array:
    def value(x: jax.Array, parameter: jax.Array | None, amounts: Amounts) -> jax.Array:
        return pool.value(x, _either(parameter, number), window, amounts)

    # Another mark for another number, as two norms of one array would share ratios, and keep them in memory.
    return evaluate(value, x, parameter, amounts, in_stage=pool.in_stages, mark=repr(number))


@partial(_pool.defjvp, symbolic_zeros=True)
def _(window: Window, pool: WeightedPool, number: float | None, primals: Any, tangents: Any) -> Any:
    x, parameter, amounts = primals
    x_dot, parameter_dot, _ = tangents
    y = _pool(x, parameter, amounts, window, pool, number)
    residuals = (x, parameter, amounts, y)
    terms = []
    if not is_zero(x_dot):
        terms.append(apply_linear_map(_Weights(window, pool, number), x_dot, residuals, like=y))
    if parameter is not None and not is_zero(parameter_dot):
        terms.append(_slopes(residuals, window, pool) * parameter_dot)
    return y, sum(terms[1:], terms[0]) if terms else jnp.zeros_like(y)


def _either(parameter: jax.Array | None, number: float | None) -> Parameter:
    if parameter is not None:
        return parameter
    assert number is not None
    return number


def is_zero(tangent: Any) -> bool:
    """Whether a tangent that came as a symbol is known to be 0."""
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero)


@dataclass(frozen=True)
class _Weights(LinearMap):
    """The sums of tangents by their weights, and the way back to the cells."""

    window: Window
    pool: WeightedPool
    number: float | None

    residuals_vary = True

    def forward(self, tangent: jax.Array, residuals: Residuals, /) -> jax.Array:
        x, parameter, amounts, y = residuals
        pool, window = self.pool, self.window
        if amounts is not None:
            tangent = tangent * amounts[0]

        def total(tangent: jax.Array, x: jax.Array, y: jax.Array, parameter: jax.Array | None) -> jax.Array:
            outputs, _ = pool.outputs(y)
            padded = [pad_windows(pool.cells(x), window, pool.fill), pad_windows(tangent, window, 0)]
            weight = partial(self._weight, parameter=parameter)
            return sum_over_taps(lambda cells, tangent: weight(cells, outputs) * tangent, padded, window)

        tangent = evaluate(total, tangent, x, y, parameter, in_stage=pool.in_stages)
        return tangent / _totals(window, amounts) if pool.is_mean else tangent

    def transpose(self, cotangent: jax.Array, residuals: Residuals, /) -> jax.Array:
        x, parameter, amounts, y = residuals
        pool, window = self.pool, self.window

        def contribution(_: jax.Array | int, held: Held, windows: Arrays, cells: Arrays) -> jax.Array:
            cotangents, values, *parameters = windows
            weights = self._weight(cells[0], values, parameters[0] if parameters else None)
            if held is True:
                return cotangents * weights
            # Both are masked: a derivative of the weights is multiplied by 0 where only the product is, and may be NaN.
            return jnp.where(held, cotangents * jnp.where(held, weights, 0), 0)

        if pool.in_stages:
            # After y: cotangents that are padded before would lie in memory while y is computed.
            cotangent = finish(cotangent, y)
        if pool.is_mean:
            cotangent = cotangent / _totals(window, amounts)
        outputs = [(cotangent, 0.0), pool.outputs(y), *([] if parameter is None else [(parameter, 1.0)])]
        x_bar = gather_windows(contribution, outputs, window, [(pool.cells(x), pool.fill)])
        return x_bar if amounts is None else x_bar * amounts[0]

    def _weight(self, cells: jax.Array, outputs: jax.Array, parameter: jax.Array | None) -> jax.Array:
        return self.pool.weight(cells, outputs, _either(parameter, self.number))


def _totals(window: Window, amounts: Amounts) -> float | jax.Array:
    """The amounts of the windows, 1 for those that have none."""
    return float(window.cells) if amounts is None else jnp.maximum(amounts[1], 1)


def _slopes(residuals: Residuals, window: Window, pool: WeightedPool) -> jax.Array:
    """∂y(o)/∂θ = Σ_i s(i, o)."""
    x, parameter, amounts, y = residuals
    assert parameter is not None
    outputs, _ = pool.outputs(y)
    amount = None if amounts is None else amounts[0]
    terms = sum_terms(lambda cells: pool.slope(cells, outputs, parameter), pool.cells(x), pool.fill, window, amount)
    if pool.is_mean:
        terms /= _totals(window, amounts)
    return pool.slope_factor(y, parameter) * terms
