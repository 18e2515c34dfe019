"""First and second derivatives in float64, both rules, against closed forms and central differences.

The closed forms are those of `oracle`; every row of the registry is compared with these and with the values.
Differences check Hessians, and derivatives with respect to learnt numbers; `test_nestings` has all nestings of modes.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.checks import check_first_derivatives, check_gradient_and_hessian, cubed
from tests.harness.parts import case_row
from tests.registry.cases import CASES, PLAIN, Case, distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

RULES = ("jvp", "vjp")


def rows_apart() -> list[Case]:
    """The first row of each geometry, the last of each function, which often has a mask, and what parameters change."""
    geometries = {case.geometry: case for case in reversed(CASES)}
    last = {case.function: case for case in CASES}
    return [
        case
        for case in CASES
        if case in (geometries[case.geometry], last[case.function])
        or case.function == "avg_pool"
        or (case.geometry == "plane-overlap" and "where" not in case.parameters)
    ]


# By both rules plain rows are tested below.
@pytest.mark.parametrize("case", rows_apart(), ids=lambda case: case.name)
def test_first_derivatives(case: Case) -> None:
    check_first_order(case, RULES if case.function not in PLAIN else RULES[:1])


@pytest.mark.slow
@pytest.mark.every_platform
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_first_derivatives_for_every_platform(case: Case) -> None:
    check_first_order(case, RULES)


def check_first_order(case: Case, rules: tuple[str, ...], whole: bool = False) -> None:
    """Compare values, tangents, cotangents and, if `whole`, Jacobians by these rules with the reference."""
    functions = {rule: partial(case.values, rule=rule) for rule in rules}
    check_first_derivatives(functions, case.x, case.expected.values, case.expected.jacobian(), whole)


@pytest.mark.parametrize("case", PLAIN.values(), ids=lambda case: case.function)
def test_jacobians(case: Case) -> None:
    check_first_order(case, RULES, whole=True)


# Pools with curvature, and one of each other kind. Norms of 1, 3 and infinity, and larger windows, only take longer to
# compile and use the same formulas.
SECOND_ORDER = [
    case
    for case in CASES
    if (case.function in ("lp_pool", "smooth_max_pool") and case.geometry in ("plane", "plane-overlap"))
    or (case.function, case.geometry) in [("max_pool", "ceil"), ("max_pool", "line-9"), ("avg_pool", "dilated")]
    if np.ndim(p := case.parameters.get("norm_type", 0)) or p not in (1, 3, math.inf)
]


MASKED = [case for case in SECOND_ORDER if "where" in case.parameters]


@pytest.mark.parametrize(
    ("case", "rules"),
    [
        # By default one row with a mask for each function; a mask changes no formula.
        case_row(case, rules, id=f"{case.name}-{'-'.join(rules)}", kept=rules == ("jvp",) and case not in MASKED[2:])
        for case in SECOND_ORDER
        for rules in (("jvp",), RULES)
    ],
)
def test_gradients_and_hessians(case: Case, rules: tuple[str, ...]) -> None:
    check_gradient_and_hessian({rule: cubed(partial(case.values, rule=rule)) for rule in rules}, case.x)


# Shapes of a learnt number against the output (2, 3, 3): one number, one per channel, along a pooled axis, per output.
LEARNT_SHAPES = [(), (2, 1, 1), (3, 1), (2, 3, 3)]


def learnt(name: str, rules: tuple[str, ...]) -> tuple[np.ndarray, dict[str, Any]]:
    """A tiny input, and the named pool, with padding, as a scalar function of the cells and the number."""
    function, *without_padding = name.split(" ", 1)
    options = {"count_include_pad": False} if without_padding else {}

    def pool(x: jax.Array, number: jax.Array, rule: str) -> jax.Array:
        return getattr(jaxpool, function)(x, number, (2, 2), 1, ((1, 0), (0, 1)), rule=rule, **options)

    return distinct((2, 3, 3), name), {rule: cubed(partial(pool, rule=rule)) for rule in rules}


@pytest.mark.parametrize(
    "shape", [case_row(shape, id=str(shape), kept=shape in ((), (3, 1))) for shape in LEARNT_SHAPES]
)
@pytest.mark.parametrize("name", ["lp_pool", "smooth_max_pool", "smooth_max_pool without padding"])
def test_derivatives_of_learnt_numbers(name: str, shape: tuple[int, ...]) -> None:
    x, objectives = learnt(name, RULES if shape == (3, 1) else ("jvp",))
    # Positive and away from 0 for norms; of both signs for beta.
    number = distinct(shape, "number", spread=2.0) + (3 if name == "lp_pool" else 0)
    check_gradient_and_hessian(objectives, x, number)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("function", ["max_pool", "min_pool", "max_pool_with_indices"])
@pytest.mark.parametrize(("kernel", "dtype"), [(3, np.uint8), (17, np.uint16)])
def test_selecting_pools_keep_one_offset_per_output(function: str, kernel: int, dtype: Any, rule: str) -> None:
    def keep(x: jax.Array) -> Any:
        pool = partial(getattr(jaxpool, function), kernel_size=(kernel, kernel), stride=2, padding=1, rule=rule)
        outputs, pull_back = jax.vjp(lambda x: pool(x)[0] if function == "max_pool_with_indices" else pool(x), x)
        return outputs, pull_back

    outputs, pull_back = jax.jit(keep)(jnp.ones((2, 20, 21), jnp.float32))
    kept = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(pull_back)]
    assert kept == [(outputs.shape, dtype)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("function", ["sum_pool", "avg_pool"])
def test_sums_keep_nothing_of_the_size_of_the_input(function: str, rule: str) -> None:
    def keep(x: jax.Array) -> Any:
        return jax.vjp(partial(getattr(jaxpool, function), kernel_size=(3, 3), stride=2, padding=1, rule=rule), x)

    outputs, pull_back = jax.jit(keep)(jnp.ones((2, 20, 21), jnp.float32))
    # The divisors of an average are at most one number per window.
    assert sum(leaf.size for leaf in jax.tree.leaves(pull_back)) <= outputs.size


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("function", "numbers"), [("lp_pool", 1), ("smooth_max_pool", 1), ("mellowmax_pool", 1)])
def test_weighted_pools_keep_cells_and_values_but_no_weights(function: str, numbers: int, rule: str) -> None:
    # For log-sum-exp they are the sums, and whether the values come from these.
    def keep(x: jax.Array) -> Any:
        return jax.vjp(lambda x: getattr(jaxpool, function)(x, 2.0, (5,), 1, rule=rule), x)

    outputs, pull_back = jax.jit(keep)(jnp.ones((2, 20), jnp.float32))
    if jax.default_backend() == "gpu" and function != "lp_pool":
        # The largest cell, and the excess of the value over it.
        numbers = 2
    assert sum(leaf.size for leaf in jax.tree.leaves(pull_back)) <= 40 + numbers * outputs.size + 1


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("function", ["sum_pool", "avg_pool"])
def test_complex_sums_are_linear(function: str, rule: str) -> None:
    case, random = PLAIN[function], np.random.default_rng(0)
    x, tangent = random.normal(size=(2, *case.shape)) + 1j * random.normal(size=(2, *case.shape))
    cotangent = random.normal(size=case.expected.values.shape) + 1j * random.normal(size=case.expected.values.shape)

    @jax.jit
    def maps(x: jax.Array, tangent: jax.Array, cotangent: jax.Array) -> Any:
        values, pull_back = jax.vjp(partial(case.values, rule=rule), x)
        return values, pull_back(cotangent)[0], jax.jvp(case.values, (x,), (tangent,))[1]

    values, pulled, pushed = maps(x, tangent, cotangent)
    np.testing.assert_allclose(values, case.reference(x).values, rtol=1e-12)
    np.testing.assert_allclose(pushed, case.reference(tangent).values, rtol=1e-12)
    np.testing.assert_allclose(pulled, np.tensordot(cotangent, case.expected.jacobian(), 3), rtol=1e-12)
