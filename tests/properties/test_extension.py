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
from tests.harness.compilation import compiled_fast
from tests.reference import oracle
from tests.registry.records import RECORDS, Record, by_function, row

pytestmark = pytest.mark.usefixtures("for_this_platform")

WORDS = ("WRAP", "REFLECT", "SYMMETRIC", "EDGE")
SLIDING: dict[str, Any] = {"kernel_size": (3, 2), "stride": 1, "axis": (1, 0)}
# More copies than cells along the last axis.
DILATED: dict[str, Any] = {"kernel_size": (2, 4), "stride": (2, 3), "dilation": (3, 2), "ceil_mode": True}
# Zeros along one axis, copies along the other.
CAUSAL: dict[str, Any] = {"kernel_size": (3, 2), "stride": (2, 1), "dilation": (1, 2), "axis": (0, 1)}
BY_AXIS = ("CAUSAL", ("SYMMETRIC", (4, 1)))
CALLS = (
    ("WRAP", SLIDING, True),
    ("REFLECT", DILATED, False),
    ("EDGE", DILATED, True),
    (BY_AXIS, CAUSAL, False),
    (BY_AXIS, CAUSAL, True),
)
X = np.random.default_rng(0).normal(size=(5, 3))
NUMBERS = np.arange(X.size).reshape(X.shape)
MASK = np.random.default_rng(1).random(X.shape) < 0.7
FIXED = {name: record for name, record in RECORDS.items() if record.windows == "fixed"}


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


@by_function(FIXED, quick=("max_pool_with_indices", "lp_pool"))
def test_pools_are_those_of_the_extended_array(case: Record) -> None:
    tangent = np.cos(NUMBERS)

    @compiled_fast
    def everything(tangent: jax.Array) -> Any:
        found = []
        for padding, window, masked in CALLS:
            x = jnp.asarray(np.where(MASK, X, math.nan) if masked else X)
            given = {**case.options, **window, "padding": padding, "where": MASK if masked else None}

            def outputs(x: jax.Array, rule: str, given: Any = given) -> Any:
                both = getattr(jaxpool, case.function)(x, **given, rule=rule)
                return both if isinstance(both, tuple) else (both, jnp.zeros(0, int))

            def squared(x: jax.Array, outputs: Any = outputs) -> jax.Array:
                return (outputs(x, "vjp")[0] ** 2).sum()

            results = jax.jvp(partial(outputs, rule="jvp"), (x,), (tangent,), has_aux=True)
            found.append((*results, jax.grad(squared)(x)))
        return found

    for (padding, window, masked), (values, moved, indices, gradient) in zip(CALLS, everything(tangent), strict=True):
        extend = partial(by_numpy, padding=padding, **window)
        held = {"where": extend(MASK)} if masked else {}
        added = ((2, 0), (0, 0)) if padding == BY_AXIS else 0
        x = np.where(MASK, X, math.nan) if masked else X
        expected = oracle.evaluate(case.function, extend(x), **case.options, **{**window, "padding": added}, **held)
        np.testing.assert_allclose(values, expected.values, atol=1e-12)
        np.testing.assert_allclose(moved, expected.forward(extend(tangent)), atol=1e-12)
        slopes = expected.backward(2 * expected.values)
        summed = np.bincount(extend(NUMBERS).ravel(), slopes.ravel(), X.size).reshape(X.shape)
        np.testing.assert_allclose(gradient, summed, atol=1e-12)
        if case.has_indices:
            winners = np.where(expected.indices < 0, -1, extend(NUMBERS).ravel()[expected.indices])
            np.testing.assert_array_equal(indices, winners)


@pytest.mark.parametrize("word", WORDS)
def test_copies_are_of_the_cells_that_numpy_copies(word: Any) -> None:
    for size in (1, 2, 3, 7):
        for low, high in ((0, 0), (1, 0), (2, 3), (9, 20)):
            # In windows of one cell.
            found = jaxpool.sum_pool(np.arange(size), (1,), 1, ((word, (low, high)),))
            np.testing.assert_array_equal(found, np.pad(np.arange(size), (low, high), mode=word.lower()))


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


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        row(name, jnp.float16 if name == "sum_pool" else jnp.bfloat16, id=name, quick=name in ("sum_pool", "lp_pool"))
        for name in ("max_pool", "sum_pool", "avg_pool", "lp_pool", "smooth_max_pool", "soft_pool", "stochastic_pool")
    ],
)
def test_cotangents_of_copies_are_added_in_float32_and_rounded_once(name: str, dtype: Any) -> None:
    x = jnp.asarray(np.random.default_rng(3).normal(size=(2, 5)), dtype)
    weights = jnp.asarray(np.random.default_rng(4).normal(size=(2, 5)) + 1, dtype)

    def gradient(x: jax.Array) -> jax.Array:
        pool = partial(getattr(jaxpool, name), kernel_size=(9,), stride=1, padding="EDGE", **RECORDS[name].options)
        values, pull_back = jax.vjp(pool, x)
        return pull_back(weights.astype(values.dtype))[0]

    exact = gradient(x.astype(jnp.float32))
    assert gradient(x).dtype == dtype
    np.testing.assert_array_equal(gradient(x), exact.astype(dtype))
