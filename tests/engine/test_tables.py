"""What is known of all windows is the same, whether the program has tables of it or computes it on the device."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._geometry import window
from tests.harness.compilation import compiled_fast
from tests.harness.parts import case_row
from tests.registry.cases import distinct
from tests.registry.records import RECORDS, names

WINDOWS: dict[str, dict[str, Any]] = {
    "padded": {"kernel_size": (3, 2), "stride": (2, 1), "padding": ((1, 0), (0, 1))},
    "dilated": {"kernel_size": (2, 3), "stride": (1, 3), "dilation": (3, 2), "padding": 1},
    "partial": {"kernel_size": (2, 2), "stride": (3, 2), "padding": (1, 0), "ceil_mode": True},
    "footprint": {"kernel_size": jaxpool.footprint(np.array([[0, 1, 0], [1, 0, 1]], bool)), "stride": 1, "padding": 1},
    "bins": {"kernel_size": jaxpool.bins(4, 3)},
    "more bins": {"kernel_size": jaxpool.bins(9, 5)},
}


SLIDING = names(lambda record: record.windows == "fixed")


@pytest.mark.parametrize(
    "name", [case_row(name, id=name, kept=name in ("max_pool_with_indices", "avg_pool")) for name in SLIDING]
)
def test_tables_hold_what_is_computed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = RECORDS[name].options
    x, mask = jnp.asarray(distinct((7, 8), "tables")), jnp.asarray(np.random.default_rng(0).random((7, 8)) < 0.7)

    def everything(x: jax.Array) -> Any:
        results = []
        for placed in WINDOWS.values():
            for where in (None, mask):

                def pool(x: jax.Array, placed: Any = placed, where: Any = where) -> Any:
                    return getattr(jaxpool, name)(x, **{**options, **placed}, where=where)

                outputs = jax.tree.leaves(pool(x))
                gradient = jax.grad(lambda x, pool=pool: (jax.tree.leaves(pool(x))[0] ** 2).sum())(x)
                results.append((*outputs, gradient))
        return results

    expected = compiled_fast(everything)(x)
    monkeypatch.setattr(window, "MOST_IN_TABLE", 0)
    jax.clear_caches()
    try:
        found = compiled_fast(lambda x: everything(x))(x)
    finally:
        jax.clear_caches()
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
