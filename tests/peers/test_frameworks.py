"""jaxpool beside and inside of frameworks: equal pools where they are right, and parameters of Flax."""

from collections.abc import Callable
from functools import partial
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
