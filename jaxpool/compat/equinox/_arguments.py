"""The arguments of layers: arrays with channels first and no batch, and padding on both sides."""

from collections.abc import Sequence

import jax
from jax.typing import ArrayLike

from jaxpool._call import check_array
from jaxpool._geometry.sizes import Sizes, sizes

Padding = Sizes | Sequence[Sequence[int]]


def channels_first(function: str, x: ArrayLike, rank: int, *, complex_allowed: bool = False) -> jax.Array:
    """Return the array, or raise unless it has exactly one axis before the `rank` pooled ones."""
    array = check_array(function, x, complex_allowed=complex_allowed)
    if array.ndim == rank + 1:
        return array
    letters = {1: "(C, L)", 2: "(C, H, W)", 3: "(C, D, H, W)"}[rank]
    fix = "add the axis of channels, as in x[None]"
    if array.ndim > rank:
        fix = "map over the batch, as in jax.vmap(layer)(x)"
    raise ValueError(f"{function}: x must have the axes {letters}, got {array.shape}; {fix}")


def pairs(function: str, padding: Padding, kernels: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
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
