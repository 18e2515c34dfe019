"""Adaptive pools on several grids, concatenated along one axis: the same number of outputs for any array size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jaxpool._average import avg_pool
from jaxpool._checks import Rule, check_array, check_mask, check_rule
from jaxpool._extremes import max_pool
from jaxpool._kernels import Bins
from jaxpool._sharding import evaluate_sharded
from jaxpool._sizes import Axes, OutputSizes
from jaxpool._window import make_bins
from jaxpool._windows.operations import accumulation_dtype

Kind = Literal["max", "avg"] | Callable[..., jax.Array]


def spatial_pyramid_pool(
    x: ArrayLike,
    levels: Sequence[OutputSizes],
    *,
    kind: Kind = "max",
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Spatial pyramid pooling: adaptive pools at several grids of bins, flattened and concatenated.

    Formula: y = the bins of `adaptive_max_pool(x, level)`, or `adaptive_avg_pool`, for every level in turn, each in
    row-major order. The output has one size for every size of x.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        levels: The bins of each level, given like the `output_size` of `adaptive_max_pool`: (4, 4), say. A single int
            applies to every axis in `axis`, as in levels=(1, 2, 4), axis="NHWC".
        kind: "max" for the largest cell of every bin, "avg" for the average. Or any pool, as a function of x and
            `kernel_size`, `axis`, `where` and `rule`: jaxpool.median_pool, or partial(jaxpool.lp_pool, norm_type=2).
        axis: The pooled axes, in the order of each level; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where, rule: As in `max_pool`.

    Returns:
        Array of x's dtype (with "avg", integers and bool: float32). The first of the pooled axes, in x's order, has all
        bins of all levels: Σ over levels of Π over pooled axes of the bins. The other pooled axes are dropped; axes
        that are not pooled are unchanged. Sums are in float32 or wider and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, there is no level, or `kind` or `rule` is unknown.

    Derivative:
        That of the adaptive pools, summed over the levels, in float32 for 16-bit floats: for "max", ties go to the
        first winner in row-major order and NaN wins; for "avg", a cell has a share of every bin that holds it. Zeros
        are ordinary. A bin that `where` empties is 0 with derivative 0.

    Example:
        >>> jaxpool.spatial_pyramid_pool(jnp.arange(16.0).reshape(1, 4, 4), (1, 2), axis=(1, 2))
        Array([[15.,  5.,  7., 13., 15.]], dtype=float32)

    Source: He, Zhang, Ren and Sun, "Spatial pyramid pooling in deep convolutional networks for visual recognition",
    ECCV 2014.
    """
    function = "spatial_pyramid_pool"
    array = check_array(function, x)
    if not callable(kind) and (not isinstance(kind, str) or kind not in ("max", "avg")):
        raise ValueError(f"{function}: kind {kind!r} is unknown; use 'max' or 'avg', or a pool such as lp_pool")
    if not isinstance(levels, Sequence) or isinstance(levels, str):
        raise TypeError(
            f"{function}: levels must be a sequence of output sizes, got {levels!r}; write levels=(1, 2, 4)"
        )
    if not levels:
        raise ValueError(f"{function}: levels is empty; give at least one output size, as in levels=(1, 2, 4)")
    windows = [
        make_bins(function, array.shape, level, axis, f"levels[{number}]") for number, level in enumerate(levels)
    ]
    pooled = windows[0].pooled_axes
    for number, window in enumerate(windows):
        if window.pooled_axes != pooled:
            raise ValueError(
                f"{function}: levels[{number}] {levels[number]} pools axes {window.pooled_axes} but levels[0] "
                f"{levels[0]} pools {pooled}; give every level the same number of entries, or name the axes"
            )
    mask = check_mask(function, where, array.shape, pooled)
    check_rule(function, rule)
    pool = {"max": max_pool, "avg": avg_pool}[kind] if isinstance(kind, str) else kind
    # In float32 from here on, so that a cell's cotangents from all levels are added before they are rounded.
    x = array.astype(accumulation_dtype(array.dtype))
    outputs = [tuple(axis.output for axis in window.axes) for window in windows]
    pools = [pool(x, kernel_size=Bins(each), axis=pooled, where=mask, rule=rule) for each in outputs]
    if not all(isinstance(each, jax.Array) for each in pools):
        raise TypeError(f"{function}: kind returned {type(pools[0]).__name__}; give a pool that returns an array")
    for each, window in zip(pools, windows, strict=True):
        if each.shape != (shape := window.output_shape(x.shape)):
            raise TypeError(
                f"{function}: kind returned shape {each.shape}, not {shape}; give a pool of one value per bin"
            )
    output = list(x.shape)
    output[pooled[0]] = sum(window.outputs for window in windows)
    for axis in pooled[1:]:
        output[axis] = 1
    pyramid = lax.squeeze(evaluate_sharded(partial(_joined, axes=pooled), pools, pooled, output), pooled[1:])
    return pyramid.astype(array.dtype) if jnp.issubdtype(array.dtype, jnp.inexact) else pyramid


@partial(jax.jit, static_argnames="axes")
def _joined(*levels: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """The bins of all levels along the first of these axes; the others keep size 1."""
    first, *others = axes
    flat = []
    for level in levels:
        together = jnp.moveaxis(level, others, range(first + 1, first + 1 + len(others)))
        flat.append(lax.expand_dims(lax.collapse(together, first, first + 1 + len(others)), others))
    return lax.concatenate(flat, first)
