"""Models from the documentation of their frameworks, trained with the framework's pooling and with ours.

The models are built twice from one source, which uses the framework's names for pooling. The second time these names
refer to the functions of `jaxpool.compat`, as after a changed import line. The same steps on the same digits must then
give the same weights: the two differ only by the rounding of quotients, over a dozen steps of plain descent. Equinox
has layers instead of functions, and its models replace them one by one.
"""

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_fast
from tests.peers.compat_comparison import settings_of_users

pytestmark = pytest.mark.usefixtures("for_this_platform")

optax = pytest.importorskip("optax")
datasets = pytest.importorskip("sklearn.datasets")

Predict = Callable[[Any, jax.Array], jax.Array]
Digits = tuple[jax.Array, jax.Array]

STEPS, BATCH = 12, 32


@pytest.fixture(autouse=True)
def _default_settings(_strict_float64: None) -> Iterator[None]:
    with settings_of_users():
        yield


@pytest.fixture
def digits() -> Digits:
    bunch = datasets.load_digits()
    images = bunch.images[: STEPS * BATCH].reshape(STEPS, BATCH, 8, 8, 1) / 16
    return jnp.asarray(images, jnp.float32), jnp.asarray(bunch.target[: STEPS * BATCH].reshape(STEPS, BATCH))


