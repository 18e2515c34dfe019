"""Pools whose derivative is a weight for every pair of a window and a cell in it: norms and log-sum-exp.

Such a pool y = f(x, θ), with a number or array θ, is an associative fold: if θ is one number along the pooled axes,
pooling one axis after the other gives the same result as pooling all at once. A family defines the value, the weights
∂y/∂x and the terms of ∂y/∂θ; both derivative rules follow from these. In a *mean* each cell has a multiplicity: 0 if it
is absent, else the number of cells that it is the mean of, which is 1 along the first axis. A family may keep
its values as excesses over a *shift*, constant under differentiation; such pairs are the cells for the next axis.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._derivatives.in_turn import is_shared, merge_whole_axes, over_parts, sums_with_zeros
from jaxpool._derivatives.pairs import PairMap, Weights
from jaxpool._derivatives.rules import apply_linear_map, custom_rule, is_symbolic_zero, with_rule
from jaxpool._engine.maps import on_every_platform, sum_terms
from jaxpool._engine.operations import Arrays, accumulation_dtype
from jaxpool._geometry.window import Window
from jaxpool._sharding import vary_together

# The multiplicity of each cell and their sum in each window; None if all cells count once.
Multiplicities = tuple[jax.Array, jax.Array] | None
# The cells themselves, or their excesses and shifts.
Cells = tuple[jax.Array, ...]
Shift = jax.Array | None
Parameter = float | jax.Array


@dataclass(frozen=True)
class ParametricPool(Weights):
    """One family, for the number θ, or for an array θ if that is None.

    Its weights are ∂y/∂x, given the cells, and the arrays y, shift and θ as far as there are any.
    """

    window: Window
    number: float | None

    # Whether weights and slopes are multiplied by the cell's share in the multiplicity of its window.
    is_mean: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return f"{type(self).__name__} {self.number}"

    @property
    @abc.abstractmethod
    def in_turn(self) -> tuple[Window, ...]:
        """The windows that the pool is taken over in turn, if θ is one number along the pooled axes."""

    @property
    def shift_dtype(self) -> np.dtype | None:
        """The dtype of shifts, or None if there are none."""
        return None

    def shift(self, cells: Cells, part: Window) -> Shift:
        """The shift of every window of a part, or None."""
        return None

    @abc.abstractmethod
    def value(
        self, cells: Cells, parameter: Parameter, part: Window, multiplicities: Multiplicities, shift: Shift
    ) -> jax.Array:
        """The values of the windows of a part, less the shift if there is one."""

    @abc.abstractmethod
    def weight(self, cells: Arrays, outputs: Arrays, parameter: Parameter) -> jax.Array:
        """∂y/∂x from prepared arrays."""

    @abc.abstractmethod
    def slope(self, cells: Arrays, outputs: Arrays, parameter: jax.Array) -> jax.Array:
        """The terms of ∂y/∂θ from the same, up to a factor that is the same for all cells of a window."""

    def slope_factor(self, y: jax.Array, parameter: jax.Array) -> jax.Array:
        """That factor."""
        return jnp.ones_like(y)

    def exponent_and_factors(self, cells: Arrays, windows: Arrays) -> tuple[None, Arrays]:
        outputs, parameter = (windows[:-1], windows[-1]) if self.number is None else (windows, self.number)
        return None, (self.weight(cells, outputs, parameter),)


# Notation: window o holds the cells W(o), y(o) = f({x(i) : i ∈ W(o)}, θ); a dot marks a tangent, a bar a cotangent.
# With w(i, o) = ∂y(o)/∂x(i), and s(i, o) the terms of ∂y(o)/∂θ,
#
#     ẏ(o) = Σ_{i ∈ W(o)} w(i, o) ẋ(i) + θ̇ Σ_{i ∈ W(o)} s(i, o)
#     x̄(i) = Σ_{o : i ∈ W(o)} w(i, o) ȳ(o)        θ̄ = Σ_o ȳ(o) Σ_{i ∈ W(o)} s(i, o)
#
# where the outer sum of θ̄ runs over the outputs that share θ. The first term of ẏ and x̄ are the two directions of a
# `PairMap`. Weights are functions of x(i), y(o) and θ only, so only x, y and a shift are kept. For higher orders they
# are differentiated in turn, y by this same rule; excesses over a shift vary as x and y do. In a mean with
# multiplicities a(i) and A(o) = Σ_{i ∈ W(o)} a(i), w and s have a constant factor a(i)/A(o).


@custom_rule((0, 4))
def _pool_part(
    pool: ParametricPool, cells: Cells, parameter: jax.Array | None, multiplicities: Multiplicities, part: Window
) -> tuple[jax.Array, Shift]:
    """The values of windows that are taken at once, less the shift if there is one, and the shift."""

    def pool_on_platform(cells: Cells, parameter: jax.Array | None, multiplicities: Multiplicities) -> Any:
        shift = pool.shift(cells, part)

        def value(cells: Cells, shift: Shift, parameter: jax.Array | None, multiplicities: Multiplicities) -> jax.Array:
            given = pool.number if parameter is None else parameter
            assert given is not None
            return pool.value(cells, given, part, multiplicities, shift)

        # A mark for each number: otherwise two norms of one array would share ratios, and keep them in memory.
        return on_every_platform(value, cells, shift, parameter, multiplicities, in_stage=True, mark=pool.name), shift

    shape, dtype = part.output_shape(cells[-1].shape), accumulation_dtype(cells[-1].dtype)
    shifts = None if pool.shift_dtype is None else jax.ShapeDtypeStruct(shape, pool.shift_dtype)
    like = jax.ShapeDtypeStruct(shape, dtype), shifts
    return on_every_platform(pool_on_platform, cells, parameter, multiplicities, like=like)


@partial(_pool_part.defjvp, symbolic_zeros=True)
def _pool_part_jvp(pool: ParametricPool, part: Window, primals: Any, tangents: Any) -> Any:
    cells, parameter, multiplicities = primals
    (x_dot, *_), parameter_dot, _ = tangents
    y, shift = _pool_part(pool, *primals, part)
    outputs = tuple(array for array in (y, shift, parameter) if array is not None)
    terms = []
    if not is_symbolic_zero(x_dot):
        weighed = x_dot if multiplicities is None else x_dot * multiplicities[0]
        terms += apply_linear_map(PairMap(pool, part), weighed, cells, outputs, like=(y,))
    if parameter is not None and not is_symbolic_zero(parameter_dot):
        multiplicity = None if multiplicities is None else multiplicities[0]
        slopes = _sum_slopes(pool, cells, outputs, multiplicity, part)
        terms.append(pool.slope_factor(y, parameter) * slopes * parameter_dot)
    y_dot = sum(terms[1:], terms[0]) if terms else jnp.zeros_like(y)
    if pool.is_mean:
        y_dot /= float(part.held) if multiplicities is None else jnp.maximum(multiplicities[1], 1)
    return (y, shift), (y_dot, None if shift is None else jnp.zeros_like(shift))


def _sum_slopes(
    pool: ParametricPool, cells: Cells, outputs: Arrays, multiplicity: jax.Array | None, part: Window
) -> jax.Array:
    """Σ_i s(i, o), up to the factor."""

    def slope(cells: Arrays, windows: Arrays) -> jax.Array:
        return pool.slope(cells, windows[:-1], windows[-1])

    like, *_ = outputs
    cells, outputs = pool.prepared(cells, outputs)
    return sum_terms(slope, pool.fill_cells(cells, part), part, multiplicity, outputs, in_stage=True, like=like)


# Cells, and their multiplicities, if any.
_State = tuple[Cells, jax.Array | None]


def parametric_pool(
    x: jax.Array, parameter: jax.Array | None, pool: ParametricPool, rule: str, multiplicity: jax.Array | None = None
) -> jax.Array:
    """Pool x with the number of the family, or with the array `parameter` of full rank if there is none.

    For a mean, `multiplicity` is that of every cell, of full size along the pooled axes; None means 1.
    """
    window, x, multiplicity = merge_whole_axes(pool.window, x, multiplicity)
    pool = replace(pool, window=window)
    parts: Sequence[Window] | None = pool.in_turn
    if parameter is not None:
        shape = window.output_shape(x.shape)
        if is_shared(parameter, window):
            shape = [1 if axis in window.pooled_axes else size for axis, size in enumerate(shape)]
        else:
            parts = None
        x, parameter = vary_together(x, jnp.broadcast_to(parameter, shape))

    def pool_in_turn(x: jax.Array, parameter: jax.Array | None, multiplicity: jax.Array | None) -> jax.Array:
        step = partial(_pool_state, parameter=parameter, pool=pool)
        return over_parts(step, lambda x: ((x,), multiplicity), _value_of, parts, x, None, window)

    return with_rule(rule, pool_in_turn)(x, parameter, multiplicity)


def _pool_state(
    state: _State, part: Window, counts: Sequence[int] = (), *, parameter: jax.Array | None, pool: ParametricPool
) -> _State:
    cells, multiplicity = state
    rank, dtype = cells[0].ndim, cells[0].dtype
    weighed = bool(counts) and pool.is_mean and multiplicity is None
    if weighed:
        multiplicity = jnp.asarray(part.axes[0].along(np.array(counts, dtype), rank))
    total = None if multiplicity is None else sums_with_zeros(multiplicity, part)
    multiplicities = None if multiplicity is None or total is None else (multiplicity, total)
    learnt = None if parameter is None else lax.expand_dims(parameter, range(rank - parameter.ndim))
    y, shift = _pool_part(pool, cells, learnt, multiplicities, part)
    return (y,) if shift is None else (y, lax.stop_gradient(shift)), None if weighed else total


def _value_of(state: _State) -> jax.Array:
    cells, _ = state
    return cells[0] if len(cells) == 1 else cells[0] + cells[1].astype(cells[0].dtype)
