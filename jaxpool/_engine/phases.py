"""The gather form of a map from windows to cells: for every cell, a sum over the windows that hold it.

Notation, for one axis: window o holds the padded cell u at offset j when u = o·stride + j·dilation. With
u = q·stride + r, the cells of one *phase* r are held by the windows o = q - t at the offsets j of the few pairs
(t, j) with j·dilation = t·stride + r. A phase is thus a combination of shifted slices of the outputs, and
interleaving the phases gives the input.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._window import Window, WindowAxis

Arrays = tuple[jax.Array, ...]
Contribution = Callable[[int, Arrays, Arrays], Arrays]


@dataclass(frozen=True)
class _Phases:
    """One axis cut into phases: the range of q that covers its real cells, and the pairs (t, j) of each phase."""

    along: WindowAxis

    @property
    def first(self) -> int:
        return self.along.low // self.along.stride

    @property
    def count(self) -> int:
        return (self.along.low + self.along.size - 1) // self.along.stride + 1 - self.first

    @property
    def longest(self) -> int:
        """The largest t of all pairs."""
        return (self.along.extent - 1) // self.along.stride

    @property
    def before(self) -> int:
        """Cells of the first q that lie in front of the first real cell."""
        return self.along.low - self.first * self.along.stride

    def pairs(self, phase: int) -> list[tuple[int, int]]:
        places = [(j, j * self.along.dilation - phase) for j in range(self.along.kernel)]
        return [(place // self.along.stride, j) for j, place in places if place % self.along.stride == 0]


def gather_windows(
    contribution: Contribution,
    outputs: Sequence[tuple[jax.Array, Any]],
    window: Window,
    inputs: Sequence[jax.Array] = (),
    combine: Sequence[Callable[[jax.Array, jax.Array], jax.Array]] = (lax.add,),
) -> Arrays:
    """Combine, for every input cell, the contributions of the windows that hold it; 0 where none does.

    `contribution(number, windows, cells)` gets the row-major number of the cell in the window, the entries of
    `outputs` at the window (arrays of the output's shape, each with the value that it has outside) and those of
    `inputs` at the cell (arrays of the input's shape). It returns one array per operation in `combine`.
    """
    axes = [_Phases(axis) for axis in window.axes]
    outputs_around = [_cover_outputs(array, fill, axes) for array, fill in outputs]
    inputs_around = [_cover_inputs(array, axes) for array in inputs]

    def one_phase(phase: tuple[int, ...]) -> Arrays | None:
        cells = tuple(_phase_of(array, axes, phase) for array in inputs_around)
        total = None
        for pairs in itertools.product(*(axis.pairs(r) for axis, r in zip(axes, phase, strict=True))):
            number = 0
            for axis, (_, offset) in zip(axes, pairs, strict=True):
                number = number * axis.along.kernel + offset
            windows = tuple(_windows_at(array, axes, [t for t, _ in pairs]) for array in outputs_around)
            added = contribution(number, windows, cells)
            total = added if total is None else tuple(op(*two) for op, *two in zip(combine, total, added, strict=True))
        return total

    found = {phase: one_phase(phase) for phase in itertools.product(*(range(axis.along.stride) for axis in axes))}
    filled = found[(0,) * len(axes)]
    assert filled is not None, "offset 0 belongs to phase 0"
    phases = {phase: tuple(map(jnp.zeros_like, filled)) if one is None else one for phase, one in found.items()}
    for axis in reversed(axes):
        interleaved = [phases[phase] for phase in phases]
        phases = {
            phase[:-1]: tuple(
                _interleave(parts, axis.along.axis)
                for parts in zip(*interleaved[start : start + axis.along.stride], strict=True)
            )
            for start, phase in list(enumerate(phases))[:: axis.along.stride]
        }
    return tuple(_crop(array, axes) for array in phases[()])


def interleave_zeros(array: jax.Array, axis: int, stride: int) -> jax.Array:
    """Put stride - 1 zeros between the entries of an axis."""
    spaced = _interleave([array] + [jnp.zeros_like(array)] * (stride - 1), axis)
    return lax.slice_in_dim(spaced, 0, (array.shape[axis] - 1) * stride + 1, 1, axis)


def _interleave(parts: Sequence[jax.Array], axis: int) -> jax.Array:
    if len(parts) == 1:
        return parts[0]
    shape = list(parts[0].shape)
    shape[axis] *= len(parts)
    return jnp.stack(parts, axis + 1).reshape(shape)


def _cover_outputs(array: jax.Array, fill: Any, axes: Sequence[_Phases]) -> jax.Array:
    """The outputs that the pairs reach from any q, from o = first - longest on."""
    config = [(0, 0, 0)] * array.ndim
    for axis in axes:
        config[axis.along.axis] = (axis.longest - axis.first, axis.first + axis.count - axis.along.output, 0)
    return _pad(array, fill, config)


def _cover_inputs(array: jax.Array, axes: Sequence[_Phases]) -> jax.Array:
    """The cells of whole phases, from u = first·stride on."""
    config = [(0, 0, 0)] * array.ndim
    for axis in axes:
        config[axis.along.axis] = (axis.before, axis.count * axis.along.stride - axis.before - axis.along.size, 0)
    return _pad(array, 0, config)


def _pad(array: jax.Array, fill: Any, config: list[tuple[int, int, int]]) -> jax.Array:
    if all(entry == (0, 0, 0) for entry in config):
        return array
    return lax.optimization_barrier(lax.pad(array, np.array(fill, array.dtype)[()], config))


def _windows_at(array: jax.Array, axes: Sequence[_Phases], steps: Sequence[int]) -> jax.Array:
    for axis, step in zip(axes, steps, strict=True):
        start = axis.longest - step
        array = lax.slice_in_dim(array, start, start + axis.count, 1, axis.along.axis)
    return array


def _phase_of(array: jax.Array, axes: Sequence[_Phases], phase: tuple[int, ...]) -> jax.Array:
    for axis, r in zip(axes, phase, strict=True):
        array = lax.slice_in_dim(array, r, array.shape[axis.along.axis], axis.along.stride, axis.along.axis)
    return array


def _crop(array: jax.Array, axes: Sequence[_Phases]) -> jax.Array:
    for axis in axes:
        array = lax.slice_in_dim(array, axis.before, axis.before + axis.along.size, 1, axis.along.axis)
    return array
