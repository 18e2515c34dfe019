"""One winner: value, index, JVP and VJP name the same cell of every window, the first one, and never padding.

Planes of infinities, ties, NaN and zeros of both signs are side by side in one array, so that one compiled program sees
all of them. The windows are of every kind that some platform selects from, or routes cotangents to, in its own way.
"""

import itertools
import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_fast
from tests.reference import sliding
from tests.registry.cases import distinct
from tests.registry.records import slow_but

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


WINDOWS: dict[str, dict[str, Any]] = {
    "2": {"kernel_size": (2, 2)},
    "2 stride 1": {"kernel_size": (2, 2), "stride": 1, "padding": 1},
    "2 in rows": {"kernel_size": (2,), "stride": 1, "padding": ((1, 0),)},
    "3": {"kernel_size": (3, 3), "stride": 2, "padding": 1},
    "3 stride 1": {"kernel_size": (3, 3), "stride": 1, "padding": ((2, 0), (0, 2))},
    "3 with gaps": {"kernel_size": (3, 2), "stride": (4, 5), "padding": (1, 0)},
    "5": {"kernel_size": (5, 5), "stride": 2, "padding": ((2, 1), (1, 2))},
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
    # One byte numbers their cells, but not an empty window.
    "256 cells": {"kernel_size": (8, 32), "padding": ((4, 0), (16, 0))},
    "bins": {"output_size": (4, 5)},
    "wide bins": {"output_size": (2, 3)},
    "more bins than cells": {"output_size": (20, WIDTH)},
}
LAST = ("2 stride 1", "3", "9 in planes", "31 in planes", "blocks", "bins")
DEFAULT = {("3", "cpu"), ("3", "tpu"), ("9 in planes", "cpu"), ("31 in planes", "gpu"), ("blocks", "gpu")}
DEFAULT |= {("bins", "cpu"), ("dilated", "cpu"), ("one window", "tpu")}


def check_winners(name: str, platform: str, extreme: str, rules: tuple[str, ...], where: np.ndarray | None) -> None:
    """Compare values, indices, tangents and gradients with the first winners of windows in NumPy."""
    # A CPU, which stands in for a TPU, drops NaN of windows without overlap in arrays of 4096 cells or more.
    parameters, x = WINDOWS[name], planes()[2::3] if platform == "tpu" else planes()
    pooled = parameters.get("kernel_size", parameters.get("output_size", ()))
    parameters = {**parameters, "axis": ((0, 1) if name in LAST else (1, 2))[-len(pooled) :]}
    x = -x if extreme == "min" else x
    held = np.broadcast_to(True if where is None else where, x.shape)
    # Masked cells hold what would win if it counted.
    x = np.where(held, x, np.float32(NAN))
    if name in LAST:
        x, held = np.moveaxis(x, 0, -1), np.moveaxis(held, 0, -1)
    windows = sliding.tables(x.shape, **parameters)
    values, winners = sliding.first_winners(x, windows, largest=extreme == "max", where=held)
    tangent = (distinct(x.shape, name, x.size) + 0.75).astype(np.float32)
    cotangent = np.resize(np.arange(1, 8), values.shape).astype(np.float32)
    parameters |= {} if where is None else {"where": held}
    prefix = "adaptive_" if "output_size" in parameters else ""

    def values_of(x: jax.Array, rule: str = "jvp") -> jax.Array:
        return getattr(jaxpool, f"{prefix}{extreme}_pool")(x, **parameters, rule=rule)

    @compiled_fast
    def everything(x: jax.Array, tangent: jax.Array, cotangent: jax.Array) -> Any:
        both = [jax.vjp(partial(values_of, rule=rule), x) for rule in rules]
        gradients = [pull_back(cotangent)[0] for _, pull_back in both]
        indices = getattr(jaxpool, f"{prefix}{extreme}_pool_with_indices")(x, **parameters)
        return [found for found, _ in both], gradients, jax.jvp(values_of, (x,), (tangent,))[1], indices

    with jaxpool.compiling_for(platform):
        found, gradients, values_dot, indices = everything(x, tangent, cotangent)
    for result in (*found, indices[0]):
        np.testing.assert_array_equal(result, values)
    np.testing.assert_array_equal(indices[1], winners)
    np.testing.assert_array_equal(values_dot, sliding.at_winners(tangent, winners, windows))
    expected = sliding.to_winners(cotangent, winners, windows, x.shape)
    # No cotangent is lost, except to windows without cells.
    assert expected.sum() == cotangent[winners >= 0].sum()
    for gradient in gradients:
        np.testing.assert_array_equal(gradient, expected)


ROWS = [(name, platform) for name in WINDOWS for platform in ("cpu", "gpu", "tpu")]
MASKED = ("2", "3", "3 with gaps", "9 in planes", "31", "dilated", "blocks", "bins", "one window", "256 cells")


@pytest.mark.parametrize(("name", "platform"), slow_but(DEFAULT, ROWS))
def test_everything_names_the_first_winner(name: str, platform: str) -> None:
    extreme = "min" if name in ("3 stride 1", "9", "padded blocks") else "max"
    check_winners(name, platform, extreme, ("jvp",), None)


