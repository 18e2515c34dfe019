"""The rules of derivatives: one for every mode and order, or one for reverse mode alone.

A pool whose values are cells that it selects is linear wherever the selection stays the same. So its rules follow from
two things: what it selects, and the linear map that reads the selected cells, whose transpose is the way back to them.
The same map reads tangents; what selected the cells has none.
"""

import abc
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxpool._engine.linear_maps import LinearMap, apply_linear_map

# Values, and the residuals by which the map reads the cells.
ValuesAndResiduals = tuple[jax.Array, tuple[Any, ...]]


def with_rule(rule: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function: as it is for "jvp", for "vjp" as a `jax.custom_vjp` that pulls its linearization back."""
    if rule == "jvp":
        return function
    reverse_only = jax.custom_vjp(function)
    reverse_only.defvjp(lambda *arguments: jax.vjp(function, *arguments), _pull_back)
    return reverse_only


def _pull_back(pull_back: Callable[[Any], Any], cotangent: Any) -> Any:
    return pull_back(cotangent)


def is_symbolic_zero(tangent: Any) -> bool:
    """Whether a tangent that came as a symbol is known to be 0."""
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero)


class CellSelector(abc.ABC):
    """Which cells of an array a pool selects, given others that have no derivatives; static in the traced program."""

    def values(self, *arrays: Any, **_: Any) -> jax.Array:
        """The values alone, for calls without derivatives."""
        return self.select(*arrays)[0]

    @abc.abstractmethod
    def select(self, *arrays: Any, **_: Any) -> ValuesAndResiduals:
        """The values, and the residuals that say which cells they are."""

    @property
    @abc.abstractmethod
    def read(self) -> LinearMap:
        """The map of x to the values, once the residuals are known."""


def selected_values(selector: CellSelector, rule: str, x: jax.Array, *others: Any) -> jax.Array:
    """The values of the selected cells, with the derivative rule of that name; integers have none."""
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return selector.values(x, *others)
    return with_rule(rule, partial(_values, selector))(x, *others)


def values_and_residuals(selector: CellSelector, rule: str, x: jax.Array, *others: Any) -> ValuesAndResiduals:
    """The same with the residuals, which have no derivatives."""
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return selector.select(x, *others)
    return with_rule(rule, partial(_select, selector))(x, *others)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _values(selector: CellSelector, x: jax.Array, *others: Any) -> jax.Array:
    return selector.values(x, *others)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _select(selector: CellSelector, x: jax.Array, *others: Any) -> ValuesAndResiduals:
    return selector.select(x, *others)


@_values.defjvp
def _values_jvp(selector: CellSelector, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (values, _), (values_dot, _) = jax.jvp(partial(_select, selector), primals, tangents)
    return values, values_dot


@_select.defjvp
def _select_jvp(selector: CellSelector, primals: Any, tangents: Any) -> tuple[ValuesAndResiduals, Any]:
    values, residuals = _select(selector, *primals)
    values_dot = apply_linear_map(selector.read, tangents[0], *residuals, like=values)
    return (values, residuals), (values_dot, jax.tree.map(jax.custom_derivatives.zero_from_primal, residuals))
