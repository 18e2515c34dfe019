"""One case: a pool or a network, its arguments, and the functions that compute it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import cases
from benchmarks.accelerators.programs import Specification, needed_bytes

OURS, PLAIN, SLICE = "jaxpool", "plain JAX", "strided slice"
Function = Callable[..., Any]
Pool = Callable[..., jax.Array]
Draw = Callable[[jax.Array], tuple[jax.Array, ...]]


@dataclass(frozen=True)
class Case:
    """What to compile, and what its goals depend on.

    Attributes:
        name: what it is, in words.
        target: the device, "gpu" or "tpu".
        kind: the key of its goals, such as "max forward" or "network".
        specifications: shapes and dtypes of the arguments.
        functions: jaxpool's function, and those that it is compared with.
        kernel: the sizes of the window; empty for whole axes, bins and cases without windows.
        pool: the pool, if there is nothing around it and no mask.
        draw: makes arguments from a random key, where random numbers of their shapes would be none.
    """

    name: str
    target: str
    kind: str
    specifications: tuple[Specification, ...]
    functions: Mapping[str, Function]
    kernel: tuple[int, ...] = ()
    pool: cases.Case | None = None
    draw: Draw | None = None

    @property
    def needed(self) -> int:
        """Bytes of arguments and results."""
        return needed_bytes(self.functions[OURS], self.specifications)

    def holds(self, text: str) -> bool:
        """Whether the name contains this text, which may have x for ×."""
        return text.replace("×", "x") in f"{self.target} {self.name}".replace("×", "x")


def gradient(pool: Pool) -> Function:
    """The gradient with respect to the first argument; the cotangent is the last argument."""

    def pulled_back(x: jax.Array, *others: jax.Array) -> jax.Array:
        *rest, cotangent = others
        return jax.vjp(lambda x: pool(x, *rest), x)[1](cotangent)[0]

    return pulled_back


def gradient_of_linear(pool: Pool, specification: Specification) -> Function:
    """The same for a pool whose gradient does not depend on x, which is then not an argument."""

    def pulled_back(*others: jax.Array) -> jax.Array:
        *rest, cotangent = others
        return jax.vjp(lambda x: pool(x, *rest), jnp.zeros(*specification))[1](cotangent)[0]

    return pulled_back


def result(pool: Pool, specifications: tuple[Specification, ...]) -> Specification:
    """The shape and dtype of a pool's result."""
    array = jax.eval_shape(pool, *(jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in specifications))
    return array.shape, array.dtype
