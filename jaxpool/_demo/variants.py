"""The table of variants: a row for each pooling function of jaxpool, and all that is known about it here.

A row holds the call of jaxpool itself, the independent evaluation in float64, and the same by plain JAX where that
exists. Timing, checking, table and figure go through the rows and know no variant by name: a new one is one more row.
The numbers p and β are chosen so that each variant looks different from its neighbours.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxpool
from jaxpool._arguments import Rule
from jaxpool._demo import exact, plain
from jaxpool._demo.exact import Evaluation, fractional, sliding, uneven, whole, windowed
from jaxpool._demo.means import MEANS
from jaxpool._demo.request import Size
from jaxpool._demo.variant import Outputs as Outputs
from jaxpool._demo.variant import Variant as Variant

NORM_TYPE = 4.0
BETA = 20.0
QUANTILE = 0.9


def _bar(shape: Sequence[int]) -> np.ndarray:
    """NaN where a portrait has its eyes and 0 elsewhere: adding it loses these cells and hides no derivative."""
    height, width = shape[:2]
    bar = np.zeros((height, width, 1), np.float32)
    bar[3 * height // 10 : 3 * height // 8, 3 * width // 7 : 4 * width // 7] = np.nan
    return bar


def _avg_pool_where(x: jax.Array, size: Size, rule: Rule) -> jax.Array:
    x = x + _bar(x.shape)
    return jaxpool.avg_pool(x, size.kernel, size.stride, axis=(0, 1), where=~jnp.isnan(x), rule=rule)


def _exact_avg_pool_where(picture: np.ndarray, cotangent: np.ndarray, size: Size) -> Evaluation:
    return windowed(sliding, exact.mean_of_present)(picture + _bar(picture.shape), cotangent, size)


def _bins(x: jax.Array, size: Size) -> tuple[int, int]:
    return size.bins(x.shape[0]), size.bins(x.shape[1])


def _max_unpool(x: jax.Array, size: Size, rule: Rule) -> jax.Array:
    values, indices = jaxpool.max_pool_with_indices(x, size.kernel, size.stride, axis=(0, 1), rule=rule)
    return jaxpool.max_unpool(values, indices, x.shape[:2], axis=(0, 1))


def _fractional(x: jax.Array, size: Size) -> dict[str, Any]:
    """The windows of one sample along both axes, for all channels alike."""
    kernels = [min(size.kernel, length - 1) for length in x.shape[:2]]
    samples = np.full((x.shape[2], 2), 0.5, np.float32)
    return {"kernel_size": kernels, "output_size": _bins(x, size), "samples": samples, "axis": (0, 1)}


def _roi_align(x: jax.Array, size: Size, rule: Rule) -> jax.Array:
    corners = zip(*map(exact.middle, x.shape[:2], _bins(x, size)), strict=True)
    box = jnp.array([[corner for low_or_high in corners for corner in low_or_high]])
    return jaxpool.roi_align(x, box, _bins(x, size), axis=(0, 1))[0]


def _roi_pool(x: jax.Array, size: Size, rule: Rule) -> jax.Array:
    corners = jnp.array([[0.0, 0.0, x.shape[0] - 1, x.shape[1] - 1]])
    return jaxpool.roi_pool(x, corners, _bins(x, size), axis=(0, 1))[0]


VARIANTS: tuple[Variant, ...] = (
    Variant(
        "max_pool",
        lambda x, size, rule: jaxpool.max_pool(x, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.largest),
        plain.max_pool,
    ),
    Variant(
        "min_pool",
        lambda x, size, rule: jaxpool.min_pool(x, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.smallest),
        plain.min_pool,
    ),
    Variant(
        "max_pool_with_indices",
        lambda x, size, rule: jaxpool.max_pool_with_indices(x, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.largest, indices=True),
        plain.max_pool_with_indices,
        plain_gradient=False,
        detail="the cells it names",
    ),
    Variant(
        "max_unpool",
        _max_unpool,
        exact.put_back(sliding),
        plain.max_unpool,
        detail="the winners put back",
        rules=("jvp",),  # it takes no rule: its derivatives are JAX's own
    ),
    Variant(
        "sum_pool",
        lambda x, size, rule: jaxpool.sum_pool(x, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.total),
        plain.sum_pool,
    ),
    Variant(
        "avg_pool",
        lambda x, size, rule: jaxpool.avg_pool(x, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.mean),
        plain.avg_pool,
    ),
    Variant(
        "avg_pool",
        _avg_pool_where,
        _exact_avg_pool_where,
        lambda x, size: plain.avg_pool_of_present(x + _bar(x.shape), size),
        detail="without a bar of NaN",
        keyword="where=",
    ),
    Variant(
        "lp_pool",
        lambda x, size, rule: jaxpool.lp_pool(x, NORM_TYPE, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.norm(NORM_TYPE)),
        lambda x, size: plain.lp_pool(x, NORM_TYPE, size),
        detail=f"p = {NORM_TYPE:g}",
    ),
    Variant(
        "smooth_max_pool",
        lambda x, size, rule: jaxpool.smooth_max_pool(x, BETA, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.smooth_largest(BETA)),
        lambda x, size: plain.smooth_max_pool(x, BETA, size),
        detail=f"β = {BETA:g}",
    ),
    Variant(
        "blur_pool",
        lambda x, size, rule: jaxpool.blur_pool(x, size.kernel, size.stride, 0, axis=(0, 1), rule=rule),
        windowed(sliding, exact.binomial),
        plain.blur_pool,
        detail="binomial weights",
    ),
    Variant(
        "max_blur_pool",
        lambda x, size, rule: jaxpool.max_blur_pool(
            x, 2, size.stride, 0, blur_size=size.kernel, axis=(0, 1), rule=rule
        ),
        exact.after_largest(windowed(sliding, exact.binomial)),
        plain.max_blur_pool,
        detail="maxima of 2×2, blurred",
    ),
    Variant(
        "median_pool",
        lambda x, size, rule: jaxpool.median_pool(x, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.quantile(0.5)),
        lambda x, size: plain.quantile_pool(x, 0.5, size),
    ),
    Variant(
        "quantile_pool",
        lambda x, size, rule: jaxpool.quantile_pool(x, QUANTILE, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.quantile(QUANTILE)),
        lambda x, size: plain.quantile_pool(x, QUANTILE, size),
        detail=f"q = {QUANTILE:g}",
    ),
    Variant(
        "adaptive_max_pool",
        lambda x, size, rule: jaxpool.adaptive_max_pool(x, _bins(x, size), axis=(0, 1), rule=rule),
        windowed(uneven, exact.largest),
        plain.adaptive_max_pool,
        detail="uneven bins",
    ),
    Variant(
        "adaptive_max_pool_with_indices",
        lambda x, size, rule: jaxpool.adaptive_max_pool_with_indices(x, _bins(x, size), axis=(0, 1), rule=rule),
        windowed(uneven, exact.largest, indices=True),
        plain.adaptive_max_pool_with_indices,
    ),
    Variant(
        "adaptive_avg_pool",
        lambda x, size, rule: jaxpool.adaptive_avg_pool(x, _bins(x, size), axis=(0, 1), rule=rule),
        windowed(uneven, exact.mean),
        plain.adaptive_avg_pool,
        detail="uneven bins",
    ),
    Variant(
        "fractional_max_pool",
        lambda x, size, rule: jaxpool.fractional_max_pool(x, **_fractional(x, size), rule=rule),
        windowed(fractional, exact.largest),
        detail="u = 1/2",
    ),
    Variant(
        "fractional_max_pool_with_indices",
        lambda x, size, rule: jaxpool.fractional_max_pool_with_indices(x, **_fractional(x, size), rule=rule),
        windowed(fractional, exact.largest, indices=True),
        detail="u = 1/2",
    ),
    Variant(
        "roi_align",
        _roi_align,
        exact.interpolated,
        detail="the middle half",
        rules=("jvp",),  # it takes no rule: its derivatives are JAX's own
    ),
    Variant(
        "roi_pool",
        _roi_pool,
        windowed(uneven, exact.largest),
        detail="one box, all of it",
        rules=("jvp",),  # it takes no rule: its derivatives are JAX's own
    ),
    Variant(
        "global_max_pool",
        lambda x, size, rule: jaxpool.global_max_pool(x, axis=(0, 1), rule=rule),
        windowed(whole, exact.largest),
        lambda x, size: x.max((0, 1), keepdims=True),
        detail="right: all of it, rescaled",
    ),
    Variant(
        "global_avg_pool",
        lambda x, size, rule: jaxpool.global_avg_pool(x, axis=(0, 1), rule=rule),
        windowed(whole, exact.mean),
        lambda x, size: x.mean((0, 1), keepdims=True),
        detail="right: all of it, rescaled",
    ),
    *MEANS,
)
