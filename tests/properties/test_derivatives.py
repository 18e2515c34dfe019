"""First and second derivatives in float64, both rules, against closed forms and central differences.

The closed forms are those of the reference; every row of the registry is compared with them. Differences check
Hessians, and derivatives with respect to learnt numbers. `test_nestings` has all nestings of modes.
"""

from functools import partial
from typing import Any

import jax
import pytest

import jaxpool
from tests.harness.checks import check_first_derivatives, check_gradient_and_hessian, cubed
from tests.registry.cases import CASES, PLAIN, Case, distinct
from tests.registry.records import by_function, row, slow_but

RULES = ("jvp", "vjp")
for_this_platform = pytest.mark.usefixtures("for_this_platform")
# By default the last row of each function, which often has a mask.
LAST = {case.function: case for case in CASES}.values()


def rules_of(case: Case) -> dict[str, Any]:
    """The pool of a row by each rule."""
    return {rule: partial(case.values, rule=rule) for rule in RULES}


@for_this_platform
@pytest.mark.parametrize("case", [row(case, id=case.name, quick=case in LAST) for case in CASES])
def test_first_derivatives(case: Case) -> None:
    check_first_derivatives(rules_of(case), case.x, case.expected.values, case.expected.jacobian(), whole=False)


# As users trace them: with the lowerings of every platform.
@by_function(PLAIN)
def test_jacobians(case: Case) -> None:
    check_first_derivatives(rules_of(case), case.x, case.expected.values, case.expected.jacobian())


@for_this_platform
@by_function(PLAIN, quick=("max_pool", "lp_pool"))
def test_gradients_and_hessians(case: Case) -> None:
    objectives = {rule: cubed(pool) for rule, pool in rules_of(case).items()}
    check_gradient_and_hessian(objectives, case.x[:1])


# One number per channel, along a pooled axis, and per output.
@for_this_platform
@pytest.mark.parametrize(
    "shape", [row(shape, id=str(shape), quick=shape == (3, 1)) for shape in ((2, 1, 1), (3, 1), (2, 3, 3))]
)
@pytest.mark.parametrize(
    "function", slow_but(["lp_pool"], ("lp_pool", "gem_pool", "smooth_max_pool", "mellowmax_pool", "soft_pool"))
)
def test_derivatives_of_learnt_numbers(function: str, shape: tuple[int, ...]) -> None:
    def pool(x: jax.Array, number: jax.Array, rule: str) -> jax.Array:
        return getattr(jaxpool, function)(x, number, (2, 2), 1, ((1, 0), (0, 1)), rule=rule)

    # Positive and away from 0 for norms; of both signs for beta.
    number = distinct(shape, "number", spread=2.0) + (3 if function in ("lp_pool", "gem_pool") else 0)
    objectives = {rule: cubed(partial(pool, rule=rule)) for rule in RULES}
    check_gradient_and_hessian(objectives, distinct((2, 3, 3), function), number)
