"""Every function with all of its parameters at once, drawn at random: few calls, the same in every run.

Each call is a program to compile; `python -m tests.fuzz` draws as many as there is time for. This file also tests that
calls of all kinds are drawn, and that wrong outcomes of every kind are rejected.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import jaxpool
from tests.random.call_checks import check, is_defined
from tests.random.call_mistakes import any_calls, arbitrary_calls
from tests.random.call_strategies import EXAMPLES_IN_ROUND, calls, some_calls
from tests.random.call_windows import COPIES, PLAIN_WORDS
from tests.reference import oracle
from tests.registry.calls import COMPLEX, FLOAT_KINDS, FLOATS, FUNCTIONS, INTEGER_KINDS, INTEGERS, MODES, Call

pytestmark = pytest.mark.usefixtures("for_this_platform")


# The first few of a round, and the others.
each_part = pytest.mark.parametrize(
    "part",
    [pytest.param(slice(2), id="first"), pytest.param(slice(2, None), id="others", marks=pytest.mark.slow)],
)


@each_part
@pytest.mark.parametrize("function", FUNCTIONS)
def test_calls(function: str, part: slice) -> None:
    check_all(some_calls(calls(function), EXAMPLES_IN_ROUND, function)[part])


@each_part
@pytest.mark.parametrize("function", FUNCTIONS)
def test_arbitrary_arguments(function: str, part: slice) -> None:
    check_all(some_calls(arbitrary_calls(function), EXAMPLES_IN_ROUND, function)[part])


def check_all(drawn: list[Call]) -> None:
    # Shrinking a failure takes hundreds of compilations: that is left to the longer run.
    for call in drawn:
        try:
            check(call)
        except Exception as error:
            error.add_note(call.snippet())
            raise


def test_every_function_is_drawn() -> None:
    assert {name for name, value in vars(jaxpool).items() if callable(value) and not name.startswith("_")} == {
        *FUNCTIONS,
        *("portable", "compiling_for", "bins", "footprint"),
    }


@pytest.mark.slow
def test_calls_are_of_all_kinds() -> None:
    every = [call for function in FUNCTIONS for call in some_calls(calls(function), 45, function)]
    assert {call.dtype for call in every} == {*FLOATS, *INTEGERS, *COMPLEX}
    assert {call.cells for call in every} == {*FLOAT_KINDS, *INTEGER_KINDS}
    assert {call.mode for call in every} == {*MODES}
    assert {len(call.shape) for call in every} == {1, 2, 3, 4}
    assert {call.parameters.get("rule") for call in every} == {None, "jvp", "vjp"}
    assert any(0 in call.shape for call in every)
    assert sum(is_defined(call) for call in every) > 0.9 * len(every)

    def given(name: str) -> list[Any]:
        return [call.parameters[name] for call in every if name in call.parameters]

    def kinds(name: str) -> set[str]:
        return {type(one).__name__ for one in given(name)}

    assert {np.ndim(one) for one in given("where")} == {0, 1, 2, 3, 4}
    assert kinds("axis") == {"int", "tuple", "list", "str"}
    assert kinds("kernel_size") == {"int", "tuple", "Bins", "Whole", "Footprint"}
    assert kinds("stride") == {"int", "tuple", "list", "NoneType"}
    assert kinds("dilation") == {"int", "tuple", "list"}
    paddings = given("padding")
    words = {*PLAIN_WORDS, *COPIES}
    assert words | {0, 1, 2} <= {one for one in paddings if isinstance(one, (int, str))}
    entries = [entry for one in paddings if isinstance(one, tuple) for entry in one]
    assert {type(entry).__name__ for entry in entries} == {"int", "tuple", "list", "str"}
    pairs = [entry for entry in entries if not isinstance(entry, (int, str))]
    assert any(low != high for low, high in pairs if not isinstance(low, str))
    assert {*COPIES} <= {word for word, _ in pairs if isinstance(word, str)}
    assert any(None in one for one in given("output_size") if isinstance(one, tuple))
    assert {True, False} == {*given("ceil_mode")} == {*given("count_include_pad")} == {*given("keepdims")}
    for name in ("norm_type", "beta"):
        assert {0, 1, 2} <= {np.ndim(one) for one in given(name)}
    assert math.inf in [one for one in given("norm_type") if np.ndim(one) == 0]
    assert {*given("kind")} == {"max", "avg"}
    assert kinds("levels") == {"list", "tuple"}
    assert {type(level).__name__ for levels in given("levels") for level in levels} == {"int", "tuple"}
    assert kinds("blur_size") == kinds("dilation")
    assert {"float", "tuple"} <= kinds("output_ratio")
    assert given("key")
    for name in ("samples", "boxes"):
        assert {str(one.dtype) for one in given(name)} == {"float64", "float32", "float16"}
    assert {len(boxes) for boxes in given("boxes")} == {0, 1, 2, 3, 4}
    # Away from all centres of cells, and anywhere.
    assert {bool((boxes % 0.25).any()) for boxes in given("boxes") if boxes.size} == {True, False}
    assert {*given("sampling_ratio")} == {1, 2, 3}
    assert {*given("aligned")} == {True, False}


def test_a_call_is_what_it_prints() -> None:
    for call in some_calls(st.sampled_from(FUNCTIONS).flatmap(any_calls), 45, "all"):
        copy = eval(repr(call), {"Call": Call, "jaxpool": jaxpool, "np": np})
        assert repr(copy) == repr(call)
        # NumPy does not treat two NaN of bfloat16 as equal.
        assert (copy.x.dtype, copy.x.shape, copy.x.tobytes()) == (call.x.dtype, call.x.shape, call.x.tobytes())
        compile(call.snippet(), "snippet", "exec")


def last_winner(cells: np.ndarray, real: np.ndarray) -> tuple[Any, np.ndarray]:
    """The last of the largest cells: the first when read backwards."""
    value, slopes = oracle.largest(cells[::-1], real[::-1])
    return value, slopes[::-1]


def slightly_steeper(cells: np.ndarray, real: np.ndarray) -> tuple[Any, np.ndarray]:
    value, slopes = oracle.total(cells, real)
    return value, slopes * (1 + 1e-9)


def slightly_larger(cells: np.ndarray, real: np.ndarray) -> tuple[Any, np.ndarray]:
    value, slopes = oracle.total(cells, real)
    return value * (1 + 1e-9), slopes


TIES = Call("max_pool", (2, 6), {"kernel_size": (3,), "stride": 1})
SUMS = Call("sum_pool", (2, 6), {"kernel_size": (3,), "stride": 1}, cells="distinct")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("call", "rule", "what"),
    [
        (TIES, last_winner, "reverse mode: "),
        (SUMS, slightly_steeper, "reverse mode: "),
        (SUMS, slightly_larger, "values: "),
    ],
    ids=["winners", "slopes", "values"],
)
def test_wrong_outcomes_are_rejected(
    call: Call, rule: oracle.WindowRule, what: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = replace(call, mode=mode)
    check(call)
    monkeypatch.setitem(oracle.RULES, call.function, rule)
    with pytest.raises(AssertionError, match=what):
        check(call)


def refuse(error: Exception) -> Callable[..., Any]:
    def pool(x: Any, **parameters: Any) -> Any:
        raise error

    return pool


def test_wrong_refusals_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    beyond = replace(SUMS, parameters={"kernel_size": (7,)})
    assert check(beyond) is False
    for function in (SUMS.function, "max_pool"):
        assert check(replace(SUMS, function=function))
    for wrong, error in (
        (SUMS, ValueError("sum_pool: no reason")),
        (beyond, ValueError("no name")),
        (beyond, UnicodeError("sum_pool: an exception of its own")),
    ):
        monkeypatch.setattr(jaxpool, "sum_pool", refuse(error))
        with pytest.raises(AssertionError, match="refused"):
            check(wrong)
    monkeypatch.setattr(jaxpool, "sum_pool", refuse(IndexError("sum_pool: none of the two")))
    with pytest.raises(IndexError):
        check(beyond)
    monkeypatch.setattr(jaxpool, "sum_pool", lambda x, **parameters: x)
    with pytest.raises(AssertionError, match="accepted, but not defined"):
        check(beyond)
