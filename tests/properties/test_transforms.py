"""Pools under the transformations of JAX: vmap over any axis, modes in any order, checkpoints, scans, no retracing.

Other files test that derivatives are right; here they must not depend on how they are computed. Each test compiles
everything that it compares at once.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.harness.checks import cubed
from tests.harness.compilation import compiled_fast
from tests.registry.cases import PLAIN, Case, distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

RULES = ("jvp", "vjp")

# On the shape (4, 3): overlapping windows with padding that keep the shape, uneven bins, and both whole axes.
SLIDING: dict[str, Any] = {"kernel_size": (2, 2), "stride": 1, "padding": ((1, 0), (0, 1))}


def small(case: Case) -> Case:
    smaller = SLIDING if "kernel_size" in case.parameters else {}
    smaller = {"output_size": (3, 2)} if "output_size" in case.parameters else smaller
    return replace(case, shape=(4, 3), parameters={**case.parameters, **smaller})


SMALL = {name: small(case) for name, case in PLAIN.items()}

# Together these use all entry points of the engine, and are traced for all platforms; the others only for this machine.
_THROUGH_ALL_DOORS = ("max_pool", "avg_pool", "lp_pool", "soft_pool", "quantile_pool", "blur_pool", "adaptive_max_pool")
# Pools that share their backward passes with another one, or are composed of others: their first derivatives are
# compared with the reference by both rules, and everything else by one.
_ALIKE = ("min_pool", "max_pool_with_indices", "sum_pool", "gem_pool", "mixed_pool", "max_blur_pool", "median_pool")
_ALIKE += ("adaptive_max_pool_with_indices", "global_max_pool", "global_gem_pool", "spatial_pyramid_pool")
# Only the pair of functions that JAX calls is specific to the second rule: these are a selection, a linear pool, and
# one with a learnt number.
_SECOND_RULES = ("max_pool", "avg_pool", "lp_pool")


def rows(*rules: str, but: tuple[str, ...] = (), alike: tuple[str, ...] = ()) -> list[Any]:
    """Rows of every function by the first rule, and of most functions by the others.

    Functions that are similar to others are left to the slow part.
    """
    made = []
    for function, case in SMALL.items():
        for rule in rules if function not in but else rules[:1]:
            marks = [pytest.mark.every_platform] * (rule == "jvp" and function in _THROUGH_ALL_DOORS)
            marks += [pytest.mark.slow] * (rule == "vjp" and function not in _SECOND_RULES)
            marks += [pytest.mark.slow] * (function in alike)
            made.append(pytest.param(case, rule, id=f"{function}-{rule}", marks=marks))
    return made


each_function = pytest.mark.parametrize("case", SMALL.values(), ids=list(SMALL))
each_function_and_rule = pytest.mark.parametrize(("case", "rule"), rows(*RULES, but=_ALIKE))
# One function for each mechanism runs by default.
_MECHANISMS = (*_THROUGH_ALL_DOORS, "stochastic_pool", "top_k_pool", "var_pool", "weighted_pool")
each_mechanism_and_rule = pytest.mark.parametrize(
    ("case", "rule"), rows(*RULES, but=_ALIKE, alike=tuple(name for name in SMALL if name not in _MECHANISMS))
)
each_function_and_both_rules = pytest.mark.parametrize(("case", "rule"), rows(*RULES))


def close(left: Any, right: Any, what: str = "") -> None:
    np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-10, err_msg=what)


@each_mechanism_and_rule
def test_vmap_over_every_axis(case: Case, rule: str) -> None:
    xs = distinct((2, 3, 4, 3), "vmap")
    pool = partial(case.values, rule=rule)
    gradient = jax.grad(cubed(pool))

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

    pooled = [[case.reference(x) for x in row] for row in xs]
    values = np.array([[one.values for one in row] for row in pooled])
    gradients = np.array([[one.backward(3 * one.values**2) for one in row] for row in pooled])
    for name, result in everything(xs).items():
        expected = gradients if "gradient" in name else values
        close(result, expected if "nested" in name else expected[0], name)


@pytest.mark.slow
@each_mechanism_and_rule
def test_modes_in_every_order(case: Case, rule: str) -> None:
    pool = partial(case.values, rule=rule)
    objective, v = cubed(pool), distinct((4, 3), "direction")

    @compiled_fast
    def everything(x: jax.Array) -> tuple[list[jax.Array], dict[str, jax.Array], jax.Array | None]:
        gradient = jax.grad(objective)
        hessians = [jax.jacfwd(jax.jacrev(objective))(x), jax.jacrev(jax.jacrev(objective))(x)]
        products = {
            "jvp of grad": jax.jvp(gradient, (x,), (v,))[1],
            "jvp of checkpointed grad": jax.jvp(jax.grad(jax.checkpoint(objective)), (x,), (v,))[1],
            "linearized grad": jax.linearize(gradient, x)[1](v),
            "grad of grad": jax.grad(lambda x: (gradient(x) * v).sum())(x),
            "grad of checkpointed grad": jax.grad(lambda x: (jax.checkpoint(gradient)(x) * v).sum())(x),
        }
        curvature = None
        if rule == "jvp":

            def along(x: jax.Array) -> jax.Array:
                return jax.jvp(objective, (x,), (v,))[1]

            products["grad of jvp"] = jax.grad(along)(x)
            curvature = jax.jvp(along, (x,), (v,))[1]
        return hessians, products, curvature

    (reference, hessian), products, curvature = everything(case.x)
    assert np.abs(reference).max() > 0
    close(hessian, reference)
    expected = np.tensordot(reference, v, 2)
    for name, product in products.items():
        close(product, expected, name)
    if curvature is not None:
        close(curvature, np.vdot(expected, v))


@each_function_and_both_rules
def test_first_order_by_every_road(case: Case, rule: str) -> None:
    check_first_order(case, rule, compiled_fast)


# Operation by operation, by one of the rules, as their differences do not matter there. The random calls of
# `test_hypothesis` also run every function in this way.
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=function, marks=[pytest.mark.slow] * (function not in _THROUGH_ALL_DOORS))
        for function, case in SMALL.items()
    ],
)
def test_first_order_operation_by_operation(case: Case) -> None:
    check_first_order(case, "jvp", lambda function: function)


def check_first_order(case: Case, rule: str, compiled: Callable[[Any], Any]) -> None:
    """Compare gradients and tangents, computed in several ways, with the reference."""
    pool, v = partial(case.values, rule=rule), distinct((4, 3), "direction")
    g = 3 * case.expected.values**2

    def everything(x: jax.Array) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        gradients = {
            "grad": jax.grad(cubed(pool))(x),
            "checkpointed": jax.grad(jax.checkpoint(cubed(pool)))(x),
            "of jit": jax.grad(cubed(jax.jit(pool)))(x),
        }
        pushed = {}
        if rule == "jvp":
            pushed = {"jvp": jax.jvp(pool, (x,), (v,))[1], "linearized": jax.linearize(pool, x)[1](v)}
        return gradients, pushed

    gradients, pushed = compiled(everything)(jnp.asarray(case.x))
    for name, gradient in gradients.items():
        close(gradient, case.expected.backward(g), name)
    for name, tangent in pushed.items():
        close(tangent, case.expected.forward(v), name)


@each_mechanism_and_rule
def test_scan(case: Case, rule: str) -> None:
    pool = partial(case.values, rule=rule)

    def step(x: jax.Array, scale: jax.Array) -> tuple[jax.Array, jax.Array]:
        pooled = pool(x * scale)
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

    scales = np.array([0.5, -0.25])
    both = compiled_fast(lambda *arguments: [jax.value_and_grad(f, (0, 1))(*arguments) for f in (scanned, unrolled)])
    left, right = both(case.x, scales)
    jax.tree.map(close, left, right)


@each_function
def test_vjp_rule_refuses_forward_mode(case: Case) -> None:
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(partial(case.values, rule="vjp"), (case.x,), (case.x,))


@pytest.mark.parametrize("function", ["sum_pool", "avg_pool"])
def test_linear_transpose(function: str) -> None:
    case = SMALL[function]
    transpose = jax.linear_transpose(lambda x: jax.jvp(case.values, (x,), (x,))[1], jnp.asarray(case.x))
    cotangent = distinct((4, 3), "cotangent")
    close(transpose(jnp.asarray(cotangent))[0], case.expected.backward(cotangent))
