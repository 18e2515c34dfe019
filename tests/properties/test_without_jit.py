"""Without `jax.jit`, as users debug, and where JAX evaluates what it can while tracing: every function, both rules."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_fast
from tests.harness.parts import MECHANISMS, case_row
from tests.registry.cases import distinct
from tests.registry.records import RECORDS, Record

X = distinct((2, 6, 7), "without jit").astype(np.float32)

# Tables of bins, copied cells and weights are arrays without arguments, which JAX evaluates at once.
WITH_TABLES = [name for name, record in RECORDS.items() if record.windows in ("bins", "blurred", "levels")]


def everything(record: Record, rule: str) -> Callable[..., Any]:
    """Value, gradient, their batches, and a tangent if the rule has one."""
    rules: dict[str, Any] = {"rule": rule} if record.has_rule else {}

    def values(x: jax.Array) -> jax.Array:
        return record.values(x, **rules)

    def value_and_gradient(x: jax.Array) -> Any:
        value, pull_back = jax.vjp(values, x)
        return value, pull_back(value)

    def found(x: jax.Array) -> Any:
        tangents = jax.jvp(values, (x[0],), (x[1],)) if rule == "jvp" else ()
        return value_and_gradient(x[0]), jax.vmap(value_and_gradient)(x), tangents

    return found


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        *(case_row(name, "jvp", id=f"{name}-jvp", kept=name in MECHANISMS) for name in RECORDS),
        *(case_row(name, "vjp", id=f"{name}-vjp", kept=False) for name in MECHANISMS),
    ],
)
def test_without_jit(name: str, rule: str) -> None:
    compare(RECORDS[name], rule, jax.disable_jit())


@pytest.mark.parametrize("pool", [jaxpool.median_pool, partial(jaxpool.top_k_pool, k=12), jaxpool.max_pool])
def test_large_windows_without_jit(pool: Any) -> None:
    x = jnp.asarray(distinct((2, 81), "without jit").astype(np.float32))
    expected = compiled_fast(lambda x: pool(x, kernel_size=(81,)))(x)
    with jax.disable_jit():
        np.testing.assert_array_equal(pool(x, kernel_size=(81,)), expected)


@pytest.mark.parametrize("name", WITH_TABLES)
def test_evaluated_while_tracing(name: str) -> None:
    compare(RECORDS[name], "jvp", jax.ensure_compile_time_eval())


def compare(record: Record, rule: str, context: AbstractContextManager[Any]) -> None:
    function, x = everything(record, rule), jnp.asarray(X)
    expected = compiled_fast(function)(x)
    with context:
        found = function(x)
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-5)
