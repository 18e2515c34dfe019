"""Every function, in a process whose JAX lacks custom primitives, against the same in a process that has them.

`python -m tests.engine.without_primitives FILE FUNCTION...` writes the results of some functions to a file.
"""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpool._engine import primitives
from tests.harness.compilation import compiled_fast
from tests.registry.records import RECORDS, Record


def results(record: Record) -> Any:
    """Value, tangent, gradient, gradient of a batch and, for one function of each kind, a second derivative."""
    draw = np.random.default_rng(0).normal
    x, direction = draw(size=(2, 3, 7, 6)).astype(np.float32)[:, None]

    def everything(x: jax.Array, direction: jax.Array) -> Any:
        def loss(x: jax.Array) -> jax.Array:
            return (record.values(x) ** 2).sum()

        gradient = jax.grad(loss)
        found = [*jax.jvp(record.values, (x,), (direction,)), gradient(x), jax.vmap(gradient)(jnp.stack([x, -x]))]
        if not record.selects:
            found.append(jax.jvp(gradient, (x,), (direction,))[1])
        return found

    return compiled_fast(everything)(x, direction)


if __name__ == "__main__":
    _, file, *functions = sys.argv
    assert not primitives.AVAILABLE
    np.savez(file, *(each for function in functions for each in results(RECORDS[function])))
