"""Every function with every kind of parameter, as rows of small tables, for all other files to run over.

A geometry is an array shape with the arguments that place windows on it. A row applies a function to a geometry, with
that function's own options. Inputs are distinct, well separated numbers in random order, never 0, so that every pool is
differentiable there; ties and special values are in `properties/test_conventions`.
"""

import math
import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np

import jaxpool
from tests.reference import oracle
from tests.registry.records import RECORDS

Geometries = dict[str, tuple[tuple[int, ...], dict[str, Any]]]

GEOMETRIES: Geometries = {
    "line": ((2, 9), {"kernel_size": (3,)}),
    "line-gaps": ((2, 11), {"kernel_size": (2,), "stride": 5, "padding": 1}),
    "line-9": ((2, 20), {"kernel_size": (9,), "stride": 1, "padding": 4}),
    "line-13": ((30,), {"kernel_size": (13,), "stride": 2, "padding": ((3, 6),)}),
    "line-31": ((40,), {"kernel_size": (31,), "stride": 3, "padding": 15}),
    "line-9-dilated": ((26,), {"kernel_size": (9,), "stride": 4, "padding": 3, "dilation": 2}),
    "line-9-blocks": ((2, 30), {"kernel_size": (9,), "padding": ((2, 0),), "ceil_mode": True}),
    "plane": ((2, 3, 6, 4), {"kernel_size": (2, 2)}),
    "plane-overlap": ((2, 7, 6), {"kernel_size": (3, 3), "stride": 2, "padding": 1}),
    "plane-uneven": ((7, 8), {"kernel_size": (3, 2), "stride": (1, 2), "padding": ((2, 0), (0, 1))}),
    "plane-last": ((2, 6, 5, 3), {"kernel_size": 3, "stride": 2, "padding": "SAME", "axis": (-3, -2)}),
    "same-lower": ((9, 10), {"kernel_size": (4, 3), "stride": (3, 2), "padding": "SAME_LOWER"}),
    "dilated": ((9, 8), {"kernel_size": (3, 2), "stride": 2, "dilation": (3, 1), "padding": (1, 0)}),
    "dilated-common": ((9, 16), {"kernel_size": (3, 2), "stride": (2, 4), "dilation": (2, 6), "padding": (2, 3)}),
    "ceil": ((2, 8, 9), {"kernel_size": (3, 2), "stride": (2, 3), "padding": (1, 0), "ceil_mode": True}),
    "ceil-drops": ((7, 6), {"kernel_size": 2, "stride": (2, 4), "padding": 1, "ceil_mode": True, "axis": (0, 1)}),
    "ceil-partial": ((2, 4), {"kernel_size": (6,), "stride": 3, "ceil_mode": True}),
    "middle-axis": ((3, 8, 2), {"kernel_size": 3, "stride": 2, "axis": 1}),
    "odd-axes": (
        (5, 2, 6),
        {"kernel_size": (3, 2), "stride": (2, 1), "padding": ((1, 0), (0, 1)), "dilation": (1, 2), "axis": (2, 0)},
    ),
    "copies": ((2, 5, 6), {"kernel_size": (3, 2), "stride": (1, 2), "dilation": (1, 3), "padding": "REFLECT"}),
    "words": (
        (2, 5, 6),
        {"kernel_size": (3, 2), "stride": (2, 1), "padding": ("SEMICAUSAL", ("SYMMETRIC", (2, 1))), "ceil_mode": True},
    ),
    "volume": ((2, 4, 5, 4), {"kernel_size": (2, 3, 2), "stride": (1, 2, 2), "padding": (0, 1, 1)}),
    "volume-odd": ((4, 2, 5, 3), {"kernel_size": (2, 3, 2), "stride": (1, 2, 3), "padding": 1, "axis": (3, 0, 2)}),
    "ones": ((3, 4), {"kernel_size": (1, 1)}),
    "ones-apart": ((5, 4), {"kernel_size": 1, "stride": (2, 3), "padding": "VALID", "axis": (0, 1)}),
    "many-cells": ((18, 18), {"kernel_size": (17, 17), "stride": 1}),
    "wide-plane": ((2, 12, 11), {"kernel_size": (9, 8), "stride": (1, 3), "padding": (4, 2)}),
    "one-window": ((2, 5, 7), {"kernel_size": (5, 7), "stride": 1}),
    "blocks": ((2, 13, 10), {"kernel_size": (6, 5), "padding": ((3, 2), (0, 1)), "ceil_mode": True}),
}

