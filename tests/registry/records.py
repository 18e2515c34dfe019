"""A record for every public function: its signature, a typical call, and the kind of function; and rows made of them.

Every test of all functions derives its list from here, so that none is left out: the plain rows in `cases`, and the
tests of export, sharding, small floats, masks, determinism and mistakes. `test_api` compares the records with the names
and signatures of the package. The last functions make rows of tests, and leave most of these to the slow part.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool

# The arguments that place windows on the last two axes of planes of 7×6 cells or more: sliding with padding and
# overlaps, uneven bins, all cells, bins of several sizes, windows at random positions, and boxes.
_SLIDING: dict[str, Any] = {"kernel_size": (3, 3), "stride": 2, "padding": 1}
PLANE: dict[str, dict[str, Any]] = {
    "fixed": _SLIDING,
    "blurred": _SLIDING,
    "bins": {"output_size": (4, 3)},
    "whole": {"axis": (-2, -1)},
    "levels": {"levels": ((1, 1), (3, 2))},
    "random": {"kernel_size": (2, 3), "output_size": (4, 3)},
    "boxes": {"boxes": np.array([[1.3, 0.7, 5.2, 4.9], [-2.6, 3.1, 2.2, 8.4]]), "output_size": (2, 3)},
    "indices": {},
}

# The public signatures: names, order and defaults of all arguments.
_FIXED = "kernel_size, stride=None, padding=0, *, dilation=1, ceil_mode=False"
_PADDED = f"{_FIXED}, count_include_pad=True"
_MOMENT = _FIXED.replace("*", "*, correction=0, count_include_pad=False")
_LINEAR = _FIXED.replace("*", "*, method='linear'")
_RANDOM = (
    "kernel_size, output_size=None, *, output_ratio=None, key=None, samples=None, axis=None, rule='jvp', where=None"
)
_LAST = "axis=None, where=None, rule='jvp'"
SIGNATURES = {
    **dict.fromkeys(
        ("max_pool", "min_pool", "max_pool_with_indices", "min_pool_with_indices"), f"(x, {_FIXED}, {_LAST})"
    ),
    **dict.fromkeys(("sum_pool", "median_pool"), f"(x, {_FIXED}, {_LAST})"),
    "avg_pool": f"(x, {_PADDED}, divisor_override=None, {_LAST})",
    "lp_pool": f"(x, norm_type, {_FIXED}, {_LAST})",
    "gem_pool": f"(x, norm_type, {_PADDED}, {_LAST})",
    **dict.fromkeys(("smooth_max_pool", "mellowmax_pool", "soft_pool"), f"(x, beta, {_PADDED}, {_LAST})"),
    "mixed_pool": f"(x, alpha, {_PADDED}, {_LAST})",
    "stochastic_pool": f"(x, {_FIXED.replace('*', '*, key=None')}, {_LAST})",
    "blur_pool": f"(x, kernel_size=(3, 3), stride=2, padding='REFLECT', *, dilation=1, {_LAST})",
    "max_blur_pool": (
        f"(x, kernel_size, stride=2, padding='REFLECT', *, blur_size=3, {_LAST}, dilation=1, ceil_mode=False)"
    ),
    "quantile_pool": f"(x, q, {_LINEAR}, {_LAST})",
    **dict.fromkeys(("var_pool", "std_pool"), f"(x, {_MOMENT}, {_LAST})"),
    "weighted_pool": f"(x, weights, {_FIXED}, {_LAST})",
    "attention_pool": f"(x, logits, {_FIXED}, {_LAST})",
    **dict.fromkeys(("top_k_pool", "top_k_pool_with_indices"), f"(x, k, {_FIXED}, {_LAST})"),
    **dict.fromkeys(("adaptive_max_pool", "adaptive_avg_pool"), f"(x, output_size, *, {_LAST})"),
    "adaptive_max_pool_with_indices": f"(x, output_size, *, {_LAST})",
    **dict.fromkeys(("global_max_pool", "global_avg_pool"), "(x, *, axis, keepdims=True, where=None, rule='jvp')"),
    "global_gem_pool": "(x, norm_type, *, axis, eps=1e-06, keepdims=True, where=None, rule='jvp')",
    "spatial_pyramid_pool": f"(x, levels, *, kind='max', {_LAST})",
    **dict.fromkeys(("fractional_max_pool", "fractional_max_pool_with_indices"), f"(x, {_RANDOM})"),
    "roi_align": "(x, boxes, output_size, *, sampling_ratio=2, aligned=True, axis=None)",
    "roi_pool": "(x, boxes, output_size, *, axis=None)",
    "max_unpool": "(values, indices, output_size, *, axis=None)",
}


@dataclass(frozen=True)
class Record:
    """What tests need to know about a function.

    Attributes:
        function: its name.
        windows: the arguments that place its windows, a key of `PLANE`.
        options: typical values of its other required arguments.
        linear: whether it is linear, also to JAX.
        selects: whether every value is an unchanged cell.
        draws: whether it takes a key.
    """

    function: str
    windows: str = "fixed"
    options: dict[str, Any] = field(default_factory=dict)
    linear: bool = False
    selects: bool = False
    draws: bool = False

    @property
    def has_rule(self) -> bool:
        """Whether its derivative rule can be chosen."""
        return self.windows not in ("boxes", "indices")

    @property
    def has_mask(self) -> bool:
        """Whether cells can be left out."""
        return self.has_rule

    @property
    def has_indices(self) -> bool:
        """Whether it returns the winners' indices."""
        return self.function.endswith("_with_indices")

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The arguments of the typical call on planes, but the array, the rule and what depends on its shape."""
        return {**PLANE[self.windows], **self.options}

    def values(self, x: Any, axis: tuple[int, int] = (-2, -1), **others: Any) -> jax.Array:
        """Only the values of the typical call, over two axes of any array."""
        pool: Callable[..., Any] = getattr(jaxpool, self.function)
        arguments = {**self.parameters, "axis": axis, **others}
        if self.windows == "indices":
            # Unpooling takes the result of a max pool.
            sizes = tuple(x.shape[one] for one in axis)
            return pool(*jaxpool.max_pool_with_indices(x, 2, axis=axis), sizes, **arguments)
        if self.windows == "random" and "samples" not in others:
            kept = [size for a, size in enumerate(x.shape) if a not in [one % x.ndim for one in axis]]
            arguments["samples"] = jnp.full((*kept, 2), 0.4, jnp.float32)
        if self.windows == "boxes":
            arguments["boxes"] = arguments["boxes"].astype(np.float32)
        outputs = pool(x, **arguments)
        return outputs[0] if isinstance(outputs, tuple) else outputs


_NORM, _SHARP = {"norm_type": 3.0}, {"beta": 2.0}
RECORDS: dict[str, Record] = {
    record.function: record
    for record in (
        Record("max_pool", selects=True),
        Record("min_pool", selects=True),
        Record("max_pool_with_indices", selects=True),
        Record("min_pool_with_indices", selects=True),
        Record("sum_pool", linear=True),
        Record("avg_pool", linear=True),
        Record("lp_pool", options=_NORM),
        Record("smooth_max_pool", options=_SHARP),
        Record("gem_pool", options=_NORM),
        Record("mellowmax_pool", options=_SHARP),
        Record("soft_pool", options=_SHARP),
        Record("mixed_pool", options={"alpha": 0.75}),
        Record("stochastic_pool", draws=True),
        Record("blur_pool", "blurred", linear=True),
        Record("max_blur_pool", "blurred"),
        Record("median_pool"),
        Record("quantile_pool", options={"q": 0.7}),
        Record("var_pool"),
        Record("std_pool"),
        # Weights that fit arrays of any shape; others are in `cases`.
        Record("weighted_pool", options={"weights": np.array(2.0)}),
        Record("attention_pool", options={"logits": np.array(0.5)}),
        Record("top_k_pool", options={"k": 2}, selects=True),
        Record("top_k_pool_with_indices", options={"k": 3}, selects=True),
        Record("adaptive_max_pool", "bins", selects=True),
        Record("adaptive_max_pool_with_indices", "bins", selects=True),
        Record("adaptive_avg_pool", "bins", linear=True),
        Record("global_max_pool", "whole", selects=True),
        Record("global_avg_pool", "whole", linear=True),
        Record("global_gem_pool", "whole", _NORM),
        Record("spatial_pyramid_pool", "levels", selects=True),
        Record("fractional_max_pool", "random", selects=True, draws=True),
        Record("fractional_max_pool_with_indices", "random", selects=True, draws=True),
        Record("roi_align", "boxes", linear=True),
        Record("roi_pool", "boxes", selects=True),
        Record("max_unpool", "indices", linear=True, selects=True),
    )
}


def names(kept: Callable[[Record], bool]) -> tuple[str, ...]:
    """The functions whose records are kept."""
    return tuple(name for name, record in RECORDS.items() if kept(record))


def slow_but(quick: Iterable[Any], rows: Iterable[Any]) -> list[Any]:
    """The rows of a table, all but some of them slow."""
    kept = [*quick]
    given = [(row, row if isinstance(row, tuple) else (row,)) for row in rows]
    return [pytest.param(*values, marks=() if row in kept else pytest.mark.slow) for row, values in given]


def one_of_each_kind(functions: Iterable[str]) -> list[Any]:
    """Functions as rows of a test: by default the first with its kind of windows and its required arguments."""
    kinds = {function: (RECORDS[function].windows, *RECORDS[function].options) for function in functions}
    first = {kind: function for function, kind in reversed(kinds.items())}
    return slow_but(first.values(), kinds)


# A selection, a linear pool, powers, bins, copies of cells, boxes and an unpooling. The others compile for longer.
KINDS = ("max_pool_with_indices", "avg_pool", "lp_pool", "adaptive_max_pool", "blur_pool", "roi_align", "max_unpool")


def row(*values: Any, id: str, quick: bool) -> Any:
    """A row of a table, slow unless it is quick."""
    return pytest.param(*values, id=id, marks=() if quick else pytest.mark.slow)


def by_function(rows: Mapping[str, Any], quick: Collection[str] = KINDS) -> Any:
    """A decorator: the test gets one row for each function, as its argument `case`."""
    return pytest.mark.parametrize("case", [row(one, id=name, quick=name in quick) for name, one in rows.items()])
