"""One case: results are compared, programs built, and everybody is timed in turns. Growth, and the cost of a call."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import pools, pytorch
from benchmarks.cases import Case
from benchmarks.pools import Pool
from benchmarks.timing import Run, build, in_turns

PEERS = ("plain", "reshape", "flax", "torch", "copy")
_SECONDS = {"forward": 1.0, "gradient": 1.5}
# Of the largest magnitude of the result.
_TOLERANCES = {"bfloat16": 4e-2, "float16": 5e-3, "float32": 1e-4, "float64": 1e-9}
_CALLS = 100
Row = dict[str, Any]


class WrongResult(Exception):
    """A result differs from the reference, plain JAX in float64."""


def gradient(pool: Pool) -> Callable[..., Any]:
    """The gradient with respect to x for a cotangent, with the forward pass."""
    return lambda x, cotangent: jax.vjp(pool, x)[1](cotangent)[0]


def measure(case: Case, peers: tuple[str, ...], repetitions: int, platform: str, before: Any = None) -> Row:
    """Milliseconds, seconds of first calls, bytes kept and temporaries over those of the input, by who computes it.

    `before` is another version of jaxpool.
    """
    x, cotangent = draw(case)
    contenders = {"jaxpool": pools.ours(case), "before": pools.ours(case, before) if before else None}
    contenders |= {"plain": pools.plain(case), "reshape": pools.reshape(case), "flax": pools.flax(case)}
    contenders["copy"] = lambda x: x + 0
    wanted = {"jaxpool", "before", *peers}
    torch = pytorch.runs(case, platform, x, cotangent) if "torch" in peers and pytorch.is_installed(platform) else {}
    row: Row = {"case": case.name, "pool": case.pool, "kernel": case.kernel, "stride": case.stride}
    row |= {"shape": list(x.shape), "last": case.channels_last, "dtype": case.dtype, "kept": {}, "temporary": {}}
    for what in ("forward", "gradient"):
        runs: dict[str, Run] = {}
        first: dict[str, float] = {}
        for name, pool in contenders.items():
            if pool is None or name not in wanted:
                continue
            derived = gradient(pool) if what == "gradient" and name != "copy" else pool
            arguments = (x, cotangent) if what == "gradient" and name != "copy" else (x,)
            try:
                program, first[name] = build(derived, *arguments)
            except NotImplementedError:
                continue
            runs[name] = Run(functools.partial(program, *arguments))
            if what == "gradient" and name != "copy":
                analysis = program.memory_analysis()
                row["kept"][name] = rounded(_kept(pool, x) / x.nbytes)
                row["temporary"][name] = rounded(analysis.temp_size_in_bytes / x.nbytes) if analysis else None
        if what in torch:
            runs["torch"] = torch[what]
        _compare(case, what, x, cotangent, runs)
        times = in_turns(runs, repetitions, _SECONDS[what], platform)
        row[what] = {name: rounded(1e3 * seconds) for name, seconds in times.items()}
        row[f"first {what}"] = {name: rounded(seconds) for name, seconds in first.items() if name != "copy"}
    return row


def growth(name: str, cases: Mapping[str, Case], repetitions: int, platform: str) -> Row:
    """Milliseconds, and seconds of first calls, of jaxpool alone by what grows."""
    row: Row = {"growth": name}
    for what in ("forward", "gradient"):
        runs: dict[str, Run] = {}
        first: dict[str, float] = {}
        for key, case in cases.items():
            pool, arguments = pools.ours(case), draw(case)
            arguments, derived = (arguments, gradient(pool)) if what == "gradient" else (arguments[:1], pool)
            program, first[key] = build(derived, *arguments)
            runs[key] = Run(functools.partial(program, *arguments))
            jax.block_until_ready(runs[key].call())
        times = in_turns(runs, repetitions, 2 * _SECONDS[what], platform)
        row[what] = {key: rounded(1e3 * seconds) for key, seconds in times.items()}
        row[f"first {what}"] = {key: rounded(seconds) for key, seconds in first.items()}
    return row


DISPATCHED = {
    "max 2×2/2, 1×8×8×4": Case("max", 2, 2, batch=1, channels=4, size=8),
    "avg 2×2/2, 1×8×8×4": Case("avg", 2, 2, batch=1, channels=4, size=8),
    "max 5/1, 10⁶ samples": Case("max", 5, 1, batch=1, channels=1, size=10**6, rank=1, channels_last=False),
}


def dispatch(name: str, case: Case, repetitions: int, platform: str) -> Row:
    """Microseconds of a call without and with `jax.jit`, each of which is waited for, as in interactive use."""
    x, cotangent = draw(case)
    row: Row = {"dispatch": name}
    for how, wrap in (("eager", lambda pool: pool), ("compiled", jax.jit)):
        calls = {"jaxpool": wrap(pools.ours(case)), "plain": wrap(pools.plain(case))}
        runs = {name: Run(functools.partial(_many, functools.partial(call, x))) for name, call in calls.items()}
        if how == "eager" and pytorch.is_installed(platform):
            torch = pytorch.runs(case, platform, x, cotangent)["forward"]
            runs["torch"] = Run(functools.partial(_many, torch.call, torch.wait), lambda result: result)
        for run in runs.values():
            run.wait(run.call())
        times = in_turns(runs, repetitions, 2.0, "cpu")
        row[how] = {name: rounded(1e6 * seconds / _CALLS) for name, seconds in times.items()}
    return row


def draw(case: Case) -> tuple[jax.Array, jax.Array]:
    """The input and a cotangent."""
    random = np.random.default_rng(0)
    x = random.normal(size=case.x.shape)
    # PyTorch's norms do not take magnitudes: they expect what a rectifier returns.
    x = np.abs(x) if case.pool in ("lp", "stochastic") else x
    output = jax.eval_shape(pools.plain(case), case.x)
    return jnp.asarray(x, case.dtype), jnp.asarray(random.normal(size=output.shape), output.dtype)


def rounded(number: float) -> float:
    """Four digits."""
    return float(f"{number:.4g}")


def _compare(case: Case, what: str, x: jax.Array, cotangent: jax.Array, runs: dict[str, Run]) -> None:
    """Call everybody once, and compare the results of jaxpool and of PyTorch with plain JAX in float64."""
    found = {name: run.wait(run.call()) for name, run in runs.items()}
    # The gradient of a maximum of 16 bits, of which many are equal, goes to the first of them in some libraries only.
    if what == "gradient" and (x.dtype.itemsize == 2 or "plain" not in runs):
        return
    with jax.enable_x64(True):
        wide = [np.asarray(array).astype(np.float64) for array in (x, cotangent)]
        plain = pools.plain(case)
        reference = np.asarray(jax.jit(gradient(plain))(*wide) if what == "gradient" else jax.jit(plain)(wide[0]))
    for name in found.keys() & {"jaxpool", "before", "torch"}:
        result = pytorch.to_numpy(found[name]) if name == "torch" else np.asarray(found[name])
        if result.shape != reference.shape:
            raise WrongResult(f"{case.name}: {name} gives shape {result.shape}, not {reference.shape}")
        difference = np.max(np.abs(result.astype(np.float64) - reference)) / np.max(np.abs(reference))
        if not difference <= _TOLERANCES[case.dtype]:
            raise WrongResult(f"{case.name}: {what} of {name} is off by {difference:.1e} of its largest magnitude")


def _kept(pool: Pool, x: jax.Array) -> int:
    """Bytes kept from the forward to the backward pass, with the input if it is among them."""
    backward = jax.eval_shape(lambda x: jax.vjp(pool, x)[1], x)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(backward))


def _many(call: Callable[[], Any], wait: Callable[[Any], Any] = jax.block_until_ready) -> Any:
    result = None
    for _ in range(_CALLS):
        result = wait(call())
    return result
