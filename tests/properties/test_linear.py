"""Linear pools are linear to JAX: it transposes them, alone and inside of other transformations, without a rule."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.checks import compiled_fast
from tests.harness.parts import case_row
from tests.registry.case import Case
from tests.registry.cases import CASES
from tests.registry.records import names

LINEAR = names(lambda record: record.linear)
ROWS = [case for case in CASES if case.function in LINEAR or case.parameters.get("kind") == "avg"]


def test_every_linear_pool_has_a_row() -> None:
    assert set(LINEAR) <= {case.function for case in ROWS}


# By default the first row of every pool, which is plain, and the last one, which most often has a mask.
ENDS = [{case.function: case for case in rows} for rows in (ROWS, ROWS[::-1])]


@pytest.mark.parametrize(
    "case", [case_row(case, id=case.name, kept=case in [end[case.function] for end in ENDS]) for case in ROWS]
)
def test_transposes(case: Case) -> None:
    """`jax.linear_transpose`, also of the transpose, and of branches and loops that hold the pool, against ⟨ȳ, A x⟩."""
    x = np.nan_to_num(np.where(np.isfinite(case.x), case.x, 0))
    pool = case.values

    def in_a_branch(x: jax.Array) -> jax.Array:
        return jax.lax.cond(jnp.zeros(()) < 1, pool, lambda x: 2 * pool(x), x)

    def in_a_loop(x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda total, row: (total + pool(row), None), jnp.zeros_like(pool(x)), jnp.stack([x, x]))[0]

    @compiled_fast
    def everything(x: jax.Array, cotangent: jax.Array) -> Any:
        def transpose(function: Any) -> Any:
            return lambda cotangent: jax.linear_transpose(function, x)(cotangent)[0]

        back = transpose(pool)
        twice = jax.linear_transpose(back, cotangent)(x)[0]
        return pool(x), twice, back(cotangent), transpose(in_a_branch)(cotangent), transpose(in_a_loop)(cotangent) / 2

    cotangent = np.random.default_rng(0).normal(size=pool(x).shape)
    y, twice, *transposed = everything(x, cotangent)
    np.testing.assert_allclose(twice, y, rtol=1e-12, atol=1e-12)
    for other in transposed[1:]:
        np.testing.assert_allclose(other, transposed[0], rtol=1e-12, atol=1e-12)
    rule = jax.vjp(pool, x)[1](cotangent)[0]
    np.testing.assert_allclose(transposed[0], rule, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.vdot(transposed[0], x), np.vdot(cotangent, y), rtol=1e-9)


def test_transposing_evaluates_no_rule() -> None:
    x = jnp.zeros((1, 8, 8))
    y = jaxpool.avg_pool(x, (3, 3), 1)
    text = str(jax.make_jaxpr(jax.linear_transpose(lambda x: jaxpool.avg_pool(x, (3, 3), 1), x))(y))
    assert "custom_jvp" not in text
    assert "linear_map" in text
