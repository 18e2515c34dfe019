"""Zeros in the padding that count as cells in weighted pools: what they add to reductions of the real cells.

The array keeps its size. Extending it by real zeros would give a size that devices sharing the axis do not divide.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._derivatives.residuals import exponentials_order, extends_by_zeros
from jaxpool._engine.maps import reduce_windows
from jaxpool._engine.operations import Operation, identity
from jaxpool._engine.platforms import may_be_shared
from jaxpool._engine.window_offsets import with_zeros_in_padding
from jaxpool._geometry.window import Window


def with_zeros(x: jax.Array, mask: jax.Array | None, window: Window) -> tuple[jax.Array, jax.Array | None, Window]:
    """The array, the mask and the windows with zeros in the padding, which may become real cells.

    It does if windows also hold cells beyond the padding, which never count. It also does where that takes less time,
    unless devices may share an axis: if axes are pooled one after the other, as padding along one axis then holds the
    pool of zeros along another, or if windows run along the innermost axis of an array on a CPU.
    """
    beyond, takes_less = any(axis.overhang > axis.high for axis in window.axes), extends_by_zeros(window, x.shape)
    if beyond or ((len(exponentials_order(window)) > 1 or takes_less) and not may_be_shared()):
        return with_zeros_in_padding(x, mask, window)
    return x, mask, replace(window, zeros=1)


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
    """The sum of the multiplicities in every window; a padded cell counts as the number of zeros that it holds."""
    sums = reduce_windows(multiplicity, window, lax.add)
    if not window.zeros:
        return sums
    padded = window.cells - window.counts(multiplicity.ndim, padding=False)
    return sums + (window.zeros * padded).astype(sums.dtype)


def any_present(mask: jax.Array, window: Window) -> jax.Array:
    """Whether a window holds an unmasked cell, or a zero in the padding."""
    nonempty = reduce_windows(mask, window, lax.max)
    return nonempty | (window.counts(mask.ndim, padding=False) < window.cells) if window.zeros else nonempty
