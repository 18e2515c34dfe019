"""`python -m tests.fuzz`: planted faults are found, shrunk, printed and recorded, and a run continues where it stopped.

`test_hypothesis.py` tests the verdict on a single call; most runs here replace the real judge by one that is faster, or
that is made to fail.
"""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jaxpool
from tests import fuzz
from tests.random.call_checks import check
from tests.registry.calls import FUNCTIONS, Call

ROOT = Path(__file__).parents[2]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "state.json"


def run(state: Path, *arguments: str) -> int:
    """One batch of one function."""
    return fuzz.main(["--minutes", "0", "--state", str(state), "--function", "max_pool", *arguments])


def saved(state: Path) -> fuzz.State:
    return fuzz.State(**json.loads(state.read_text(encoding="utf-8")))


def without_mask(pool: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, **parameters: pool(x, **{**parameters, "where": None})


def without_partial_windows(pool: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(x: Any, **parameters: Any) -> Any:
        if parameters.get("ceil_mode") is True:
            raise IndexError("no such window")
        return pool(x, **parameters)

    return wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "parameter", "fault"),
    [
        (without_mask, "where", "AssertionError"),
        # Found in the same way, but with another exception.
        pytest.param(
            *(without_partial_windows, "ceil_mode", "IndexError: no such"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_planted_fault_is_found(
    planted: Callable[..., Any],
    parameter: str,
    fault: str,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    right = jaxpool.max_pool
    monkeypatch.setattr(jaxpool, "max_pool", planted(right))
    monkeypatch.setattr(fuzz, "SHRINKING_SECONDS", 2)
    assert run(state) == 1
    (found,) = saved(state).faults
    assert found["fault"].startswith(fault)
    printed = capsys.readouterr().out
    assert f"FAULT: {found['fault']}\n\n{found['program']}" in printed
    assert printed.endswith(f"{found['call']}\n    {found['fault']}\n1 faults; state in {state}\n")
    call = eval(found["call"], {"Call": Call, "jaxpool": jaxpool, "np": np})
    assert parameter in call.parameters
    with pytest.raises((AssertionError, IndexError)):
        exec(found["program"], {})
    monkeypatch.setattr(jaxpool, "max_pool", right)
    check(call)


def test_faults_are_shrunk_recorded_and_passed_by(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def judge(call: Call) -> bool:
        if math.prod(call.shape) >= 6 and 3 in np.ravel(call.parameters.get("stride", 1)):
            raise LookupError("a stride of 3 on 6 cells")
        return True

    monkeypatch.setattr(fuzz, "check", judge)
    assert run(state, "--examples", "300") == 1
    (found,) = saved(state).faults
    assert found["fault"] == "LookupError: a stride of 3 on 6 cells"
    call = eval(found["call"], {"Call": Call, "jaxpool": jaxpool, "np": np})
    assert math.prod(call.shape) == 6
    assert repr(call) == repr(Call("max_pool", call.shape, call.parameters))
    assert {*call.parameters} <= {"kernel_size", "stride", "axis"}
    # The same fault is recorded once, and is reported even if nothing else is found.
    again = saved(state)
    again.batches.clear()
    again.save(state)
    assert run(state, "--examples", "300") == 1
    assert saved(state).faults == [found]
    monkeypatch.setattr(fuzz, "check", lambda call: True)
    assert run(state) == 1
    assert saved(state).batches == {"max_pool": 2}
    assert capsys.readouterr().out.count("FAULT: ") == 2


@pytest.mark.slow
def test_shrinking_ends(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[Call] = []

    def judge(call: Call) -> bool:
        judged.append(call)
        if math.prod(call.shape) >= 6:
            raise LookupError("six cells")
        return True

    monkeypatch.setattr(fuzz, "check", judge)
    monkeypatch.setattr(fuzz, "SHRINKING_SECONDS", -1)
    assert run(state) == 1
    (found,) = saved(state).faults
    assert found["call"] == repr(judged[-1])


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls passed to a judge that accepts all of them."""
    calls: list[str] = []

    def judge(call: Call) -> bool:
        calls.append(repr(call))
        return len(calls) % 3 > 0

    monkeypatch.setattr(fuzz, "check", judge)
    return calls


def test_a_run_goes_on_where_it_stopped(
    judged: list[str], state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(state, "--examples", "10") == 0
    first, stopped = len(judged), saved(state)
    assert run(state, "--examples", "10") == 0
    printed = capsys.readouterr().out
    assert f"going on after 1 batches in {state}" in printed
    together = saved(state)
    assert together.batches == {"max_pool": 2}
    assert together.compared["max_pool"] + together.refused["max_pool"] == len(judged)
    assert f"{'max_pool':32}{together.compared['max_pool']:10}{together.refused['max_pool']:10}" in printed
    assert set(judged[:first]) != set(judged[first:])
    # From the first batch on it equals an uninterrupted run, and differs from one with another seed.
    before = list(judged)
    stopped.save(tmp_path / "again.json")
    run(tmp_path / "again.json", "--examples", "10")
    assert judged[len(before) :] == before[first:]
    before = list(judged)
    run(tmp_path / "other.json", "--examples", "10", "--seed", "5")
    assert judged[len(before) :] != before[:first]


def test_an_interrupted_batch_is_run_again(
    judged: list[str], state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(state, "--examples", "10")
    number, judge = len(judged), fuzz.check

    def interrupt(call: Call) -> bool:
        if len(judged) == number + 3:
            raise KeyboardInterrupt
        return judge(call)

    monkeypatch.setattr(fuzz, "check", interrupt)
    assert run(state, "--examples", "10") == 0
    assert "interrupted" in capsys.readouterr().out
    assert saved(state).batches == {"max_pool": 1}
    tried = judged[number:]
    monkeypatch.setattr(fuzz, "check", judge)
    run(state, "--examples", "10")
    assert judged[number + 3 :][:3] == tried


def test_functions_take_turns(judged: list[str], state: Path) -> None:
    for _ in range(len(FUNCTIONS) + 1):
        fuzz.main(["--minutes", "0", "--examples", "2", "--state", str(state)])
    assert saved(state).batches == {function: 1 + (function == "max_pool") for function in FUNCTIONS}


def test_another_seed_needs_another_state(state: Path, judged: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run(state, "--examples", "2")
    assert run(state, "--seed", "3") == 2
    assert capsys.readouterr().err == f"{state} is of seed 0; give --seed 0 or another --state\n"


def test_the_command(state: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--minutes", "0", "--examples", "2", "--state", str(state)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(f"0 faults; state in {state}\n")
    assert saved(state).batches == {"max_pool": 1}
