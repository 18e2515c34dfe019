"""Deliberately wrong derivative rules: the checks that the other files rely on must reject every one of them.

`python -m tests.plant_faults` plants faults in the package itself, and takes hours; this file only tests that there is
a place for each of them.

Each rule is that of a max pool of 3 cells with a correct value and a slightly wrong derivative, on inputs of a few
cells and of a few hundred, where numerical checks with tolerances that grow with the size are known to fail.
"""

from collections import Counter
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.checks import check_first_derivatives, check_gradient_and_hessian, cubed
from tests.harness.nestings import check_nestings
from tests.plant_faults import FAULTS, ROOT, found_in
from tests.project.fault import Fault
from tests.reference import oracle
from tests.reference.jets import Jet
from tests.registry.cases import distinct

TangentMap = Callable[[jax.Array, jax.Array], jax.Array]


def values_of(x: jax.Array) -> jax.Array:
    return jaxpool.max_pool(x, (3,), 2, 1)


def windows_of(x: jax.Array, padding: float) -> jax.Array:
    """The cells of every window along a new last axis."""
    padded = jnp.pad(x, 1, constant_values=padding)
    count = (x.size - 1) // 2 + 1
    return jnp.stack([padded[offset : offset + 2 * count - 1 : 2] for offset in range(3)], -1)


def at_winner(x: jax.Array, x_dot: jax.Array) -> jax.Array:
    """The correct map, written independently: the tangent at the first cell that has the maximum."""
    winner = jnp.argmax(windows_of(x, -jnp.inf), -1)
    return jnp.take_along_axis(windows_of(x_dot, 0), winner[:, None], -1)[:, 0]


def at_last_winner(x: jax.Array, x_dot: jax.Array) -> jax.Array:
    winner = 2 - jnp.argmax(windows_of(x, -jnp.inf)[:, ::-1], -1)
    return jnp.take_along_axis(windows_of(x_dot, 0), winner[:, None], -1)[:, 0]


def shared_by_ties(x: jax.Array, x_dot: jax.Array) -> jax.Array:
    cells = windows_of(x, -jnp.inf)
    chosen = (cells == cells.max(-1, keepdims=True)).astype(x.dtype)
    return (chosen * windows_of(x_dot, 0)).sum(-1) / chosen.sum(-1)


def one_percent_off(x: jax.Array, x_dot: jax.Array) -> jax.Array:
    return 1.01 * at_winner(x, x_dot)


