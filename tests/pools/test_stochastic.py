"""Draws: frequencies match the probabilities, values and derivatives agree on the drawn cell, and means of draws."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool import stochastic_pool
from tests.harness.compilation import compiled_fast
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

WINDOW: dict[str, Any] = {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0)}
# Windows of more cells are folded in a loop.
LARGE: dict[str, Any] = {"kernel_size": (9, 9), "stride": 2}


def windows_of(x: np.ndarray, kernel: tuple[int, int], stride: Any, padding: Any = (0, 0)) -> np.ndarray:
    """The number of each cell of every window, -1 for padding."""
    numbers = np.pad(np.arange(x.size).reshape(x.shape), [(one, one) for one in padding], constant_values=-1)
    views = np.lib.stride_tricks.sliding_window_view(numbers, kernel)
    steps = (stride, stride) if isinstance(stride, int) else stride
    return views[:: steps[0], :: steps[1]].reshape(-1, kernel[0] * kernel[1])


@pytest.mark.parametrize("window", [WINDOW, LARGE], ids=["small", "large"])
def test_frequencies(window: dict[str, Any]) -> None:
    shape = (5, 3) if window is WINDOW else (11, 9)
    x = np.random.default_rng(0).permutation(shape[0] * shape[1]).reshape(shape).astype(np.float32) - 4
    count = 10_000
    keys = jax.random.split(jax.random.key(1), count)
    drawn = np.asarray(compiled_fast(jax.vmap(lambda key: stochastic_pool(x, **window, key=key)))(keys))
    cells = windows_of(x, window["kernel_size"], window["stride"], window.get("padding", (0, 0)))
    for found, held in zip(drawn.reshape(count, -1).T, cells, strict=True):
        numbers = x.ravel()[held[held >= 0]]
        positive = np.sort(numbers[numbers > 0])
        expected = positive / positive.sum() * count
        seen = np.array([(found == number).sum() for number in positive])
        assert seen.sum() == count
        # Chi-square: mean and variance are the degrees of freedom and twice that; this far out is one in 10⁹.
        freedom = len(positive) - 1
        assert ((seen - expected) ** 2 / expected).sum() < freedom + 7 * np.sqrt(2 * freedom + 1) + 20


@pytest.mark.parametrize(
    ("window", "rule"),
    [
        pytest.param(WINDOW, "jvp", id="small"),
        pytest.param(LARGE, "vjp", id="large"),
        pytest.param(LARGE, "jvp", id="large, jvp", marks=pytest.mark.slow),
    ],
)
def test_derivatives_are_at_the_cells_drawn(window: dict[str, Any], rule: Any) -> None:
    shape = (11, 9)
    x, tangent = np.random.default_rng(0).permutation(99).reshape(shape) - 20.0, distinct(shape, "tangent")
    mask = np.random.default_rng(1).random(shape) < 0.8
    pool = partial(stochastic_pool, **window, key=jax.random.key(5), where=mask, rule=rule)

    def both(x: jax.Array, tangent: jax.Array) -> Any:
        values, pull_back = jax.vjp(pool, x)
        forward = jax.jvp(pool, (x,), (tangent,))[1] if rule == "jvp" else jnp.zeros_like(values)
        return values, pull_back(jnp.arange(1.0, values.size + 1).reshape(values.shape))[0], forward

    values, gradient, forward = (np.asarray(one) for one in compiled_fast(both)(np.where(mask, x, np.nan), tangent))
    expected, along = np.zeros(x.size), np.zeros(values.size)
    windows = windows_of(x, window["kernel_size"], window["stride"], window.get("padding", (0, 0)))
    for number, (value, held) in enumerate(zip(values.ravel(), windows, strict=True)):
        positive = [place for place in held if place >= 0 and x.flat[place] > 0 and mask.flat[place]]
        # Windows without a positive cell give 0, which is also a cell of x.
        assert value in (x.ravel()[positive] if positive else [0])
        for place in positive:
            if x.flat[place] == value:
                expected[place] += number + 1
                along[number] = tangent.flat[place]
    np.testing.assert_array_equal(gradient.ravel(), expected)
    np.testing.assert_array_equal(forward.ravel(), along if rule == "jvp" else 0)


def test_special_cells() -> None:
    x = jnp.array([[-1.0, 0.0, -2.0], [1.0, jnp.inf, 5.0], [2.0, jnp.nan, jnp.nan], [1e38, 3e38, 2e38], [1e-40, 0, 0]])
    draw = partial(stochastic_pool, kernel_size=(3,))
    for key in jax.random.split(jax.random.key(0), 5):
        values, gradient = jax.value_and_grad(lambda x, key=key: draw(x, key=key).sum())(x)
        drawn = draw(x, key=key)[:, 0]
        assert np.isnan(values)
        assert drawn[0] == 0
        assert np.isinf(drawn[1])
        assert np.isnan(drawn[2])
        assert drawn[3] in x[3]
        np.testing.assert_array_equal(gradient[:3], [[0, 0, 0], [0, 1, 0], [0, 1, 0]])
    means = draw(x)[:, 0]
    np.testing.assert_array_equal(means[:3], [0, np.inf, np.nan])
    integers = draw(jnp.array([0, 3, 0, -1, -2, -3], jnp.int8), key=jax.random.key(0))
    assert integers.dtype == jnp.int8
    assert integers.tolist() == [3, 0]
    assert draw(jnp.array([0, 3, 1], jnp.int8)).tolist() == [2.5]


def test_a_single_row_of_many_cells() -> None:
    # As many cells as a byte can number, in an array of two axes.
    x = jnp.abs(jnp.sin(jnp.arange(600.0))).reshape(2, 300)
    gradient = jax.grad(lambda x: stochastic_pool(x, (1, 256), 1, key=jax.random.key(0)).sum())(x)
    assert gradient.sum() == 2 * 45


def test_one_key_under_vmap_draws_alike_for_every_item() -> None:
    rows, key = np.tile(np.arange(1.0, 33), (3, 1)), jax.random.key(0)
    shared = np.asarray(jax.vmap(lambda row: stochastic_pool(row, (4,), key=key))(rows))
    assert (shared == shared[0]).all()
    split = jax.vmap(lambda row, key: stochastic_pool(row, (4,), key=key))(rows, jax.random.split(key, 3))
    for drawn in (np.asarray(split), np.asarray(stochastic_pool(rows, (4,), key=key))):
        assert (drawn != drawn[0]).any()
