"""`python -m benchmarks.accelerators --run`: the cases of a GPU run on the GPU of this machine, and timed.

Several processes compile the programs, and compare results in float32. When all have done so they time their cases,
one process at a time, so that nothing else is under way. jaxpool, plain JAX and PyTorch, if it is installed, run
alternately, each on several sets of arrays in turn, which no cache holds. A copy of a large array says how fast the
memory is. Networks and masks have no PyTorch beside them.
"""

import itertools
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import pytorch
from benchmarks.accelerators.case import OURS, Case
from benchmarks.accelerators.cases import all_cases
from benchmarks.pools import LeftOut
from benchmarks.timing import Run, alternate, copy

TORCH = "PyTorch"
# More than caches hold, and a copy that takes long enough to forget its launch.
_BYTES_OF_SETS, _BYTES_OF_COPY = 256_000_000, 2_000_000_000
_ROUNDS, _SECONDS = 9, 0.15
_WEIGHTS = 0.05
# Of the norm of the other result.
_TOLERANCE = 1e-3


@dataclass
class Timed:
    """The milliseconds of all who compute a case, and the seconds to compile it; who failed, and whose results differ.

    `copy` is what a copy of as many bytes as the case has in arguments and results would take.
    """

    name: str
    copy: float = 0.0
    milliseconds: dict[str, float] = field(default_factory=dict)
    compile_seconds: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def bytes_per_second() -> float:
    """What a pass over a large array reads and writes in a second."""
    times = alternate({"copy": copy(_BYTES_OF_COPY, np.dtype(np.float32))}, _ROUNDS, _SECONDS, _platform())
    return _BYTES_OF_COPY / times["copy"] * 1e3


def run(cases: Sequence[Case], processes: int) -> Iterator[tuple[Case, Timed]]:
    """Time these cases, each as soon as all programs are compiled and no other case is being timed."""
    # Otherwise the first process would take the device's memory.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    fastest = bytes_per_second()
    by_name = {case.name: case for case in cases}
    context = multiprocessing.get_context("spawn")
    count = min(processes, len(cases))
    ready, device, done = context.Barrier(count), context.Lock(), context.Queue()
    for number in range(count):
        names = list(by_name)[number::count]
        context.Process(target=_work, args=(names, ready, device, done), daemon=True).start()
    for _ in cases:
        timed = done.get()
        timed.copy = by_name[timed.name].needed / fastest * 1e3
        yield by_name[timed.name], timed


def _work(names: Sequence[str], ready: Any, device: Any, done: Any) -> None:
    cases = [all_cases()["gpu", name] for name in names]
    rows = [Timed(case.name) for case in cases]
    prepared = [compiled(case, timed) for case, timed in zip(cases, rows, strict=True)]
    ready.wait()
    for case, timed, programs in zip(cases, rows, prepared, strict=True):
        with device:
            timed.milliseconds = milliseconds(case, timed, programs)
        done.put(timed)


def compiled(case: Case, timed: Timed) -> dict[str, Any]:
    """The programs of a case that compile and run; others, and those that disagree, are noted."""
    programs: dict[str, Any] = {}
    results: dict[str, Any] = {}
    sets = [draw(case, 0)]
    arrays = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in case.specifications]
    for name, function in case.functions.items():
        start = time.perf_counter()
        try:
            program = jax.jit(function).lower(*arrays).compile()
            timed.compile_seconds[name] = time.perf_counter() - start
            results[name] = jax.block_until_ready(program(*sets[0]))
            programs[name] = program
        except (RuntimeError, NotImplementedError) as failure:
            timed.failures[name] = _first_line(failure)
    try:
        results[TORCH] = jnp.from_dlpack(_of_torch(case, sets).result().detach().contiguous())
    except (LeftOut, RuntimeError, NotImplementedError) as reason:
        timed.failures[TORCH] = _first_line(reason)
    if case.kind != "network" and case.specifications[0][1] == np.float32 and OURS in results:
        others = (name for name in results if name != OURS)
        timed.wrong = [name for name in others if not _agree(results[OURS], results[name])]
    return programs


def milliseconds(case: Case, timed: Timed, programs: dict[str, Any]) -> dict[str, float]:
    """The times of these programs and of PyTorch, alternately."""
    sets = [draw(case, seed) for seed in range(max(2, math.ceil(_BYTES_OF_SETS / case.needed)))]
    contenders = {name: _in_turn(program, sets) for name, program in programs.items()}
    if TORCH not in timed.failures:
        contenders[TORCH] = _of_torch(case, sets)
        contenders[TORCH].result()
    return alternate(contenders, _ROUNDS, _SECONDS, _platform())


def draw(case: Case, seed: int) -> tuple[jax.Array, ...]:
    """Arguments of a case: normal numbers, masks with four in five cells, and small weights of networks."""
    key = jax.random.key(seed)
    if case.draw is not None:
        return case.draw(key)
    keys = jax.random.split(key, len(case.specifications))
    arrays: list[jax.Array] = []
    for number, (key, (shape, dtype)) in enumerate(zip(keys, case.specifications, strict=True)):
        if dtype == np.bool_:
            arrays.append(jax.random.bernoulli(key, 0.8, shape))
        else:
            array = jax.random.normal(key, shape, dtype)
            arrays.append(array * array.dtype.type(_WEIGHTS) if case.kind == "network" and number else array)
    return tuple(arrays)


def _in_turn(program: Callable[..., Any], sets: Sequence[tuple[jax.Array, ...]]) -> Run:
    following = itertools.cycle(sets)
    return Run(lambda: program(*next(following)))


def _of_torch(case: Case, sets: Sequence[tuple[jax.Array, ...]]) -> Run:
    """The same in PyTorch, on the same arrays; a gradient that does not need the values is taken without them."""
    if case.pool is None:
        raise LeftOut("not measured in PyTorch")
    platform = _platform()
    pytorch.check_installed(platform)
    if case.kind.endswith("forward"):
        runs = [pytorch.runs(case.pool, platform, x, x)["forward"] for (x,) in sets]
    elif len(case.specifications) == 2:
        runs = [pytorch.runs(case.pool, platform, x, cotangent)["gradient"] for x, cotangent in sets]
    else:
        x = jnp.zeros(case.pool.shape, case.specifications[0][1])
        runs = [pytorch.runs(case.pool, platform, x, cotangent)["pullback"] for (cotangent,) in sets]
    following = itertools.cycle(run.call for run in runs)
    return Run(lambda: next(following)(), runs[0].wait)


@jax.jit
def _agree(one: Any, other: Any) -> jax.Array:
    """Whether two results are near each other; plain JAX divides by the 0 cells of a window that a mask empties."""
    one, other = (jax.tree.leaves(result)[0] for result in (one, other))
    difference = jnp.where(jnp.isnan(other), 0, one - other)
    return jnp.sum(difference**2) <= _TOLERANCE**2 * jnp.nansum(other**2)


def _platform() -> str:
    return jax.devices()[0].platform


def _first_line(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure}".splitlines()[0]
