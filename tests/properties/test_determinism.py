"""Determinism: equal bits from run to run, and no scatter whose result depends on the order of its updates.

A scatter with repeated indices adds floats in the order in which a device works. Gradients of pools have no scatter at
all. Unpooling has a maximum of integers, which numbers the writers and is the same in any order, and a scatter with
unique indices. Programs are inspected over the whole registry, and run for every function; those of higher orders are
inspected in `test_nestings`.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxpool
from tests.harness.checks import equations
from tests.harness.compilation import compiled_as_usual
from tests.harness.parts import case_row
from tests.registry.cases import CASES, PLAIN, Case, distinct
from tests.registry.records import RECORDS

RULES = ("jvp", "vjp")
IN_ANY_ORDER = ("scatter_max", "scatter-max", "scatter_min", "scatter-min")


def scatters(function: Any, *arguments: Any) -> Iterator[Any]:
    """The scatters of a program, and their equivalents in gradients of JAX's own windowed operations."""
    for equation in equations(jax.make_jaxpr(function)(*arguments).jaxpr):
        if "scatter" in equation.primitive.name:
            yield equation


def depends_on_order(scatter: Any) -> bool:
    (result,) = scatter.outvars
    if scatter.params.get("unique_indices", False):
        return False
    return scatter.primitive.name not in IN_ANY_ORDER or not jnp.issubdtype(result.aval.dtype, jnp.integer)


# Boxes may overlap anywhere: only their gradients add by a scatter.
WITHOUT_SCATTER = [case for case in CASES if RECORDS[case.function].has_rule]
# By default the first row of every function, which is plain, and the last one, which usually has a mask.
ENDS = [
    case
    for function in dict.fromkeys(case.function for case in WITHOUT_SCATTER)
    for same in [[case for case in WITHOUT_SCATTER if case.function == function]]
    for case in {same[0].name: same[0], same[-1].name: same[-1]}.values()
]
OTHERS = [case for case in WITHOUT_SCATTER if case not in ENDS]


@pytest.mark.parametrize(
    "cases",
    [case_row(ENDS[part::4], id=f"ends {part}", kept=True) for part in range(4)]
    + [case_row(OTHERS[part::4], id=f"others {part}", kept=False) for part in range(4)],
)
def test_gradients_scatter_nothing(cases: list[Case]) -> None:
    # The rules share the map from outputs to cells: the second rule runs for every third case.
    for number, (case, rule) in enumerate((case, rule) for rule in RULES for case in cases):
        if number >= len(cases) and number % 3:
            continue

        def gradient(x: jax.Array, case: Case = case, rule: str = rule) -> jax.Array:
            return jax.grad(lambda x: (case.values(x, rule) ** 2).sum())(x)

        assert not list(scatters(gradient, case.x)), case.name


@pytest.mark.parametrize("name", ["lp_pool", "smooth_max_pool"])
@pytest.mark.parametrize("rule", RULES)
def test_gradients_of_learnt_numbers_scatter_nothing(name: str, rule: Any) -> None:
    x, numbers = distinct((2, 3, 7, 6), name), jnp.array([1.5, 2.0, 3.0]).reshape(3, 1, 1)

    def gradient(x: jax.Array, numbers: jax.Array) -> Any:
        return jax.grad(lambda *both: getattr(jaxpool, name)(*both, (3, 3), 2, 1, rule=rule).sum(), (0, 1))(x, numbers)

    assert not list(scatters(gradient, x, numbers))


def test_unpooling_scatters_in_any_order() -> None:
    cases = [case for case in CASES if case.function == "max_unpool"]
    assert cases
    for case in cases:
        # The writers are numbered, and the linear map and its transpose are both gathers.
        forward = list(scatters(case.values, case.x))
        assert [one.primitive.name in IN_ANY_ORDER for one in forward] == [True]
        assert not any(map(depends_on_order, forward))

        def backward(cotangent: jax.Array, x: np.ndarray = case.x, case: Case = case) -> jax.Array:
            return jax.linear_transpose(case.values, x)(cotangent)[0]

        backwards = list(scatters(backward, case.expected.values))
        assert [one.primitive.name in IN_ANY_ORDER for one in backwards] == [True]
        assert not any(map(depends_on_order, backwards))


def test_scatters_are_found() -> None:
    # A control: gradients of the platform's windowed operations and of plain indexing depend on the order.
    x = jnp.ones((2, 6))

    def windows(x: jax.Array) -> jax.Array:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3), (1, 1), "VALID")

    def indexing(x: jax.Array) -> jax.Array:
        return x[0, jnp.array([1, 1, 2])]

    for function in (windows, indexing):
        found = list(scatters(jax.grad(lambda x, function=function: function(x).sum()), x))
        assert any(map(depends_on_order, found))


# Large enough for a device to use several threads, with ties, so that many windows share few winners.
LARGE = (np.random.default_rng(0).integers(-50, 50, (2, 16, 96, 96)) * 0.1).astype(np.float32)


def bits(results: Any) -> list[bytes]:
    return [np.asarray(result).tobytes() for result in jax.tree.leaves(results)]


# The programs of all functions are inspected above. Together these use all entry points of the engine, the last one for
# a draw; the rules share their maps.
RUN = ("max_pool", "avg_pool", "lp_pool", "soft_pool", "quantile_pool", "blur_pool", "adaptive_max_pool")
RUN += ("stochastic_pool",)


@pytest.mark.usefixtures("for_this_platform")
@pytest.mark.parametrize(
    ("function", "rule"),
    [
        case_row(name, rule, id=f"{name}-{rule}", kept=rule == "jvp" and name in RUN)
        for name in PLAIN
        for rule in RULES
        if rule == "jvp" or name in ("max_pool", "avg_pool", "lp_pool", "adaptive_max_pool")
    ],
)
def test_equal_bits_from_run_to_run(function: str, rule: str) -> None:
    case = PLAIN[function]
    weights = np.random.default_rng(1).normal(size=case.values(LARGE).shape).astype(np.float32)

    def everything(x: jax.Array, weights: jax.Array) -> Any:
        values, pull_back = jax.vjp(lambda x: case.values(x, rule), x)
        forward = jax.jvp(case.values, (x,), (x,))[1] if rule == "jvp" else None
        return case.outputs(x, rule), values, pull_back(weights)[0], forward

    compiled = compiled_as_usual(everything)
    first = bits(compiled(LARGE, weights))
    for _ in range(5):
        assert bits(compiled(LARGE, weights)) == first
    if function in ("max_pool", "avg_pool", "lp_pool"):
        jax.clear_caches()
        assert bits(compiled_as_usual(everything)(LARGE, weights)) == first


def test_unpooling_gives_equal_bits() -> None:
    random = np.random.default_rng(2)
    values, weights = random.normal(size=(2, 4, 9000)), random.normal(size=(2, 4, 5000))
    indices = random.integers(0, 5000, values.shape)

    @compiled_as_usual
    def everything(values: jax.Array, indices: jax.Array, weights: jax.Array) -> Any:
        unpooled, pull_back = jax.vjp(lambda values: jaxpool.max_unpool(values, indices, (5000,), axis=-1), values)
        return unpooled, pull_back(weights)[0]

    first = bits(everything(values, indices, weights))
    for _ in range(5):
        assert bits(everything(values, indices, weights)) == first
