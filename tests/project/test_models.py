"""Small networks that learn handwritten digits with our pooling, in Flax: as with its own, learnt numbers, unpooling.

All are trained with float32, jit, Adam and scikit-learn's 8×8 digits. A classifier must reach 95 % on digits that it
was not trained on. With plain pools its first twenty losses must be those of the same network with the framework's own
pooling, from the same initial weights and the same batches.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_fast

optax = pytest.importorskip("optax")
datasets = pytest.importorskip("sklearn.datasets")

pytestmark = [pytest.mark.usefixtures("as_users_have_it"), pytest.mark.slow]

Predict = Callable[[Any, jax.Array], jax.Array]
Pools = tuple[Callable[[jax.Array], jax.Array], Callable[[jax.Array], jax.Array]]

Digits = tuple[np.ndarray, np.ndarray]

STEPS, BATCH, SAME_STEPS = 200, 64, 20
# Channels-last images, as Flax has them.
HALVE: dict[str, Any] = {"kernel_size": 2, "axis": (-3, -2)}
OVERLAP: dict[str, Any] = {"kernel_size": 3, "stride": 2, "padding": "SAME", "axis": (-3, -2)}


@pytest.fixture(scope="module")
def digits() -> Digits:
    bunch = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    return (bunch.images[order, :, :, None] / 16).astype(np.float32), bunch.target[order].astype(np.int32)


def train(predict: Predict, weights: Any, digits: Digits, steps: int) -> tuple[list[float], float, Any]:
    """Train on the first 1500 digits; return the losses, the accuracy on the other digits, and the weights."""
    images, labels = digits
    optimiser = optax.adam(1e-2)

    def loss(weights: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(predict(weights, images), labels).mean()

    @compiled_fast
    def step(weights: Any, state: Any, images: jax.Array, labels: jax.Array) -> tuple[Any, Any, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(weights, images, labels)
        updates, state = optimiser.update(gradient, state)
        return optax.apply_updates(weights, updates), state, value

    state, losses, random = optimiser.init(weights), [], np.random.default_rng(1)
    for _ in range(steps):
        batch = random.choice(1500, BATCH, replace=False)
        weights, state, value = step(weights, state, images[batch], labels[batch])
        losses.append(float(value))
    right = jnp.argmax(compiled_fast(predict)(weights, images[1500:]), -1) == labels[1500:]
    return losses, float(right.mean()), weights


def flax_network(pools: Pools) -> tuple[Predict, Any]:
    linen = pytest.importorskip("flax.linen")

    class Network(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            for features, pool in zip((16, 32), pools, strict=True):
                x = pool(linen.relu(linen.Conv(features, (3, 3))(x)))
            return linen.Dense(10)(x.reshape(len(x), -1))

    network = Network()
    return network.apply, network.init(jax.random.key(0), jnp.zeros((1, 8, 8, 1)))


def flax_pools() -> Pools:
    pooling = pytest.importorskip("flax.linen.pooling")
    return (
        partial(pooling.max_pool, window_shape=(3, 3), strides=(2, 2), padding="SAME"),
        partial(pooling.avg_pool, window_shape=(2, 2), strides=(2, 2)),
    )


def test_network_learns_as_with_the_pooling_of_its_framework(digits: Digits) -> None:
    ours = (partial(jaxpool.max_pool, **OVERLAP), partial(jaxpool.avg_pool, **HALVE))
    losses, accuracy, _ = train(*flax_network(ours), digits, STEPS)
    assert accuracy >= 0.95
    expected, *_ = train(*flax_network(flax_pools()), digits, SAME_STEPS)
    np.testing.assert_allclose(losses[:SAME_STEPS], expected, rtol=0, atol=1e-4)
    # The comparison is meaningful only if the network has learnt by then, and so has used its gradients.
    assert expected[-1] < 0.8 * expected[0]


def test_network_learns_with_smooth_and_lp_pooling(digits: Digits) -> None:
    """The sharpness of the smooth maximum and the exponent of the norm are weights like any others."""

    def predict(weights: Any, x: jax.Array) -> jax.Array:
        network, beta, exponent = weights
        pools = (
            partial(jaxpool.smooth_max_pool, beta=beta, count_include_pad=False, **OVERLAP),
            partial(jaxpool.lp_pool, norm_type=exponent, **HALVE),
        )
        return flax_network(pools)[0](network, x)

    _, network = flax_network((partial(jaxpool.max_pool, **OVERLAP), partial(jaxpool.max_pool, **HALVE)))
    start = (network, jnp.full(16, 8.0), jnp.full(32, 2.0))
    losses, accuracy, (_, beta, exponent) = train(predict, start, digits, 300)
    assert np.isfinite(losses).all()
    assert accuracy >= 0.95
    for weight, first in ((beta, 8.0), (exponent, 2.0)):
        assert np.isfinite(weight).all()
        assert np.abs(weight - first).max() > 0.1


def test_autoencoder_learns_digits(digits: Digits) -> None:
    """A code of 2×2×8 numbers, put back where the maxima were, gives a better picture than the mean digit."""
    linen = pytest.importorskip("flax.linen")
    images = jnp.asarray(digits[0])

    class Autoencoder(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            places = []
            for features in (16, 8):
                x = linen.relu(linen.Conv(features, (3, 3))(x))
                x, indices = jaxpool.max_pool_with_indices(x, 2, axis=(-3, -2))
                places.append(indices)
            for features, indices in zip((16, 1), reversed(places), strict=True):
                x = jaxpool.max_unpool(x, indices, 2 * x.shape[-2], axis=(-3, -2))
                x = linen.Conv(features, (3, 3))(x)
                x = linen.relu(x) if features > 1 else x
            return x

    network, optimiser = Autoencoder(), optax.adam(3e-3)
    weights = network.init(jax.random.key(0), images[:1])

    def loss(weights: Any, images: jax.Array) -> jax.Array:
        return ((network.apply(weights, images) - images) ** 2).mean()

    @compiled_fast
    def step(weights: Any, state: Any, images: jax.Array) -> tuple[Any, Any, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(weights, images)
        updates, state = optimiser.update(gradient, state)
        return optax.apply_updates(weights, updates), state, value

    state, random = optimiser.init(weights), np.random.default_rng(0)
    for _ in range(120):
        weights, state, _ = step(weights, state, images[random.choice(1500, 64, replace=False)])
    unseen = images[1500:]
    of_the_mean_digit = float(((unseen - images[:1500].mean(0)) ** 2).mean())
    assert float(compiled_fast(loss)(weights, unseen)) < 0.3 * of_the_mean_digit
