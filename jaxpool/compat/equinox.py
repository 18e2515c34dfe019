"""The pooling layers of `equinox.nn`, evaluated by jaxpool; Equinox is not imported.

Arguments, defaults (including a stride of 1), layouts, bins, output shapes and dtypes are Equinox's, and so are values
and gradients, to rounding. They differ where Equinox is wrong or fails, as `jaxpool.compat` lists for all of them, and:

- Adaptive maxima may drop NaN, too. Here NaN wins.
- Adaptive maxima share the gradient among ties. Here the first cell in row-major order gets it, as in other maxima.
- `use_ceil` fails where it enlarges padding beyond the kernel. Here it works.
- Errors are TypeError and ValueError, and a layer that fits no array raises when it is created.
- The layers are dataclasses, not Equinox modules, but can be used wherever those can: in a model, in
  `eqx.nn.Sequential`, under `eqx.filter_jit`, in `eqx.tree_deserialise_leaves` of a checkpoint of Equinox's layers.
  To JAX they are pytrees, equal if their sizes are equal, and the only leaf is `init`, a number that nothing reads;
  Equinox's layers also hold a function.

As in Equinox, averages count zeros under `use_ceil`. A window that holds only padding is -inf under maxima and 0 under
averages, and passes no gradient. A window larger than the array gives an empty output. `Pool` and `AdaptivePool` are
left out: they accept any reduction, so no derivative rule could be given.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
from jax import lax
from jax.typing import ArrayLike

import jaxpool
from jaxpool._checks import check_array, check_flag
from jaxpool._sizes import Sizes, check_pooled_axis, sizes
from jaxpool._words import answer_names
from jaxpool.compat._windows import Windows, averages, maxima, quotient_dtype

answer_names(__name__)

Padding = Sizes | Sequence[Sequence[int]]


class _Layer:
    """A layer, with its arguments as attributes. To JAX it is a pytree, equal if its arguments are."""

    num_spatial_dims: ClassVar[int]
    _name: ClassVar[str]
    _averages: ClassVar[bool]

    def __init_subclass__(cls, *, rank: int = 0, averages: bool = False) -> None:
        if rank:
            cls.num_spatial_dims, cls._name, cls._averages = rank, cls.__name__, averages
            jax.tree_util.register_pytree_with_keys(cls, _flatten, _unflatten)

    def __call__(self, x: ArrayLike, *, key: ArrayLike | None = None) -> jax.Array:
        """Pool one array, channels first and without a batch; `key` is not used."""
        rank = self.num_spatial_dims
        array = check_array(self._name, x, complex_allowed=self._averages)
        if array.ndim == rank + 1:
            return self._pooled(array)
        letters = {1: "(C, L)", 2: "(C, H, W)", 3: "(C, D, H, W)"}[rank]
        fix = "add the axis of channels, as in x[None]"
        if array.ndim > rank:
            fix = "map over the batch, as in jax.vmap(layer)(x)"
        raise ValueError(f"{self._name}: x must have the axes {letters}, got {array.shape}; {fix}")

    def _pooled(self, x: jax.Array) -> jax.Array:
        raise NotImplementedError


def _flatten(layer: _Layer) -> tuple[list[tuple[Any, Any]], _Layer]:
    return [(jax.tree_util.GetAttrKey("init"), layer.init)] if isinstance(layer, _Windows) else [], layer


def _unflatten(layer: _Layer, leaves: Iterable[Any]) -> _Layer:
    made = copy.copy(layer)
    for leaf in leaves:
        object.__setattr__(made, "init", leaf)
    return made


@dataclass(frozen=True, init=False)
class _Windows(_Layer):
    """Windows that slide along all axes but the first; the arguments have one entry per pooled axis."""

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    use_ceil: bool
    # The only leaf: Equinox's reductions start from it, and files of its models hold it.
    init: float = field(repr=False, compare=False)

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
        for n, k, s, (low, high) in zip(x.shape[1:], self.kernel_size, self.stride, self.padding, strict=True):
            rest = (n + low + high - k) % s if self.use_ceil else 0
            padding.append((low, high + s if rest else high))
        windows = Windows(self._name, range(1, x.ndim), self.kernel_size, self.stride, padding)
        return averages(x, windows, x.dtype, include_pad=True) if self._averages else maxima(x, windows)


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


class MaxPool1d(_Windows, rank=1):
    """As `equinox.nn.MaxPool1d`; see `MaxPool2d`. Differs in the same ways."""


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
    """As `equinox.nn.MaxPool3d`; see `MaxPool2d`. Differs in the same ways."""


class AvgPool1d(_Windows, rank=1, averages=True):
    """As `equinox.nn.AvgPool1d`; see `AvgPool2d`. Differs in the same ways."""


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
    """As `equinox.nn.AvgPool3d`; see `AvgPool2d`. Differs in the same ways."""


@dataclass(frozen=True, init=False)
class _Bins(_Layer):
    """Bins along all axes but the first, as many as the entry of that axis says.

    Of n cells in m bins the first n mod m bins have ⌊n/m⌋ + 1 cells and the others ⌊n/m⌋.
    """

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
            return _binned(jaxpool.avg_pool, x.astype(quotient_dtype(x, x.dtype)), self.target_shape, ())
        return _binned(jaxpool.max_pool, x, self.target_shape, ())


def _binned(pool: Callable[..., jax.Array], x: jax.Array, bins: tuple[int, ...], kernels: tuple[int, ...]) -> jax.Array:
    """Pool in blocks in which the bins of an axis have one size; `kernels` are those of the first axes."""
    axis = len(kernels) + 1
    if axis == x.ndim:
        return pool(x, kernels)
    size, larger = divmod(x.shape[axis], bins[axis - 1])
    end = larger * (size + 1)
    parts = [(0, end, size + 1), (end, x.shape[axis], size)]
    pooled = [
        _binned(pool, lax.slice_in_dim(x, start, stop, axis=axis), bins, (*kernels, kernel))
        for start, stop, kernel in parts
        if start < stop
    ]
    return lax.concatenate(pooled, axis)


class AdaptiveMaxPool1d(_Bins, rank=1):
    """As `equinox.nn.AdaptiveMaxPool1d`; see `AdaptiveMaxPool2d`. Differs in the same ways."""


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
    """As `equinox.nn.AdaptiveMaxPool3d`; see `AdaptiveMaxPool2d`. Differs in the same ways."""


class AdaptiveAvgPool1d(_Bins, rank=1, averages=True):
    """As `equinox.nn.AdaptiveAvgPool1d`; see `AdaptiveAvgPool2d`. Differs in the same ways."""


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
    """As `equinox.nn.AdaptiveAvgPool3d`; see `AdaptiveAvgPool2d`. Differs in the same ways."""
