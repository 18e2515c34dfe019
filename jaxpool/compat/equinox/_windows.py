"""`MaxPool1d` to `AvgPool3d` of `equinox.nn`: windows that slide along all axes but the first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import jax

from jaxpool._checks import check_flag
from jaxpool._sizes import Sizes, sizes
from jaxpool.compat._windows import along_axes, averages, maxima
from jaxpool.compat.equinox._layer import Layer

Padding = Sizes | Sequence[Sequence[int]]


@dataclass(frozen=True, init=False)
class _Windows(Layer):
    """The arguments of a layer, one entry per pooled axis."""

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    use_ceil: bool
    # Equinox's reductions start from it, and files of its models hold it.
    init: float = field(repr=False, compare=False)

    _leaves: ClassVar[tuple[str, ...]] = ("init",)

    def __init__(self, kernel_size: Sizes, stride: Sizes = 1, padding: Padding = 0, use_ceil: bool = False) -> None:
        name, rank = self._name, self.num_spatial_dims
        kernels = sizes(name, "kernel_size", kernel_size, rank, least=1)
        object.__setattr__(self, "kernel_size", kernels)
        object.__setattr__(self, "stride", sizes(name, "stride", stride, rank, least=1))
        object.__setattr__(self, "padding", _pairs(name, padding, kernels))
        object.__setattr__(self, "use_ceil", check_flag(name, "use_ceil", use_ceil))
        object.__setattr__(self, "init", 0 if self._averages else -math.inf)

    def _pooled(self, x: jax.Array) -> jax.Array:
        padding = []
        for size, window, stride, (low, high) in zip(
            x.shape[1:], self.kernel_size, self.stride, self.padding, strict=True
        ):
            rest = (size + low + high - window) % stride if self.use_ceil else 0
            padding.append((low, high + stride if rest else high))
        along = along_axes(self._name, x.shape, range(1, x.ndim), self.kernel_size, self.stride, padding)
        return averages(x, along, x.dtype, include_pad=True) if self._averages else maxima(x, along)


class MaxPool1d(_Windows, rank=1):
    """As `equinox.nn.MaxPool1d`; see `MaxPool2d`. Differs in the same ways.

    Example:
        >>> from jaxpool.compat.equinox import MaxPool1d
        >>> layer = MaxPool1d(2, 2)
        >>> layer(jnp.array([[3.0, 1.0, 2.0, 5.0]]))
        Array([[3., 5.]], dtype=float32)
    """


class MaxPool2d(_Windows, rank=2):
    """As `equinox.nn.MaxPool2d`; see `jaxpool.max_pool`.

    Differs in modules (a dataclass), NaN (always wins), padding (takes no part), `use_ceil` (always works), complex
    numbers (refused), symbolic sizes of pooled axes (refused) and errors.

    Example:
        >>> from jaxpool.compat.equinox import MaxPool2d
        >>> MaxPool2d(3, 2, padding=1)(jnp.arange(16.0).reshape(1, 4, 4))
        Array([[[ 5.,  7.],
                [13., 15.]]], dtype=float32)
    """


class MaxPool3d(_Windows, rank=3):
    """As `equinox.nn.MaxPool3d`; see `MaxPool2d`. Differs in the same ways.

    Example:
        >>> from jaxpool.compat.equinox import MaxPool3d
        >>> MaxPool3d(2, 2)(jnp.arange(8.0).reshape(1, 2, 2, 2))
        Array([[[[7.]]]], dtype=float32)
    """


class AvgPool1d(_Windows, rank=1, averages=True):
    """As `equinox.nn.AvgPool1d`; see `AvgPool2d`. Differs in the same ways.

    Example:
        >>> from jaxpool.compat.equinox import AvgPool1d
        >>> layer = AvgPool1d(2, 2, use_ceil=True)  # which averages a 0 in
        >>> layer(jnp.array([[3.0, 1.0, 5.0]]))
        Array([[2. , 2.5]], dtype=float32)
    """


class AvgPool2d(_Windows, rank=2, averages=True):
    """As `equinox.nn.AvgPool2d`; see `jaxpool.avg_pool`.

    Differs in modules (a dataclass), 16-bit floats (summed in float32), integers (sums do not wrap), quotients (rounded
    once), `use_ceil` (always works), symbolic sizes of pooled axes (refused) and errors.

    Example:
        >>> from jaxpool.compat.equinox import AvgPool2d
        >>> AvgPool2d(2, 2)(jnp.arange(16.0).reshape(1, 4, 4))
        Array([[[ 2.5,  4.5],
                [10.5, 12.5]]], dtype=float32)
    """


class AvgPool3d(_Windows, rank=3, averages=True):
    """As `equinox.nn.AvgPool3d`; see `AvgPool2d`. Differs in the same ways.

    Example:
        >>> from jaxpool.compat.equinox import AvgPool3d
        >>> AvgPool3d(2)(jnp.arange(8.0).reshape(1, 2, 2, 2))
        Array([[[[3.5]]]], dtype=float32)
    """


def _pairs(function: str, padding: Padding, kernels: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """A (low, high) pair for each pooled axis, whose windows have `kernels` cells. Negative ones take cells away."""
    allowed = f"give an int, or an int or a (low, high) pair for each of {len(kernels)} axes"
    if isinstance(padding, str):
        raise TypeError(f"{function}: padding {padding!r} is a word; {allowed}")
    entries = list(padding) if isinstance(padding, Sequence) else [padding] * len(kernels)
    if len(entries) != len(kernels):
        raise ValueError(f"{function}: padding {padding!r} has {len(entries)} entries; {allowed}")
    found = []
    for entry, kernel in zip(entries, kernels, strict=True):
        if isinstance(entry, Sequence) and len(entry) != 2:
            raise ValueError(f"{function}: padding entry {entry!r} is not a pair; {allowed}")
        low, high = sizes(function, "padding", entry, 2, least=None)
        if max(low, high) > kernel:
            raise ValueError(
                f"{function}: padding ({low}, {high}) exceeds kernel_size {kernel}; give at most {kernel}, or use "
                f"jaxpool.{function[:3].lower()}_pool"
            )
        found.append((low, high))
    return tuple(found)
