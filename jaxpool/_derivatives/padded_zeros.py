"""Zeros in the padding that count as cells in weighted pools: what they add to reductions of the real cells.

The array keeps its size where that takes less time than to extend it by real zeros.
"""

from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._derivatives.in_turn import exponentials_order
from jaxpool._engine.maps import reduce_windows
from jaxpool._engine.operations import Operation, identity
from jaxpool._engine.platforms import default_platform
from jaxpool._engine.window_offsets import with_zeros_in_padding
from jaxpool._geometry.window import Window


def with_zeros(x: jax.Array, mask: jax.Array | None, window: Window) -> tuple[jax.Array, jax.Array | None, Window]:
    """The array, the mask and the windows with zeros in the padding, which may become real cells.

    They do if windows also hold cells beyond the padding, which never count; if axes are pooled one after the other, as
    padding along one axis then holds the pool of zeros along another; and where that takes less time.
    """
    beyond, in_turn = any(axis.overhang > axis.high for axis in window.axes), len(exponentials_order(window)) > 1
    if beyond or in_turn or _extends_by_zeros(window, x.shape):
        return with_zeros_in_padding(x, mask, window)
    return x, mask, replace(window, zeros=True)


def _extends_by_zeros(window: Window, shape: Sequence[int]) -> bool:
    """Whether zeros in the padding become real cells: on a CPU, if windows run along the innermost axis.

    There the branches at its ends, and at those of arrays padded for the backward pass, take up to twice as long.
    """
    return default_platform() == "cpu" and window.axes[-1].axis == len(shape) - 1


def extremes_with_zeros(x: jax.Array, window: Window, op: Operation) -> jax.Array:
    """The extreme of every window by `op`, including the zeros in it if padded cells are zeros."""
    found = reduce_windows(x, window, op)
    for axis in window.axes if window.zeros else ():
        holds_zeros = axis.counts(padding=False) < axis.kernel
        if holds_zeros.any():
            zeros = np.where(holds_zeros, np.zeros((), x.dtype), identity(op, x.dtype))
            found = op(found, jnp.broadcast_to(axis.along(zeros, x.ndim), found.shape))
    return found


def sums_with_zeros(multiplicity: jax.Array, window: Window) -> jax.Array:
    """The sum of the multiplicities in every window; a padded cell counts once if it is a zero."""
    sums = reduce_windows(multiplicity, window, lax.add)
    if not window.zeros:
        return sums
    padded = window.cells - window.counts(multiplicity.ndim, padding=False)
    return sums + padded.astype(sums.dtype)


def any_present(mask: jax.Array, window: Window) -> jax.Array:
    """Whether a window holds an unmasked cell, or a zero in the padding."""
    nonempty = reduce_windows(mask, window, lax.max)
    return nonempty | (window.counts(mask.ndim, padding=False) < window.cells) if window.zeros else nonempty
