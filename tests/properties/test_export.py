"""Export: every function and its gradients, by both rules, from a CPU to all platforms, with a symbolic batch size."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_fast
from tests.registry.cases import distinct, mask
from tests.registry.records import RECORDS, row, slow_but

SLIDING: dict[str, Any] = {"kernel_size": (3, 2), "stride": 2, "padding": 1}
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "max_pool masked": ("max_pool", {"where": mask(7, 6)}),
    "avg_pool masked": ("avg_pool", {"where": mask(7, 6)}),
    "lp_pool inf": ("lp_pool", {"norm_type": np.inf}),
    "lp_pool learnt": ("lp_pool", {"norm_type": np.array([[[1.5]], [[3.0]]])}),
    "smooth_max_pool masked": ("smooth_max_pool", {"beta": -2.0, "where": mask(7, 6)}),
    "stochastic_pool drawn": ("stochastic_pool", {"key": np.array([3, 7], np.uint32)}),
    "max_blur_pool of copies": ("max_blur_pool", {"stride": 5, "padding": "REFLECT"}),
    "lp_pool of bins": ("lp_pool", {"kernel_size": jaxpool.bins(3, 4), "stride": None, "padding": 0}),
    "adaptive_max_pool masked": ("adaptive_max_pool", {"output_size": (3, 4), "where": mask(7, 6)}),
}
CALLS = {name: (name, {}) for name in RECORDS} | OTHERS
QUICK = ("max_pool_with_indices", "lp_pool", "median_pool", "roi_align", "avg_pool masked")


def check_export(everything: Any, platforms: tuple[str, ...]) -> None:
    """Compare an exported program, whose number of planes is symbolic, with a compiled one."""
    (batch,) = jax.export.symbolic_shape("b")
    exported = jax.export.export(jax.jit(everything), platforms=platforms)(
        jax.ShapeDtypeStruct((batch, 2, 7, 6), jnp.float64)
    )
    x = jnp.asarray(distinct((3, 2, 7, 6), "export"))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12), exported.call(x), compiled_fast(everything)(x))


@pytest.mark.parametrize("name", [row(name, id=name, quick=name in QUICK) for name in CALLS])
def test_values_and_gradients_on_all_platforms(name: str) -> None:
    function, parameters = CALLS[name]
    record = RECORDS[function]
    rules: list[dict[str, Any]] = [{"rule": "jvp"}, {"rule": "vjp"}] if record.has_rule else [{}]
    placing = SLIDING if name in OTHERS and record.windows in ("fixed", "blurred") else {}

    def everything(x: jax.Array) -> Any:
        def squared(x: jax.Array, rule: dict[str, Any]) -> jax.Array:
            return (record.values(x, **{**placing, **parameters}, **rule) ** 2).sum()

        return [jax.value_and_grad(partial(squared, rule=rule))(x) for rule in rules]

    check_export(everything, ("cpu", "cuda", "rocm", "tpu"))


@pytest.mark.parametrize(
    "name", slow_but(["max_pool"], ("max_pool", "avg_pool", "lp_pool", "smooth_max_pool", "soft_pool", "var_pool"))
)
def test_traced_masks(name: str) -> None:
    def everything(x: jax.Array) -> Any:
        return jax.value_and_grad(lambda x: (RECORDS[name].values(x, where=x[:, :1] > 0.5) ** 2).sum())(x)

    check_export(everything, ("cpu",))