@pytest.mark.parametrize(
    ("name", "platform"),
    slow_but(
        [("3", "gpu"), ("bins", "cpu"), ("256 cells", "cpu")],
        [row for row in ROWS if row[0] in MASKED and row[1] != "tpu"],
    ),
)
def test_everything_names_the_first_winner_that_a_mask_holds(name: str, platform: str) -> None:
    # One for all planes, with windows that it leaves empty, or one for each, of which the last holds nothing.
    mask = np.random.default_rng(1).random((HEIGHT, WIDTH)) < 0.6
    mask[:4, :16] = False
    if name in ("3", "256 cells"):
        mask = np.stack([mask | (number == 0) for number in range(len(planes()))])
        mask[-1] = False
    check_winners(name, platform, "min" if name == "dilated" else "max", ("jvp", "vjp"), mask)


# Kernel, stride and dilation: every size is divided into pieces of its own.
LONG = [(kernel, 1, 1) for kernel in (9, 10, 15, 17, 31, 37, 63, 64, 65, 100, 257)]
LONG += [(11, 3, 2), (31, 3, 2), (70, 3, 2)]


def check_gradient(x: np.ndarray, **parameters: Any) -> None:
    """Compare values, indices and gradient on some cells with the first winners in NumPy."""
    windows = sliding.tables(x.shape, **parameters)
    values, winners = sliding.first_winners(x, windows)
    cotangent = np.arange(1, values.size + 1).reshape(values.shape).astype(np.float32)

    @compiled_fast
    def everything(x: jax.Array, cotangent: jax.Array) -> Any:
        found, pull_back, indices = jax.vjp(partial(jaxpool.max_pool_with_indices, **parameters), x, has_aux=True)
        return found, indices, *pull_back(cotangent)

    gradient = sliding.to_winners(cotangent, winners, windows, x.shape)
    for one, other in zip(everything(x, cotangent), (values, winners, gradient), strict=True):
        np.testing.assert_array_equal(one, other, str(parameters))


@pytest.mark.parametrize(
    ("platform", "sizes"),
    [
        ("cpu", LONG[1::3]),
        pytest.param("cpu", LONG[0::3] + LONG[2::3], marks=pytest.mark.slow),
        pytest.param("gpu", LONG, marks=pytest.mark.slow),
    ],
)
def test_long_windows_of_many_sizes(platform: str, sizes: list[tuple[int, int, int]]) -> None:
    random = np.random.default_rng(0)
    ramp = np.arange(300)
    x = np.stack([random.permutation(ramp), ramp, -ramp, random.integers(0, 9, 300)]).astype(np.float32)
    with jaxpool.compiling_for(platform):
        for kernel, stride, dilation in sizes:
            check_gradient(x, kernel_size=(kernel,), stride=stride, padding=kernel // 2, dilation=dilation, axis=1)


@pytest.mark.parametrize("size", [4, 7, pytest.param(13, marks=pytest.mark.slow), 16])
def test_rows_that_fill_vectors_and_others(size: int) -> None:
    x = np.random.default_rng(size).integers(0, 5, (3, 2, size, size)).astype(np.float32)
    check_gradient(x, kernel_size=(3, 3), stride=1, padding=1, axis=(2, 3))


@pytest.mark.parametrize(
    ("dtype", "platform"),
    slow_but(
        [(jnp.bfloat16, "cpu"), (jnp.bfloat16, "gpu"), (jnp.float16, "tpu")],
        itertools.product((jnp.bfloat16, jnp.float16), ("cpu", "gpu", "tpu")),
    ),
)
def test_cotangents_of_one_winner_are_rounded_once(platform: str, dtype: Any) -> None:
    # In 16 bits the small cotangents that are added to 1 would be lost one by one, before it or after it. Operation by
    # operation, since within a program a CPU keeps more bits anyway.
    limits = jnp.finfo(dtype)
    peak = np.zeros(17, dtype)
    peak[8] = 1
    cotangent = np.where(np.arange(9) == 4, 1, limits.eps / 2).astype(dtype)
    with jaxpool.compiling_for(platform), jax.disable_jit():
        _, pull_back = jax.vjp(lambda x: jaxpool.max_pool(x, (9,), 1), jnp.asarray(peak))
        (found,) = pull_back(jnp.asarray(cotangent))
    assert found.dtype == dtype
    assert found.tolist() == [0] * 8 + [1 + 4 * float(limits.eps)] + [0] * 8


@pytest.mark.parametrize("platform", ["cpu", "gpu", "tpu"])
def test_batches_have_the_same_winners(platform: str) -> None:
    x = planes()

    def weighted(x: jax.Array) -> jax.Array:
        return (jnp.arange(136.0, dtype=x.dtype) * jaxpool.max_pool(x, (3, 3), 2, 1).ravel()).sum()

    with jaxpool.compiling_for(platform):
        found = compiled_fast(jax.vmap(jax.grad(weighted)))(x)
    windows = sliding.tables(x.shape, kernel_size=(3, 3), stride=2, padding=1, axis=(1, 2))
    _, winners = sliding.first_winners(x, windows)
    cotangent = np.broadcast_to(np.arange(136.0).reshape(8, 17), winners.shape)
    np.testing.assert_array_equal(found, sliding.to_winners(cotangent, winners, windows, x.shape))
