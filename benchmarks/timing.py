"""How time is taken: the contenders of a case in alternation, so that whatever else the machine does meets all alike.

In every round each runs once, in an order drawn anew: the caches and threads that one leaves to the next differ from
library to library. Medians count. What is slow runs fewer rounds. The copy limit is the time of an elementwise pass
that reads and writes as many bytes as an operation has to.
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
_CALLS_IN_A_ROW = 10


@dataclass(frozen=True)
class Run:
    """Something to time: `call` starts it on arguments that lie on the device, `wait` returns when it is done."""

    call: Callable[[], Any]
    wait: Callable[[Any], Any] = jax.block_until_ready

    def result(self) -> Any:
        """What one call gives, after it is done."""
        return self.wait(self.call())

    def seconds(self, calls: int) -> float:
        """Seconds per call, of several in a row."""
        start = time.perf_counter()
        result = None
        for _ in range(calls):
            result = self.call()
        self.wait(result)
        return (time.perf_counter() - start) / calls


def alternate(runs: Mapping[str, Run], repetitions: int, seconds: float, platform: str) -> dict[str, float]:
    """Median milliseconds of each run, in alternation; the slow ones take part less often, to stay near `seconds`.

    Every run has been called before, so that the first round is a fair guess of how many rounds there is time for.
    """
    # An accelerator works off its queue in order, which hides what the host needs to fill it. A CPU may run calls at
    # the same time, so there they are waited for one by one.
    calls = 1 if platform == "cpu" else _CALLS_IN_A_ROW
    spent = {name: [run.seconds(calls)] for name, run in runs.items()}
    share = seconds / max(len(runs), 1)
    rounds = {
        name: min(repetitions, max(_ROUNDS_AT_LEAST, int(share / (calls * first[0])))) for name, first in spent.items()
    }
    order = random.Random(0)
    for number in range(1, max(rounds.values(), default=1)):
        for name in order.sample(list(runs), len(runs)):
            if number < rounds[name]:
                spent[name].append(runs[name].seconds(calls))
    return {name: statistics.median(times) * 1e3 for name, times in spent.items()}


@lru_cache(maxsize=4)
def copy(bytes_moved: int, dtype: np.dtype) -> Run:
    """A pass over an array that reads and writes `bytes_moved` in total, called once to warm up."""
    x = jnp.ones(max(1, bytes_moved // (2 * dtype.itemsize)), dtype)
    negate = jax.jit(jnp.negative).lower(x).compile()
    run = Run(lambda: negate(x))
    run.result()
    return run
