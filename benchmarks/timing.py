"""Timing: the contenders of a case run alternately, so that other load on the machine affects all of them alike.

In every round each runs once, in a new random order, as the state of caches and threads that a contender leaves to the
next differs between libraries. The figures are medians. Slow contenders run fewer rounds. The copy limit is the time of
an elementwise pass that reads and writes as many bytes as an operation must.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_ROUNDS_AT_LEAST = 3
_CALLS_IN_A_ROW, _SECONDS_IN_A_ROW = 10, 3e-3


@dataclass(frozen=True)
class Run:
    """Something to time: `call` starts it on arguments that are on the device, `wait` returns when it is done."""

    call: Callable[[], Any]
    wait: Callable[[Any], Any] = jax.block_until_ready

    def result(self) -> Any:
        """The result of one call, after it is done."""
        return self.wait(self.call())

    def seconds(self, calls: int) -> float:
        """Seconds per call, over several in a row."""
        start = time.perf_counter()
        result = None
        for _ in range(calls):
            result = self.call()
        self.wait(result)
        return (time.perf_counter() - start) / calls


def alternate(runs: Mapping[str, Run], repetitions: int, seconds: float, platform: str) -> dict[str, float]:
    """Median milliseconds of each run, alternately; slow runs have fewer rounds, to stay near `seconds`.

    Every run has been called before, so the first round is a fair estimate of how many rounds there is time for.
    """
    # An accelerator processes its queue in order, which hides the host's overhead if there are enough calls. A CPU may
    # run calls concurrently, so there each call is waited for.
    calls = dict.fromkeys(runs, 1)
    if platform != "cpu":
        first = {name: run.seconds(_CALLS_IN_A_ROW) for name, run in runs.items()}
        calls = {name: max(_CALLS_IN_A_ROW, int(_SECONDS_IN_A_ROW / one)) for name, one in first.items()}
    spent = {name: [run.seconds(calls[name])] for name, run in runs.items()}
    share = seconds / max(len(runs), 1)
    rounds = {
        name: min(repetitions, max(_ROUNDS_AT_LEAST, int(share / (calls[name] * first[0]))))
        for name, first in spent.items()
    }
    order = random.Random(0)
    for number in range(1, max(rounds.values(), default=1)):
        for name in order.sample(list(runs), len(runs)):
            if number < rounds[name]:
                spent[name].append(runs[name].seconds(calls[name]))
    return {name: statistics.median(times) * 1e3 for name, times in spent.items()}


@lru_cache(maxsize=4)
def copy(bytes_moved: int, dtype: np.dtype) -> Run:
    """A pass over an array that reads and writes `bytes_moved` in total, called once to warm up."""
    x = jnp.ones(max(1, bytes_moved // (2 * dtype.itemsize)), dtype)
    negate = jax.jit(jnp.negative).lower(x).compile()
    run = Run(lambda: negate(x))
    run.result()
    return run
