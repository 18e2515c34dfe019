"""Repeated calls trace and compile nothing, and neither do calls with other values of learnt numbers."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest

import jaxpool
from tests.properties.test_transforms import each_function_and_rule
from tests.registry.cases import Case, distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

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
@each_function_and_rule
def test_second_calls_trace_nothing(case: Case, rule: str) -> None:
    # Sizes that no other test uses, so that the first call is the first one.
    x = jnp.asarray(distinct((4, 5 if rule == "jvp" else 6), "traces"))
    y = x + 1

    def call(x: jax.Array) -> Any:
        return case.outputs(x, rule)

    assert traces_of(lambda: call(x)) > 0
    assert traces_of(lambda: call(y)) == 0
    chex.clear_trace_counter()
    compiled = jax.jit(chex.assert_max_traces(call, n=1))
    compiled(x)
    compiled(y)
    with pytest.raises(AssertionError, match="traced"):
        compiled(x[1:])


@pytest.mark.usefixtures("_listen_to_traces")
def test_learnt_numbers_do_not_retrace() -> None:
    x = jnp.asarray(distinct((4, 7), "traces"))
    for pool in (jaxpool.lp_pool, jaxpool.smooth_max_pool):
        numbers = [jnp.asarray(number) for number in (1.5, 2.5)]
        assert traces_of(lambda: pool(x, numbers[0], (2, 2))) > 0  # noqa: B023
        assert traces_of(lambda: pool(x, numbers[1], (2, 2))) == 0  # noqa: B023
