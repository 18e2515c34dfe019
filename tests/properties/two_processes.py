"""A separate program: one training step by two processes, each with half of the batch and its own devices.

`python -m tests.properties.two_processes PORT NUMBER` is process NUMBER of two that connect on that port of this
machine. Each prints the loss and the new weights, which must be those of a single process, started without arguments.
The model is small but has what a real one has: convolutions, a pool with padding, a learnt exponent, a global pool.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxpool

Weights = dict[str, jax.Array]


def initial_weights() -> dict[str, np.ndarray]:
    """The same in every process."""
    random = np.random.default_rng(0)
    return {
        "first": random.normal(size=(3, 3, 1, 4)).astype(np.float32) / 3,
        "second": random.normal(size=(3, 3, 4, 8)).astype(np.float32) / 6,
        "exponent": np.linspace(1.5, 3, 8, dtype=np.float32),
        "head": random.normal(size=(8, 10)).astype(np.float32) / 3,
    }


def pictures() -> tuple[np.ndarray, np.ndarray]:
    """A batch of 16, with labels."""
    random = np.random.default_rng(1)
    return random.normal(size=(16, 12, 12, 1)).astype(np.float32), random.integers(10, size=16)


def loss(weights: Weights, x: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross entropy."""
    dimensions = ("NHWC", "HWIO", "NHWC")
    x = jax.lax.conv_general_dilated(x, weights["first"], (1, 1), "SAME", dimension_numbers=dimensions)
    x = jaxpool.max_pool(x, 3, 2, 1, axis=(1, 2))
    x = jax.lax.conv_general_dilated(x, weights["second"], (1, 1), "SAME", dimension_numbers=dimensions)
    x = jaxpool.lp_pool(x, weights["exponent"], 2, axis=(1, 2)) + jaxpool.avg_pool(x, 2, axis=(1, 2))
    logits = jaxpool.global_max_pool(x, axis=(1, 2), keepdims=False) @ weights["head"]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


@jax.jit
def step(weights: Weights, x: jax.Array, labels: jax.Array) -> tuple[jax.Array, Weights]:
    """One step of gradient descent."""
    value, gradient = jax.value_and_grad(loss)(weights, x, labels)
    return value, jax.tree.map(lambda weight, slope: weight - 0.5 * slope, weights, gradient)


def main() -> None:
    """Train one step, together or alone."""
    weights, (x, labels) = initial_weights(), pictures()
    if len(sys.argv) == 3:
        port, number = sys.argv[1:]
        jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=int(number))
        assert jax.process_count() == 2
        assert len(jax.devices()) == 2 * len(jax.local_devices())
        mesh = jax.make_mesh((len(jax.devices()),), ("batch",), axis_types=(AxisType.Auto,))
        whole, cut = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("batch"))
        half = slice(8 * int(number), 8 * int(number) + 8)
        x, labels = (jax.make_array_from_process_local_data(cut, array[half]) for array in (x, labels))
        weights = jax.device_put(weights, whole)
    value, weights = step(weights, x, labels)
    results = {"loss": value, **weights}
    print(json.dumps({name: np.ravel(array.addressable_data(0)).tolist() for name, array in results.items()}))


if __name__ == "__main__":
    main()
