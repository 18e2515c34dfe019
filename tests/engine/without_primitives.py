"""Every function, in a process whose JAX lacks custom primitives, against the same in a process that has them.

`python -m tests.engine.without_primitives FILE` removes the modules that JAX does not guarantee, and writes the results
to the file.
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
    assert not primitives.AVAILABLE
    np.savez(sys.argv[1], *(each for record in RECORDS.values() for each in results(record)))
