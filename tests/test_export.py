"""Export: every function and its gradient, by both rules, leaves a CPU machine for all platforms, batch size open."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.cases import distinct

CALLS: dict[str, Any] = {
    "max_pool": partial(jaxpool.max_pool, kernel_size=(3, 2)),
    "min_pool": partial(jaxpool.min_pool, kernel_size=(3, 2)),
    "max_pool_with_indices": lambda x, **options: jaxpool.max_pool_with_indices(x, (3, 2), **options)[0],
    "sum_pool": partial(jaxpool.sum_pool, kernel_size=(3, 2)),
    "avg_pool": partial(jaxpool.avg_pool, kernel_size=(3, 2)),
    "lp_pool": partial(jaxpool.lp_pool, norm_type=2.0, kernel_size=(3, 2)),
    "lp_pool inf": partial(jaxpool.lp_pool, norm_type=np.inf, kernel_size=(3, 2)),
    "lp_pool learnt": partial(jaxpool.lp_pool, norm_type=np.array([[[1.5]], [[3.0]]]), kernel_size=(3, 2)),
    "smooth_max_pool": partial(jaxpool.smooth_max_pool, beta=2.0, kernel_size=(3, 2)),
}


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_export(name: str) -> None:
    def everything(x: jax.Array) -> Any:
        pools = [partial(CALLS[name], stride=2, padding=1, rule=rule) for rule in ("jvp", "vjp")]
        return [jax.value_and_grad(lambda x: (pool(x) ** 2).sum())(x) for pool in pools]  # noqa: B023

    (batch,) = jax.export.symbolic_shape("b")
    exported = jax.export.export(jax.jit(everything), platforms=("cpu", "cuda", "rocm", "tpu"))(
        jax.ShapeDtypeStruct((batch, 2, 7, 6), jnp.float64)
    )
    x = jnp.asarray(distinct((3, 2, 7, 6), "export"))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12), exported.call(x), everything(x))
