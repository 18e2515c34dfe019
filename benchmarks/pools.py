"""The call of each case in the libraries that run on JAX: jaxpool, plain JAX and Flax.

Plain JAX is what a user writes without a library: `lax.reduce_window` with its own derivatives for windows, a slice per
bin for bins, and `jnp.max` and `jnp.mean` for whole axes; and `reshape` where windows or bins tile the array, which
gives the cells of each tile axes of their own. If a library has no such pool, its function raises `LeftOut`.
"""

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxpool
from benchmarks import learnt, zoo
from benchmarks.cases import Case

Pool = Callable[[jax.Array], jax.Array]
BETA = 2.0


class LeftOut(Exception):
    """A library has no such pool; the text says why."""


def ours(case: Case) -> Pool:
    """The call of jaxpool."""
    window: dict[str, Any] = {
        "kernel_size": case.kernel,
        "stride": case.stride,
        "padding": case.padding,
        "dilation": case.dilation,
        "axis": case.axes,
    }
    pools: dict[str, Pool] = {
        "max": lambda x: jaxpool.max_pool(x, **window),
        "min": lambda x: jaxpool.min_pool(x, **window),
        "sum": lambda x: jaxpool.sum_pool(x, **window),
        "avg": lambda x: jaxpool.avg_pool(x, **window),
        "lp": lambda x: jaxpool.lp_pool(x, case.number, **window),
        # Plain JAX pads with cells that do not count.
        "smooth": lambda x: jaxpool.smooth_max_pool(x, BETA, count_include_pad=False, **window),
        "adaptive max": lambda x: jaxpool.adaptive_max_pool(x, case.bins, axis=case.axes),
        "adaptive avg": lambda x: jaxpool.adaptive_avg_pool(x, case.bins, axis=case.axes),
        "global max": lambda x: jaxpool.global_max_pool(x, axis=case.axes),
        "global avg": lambda x: jaxpool.global_avg_pool(x, axis=case.axes),
    }
    return (pools | zoo.ours(case) | learnt.ours(case))[case.group]


def plain(case: Case) -> Pool:
    """The same in plain JAX."""
    pools: dict[str, Pool] = {
        "adaptive max": lambda x: _reduce_bins(x, case, jnp.max),
        "adaptive avg": lambda x: _reduce_bins(x, case, jnp.mean),
        "global max": lambda x: jnp.max(x, case.axes, keepdims=True),
        "global avg": lambda x: jnp.mean(x, case.axes, keepdims=True),
    }
    windows = _formulas(
        case,
        lambda x: _reduce_windows(x, case, lax.add, 0),
        lambda x: _reduce_windows(x, case, lax.max, -np.inf),
        lambda x: _reduce_windows(x, case, lax.min, np.inf),
    )
    return (pools | windows)[case.group]


def reshape(case: Case) -> Pool:
    """The same in plain JAX where windows or bins tile the array, with axes of their own for the cells of a tile."""
    if case.tile is None:
        raise LeftOut("windows do not tile the array")
    if case.group in zoo.OF_SLICES:
        raise LeftOut(f"{case.group} is no reduction of a tile")
    folded: list[int] = []
    cells: list[int] = []
    for axis, size in enumerate(case.shape):
        folded.append(size // case.tile if axis in case.axes else size)
        if axis in case.axes:
            cells.append(len(folded))
            folded.append(case.tile)

    def over_tiles(reduce: Callable[..., jax.Array]) -> Pool:
        return lambda x: reduce(x.reshape(folded), tuple(cells))

    pools = _formulas(case, *map(over_tiles, (jnp.sum, jnp.max, jnp.min)))
    pools |= {"avg": over_tiles(jnp.mean), "adaptive max": pools["max"], "adaptive avg": over_tiles(jnp.mean)}
    return pools[case.group]


def flax(case: Case) -> Pool:
    """The same in Flax, whose pools need channels last and have no dilation."""
    if importlib.util.find_spec("flax") is None:
        raise LeftOut("Flax is not installed")
    if case.group not in ("max", "min", "avg"):
        raise LeftOut(f"Flax has no pool for {case.group}")
    if not case.channels_last:
        raise LeftOut("Flax pools channels last only")
    if case.dilation > 1:
        raise LeftOut("Flax has no dilation")
    from flax.linen import pooling

    pool = {"max": pooling.max_pool, "min": pooling.min_pool, "avg": pooling.avg_pool}[case.group]
    kernel, stride = (case.kernel,) * case.rank, (case.stride,) * case.rank
    padding = [(case.padding, case.padding)] * case.rank
    return lambda x: pool(x, kernel, stride, padding)


JAX_LIBRARIES: dict[str, Callable[[Case], Pool]] = {"jaxpool": ours, "plain": plain, "reshape": reshape, "flax": flax}


def _formulas(case: Case, total: Pool, largest: Pool, smallest: Pool) -> dict[str, Pool]:
    """The pools over windows in terms of sums, maxima and minima, by group."""
    return {
        "max": largest,
        "min": smallest,
        "sum": total,
        "avg": lambda x: total(x) / case.kernel**case.rank,
        "lp": lambda x: total(jnp.abs(x) ** case.number) ** (1 / case.number),
        "smooth": lambda x: jnp.log(total(jnp.exp(BETA * x))) / BETA,
        **zoo.plain(case, total, largest),
        **learnt.plain(case, total),
    }


def _reduce_windows(x: jax.Array, case: Case, operation: Callable[..., Any], identity: float) -> jax.Array:
    kernel, stride, dilation = (_over_axes(case, size, 1) for size in (case.kernel, case.stride, case.dilation))
    padding = [(low, low) for low in _over_axes(case, case.padding, 0)]
    # The identity is a NumPy scalar: with an array the reduction would be a generic one, without a derivative.
    identity_of_dtype = x.dtype.type(identity)
    return lax.reduce_window(x, identity_of_dtype, operation, kernel, stride, padding, window_dilation=dilation)


def _over_axes(case: Case, size: int, elsewhere: int) -> Sequence[int]:
    return [size if axis in case.axes else elsewhere for axis in range(len(case.shape))]


def _reduce_bins(x: jax.Array, case: Case, reduce: Callable[..., jax.Array]) -> jax.Array:
    for axis in case.axes:
        ends = [(i * case.size // case.bins, -(-(i + 1) * case.size // case.bins)) for i in range(case.bins)]
        slices = [lax.slice_in_dim(x, start, end, axis=axis) for start, end in ends]
        x = jnp.concatenate([reduce(part, axis, keepdims=True) for part in slices], axis)
    return x