BINS: Geometries = {
    "bins": ((2, 11), {"output_size": (4,)}),
    "bins-even": ((2, 12, 6), {"output_size": (4, 2)}),
    "bins-more": ((5,), {"output_size": (13,)}),
    "bins-twice": ((2, 3), {"output_size": (6,)}),
    "bins-last": ((2, 7, 5, 3), {"output_size": (3, 2), "axis": (-3, -2)}),
    "bins-kept": ((2, 7, 5), {"output_size": (None, 3)}),
    "bins-volume": ((4, 2, 5, 3), {"output_size": (2, 3, 3), "axis": (3, 0, 2)}),
    "bins-wide": ((40,), {"output_size": 3, "axis": 0}),
    "bins-many-cells": ((20, 35), {"output_size": (1, 2)}),
}

WHOLE: Geometries = {
    "whole": ((2, 3, 6, 4), {"axis": (-2, -1)}),
    "whole-last": ((2, 5, 4, 3), {"axis": (2, 1), "keepdims": False}),
    "whole-line": ((2, 19), {"axis": -1}),
    "whole-apart": ((3, 2, 9), {"axis": (2, 0)}),
}

_CROSS = np.array([[False, True, False], [True, True, True], [False, False, True]])

# Windows that are given as values in place of sizes.
KERNELS: Geometries = {
    "kernel-bins": ((2, 7, 5), {"kernel_size": jaxpool.bins(3, 2)}),
    "kernel-bins-last": ((2, 11, 3), {"kernel_size": jaxpool.bins(4), "axis": 1}),
    "kernel-whole": ((2, 5, 3), {"kernel_size": jaxpool.whole, "axis": (1, 2)}),
    "footprint": ((2, 7, 6), {"kernel_size": jaxpool.footprint(_CROSS), "stride": 1, "padding": ((1, 0), (0, 1))}),
    "footprint-apart": (
        (5, 2, 9),
        {
            "kernel_size": jaxpool.footprint(_CROSS[:2]),
            "stride": (2, 3),
            "padding": ((1, 0), (0, 2)),
            "dilation": (2, 1),
            "ceil_mode": True,
            "axis": (2, 0),
        },
    ),
}


@dataclass(frozen=True, eq=False)
class Case:
    """One call of one function: `parameters` are all of its arguments but the array and the rule."""

    function: str
    geometry: str
    shape: tuple[int, ...]
    parameters: dict[str, Any]

    @property
    def name(self) -> str:
        """Unique among all rows."""
        options = {key: value for key, value in self.parameters.items() if key not in _PLACING}
        own = "-".join(f"{key}={np.shape(value) or value}" for key, value in options.items())
        return f"{self.function}-{self.geometry}" + (f"-{own}" if own else "")

    @cached_property
    def x(self) -> np.ndarray:
        """The input, the same in every run; masked cells hold NaN and infinities."""
        x, mask = distinct(self.shape, self.name), self.parameters.get("where", True)
        return np.where(mask, x, np.resize([math.nan, math.inf, -math.inf], self.shape))

    @cached_property
    def expected(self) -> oracle.Pooled:
        """The result of the reference for `x`."""
        return self.reference(self.x)

    def reference(self, x: Any) -> oracle.Pooled:
        """The result of the reference for another input."""
        return oracle.evaluate(self.function, x, **self.parameters)

    def outputs(self, x: Any, rule: str = "jvp") -> Any:
        """The outputs of the function; functions that JAX differentiates take no rule."""
        rules = {"rule": rule} if RECORDS[self.function].has_rule else {}
        return self.call(x, **rules, **self.parameters)

    def call(self, x: Any, **parameters: Any) -> Any:
        """The outputs of the function for other parameters."""
        return getattr(jaxpool, self.function)(x, **parameters)

    def values(self, x: Any, rule: str = "jvp") -> jax.Array:
        """Only the values, for functions that return more."""
        outputs = self.outputs(x, rule)
        return outputs[0] if isinstance(outputs, tuple) else outputs


