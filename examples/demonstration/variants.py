"""The table of variants: a row for each pooling function of jaxpool, with everything the demonstration needs.

A row holds the call of jaxpool itself, the independent evaluation in float64, and the same in plain JAX where that
exists. Timing, checking, table and figure go through the rows and know no variant by name: a new one is one more row,
and a rule in `window` if none there fits. The numbers are chosen so that no variant looks like its neighbours.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxpool
from examples.demonstration import exact, operators, plain, window
from examples.demonstration.exact import Bins, windowed
from examples.demonstration.size import Mistake, Rule, Size
from examples.demonstration.variant import Outputs, Variant


def _grid(x: jax.Array, size: Size) -> tuple[int, int]:
    return size.bins(x.shape[0]), size.bins(x.shape[1])


def _fractional(x: jax.Array, size: Size) -> Mapping[str, Any]:
    kernels = [min(size.kernel, length - 1) for length in x.shape[:2]]
    # One sample along both axes, the same for all channels.
    samples = np.full((x.shape[2], 2), 0.5, np.float32)
    return {"kernel_size": kernels, "output_size": _grid(x, size), "samples": samples}


# Where windows are, as computed in NumPy, and as arguments of jaxpool for a picture.
ARGUMENTS: Mapping[Bins, Callable[[jax.Array, Size], Mapping[str, Any]]] = {
    exact.sliding: lambda x, size: {"kernel_size": size.kernel, "stride": size.stride},
    exact.uneven: lambda x, size: {"output_size": _grid(x, size)},
    exact.fractional: _fractional,
    exact.whole: lambda x, size: {},
}


def _row(
    function: str,
    of_one: window.CellRule,
    contender: Callable[..., Outputs] | None = None,
    bins: Bins = exact.sliding,
    *,
    tiled: str = "",
    detail: str = "",
    options: Mapping[str, Any] | None = None,
    **numbers: float,
) -> Variant:
    """A row for a function that pools each window separately; its `numbers`, by symbol, are passed to all parties."""
    given = tuple(numbers.values())

    def pool(x: jax.Array, size: Size, rule: Rule) -> Outputs:
        arguments = {**ARGUMENTS[bins](x, size), **(options or {})}
        return getattr(jaxpool, function)(x, *given, **arguments, axis=(0, 1), rule=rule)

    return Variant(
        function,
        pool,
        windowed(bins, of_one, *given, indices=function.endswith("with_indices")),
        contender and (lambda x, size: contender(x, size, *given)),
        tiled,
        # JAX cannot differentiate a reduction of pairs.
        contender not in (plain.largest_with_indices, plain.smallest_with_indices),
        detail or ", ".join(f"{symbol} = {number:g}" for symbol, number in numbers.items()),
    )


def _with_bar(x: Any) -> Any:
    """The picture with NaN where a portrait has its eyes, by addition, which does not hide derivatives."""
    height, width = x.shape[:2]
    bar = np.zeros((height, width, 1), np.float32)
    bar[7 * height // 24 : 11 * height // 24, width // 4 : 3 * width // 4] = np.nan
    return x + bar


def _avg_pool_where(x: jax.Array, size: Size, rule: Rule) -> jax.Array:
    x = _with_bar(x)
    return jaxpool.avg_pool(x, size.kernel, size.stride, axis=(0, 1), where=~jnp.isnan(x), rule=rule)


def _max_unpool(x: jax.Array, size: Size, rule: Rule) -> jax.Array:
    values, indices = jaxpool.max_pool_with_indices(x, size.kernel, size.stride, axis=(0, 1), rule=rule)
    return jaxpool.max_unpool(values, indices, x.shape[:2], axis=(0, 1))


def _second(function: str, x: jax.Array, size: Size, rule: Rule) -> Outputs:
    outputs = getattr(jaxpool, function)(x, 2, size.kernel, size.stride, axis=(0, 1), rule=rule)
    return jax.tree.map(lambda each: each[..., 1], outputs)


def _roi_align(x: jax.Array, size: Size, rule: Rule) -> jax.Array:
    corners = map(exact.middle, x.shape[:2], _grid(x, size))
    return jaxpool.roi_align(x, jnp.array(list(corners)).T.reshape(1, 4), _grid(x, size), axis=(0, 1))[0]


def _roi_pool(x: jax.Array, size: Size, rule: Rule) -> jax.Array:
    corners = jnp.array([[0.0, 0.0, x.shape[0] - 1, x.shape[1] - 1]])
    return jaxpool.roi_pool(x, corners, _grid(x, size), axis=(0, 1))[0]


_NO_RULE: tuple[Rule, ...] = ("jvp",)  # functions without a rule have JAX's own derivatives
_LEVELS = (1, 2, 4)
_ALL = "all cells"

VARIANTS: tuple[Variant, ...] = (
    _row("max_pool", window.largest, plain.largest, tiled="max"),
    _row("min_pool", window.smallest, plain.smallest, tiled="min"),
    _row("max_pool_with_indices", window.largest, plain.largest_with_indices),
    _row("min_pool_with_indices", window.smallest, plain.smallest_with_indices),
    Variant("max_unpool", _max_unpool, exact.put_back, plain.put_back, detail="winners put back", rules=_NO_RULE),
    _row("sum_pool", window.total, plain.total, tiled="sum"),
    _row("avg_pool", window.mean, plain.average, tiled="mean"),
    Variant(
        "avg_pool",
        _avg_pool_where,
        lambda x, cotangent, size: windowed(exact.sliding, window.mean_of_present)(_with_bar(x), cotangent, size),
        lambda x, size: plain.mean_of_present(_with_bar(x), size),
        detail="without a bar of NaN",
        keyword="where=",
    ),
    _row("lp_pool", window.norm, plain.norm, p=4.0),
    _row("smooth_max_pool", window.smooth_largest, plain.smooth_largest, β=20.0),
    _row("blur_pool", window.binomial, plain.binomial, detail="binomial weights", options={"padding": 0}),
    Variant(
        "max_blur_pool",
        lambda x, size, rule: jaxpool.max_blur_pool(
            x, 2, size.stride, 0, blur_size=size.kernel, axis=(0, 1), rule=rule
        ),
        exact.blurred_maxima,
        lambda x, size: plain.binomial(plain.largest(x, Size(2, 1)), size),
        detail="maxima of 2×2, blurred",
    ),
    _row("median_pool", partial(window.quantile, q=0.5), partial(plain.quantile, q=0.5)),
    _row("quantile_pool", window.quantile, plain.quantile, q=0.9),
    Variant(
        "weighted_pool",
        lambda x, size, rule: jaxpool.weighted_pool(x, x, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(exact.sliding, window.weighted_by_itself),
        lambda x, size: plain.weighted_mean(x, x, size),
        detail="weighted by itself",
    ),
    Variant(
        "attention_pool",
        lambda x, size, rule: jaxpool.attention_pool(x, -5 * x, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(exact.sliding, window.softmax_mean, -5.0),
        lambda x, size: plain.weighted_mean(x, jnp.exp(-5 * x), size),
        detail="logits -5 x",
    ),
    _row("var_pool", window.variance, tiled="var"),
    # JAX's derivative of a root of 0 is NaN.
    replace(_row("std_pool", window.deviation, tiled="std"), plain_gradient=False),
    *(
        Variant(
            function,
            partial(_second, function),
            windowed(exact.sliding, window.second_largest, indices=function.endswith("with_indices")),
            None if function.endswith("with_indices") else plain.second_largest,
            detail="the second",
        )
        for function in ("top_k_pool", "top_k_pool_with_indices")
    ),
    _row("adaptive_max_pool", window.largest, plain.largest_of_bins, exact.uneven, detail="uneven bins"),
    _row("adaptive_max_pool_with_indices", window.largest, plain.largest_of_bins_with_indices, exact.uneven),
    _row("adaptive_avg_pool", window.mean, plain.mean_of_bins, exact.uneven, detail="uneven bins"),
    _row("fractional_max_pool", window.largest, None, exact.fractional, detail="u = 1/2"),
    _row("fractional_max_pool_with_indices", window.largest, None, exact.fractional, detail="u = 1/2"),
    Variant("roi_align", _roi_align, exact.interpolated, detail="the middle half", rules=_NO_RULE),
    Variant("roi_pool", _roi_pool, windowed(exact.uneven, window.largest), detail="one box, all of it", rules=_NO_RULE),
    _row("global_max_pool", window.largest, lambda x, size: x.max((0, 1), keepdims=True), exact.whole, detail=_ALL),
    _row("global_avg_pool", window.mean, lambda x, size: x.mean((0, 1), keepdims=True), exact.whole, detail=_ALL),
    _row("gem_pool", partial(window.norm, mean=True), partial(plain.norm, mean=True), p=3.0),
    _row("mellowmax_pool", partial(window.smooth_largest, mean=True), partial(plain.smooth_largest, mean=True), β=10.0),
    _row("soft_pool", window.softmax_mean, lambda x, size, β: plain.weighted_mean(x, jnp.exp(β * x), size), β=10.0),
    _row(
        "mixed_pool",
        window.mixed,
        lambda x, size, α: α * plain.largest(x, size) + (1 - α) * plain.average(x, size),
        α=0.5,
    ),
    _row(
        "stochastic_pool",
        window.mean_draw,
        lambda x, size: plain.weighted_mean(x, x, size),
        detail="without a key",
    ),
    Variant(
        "spatial_pyramid_pool",
        lambda x, size, rule: jaxpool.spatial_pyramid_pool(x, _LEVELS, axis=(0, 1), rule=rule)[:, None],
        exact.pyramid(_LEVELS),
        lambda x, size: plain.pyramid(x, _LEVELS),
        detail="1 + 4 + 16 bins",
    ),
    _row("global_gem_pool", window.bounded_power_mean, plain.global_power_mean, exact.whole, p=3.0, detail=_ALL),
    *operators.VARIANTS,
)

# Those that the figure shows large, one for each of eight families.
LARGE = (
    "max_pool",
    "avg_pool where=",
    "soft_pool",
    "median_pool",
    "attention_pool",
    "std_pool",
    "adaptive_avg_pool",
    "morphology.opening",
)


def chosen(names: Sequence[str]) -> tuple[Variant, ...]:
    """The rows with these names, in this order; all rows if no names are given."""
    rows = {row.name: row for row in VARIANTS}
    for name in names:
        if name not in rows:
            raise Mistake(f"--pools: there is no pool {name!r}; there are {', '.join(rows)}")
    return tuple(rows[name] for name in names) or VARIANTS
