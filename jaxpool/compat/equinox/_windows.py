"""`MaxPool1d` to `AvgPool3d` of `equinox.nn`: windows that slide along all axes but the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
from jax import lax
from jax.typing import ArrayLike

import jaxpool
from jaxpool._engine.operations import identity
from jaxpool._geometry.sizes import Sizes, check_flag, sizes
from jaxpool.compat._windows import Along, along_axes, pool_along, quotient_dtype
from jaxpool.compat.equinox._arguments import Padding, channels_first, pairs


@dataclass(frozen=True, init=False)
class _Windows:
    """The arguments of a layer, one entry per pooled axis."""

    num_spatial_dims: ClassVar[int]

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    use_ceil: bool

    def __init__(self, kernel_size: Sizes, stride: Sizes = 1, padding: Padding = 0, use_ceil: bool = False) -> None:
        name, rank = type(self).__name__, self.num_spatial_dims
        kernels = sizes(name, "kernel_size", kernel_size, rank, least=1)
        object.__setattr__(self, "kernel_size", kernels)
        object.__setattr__(self, "stride", sizes(name, "stride", stride, rank, least=1))
        object.__setattr__(self, "padding", pairs(name, padding, kernels))
        object.__setattr__(self, "use_ceil", check_flag(name, "use_ceil", use_ceil))

    def _along(self, shape: tuple[int, ...]) -> list[Along]:
        """The windows along every pooled axis of an array of this shape."""
        padding = []
        for size, window, stride, (low, high) in zip(
            shape[1:], self.kernel_size, self.stride, self.padding, strict=True
        ):
            rest = (size + low + high - window) % stride if self.use_ceil else 0
            padding.append((low, high + stride if rest else high))
        axes = range(1, len(shape))
        return along_axes(type(self).__name__, shape, axes, self.kernel_size, self.stride, padding)


class _Maxima(_Windows):
    def __call__(self, x: ArrayLike, *, key: ArrayLike | None = None) -> jax.Array:
        """Pool one array, channels first and without a batch; `key` is not used."""
        array = channels_first(type(self).__name__, x, self.num_spatial_dims)
        return pool_along(jaxpool.max_pool, array, self._along(array.shape), identity(lax.max, array.dtype))


class _Averages(_Windows):
    def __call__(self, x: ArrayLike, *, key: ArrayLike | None = None) -> jax.Array:
        """Pool one array, channels first and without a batch; `key` is not used."""
        array = channels_first(type(self).__name__, x, self.num_spatial_dims, complex_allowed=True)
        array = array.astype(quotient_dtype(array, array.dtype))
        return pool_along(jaxpool.avg_pool, array, self._along(array.shape), 0.0)


@jax.tree_util.register_static
class MaxPool1d(_Maxima):
    """Max pooling: the largest cell of every window along one axis, as `equinox.nn.MaxPool1d`.

    Called with x of shape (C, L), it gives y[o] = max over j of x[o·stride - low + j], 0 ≤ j < kernel_size. Of n cells
    become floor((n + low + high - kernel_size)/stride) + 1. The derivative is that of `jaxpool.max_pool`.

    Args:
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis.
        padding: Cells added on each side: an int, an int per axis or a (low, high) pair per axis; at most
            `kernel_size`.
        use_ceil: Whether another stride is added to the high padding of an axis where the windows do not end with its
            cells.

    Example:
        >>> from jaxpool.compat.equinox import MaxPool1d
        >>> layer = MaxPool1d(2, 2)
        >>> layer(jnp.array([[3.0, 1.0, 2.0, 5.0]]))
        Array([[3., 5.]], dtype=float32)
    """

    num_spatial_dims = 1


@jax.tree_util.register_static
class MaxPool2d(_Maxima):
    """Max pooling: the largest cell of every window along two axes, as `equinox.nn.MaxPool2d`.

    Called with x of shape (C, H, W), it gives y[o] = max over j of x[o·stride - low + j], 0 ≤ j < kernel_size, along
    each axis. Of n cells become floor((n + low + high - kernel_size)/stride) + 1. The derivative is that of
    `jaxpool.max_pool`.

    Args:
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis.
        padding: Cells added on each side: an int, an int per axis or a (low, high) pair per axis; at most
            `kernel_size`.
        use_ceil: Whether another stride is added to the high padding of an axis where the windows do not end with its
            cells.

    Example:
        >>> from jaxpool.compat.equinox import MaxPool2d
        >>> MaxPool2d(3, 2, padding=1)(jnp.arange(16.0).reshape(1, 4, 4))
        Array([[[ 5.,  7.],
                [13., 15.]]], dtype=float32)
    """

    num_spatial_dims = 2


@jax.tree_util.register_static
class MaxPool3d(_Maxima):
    """Max pooling: the largest cell of every window along three axes, as `equinox.nn.MaxPool3d`.

    Called with x of shape (C, D, H, W), it gives y[o] = max over j of x[o·stride - low + j], 0 ≤ j < kernel_size, along
    each axis. Of n cells become floor((n + low + high - kernel_size)/stride) + 1. The derivative is that of
    `jaxpool.max_pool`.

    Args:
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis.
        padding: Cells added on each side: an int, an int per axis or a (low, high) pair per axis; at most
            `kernel_size`.
        use_ceil: Whether another stride is added to the high padding of an axis where the windows do not end with its
            cells.

    Example:
        >>> from jaxpool.compat.equinox import MaxPool3d
        >>> MaxPool3d(2, 2)(jnp.arange(8.0).reshape(1, 2, 2, 2))
        Array([[[[7.]]]], dtype=float32)
    """

    num_spatial_dims = 3


@jax.tree_util.register_static
class AvgPool1d(_Averages):
    """Average pooling: the average of every window along one axis, as `equinox.nn.AvgPool1d`.

    Called with x of shape (C, L), it gives y[o] = Σ_j x[o·stride - low + j] / kernel_size, 0 ≤ j < kernel_size. Of n
    cells become floor((n + low + high - kernel_size)/stride) + 1. The derivative is that of `jaxpool.avg_pool`.

    Args:
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis.
        padding: Cells added on each side: an int, an int per axis or a (low, high) pair per axis; at most
            `kernel_size`.
        use_ceil: Whether another stride is added to the high padding of an axis where the windows do not end with its
            cells.

    Example:
        >>> from jaxpool.compat.equinox import AvgPool1d
        >>> layer = AvgPool1d(2, 2, use_ceil=True)  # which averages a 0 in
        >>> layer(jnp.array([[3.0, 1.0, 5.0]]))
        Array([[2. , 2.5]], dtype=float32)
    """

    num_spatial_dims = 1


@jax.tree_util.register_static
class AvgPool2d(_Averages):
    """Average pooling: the average of every window along two axes, as `equinox.nn.AvgPool2d`.

    Called with x of shape (C, H, W), it gives y[o] = Σ_j x[o·stride - low + j] / kernel_size, 0 ≤ j < kernel_size,
    along each axis. Of n cells become floor((n + low + high - kernel_size)/stride) + 1. The derivative is that of
    `jaxpool.avg_pool`.

    Args:
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis.
        padding: Cells added on each side: an int, an int per axis or a (low, high) pair per axis; at most
            `kernel_size`.
        use_ceil: Whether another stride is added to the high padding of an axis where the windows do not end with its
            cells.

    Example:
        >>> from jaxpool.compat.equinox import AvgPool2d
        >>> AvgPool2d(2, 2)(jnp.arange(16.0).reshape(1, 4, 4))
        Array([[[ 2.5,  4.5],
                [10.5, 12.5]]], dtype=float32)
    """

    num_spatial_dims = 2


@jax.tree_util.register_static
class AvgPool3d(_Averages):
    """Average pooling: the average of every window along three axes, as `equinox.nn.AvgPool3d`.

    Called with x of shape (C, D, H, W), it gives y[o] = Σ_j x[o·stride - low + j] / kernel_size, 0 ≤ j < kernel_size,
    along each axis. Of n cells become floor((n + low + high - kernel_size)/stride) + 1. The derivative is that of
    `jaxpool.avg_pool`.

    Args:
        kernel_size: Window size, an int for all axes or one per axis.
        stride: Cells from one window to the next, an int or one per axis.
        padding: Cells added on each side: an int, an int per axis or a (low, high) pair per axis; at most
            `kernel_size`.
        use_ceil: Whether another stride is added to the high padding of an axis where the windows do not end with its
            cells.

    Example:
        >>> from jaxpool.compat.equinox import AvgPool3d
        >>> AvgPool3d(2)(jnp.arange(8.0).reshape(1, 2, 2, 2))
        Array([[[[3.5]]]], dtype=float32)
    """

    num_spatial_dims = 3
