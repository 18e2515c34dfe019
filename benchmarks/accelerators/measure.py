"""Compile cases in several processes, and count what their programs cost."""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from importlib import metadata
from typing import Any

import jaxpool
from benchmarks import against
from benchmarks.accelerators.cases import all_cases
from benchmarks.accelerators.compilers import compile_for, prepare
from benchmarks.accelerators.costs import costs
from benchmarks.report import Row

COMPILERS = ("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "jax-cuda12-pjrt")
# The other version of jaxpool in a process that compiles, if there is one.
_before: list[Any] = []


def measure(
    keys: Sequence[tuple[str, str]], peers: Sequence[str], processes: int, revision: str | None = None
) -> Iterator[Row]:
    """The figures of these cases, for jaxpool, these peers and another version."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_prepare, initargs=(revision,)) as executor:
        yield from executor.map(_measured, keys, [peers] * len(keys))


def versions() -> dict[str, str]:
    """The package and the installed compilers."""
    found = {distribution.name: distribution.version for distribution in metadata.distributions()}
    return {"jaxpool": jaxpool.__version__} | {name: found[name] for name in COMPILERS if name in found}


def _prepare(revision: str | None) -> None:
    prepare()
    if revision is not None:
        _before.append(against.load(revision))


def _measured(key: tuple[str, str], peers: Sequence[str]) -> Row:
    case = all_cases()[key]
    row: Row = {"target": case.target, "case": case.name, "needed": case.needed}
    functions = {"jaxpool": (case.ours(jaxpool), jaxpool)}
    if _before:
        functions["before"] = (case.ours(_before[0]), _before[0])
    functions |= {peer: (case.others[peer], jaxpool) for peer in peers if peer in case.others}
    for name, (pool, library) in functions.items():
        program = compile_for(case.target, case.around(pool), case.arguments, case.chips, library)
        row[name] = asdict(costs(program.text, case.target)) | {"temporary": program.temporary}
    return row
