"""Linear pools are linear to JAX: it transposes them without a rule, even inside other transformations."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

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


# By default the first row of every pool, which is plain, and the last one, which usually has a mask.
ENDS = [{case.function: case for case in rows} for rows in (ROWS, ROWS[::-1])]


@pytest.mark.parametrize(
    "case", [case_row(case, id=case.name, kept=case in [end[case.function] for end in ENDS]) for case in ROWS]
)
def test_transposes(case: Case) -> None:
    """`jax.linear_transpose` of the pool, of its transpose, and of functions with the pool, against ⟨ȳ, A x⟩."""
    x = np.nan_to_num(np.where(np.isfinite(case.x), case.x, 0))
    pool = case.values

    def in_a_branch(x: jax.Array) -> jax.Array:
        return jax.lax.cond(jnp.zeros(()) < 1, pool, lambda x: 2 * pool(x), x)

    def in_a_loop(x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda total, row: (total + pool(row), None), jnp.zeros_like(pool(x)), jnp.stack([x, x]))[0]

    mesh = jax.make_mesh((1,), ("devices",), (AxisType.Auto,))
    on_devices = jax.shard_map(pool, mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec())

    @compiled_fast
    def everything(x: jax.Array, cotangent: jax.Array) -> Any:
        def transpose(function: Any) -> Any:
            return lambda cotangent: jax.linear_transpose(function, x)(cotangent)[0]

        back = transpose(pool)
        twice = jax.linear_transpose(back, cotangent)(x)[0]
        others = transpose(in_a_branch), transpose(on_devices), transpose(in_a_loop)
        branch, device, loop = (other(cotangent) for other in others)
        return pool(x), twice, back(cotangent), branch, device, loop / 2

    cotangent = np.random.default_rng(0).normal(size=pool(x).shape)
    y, twice, *transposed = everything(x, cotangent)
    np.testing.assert_allclose(twice, y, rtol=1e-12, atol=1e-12)
    for other in transposed[1:]:
        np.testing.assert_allclose(other, transposed[0], rtol=1e-12, atol=1e-12)
    rule = jax.vjp(pool, x)[1](cotangent)[0]
    np.testing.assert_allclose(transposed[0], rule, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.vdot(transposed[0], x), np.vdot(cotangent, y), rtol=1e-9)


@pytest.mark.parametrize("case", ENDS[0].values(), ids=lambda case: case.name)
def test_operators_of_solvers(case: Case) -> None:
    """Lineax transposes a pool as an operator."""
    lineax = pytest.importorskip("lineax")
    x = jnp.asarray(np.where(np.isfinite(case.x), case.x, 0))
    operator = lineax.FunctionLinearOperator(case.values, jax.eval_shape(lambda: x))

    @compiled_fast
    def both(x: jax.Array) -> Any:
        y = operator.mv(x)
        return y, operator.T.mv(y)

    y, back = both(x)
    np.testing.assert_allclose(np.vdot(back, x), np.vdot(y, y), rtol=1e-9)


def test_transposing_evaluates_no_rule() -> None:
    x = jnp.zeros((1, 8, 8))
    y = jaxpool.avg_pool(x, (3, 3), 1)
    text = str(jax.make_jaxpr(jax.linear_transpose(lambda x: jaxpool.avg_pool(x, (3, 3), 1), x))(y))
    assert "custom_jvp" not in text
    assert "linear_map" in text
