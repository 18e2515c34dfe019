"""One winner: value, index, JVP and VJP name the same cell of every window, the first one, and never padding.

Planes of infinities, ties, NaN and zeros of both signs are side by side in one array, so that one compiled program sees
all of them. The windows cover every lowering of selection and routing: slices, pieces, blocks, bins and a single
window, with and without masks.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxpool
from jaxpool._arguments import Rule
from jaxpool._engine import cpu, gpu
from jaxpool._engine.winners import PlatformSelection, route_to_winners
from jaxpool._geometry.window import make_window
from tests.harness.compilation import compiled_fast
from tests.reference import sliding
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

INF, NAN = math.inf, math.nan
HEIGHT, WIDTH = 15, 34


def planes() -> np.ndarray:
    """Planes of one number; of a few, in every mixture with ties; of the lowest with one other; of distinct ones."""
    random = np.random.default_rng(0)
    shape = (HEIGHT, WIDTH)
    made = [np.full(shape, number) for number in (-INF, INF, NAN, 0.0, 7.0)]
    mixtures = ([-INF, INF], [-INF, NAN], [-INF, 0.0], [INF, 0.0], [0.0, -0.0], [0.0, 1.0, 2.0], [-INF, INF, NAN, 0.0])
    made += [random.choice(mixture, shape) for mixture in mixtures]
    for other in (0.0, NAN):
        rare = np.full(shape, -INF)
        rare[random.random(shape) < 0.02] = other
        made += [rare, -rare]
    ramp = np.arange(HEIGHT * WIDTH)
    made += [one.reshape(shape) for one in (random.permutation(ramp), ramp, -ramp)]
    return np.stack(made).astype(np.float32)


SLIDING: dict[str, dict[str, Any]] = {
    "2": {"kernel_size": (2, 2)},
    "2 stride 1": {"kernel_size": (2, 2), "stride": 1, "padding": 1},
    "2 in rows": {"kernel_size": (2,), "stride": 1, "padding": ((1, 0),)},
    "3": {"kernel_size": (3, 3), "stride": 2, "padding": 1},
    "3 stride 1": {"kernel_size": (3, 3), "stride": 1, "padding": ((2, 0), (0, 2))},
    "3 with gaps": {"kernel_size": (3, 2), "stride": (4, 5), "padding": (1, 0)},
    "9": {"kernel_size": (9,), "stride": 1, "padding": 4},
    "9 in planes": {"kernel_size": (9, 9), "stride": (4, 3), "padding": (4, 0)},
    "13": {"kernel_size": (13, 5), "stride": (1, 2), "padding": ((6, 3), (0, 4))},
    "31": {"kernel_size": (31,), "stride": 1, "padding": 15},
    "31 in planes": {"kernel_size": (5, 31), "stride": (2, 3), "padding": (2, 15)},
    "dilated": {"kernel_size": (3, 2), "stride": (1, 2), "dilation": (2, 5), "padding": (3, 2)},
    "dilated 9": {"kernel_size": (9,), "stride": 1, "dilation": 3, "padding": 12},
    "blocks": {"kernel_size": (5, 17)},
    "padded blocks": {"kernel_size": (6, 9), "padding": ((3, 0), (1, 1))},
    "one row": {"kernel_size": (1, 11), "stride": (2, 1), "padding": (0, 5)},
    "one window": {"kernel_size": (HEIGHT, WIDTH)},
}
BINS: dict[str, dict[str, Any]] = {
    "bins": {"output_size": (4, 5)},
    "wide bins": {"output_size": (2, 3)},
    "more bins than cells": {"output_size": (20, None)},
}
LAST = ("2 stride 1", "3", "9 in planes", "blocks", "bins", "whole")
CALLS = (
    [("max_pool", name, "all") for name in SLIDING]
    + [("max_pool", name, "masked") for name in ("2", "3", "3 with gaps", "9 in planes", "31", "dilated", "blocks")]
    + [
        ("min_pool", name, "masked" if name == "dilated" else "all")
        for name in ("3 stride 1", "9", "dilated", "padded blocks")
    ]
    + [("adaptive_max_pool", name, "masked" if name == "bins" else "all") for name in BINS]
    + [("global_max_pool", "whole", kept) for kept in ("all", "masked")]
)


def arguments(name: str) -> dict[str, Any]:
    """The arguments of a call with explicit axes: the last two, or the first two for channels last."""
    given = {**SLIDING, **BINS, "whole": {}}[name]
    pooled = given.get("kernel_size", given.get("output_size", (0, 0)))
    sizes = {"output_size": (20, WIDTH)} if name == "more bins than cells" else {}
    return {**given, **sizes, "axis": ((0, 1) if name in LAST else (1, 2))[-len(pooled) :]}


@pytest.mark.parametrize(("function", "name", "kept"), CALLS)
def test_everything_names_the_first_winner(function: str, name: str, kept: str) -> None:
    parameters, x = arguments(name), planes()
    if function == "min_pool":
        x = -x
    mask = np.random.default_rng(1).random((HEIGHT, WIDTH)) < 0.6
    mask[:4, :4] = False
    where = np.broadcast_to(mask, x.shape) if kept == "masked" else np.full(x.shape, True)
    if name in LAST:
        x, where = np.moveaxis(x, 0, -1), np.moveaxis(where, 0, -1)
    if kept == "masked":
        # Masked cells hold what would win if it counted.
        x = np.where(where, x, np.float32(NAN))
        parameters["where"] = where
    windows = sliding.tables(x.shape, **parameters)
    values, winners = sliding.first_winners(x, windows, largest=function != "min_pool", where=where)
    tangent = (distinct(x.shape, name, x.size) + 0.75).astype(np.float32)
    others = {"max_pool": jaxpool.max_pool_with_indices, "adaptive_max_pool": jaxpool.adaptive_max_pool_with_indices}
    with_indices = others.get(function)

    @compiled_fast
    def everything(x: jax.Array, tangent: jax.Array) -> Any:
        # The rules share their maps.
        rules: tuple[Rule, ...] = ("jvp", "vjp") if kept == "masked" else ("jvp",)
        pools = [partial(getattr(jaxpool, function), **parameters, rule=rule) for rule in rules]
        found, pull_backs = zip(*(jax.vjp(pool, x) for pool in pools), strict=True)
        gradients = [pull_back(jnp.ones_like(found[0]))[0] for pull_back in pull_backs]
        indices = None if with_indices is None else with_indices(x, **parameters)
        return found, jax.jvp(pools[0], (x,), (tangent,))[1], gradients, indices

    found, values_dot, gradients, indices = everything(x, tangent)
    for result in found:
        np.testing.assert_array_equal(result, values)
    np.testing.assert_array_equal(values_dot, sliding.at_winners(tangent, winners, windows))
    expected = sliding.to_winners(np.ones(winners.shape), winners, windows, x.shape)
    for gradient in gradients:
        np.testing.assert_array_equal(gradient, expected)
    # No cotangent is lost, except to windows without cells.
    assert expected.sum() == (winners >= 0).sum()
    if indices is not None:
        np.testing.assert_array_equal(indices[0], values)
        np.testing.assert_array_equal(indices[1], winners)


def test_long_windows_of_many_sizes() -> None:
    # Every size is divided into pieces of its own.
    random = np.random.default_rng(0)
    ramp = np.arange(300)
    x = np.stack([random.permutation(ramp), ramp, -ramp, random.integers(0, 9, 300)]).astype(np.float32)
    for kernel, stride, dilation in (
        *((kernel, 1, 1) for kernel in (9, 10, 15, 17, 31, 37, 63, 64, 65, 100, 257)),
        *((kernel, 3, 2) for kernel in (11, 31, 70)),
    ):
        parameters: dict[str, Any] = {"kernel_size": (kernel,), "stride": stride, "padding": kernel // 2}
        parameters |= {"dilation": dilation, "axis": 1}
        windows = sliding.tables(x.shape, **parameters)
        values, winners = sliding.first_winners(x, windows)
        cotangent = np.arange(1, values.size + 1).reshape(values.shape).astype(np.float32)

        @compiled_fast
        def both(x: jax.Array, cotangent: jax.Array, parameters: Any = parameters) -> Any:
            found, pull_back = jax.vjp(partial(jaxpool.max_pool, **parameters), x)
            return found, *pull_back(cotangent)

        found, gradient = both(x, cotangent)
        np.testing.assert_array_equal(found, values)
        expected = sliding.to_winners(cotangent, winners, windows, x.shape)
        np.testing.assert_array_equal(gradient, expected, f"kernel {kernel}, stride {stride}")


# Operation by operation, since within a program a CPU keeps more than 16 bits anyway.
@pytest.mark.parametrize("selection", [cpu.SELECTION, gpu.SELECTION], ids=["cpu", "gpu"])
def test_cotangents_of_one_winner_are_rounded_once(selection: PlatformSelection) -> None:
    # The cell in the middle wins all windows. In 16 bits the small cotangents added to 1 would be lost one by one,
    # whether they come before or after it.
    window = make_window("test", (17,), (9,), 1, 0, 1, False, None)
    cotangent = np.where(np.arange(9) == 4, 1, 2.0**-8).astype(jnp.bfloat16)
    offsets = np.arange(9)[::-1].astype(np.uint8)
    found = route_to_winners(jnp.asarray(cotangent), (jnp.asarray(offsets),), selection, (window,))
    assert found.dtype == jnp.bfloat16
    assert found.tolist() == [0] * 8 + [1 + 2**-5] + [0] * 8


def test_gradients_of_the_platform_go_into_padding() -> None:
    # A control: the assertion above can fail.
    def pool(x: jax.Array) -> jax.Array:
        return lax.reduce_window(x, -np.float32(INF), lax.max, (1, 3, 3), (1, 2, 2), ((0, 0), (1, 1), (1, 1)))

    x = planes()[:1]
    windows = sliding.tables(x.shape, axis=(1, 2), **SLIDING["3"])
    _, winners = sliding.first_winners(x, windows)
    gradient = jax.grad(lambda x: pool(x).sum())(jnp.asarray(x))
    assert (winners >= 0).all()
    assert gradient.sum() < winners.size


@pytest.mark.parametrize(
    "window",
    [
        {"kernel_size": (6, 8)},
        {"kernel_size": (1, 4)},
        {"kernel_size": (3, 3), "stride": 1},
        {"kernel_size": jaxpool.bins(5, 1)},
    ],
    ids=["whole", "blocks", "overlapping", "bins"],
)
@pytest.mark.parametrize("pool", ["max_pool_with_indices", "min_pool_with_indices"])
def test_zeros_are_those_that_indices_name(pool: str, window: dict[str, Any]) -> None:
    zeros = np.random.default_rng(0).choice([0.0, -0.0], (9, 6, 8)).astype(np.float32)
    values, indices = compiled_fast(partial(getattr(jaxpool, pool), **window))(zeros)
    named = np.take_along_axis(zeros.reshape(9, -1), np.asarray(indices).reshape(9, -1), 1)
    assert 0 < np.signbit(named).sum() < named.size
    np.testing.assert_array_equal(np.signbit(values).reshape(9, -1), np.signbit(named))
