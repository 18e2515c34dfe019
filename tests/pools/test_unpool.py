"""Unpooling: the partial inverse of max pooling; the last of several writers wins, and no sum depends on order.

The tests over the registry compare single calls, with repeated and invalid indices, with the reference.
"""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.reference import oracle
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

CALLS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "line": ((3, 12), {"kernel_size": 4, "axis": (1,)}),
    "plane": ((2, 3, 6, 8), {"kernel_size": (2, 4), "axis": (2, 3)}),
    "channels last": ((2, 6, 8, 3), {"kernel_size": 2, "axis": (-3, -2)}),
    "left over": ((2, 7, 9), {"kernel_size": (2, 4), "axis": (1, 2)}),
    "volume": ((4, 2, 6, 2), {"kernel_size": 2, "axis": (0, 2, 3)}),
}


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
@pytest.mark.parametrize("name", CALLS)
def test_it_undoes_pooling_of_windows_that_share_no_cells(name: str, rule: Any) -> None:
    shape, parameters = CALLS[name]
    axes, x = parameters["axis"], distinct(shape, name)
    sizes = [shape[a] for a in axes]

    @jax.jit
    def there_and_back(x: jax.Array) -> Any:
        def unpooled(x: jax.Array) -> jax.Array:
            values, indices = jaxpool.max_pool_with_indices(x, **parameters, rule=rule)
            return jaxpool.max_unpool(values, indices, sizes, axis=axes)

        back, pull_back = jax.vjp(unpooled, x)
        again = jaxpool.max_pool_with_indices(jnp.where(back == 0, -9, back), **parameters)
        return back, again, pull_back(x)[0], jaxpool.max_pool_with_indices(x, **parameters)

    back, again, gradient, pooled = there_and_back(x)
    jax.tree.map(np.testing.assert_array_equal, again, pooled)
    assert (back != 0).sum() == pooled[0].size
    np.testing.assert_array_equal(back, np.where(back != 0, x, 0))
    # Only the winners have a gradient, that of their cell.
    np.testing.assert_array_equal(gradient, back)


def test_the_last_writer_has_the_cell() -> None:
    random = np.random.default_rng(0)
    indices = random.integers(-3, 60, (5, 3, 40)).astype(np.int32)
    values = random.normal(size=indices.shape).astype(np.float32)
    cotangent = random.normal(size=(5, 3, 50)).astype(np.float32)

    @jax.jit
    def everything(values: jax.Array, indices: jax.Array, cotangent: jax.Array) -> Any:
        def unpool(values: jax.Array) -> jax.Array:
            return jaxpool.max_unpool(values, indices, (50,))

        found, pull_back = jax.vjp(unpool, values)
        return found, pull_back(cotangent)[0], jax.jvp(unpool, (values,), (values,))[1]

    found, gradient, tangent = everything(values, indices, cotangent)
    expected = oracle.unpool(values, indices, (50,))
    np.testing.assert_array_equal(found, expected.values)
    np.testing.assert_array_equal(tangent, expected.values)
    np.testing.assert_array_equal(gradient, expected.backward(cotangent))


@pytest.mark.every_platform
def test_only_integers_are_scattered() -> None:
    def gradient(values: jax.Array, indices: jax.Array) -> jax.Array:
        return jax.grad(lambda values: (jaxpool.max_unpool(values, indices, (9,)) ** 2).sum())(values)

    text = jax.jit(gradient).lower(jnp.ones((2, 4)), jnp.ones((2, 4), np.int32)).as_text()
    # The maximum of the writers' numbers is the same in any order; a sum of floats would not be.
    results = re.findall(r'"stablehlo\.scatter"\(.*?\}\) : \([^)]*\) -> tensor<([^>]*)>', text, re.DOTALL)
    assert len(results) == text.count('"stablehlo.scatter"')
    assert results
    assert all(result.endswith("xi32") for result in results)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, jnp.bfloat16, np.float32, np.complex64])
@pytest.mark.parametrize("index_dtype", [np.uint8, np.int16, np.int64])
def test_dtypes(dtype: Any, index_dtype: Any) -> None:
    values = np.array([[1, 0, 1], [1, 1, 1]]).astype(dtype)
    found = jaxpool.max_unpool(values, np.array([[4, 1, 0], [2, 2, 200]]).astype(index_dtype), (5,))
    assert found.dtype == dtype
    # As an int16, 200 is beyond the end, and as any other dtype too.
    np.testing.assert_array_equal(found, np.array([[1, 0, 0, 0, 1], [0, 0, 1, 0, 0]]).astype(dtype))


def test_transformations_and_sizes() -> None:
    x = distinct((3, 4, 6), "transformations")
    values, indices = jaxpool.max_pool_with_indices(x, (2, 3))
    expected = jaxpool.max_unpool(values, indices, (4, 6))
    one = jax.vmap(lambda v, i: jaxpool.max_unpool(v, i, (4, 6)))(values, indices)
    np.testing.assert_array_equal(one, expected)
    shared = jax.vmap(lambda v: jaxpool.max_unpool(v, indices[0], (4, 6)))(values)
    np.testing.assert_array_equal(shared[0], expected[0])
    assert jaxpool.max_unpool(values[:0], indices[:0], (4, 6)).shape == (0, 4, 6)
    # An output larger than the pooled array: positions are numbers in the output.
    assert jaxpool.max_unpool(values, indices, (5, 6)).shape == (3, 5, 6)
    with jax.enable_x64(False):
        found = jaxpool.max_unpool(jnp.asarray(values, jnp.float32), jnp.asarray(indices), (4, 6))
        np.testing.assert_allclose(found, expected, rtol=1e-6)