# Arguments that place windows, which the name of the geometry stands for; all others are in the name of a row.
_PLACING = (
    *("kernel_size", "stride", "padding", "dilation", "ceil_mode", "axis", "output_size", "output_ratio"),
    *("key", "samples", "boxes", "sampling_ratio", "aligned", "indices"),
)


def distinct(shape: tuple[int, ...], seed: str, spread: float = 6.0) -> np.ndarray:
    """Equally spaced numbers between ±spread/2, none of which is 0, in an order that depends on the seed."""
    count = math.prod(shape)
    order = np.random.default_rng(zlib.crc32(seed.encode())).permutation(count)
    return ((order - count // 2 + 0.25) * (spread / count)).reshape(shape)


def mask(*shape: int) -> np.ndarray:
    """A random mask, of which a corner of 3 cells along each axis is False."""
    kept = np.random.default_rng(len(shape)).random(shape) < 0.6
    kept[tuple(slice(3) for _ in shape)] = False
    return kept


def disk(size: int) -> np.ndarray:
    """The cells of a square whose centres are at most size/2 from its own."""
    along = np.arange(size) - (size - 1) / 2
    return np.hypot(along[:, None], along) <= size / 2


def weights(*shape: int) -> np.ndarray:
    """Random weights between 0 and 2."""
    return 2 - np.random.default_rng(len(shape) + 7).random(shape) * 2


_PER_CHANNEL = np.array([1.0, 2.5, 4.0]).reshape(3, 1, 1)
_MIXED_SIGNS = np.array([-2.0, 0.5, 3.0]).reshape(3, 1, 1)
_ALONG_ROWS = np.array([-1.5, 0.75, 2.0, -0.5]).reshape(4, 1)

# Windows as values: each kind of pool with each of them, or with one that the other functions leave out.
_WITH_KERNELS = {
    "kernel-bins": ("min_pool", "sum_pool", "lp_pool", "soft_pool", "stochastic_pool", "quantile_pool"),
    "kernel-bins-last": ("mellowmax_pool", "mixed_pool", "median_pool"),
    "kernel-whole": ("max_pool_with_indices", "gem_pool", "smooth_max_pool"),
    "footprint": (
        *("max_pool", "max_pool_with_indices", "sum_pool", "avg_pool", "lp_pool", "gem_pool", "smooth_max_pool"),
        *("mellowmax_pool", "soft_pool", "mixed_pool", "stochastic_pool", "median_pool", "quantile_pool"),
    ),
    "footprint-apart": ("min_pool", "avg_pool", "lp_pool", "mellowmax_pool", "soft_pool", "quantile_pool"),
}

_ROWS: list[tuple[str, str, list[dict[str, Any]]]] = [("max_pool", geometry, [{}]) for geometry in GEOMETRIES] + [
    ("min_pool", "ceil", [{}]),
    ("min_pool", "volume-odd", [{}]),
    ("max_pool_with_indices", "plane-last", [{}]),
    ("max_pool_with_indices", "odd-axes", [{}]),
    ("max_pool_with_indices", "volume", [{}]),
    ("max_pool_with_indices", "many-cells", [{}]),
    ("min_pool_with_indices", "copies", [{}]),
    ("min_pool_with_indices", "odd-axes", [{"where": mask(5, 2, 6)}]),
    ("sum_pool", "line-31", [{}]),
    ("sum_pool", "line-gaps", [{}]),
    ("sum_pool", "plane-last", [{}]),
    ("sum_pool", "dilated-common", [{}]),
    ("sum_pool", "ceil", [{}]),
    ("sum_pool", "odd-axes", [{}]),
    ("sum_pool", "volume-odd", [{}]),
    ("avg_pool", "plane-uneven", [{"count_include_pad": True}, {"count_include_pad": False}]),
    ("avg_pool", "ceil", [{"count_include_pad": True}, {"count_include_pad": False}, {"divisor_override": 5}]),
    ("avg_pool", "ceil-drops", [{"count_include_pad": True}, {"count_include_pad": False}]),
    ("avg_pool", "ceil-partial", [{"count_include_pad": True}]),
    ("avg_pool", "dilated", [{"count_include_pad": False}]),
    ("avg_pool", "odd-axes", [{"count_include_pad": False}]),
    ("avg_pool", "volume", [{"divisor_override": -2.5}]),
    ("lp_pool", "plane-overlap", [{"norm_type": p} for p in (1, 2, 3, 1.5, 0.5, math.inf)]),
    ("lp_pool", "line-13", [{"norm_type": 2.0}]),
    ("lp_pool", "dilated-common", [{"norm_type": 3.0}]),
    ("lp_pool", "odd-axes", [{"norm_type": 1.5}]),
    ("lp_pool", "copies", [{"norm_type": 1.5}]),
    ("avg_pool", "words", [{"count_include_pad": False}]),
    ("lp_pool", "volume", [{"norm_type": 2}]),
    ("lp_pool", "plane", [{"norm_type": _PER_CHANNEL}]),
    ("lp_pool", "plane-overlap", [{"norm_type": np.abs(_ALONG_ROWS) + 0.5}]),
    ("smooth_max_pool", "plane-overlap", [{"beta": 2.0}, {"beta": -2}, {"beta": 2.0, "count_include_pad": False}]),
    ("smooth_max_pool", "line-9", [{"beta": 1.0}]),
    ("smooth_max_pool", "ceil", [{"beta": 1.5}, {"beta": -1.5, "count_include_pad": False}]),
    ("smooth_max_pool", "dilated-common", [{"beta": 0.5}]),
    ("smooth_max_pool", "odd-axes", [{"beta": -1.0, "count_include_pad": False}]),
    ("smooth_max_pool", "volume-odd", [{"beta": 1.0}]),
    ("smooth_max_pool", "plane", [{"beta": _MIXED_SIGNS}]),
    ("smooth_max_pool", "plane-overlap", [{"beta": _ALONG_ROWS}, {"beta": _ALONG_ROWS, "count_include_pad": False}]),
    ("median_pool", "odd-axes", [{}]),
    ("median_pool", "ceil", [{}]),
    ("quantile_pool", "plane-last", [{"q": 0.3}]),
    ("quantile_pool", "line-13", [{"q": 0.75, "method": "higher"}]),
    ("quantile_pool", "odd-axes", [{"q": (0.9, 0.25, 0.5, 0.9), "method": "median_unbiased"}]),
    ("top_k_pool", "odd-axes", [{"k": 2}]),
    ("top_k_pool", "ceil", [{"k": 3, "where": mask(2, 8, 9)}]),
    ("top_k_pool_with_indices", "plane-last", [{"k": 3}]),
    ("top_k_pool_with_indices", "many-cells", [{"k": 2}]),
    ("top_k_pool_with_indices", "dilated", [{"k": 4, "where": mask(9, 1)}]),
    *[("adaptive_max_pool_with_indices", geometry, [{}]) for geometry in BINS],
    *[("adaptive_max_pool", geometry, [{}]) for geometry in ("bins", "bins-last", "bins-twice")],
    *[("adaptive_avg_pool", geometry, [{}]) for geometry in BINS if geometry != "bins-many-cells"],
    *[(function, geometry, [{}]) for geometry in WHOLE for function in ("global_max_pool", "global_avg_pool")],
    ("gem_pool", "ceil", [{"norm_type": p, "count_include_pad": pad} for p, pad in ((1.5, True), (math.inf, False))]),
    ("gem_pool", "plane", [{"norm_type": _PER_CHANNEL}]),
    ("gem_pool", "plane-overlap", [{"where": mask(2, 7, 6), "norm_type": 3, "count_include_pad": False}]),
    ("mellowmax_pool", "ceil", [{"beta": 1.5}, {"beta": -1.5, "count_include_pad": False}]),
    ("mellowmax_pool", "volume-odd", [{"beta": 0}]),
    ("mellowmax_pool", "plane-overlap", [{"where": mask(2, 7, 6), "beta": _ALONG_ROWS}]),
    ("soft_pool", "ceil", [{"beta": 1.0}, {"beta": -1.5, "count_include_pad": False}]),
    ("soft_pool", "plane-overlap", [{"where": mask(2, 7, 6), "beta": _ALONG_ROWS}]),
    ("mixed_pool", "ceil", [{"alpha": 0.3}, {"alpha": 1, "count_include_pad": False}]),
    ("mixed_pool", "plane", [{"alpha": _PER_CHANNEL / 5}]),
    ("mixed_pool", "plane-overlap", [{"where": mask(2, 7, 6), "alpha": 0.75}]),
    ("stochastic_pool", "ceil", [{}]),
    ("stochastic_pool", "plane-overlap", [{"where": mask(2, 7, 6)}]),
    ("var_pool", "ceil", [{"correction": 1}, {"count_include_pad": True}]),
    ("var_pool", "volume-odd", [{}]),
    ("std_pool", "plane-overlap", [{"where": mask(2, 7, 6), "correction": 0.5}]),
    ("std_pool", "odd-axes", [{}]),
    ("std_pool", "many-cells", [{}]),
    ("weighted_pool", "ceil", [{"weights": weights(2, 8, 9)}, {"weights": weights(9) - 0.4, "where": mask(8, 9)}]),
    ("weighted_pool", "volume-odd", [{"weights": weights(4, 1, 5, 3)}]),
    ("weighted_pool", "copies", [{"weights": weights(5, 6)}]),
    ("attention_pool", "ceil", [{"logits": np.log(weights(2, 8, 9))}]),
    ("attention_pool", "plane-overlap", [{"where": mask(2, 7, 6), "logits": 3 * weights(7, 1)}]),
    ("attention_pool", "many-cells", [{"logits": 40 * weights(18, 18)}]),
    ("global_gem_pool", "whole-last", [{"norm_type": 3.0, "eps": 0.1}, {"norm_type": _PER_CHANNEL[:, 0, 0]}]),
    ("global_gem_pool", "whole", [{"norm_type": 1.5, "eps": None, "where": mask(2, 3, 1, 4)}]),
    ("blur_pool", "plane-last", [{}]),
    ("blur_pool", "dilated", [{"where": mask(9, 1)}]),
    ("max_blur_pool", "plane-last", [{"blur_size": 2}]),
    ("max_blur_pool", "ceil", [{"dilation": 2, "blur_size": (4, 3)}]),
    ("max_blur_pool", "ceil", [{"dilation": (1, 2), "where": mask(2, 8, 9)}]),
    ("max_blur_pool", "line-31", [{"blur_size": 4, "where": mask(40)}]),
    *[
        (function, geometry, [options])
        for geometry, functions in _WITH_KERNELS.items()
        for function in functions
        for options in [RECORDS[function].options]
    ],
    # Masks: of every cell, of one sample, along one axis, of nothing at all.
    ("max_pool", "plane-overlap", [{"where": mask(2, 7, 6)}, {"where": mask(7, 6)}, {"where": np.array(False)}]),
    ("max_pool", "plane-last", [{"where": mask(2, 6, 5, 1)}]),
    ("max_pool", "plane", [{"where": mask(2, 1, 1, 4)}]),
    ("min_pool", "ceil", [{"where": mask(2, 1, 9)}]),
    ("max_pool_with_indices", "odd-axes", [{"where": mask(5, 2, 6)}]),
    ("max_pool_with_indices", "one-window", [{"where": np.array([[[True]], [[False]]])}]),
    ("sum_pool", "plane-overlap", [{"where": mask(2, 7, 6)}]),
    ("avg_pool", "plane-overlap", [{"where": mask(2, 7, 6), "count_include_pad": pad} for pad in (True, False)]),
    ("avg_pool", "odd-axes", [{"where": mask(5, 1, 6), "divisor_override": 3}]),
    ("lp_pool", "plane-overlap", [{"where": mask(2, 7, 6), "norm_type": p} for p in (1.5, 2, math.inf)]),
    ("lp_pool", "plane", [{"where": mask(6, 4), "norm_type": _PER_CHANNEL}]),
    ("smooth_max_pool", "plane-overlap", [{"where": mask(2, 7, 6), "beta": b} for b in (2.0, -2.0, _ALONG_ROWS)]),
    ("smooth_max_pool", "ceil", [{"where": mask(8, 9), "beta": 1.5, "count_include_pad": False}]),
    ("median_pool", "plane-overlap", [{"where": mask(2, 7, 6)}]),
    ("quantile_pool", "dilated", [{"where": mask(9, 1), "q": 0.6}]),
    ("adaptive_max_pool_with_indices", "bins-last", [{"where": mask(2, 7, 5, 1)}]),
    ("adaptive_max_pool", "bins", [{"where": mask(11)}]),
    ("adaptive_avg_pool", "bins-volume", [{"where": mask(4, 2, 5, 3)}]),
    ("global_max_pool", "whole-last", [{"where": mask(2, 5, 4, 1)}]),
    ("global_avg_pool", "whole", [{"where": mask(2, 3, 1, 4)}]),
]

# Indices with repetitions, and with some that name no cell.
_INDICES = np.random.default_rng(0).integers(-2, 22, (2, 3, 2))

CASES = [
    Case(function, geometry, shape, {**arguments, **options})
    for function, geometry, variants in _ROWS
    for shape, arguments in [(GEOMETRIES | BINS | WHOLE | KERNELS)[geometry]]
    for options in variants
] + [
    Case("spatial_pyramid_pool", "volume", (4, 2, 5, 3), {"levels": (1, 2, 3), "axis": (3, 0, 2)}),
    Case("spatial_pyramid_pool", "plane", (2, 7, 5), {"levels": ((1, 1), (3, 2)), "kind": "avg", "where": mask(7, 5)}),
    Case("max_unpool", "repeated", (2, 3, 2), {"indices": _INDICES, "output_size": (4, 5)}),
    Case("max_unpool", "last", (3, 2, 2), {"indices": np.moveaxis(_INDICES, 0, -1), "output_size": 4, "axis": (1, 0)}),
]

CASES += [
    Case(
        "fractional_max_pool",
        "plane",
        (2, 7, 6),
        {"kernel_size": (2, 3), "output_size": (4, 3), "samples": np.array([[0.1, 0.6], [0.95, 0.3]])},
    ),
    Case(
        "fractional_max_pool_with_indices",
        "last",
        (2, 6, 7, 2),
        {"kernel_size": (3, 2), "output_ratio": 0.5, "key": np.array([3, 7], np.uint32), "axis": (2, 1)},
    ),
]
CASES += [
    replace(case, parameters={**case.parameters, "where": mask(*case.shape)})
    for case in CASES
    if "fractional" in case.function
]
# Boxes inside, across a corner, smaller than a cell, and outside.
_BOXES = np.array([[1.3, 0.7, 5.2, 4.9], [-2.6, 3.1, 2.2, 8.4], [2.1, 1.2, 2.6, 1.9], [9.3, 1.2, 11.0, 3.0]])
CASES += [
    Case("roi_align", "plane", (2, 7, 6), {"boxes": _BOXES, "output_size": (2, 3)}),
    Case(
        "roi_align",
        "last",
        (6, 7, 2),
        {"boxes": _BOXES, "output_size": (3, 2), "sampling_ratio": 3, "aligned": False, "axis": (1, 0)},
    ),
    Case("roi_pool", "plane", (2, 7, 6), {"boxes": _BOXES, "output_size": (2, 3)}),
    Case("roi_pool", "last", (6, 7, 2), {"boxes": _BOXES, "output_size": (3, 2), "axis": (1, 0)}),
]

# One plain row per function that has a mask, but needs no samples, for properties that do not depend on where windows
# are.
_KINDS = {"fixed": "overlap", "blurred": "overlap", "bins": "bins", "whole": "whole", "levels": "levels"}
PLAIN = {
    name: Case(name, f"plane-{_KINDS[record.windows]}", (2, 7, 6), record.parameters)
    for name, record in RECORDS.items()
    if record.has_mask and record.windows != "random"
}
