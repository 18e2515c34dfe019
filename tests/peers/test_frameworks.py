"""jaxpool beside and inside of frameworks: equal pools where they are right, equal models, and parameters of Flax.

The models are built twice from one source, which uses the framework's names for pooling. The second time these names
refer to `jaxpool.compat`, as after a changed import line.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
import jaxpool.morphology
from tests.harness.compilation import compiled_fast, settings_of_users
from tests.peers.compat_comparison import imported
from tests.platform_faults import LIBRARIES, windows
from tests.registry.records import slow_but

pytestmark = pytest.mark.usefixtures("for_this_platform")

SPACES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((9,), windows(3, stride=2, padding="SAME")),
    ((6, 8), windows(2, 2)),
    ((7, 6), windows(3, 3, stride=2, padding="SAME")),
    ((8, 9), windows(2, 3, stride=3)),
    ((5, 4, 6), windows(2, 3, 2, stride=2, padding="SAME")),
]
# Equinox has bins of its own for numbers that do not divide the cells.
BINS: list[tuple[tuple[int, ...], dict[str, Any]]] = [((9,), {"output_size": (3,)}), ((8, 6), {"output_size": (4, 3)})]
SLOW = [pytest.param(one, marks=pytest.mark.slow) for one in ("Haiku", "Equinox", "Keras")]


@pytest.mark.parametrize("library", ["plain JAX", "Flax", *SLOW])
def test_equal_pools(library: str) -> None:
    """Values and gradients, on distinct integers in random order."""
    if library != "plain JAX":
        imported(library.lower())
    pools, random = LIBRARIES[library](), np.random.default_rng(0)
    rows = [(name, *row) for name in ("max_pool", "min_pool", "avg_pool") for row in SPACES if name in pools]
    rows += [(name, *row) for name in ("adaptive_max_pool", "adaptive_avg_pool") for row in BINS if name in pools]
    arrays = [jnp.asarray(random.permutation(np.prod(shape)).reshape(shape), np.float32) for _, shape, _ in rows]

    @compiled_fast
    def run(arrays: list[jax.Array]) -> Any:
        found = []
        for x, (name, _, arguments) in zip(arrays, rows, strict=True):
            # Haiku and Keras leave padding out of averages.
            real = {"count_include_pad": False} if name == "avg_pool" and library in ("Haiku", "Keras") else {}
            for pool in (pools[name], partial(getattr(jaxpool, name), **real)):
                values, pullback = jax.vjp(partial(pool, **arguments), x)
                found.append((values, *pullback(jnp.arange(1.0, values.size + 1).reshape(values.shape))))
        return found

    with settings_of_users():
        found = run(arrays)
    for row, theirs, ours in zip(rows, found[::2], found[1::2], strict=True):
        for one, other in zip(theirs, ours, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-5, err_msg=str(row))


def first_weights(shapes: Any) -> Any:
    """Weights to start from, by NumPy, because the initialisers of the frameworks take long to compile."""
    random = np.random.default_rng(0)

    def weight(shape: tuple[int, ...]) -> jax.Array:
        return jnp.asarray(random.normal(size=shape) / np.sqrt(np.prod(shape[:-1])) * (len(shape) > 1), jnp.float32)

    return jax.tree.map(lambda one: weight(one.shape), shapes)


def nnx_network() -> tuple[Callable[..., Any], Any]:
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


def haiku_network() -> tuple[Callable[..., Any], Any]:
    hk = import_module("haiku")

    def forward(x: jax.Array) -> jax.Array:
        x = jax.nn.relu(hk.Conv2D(output_channels=8, kernel_shape=3)(x))
        x = hk.MaxPool(window_shape=(3, 3, 1), strides=(2, 2, 1), padding="SAME")(x)
        x = jax.nn.relu(hk.Conv2D(output_channels=16, kernel_shape=3)(x))
        x = hk.avg_pool(x, window_shape=(3, 3, 1), strides=(2, 2, 1), padding="SAME")
        return hk.nets.MLP([32, 10])(hk.Flatten()(x))

    network = hk.without_apply_rng(hk.transform(forward))
    return network.apply, jax.eval_shape(network.init, jax.random.key(0), jnp.ones([1, 8, 8, 1]))


@pytest.mark.parametrize(
    ("build", "original", "stand_in", "names"),
    [
        (nnx_network, "flax.nnx", "flax", {"max_pool", "avg_pool"}),
        pytest.param(haiku_network, "haiku", "haiku", {"MaxPool", "avg_pool"}, marks=pytest.mark.slow),
    ],
)
def test_model_has_the_same_gradients(
    build: Callable[[], Any], original: str, stand_in: str, names: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    framework, ours, used = imported(original), import_module(f"jaxpool.compat.{stand_in}"), set()
    images = jnp.asarray(np.random.default_rng(0).normal(size=(4, 8, 8, 1)), jnp.float32)

    def gradient() -> Any:
        predict, shapes = build()
        return compiled_fast(jax.grad(lambda weights: (predict(weights, images) ** 2).sum()))(first_weights(shapes))

    def noted(name: str) -> Callable[..., Any]:
        def function(*arguments: Any, **named: Any) -> Any:
            used.add(name)
            return getattr(ours, name)(*arguments, **named)

        return function

    with settings_of_users():
        expected = gradient()
        for name in names:
            monkeypatch.setattr(framework, name, noted(name))
        found = gradient()
    assert used == names
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), found, expected)
    assert min(jax.tree.leaves(jax.tree.map(lambda one: float(jnp.abs(one).max()), expected))) > 1e-2


_RANDOM = np.random.default_rng(0)
X = jnp.asarray(_RANDOM.normal(size=(2, 8, 8, 3)))
# Each with the value of its parameter, and the call.
POOLS: dict[str, tuple[Any, Callable[..., jax.Array]]] = {
    "norm_type": (jnp.array([2.0, 3.0, 4.5]), lambda p, **rule: jaxpool.lp_pool(X, p, 2, axis="NHWC", **rule)),
    "norm_type of a mean": (jnp.array(3.0), lambda p, **rule: jaxpool.gem_pool(X, p, 2, axis="NHWC", **rule)),
    "beta": (jnp.array([1.0, -2.0, 0.5]), lambda p, **rule: jaxpool.soft_pool(X, p, 2, axis="NHWC", **rule)),
    "alpha": (jnp.array(0.3), lambda p, **rule: jaxpool.mixed_pool(X, p, 2, axis="NHWC", **rule)),
    "weights": (abs(X[0]), lambda p, **rule: jaxpool.weighted_pool(X, p, 2, axis="NHWC", **rule)),
    "logits": (X[1], lambda p, **rule: jaxpool.attention_pool(X, p, 2, axis="NHWC", **rule)),
    "x": (X, lambda p, **rule: jaxpool.max_pool(p, 2, axis="NHWC", **rule)),
    "element": (
        jnp.asarray(_RANDOM.normal(size=(3, 3))),
        lambda p, **rule: jaxpool.morphology.dilation(X, p, axis="NHWC", **rule),
    ),
}


@pytest.mark.parametrize(("kind", "rule"), [("Param", "jvp"), pytest.param("Variable", "vjp", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", slow_but(("norm_type of a mean", "weights", "x"), POOLS))
def test_parameters_of_flax_are_differentiated(name: str, kind: str, rule: str) -> None:
    nnx, (value, pool) = imported("flax.nnx"), POOLS[name]
    expected, slopes = jax.value_and_grad(lambda value: (pool(value, rule=rule) ** 2).sum())(value)

    class Model(nnx.Module):
        def __init__(self) -> None:
            self.parameter = getattr(nnx, kind)(value)

    differentiate = nnx.value_and_grad(
        lambda model: (pool(model.parameter, rule=rule) ** 2).sum(), argnums=nnx.DiffState(0, getattr(nnx, kind))
    )
    for one in (differentiate, nnx.jit(differentiate)):
        total, state = one(Model())
        np.testing.assert_allclose(total, expected, rtol=1e-6)
        np.testing.assert_allclose(state["parameter"][...], slopes, rtol=1e-5, atol=1e-6)
