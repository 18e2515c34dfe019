"""Pools by themselves: fixed windows, with and without a mask, bins and whole axes, in both layouts and dtypes.

Arrays have tens of pictures and 50 to 100 MB, more than any cache holds.
"""

import itertools
from collections.abc import Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxpool
from benchmarks import cases, pools
from benchmarks.accelerators.case import OURS, PLAIN, Case, Function, Pool, gradient, gradient_of_linear, result
from benchmarks.accelerators.programs import Specification

# Axes; kernel, stride, padding, dilation.
WINDOWS = (
    (2, 2, 2, 0, 1),
    (2, 3, 2, 1, 1),
    (2, 3, 1, 1, 1),
    (2, 3, 1, 2, 2),
    (2, 5, 1, 2, 1),
    (2, 7, 1, 3, 1),
    (2, 7, 2, 3, 1),
    (2, 7, 7, 0, 1),
    (2, 31, 1, 15, 1),
    (1, 3, 2, 1, 1),
    (3, 2, 2, 0, 1),
    (3, 3, 2, 1, 1),
)
_FEWER = ((2, 3, 2, 1, 1), (2, 7, 2, 3, 1), (2, 31, 1, 15, 1), (3, 3, 2, 1, 1))
_MASKED = ((2, 2, 2, 0, 1), (2, 3, 2, 1, 1), (2, 3, 1, 1, 1))
# Without padding, which the parts in plain JAX do not support.
_OTHERS = ((2, 2, 2, 0, 1), (2, 3, 2, 0, 1), (2, 3, 1, 0, 1))
_TPU = ((2, 2, 2, 0, 1), (2, 3, 2, 1, 1), (2, 3, 1, 1, 1), (2, 7, 1, 3, 1), (2, 31, 1, 15, 1))
# Batch, channels and the size of an axis, by the number of axes.
_SIZES = {1: (32, 64, 8192), 2: (32, 64, 112), 3: (16, 32, 48)}
_BINS = (28, 10)
_DTYPES = ("float32", "bfloat16")
_IDENTITIES = {"max": -np.inf, "min": np.inf, "sum": 0, "avg": 0}
_LEARNT = ("learnt gem", "learnt soft")
_LINEAR = ("sum", "avg", "adaptive avg", "global avg", "blur")


def alone() -> Iterator[Case]:
    """All cases, for an H100 first."""
    for group, windows in {"max": WINDOWS, "min": _FEWER, "sum": _FEWER, "avg": WINDOWS}.items():
        for window in windows:
            yield from _fixed("gpu", group, window)
    for group in _IDENTITIES:
        for window in _MASKED:
            yield from _masked(group, window)
    for group in ("lp", "gem", "smooth", "mellowmax", "soft", "mixed", "blur", "median"):
        for window in _OTHERS[1:] if group == "median" else _OTHERS:
            yield from _fixed("gpu", group, window)
    for group in ("var", "std", "weighted", "attention"):
        for window in (*_OTHERS, (2, 7, 1, 0, 1)):
            yield from _fixed("gpu", group, window)
    for group in ("adaptive max", "adaptive avg"):
        for bins in _BINS:
            yield from _binned("gpu", group, bins)
    for group in ("global max", "global avg"):
        yield from _both("gpu", group, lambda last, group=group: _case(group, 2, last))
    for group in ("max", "min", "sum", "avg"):
        for window in _TPU if group in ("max", "avg") else _TPU[1:2]:
            yield from _fixed("tpu", group, window, with_gradient=group in _LINEAR)
    for group in ("adaptive max", "adaptive avg"):
        yield from _binned("tpu", group, _BINS[1], with_gradient=group in _LINEAR)
    for group in ("lp", "gem", "smooth", "mellowmax", "soft", "mixed", "blur", "median", "var", *_LEARNT):
        yield from _fixed("tpu", group, _OTHERS[1])


def _case(group: str, rank: int, channels_last: bool, *window: int, bins: int = 0) -> cases.Case:
    batch, channels, size = _SIZES[rank]
    number = 2 if group == "lp" else 0
    return cases.Case(group, batch, channels, size, channels_last, rank, *window, bins=bins, number=number)


def _fixed(target: str, group: str, window: tuple[int, ...], with_gradient: bool = True) -> Iterator[Case]:
    rank, *sizes = window
    yield from _both(target, group, lambda last: _case(group, rank, last, *sizes), with_gradient)


