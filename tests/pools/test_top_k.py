"""The largest cells of windows, against `lax.top_k` of whole axes and maxima; special values, and wrong numbers k.

The files that run over the registry test what all functions share.
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
from tests.harness.compilation import compiled_fast
from tests.mistakes.errors import Traced, check_wrong_call
from tests.random.call_checks import check
from tests.registry.calls import FLOAT_KINDS, Call
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16, np.int8, np.uint32])
def test_of_whole_axes_they_are_those_of_lax(dtype: Any) -> None:
    # Ties included. As many as there are, and of many cells a few.
    for cells, k in ((7, 7), (150, 3)):
        x = np.random.default_rng(0).integers(0, 9, (3, cells)).astype(dtype)
        values, indices = jaxpool.top_k_pool_with_indices(x, k, (cells,))
        expected, places = lax.top_k(x, k)
        np.testing.assert_array_equal(values[:, 0], expected)
        np.testing.assert_array_equal(indices[:, 0], places)
        np.testing.assert_array_equal(jaxpool.top_k_pool(x, k, (cells,))[:, 0], expected)


def test_the_first_of_them_is_the_maximum() -> None:
    x = np.random.default_rng(0).choice([-math.inf, math.nan, 0.0, 1.0, 2.0], (6, 7))
    window: dict[str, Any] = {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0)}

    @compiled_fast
    def both(x: jax.Array) -> Any:
        (values, indices), pull_back = jax.vjp(partial(jaxpool.top_k_pool_with_indices, k=2, **window), x)
        first = jnp.zeros_like(values).at[..., 0].set(1)
        largest, pull_back_largest = jax.vjp(partial(jaxpool.max_pool, **window), x)
        zeros = np.zeros(indices.shape, jax.dtypes.float0)
        return (
            (values[..., 0], indices[..., 0], pull_back((first, zeros))[0]),
            (largest, jaxpool.max_pool_with_indices(x, **window)[1], pull_back_largest(jnp.ones_like(largest))[0]),
        )

    jax.tree.map(np.testing.assert_array_equal, *both(x))


@pytest.mark.parametrize("cells", FLOAT_KINDS)
def test_special_values_and_their_derivatives(cells: str) -> None:
    # At the borders windows have fewer cells than k, and masks may leave none.
    where = np.random.default_rng(1).random((4, 6)) < 0.6
    where[:2, :3] = False
    parameters: dict[str, Any] = {"k": 4, "kernel_size": (2, 3), "stride": (2, 1), "padding": (1, 1)}
    check(Call("top_k_pool", (4, 6), parameters, cells=cells))
    check(Call("top_k_pool_with_indices", (4, 6), {**parameters, "where": where, "rule": "vjp"}, cells=cells))


def test_large_windows() -> None:
    x = distinct((14, 13), "large")
    x[3, 3:9] = math.nan
    where = np.random.default_rng(1).random(x.shape) < 0.5
    for masked in ({}, {"where": where}):
        parameters = {"kernel_size": (16, 16), "stride": (3, 2), "padding": (2, 2), "k": 2, **masked}
        check(Call("top_k_pool_with_indices", (14, 13), parameters, cells="nan"))


def test_values_with_indices_are_the_cells_named() -> None:
    x = np.random.default_rng(0).choice([0.0, -0.0], (9, 8)).astype(np.float32)
    values, indices = jaxpool.top_k_pool_with_indices(x, 3, (3, 4), (2, 2))
    assert 0 < np.signbit(values).sum() < values.size
    np.testing.assert_array_equal(np.signbit(values), np.signbit(x.ravel()[np.asarray(indices)]))
    # They all tie, so that the first cells are named.
    np.testing.assert_array_equal(indices[0, 0], [0, 1, 2])


def test_subnormal_numbers_are_not_zeros() -> None:
    x = np.float32(1e-40) * np.array([1, 3, -1, 2, 0], np.float32)
    values, indices = jaxpool.top_k_pool_with_indices(x, 4, (5,))
    np.testing.assert_array_equal(indices[0], [1, 3, 0, 4])
    np.testing.assert_array_equal(np.asarray(jaxpool.top_k_pool(x, 4, (5,))), np.asarray(values))


def test_beyond_the_cells_there_are_none() -> None:
    x = jnp.array([3, 1, 2, 5])
    values, indices = jaxpool.top_k_pool_with_indices(x, 3, (2,))
    np.testing.assert_array_equal(values, [[3, 1, 0], [5, 2, 0]])
    np.testing.assert_array_equal(indices, [[0, 1, -1], [3, 2, -1]])
    _, pull_back = jax.vjp(lambda x: jaxpool.top_k_pool(x, 3, (2,)), x.astype(np.float32))
    np.testing.assert_array_equal(pull_back(jnp.arange(6.0, dtype=np.float32).reshape(2, 3))[0], [0, 1, 4, 3])


def test_ranks_that_no_window_has_make_no_longer_program() -> None:
    def steps(k: int) -> int:
        program = jax.make_jaxpr(lambda x: jaxpool.top_k_pool_with_indices(x, k, (2,)))(jnp.arange(4.0))
        (call,) = program.eqns
        return len(call.params["jaxpr"].eqns)

    assert steps(3) == steps(1000)


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_backward_passes_keep_an_offset_for_each(rule: Any) -> None:
    def keep(x: jax.Array) -> Any:
        return jax.vjp(partial(jaxpool.top_k_pool, k=3, kernel_size=3, stride=2, axis=(0, 1), rule=rule), x)

    values, pull_back = jax.eval_shape(keep, jax.ShapeDtypeStruct((9, 8), np.float32))
    kept = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(pull_back)]
    assert kept == [(values.shape[:-1], np.uint8)] * 3


@pytest.mark.parametrize("function", ["top_k_pool", "top_k_pool_with_indices"])
@pytest.mark.parametrize(
    ("exception", "message", "k"),
    [
        (ValueError, r"k must be at least 1, got 0; it is the number of cells", 0),
        (TypeError, r"k must be an int, got \(2, 2\); it comes before kernel_size, as in \(x, 3, \(2, 2\)\)", (2, 2)),
        *((TypeError, rf"k must be an int, got {k}; it comes", k) for k in (2.0, True, None)),
        (TypeError, r"k must be an int, got an array; it comes", Traced(np.array(2))),
    ],
)
def test_wrong_numbers(function: str, exception: type[Exception], message: str, k: Any) -> None:
    check_wrong_call(function, exception, message, {"k": k})
