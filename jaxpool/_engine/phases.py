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

Contribution = Callable[[int, tuple[jax.Array, ...], tuple[jax.Array, ...]], Sequence[jax.Array]]


@dataclass(frozen=True)
class _Phases:
    """The range of q that covers the real cells of one axis, and the pairs (t, j) of each phase."""

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

    def pairs(self, phase: int) -> list[tuple[int, int]]:
        places = [(j, j * self.along.dilation - phase) for j in range(self.along.kernel)]
        return [(place // self.along.stride, j) for j, place in places if place % self.along.stride == 0]


def gather_windows(
    contribution: Contribution,
    outputs: Sequence[tuple[jax.Array, Any]],
    window: Window,
    inputs: Sequence[jax.Array] = (),
    combine: Sequence[Callable[[jax.Array, jax.Array], jax.Array]] = (lax.add,),
) -> list[jax.Array]:
    """Combine, for every input cell, the contributions of the windows that hold it.

    `contribution(number, outputs, inputs)` gets a cell's row-major number in the window, the values of `outputs` (arrays
    of the output's shape, each with the value that it is to have outside) at the window, and of `inputs` (arrays of the
    input's shape) at the cell. It returns one array per entry of `combine`; cells that no window holds get 0.
    """
    axes = [_Phases(axis) for axis in window.axes]
    shifted = [_cover_outputs(array, fill, axes) for array, fill in outputs]
    phased = [_cover_inputs(array, axes) for array in inputs]

    def phase(phases: tuple[int, ...]) -> list[jax.Array]:
        cells = tuple(_phase_of(array, axes, phases) for array in phased)
        total: list[jax.Array] | None = None
        for pairs in itertools.product(*(axis.pairs(r) for axis, r in zip(axes, phases, strict=True))):
            number = 0
            for axis, (_, offset) in zip(axes, pairs, strict=True):
                number = number * axis.along.kernel + offset
            windows = tuple(_windows_at(array, axes, [t for t, _ in pairs]) for array in shifted)
            added = contribution(number, windows, cells)
            total = list(added) if total is None else [op(a, b) for op, a, b in zip(combine, total, added, strict=False)]
        return total if total is not None else empty

    # What a phase without windows holds: the shapes and dtypes are those of any contribution.
    example = jax.eval_shape(
        lambda: list(
            contribution(
                0,
                tuple(_windows_at(array, axes, [0] * len(axes)) for array in shifted),
                tuple(_phase_of(array, axes, (0,) * len(axes)) for array in phased),
            )
        )
    )
    empty = [jnp.zeros(one.shape, one.dtype) for one in example]

    def interleaved(number: int, phases: tuple[int, ...]) -> list[jax.Array]:
        if number == len(axes):
            return phase(phases)
        along = axes[number].along
        parts = [interleaved(number + 1, (*phases, r)) for r in range(along.stride)]
        return [_interleave(list(arrays), along.axis) for arrays in zip(*parts, strict=True)]

    return [_crop(array, axes) for array in interleaved(0, ())]


def interleave_zeros(array: jax.Array, axis: int, stride: int) -> jax.Array:
    """Put stride - 1 zeros between the entries of an axis."""
    spaced = _interleave([array] + [jnp.zeros_like(array)] * (stride - 1), axis)
    return lax.slice_in_dim(spaced, 0, (array.shape[axis] - 1) * stride + 1, 1, axis)


def _interleave(parts: list[jax.Array], axis: int) -> jax.Array:
    if len(parts) == 1:
        return parts[0]
    shape = list(parts[0].shape)
    shape[axis] *= len(parts)
    return jnp.stack(parts, axis + 1).reshape(shape)


def _cover_outputs(array: jax.Array, fill: Any, axes: Sequence[_Phases]) -> jax.Array:
    config = [(0, 0, 0)] * array.ndim
    for axis in axes:
        config[axis.along.axis] = (axis.longest - axis.first, axis.first + axis.count - axis.along.output, 0)
    return _pad(array, fill, config)


def _cover_inputs(array: jax.Array, axes: Sequence[_Phases]) -> jax.Array:
    config = [(0, 0, 0)] * array.ndim
    for axis in axes:
        low = axis.along.low - axis.first * axis.along.stride
        config[axis.along.axis] = (low, axis.count * axis.along.stride - low - axis.along.size, 0)
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


def _phase_of(array: jax.Array, axes: Sequence[_Phases], phases: tuple[int, ...]) -> jax.Array:
    for axis, r in zip(axes, phases, strict=True):
        array = lax.slice_in_dim(array, r, array.shape[axis.along.axis], axis.along.stride, axis.along.axis)
    return array


def _crop(array: jax.Array, axes: Sequence[_Phases]) -> jax.Array:
    for axis in axes:
        start = axis.along.low - axis.first * axis.along.stride
        array = lax.slice_in_dim(array, start, start + axis.along.size, 1, axis.along.axis)
    return array