def one_percent_off_at_one_output(x: jax.Array, x_dot: jax.Array) -> jax.Array:
    return at_winner(x, x_dot) * jnp.ones(x.size // 2).at[3].set(1.01)


def into_padding(x: jax.Array, x_dot: jax.Array) -> jax.Array:
    """Padding counts as 0: negative windows at the edge lose their derivative to it."""
    winner = jnp.argmax(windows_of(x, 0), -1)
    return jnp.take_along_axis(windows_of(x_dot, 0), winner[:, None], -1)[:, 0]


def planted(tangent_map: TangentMap) -> Callable[[jax.Array], jax.Array]:
    pool = jax.custom_jvp(values_of)
    pool.defjvp(lambda primals, tangents: (values_of(*primals), tangent_map(*primals, *tangents)))
    return pool


def check(function: Callable[[jax.Array], jax.Array], x: np.ndarray) -> None:
    expected = oracle.pool(oracle.largest, x, (3,), 2, 1)
    check_first_derivatives({"jvp": function}, x, expected.values, expected.jacobian())


INPUTS = {"few cells": -2 - np.arange(10) % 3 / 2, "hundreds of cells": -2 - np.arange(300) % 3 / 2}


@pytest.mark.parametrize("x", INPUTS.values(), ids=INPUTS)
def test_right_rules_pass(x: np.ndarray) -> None:
    check(planted(at_winner), x)
    check(values_of, x)


@pytest.mark.parametrize("x", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize(
    "tangent_map",
    [at_last_winner, shared_by_ties, one_percent_off, one_percent_off_at_one_output, into_padding],
    ids=lambda tangent_map: tangent_map.__name__,
)
def test_wrong_rules_are_rejected(tangent_map: TangentMap, x: np.ndarray) -> None:
    # Twos and threes of equal numbers give every window of the first input a tie.
    x = np.repeat(x, 2)[: x.size]
    with pytest.raises(AssertionError, match="jac"):
        check(planted(tangent_map), x)


def test_wrong_values_are_rejected() -> None:
    with pytest.raises(AssertionError, match="value"):
        check(lambda x: values_of(x) + 1e-6, INPUTS["few cells"])


def test_wrong_backward_passes_are_rejected() -> None:
    x = INPUTS["few cells"]
    right = jax.custom_vjp(values_of)
    right.defvjp(lambda x: jax.vjp(values_of, x), lambda pull_back, cotangent: pull_back(cotangent))
    wrong = jax.custom_vjp(values_of)
    wrong.defvjp(lambda x: jax.vjp(values_of, x), lambda pull_back, cotangent: pull_back(1.01 * cotangent))
    expected = oracle.pool(oracle.largest, x, (3,), 2, 1)
    check_first_derivatives({"vjp": right}, x, expected.values, expected.jacobian())
    with pytest.raises(AssertionError, match="jacrev, rule vjp"):
        check_first_derivatives({"jvp": values_of, "vjp": wrong}, x, expected.values, expected.jacobian())


def test_wrong_higher_orders_are_rejected() -> None:
    # The second derivative of the square of a constant-slope function comes only from the rule's tangent map: a map
    # that is right at first order but reads x where it should not is wrong from the second order on.
    smooth = jax.custom_jvp(lambda x: jnp.sin(x))
    smooth.defjvp(lambda primals, tangents: (smooth(*primals), jax.lax.stop_gradient(jnp.cos(*primals)) * tangents[0]))
    x = distinct((4,), "orders")
    with pytest.raises(AssertionError, match="Hessian"):
        check_gradient_and_hessian({"jvp": cubed(smooth)}, x)
    once_more = jax.custom_jvp(lambda x: jnp.sin(x))

    @once_more.defjvp
    def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
        return once_more(*primals), _cosine(*primals) * tangents[0]

    def expected(x: Jet) -> Jet:
        sine, cosine = np.sin(x.value), np.cos(x.value)
        return x.applied(sine, cosine, -sine, -cosine)

    check_nestings(lambda rule, x: jnp.sin(x), expected, {"x": x}, [["x"]] * 3, ("jvp",))
    with pytest.raises(AssertionError, match="FFF"):
        check_nestings(lambda rule, x: once_more(x), expected, {"x": x}, [["x"]] * 3, ("jvp",))


@jax.custom_jvp
def _cosine(x: jax.Array) -> jax.Array:
    return jnp.cos(x)


_cosine.defjvp(lambda primals, tangents: (_cosine(*primals), -jax.lax.stop_gradient(jnp.sin(*primals)) * tangents[0]))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_faults_have_a_place(fault: Fault) -> None:
    path, text = found_in(fault)
    changed = text.replace(fault.right, fault.wrong)
    assert changed != text
    compile(changed, str(path), "exec")


def test_faults_name_files_that_are_there() -> None:
    files = Counter(path.stem for path in (ROOT / "tests").rglob("test_*.py"))
    named = {name for fault in FAULTS for name in fault.seen_by.partition(" -k ")[0].split()}
    assert {name: files[name] for name in named} == dict.fromkeys(named, 1)


def test_a_fault_without_a_place_is_refused() -> None:
    for right in ("no such text", "import jax\n"):
        with pytest.raises(LookupError, match="must occur once in the package"):
            found_in(Fault("nowhere", right, ""))
