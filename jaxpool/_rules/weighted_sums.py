"""Sums over windows whose cells are weighted by a function of the cell and of its window, with their derivatives."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxpool._engine.gather import Held
from jaxpool._engine.maps import evaluate, gather_windows
from jaxpool._engine.operations import Arrays
from jaxpool._engine.stages import finish
from jaxpool._engine.taps import pad_windows, sum_over_taps
from jaxpool._engine.transposes import transposed
from jaxpool._geometry.window import Window
from jaxpool._rules.weighted import is_zero

# Elementwise, of a cell and of what goes with its window; finite for every pair, also those that do not meet.
Weight = Callable[..., jax.Array]


@dataclass(frozen=True)
class _Slope:
    """The derivative of a weight by one of its arguments."""

    weight: Weight
    argument: int

    def __call__(self, *arguments: jax.Array) -> jax.Array:
        before, here, after = arguments[: self.argument], arguments[self.argument], arguments[self.argument + 1 :]
        return jax.jvp(lambda here: self.weight(*before, here, *after), (here,), (jnp.ones_like(here),))[1]


def _mark(weight: Weight) -> int:
    """A number of the weight, another one for another weight."""
    if isinstance(weight, _Slope):
        return (7 * _mark(weight.weight) + weight.argument + 1) % 2**31
    return zlib.crc32(weight.__name__.encode()) % 2**31


# Notation: window o holds the cells W(o); k is the weight, x(i) the cells, v(o) what goes with the windows, a(i) the
# amounts; a dot marks a tangent, a bar a cotangent.
#
#     y(o) = Σ_{i ∈ W(o)} k(x(i), v(o))·a(i)
#     ẏ(o) = Σ_{i ∈ W(o)} k·ȧ(i) + Σ_{i ∈ W(o)} ∂k/∂x·a(i)·ẋ(i) + v̇(o)·Σ_{i ∈ W(o)} ∂k/∂v·a(i)
#     ā(i) = Σ_{o : i ∈ W(o)} k·ȳ(o)        x̄(i) = a(i)·Σ_{o : i ∈ W(o)} ∂k/∂x·ȳ(o)
#
# All are sums of the same form, whose weights are k or a derivative of it, and so are those of every order. The third
# line is the map written out, in `_to_cells`; the first two sums of the second line are its transpose.


@partial(jax.custom_jvp, nondiff_argnums=(0, 4))
def weighted_sums(
    weight: Weight, cells: jax.Array, outputs: Sequence[jax.Array], amounts: jax.Array, window: Window
) -> jax.Array:
    """Σ weight(cell, *outputs)·amount over every window.

    `outputs` have the output's shape, or 1 along axes; so have `amounts`, of the input's shape. Padded cells have none.
    """

    def total(cells: jax.Array, outputs: Sequence[jax.Array], amounts: jax.Array) -> jax.Array:
        padded = [pad_windows(array, window, 0) for array in (cells, amounts)]
        return sum_over_taps(lambda cells, amounts: weight(cells, *outputs) * amounts, padded, window)

    return evaluate(total, cells, outputs, amounts, in_stage=True, mark=_mark(weight))


@partial(weighted_sums.defjvp, symbolic_zeros=True)
def _(weight: Weight, window: Window, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    cells, outputs, amounts = primals
    cells_dot, outputs_dot, amounts_dot = tangents
    y = weighted_sums(weight, cells, outputs, amounts, window)
    terms = []
    if not is_zero(amounts_dot):
        terms.append(transposed(partial(_to_cells, weight, window), amounts_dot, (cells, outputs), y))
    if not is_zero(cells_dot):
        slopes_to_cells = partial(_to_cells, _Slope(weight, 0), window)
        terms.append(transposed(slopes_to_cells, cells_dot * amounts, (cells, outputs), y))
    for number, output_dot in enumerate(outputs_dot):
        if not is_zero(output_dot):
            slopes = weighted_sums(_Slope(weight, number + 1), cells, outputs, amounts, window)
            terms.append(slopes * output_dot)
    return y, sum(terms[1:], terms[0]) if terms else jnp.zeros_like(y)


def _to_cells(weight: Weight, window: Window, cotangent: jax.Array, residuals: Any) -> jax.Array:
    cells, outputs = residuals

    def contribution(_: jax.Array | int, held: Held, windows: Arrays, cells: Arrays) -> jax.Array:
        cotangent, *outputs = windows
        sent = cotangent * weight(cells[0], *outputs)
        return sent if held is True else jnp.where(held, sent, 0)

    around = [(array, 0) for array in (finish(cotangent), *outputs)]
    return gather_windows(contribution, around, window, [(cells, 0)])
