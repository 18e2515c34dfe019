"""The overhead of a call without `jax.jit` around it, against plain JAX: of tiny arrays, and of long ones."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from benchmarks.cases import Case
from benchmarks.options import Options
from benchmarks.pools import Pool, ours, plain
from benchmarks.timing import Run, alternate

_CALLS = 100


@dataclass(frozen=True)
class Dispatch:
    """Microseconds per call."""

    name: str
    jaxpool: float
    plain: float


def dispatch_cases() -> list[tuple[str, Case]]:
    """Names and cases: tiny ones, and a million samples, whose calls must not take time for each."""
    tiny = [(f"dispatch, {group} 2×2", Case(group, 1, 4, 8, True, kernel=2, stride=2)) for group in ("max", "avg")]
    long = Case("max", 1, 1, 10**6, False, kernel=5, stride=1, rank=1)
    return [*tiny, ("dispatch, max 5/1 of 10⁶ samples", long)]


def measure_dispatch(name: str, case: Case, options: Options) -> Dispatch:
    """Time many calls in a row, since a single call is too short."""
    x = jnp.ones(case.shape, options.dtype)
    runs = {"jaxpool": _many(ours(case), x), "plain": _many(plain(case), x)}
    for run in runs.values():
        run.result()
    milliseconds = alternate(runs, options.repetitions, 2.0, "cpu")
    return Dispatch(name, *(milliseconds[library] / _CALLS * 1e3 for library in ("jaxpool", "plain")))


def _many(pool: Pool, x: jax.Array) -> Run:
    def call() -> jax.Array:
        result = x
        for _ in range(_CALLS):
            # Each call is waited for, as in interactive use.
            result = jax.block_until_ready(pool(x))
        return result

    return Run(call)