def loss(predict: Predict, weights: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(predict(weights, images), labels).mean()


def train(predict: Predict, weights: Any, digits: Digits) -> Any:
    """The weights after one step for each batch of digits."""
    optimiser = optax.sgd(0.1, 0.9)

    @compiled_fast
    def step(weights: Any, state: Any, images: jax.Array, labels: jax.Array) -> tuple[Any, Any]:
        updates, state = optimiser.update(jax.grad(partial(loss, predict))(weights, images, labels), state)
        return optax.apply_updates(weights, updates), state

    state = optimiser.init(weights)
    for images, labels in zip(*digits, strict=True):
        weights, state = step(weights, state, images, labels)
    return weights


def first_weights(shapes: Any) -> Any:
    """Weights to start from, by NumPy, because the initialisers of the frameworks take long to compile."""
    random = np.random.default_rng(0)

    def weight(shape: tuple[int, ...]) -> jax.Array:
        cells = np.prod(shape[:-1])
        return jnp.asarray(random.normal(size=shape) / np.sqrt(cells) * (len(shape) > 1), jnp.float32)

    return jax.tree.map(lambda one: weight(one.shape), shapes)


def linen_network() -> tuple[Predict, Any]:
    nn = import_module("flax.linen")

    class CNN(nn.Module):
        """A simple CNN model."""

        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            x = nn.Conv(features=32, kernel_size=(3, 3))(x)
            x = nn.relu(x)
            x = nn.avg_pool(x, window_shape=(2, 2), strides=(2, 2))
            x = nn.Conv(features=64, kernel_size=(3, 3))(x)
            x = nn.relu(x)
            x = nn.avg_pool(x, window_shape=(2, 2), strides=(2, 2))
            x = x.reshape((x.shape[0], -1))  # flatten
            x = nn.Dense(features=256)(x)
            x = nn.relu(x)
            x = nn.Dense(features=10)(x)
            return x

    cnn = CNN()
    return cnn.apply, jax.eval_shape(cnn.init, jax.random.key(0), jnp.ones([1, 8, 8, 1]))


def nnx_network() -> tuple[Predict, Any]:
    nnx = import_module("flax.nnx")

    class CNN(nnx.Module):
        """A simple CNN model."""

        def __init__(self, *, rngs: Any):
            self.conv1 = nnx.Conv(1, 8, kernel_size=(3, 3), rngs=rngs)
            self.conv2 = nnx.Conv(8, 16, kernel_size=(3, 3), rngs=rngs)
            self.max_pool = partial(nnx.max_pool, window_shape=(3, 3), strides=(2, 2), padding="SAME")
            self.avg_pool = partial(nnx.avg_pool, window_shape=(2, 2), strides=(2, 2))
            self.linear = nnx.Linear(64, 10, rngs=rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            x = self.max_pool(nnx.relu(self.conv1(x)))
            x = self.avg_pool(nnx.relu(self.conv2(x)))
            return self.linear(x.reshape(x.shape[0], -1))

    graph, weights = nnx.split(nnx.eval_shape(lambda: CNN(rngs=nnx.Rngs(0))))
    return lambda weights, x: nnx.merge(graph, weights)(x), weights


def haiku_network() -> tuple[Predict, Any]:
    hk = import_module("haiku")

    def forward(x: jax.Array) -> jax.Array:
        features = hk.Sequential(
            [
                hk.Conv2D(output_channels=8, kernel_shape=3),
                jax.nn.relu,
                hk.MaxPool(window_shape=(3, 3, 1), strides=(2, 2, 1), padding="SAME"),
                hk.Conv2D(output_channels=16, kernel_shape=3),
                jax.nn.relu,
            ]
        )
        x = hk.avg_pool(features(x), window_shape=(3, 3, 1), strides=(2, 2, 1), padding="SAME")
        return hk.nets.MLP([32, 10])(hk.Flatten()(x))

    network = hk.without_apply_rng(hk.transform(forward))
    return network.apply, jax.eval_shape(network.init, jax.random.key(0), jnp.ones([1, 8, 8, 1]))


class Swap(NamedTuple):
    """What builds a model and the shapes of its weights, the source of its pooling, and the stand-in for it."""

    build: Callable[[], tuple[Predict, Any]]
    original: str
    stand_in: str
    names: tuple[str, ...]


SWAPS = (
    Swap(linen_network, "flax.linen", "jaxpool.compat.flax", ("avg_pool",)),
    Swap(nnx_network, "flax.nnx", "jaxpool.compat.flax", ("max_pool", "avg_pool")),
    Swap(haiku_network, "haiku", "jaxpool.compat.haiku", ("MaxPool", "avg_pool")),
)


@pytest.mark.parametrize("swap", SWAPS, ids=lambda swap: swap.original)
def test_model_learns_the_same_weights(swap: Swap, digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    original, stand_in = pytest.importorskip(swap.original), import_module(swap.stand_in)
    predict, shapes = swap.build()
    start = first_weights(shapes)
    expected = train(predict, start, digits)
    used = set()

    def noted(name: str) -> Callable[..., Any]:
        def function(*arguments: Any, **named: Any) -> Any:
            used.add(name)
            return getattr(stand_in, name)(*arguments, **named)

        return function

    for name in swap.names:
        monkeypatch.setattr(original, name, noted(name))
    predict, same_shapes = swap.build()
    assert jax.tree.all(jax.tree.map(lambda one, other: one.shape == other.shape, same_shapes, shapes))
    found = train(predict, start, digits)
    assert used == set(swap.names)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=0, atol=1e-5), found, expected)
    changes = jax.tree.map(lambda one, other: float(jnp.abs(one - other).max()), expected, start)
    assert min(jax.tree.leaves(changes)) > 1e-3


def test_equinox_model_has_the_same_gradients(digits: Digits) -> None:
    """Overlapping maxima, averages with padding and adaptive ones, for the layers that Equinox has for them."""
    eqx = pytest.importorskip("equinox")

    def network(*pools: Any) -> Any:
        def build(key: jax.Array) -> Any:
            layers = (
                eqx.nn.Conv2d(1, 4, 3, padding=1, key=key),
                pools[0],
                eqx.nn.Conv2d(4, 8, 3, padding=1, key=key),
                eqx.nn.Lambda(jax.nn.relu),
                *pools[1:],
                eqx.nn.Lambda(jnp.ravel),
                eqx.nn.Linear(8, 10, key=key),
            )
            return eqx.nn.Sequential(layers)

        shapes = eqx.filter_eval_shape(build, jax.random.key(0))
        arrays, others = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
        return eqx.combine(first_weights(arrays), others)

    def ours(pool: Callable[..., jax.Array], *arguments: Any) -> Any:
        return eqx.nn.Lambda(lambda x: pool(x, *arguments))

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(network: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        return loss(lambda network, x: jax.vmap(network)(x), network, images, labels)

    images, labels = jnp.moveaxis(digits[0][0], -1, 1), digits[1][0]
    expected = gradient(
        network(eqx.nn.MaxPool2d(3, 2, 1), eqx.nn.AvgPool2d(3, 1, 1), eqx.nn.AdaptiveAvgPool2d(1)), images, labels
    )
    found = gradient(
        network(
            ours(jaxpool.max_pool, (3, 3), 2, 1),
            ours(jaxpool.avg_pool, (3, 3), 1, 1),
            ours(jaxpool.adaptive_avg_pool, (1, 1)),
        ),
        images,
        labels,
    )
    pairs = [jax.tree.leaves(eqx.filter(one, eqx.is_array)) for one in (found, expected)]
    assert len(pairs[0]) == 6
    for one, other in zip(*pairs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
        assert jnp.abs(other).max() > 1e-3
