"""Compiling and timing: all who compute a case run in turns, so that other load on the machine affects all alike.

In every round each runs once, in a new random order, as each leaves caches and threads in a state of its own to the
next. The figures are medians. What is slow runs fewer rounds.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

_LEAST_ROUNDS, _EASILY_DISTURBED = 3, 0.2
_CALLS_IN_A_ROW, _SECONDS_IN_A_ROW = 10, 3e-3


@dataclass(frozen=True)
class Run:
    """Something to time: `call` starts it on arguments that are on the device, `wait` returns when it is done."""

    call: Callable[[], Any]
    wait: Callable[[Any], Any] = jax.block_until_ready

    def seconds(self, calls: int) -> float:
        """Seconds per call, over several in a row."""
        start = time.perf_counter()
        result = None
        for _ in range(calls):
            result = self.call()
        self.wait(result)
        return (time.perf_counter() - start) / calls


def in_turns(runs: Mapping[str, Run], repetitions: int, seconds: float, platform: str) -> dict[str, float]:
    """Median seconds of each run, each of which has been called before; about `seconds` in all."""
    # An accelerator processes its queue in order, which hides the host's overhead if there are enough calls. A CPU may
    # run calls at the same time, so there each is waited for.
    calls = dict.fromkeys(runs, 1)
    if platform != "cpu":
        calls = {
            name: max(_CALLS_IN_A_ROW, int(_SECONDS_IN_A_ROW / run.seconds(_CALLS_IN_A_ROW)))
            for name, run in runs.items()
        }
    spent = {name: [run.seconds(calls[name])] for name, run in runs.items()}
    share = seconds / max(len(runs), 1)
    rounds = {
        name: min(repetitions, max(_LEAST_ROUNDS, int(share / (calls[name] * first))))
        for name, (first,) in spent.items()
    }
    order = random.Random(0)
    for number in range(1, max(rounds.values(), default=1)):
        for name in order.sample(list(runs), len(runs)):
            if number < rounds[name]:
                spent[name].append(runs[name].seconds(calls[name]))
    return {name: statistics.median(times) for name, times in spent.items()}


def build(function: Callable[..., Any], *arguments: jax.Array) -> tuple[Any, float]:
    """The compiled function, and the seconds of a first call without the call: no cache holds any part of it."""
    compiled, seconds = _build(function, *arguments)
    return compiled, min(seconds, _build(function, *arguments)[1]) if seconds < _EASILY_DISTURBED else seconds


def _build(function: Callable[..., Any], *arguments: jax.Array) -> tuple[Any, float]:
    jax.clear_caches()
    start = time.perf_counter()
    compiled = jax.jit(function).lower(*arguments).compile()
    return compiled, time.perf_counter() - start