def _binned(target: str, group: str, bins: int, with_gradient: bool = True) -> Iterator[Case]:
    yield from _both(target, group, lambda last: _case(group, 2, last, bins=bins), with_gradient)


def _both(target: str, group: str, make: Function, with_gradient: bool = True) -> Iterator[Case]:
    """Forward and gradient in both layouts and dtypes."""
    for channels_last in (True, False):
        case = make(channels_last)
        even = case.bins and not case.size % case.bins
        functions = {OURS: pools.ours(case), PLAIN: _plain_even(case) if even else pools.plain(case)}
        for dtype in _DTYPES:
            x = (case.shape, jnp.dtype(dtype))
            yield from _passes(target, group, case, functions, (x,), dtype, with_gradient)


def _masked(group: str, window: tuple[int, ...]) -> Iterator[Case]:
    rank, *sizes = window
    for channels_last in (True, False):
        case = _case(group, rank, channels_last, *sizes)
        x, mask = (case.shape, jnp.dtype("float32")), (case.shape, jnp.dtype(bool))
        functions = {OURS: _ours_masked(case), PLAIN: _plain_masked(case)}
        yield from _passes("gpu", f"masked {group}", case, functions, (x, mask), "float32", True)


def _passes(
    target: str,
    group: str,
    case: cases.Case,
    functions: Mapping[str, Pool],
    arguments: tuple[Specification, ...],
    dtype: str,
    with_gradient: bool,
) -> Iterator[Case]:
    """The forward pass and the gradient of one pool."""
    window = _words(case)
    kernel = (case.kernel,) * case.rank if case.kernel else ()
    if case.bins and not case.size % case.bins:
        kernel = (case.size // case.bins,) * case.rank
    tail = f"{dtype}, {'×'.join(map(str, case.shape))}, {case.layout}"
    pool = None if group.startswith("masked") else case
    yield Case(f"{group} {window} forward, {tail}", target, f"{group} forward", arguments, functions, kernel, pool)
    if not with_gradient:
        return
    cotangent = result(functions[PLAIN], arguments)
    if group.removeprefix("masked ") in _LINEAR:
        pulled = {name: gradient_of_linear(pool, arguments[0]) for name, pool in functions.items()}
        arguments = (*arguments[1:], cotangent)
    else:
        pulled = {name: gradient(pool) for name, pool in functions.items()}
        arguments = (*arguments, cotangent)
    yield Case(f"{group} {window} gradient, {tail}", target, f"{group} gradient", arguments, pulled, kernel, pool)


def _words(case: cases.Case) -> str:
    if case.bins:
        return "×".join([str(case.bins)] * case.rank) + " bins"
    if not case.kernel:
        return "whole"
    padding = f" padded {case.padding}" if case.padding else ""
    dilation = f" dilated {case.dilation}" if case.dilation > 1 else ""
    return f"{'×'.join([str(case.kernel)] * case.rank)}/{case.stride}{padding}{dilation}"


def _plain_even(case: cases.Case) -> Pool:
    """Bins of one size become axes of a reshaped array; slicing each bin would take minutes to compile."""
    reduce = jnp.max if case.group == "adaptive max" else jnp.mean
    sizes = [(case.bins, case.size // case.bins) if axis in case.axes else (case.shape[axis],) for axis in range(4)]
    shape = list(itertools.chain.from_iterable(sizes))
    first = case.axes[0] + 1
    return lambda x: reduce(x.reshape(shape), (first, first + 2))


def _ours_masked(case: cases.Case) -> Pool:
    pool = getattr(jaxpool, f"{case.group}_pool")
    return lambda x, mask: pool(x, case.kernel, case.stride, case.padding, axis=case.axes, where=mask)


def _plain_masked(case: cases.Case) -> Pool:
    identity = np.float32(_IDENTITIES[case.group])
    operation = {"max": lax.max, "min": lax.min}.get(case.group, lax.add)
    kernel, stride = (
        [n if axis in case.axes else 1 for axis in range(case.rank + 2)] for n in (case.kernel, case.stride)
    )
    padding = [(case.padding, case.padding) if axis in case.axes else (0, 0) for axis in range(case.rank + 2)]

    def pooled(x: jax.Array, mask: jax.Array) -> jax.Array:
        values = lax.reduce_window(jnp.where(mask, x, identity), identity, operation, kernel, stride, padding)
        if case.group != "avg":
            return values
        return values / lax.reduce_window(mask.astype(x.dtype), identity, lax.add, kernel, stride, padding)

    return pooled
