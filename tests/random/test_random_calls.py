"""Random calls of every function: right in every way that the reference knows, or refused by name and with a reason.

The calls are the same in every run. More, by hand: `CALLS=500 SEED=3 python -m pytest -m slow tests/random -k max`.
"""

import math
import os
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import hypothesis
import numpy as np
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st

import jaxpool
from tests.properties.rows import KINDS
from tests.random.call_checks import check, is_defined
from tests.random.call_strategies import ARGUMENTS, COPIES, arbitrary_calls, calls
from tests.reference import oracle
from tests.registry.calls import COMPLEX, FLOAT_KINDS, FLOATS, FUNCTIONS, INTEGER_KINDS, INTEGERS, MODES, Call

pytestmark = pytest.mark.usefixtures("for_this_platform")

UNCHECKED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
SETTINGS = hypothesis.settings(deadline=None, database=None, suppress_health_check=UNCHECKED)
CALLS, SEED = int(os.environ.get("CALLS", "8")), os.environ.get("SEED", "0")


def for_each(strategy: st.SearchStrategy[Call], count: int, what: str, judge: Callable[[Call], Any]) -> None:
    """Judge so many random calls; the first one that fails is shrunk and printed."""

    @hypothesis.seed(zlib.crc32(f"{what} {SEED}".encode()))
    @hypothesis.settings(SETTINGS, max_examples=count)
    @hypothesis.given(strategy)
    def one_by_one(call: Call) -> None:
        judge(call)

    one_by_one()


few_or_many = pytest.mark.parametrize(
    ("function", "count"),
    [(name, 2) for name in KINDS] + [pytest.param(name, CALLS, marks=pytest.mark.slow) for name in FUNCTIONS],
)


@few_or_many
def test_calls(function: str, count: int) -> None:
    for_each(calls(function), count, f"{function} {count}", check)


@few_or_many
def test_arbitrary_arguments(function: str, count: int) -> None:
    for_each(arbitrary_calls(function), count, f"{function} {count}", check)


@pytest.mark.slow
def test_calls_are_of_all_kinds() -> None:
    every: list[Call] = []
    for function in FUNCTIONS:
        for_each(calls(function), 60, function, every.append)
    assert {call.dtype for call in every} == {*FLOATS, *INTEGERS, *COMPLEX}
    assert {call.cells for call in every} == {*FLOAT_KINDS, *INTEGER_KINDS}
    assert {call.mode for call in every} == {*MODES}
    assert {len(call.shape) for call in every} == {1, 2, 3, 4}
    assert max(math.prod(call.shape) for call in every) > 4096
    assert len(every) > sum(is_defined(call) for call in every) > 0.8 * len(every)

    def given(name: str) -> list[Any]:
        return [call.parameters[name] for call in every if name in call.parameters]

    def kinds(name: str) -> set[str]:
        return {type(one).__name__ for one in given(name)}

    for function in FUNCTIONS:
        mine = {name for call in every if call.function == function for name in call.parameters}
        assert mine >= {*ARGUMENTS[function]}, function
    assert {np.ndim(one) for one in given("where")} == {0, 1, 2, 3, 4}
    assert kinds("axis") == {"int", "tuple", "list", "str"}
    assert kinds("kernel_size") == {"int", "tuple", "Bins", "Whole", "Footprint"}
    entries = [entry for one in given("padding") if isinstance(one, tuple) for entry in one]
    assert {type(entry).__name__ for entry in entries} == {"int", "tuple", "list", "str"}
    assert {*COPIES} <= {entry[0] for entry in entries if isinstance(entry, tuple)}
    assert {0, 1, 2} <= {np.ndim(one) for one in given("norm_type")}


def last_winner(cells: np.ndarray, real: np.ndarray) -> tuple[Any, np.ndarray]:
    """The last of the largest cells: the first when read backwards."""
    value, slopes = oracle.largest(cells[::-1], real[::-1])
    return value, slopes[::-1]


def slightly_steeper(cells: np.ndarray, real: np.ndarray) -> tuple[Any, np.ndarray]:
    value, slopes = oracle.total(cells, real)
    return value, slopes * (1 + 1e-9)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("function", "rule"), [("max_pool", last_winner), ("sum_pool", slightly_steeper)])
def test_wrong_outcomes_are_rejected(
    function: str, rule: oracle.WindowRule, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A control: of the reference, so that the library's result is the wrong one.
    call = Call(function, (2, 6), {"kernel_size": (3,), "stride": 1}, mode=mode)
    assert check(call)
    monkeypatch.setitem(oracle.RULES, function, rule)
    with pytest.raises(AssertionError, match="reverse mode: "):
        check(call)


def test_wrong_refusals_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = Call("sum_pool", (2, 6), {"kernel_size": (3,)})
    beyond = replace(fits, parameters={"kernel_size": (7,)})
    assert check(beyond) is False
    for call, error in (
        (fits, ValueError("sum_pool: no reason")),
        (beyond, ValueError("no name")),
        (beyond, UnicodeError("sum_pool: an exception of its own")),
    ):
        monkeypatch.setattr(jaxpool, "sum_pool", Mock(side_effect=error))
        with pytest.raises(AssertionError, match="refused"):
            check(call)
    monkeypatch.setattr(jaxpool, "sum_pool", lambda x, **parameters: x)
    with pytest.raises(AssertionError, match="accepted, but not defined"):
        check(beyond)
