"""Padding by copies of the array's own cells: a pool of `np.pad` of the array, with gradients summed over the copies.

The reference pools the array extended by NumPy, and identifies the cell of each copy by extending an array of cell
numbers in the same way.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._geometry.padding import copied_cells
from jaxpool.compat import flax, haiku
from tests.harness.compilation import compiled_fast
from tests.reference import oracle

pytestmark = pytest.mark.usefixtures("for_this_platform")

WORDS = ("WRAP", "REFLECT", "SYMMETRIC", "EDGE")
OPTIONS: dict[str, dict[str, Any]] = {
    "max_pool": {},
    "min_pool": {},
    "max_pool_with_indices": {},
    "min_pool_with_indices": {},
    "sum_pool": {},
    "avg_pool": {"count_include_pad": False},
    "lp_pool": {"norm_type": 3.0},
    "smooth_max_pool": {"beta": 2.0},
}
# The other families, with one of the ways in which axes are padded.
OTHERS: dict[str, dict[str, Any]] = {
    "gem_pool": {"norm_type": 1.5},
    "mellowmax_pool": {"beta": -1.0},
    "soft_pool": {"beta": 1.0},
    "mixed_pool": {"alpha": 0.3},
    "stochastic_pool": {},
    "blur_pool": {},
    "median_pool": {},
    "quantile_pool": {"q": 0.8},
}
SLIDING: dict[str, Any] = {"kernel_size": (3, 2), "stride": 1, "axis": (1, 0)}
# More copies than cells along the last axis.
DILATED: dict[str, Any] = {"kernel_size": (2, 4), "stride": (2, 3), "dilation": (3, 2), "ceil_mode": True}
# Zeros along one axis, copies along the other.
CAUSAL: dict[str, Any] = {"kernel_size": (3, 2), "stride": (2, 1), "dilation": (1, 2), "axis": (0, 1)}
BY_AXIS = ("CAUSAL", ("SYMMETRIC", (4, 1)))
X = np.random.default_rng(0).normal(size=(5, 3))
NUMBERS = np.arange(X.size).reshape(X.shape)
MASK = np.random.default_rng(1).random(X.shape) < 0.7


def by_numpy(array: np.ndarray, padding: Any, kernel_size: Any, dilation: Any = 1, axis: Any = (0, 1), **_: Any) -> Any:
    """The array with (e - 1)//2 more cells before and e//2 after, where e is the extent of a window along the axis.

    An axis with the word "CAUSAL" stays as it is, and a word with amounts extends by these.
    """
    words = (padding,) * len(axis) if isinstance(padding, str) else padding
    for a, word, kernel, step in zip(axis, words, kernel_size, np.broadcast_to(dilation, len(axis)), strict=True):
        extent = int(step) * (kernel - 1) + 1
        mode: Any
        mode, amounts = (word, ((extent - 1) // 2, extent // 2)) if isinstance(word, str) else word
        if mode != "CAUSAL":
            array = np.pad(array, [amounts if b == a else (0, 0) for b in range(array.ndim)], mode=mode.lower())
    return array


@pytest.mark.parametrize(
    ("padding", "window", "masked"),
    [
        ("WRAP", SLIDING, True),
        ("REFLECT", DILATED, False),
        ("EDGE", DILATED, True),
        (BY_AXIS, CAUSAL, False),
        pytest.param(BY_AXIS, CAUSAL, True, marks=pytest.mark.slow),
    ],
)
def test_pools_are_those_of_the_extended_array(padding: Any, window: dict[str, Any], masked: bool) -> None:
    functions = OPTIONS | (OTHERS if padding == BY_AXIS else {})
    calls = {name: {**window, **options} for name, options in functions.items()}
    where = {"where": MASK} if masked else {}
    x, tangent = (np.where(MASK, one, math.nan) if masked else one for one in (X, np.cos(NUMBERS)))

    @compiled_fast
    def everything(x: jax.Array, tangent: jax.Array) -> Any:
        def pooled(x: jax.Array, name: str, rule: str) -> Any:
            both = getattr(jaxpool, name)(x, padding=padding, **calls[name], **where, rule=rule)
            return both if isinstance(both, tuple) else (both, jnp.zeros(0, int))

        return {
            name: (
                *jax.jvp(lambda x: pooled(x, name, "jvp"), (x,), (tangent,), has_aux=True),  # noqa: B023
                jax.grad(lambda x: (pooled(x, name, "vjp")[0] ** 2).sum())(x),  # noqa: B023
            )
            for name in calls
        }

    for name, (values, moved, indices, gradient) in everything(x, tangent).items():
        extend = partial(by_numpy, padding=padding, **calls[name])
        numbers = extend(NUMBERS)
        held = {"where": extend(MASK)} if masked else {}
        added = ((2, 0), (0, 0)) if padding == BY_AXIS else 0
        expected = oracle.evaluate(name, extend(x), padding=added, **calls[name], **held)
        np.testing.assert_allclose(values, expected.values, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(moved, expected.forward(extend(tangent)), atol=1e-12, err_msg=name)
        slopes = expected.backward(2 * expected.values)
        summed = np.bincount(numbers.ravel(), slopes.ravel(), X.size).reshape(X.shape)
        np.testing.assert_allclose(gradient, summed, atol=1e-12, err_msg=name)
        if name.endswith("with_indices"):
            winners = np.where(expected.indices < 0, -1, numbers.ravel()[expected.indices])
            np.testing.assert_array_equal(indices, winners)


@pytest.mark.parametrize("word", WORDS)
def test_copies_are_of_the_cells_that_numpy_copies(word: str) -> None:
    for size in (1, 2, 3, 7):
        for low, high in ((0, 0), (1, 0), (2, 3), (9, 20)):
            found = copied_cells(np.arange(-low, size + high), size, word)
            lowered: Any = word.lower()
            np.testing.assert_array_equal(found, np.pad(np.arange(size), (low, high), mode=lowered))


def test_words_stand_for_amounts() -> None:
    x = jnp.arange(1.0, 10.0)
    for kernel, stride, dilation in ((3, 1, 1), (3, 2, 2), (2, 3, 1), (1, 2, 1)):
        extent = dilation * (kernel - 1) + 1
        low = max(extent - stride, 0)
        amounts: dict[str, Any] = {
            "CAUSAL": (extent - 1, 0),
            "SEMICAUSAL": (low, extent - 1 - low),
            "EDGE": ("EDGE", ((extent - 1) // 2, extent // 2)),
        }
        for ceil_mode in (False, True):
            pool = partial(jaxpool.sum_pool, x, (kernel,), stride, dilation=dilation, ceil_mode=ceil_mode)
            for word, meant in amounts.items():
                written: Any
                for written in (word, word.lower(), (word,), [word.lower()]):
                    np.testing.assert_array_equal(pool(written), pool((meant,)), err_msg=f"{written} {kernel}")


def test_a_word_and_a_pair_are_the_entries_of_two_axes() -> None:
    x = jnp.arange(12.0).reshape(3, 4)
    mirrored = jnp.pad(x, ((1, 1), (0, 0)), mode="reflect")
    found = jaxpool.sum_pool(x, (3, 3), 1, ("REFLECT", (2, 1)))
    np.testing.assert_array_equal(found, jaxpool.sum_pool(mirrored, (3, 3), 1, ((0, 0), (2, 1))))
    assert jaxpool.sum_pool(x[0], (3,), 1, (("REFLECT", (2, 1)),)).shape == (5,)
    assert jaxpool.sum_pool(x[0], (3,), 1, (("WRAP", 2),)).shape == (6,)


def test_stride_1_keeps_the_size_and_padding_beyond_the_array_is_allowed() -> None:
    x = jnp.arange(3.0)
    for kernel in (1, 2, 3, 8):
        for word in WORDS:
            assert jaxpool.sum_pool(x, (kernel,), 1, word).shape == (3,)
    # Both cells of the window are copies.
    one = jaxpool.max_pool_with_indices(jnp.array([7.0]), (2,), padding="REFLECT", dilation=5)
    assert [part.tolist() for part in one] == [[7.0], [0]]


def test_ties_go_to_the_first_cell_of_the_window_which_may_be_a_copy() -> None:
    x = jnp.array([2.0, 1.0, 0.0, 2.0])
    values, indices = jaxpool.max_pool_with_indices(x, (3,), 1, "WRAP")
    assert indices.tolist() == [3, 0, 3, 3]
    assert values.tolist() == [2, 2, 2, 2]


def test_infinities_and_nan_lie_in_the_windows_that_hold_their_copies() -> None:
    x = jnp.array([-jnp.inf, 1.0, 2.0, jnp.nan])
    assert np.isnan(jaxpool.max_pool(x, (3,), 1, "WRAP")).tolist() == [True, False, True, True]
    assert np.isnan(jaxpool.avg_pool(x, (3,), 1, "REFLECT")).tolist() == [False, False, True, True]


IN_16_BITS = ("avg_pool", "lp_pool", "smooth_max_pool", "soft_pool", "stochastic_pool", "blur_pool")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("max_pool", jnp.bfloat16), ("sum_pool", jnp.float16), *((name, jnp.bfloat16) for name in IN_16_BITS)],
)
def test_cotangents_of_copies_are_added_in_float32_and_rounded_once(name: str, dtype: Any) -> None:
    x = jnp.asarray(np.random.default_rng(3).normal(size=(2, 5)), dtype)
    weights = jnp.asarray(np.random.default_rng(4).normal(size=(2, 5)) + 1, dtype)

    def gradient(x: jax.Array) -> jax.Array:
        pool = partial(getattr(jaxpool, name), kernel_size=(9,), stride=1, padding="EDGE", **(OPTIONS | OTHERS)[name])
        values, pull_back = jax.vjp(pool, x)
        return pull_back(weights.astype(values.dtype))[0]

    exact = gradient(x.astype(jnp.float32))
    assert gradient(x).dtype == dtype
    np.testing.assert_array_equal(gradient(x), exact.astype(dtype))


@pytest.mark.every_platform
def test_transformations() -> None:
    pool = partial(jaxpool.max_pool, kernel_size=(3,), stride=1, padding="REFLECT")
    x = jnp.asarray(np.random.default_rng(5).normal(size=(4, 3)))
    for axis in (0, 1):
        mapped = jax.vmap(partial(pool, rule="vjp"), axis, axis)(x)
        np.testing.assert_array_equal(mapped, jnp.moveaxis(pool(jnp.moveaxis(x, axis, 0)), 0, axis))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(partial(pool, rule="vjp"), (x,), (x,))
    (batch,) = jax.export.symbolic_shape("batch")
    exported = jax.export.export(jax.jit(jax.vmap(jax.grad(lambda x: pool(x).sum()))))(
        jax.ShapeDtypeStruct((batch, 3), x.dtype)
    )
    np.testing.assert_array_equal(exported.call(x), jax.vmap(jax.grad(lambda x: pool(x).sum()))(x))


@pytest.mark.parametrize("word", WORDS)
def test_stand_ins_take_no_words_that_their_originals_refuse(word: str) -> None:
    x = jnp.zeros((1, 6, 6, 1))
    with pytest.raises(ValueError, match=f"padding '{word}' is unknown"):
        flax.max_pool(x, (2, 2), padding=word)
    with pytest.raises(ValueError, match=f"padding '{word}' is unknown"):
        haiku.avg_pool(x, (1, 2, 2, 1), (1, 2, 2, 1), word)


def test_words_for_the_modes_of_scipy() -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    modes = {"reflect": "SYMMETRIC", "grid-mirror": "SYMMETRIC", "mirror": "REFLECT", "nearest": "EDGE", "wrap": "WRAP"}
    for size in (2, 3, 4):
        for mode, word in modes.items():
            padding: Any = ((word, (size // 2, (size - 1) // 2)),)
            filtered = ndimage.maximum_filter1d(X, size, mode=mode)
            np.testing.assert_array_equal(jaxpool.max_pool(X, (size,), 1, padding), filtered, err_msg=f"{mode} {size}")
