"""`AdaptiveMaxPool1d` to `AdaptiveAvgPool3d` of `equinox.nn`: all axes but the first in a given number of bins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax
from jax import lax
from jax.typing import ArrayLike

import jaxpool
from jaxpool._geometry.sizes import Sizes, check_pooled_axis, sizes
from jaxpool.compat._windows import quotient_dtype
from jaxpool.compat.equinox._arguments import channels_first


@dataclass(frozen=True, init=False)
class _Bins:
    """The argument of a layer, one entry per pooled axis."""

    num_spatial_dims: ClassVar[int]

    target_shape: tuple[int, ...]

    def __init__(self, target_shape: Sizes) -> None:
        name, rank = type(self).__name__, self.num_spatial_dims
        object.__setattr__(self, "target_shape", sizes(name, "target_shape", target_shape, rank, least=1))

    def _check_bins(self, shape: tuple[int, ...]) -> None:
        name = type(self).__name__
        for axis, bins in enumerate(self.target_shape, start=1):
            check_pooled_axis(name, axis, shape[axis])
            if bins > shape[axis]:
                raise ValueError(
                    f"{name}: target_shape {bins} is more than the {shape[axis]} cells of axis {axis} of x {shape}; "
                    f"give at most {shape[axis]}, or use the adaptive pools of jaxpool, whose bins may share cells"
                )


class _Maxima(_Bins):
    def __call__(self, x: ArrayLike, *, key: ArrayLike | None = None) -> jax.Array:
        """Pool one array, channels first and without a batch; `key` is not used."""
        array = channels_first(type(self).__name__, x, self.num_spatial_dims)
        self._check_bins(array.shape)
        return _in_blocks(jaxpool.max_pool, array, self.target_shape, ())


class _Averages(_Bins):
    def __call__(self, x: ArrayLike, *, key: ArrayLike | None = None) -> jax.Array:
        """Pool one array, channels first and without a batch; `key` is not used."""
        array = channels_first(type(self).__name__, x, self.num_spatial_dims, complex_allowed=True)
        self._check_bins(array.shape)
        array = array.astype(quotient_dtype(array, array.dtype))
        return _in_blocks(jaxpool.avg_pool, array, self.target_shape, ())


@jax.tree_util.register_static
class AdaptiveMaxPool1d(_Maxima):
    """Adaptive max pooling: the largest cell of every bin along one axis, as `equinox.nn.AdaptiveMaxPool1d`.

    Called with x of shape (C, L), it gives y[o] = max of x[i] for the cells i of bin o. Of n cells in m bins the first
    n mod m bins have ⌊n/m⌋ + 1 cells and the others ⌊n/m⌋. The derivative is that of `jaxpool.max_pool`.

    Args:
        target_shape: Number of bins, an int for all axes or one per axis; at most the number of cells.

    Example:
        >>> from jaxpool.compat.equinox import AdaptiveMaxPool1d
        >>> AdaptiveMaxPool1d(3)(jnp.array([[1.0, 2.0, 5.0, 4.0, 3.0]]))  # bins of 2, 2 and 1
        Array([[2., 5., 3.]], dtype=float32)
    """

    num_spatial_dims = 1


@jax.tree_util.register_static
class AdaptiveMaxPool2d(_Maxima):
    """Adaptive max pooling: the largest cell of every bin along two axes, as `equinox.nn.AdaptiveMaxPool2d`.

    Called with x of shape (C, H, W), it gives y[o] = max of x[i] for the cells i of bin o, along each axis. Of n cells
    in m bins the first n mod m bins have ⌊n/m⌋ + 1 cells and the others ⌊n/m⌋. The derivative is that of
    `jaxpool.max_pool`.

    Args:
        target_shape: Number of bins, an int for all axes or one per axis; at most the number of cells.

    Example:
        >>> from jaxpool.compat.equinox import AdaptiveMaxPool2d
        >>> AdaptiveMaxPool2d((2, 4))(jnp.arange(16.0).reshape(1, 4, 4))
        Array([[[ 4.,  5.,  6.,  7.],
                [12., 13., 14., 15.]]], dtype=float32)
    """

    num_spatial_dims = 2


@jax.tree_util.register_static
class AdaptiveMaxPool3d(_Maxima):
    """Adaptive max pooling: the largest cell of every bin along three axes, as `equinox.nn.AdaptiveMaxPool3d`.

    Called with x of shape (C, D, H, W), it gives y[o] = max of x[i] for the cells i of bin o, along each axis. Of n
    cells in m bins the first n mod m bins have ⌊n/m⌋ + 1 cells and the others ⌊n/m⌋. The derivative is that of
    `jaxpool.max_pool`.

    Args:
        target_shape: Number of bins, an int for all axes or one per axis; at most the number of cells.

    Example:
        >>> from jaxpool.compat.equinox import AdaptiveMaxPool3d
        >>> AdaptiveMaxPool3d(1)(jnp.arange(8.0).reshape(1, 2, 2, 2))
        Array([[[[7.]]]], dtype=float32)
    """

    num_spatial_dims = 3


@jax.tree_util.register_static
class AdaptiveAvgPool1d(_Averages):
    """Adaptive average pooling: the average of every bin along one axis, as `equinox.nn.AdaptiveAvgPool1d`.

    Called with x of shape (C, L), it gives y[o] = the mean of x[i] for the cells i of bin o. Of n cells in m bins the
    first n mod m bins have ⌊n/m⌋ + 1 cells and the others ⌊n/m⌋. The derivative is that of `jaxpool.avg_pool`.

    Args:
        target_shape: Number of bins, an int for all axes or one per axis; at most the number of cells.

    Example:
        >>> from jaxpool.compat.equinox import AdaptiveAvgPool1d
        >>> AdaptiveAvgPool1d(3)(jnp.array([[1.0, 2.0, 5.0, 4.0, 3.0]]))  # bins of 2, 2 and 1
        Array([[1.5, 4.5, 3. ]], dtype=float32)
    """

    num_spatial_dims = 1


@jax.tree_util.register_static
class AdaptiveAvgPool2d(_Averages):
    """Adaptive average pooling: the average of every bin along two axes, as `equinox.nn.AdaptiveAvgPool2d`.

    Called with x of shape (C, H, W), it gives y[o] = the mean of x[i] for the cells i of bin o, along each axis. Of n
    cells in m bins the first n mod m bins have ⌊n/m⌋ + 1 cells and the others ⌊n/m⌋. The derivative is that of
    `jaxpool.avg_pool`.

    Args:
        target_shape: Number of bins, an int for all axes or one per axis; at most the number of cells.

    Example:
        >>> from jaxpool.compat.equinox import AdaptiveAvgPool2d
        >>> AdaptiveAvgPool2d((2, 1))(jnp.arange(16.0).reshape(1, 4, 4))
        Array([[[ 3.5],
                [11.5]]], dtype=float32)
    """

    num_spatial_dims = 2


@jax.tree_util.register_static
class AdaptiveAvgPool3d(_Averages):
    """Adaptive average pooling: the average of every bin along three axes, as `equinox.nn.AdaptiveAvgPool3d`.

    Called with x of shape (C, D, H, W), it gives y[o] = the mean of x[i] for the cells i of bin o, along each axis. Of
    n cells in m bins the first n mod m bins have ⌊n/m⌋ + 1 cells and the others ⌊n/m⌋. The derivative is that of
    `jaxpool.avg_pool`.

    Args:
        target_shape: Number of bins, an int for all axes or one per axis; at most the number of cells.

    Example:
        >>> from jaxpool.compat.equinox import AdaptiveAvgPool3d
        >>> AdaptiveAvgPool3d(1)(jnp.arange(8.0).reshape(1, 2, 2, 2))
        Array([[[[3.5]]]], dtype=float32)
    """

    num_spatial_dims = 3


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
