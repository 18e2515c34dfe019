"""The derivative rules: one for every mode and order, and one for reverse mode only; linear maps with transposes.

The derivatives of a pool are linear in the tangent or the cotangent. JAX can transpose one into the other, but turns
gathers into scatters and evaluates both sides of branches. In a `LinearMap` both directions are explicit; a primitive
evaluates one and transposes into the other. So forward mode gets a tangent map as good as the cotangent map, reverse
mode keeps only the residuals of the map, and a linear pool is linear to JAX.

A pool whose values are selected cells is linear wherever the selection is constant. Its rules follow from the selection
and from the linear map that reads the selected cells, whose transpose sends cotangents to them. The same map reads
tangents; the arguments that only determine the selection have none. Portable programs leave all rules to JAX.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._jax.platforms import is_portable
from jaxpool._jax.primitives import available, call
from jaxpool._sharding import vary_with

# Values, and the residuals that tell the map which cells to read.
ValuesAndResiduals = tuple[Any, tuple[Any, ...]]


class WithRule(jax.custom_jvp[Any]):
    """A function with a forward rule; in portable programs the plain function."""

    def __call__(self, *arguments: Any) -> Any:
        return self.fun(*arguments) if is_portable() else super().__call__(*arguments)


def custom_rule(static: Sequence[int] = ()) -> Callable[[Callable[..., Any]], WithRule]:
    """Give a function a rule; `static` are the numbers of the arguments that are not differentiated."""
    return partial(WithRule, nondiff_argnums=tuple(static))


def with_rule(rule: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function: unchanged for "jvp", and for "vjp" a `jax.custom_vjp` made of its pullback."""
    if rule == "jvp" or is_portable():
        return function
    reverse_only = jax.custom_vjp(function)
    reverse_only.defvjp(partial(jax.vjp, function), lambda pull_back, cotangent: pull_back(cotangent))
    return reverse_only


def is_symbolic_zero(tangent: Any) -> bool:
    """Whether a tangent is a symbolic zero."""
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero)


@dataclass(frozen=True)
class LinearMap(abc.ABC):
    """A map linear in its first argument; the others, such as winners' offsets, are constants to derivatives."""

    @abc.abstractmethod
    def forward(self, *arrays: Any, **_: Any) -> Any:
        """Apply the map to the vector, followed by the residuals."""

    @abc.abstractmethod
    def transpose(self, *arrays: Any, **_: Any) -> Any:
        """Map the cotangent of the result, followed by the residuals, to that of the vector."""


def apply_linear_map(linear_map: LinearMap, vector: Any, *residuals: Any, like: Any = None) -> Any:
    """Apply a map to a vector, so that JAX transposes it into its own transpose; the result has `like`'s type.

    A branch on values asks for one answer for a batch (see `if_all`): otherwise both of its sides would be evaluated.
    """
    residuals = jax.tree.map(lax.stop_gradient, residuals)
    if not available():
        return linear_map.forward(vector, *residuals)
    # The cotangent of a vector that devices share is a sum over those whose residuals differ.
    others = jax.tree.leaves(residuals)
    vector = jax.tree.map(lambda each: vary_with(each, *others), vector)
    return call(_Direction(linear_map, False), vector, *residuals, like=like, transposed=_Direction(linear_map, True))


@dataclass(frozen=True)
class _Direction:
    """A map or its transpose, on every platform; equal for equal maps, which JAX then lowers once."""

    linear_map: LinearMap
    transposed: bool

    def __call__(self, platform: str, *arrays: Any) -> Any:
        return (self.linear_map.transpose if self.transposed else self.linear_map.forward)(*arrays)


class CellSelector(abc.ABC):
    """Which cells of an array a pool selects, given other arrays without derivatives; static in the traced program."""

    def values(self, *arrays: Any, **_: Any) -> Any:
        """Only the values, an array or a tuple of arrays, for calls without derivatives."""
        return self.select(*arrays)[0]

    @abc.abstractmethod
    def select(self, *arrays: Any, **_: Any) -> ValuesAndResiduals:
        """The values, and the residuals that identify the selected cells."""

    @property
    @abc.abstractmethod
    def read(self) -> LinearMap:
        """The linear map from x to the values, given the residuals."""


def selected_values(selector: CellSelector, rule: str, x: jax.Array, *others: Any) -> Any:
    """The values of the selected cells, with the derivative rule of this name; integers have none."""
    return values_and_residuals(selector, rule, x, *others, keeps=False)[0]


def values_and_residuals(
    selector: CellSelector, rule: str, x: jax.Array, *others: Any, keeps: bool = True
) -> ValuesAndResiduals:
    """The same together with the residuals, if the caller `keeps` them; they have no derivatives."""
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return selector.select(x, *others) if keeps else (selector.values(x, *others), ())
    return with_rule(rule, partial(_select, selector, keeps))(x, *others)


@custom_rule((0, 1))
def _select(selector: CellSelector, keeps: bool, x: jax.Array, *others: Any) -> ValuesAndResiduals:
    if is_portable():
        _, residuals = selector.select(lax.stop_gradient(x), *others)
        return apply_linear_map(selector.read, x, *residuals), residuals
    return selector.select(x, *others) if keeps else (selector.values(x, *others), ())


@_select.defjvp
def _select_jvp(selector: CellSelector, keeps: bool, primals: Any, tangents: Any) -> tuple[ValuesAndResiduals, Any]:
    values, residuals = _select(selector, True, *primals)
    values_dot = apply_linear_map(selector.read, tangents[0], *residuals, like=values)
    kept = residuals if keeps else ()
    return (values, kept), (values_dot, jax.tree.map(jax.custom_derivatives.zero_from_primal, kept))
