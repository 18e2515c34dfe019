"""Parameters of `flax.nnx` as arguments: taken as the arrays that they hold, also where Flax differentiates them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
import jaxpool.morphology

nnx = pytest.importorskip("flax.nnx")

_RANDOM = np.random.default_rng(0)
X = jnp.asarray(_RANDOM.normal(size=(2, 8, 8, 3)))
# Each with the value of its parameter, and the call.
POOLS: dict[str, tuple[Any, Any]] = {
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


class _Pool(nnx.Module):
    def __init__(self, value: jax.Array, kind: Any) -> None:
        self.parameter = kind(value)


@pytest.mark.parametrize("kind", [nnx.Param, nnx.Variable])
@pytest.mark.parametrize("rule", ["jvp", "vjp"])
@pytest.mark.parametrize("name", POOLS)
def test_gradients_by_flax(name: str, rule: str, kind: Any) -> None:
    value, pool = POOLS[name]
    model = _Pool(value, kind)
    expected, slopes = jax.value_and_grad(lambda value: (pool(value, rule=rule) ** 2).sum())(value)

    def loss(model: _Pool) -> jax.Array:
        return (pool(model.parameter, rule=rule) ** 2).sum()

    of_parameter = nnx.DiffState(0, kind)
    for differentiate in (nnx.value_and_grad, lambda *args, **kw: nnx.jit(nnx.value_and_grad(*args, **kw))):
        total, state = differentiate(loss, argnums=of_parameter)(model)
        np.testing.assert_allclose(total, expected, rtol=1e-6)
        np.testing.assert_allclose(state["parameter"][...], slopes, rtol=1e-6, atol=1e-9)
