"""The extreme of every window: what max, min and infinite norms have in common.

Its derivative only moves numbers: forward mode reads the tangent at the winner, reverse mode sends the cotangent to it.
Values, indices and derivatives in every mode must agree on the winner. All of them follow the offsets of one selection,
which are kept, or found again among the cells in the same way.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpool._call import core, extended
from jaxpool._derivatives.rules import (
    CellSelector,
    LinearMap,
    ValuesAndResiduals,
    selected_values,
    values_and_residuals,
)
from jaxpool._engine import cpu, gpu, tpu
from jaxpool._engine.maps import (
    FindWinners,
    ReadWinners,
    first_present,
    first_winners,
    on_every_platform,
    reduce_windows,
)
from jaxpool._engine.operations import Operation, identity
from jaxpool._engine.winners import Masked, composed, has_winner, winner_positions
from jaxpool._platforms import default_platform
from jaxpool._window import Window

# Which windows have an unmasked cell, broadcastable against the output, and the mask in the form the engine expects.
Present = tuple[jax.Array, Masked]


@dataclass(frozen=True)
class WinnerFormat:
    """What a selection keeps for its backward pass: offsets of the winners, or the cells themselves.

    It is chosen while tracing, and every platform can evaluate it.

    Attributes:
        windows: The windows that are taken in turn, the last axes first, each with offsets of its own.
        keeps_cells: Whether the cells are kept and the winners found again. Then there is one window.
    """

    windows: tuple[Window, ...]
    keeps_cells: bool = False


def winner_format(window: Window, dtype: Any, masked: bool) -> WinnerFormat:
    """The format for the named platform or JAX's default one."""
    if default_platform() == "tpu" and not masked and tpu.keeps_cells(window, dtype):
        return WinnerFormat((window,), keeps_cells=True)
    return _format_of_offsets(window)


def _format_of_offsets(window: Window) -> WinnerFormat:
    if window.cells > 2**32:
        # JAX has no wider offsets unless x64 is enabled.
        return WinnerFormat(window.split())
    return WinnerFormat((cpu.windows_in_turn if default_platform() == "cpu" else gpu.order)(window))


@core
def extremes(
    x: jax.Array, mask: jax.Array | None, window: Window, op: Operation, rule: str, narrow: Any = None
) -> jax.Array:
    """The extreme of every window by `lax.max` or `lax.min`, over the cells that the mask holds; 0 without any.

    If x was widened from a `narrow` dtype, that is the dtype of the cells that are kept.
    """
    dtype = x.dtype
    x, mask, window = extended(x, mask, window)
    kept = winner_format(window, x.dtype, mask is not None)
    selector = _Winners(kept, op, x.dtype if narrow is None else narrow)
    return selected_values(selector, rule, x, _present(mask, kept)).astype(dtype)


@core
def extremes_with_indices(
    x: jax.Array, mask: jax.Array | None, window: Window, op: Operation, rule: str
) -> tuple[jax.Array, jax.Array]:
    """The extreme of every window and its winner's row-major position in the pooled axes; 0 and -1 if it is empty."""
    dtype, given = x.dtype, window
    x, mask, window = extended(x, mask, window)
    kept = _format_of_offsets(window)
    present = _present(mask, kept)
    values, ((offsets, *others),) = values_and_residuals(_Winners(kept, op, x.dtype), rule, x, present)
    if others:
        cells = math.prod(each.cells for each in kept.windows)
        like = jax.ShapeDtypeStruct(values.shape, np.min_scalar_type(cells - 1))
        offsets = on_every_platform(partial(composed, windows=kept.windows), offsets, *others, like=like)
    positions = winner_positions(offsets, given)
    return values.astype(dtype), positions if present is None else jnp.where(present[0], positions, np.int32(-1))


def _present(mask: jax.Array | None, kept: WinnerFormat) -> Present | None:
    if mask is None:
        return None
    nonempty, first = first_present(mask, kept.windows)
    return nonempty, (mask, first)


# Notation: window o holds the cells W(o); c(o) ∈ W(o) is its winner, the first cell in row-major order that no other
# cell of W(o) beats, where NaN beats every number; a dot marks a tangent, a bar a cotangent.
#
#     y(o) = x(c(o))        ẏ(o) = ẋ(c(o))        x̄(i) = Σ_{o : c(o) = i} ȳ(o)
#
# The winner is locally constant where it is unique. There these are the derivatives, and all higher ones are zero; at
# ties they are one element of the subdifferential (for the minimum: superdifferential). The second and third formulas
# are the two directions of `ReadWinners`, which needs the offsets of the winners but not x, or on TPUs mostly those of
# `FindWinners`: there the format keeps x itself, and the winners are found again. With a mask, W(o) has only unmasked
# cells, so derivatives need no mask: no masked cell wins, and an empty window, where y is 0, records the offset of no
# cell, so nothing is read or sent.


@dataclass(frozen=True)
class _Winners(CellSelector):
    kept: WinnerFormat
    op: Operation
    # Of the cells that are kept: on a TPU they are in memory.
    dtype: np.dtype

    def values(self, x: jax.Array, present: Present | None, /) -> jax.Array:
        window, *others = self.kept.windows
        if others:
            window = Window(tuple(axis for each in self.kept.windows[::-1] for axis in each.axes))
        if present is None:
            return reduce_windows(x, window, self.op)
        nonempty, (mask, _) = present
        values = reduce_windows(jnp.where(mask, x, identity(self.op, x.dtype)), window, self.op)
        return jnp.where(nonempty, values, jnp.zeros_like(values))

    def select(self, x: jax.Array, present: Present | None, /) -> ValuesAndResiduals:
        if self.kept.keeps_cells:
            values = self.values(x, present)
            return values, (x.astype(self.dtype), values.astype(self.dtype))
        if present is None:
            values, offsets = first_winners(x, self.kept.windows, self.op)
            return values, (offsets,)
        values, offsets = first_winners(x, self.kept.windows, self.op, present[1])
        return jnp.where(has_winner(offsets, self.kept.windows), values, jnp.zeros_like(values)), (offsets,)

    @property
    def read(self) -> LinearMap:
        if self.kept.keeps_cells:
            (window,) = self.kept.windows
            return FindWinners(window, self.op)
        return ReadWinners(self.kept.windows)
