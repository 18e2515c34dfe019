"""What all layers have in common: they are called with one array, channels first and without a batch."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, ClassVar

import jax
from jax.typing import ArrayLike

from jaxpool._checks import check_array


class Layer:
    """A layer, with its arguments as attributes. To JAX it is a pytree, equal if its arguments are."""

    num_spatial_dims: ClassVar[int]
    _averages: ClassVar[bool]
    # The attributes that are leaves.
    _leaves: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, *, rank: int = 0, averages: bool = False) -> None:
        if rank:
            cls.num_spatial_dims, cls._averages = rank, averages
            jax.tree_util.register_pytree_with_keys(cls, _flatten, _unflatten)

    @property
    def _name(self) -> str:
        return type(self).__name__

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


def _flatten(layer: Layer) -> tuple[list[tuple[Any, Any]], Layer]:
    return [(jax.tree_util.GetAttrKey(name), getattr(layer, name)) for name in layer._leaves], layer


def _unflatten(layer: Layer, leaves: Iterable[Any]) -> Layer:
    made = copy.copy(layer)
    for name, leaf in zip(layer._leaves, leaves, strict=True):
        object.__setattr__(made, name, leaf)
    return made
