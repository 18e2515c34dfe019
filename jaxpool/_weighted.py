"""Pools whose derivative is a weight for every pair of a window and a cell of it: norms and log-sum-exp.

Such a pool y = f(x, θ), with a number or array θ, is an associative fold: pooling one axis after the other gives
the same as pooling all of them at once, as long as θ is one number along the pooled axes. A family says what
the value, the weights ∂y/∂x and the terms of ∂y/∂θ are; both derivative rules follow from that here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._engine.phases import gather_windows
from jaxpool._engine.route import transposed
from jaxpool._engine.taps import at_tap, pad_windows, taps
from jaxpool._window import Window

Parameter = float | jax.Array


@dataclass(frozen=True)
class WeightedPool:
    """One family: its functions of cells, windows' values and the parameter, and what padded cells hold."""

    value: Callable[[jax.Array, Parameter, Window], jax.Array]
    weight: Callable[[jax.Array, jax.Array, Parameter], jax.Array]
    slope: Callable[[jax.Array, jax.Array, Parameter], jax.Array]
    fill: float


def weighted_pool(
    x: jax.Array, parameter: jax.Array | None, window: Window, pool: WeightedPool, number: float | None, rule: str
) -> jax.Array:
    """Pool x with the parameter `number`, or with the array `parameter` where `number` is None."""
    step = _pool_jvp if rule == "jvp" else _pool_vjp
    if parameter is None:
        parts = window.split()
    else:
        shape = window.output_shape(x.shape)
        parameter = expand_rank(parameter, x.ndim)
        if shared_along_windows(parameter, window):
            parts = window.split()
            shape = [1 if n in [axis.axis for axis in window.axes] else size for n, size in enumerate(shape)]
        else:
            parts = (window,)
        parameter = jnp.broadcast_to(parameter, shape)
    for part in parts:
        x = step(x, parameter, part, pool, number)
    return x


def expand_rank(parameter: jax.Array, rank: int) -> jax.Array:
    """The parameter with leading axes of size 1 up to the rank of the array it goes with."""
    return parameter.reshape((1,) * (rank - parameter.ndim) + parameter.shape)


def shared_along_windows(parameter: jax.Array, window: Window) -> bool:
    """Whether the parameter, of full rank, is one number along the pooled axes."""
    return all(parameter.shape[axis.axis] == 1 for axis in window.axes)


def sum_terms(term: Callable[[jax.Array], jax.Array], x: jax.Array, fill: float, window: Window) -> jax.Array:
    """Σ term(cells) over every window, the cells at one offset at a time; padded cells are `fill`."""
    padded = pad_windows(x, window, fill)
    total = None
    for tap in taps(window):
        added = term(at_tap(padded, window, tap))
        total = added if total is None else total + added
    assert total is not None
    return total


# Notation: window o holds the cells i of the set W(o), y(o) = f({x(i)}, θ), a dot marks a tangent, a bar a cotangent.
# With w(i, o) = ∂y(o)/∂x(i) and s(i, o) the terms of ∂y(o)/∂θ,
#     ẏ(o) = Σ_{i ∈ W(o)} w(i, o) ẋ(i) + θ̇ Σ_{i ∈ W(o)} s(i, o)
#     x̄(i) = Σ_{o : i ∈ W(o)} w(i, o) ȳ(o)        θ̄ = Σ_o ȳ(o) Σ_{i ∈ W(o)} s(i, o)
# where the outer sum of θ̄ runs over the outputs that share θ. The second line is written out; the tangent map of x is its
# transpose. Weights are functions of x(i), y(o) and θ alone, so that nothing but x and y is kept, and they are
# differentiated in turn for the higher orders, y by the same rule.


@partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4))
def _pool_jvp(
    x: jax.Array, parameter: jax.Array | None, window: Window, pool: WeightedPool, number: float | None
) -> jax.Array:
    return pool.value(x, _either(parameter, number), window)


@partial(_pool_jvp.defjvp, symbolic_zeros=True)
def _(window: Window, pool: WeightedPool, number: float | None, primals: Any, tangents: Any) -> Any:
    x, parameter = primals
    x_dot, parameter_dot = tangents
    y = _pool_jvp(x, parameter, window, pool, number)
    y_dot = jnp.zeros_like(y)
    if not _is_zero(x_dot):
        y_dot += transposed(
            lambda cotangent, residuals: _to_cells(cotangent, *residuals, window, pool, number),
            x_dot,
            (x, parameter, y),
            y,
        )
    if parameter is not None and not _is_zero(parameter_dot):
        y_dot += _slopes(x, parameter, y, window, pool) * parameter_dot
    return y, y_dot


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def _pool_vjp(
    x: jax.Array, parameter: jax.Array | None, window: Window, pool: WeightedPool, number: float | None
) -> jax.Array:
    return pool.value(x, _either(parameter, number), window)


def _pool_vjp_forward(
    x: jax.Array, parameter: jax.Array | None, window: Window, pool: WeightedPool, number: float | None
) -> Any:
    y = _pool_jvp(x, parameter, window, pool, number)
    return y, (x, parameter, y)


def _pool_vjp_backward(
    window: Window, pool: WeightedPool, number: float | None, residuals: Any, cotangent: jax.Array
) -> Any:
    x, parameter, y = residuals
    to_cells = _to_cells(cotangent, x, parameter, y, window, pool, number)
    if parameter is None:
        return to_cells, None
    to_parameter = _slopes(x, parameter, y, window, pool) * cotangent
    shared = [axis for axis, size in enumerate(parameter.shape) if size == 1]
    return to_cells, to_parameter.sum(shared, keepdims=True)


_pool_vjp.defvjp(_pool_vjp_forward, _pool_vjp_backward)


def _either(parameter: jax.Array | None, number: float | None) -> Parameter:
    if parameter is not None:
        return parameter
    assert number is not None
    return number


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero)


def _to_cells(
    cotangent: jax.Array,
    x: jax.Array,
    parameter: jax.Array | None,
    y: jax.Array,
    window: Window,
    pool: WeightedPool,
    number: float | None,
) -> jax.Array:
    """x̄(i) = Σ_o w(i, o) ȳ(o). Outside of the outputs y is infinite, where every family's weight is 0."""
    outputs = [(cotangent, 0), (y, jnp.inf)]
    if parameter is not None and not shared_along_windows(parameter, window):
        outputs.append((parameter, 1))

    def contribution(_: int, outputs: tuple[jax.Array, ...], inputs: tuple[jax.Array, ...]) -> list[jax.Array]:
        cotangents, values, *parameters = outputs
        shared = _either(parameter, number)
        return [cotangents * pool.weight(inputs[0], values, *(parameters or [shared]))]

    return gather_windows(contribution, outputs, window, [x])[0]


def _slopes(x: jax.Array, parameter: jax.Array, y: jax.Array, window: Window, pool: WeightedPool) -> jax.Array:
    return sum_terms(lambda cells: pool.slope(cells, y, parameter), x, pool.fill, window)
