"""`AdaptiveMaxPool1d` to `AdaptiveAvgPool3d` of `equinox.nn`: all axes but the first in a given number of bins.

Of n cells in m bins the first n mod m bins have ⌊n/m⌋ + 1 cells and the others ⌊n/m⌋.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
from jax import lax

import jaxpool
from jaxpool._sizes import Sizes, check_pooled_axis, sizes
from jaxpool.compat._windows import quotient_dtype
from jaxpool.compat.equinox._layer import Layer


@dataclass(frozen=True, init=False)
class _Bins(Layer):
    """The argument of a layer, one entry per pooled axis."""

    target_shape: tuple[int, ...]

    def __init__(self, target_shape: Sizes) -> None:
        bins = sizes(self._name, "target_shape", target_shape, self.num_spatial_dims, least=1)
        object.__setattr__(self, "target_shape", bins)

    def _pooled(self, x: jax.Array) -> jax.Array:
        for axis, bins in enumerate(self.target_shape, start=1):
            check_pooled_axis(self._name, axis, x.shape[axis])
            if bins > x.shape[axis]:
                raise ValueError(
                    f"{self._name}: target_shape {bins} is more than the {x.shape[axis]} cells of axis {axis} of x "
                    f"{x.shape}; give at most {x.shape[axis]}, or use the adaptive pools of jaxpool, whose bins may "
                    f"share cells"
                )
        if self._averages:
            return _in_blocks(jaxpool.avg_pool, x.astype(quotient_dtype(x, x.dtype)), self.target_shape, ())
        return _in_blocks(jaxpool.max_pool, x, self.target_shape, ())


class AdaptiveMaxPool1d(_Bins, rank=1):
    """As `equinox.nn.AdaptiveMaxPool1d`; see `AdaptiveMaxPool2d`. Differs in the same ways.

    Example:
        >>> from jaxpool.compat.equinox import AdaptiveMaxPool1d
        >>> AdaptiveMaxPool1d(3)(jnp.array([[1.0, 2.0, 5.0, 4.0, 3.0]]))  # bins of 2, 2 and 1
        Array([[2., 5., 3.]], dtype=float32)
    """


class AdaptiveMaxPool2d(_Bins, rank=2):
    """As `equinox.nn.AdaptiveMaxPool2d`; see `jaxpool.max_pool`.

    Differs in modules (a dataclass), NaN (always wins), ties (the first cell wins), complex numbers (refused), symbolic
    sizes of pooled axes (refused) and errors.

    Example:
        >>> from jaxpool.compat.equinox import AdaptiveMaxPool2d
        >>> AdaptiveMaxPool2d((2, 4))(jnp.arange(16.0).reshape(1, 4, 4))
        Array([[[ 4.,  5.,  6.,  7.],
                [12., 13., 14., 15.]]], dtype=float32)
    """


class AdaptiveMaxPool3d(_Bins, rank=3):
    """As `equinox.nn.AdaptiveMaxPool3d`; see `AdaptiveMaxPool2d`. Differs in the same ways.

    Example:
        >>> from jaxpool.compat.equinox import AdaptiveMaxPool3d
        >>> AdaptiveMaxPool3d(1)(jnp.arange(8.0).reshape(1, 2, 2, 2))
        Array([[[[7.]]]], dtype=float32)
    """


class AdaptiveAvgPool1d(_Bins, rank=1, averages=True):
    """As `equinox.nn.AdaptiveAvgPool1d`; see `AdaptiveAvgPool2d`. Differs in the same ways.

    Example:
        >>> from jaxpool.compat.equinox import AdaptiveAvgPool1d
        >>> AdaptiveAvgPool1d(3)(jnp.array([[1.0, 2.0, 5.0, 4.0, 3.0]]))  # bins of 2, 2 and 1
        Array([[1.5, 4.5, 3. ]], dtype=float32)
    """


class AdaptiveAvgPool2d(_Bins, rank=2, averages=True):
    """As `equinox.nn.AdaptiveAvgPool2d`; see `jaxpool.avg_pool`.

    Differs in modules (a dataclass), 16-bit floats (summed in float32), integers (sums do not wrap), quotients (rounded
    once), symbolic sizes of pooled axes (refused) and errors.

    Example:
        >>> from jaxpool.compat.equinox import AdaptiveAvgPool2d
        >>> AdaptiveAvgPool2d((2, 1))(jnp.arange(16.0).reshape(1, 4, 4))
        Array([[[ 3.5],
                [11.5]]], dtype=float32)
    """


class AdaptiveAvgPool3d(_Bins, rank=3, averages=True):
    """As `equinox.nn.AdaptiveAvgPool3d`; see `AdaptiveAvgPool2d`. Differs in the same ways.

    Example:
        >>> from jaxpool.compat.equinox import AdaptiveAvgPool3d
        >>> AdaptiveAvgPool3d(1)(jnp.arange(8.0).reshape(1, 2, 2, 2))
        Array([[[[3.5]]]], dtype=float32)
    """


def _in_blocks(
    pool: Callable[..., jax.Array], x: jax.Array, bins: tuple[int, ...], kernels: tuple[int, ...]
) -> jax.Array:
    """Pool in blocks in which the bins of an axis have one size; `kernels` are those of the first axes."""
    axis = len(kernels) + 1
    if axis == x.ndim:
        return pool(x, kernels)
    size, larger = divmod(x.shape[axis], bins[axis - 1])
    end = larger * (size + 1)
    parts = [(0, end, size + 1), (end, x.shape[axis], size)]
    pooled = [
        _in_blocks(pool, lax.slice_in_dim(x, start, stop, axis=axis), bins, (*kernels, kernel))
        for start, stop, kernel in parts
        if start < stop
    ]
    return lax.concatenate(pooled, axis)
