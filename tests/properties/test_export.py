"""Export: every function and its gradient, by both rules, from a CPU to all platforms, with a symbolic batch size."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool import (
    adaptive_max_pool,
    avg_pool,
    blur_pool,
    global_avg_pool,
    lp_pool,
    max_blur_pool,
    max_pool,
    smooth_max_pool,
    stochastic_pool,
)
from tests.harness.compilation import compiled_fast
from tests.harness.parts import MECHANISMS, case_row
from tests.registry.case import distinct, mask
from tests.registry.records import RECORDS

SLIDING: dict[str, Any] = {"kernel_size": (3, 2), "stride": 2, "padding": 1}
MASKED = {**SLIDING, "where": mask(7, 6)}

CALLS: dict[str, Any] = {name: record.values for name, record in RECORDS.items()} | {
    "max_pool masked": partial(max_pool, **MASKED),
    "avg_pool masked": partial(avg_pool, **MASKED),
    "lp_pool inf": partial(lp_pool, norm_type=np.inf, **SLIDING),
    "lp_pool learnt": partial(lp_pool, norm_type=np.array([[[1.5]], [[3.0]]]), **SLIDING),
    "smooth_max_pool masked": partial(smooth_max_pool, beta=-2.0, **MASKED),
    "stochastic_pool drawn": partial(stochastic_pool, key=np.array([3, 7], np.uint32), **SLIDING),
    "blur_pool masked": partial(blur_pool, **MASKED),
    "max_blur_pool of copies": partial(max_blur_pool, kernel_size=(3, 2), stride=5, padding="REFLECT"),
    "adaptive_max_pool masked": partial(adaptive_max_pool, output_size=(3, 4), where=mask(7, 6)),
    "global_avg_pool masked": partial(global_avg_pool, axis=(-2, -1), where=mask(6)),
}


# Only the pair of functions that JAX calls is specific to the second rule.
BY_BOTH_RULES = ("max_pool_with_indices", "avg_pool", "lp_pool")


def rows() -> list[Any]:
    """Every call by the first rule, and by the other rules if it has them; some of these are slow."""
    made = []
    for name in CALLS:
        has_rule = name not in RECORDS or RECORDS[name].has_rule
        for rule in ("jvp", "vjp") if has_rule else (None,):
            kept = (rule != "vjp" or name in BY_BOTH_RULES) and (name in MECHANISMS or name not in RECORDS)
            made.append(case_row(name, rule, id=f"{name}-{rule}", kept=kept))
    return made


@pytest.mark.parametrize(("name", "rule"), rows())
def test_values_and_gradients_export(name: str, rule: str | None) -> None:
    def everything(x: jax.Array) -> Any:
        pool = CALLS[name] if rule is None else partial(CALLS[name], rule=rule)
        return jax.value_and_grad(lambda x: (pool(x) ** 2).sum())(x)

    (batch,) = jax.export.symbolic_shape("b")
    exported = jax.export.export(jax.jit(everything), platforms=("cpu", "cuda", "rocm", "tpu"))(
        jax.ShapeDtypeStruct((batch, 2, 7, 6), jnp.float64)
    )
    x = jnp.asarray(distinct((3, 2, 7, 6), "export"))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12), exported.call(x), compiled_fast(everything)(x))


@pytest.mark.parametrize("name", ["max_pool", "avg_pool", "lp_pool", "smooth_max_pool", "soft_pool", "var_pool"])
def test_masks_export(name: str) -> None:
    def everything(x: jax.Array) -> Any:
        mask = x[:, :1] > 0.5
        return jax.value_and_grad(lambda x: (CALLS[name](x, where=mask) ** 2).sum())(x)

    (batch,) = jax.export.symbolic_shape("b")
    exported = jax.export.export(jax.jit(everything))(jax.ShapeDtypeStruct((batch, 2, 7, 6), jnp.float64))
    x = jnp.asarray(distinct((3, 2, 7, 6), "export"))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12), exported.call(x), compiled_fast(everything)(x))
