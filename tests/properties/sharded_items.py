"""The checks of pools of each item of a sharded batch, by `jax.vmap`: values and derivatives as on one device."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

import jaxpool
from tests.properties.sharded_checks import BATCH, value_and_gradient
from tests.properties.sharded_pools import X


def check_boxes(name: str, mesh: Mesh) -> None:
    """Boxes of every image of a sharded batch, by `jax.vmap`."""
    boxes = np.random.default_rng(2).uniform(-1, 30, (8, 3, 4)).astype(np.float32)

    def both(x: jax.Array, boxes: jax.Array) -> tuple[jax.Array, jax.Array]:
        pool = jax.vmap(lambda x, boxes: getattr(jaxpool, name)(x, boxes, 2, axis=(0, 1)))
        return value_and_gradient(lambda x: pool(x, boxes))(x)

    with jax.set_mesh(mesh):
        sharded = [jax.device_put(array, NamedSharding(mesh, BATCH)) for array in (X, boxes)]
        found = jax.jit(both)(*sharded)
    for one, other in zip(found, jax.jit(both)(X, boxes), strict=True):
        assert one.sharding.is_equivalent_to(NamedSharding(mesh, BATCH), one.ndim), name
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6, err_msg=name)
    print(mesh.axis_types, "vmap", name)


def check_items(mesh: Mesh) -> None:
    """The items of a sharded batch, by `jax.vmap`, beside numbers or cells that they share; in both modes."""
    x, p = X[:, :6, :4, 0], np.linspace(1.5, 3, len(X), dtype=np.float32)
    pools: dict[str, Callable[..., jax.Array]] = {
        "max_pool": lambda x, p: p * jaxpool.max_pool(x, (2, 2)),
        "lp_pool": lambda x, p: jaxpool.lp_pool(x, p, (3, 3), 1),
        "soft_pool": lambda x, p: jaxpool.soft_pool(x, p, (2, 2)),
        "attention_pool": lambda x, p: jaxpool.attention_pool(x, p * x[::-1], (2, 2)),
    }
    for name, pool in pools.items():

        def everything(x: jax.Array, p: jax.Array, pool: Callable[..., jax.Array] = pool) -> Any:
            def loss(axes: tuple[int | None, int | None]) -> Callable[..., jax.Array]:
                return jax.grad(lambda x, p: (jax.vmap(pool, axes)(x, p) ** 2).sum(), (0, 1))

            slopes = jax.vmap(jax.jacfwd(pool), (0, None))(x, 2.5)
            return slopes, loss((0, None))(x, jax.numpy.float32(2.5)), loss((None, 0))(X[0, :6, :4, 0], p)

        with jax.set_mesh(mesh):
            found = jax.jit(everything)(*(jax.device_put(array, NamedSharding(mesh, BATCH)) for array in (x, p)))
        for one, other in zip(*map(jax.tree.leaves, (found, jax.jit(everything)(x, p))), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6, err_msg=name)
    print(mesh.axis_types, "items")
