"""Export: every function and its gradient, by both rules, leaves a CPU machine for all platforms, batch size open."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool import (
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool,
    blur_pool,
    global_avg_pool,
    global_max_pool,
    lp_pool,
    max_blur_pool,
    max_pool,
    max_pool_with_indices,
    max_unpool,
    median_pool,
    min_pool,
    smooth_max_pool,
    sum_pool,
)
from tests.harness.compilation import compiled_fast
from tests.registry.cases import distinct, mask

SLIDING: dict[str, Any] = {"kernel_size": (3, 2), "stride": 2, "padding": 1}
MASKED = {**SLIDING, "where": mask(7, 6)}


def unpooled(x: jax.Array, rule: Any) -> jax.Array:
    return max_unpool(*max_pool_with_indices(x, (2, 2), rule=rule), (7, 6))


CALLS: dict[str, Any] = {
    "max_pool": partial(max_pool, **SLIDING),
    "max_pool masked": partial(max_pool, **MASKED),
    "min_pool": partial(min_pool, **SLIDING),
    "max_pool_with_indices": lambda x, rule: max_pool_with_indices(x, **SLIDING, rule=rule)[0],
    "sum_pool": partial(sum_pool, **SLIDING),
    "avg_pool": partial(avg_pool, **SLIDING),
    "avg_pool masked": partial(avg_pool, **MASKED),
    "lp_pool": partial(lp_pool, norm_type=2.0, **SLIDING),
    "lp_pool inf": partial(lp_pool, norm_type=np.inf, **SLIDING),
    "lp_pool learnt": partial(lp_pool, norm_type=np.array([[[1.5]], [[3.0]]]), **SLIDING),
    "smooth_max_pool": partial(smooth_max_pool, beta=2.0, **SLIDING),
    "smooth_max_pool masked": partial(smooth_max_pool, beta=-2.0, **MASKED),
    "blur_pool masked": partial(blur_pool, **MASKED),
    "max_blur_pool": partial(max_blur_pool, kernel_size=(3, 2), stride=5, padding="REFLECT"),
    "median_pool": partial(median_pool, **SLIDING),
    "adaptive_max_pool": partial(adaptive_max_pool, output_size=(3, 4)),
    "adaptive_max_pool masked": partial(adaptive_max_pool, output_size=(3, 4), where=mask(7, 6)),
    "adaptive_avg_pool": partial(adaptive_avg_pool, output_size=(3, 4)),
    "global_max_pool": partial(global_max_pool, axis=(-2, -1)),
    "global_avg_pool": partial(global_avg_pool, axis=(-2, -1), where=mask(6)),
    "max_unpool": unpooled,
}


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_export(name: str) -> None:
    def everything(x: jax.Array) -> Any:
        pools = [partial(CALLS[name], rule=rule) for rule in ("jvp", "vjp")]
        return [jax.value_and_grad(lambda x: (pool(x) ** 2).sum())(x) for pool in pools]  # noqa: B023

    (batch,) = jax.export.symbolic_shape("b")
    exported = jax.export.export(jax.jit(everything), platforms=("cpu", "cuda", "rocm", "tpu"))(
        jax.ShapeDtypeStruct((batch, 2, 7, 6), jnp.float64)
    )
    x = jnp.asarray(distinct((3, 2, 7, 6), "export"))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12), exported.call(x), compiled_fast(everything)(x))
