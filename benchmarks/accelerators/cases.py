"""What is compiled: pools by themselves, 50 to 100 MB at a time, and pools within networks."""

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks import cases, pools
from benchmarks.accelerators.networks import NETWORKS, step, strided_slice

Function = Callable[..., Any]
_SIZES: dict[str, Any] = {"batch": 32, "size": 112}
_FORMS: tuple[dict[str, Any], ...] = ({"dtype": "bfloat16"}, {"channels_last": False})
_WINDOWS = ((2, 2, 0), (3, 2, 1), (3, 1, 1), (7, 1, 3), (31, 1, 15))
_PARTS = ("lp", "gem", "smooth", "mellowmax", "soft", "mixed", "blur", "median", "var")
_LINEAR = ("avg", "sum", "blur", "adaptive avg", "global avg")


@dataclass(frozen=True)
class Compiled:
    """A function of a pool, for a target, and the arguments; the pools by who wrote them, jaxpool's by its version."""

    name: str
    target: str
    arguments: tuple[jax.ShapeDtypeStruct, ...]
    around: Callable[[Function], Function]
    ours: Callable[[Any], Function]
    others: dict[str, Function]
    chips: int = 1

    @property
    def needed(self) -> int:
        """Bytes of arguments and results, which are moved at least."""
        results = jax.tree.leaves(jax.eval_shape(self.around(self.others["plain"]), *self.arguments))
        return sum(array.size * array.dtype.itemsize for array in (*self.arguments, *results))


@functools.cache
def all_cases() -> dict[tuple[str, str], Compiled]:
    """Every case by target and name, those that take longest first."""
    return {(case.target, case.name): case for case in (*_networks(), *_alone(), *_masked(), *_on_chips())}


def _networks() -> Iterator[Compiled]:
    for target, (name, layers, pool, picture, weights) in itertools.product(("tpu", "gpu"), NETWORKS):
        pool = replace(pool, dtype="bfloat16")
        arguments = tuple(jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in (picture, *weights))
        others = {"plain": pools.plain(pool), "slice": strided_slice(pool)}
        window = pool.name.partition(",")[0]
        ours = functools.partial(pools.ours, pool)
        yield Compiled(f"{name}, {window}", target, arguments, step(layers), ours, others)


def _alone() -> Iterator[Compiled]:
    everywhere = [cases.Case(pool, *window) for pool in ("max", "avg") for window in _WINDOWS]
    everywhere += [cases.Case("sum", 3, 2, 1)]
    everywhere += [cases.Case(pool, 3, 2) for pool in (*_PARTS, "learnt gem", "learnt soft")]
    everywhere += [cases.Case(pool, bins=10) for pool in ("adaptive max", "adaptive avg")]
    on_gpus = [cases.Case(pool, 3, 1) for pool in ("lp", "smooth", "soft", "median", "var", "weighted")]
    on_gpus += [cases.Case(pool, 3, 2) for pool in ("weighted", "attention")]
    on_gpus += [cases.Case(pool, bins=28) for pool in ("adaptive max", "adaptive avg")]
    on_gpus += [cases.Case(pool) for pool in ("global max", "global avg")]
    for target, chosen in (("tpu", everywhere), ("gpu", [*everywhere, *on_gpus])):
        for case, form in itertools.product(chosen, _FORMS):
            case = replace(case, **_SIZES, **form)
            # Slicing each of many bins would take minutes to compile.
            plain = pools.reshape(case) if case.bins and case.tile else None
            others = {"plain": plain or pools.plain(case)}
            yield from _passes(target, case, (case.x,), functools.partial(pools.ours, case), others)


def _masked() -> Iterator[Compiled]:
    for pool, form in itertools.product(("max", "avg"), _FORMS):
        case = replace(cases.Case(pool, 3, 2, 1), **_SIZES, **form)
        arguments = (case.x, jax.ShapeDtypeStruct(case.x.shape, jnp.bool_))
        ours = functools.partial(_ours_masked, case)
        yield from _passes("gpu", replace(case, pool=f"masked {pool}"), arguments, ours, {"plain": _plain_masked(case)})


def _on_chips() -> Iterator[Compiled]:
    """An explicit mesh says that no chip needs another, so each takes what is fast on one."""
    for pool, stride in (("max", 1), ("lp", 2), ("smooth", 2), ("soft", 2)):
        case = cases.Case(pool, 3, stride, batch=32, channels=128, dtype="bfloat16")
        ours = functools.partial(pools.ours, case)
        yield from _passes("tpu", case, (case.x,), ours, {"plain": pools.plain(case)}, chips=4)


def _passes(
    target: str,
    case: cases.Case,
    arguments: tuple[jax.ShapeDtypeStruct, ...],
    ours: Callable[[Any], Function],
    others: dict[str, Function],
    chips: int = 1,
) -> Iterator[Compiled]:
    on = f" on {chips} chips" if chips > 1 else ""
    yield Compiled(f"{case.name}{on}, forward", target, arguments, lambda pool: pool, ours, others, chips)
    output = jax.eval_shape(others["plain"], *arguments)
    cotangent = jax.ShapeDtypeStruct(output.shape, output.dtype)
    if case.pool.removeprefix("masked ") in _LINEAR:
        # The gradient does not depend on x.
        around, arguments = functools.partial(_gradient_at_zero, arguments[0]), (*arguments[1:], cotangent)
    else:
        around, arguments = _gradient, (*arguments, cotangent)
    yield Compiled(f"{case.name}{on}, gradient", target, arguments, around, ours, others, chips)


def _gradient_at_zero(x: jax.ShapeDtypeStruct, pool: Function) -> Function:
    return lambda *others: _gradient(pool)(jnp.zeros(x.shape, x.dtype), *others)


def _gradient(pool: Function) -> Function:
    """With respect to x, for a mask, if there is one, and a cotangent."""
    return lambda x, *others: jax.vjp(lambda x: pool(x, *others[:-1]), x)[1](others[-1])[0]


def _ours_masked(case: cases.Case, library: Any) -> Function:
    pool = getattr(library, f"{case.pool}_pool")
    return lambda x, mask: pool(x, case.kernel, case.stride, case.padding, axis=case.axes, where=mask)


def _plain_masked(case: cases.Case) -> Function:
    kernel, stride = ([n if axis in case.axes else 1 for axis in range(4)] for n in (case.kernel, case.stride))
    padding = [(case.padding, case.padding) if axis in case.axes else (0, 0) for axis in range(4)]

    def reduced(x: jax.Array, operation: Any, identity: float) -> jax.Array:
        return lax.reduce_window(x, x.dtype.type(identity), operation, kernel, stride, padding)

    def largest(x: jax.Array, mask: jax.Array) -> jax.Array:
        return reduced(jnp.where(mask, x, -np.inf), lax.max, -np.inf)

    def mean(x: jax.Array, mask: jax.Array) -> jax.Array:
        return reduced(jnp.where(mask, x, 0), lax.add, 0) / reduced(mask.astype(x.dtype), lax.add, 0)

    return largest if case.pool == "max" else mean
