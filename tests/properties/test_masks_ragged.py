"""Ragged batches: a cell that `where` leaves out is as if it were not there, in values, indices and derivatives.

Samples of different sizes are padded to one size with NaN and infinities, pooled together with a mask, and compared
with each sample pooled by itself. Windows are placed so that those of a single sample are the first ones of the batch,
and all others are empty.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from jaxpool._arguments import Rule
from tests.harness.compilation import compiled_fast
from tests.harness.parts import case_row, crossed
from tests.reference import oracle
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

RULES: tuple[Rule, ...] = ("jvp", "vjp")
INF, NAN = math.inf, math.nan


@dataclass(frozen=True)
class Layout:
    """Sizes of the samples along the pooled axes, the largest first; 2 channels come first or last."""

    sizes: tuple[tuple[int, ...], ...]
    parameters: dict[str, Any]
    last: bool = False

    def place(self, array: np.ndarray) -> np.ndarray:
        """An array of axes (channel, pooled...) in the order of this layout."""
        return np.moveaxis(array, 0, -1) if self.last else array

    def batch(self) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """The samples side by side, surrounded by NaN or infinities, with their mask, and each sample by itself."""
        mask = np.zeros((len(self.sizes), 2, *self.sizes[0]), bool)
        for n, size in enumerate(self.sizes):
            mask[n, :, *corner(size)] = True
        mask = np.stack([self.place(one) for one in mask])
        cells = distinct(mask.shape, "ragged")
        samples = [
            one[corner(self.place(np.empty((2, *size))).shape)] for one, size in zip(cells, self.sizes, strict=True)
        ]
        return (
            np.where(mask, cells, np.resize([NAN, INF, -INF], mask.shape)),
            mask[..., :1] if self.last else mask[:, :1],
            samples,
        )

    def arguments(self, options: dict[str, Any], size: tuple[int, ...]) -> dict[str, Any]:
        """The arguments for a sample: bins as wide as the largest's; array options are (channel, last window)."""
        arguments = self.parameters | options
        for name, option in options.items():
            if np.ndim(option):
                full = option.reshape(option.shape[0], *(1,) * (len(size) - 1), option.shape[1])
                arguments[name] = self.place(full[..., : (size[-1] + 1) // 2])
        if "output_size" in arguments:
            bins = zip(arguments["output_size"], size, self.sizes[0], strict=True)
            arguments["output_size"] = tuple(None if m is None else max(m * n // most, 1) for m, n, most in bins)
        return arguments


def corner(shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(size) for size in shape)


# Windows extend past the end of a sample by a cell, which the batch masks and the single sample does not have.
CEIL: dict[str, Any] = {"stride": 2, "ceil_mode": True}
SLIDING = {
    "lines": Layout(((7,), (5,), (1,), (0,)), {"kernel_size": (3,), "padding": ((1, 0),)} | CEIL),
    "channels last": Layout(((4, 8), (2, 4), (4, 2), (2, 0)), {"kernel_size": 3, "axis": (-3, -2)} | CEIL, last=True),
    "disjoint": Layout(((4, 8), (2, 4), (4, 2)), {"kernel_size": (2, 2)}),
}
# Declared padding next to masked cells, for pools that treat both alike.
PADDED = {
    "low": Layout(((5, 7), (3, 5), (1, 3), (5, 0)), {"kernel_size": (3, 3), "padding": ((1, 0), (1, 0))} | CEIL),
    "high": Layout(((4, 3), (2, 3), (3, 1)), {"kernel_size": (3, 2), "stride": 1, "padding": ((1, 2), (1, 1))}),
    "wide": Layout(((12,), (9,), (1,)), {"kernel_size": (9,), "stride": 1, "padding": ((4, 8),)}),
}
# Three cells are two bins that share the middle one, in every sample.
BINS = {
    "bins": Layout(((6, 9), (3, 6), (6, 3), (0, 0)), {"output_size": (4, 6)}),
    "one bin, last": Layout(((6, 4), (3, 2)), {"output_size": (1, 1), "axis": (-3, -2)}, last=True),
    "rows kept": Layout(((3, 5), (2, 4), (1, 1)), {"output_size": (None, 1)}),
}
WHOLE = {
    "whole lines": Layout(((7,), (5,), (1,), (0,)), {"axis": -1}),
    "whole, last": Layout(((5, 4), (3, 4), (1, 2), (5, 0)), {"axis": (-3, -2)}, last=True),
}
LAYOUTS = SLIDING | PADDED | BINS | WHOLE

Row = tuple[str, dict[str, Any]]
PER_CHANNEL, PER_WINDOW = np.array([[1.5], [2.5]]), np.array([[1.5, 3.0, 0.75, 2.5]])
WEIGHTED: list[Row] = [
    *[("lp_pool", {"norm_type": p}) for p in (1.5, 2)],
    *[("smooth_max_pool", {"beta": b, "count_include_pad": False}) for b in (2.0, -2.0)],
]
LEARNT: list[Row] = [
    *[("lp_pool", {"norm_type": p}) for p in (PER_CHANNEL, PER_WINDOW)],
    *[("smooth_max_pool", {"beta": b - 2, "count_include_pad": False}) for b in (PER_CHANNEL, PER_WINDOW)],
]
SMOOTH_WITH_PADDING: list[Row] = [
    ("smooth_max_pool", {"beta": b}) for b in (2.0, -2.0, PER_CHANNEL - 2, PER_WINDOW - 2)
]
UNPADDED: list[Row] = [
    *[(function, {}) for function in ("max_pool", "min_pool", "max_pool_with_indices", "sum_pool")],
    *[("avg_pool", {"count_include_pad": False}), ("avg_pool", {"divisor_override": 2.5})],
    *[("lp_pool", {"norm_type": INF}), *WEIGHTED],
]
ADAPTIVE = ("adaptive_max_pool", "adaptive_max_pool_with_indices", "adaptive_avg_pool")
SECOND_ORDER: list[Row] = [WEIGHTED[0], WEIGHTED[2], *LEARNT[:2], *SMOOTH_WITH_PADDING[1::2]]
# By default every row runs in one layout in three, and every layout with one row in three.
RAGGED = [
    *crossed([*UNPADDED, *LEARNT, ("avg_pool", {}), *SMOOTH_WITH_PADDING], SLIDING, 3),
    *crossed(UNPADDED, PADDED, 3),
    *crossed([(function, {}) for function in ADAPTIVE], BINS, 3),
    *crossed([("global_max_pool", {}), ("global_avg_pool", {})], WHOLE, 1),
]


def name_of(one: Row) -> str:
    return "-".join([one[0], *(f"{key}={np.shape(value) or value}" for key, value in one[1].items())])


def values_of(function: str, **arguments: Any) -> Callable[..., jax.Array]:
    return lambda x, **more: jax.tree.leaves(getattr(jaxpool, function)(x, **arguments, **more))[0]


@pytest.mark.parametrize(
    ("row", "layout"), [case_row(one, layout, id=f"{name_of(one)}-{layout}", kept=kept) for one, layout, kept in RAGGED]
)
def test_ragged_batches(row: Row, layout: str) -> None:
    (function, options), ragged = row, LAYOUTS[layout]
    x, mask, samples = ragged.batch()
    largest = ragged.sizes[0]
    arguments = {**ragged.arguments(options, largest), "where": mask}
    pool = values_of(function, **arguments)
    random = np.random.default_rng(0)
    tangent = random.uniform(1, 2, x.shape)
    cotangent = random.uniform(1, 2, jax.eval_shape(pool, x).shape)

    @compiled_fast
    def everything(x: jax.Array) -> Any:
        gradients = [jax.vjp(partial(pool, rule=rule), x)[1](cotangent)[0] for rule in RULES]
        outputs = getattr(jaxpool, function)(x, **arguments)
        return *jax.jvp(pool, (x,), (tangent,)), gradients, outputs[1] if isinstance(outputs, tuple) else None

    values, values_dot, gradients, indices = everything(x)
    for n, (sample, size) in enumerate(zip(samples, ragged.sizes, strict=True)):
        # Cells outside the sample, and empty windows, are 0.
        results = [np.zeros(values.shape[1:]), np.zeros(values.shape[1:]), np.zeros(x.shape[1:])]
        positions = np.full(values.shape[1:], -1)
        if 0 not in size:
            alone = oracle.evaluate(function, sample, **ragged.arguments(options, size))
            windows, cells = corner(alone.values.shape), corner(sample.shape)
            results[0][windows] = alone.values
            results[1][windows] = alone.forward(tangent[n][cells])
            results[2][cells] = alone.backward(cotangent[n][windows])
            if indices is not None:
                positions[windows] = np.ravel_multi_index(np.unravel_index(alone.indices, size), largest)
        found = [values[n], values_dot[n], gradients[0][n], gradients[1][n]]
        for one, expected in zip(found, [*results, results[2]], strict=True):
            np.testing.assert_allclose(one, expected, rtol=1e-12, atol=1e-13, err_msg=f"sample {size}")
        if indices is not None:
            np.testing.assert_array_equal(indices[n], positions)


@pytest.mark.parametrize("row", SECOND_ORDER, ids=name_of)
def test_second_derivatives_of_ragged_batches(row: Row) -> None:
    (function, options), ragged = row, SLIDING["lines"]
    x, mask, samples = ragged.batch()
    tangent, cotangent = np.random.default_rng(0).uniform(1, 2, (2, *x.shape))

    arguments = ragged.arguments(options, ragged.sizes[0])

    @compiled_fast
    def everything(x: jax.Array) -> list[jax.Array]:
        def second(rule: Rule) -> jax.Array:
            pool = values_of(function, **arguments, where=mask, rule=rule)
            gradient = jax.grad(lambda x: (cotangent[:, :, :4] * pool(x) ** 2).sum())
            return jax.jvp(gradient, (x,), (tangent,))[1]

        return [second(rule) for rule in RULES]

    def gradient(sample: np.ndarray, n: int, size: tuple[int, ...]) -> np.ndarray:
        alone = oracle.evaluate(function, sample, **ragged.arguments(options, size))
        return alone.backward(2 * cotangent[n][corner(alone.values.shape)] * alone.values)

    expected = np.zeros(x.shape)
    for n, (sample, size) in enumerate(zip(samples[:-1], ragged.sizes, strict=False)):
        cells = corner(sample.shape)
        step = 1e-5 * tangent[n][cells]
        expected[n][cells] = (gradient(sample + step, n, size) - gradient(sample - step, n, size)) / 2e-5
    for one in everything(x):
        np.testing.assert_allclose(one, expected, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(np.where(mask, 0, one), 0)
