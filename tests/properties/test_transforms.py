"""Pools under the transformations of JAX: vmap, checkpoint, scan, linear_transpose, with and without jit, retracing.

Other files test that derivatives are right; here they must not depend on how they are computed. Each test compiles
everything that it compares at once.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

import jaxpool
from tests.harness.checks import cubed
from tests.harness.compilation import compiled_fast
from tests.registry.cases import CASES, PLAIN, Case, distinct
from tests.registry.records import KINDS, RECORDS, by_function, names, row

pytestmark = pytest.mark.usefixtures("for_this_platform")

RULES = ("jvp", "vjp")

# On the shape (4, 3): overlapping windows with padding that keep the shape, uneven bins, and both whole axes.
SLIDING: dict[str, Any] = {"kernel_size": (2, 2), "stride": 1, "padding": ((1, 0), (0, 1))}


def small(case: Case) -> Case:
    smaller = SLIDING if "kernel_size" in case.parameters else {}
    smaller = {"output_size": (3, 2)} if "output_size" in case.parameters else smaller
    return replace(case, shape=(4, 3), parameters={**case.parameters, **smaller})


SMALL = {name: small(case) for name, case in PLAIN.items()}


def close(left: Any, right: Any, what: str = "") -> None:
    np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-10, err_msg=what)


@by_function(SMALL)
def test_vmap_over_every_axis(case: Case) -> None:
    xs = distinct((2, 3, 4, 3), "vmap")
    pool, gradient = case.values, jax.grad(cubed(partial(case.values, rule="vjp")))

    @compiled_fast
    def everything(xs: jax.Array) -> dict[str, jax.Array]:
        first = xs[0]
        results = {
            f"in_axes {axis}": jnp.moveaxis(jax.vmap(pool, axis, axis)(jnp.moveaxis(first, 0, axis)), axis, 0)
            for axis in (0, 1, -1)
        }
        results["gradient, in_axes 1"] = jax.vmap(gradient, 1)(jnp.moveaxis(first, 0, 1))
        results["gradient of vmap"] = jax.grad(lambda xs: cubed(jax.vmap(pool))(xs))(first)
        results["nested"] = jax.vmap(jax.vmap(pool, -1), 0)(jnp.moveaxis(xs, 1, -1))
        results["gradient, nested"] = jax.vmap(jax.vmap(gradient, 1, 1), 0)(jnp.moveaxis(xs, 1, 2)).swapaxes(1, 2)
        return results

    pooled = [[case.reference(x) for x in lines] for lines in xs]
    values = np.array([[one.values for one in lines] for lines in pooled])
    gradients = np.array([[one.backward(3 * one.values**2) for one in lines] for lines in pooled])
    for name, result in everything(xs).items():
        expected = gradients if "gradient" in name else values
        close(result, expected if "nested" in name else expected[0], name)


@by_function(SMALL)
def test_checkpoints_linearizations_and_nested_jit(case: Case) -> None:
    v = distinct((4, 3), "direction")
    seconds = "second derivative, checkpointed", "second derivative, linearized"

    @compiled_fast
    def everything(x: jax.Array) -> dict[str, jax.Array]:
        results = {}
        for rule in RULES:
            pool = partial(case.values, rule=rule)
            gradient = jax.grad(cubed(pool))
            results |= {
                f"gradient, {rule}": gradient(x),
                f"gradient, checkpointed, {rule}": jax.grad(jax.checkpoint(cubed(pool)))(x),
                f"gradient of jit, {rule}": jax.grad(cubed(jax.jit(pool)))(x),
                f"second derivative, {rule}": jax.jvp(gradient, (x,), (v,))[1],
                f"{seconds[0]}, {rule}": jax.jvp(jax.grad(jax.checkpoint(cubed(pool))), (x,), (v,))[1],
                f"{seconds[1]}, {rule}": jax.linearize(gradient, x)[1](v),
            }
        return results | {"tangent, linearized": jax.linearize(case.values, x)[1](v)}

    found = everything(jnp.asarray(case.x))
    gradient, second = case.expected.backward(3 * case.expected.values**2), found["second derivative, jvp"]
    assert np.abs(second).max() > 0
    for name, result in found.items():
        of_tangent = case.expected.forward(v) if "tangent" in name else gradient
        close(result, second if "second" in name else of_tangent, name)


@by_function(SMALL)
def test_scan(case: Case) -> None:
    def step(x: jax.Array, scale: jax.Array) -> tuple[jax.Array, jax.Array]:
        pooled = case.values(x * scale)
        # What a scan carries keeps its shape.
        return jnp.resize(pooled, x.shape), pooled.sum()

    def scanned(x: jax.Array, scales: jax.Array) -> jax.Array:
        last, sums = jax.lax.scan(step, x, scales)
        return (last**2).sum() + sums.sum()

    def unrolled(x: jax.Array, scales: jax.Array) -> jax.Array:
        total = jnp.zeros(())
        for scale in scales:
            x, added = step(x, scale)
            total += added
        return (x**2).sum() + total

    both = compiled_fast(lambda *arguments: [jax.value_and_grad(f, (0, 1))(*arguments) for f in (scanned, unrolled)])
    jax.tree.map(close, *both(case.x, np.array([0.5, -0.25])))


@by_function(SMALL, quick=tuple(SMALL))
def test_the_second_rule_refuses_forward_mode(case: Case) -> None:
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(partial(case.values, rule="vjp"), (case.x,), (case.x,))


LINEAR = names(lambda record: record.linear)
LINEAR_CASES = [case for case in CASES if case.function in LINEAR or case.parameters.get("kind") == "avg"]
LAST = {case.function: case for case in LINEAR_CASES}


@pytest.mark.parametrize("case", [row(case, id=case.name, quick=case in LAST.values()) for case in LINEAR_CASES])
def test_linear_transpose(case: Case) -> None:
    """`jax.linear_transpose` of the pool, of its transpose, and of functions with the pool, against ⟨ȳ, A x⟩."""
    x = np.where(np.isfinite(case.x), case.x, 0)
    pool = case.values

    def in_a_branch(x: jax.Array) -> jax.Array:
        return jax.lax.cond(jnp.zeros(()) < 1, pool, lambda x: 2 * pool(x), x)

    def in_a_loop(x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda total, one: (total + pool(one), None), jnp.zeros_like(pool(x)), jnp.stack([x, x]))[0]

    mesh = jax.make_mesh((1,), ("devices",), (AxisType.Auto,))
    on_devices = jax.shard_map(pool, mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec())

    @compiled_fast
    def everything(x: jax.Array, cotangent: jax.Array) -> Any:
        def transpose(function: Any, cotangent: jax.Array) -> jax.Array:
            return jax.linear_transpose(function, x)(cotangent)[0]

        transposed = [transpose(function, cotangent) for function in (pool, in_a_branch, on_devices, in_a_loop)]
        twice = jax.linear_transpose(partial(transpose, pool), cotangent)(x)[0]
        return pool(x), twice, [*transposed[:3], transposed[3] / 2, jax.vjp(pool, x)[1](cotangent)[0]]

    cotangent = np.random.default_rng(0).normal(size=case.expected.values.shape)
    y, twice, transposed = everything(x, cotangent)
    np.testing.assert_allclose(twice, y, rtol=1e-12, atol=1e-12)
    for one in transposed:
        np.testing.assert_allclose(one, transposed[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.vdot(transposed[0], x), np.vdot(cotangent, y), rtol=1e-9)


def check_in_context(name: str, context: AbstractContextManager[Any]) -> None:
    """Compare values, gradients by both rules, their batches and tangents with those of a compiled program."""
    record, x = RECORDS[name], jnp.asarray(distinct((2, 6, 7), "without jit").astype(np.float32))
    rules: list[dict[str, Any]] = [{"rule": rule} for rule in RULES] if record.has_rule else [{}]

    def everything(x: jax.Array) -> Any:
        def value_and_gradient(x: jax.Array, rule: dict[str, Any]) -> Any:
            value, pull_back = jax.vjp(lambda x: record.values(x, **rule), x)
            return value, pull_back(value)

        batches = [jax.vmap(partial(value_and_gradient, rule=rule))(x) for rule in rules]
        return batches, value_and_gradient(x[0], rules[0]), jax.jvp(record.values, (x[0],), (x[1],))

    expected = compiled_fast(everything)(x)
    with context:
        found = everything(x)
    chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name", [row(name, id=name, quick=name == "max_pool") for name in dict.fromkeys([*KINDS, *RECORDS])]
)
def test_without_jit(name: str) -> None:
    check_in_context(name, jax.disable_jit())


# Tables of bins, copied cells and weights are arrays without arguments, which JAX evaluates at once.
@pytest.mark.parametrize(
    "name",
    [
        row(name, id=name, quick=name == "adaptive_max_pool")
        for name in names(lambda record: record.windows in ("bins", "blurred", "levels"))
    ],
)
def test_evaluated_while_tracing(name: str) -> None:
    check_in_context(name, jax.ensure_compile_time_eval())


@pytest.mark.slow
@pytest.mark.parametrize("pool", [jaxpool.median_pool, partial(jaxpool.top_k_pool, k=12), jaxpool.max_pool])
def test_large_windows_without_jit(pool: Any) -> None:
    x = jnp.asarray(distinct((2, 81), "without jit").astype(np.float32))
    expected = compiled_fast(lambda x: pool(x, kernel_size=(81,)))(x)
    with jax.disable_jit():
        np.testing.assert_array_equal(pool(x, kernel_size=(81,)), expected)


EVENTS: list[str] = []


@pytest.fixture(scope="module")
def _listen_to_traces() -> None:
    # Permanently, as not every supported JAX can remove a listener.
    def listen(event: str, duration_secs: float, **kwargs: Any) -> None:
        if "trace" in event or "compile" in event:
            EVENTS.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)


def traces_of(call: Callable[[], Any]) -> int:
    """How many functions JAX traces or compiles during a call."""
    before = len(EVENTS)
    jax.block_until_ready(call())
    return len(EVENTS) - before


@pytest.mark.usefixtures("_listen_to_traces")
@by_function(SMALL)
def test_second_calls_trace_nothing(case: Case) -> None:
    for columns, rule in enumerate(RULES, 5):
        # Sizes that no other test uses, so that the first call is the first one.
        x = jnp.asarray(distinct((4, columns), "traces"))
        y = x + 1

        def call(x: jax.Array, rule: str = rule) -> Any:
            return case.outputs(x, rule)

        assert traces_of(partial(call, x)) > 0
        assert traces_of(partial(call, y)) == 0
        chex.clear_trace_counter()
        compiled = jax.jit(chex.assert_max_traces(call, n=1))
        compiled(x)
        compiled(y)
        with pytest.raises(AssertionError, match="traced"):
            compiled(x[1:])


@pytest.mark.usefixtures("_listen_to_traces")
@pytest.mark.parametrize("pool", [jaxpool.lp_pool, jaxpool.smooth_max_pool])
def test_learnt_numbers_do_not_retrace(pool: Any) -> None:
    x = jnp.asarray(distinct((4, 7), "traces"))
    first, second = (jnp.asarray(number) for number in (1.5, 2.5))
    assert traces_of(lambda: pool(x, first, (2, 2))) > 0
    assert traces_of(lambda: pool(x, second, (2, 2))) == 0
