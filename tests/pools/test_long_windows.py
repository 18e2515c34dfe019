"""Windows with many cells along an axis, which weighted pools take over pieces, and windows that hold whole axes.

Both are compared with the reference; learnt numbers with the same pool where its axes lie apart.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._geometry.pieces import Pieces, divide_window
from jaxpool._geometry.window import make_window
from tests.harness.compilation import compiled_fast
from tests.harness.parts import case_row, crossed
from tests.reference import oracle
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

# One number per channel, which come first.
P, BETA = np.array([[1.5], [3.0]]), np.array([[0.7], [-2.0]])
POOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "norm 2": ("lp_pool", {"norm_type": 2.0}),
    "norm 2.5": ("lp_pool", {"norm_type": 2.5}),
    "learnt norms": ("gem_pool", {"norm_type": P}),
    "smooth": ("smooth_max_pool", {"beta": 2.0}),
    "sharp": ("smooth_max_pool", {"beta": -3000.0}),
    "learnt smooth": ("smooth_max_pool", {"beta": BETA}),
    "mellowmax": ("mellowmax_pool", {"beta": 2.0}),
    "learnt mellowmax": ("mellowmax_pool", {"beta": BETA}),
    "soft": ("soft_pool", {"beta": 2.0}),
    "sharp soft": ("soft_pool", {"beta": 3000.0}),
    "learnt soft": ("soft_pool", {"beta": BETA}),
    "means of draws": ("stochastic_pool", {}),
}
GEOMETRIES: dict[str, dict[str, Any]] = {
    "stride 1": {"kernel_size": (35,), "stride": 1, "padding": ((17, 20),)},
    "longer than the array": {"kernel_size": (131,), "stride": 1, "padding": ((65, 65),)},
    "strides and gaps": {"kernel_size": (67,), "stride": 6, "padding": 5, "dilation": 2, "ceil_mode": True},
    "few windows": {"kernel_size": (149,), "stride": 1},
    "masked": {"kernel_size": (66,), "stride": 4, "padding": 3, "where": np.arange(150) % 7 < 4},
}
SIZES = {"longer than the array": 60, "strides and gaps": 190}


def call(name: str, geometry: str, x: Any, **others: Any) -> jax.Array:
    function, options = POOLS[name]
    return getattr(jaxpool, function)(x, **options, **GEOMETRIES[geometry], **others)


def cells(geometry: str) -> np.ndarray:
    return distinct((2, SIZES.get(geometry, 150)), geometry)


@pytest.mark.parametrize(
    ("name", "geometry"),
    [case_row(*pair, id="-".join(pair), kept=kept) for *pair, kept in crossed([*POOLS], GEOMETRIES, 5)],
)
def test_values_and_derivatives(name: str, geometry: str) -> None:
    x = cells(geometry)
    function, options = POOLS[name]
    expected = oracle.evaluate(function, x, **options, **GEOMETRIES[geometry])
    tangent, cotangent = distinct(x.shape, "tangent"), distinct(expected.values.shape, "cotangent")

    def everything(x: Any, tangent: Any, cotangent: Any) -> Any:
        values, pull_back = jax.vjp(lambda x: call(name, geometry, x), x)
        return values, pull_back(cotangent)[0], jax.jvp(lambda x: call(name, geometry, x), (x,), (tangent,))[1]

    values, gradient, values_dot = compiled_fast(everything)(x, tangent, cotangent)
    close: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10 * (3000 if "sharp" in name else 1)}
    np.testing.assert_allclose(values, expected.values, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(gradient, expected.backward(cotangent), **close)
    np.testing.assert_allclose(values_dot, expected.forward(tangent), **close)


@pytest.mark.parametrize("name", ["norm 2.5", "mellowmax", "sharp soft", "learnt soft"])
def test_nan_and_infinities_stay_in_their_windows(name: str) -> None:
    # Pieces of 4 cells reach from one window into the next.
    x = cells("strides and gaps")[:, :180]
    x[0, 69], x[1, 100] = np.nan, np.inf
    function, options = POOLS[name]
    sizes = {"kernel_size": (67,), "stride": 1 if name == "mellowmax" else 69}

    def derivatives(x: Any) -> Any:
        values, pull_back = jax.vjp(lambda x: getattr(jaxpool, function)(x, **options, **sizes), x)
        return values, pull_back(jnp.ones_like(values))[0]

    values, gradient = map(np.asarray, compiled_fast(derivatives)(x))
    starts = np.arange(values.shape[1]) * sizes["stride"]
    holds = (starts <= 69) & (starts + 67 > 69)
    reached = np.zeros(x.shape[1], bool)
    for start in starts[holds]:
        reached[start : start + 67] = True
    np.testing.assert_array_equal(np.isnan(values[0]), holds)
    np.testing.assert_array_equal(np.isnan(gradient[0]), reached)
    assert not np.isnan(values[1]).any()
    assert not np.isnan(gradient[1]).any()
    expected, _ = compiled_fast(derivatives)(np.where(np.isnan(x), 1, x))
    np.testing.assert_array_equal(values[0, ~holds], expected[0, ~holds])


@pytest.mark.parametrize("pool", ["lp_pool", "gem_pool", "smooth_max_pool", "mellowmax_pool", "soft_pool"])
def test_a_number_for_each_window(pool: str) -> None:
    x, numbers = jnp.asarray(distinct((40,), "numbers")), jnp.linspace(0.5, 3, 6)
    weights = jnp.cos(jnp.arange(6))

    def at_once(x: jax.Array, numbers: jax.Array) -> jax.Array:
        return weights @ getattr(jaxpool, pool)(x, numbers, (35,), 1)

    def one_by_one(x: jax.Array, numbers: jax.Array) -> jax.Array:
        windows = jnp.stack([x[first : first + 35] for first in range(6)])
        return (
            weights
            @ jax.vmap(lambda window, number: getattr(jaxpool, pool)(window, number, (35,)))(windows, numbers)[:, 0]
        )

    found, expected = (compiled_fast(jax.value_and_grad(total, (0, 1)))(x, numbers) for total in (at_once, one_by_one))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-12), found, expected)


def test_a_mean_of_few_cells_that_matter_keeps_its_digits() -> None:
    # The last cell of each first window is a piece by itself, and has all of the weight.
    x = np.zeros((64, 257), np.float32)
    x[:, 256] = np.linspace(8, 24, 64)
    values = compiled_fast(lambda x: jaxpool.mellowmax_pool(x, jnp.ones((), x.dtype), (257,), 1, ((0, 3),)))(x)[:, 0]
    np.testing.assert_allclose(values, np.log((np.exp(x[:, 256].astype(np.float64)) + 256) / 257), rtol=3e-7)


@pytest.mark.parametrize(
    "name", ["learnt norms", "learnt smooth", pytest.param("mellowmax", marks=pytest.mark.slow), "soft"]
)
def test_second_derivatives_and_batches(name: str) -> None:
    x, direction = cells("stride 1"), distinct((2, 150), "direction")
    function, options = POOLS[name]

    def slope(x: Any) -> jax.Array:
        return jax.grad(lambda x: (getattr(jaxpool, function)(x, **options, kernel_size=(40,), stride=1) ** 2).sum())(x)

    def curvature(x: Any) -> Any:
        return jax.jvp(slope, (x,), (direction,))[1]

    found = compiled_fast(jax.vmap(curvature))(np.stack([x, x[:, ::-1]]))
    step = 1e-5
    gradient = compiled_fast(slope)
    for number, one in enumerate((x, x[:, ::-1])):
        expected = (gradient(one + step * direction) - gradient(one - step * direction)) / (2 * step)
        np.testing.assert_allclose(found[number], expected, rtol=1e-5, atol=1e-6)


LEARNT = {
    "gem": (jaxpool.gem_pool, 2.3),
    "lp": (jaxpool.lp_pool, 2.3),
    "smooth": (jaxpool.smooth_max_pool, -1.3),
    "mellowmax": (jaxpool.mellowmax_pool, 0.8),
    "soft": (jaxpool.soft_pool, 0.8),
}
# The pooled axes, and an order of all axes in which they lie apart.
WHOLE: dict[str, tuple[tuple[int, int], tuple[int, ...], dict[str, Any]]] = {
    "first": ((2, 3), (2, 0, 3, 1), {"kernel_size": (5, 6)}),
    "last": ((0, 1), (0, 2, 1, 3), {"kernel_size": (4, 3)}),
    "masked": ((1, 2), (1, 0, 2, 3), {"kernel_size": (3, 5), "where": np.arange(5)[:, None] % 3 < 2}),
    # The window starts in the padding and does not hold the last cells.
    "padded": ((2, 3), (2, 0, 3, 1), {"kernel_size": (5, 6), "padding": ((1, 0), (1, 0)), "count_include_pad": False}),
}


@pytest.mark.parametrize(
    ("name", "layout"),
    [case_row(*pair, id="-".join(pair), kept=kept) for *pair, kept in crossed([*LEARNT], [*WHOLE], 4)],
)
def test_windows_that_hold_whole_axes(name: str, layout: str) -> None:
    x, direction = distinct((4, 3, 5, 6), "whole"), distinct((4, 3, 5, 6), "direction")
    (function, number), (axis, apart, options) = LEARNT[name], WHOLE[layout]

    def everything(order: tuple[int, ...], x: Any, number: Any, direction: Any) -> Any:
        where = options.get("where")
        given = {**options, "axis": tuple(map(order.index, axis))}
        if function is jaxpool.lp_pool:
            given.pop("count_include_pad", None)
        if where is not None:
            given["where"] = jnp.broadcast_to(where, x.shape).transpose(order)

        def pool(x: jax.Array, number: jax.Array) -> jax.Array:
            return function(x.transpose(order), number, **given).transpose(np.argsort(order))

        slopes = jax.grad(lambda x, number: jnp.sin(pool(x, number)).sum(), (0, 1))
        primals, tangents = (x, number), (direction, jnp.ones_like(number))
        return jax.jvp(pool, primals, tangents), jax.jvp(slopes, primals, tangents)

    found, expected = (
        compiled_fast(partial(everything, order))(x, np.array(number), direction) for order in ((0, 1, 2, 3), apart)
    )
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-11)


def held(pieces: Pieces, kinds: list[list[np.ndarray]]) -> list[np.ndarray]:
    """The cells of each window."""
    (axis,) = pieces.window.axes
    source = kinds[pieces.kind][pieces.first : pieces.end]
    assert len(source) == axis.size
    numbers = axis.start(np.arange(axis.output))[:, None] + np.arange(axis.kernel) * axis.dilation
    inside = (numbers >= 0) & (numbers < axis.size)
    # Only cells have padding.
    assert pieces.kind == 0 or inside.all()
    none = [np.zeros(0, int)]
    return [np.concatenate([*none, *(source[n] for n in row[here])]) for row, here in zip(numbers, inside, strict=True)]


@pytest.mark.parametrize("stride", [1, 2, 6, 35, 64, 1000])
@pytest.mark.parametrize("kernel", [33, 64, 127, 257, 2049])
@pytest.mark.parametrize("dilation", [1, 3])
def test_pieces_make_up_the_windows(kernel: int, stride: int, dilation: int) -> None:
    low, size = kernel // 3, 3 * kernel * dilation
    window = make_window("pool", (size,), (kernel,), stride, ((low, 5),), dilation, False, None)
    division = divide_window(window)

    kinds = [list(np.arange(size)[:, None])]
    for pieces in division.kinds:
        kinds.append(held(pieces, kinds))
    together = zip(*(held(group, kinds) for group in division.groups), strict=True)
    (axis,) = window.axes
    for start, parts in zip(axis.start(np.arange(axis.output)), together, strict=True):
        expected = start + np.arange(kernel) * dilation
        np.testing.assert_array_equal(np.concatenate(parts), expected[(expected >= 0) & (expected < size)])
