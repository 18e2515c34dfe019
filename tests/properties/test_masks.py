"""Masks: a cell that `where` leaves out never wins, adds nothing and is never counted, however the mask is given.

Masked cells hold values that would win or spread if they counted. Ragged batches are in a separate file.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._arguments import Rule
from tests.harness.compilation import compiled_fast
from tests.harness.parts import MECHANISMS, case_row, crossed
from tests.reference import oracle
from tests.registry.calls import MOMENTS, ORDERED
from tests.registry.cases import PLAIN, Case

pytestmark = pytest.mark.usefixtures("for_this_platform")

RULES: tuple[Rule, ...] = ("jvp", "vjp")
INF, NAN = math.inf, math.nan


def values_of(function: str, **arguments: Any) -> Callable[..., jax.Array]:
    return lambda x, **more: jax.tree.leaves(getattr(jaxpool, function)(x, **arguments, **more))[0]


LOWEST: dict[str, tuple[str, dict[str, Any]]] = {
    "overlapping": ("max_pool", {"kernel_size": (3, 3), "stride": 2, "padding": 1}),
    "disjoint": ("max_pool", {"kernel_size": (2, 4)}),
    "one axis": ("max_pool", {"kernel_size": (4,)}),
    "wide": ("max_pool", {"kernel_size": 9, "stride": 1, "padding": 4, "axis": 2}),
    "whole": ("max_pool", {"kernel_size": (6, 8)}),
    # One byte numbers 256 cells, but not an empty window.
    "256 cells": ("max_pool", {"kernel_size": (16, 16), "padding": (5, 4)}),
    "bins": ("adaptive_max_pool", {"output_size": (4, 3)}),
}


def lowest_planes(lowest: float, highest: float) -> tuple[np.ndarray, np.ndarray]:
    """Planes of the lowest number, with few others or none; masked cells, including the first, hold the highest.

    In one plane nothing is masked; in another everything is.
    """
    random = np.random.default_rng(0)
    x = np.where(random.random((4, 6, 8)) < [[[0.0]], [[0.1]], [[0.0]], [[0.1]]], 1.0, lowest)
    mask = random.random((4, 6, 8)) < [[[0.4]], [[0.6]], [[1.0]], [[0.0]]]
    mask[:2, :3, :2] = False
    return np.where(mask, x, highest), mask


# By default every layout runs on both platforms, in one dtype on each.
@pytest.mark.parametrize(
    ("platform", "layout", "dtype"),
    [
        case_row(platform, layout, dtype, id=f"{platform}-{layout}-{jnp.dtype(dtype).name}", kept=kept)
        for number, dtype in enumerate((np.float32, jnp.bfloat16))
        for layout, platform, kept in crossed([*LOWEST], ("cpu", "gpu"), 2)
        for kept in [kept == (number == 0)]
    ],
)
def test_masked_cells_never_win(platform: str, layout: str, dtype: Any) -> None:
    function, parameters = LOWEST[layout]
    names: list[tuple[str, Rule]] = [(function, "jvp"), (function, "vjp"), (f"{function}_with_indices", "jvp")]
    if function == "max_pool":
        names.append(("min_pool", "jvp"))
    planes, mask = lowest_planes(-INF, INF)
    planes[0, 0, :2] = NAN, -INF
    # These sums of small integers are exact in every dtype.
    tangent = np.resize(np.arange(1, 252), planes.shape)
    expected = oracle.evaluate(function, planes, **parameters, where=mask)
    cotangent = np.resize(np.arange(1, 14), expected.values.shape)

    @compiled_fast
    def everything(x: jax.Array, mask: jax.Array, tangent: jax.Array, cotangent: jax.Array) -> Any:
        found = []
        for name, rule in names:
            sign = -1 if name == "min_pool" else 1
            pool = values_of(name, **parameters, where=mask, rule=rule)
            values, pull_back = jax.vjp(pool, sign * x)
            values_dot = jax.jvp(pool, (sign * x,), (tangent,))[1] if rule == "jvp" else None
            found.append((sign * values, pull_back(cotangent)[0], values_dot))
        return found, getattr(jaxpool, names[2][0])(x, **parameters, where=mask)[1]

    arrays = [jnp.asarray(one).astype(dtype) for one in (planes, tangent, cotangent)]
    with jaxpool.compiling_for(platform):
        found, indices = everything(arrays[0], jnp.asarray(mask), *arrays[1:])
    expectations = expected.values, expected.backward(cotangent), expected.forward(tangent)
    for name, results in zip(names, found, strict=True):
        for result, expectation in zip(results, expectations, strict=True):
            if result is not None:
                np.testing.assert_array_equal(result.astype(np.float64), expectation, err_msg=str(name))
    np.testing.assert_array_equal(indices, expected.indices)


@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.bool_])
def test_masked_integers_never_win(dtype: Any) -> None:
    lowest, highest = (0, 1) if dtype is np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    planes, mask = lowest_planes(lowest, highest)

    @compiled_fast
    def everything(x: jax.Array, mask: jax.Array) -> Any:
        return [
            [getattr(jaxpool, f"{function}{suffix}")(x, **parameters, where=mask) for suffix in ("", "_with_indices")]
            for function, parameters in LOWEST.values()
        ]

    found = everything(jnp.asarray(planes.astype(dtype)), jnp.asarray(mask))
    for (function, parameters), (values, outputs) in zip(LOWEST.values(), found, strict=True):
        expected = oracle.evaluate(function, planes, **parameters, where=mask)
        np.testing.assert_array_equal(values, expected.values)
        np.testing.assert_array_equal(outputs[0], expected.values)
        np.testing.assert_array_equal(outputs[1], expected.indices)


each_mechanism_first = pytest.mark.parametrize(
    "case", [case_row(case, id=name, kept=name in MECHANISMS) for name, case in PLAIN.items()]
)
LINEAR = ("sum_pool", "avg_pool", "adaptive_avg_pool", "global_avg_pool")


@pytest.mark.parametrize(
    "dtypes",
    [
        pytest.param((jnp.bfloat16, np.int8), id="small"),
        pytest.param((np.float64, np.bool_, np.complex64), id="others", marks=pytest.mark.slow),
    ],
)
@each_mechanism_first
def test_empty_windows(case: Case, dtypes: tuple[Any, ...]) -> None:
    if case.function not in LINEAR:
        dtypes = tuple(dtype for dtype in dtypes if dtype is not np.complex64)
    # The first plane is masked, the second is not; the declared padding of a masked plane does not count as a cell.
    options = {"count_include_pad": False} if case.function == "smooth_max_pool" else {}
    masked = values_of(case.function, **case.parameters, **options, where=np.array([[[False]], [[True]]]))
    plain = values_of(case.function, **case.parameters, **options)

    def one(x: jax.Array) -> Any:
        outputs = case.call(x, **case.parameters, **options, where=np.array([[[False]], [[True]]]))
        indices = outputs[1][0] if isinstance(outputs, tuple) else jnp.array(-1)
        linear = []
        if jnp.issubdtype(x.dtype, jnp.inexact):
            ones = jnp.ones_like(plain(x))
            linear = [jax.vjp(partial(masked, rule=rule), x)[1](ones)[0][0] for rule in RULES]
            linear.append(jax.jvp(masked, (x,), (jnp.ones_like(x),))[1][0])
        return masked(x), plain(x), indices, linear

    @compiled_fast
    def everything(inputs: list[jax.Array]) -> Any:
        return [one(x) for x in inputs]

    def highest(dtype: Any) -> Any:
        return NAN if jnp.issubdtype(dtype, jnp.inexact) else dtype is np.bool_ or np.iinfo(dtype).max

    inputs = [jnp.array(np.array([np.full((7, 6), highest(dtype)), np.ones((7, 6))]).astype(dtype)) for dtype in dtypes]
    for values, unmasked, indices, linear in everything(inputs):
        assert values.dtype == unmasked.dtype
        assert not values[0].any()
        assert unmasked.all() or case.function in MOMENTS
        np.testing.assert_allclose(values[1].astype(complex), unmasked[1].astype(complex), rtol=1e-3)
        assert (indices == -1).all()
        assert not any(part.any() for part in linear)


@each_mechanism_first
def test_traced_masks(case: Case) -> None:
    random = np.random.default_rng(0)
    xs = np.stack([case.x, -case.x, case.x[::-1]])
    masks = random.random(xs.shape) < 0.5
    masks[:, 0, :3, :3] = False
    weights = random.uniform(1, 2, case.expected.values.shape)

    def one(x: jax.Array, mask: jax.Array) -> Any:
        values, pull_back = jax.vjp(values_of(case.function, **case.parameters, where=mask), x)
        return values, pull_back(weights)[0]

    @compiled_fast
    def everything(xs: jax.Array, masks: jax.Array) -> dict[str, Any]:
        return {
            "both batched": jax.vmap(one)(xs, masks),
            "mask batched": jax.vmap(one, (None, 3))(xs[0], jnp.moveaxis(masks, 0, 3)),
            "x batched": jax.vmap(one, (0, None))(xs, masks[0]),
            "scan": jax.lax.scan(lambda _, both: (None, one(*both)), None, (xs, masks))[1],
        }

    for name, (values, gradients) in everything(xs, masks).items():
        for n, (value, gradient) in enumerate(zip(values, gradients, strict=True)):
            x, mask = xs[0 if name == "mask batched" else n], masks[0 if name == "x batched" else n]
            expected = oracle.evaluate(case.function, x, **case.parameters, where=mask)
            np.testing.assert_allclose(value, expected.values, rtol=1e-12, atol=1e-13, err_msg=name)
            np.testing.assert_allclose(gradient, expected.backward(weights), rtol=1e-12, atol=1e-13, err_msg=name)


@each_mechanism_first
def test_masks_of_fewer_axes(case: Case) -> None:
    # Cells of equal magnitude, so that winners also show which cells a mask keeps. The first mask has an empty window.
    small = [np.array([[True]] * 3 + [[False]] * 4), np.array([[[True] * 3 + [False] * 3]] * 2)]
    small += [np.array([False]), np.array(True)]

    def one(x: jax.Array, where: Any) -> Any:
        def values_first(x: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
            values, *indices = jax.tree.leaves(case.call(x, **case.parameters, where=where))
            return values, indices

        values, pull_back, indices = jax.vjp(values_first, x, has_aux=True)
        return values, indices, pull_back(jnp.ones_like(values))[0]

    @compiled_fast
    def everything(x: jax.Array, small: list[jax.Array], full: list[jax.Array]) -> Any:
        constants = [one(x, where) for where in (None, True, np.bool_(False))]
        # The results of masks with a single entry are compared with constants.
        return constants, [one(x, where) for where in small], [one(x, where) for where in full[:2]]

    def same(left: Any, right: Any) -> None:
        for first, second in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
            if case.function in ORDERED:
                np.testing.assert_array_equal(first, second)
            else:
                np.testing.assert_allclose(first, second, rtol=1e-13, atol=1e-14)

    x = np.sign(case.x) * 0.5
    (plain, true, false), narrow, wide = everything(x, small, [np.broadcast_to(where, x.shape) for where in small])
    same(narrow[:2], wide)
    same(true, plain)
    same(narrow[-1], plain)
    same(narrow[-2], false)
