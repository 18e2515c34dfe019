"""Fractional pooling: PyTorch's windows, keys and samples, sums of cotangents, and transformations.

The tests over the registry compare values, indices and Jacobians by both rules with the reference.
"""

from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool import fractional_max_pool, fractional_max_pool_with_indices
from jaxpool._geometry.window import WindowAxis
from jaxpool._positions import window_starts
from tests.harness.compilation import compiled_fast
from tests.reference.fractional import fractional, starts
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

torch = pytest.importorskip("torch")

GEOMETRIES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], Any]] = [
    ((2, 3, 11, 9), (2, 3), (6, 4), np.float32),
    ((1, 4, 8, 12), (3, 1), (1, 11), np.float64),
    ((2, 1, 6, 7, 9), (1, 2, 3), (3, 5, 2), np.float32),
]


@pytest.mark.parametrize(("shape", "kernel_size", "output_size", "dtype"), GEOMETRIES, ids=str)
def test_pytorch(shape: Any, kernel_size: Any, output_size: Any, dtype: Any) -> None:
    random, rank = np.random.default_rng(0), len(kernel_size)
    # Few numbers, so that many cells tie.
    x = random.integers(-2, 3, shape).astype(dtype)
    samples = random.random((*shape[:2], rank)).astype(dtype)
    theirs = torch.from_numpy(x).requires_grad_()
    function = torch.nn.functional.fractional_max_pool2d if rank == 2 else torch.nn.functional.fractional_max_pool3d
    given = torch.from_numpy(samples[..., ::-1].copy() if rank == 2 else samples)
    values, indices = function(theirs, kernel_size, output_size, return_indices=True, _random_samples=given)
    cotangent = random.integers(1, 9, values.shape).astype(dtype)
    values.backward(torch.from_numpy(cotangent))

    @compiled_fast
    def everything(x: jax.Array, samples: jax.Array, cotangent: jax.Array) -> Any:
        pool = partial(fractional_max_pool, kernel_size=kernel_size, output_size=output_size, samples=samples)
        found = fractional_max_pool_with_indices(x, kernel_size, output_size, samples=samples)
        return found, [jax.vjp(partial(pool, rule=rule), x)[1](cotangent)[0] for rule in ("jvp", "vjp")]

    found, gradients = everything(x, samples, cotangent)
    np.testing.assert_array_equal(found[0], values.detach())
    np.testing.assert_array_equal(found[1], indices)
    for gradient in gradients:
        np.testing.assert_array_equal(gradient, theirs.grad)


# Samples near 0 and 1, and two that give a product next to an integer.
SAMPLES = np.array([0, 1e-7, 0.25, 1 / 3, 0.5, 2 / 3, 0.9, 1 - 2**-10, 1 - 2**-23])


@pytest.mark.parametrize(("size", "cells", "count"), [(9, 2, 7), (30, 3, 17), (12, 5, 1), (1000, 1, 999)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_windows_start_where_they_should(size: int, cells: int, count: int, dtype: Any) -> None:
    samples = SAMPLES.astype(dtype)
    axis = WindowAxis(1, size, cells, 1, 1, 0, 0, size - cells + 1)
    found = np.asarray(window_starts(jnp.asarray(samples)[:, None], axis, count))
    for row, sample in zip(found, samples, strict=True):
        assert row.tolist() == starts(size, cells, count, sample)
    assert (np.diff(found) > 0).all()
    assert found.min() >= 0
    assert (found[:, -1] == size - cells).all()
    if dtype is np.float64 and size < 100:
        # None of these products is next to an integer, so rounding changes nothing.
        for row, sample in zip(found[2::4], samples[2::4], strict=True):
            u, alpha = Fraction(float(sample)), Fraction(size - cells, max(count - 1, 1))
            assert row[:-1].tolist() == [int((o + u) * alpha) - int(u * alpha) for o in range(count - 1)]


def test_no_sample_moves_a_window_off_the_axis() -> None:
    axis = WindowAxis(1, 9, 2, 1, 1, 0, 0, 8)
    found = window_starts(jnp.array([-5.0, 1.0, 2.5, 1e30, np.nan, np.inf])[:, None], axis, 4)
    assert (np.diff(found) > 0).all()
    assert (found >= 0).all()
    assert (found <= 7).all()


def test_keys_draw_samples() -> None:
    x, typed = jnp.asarray(distinct((3, 20, 2), "keys"), np.float32), jax.random.key(5)

    def drawn(x: jax.Array, key: jax.Array) -> jax.Array:
        return fractional_max_pool(x, 3, 9, key=key, axis=1)

    pool = compiled_fast(drawn)
    samples = jax.random.uniform(typed, (3, 2, 1), np.float32)
    expected = fractional_max_pool(x, 3, 9, samples=samples, axis=1)
    np.testing.assert_array_equal(pool(x, typed), expected)
    np.testing.assert_array_equal(pool(x, jax.random.key_data(typed)), expected)
    np.testing.assert_array_equal(pool(x, np.array([0, 5], np.uint32)), expected)
    keys = jax.random.split(typed, 4)
    each = compiled_fast(jax.vmap(drawn, (None, 0)))(x, keys)
    for one, key in zip(each, keys, strict=True):
        np.testing.assert_array_equal(one, pool(x, key))
    assert len({one.tobytes() for one in np.asarray(each)}) > 1


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_cotangents_of_16_bits_are_summed_in_float32(dtype: Any, rule: Any) -> None:
    # The peak wins every window; 2048 + 1 is 2048 in either dtype.
    x = jnp.zeros(40, dtype).at[20].set(1)
    cotangent = jnp.ones(19, dtype).at[9].set(2048)

    @compiled_fast
    def both(x: jax.Array, cotangent: jax.Array) -> Any:
        samples = jnp.array([0.5])
        values, pull_back = jax.vjp(lambda x: fractional_max_pool(x, (20,), (19,), samples=samples, rule=rule), x)
        return values, pull_back(cotangent)[0]

    values, gradient = both(x, cotangent)
    assert values.dtype == dtype
    wins = np.asarray(values) == 1
    assert wins.sum() > 15
    assert gradient.dtype == dtype
    np.testing.assert_array_equal(gradient[20], np.asarray(cotangent).astype(np.float32)[wins].sum().astype(dtype))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint32, jnp.bfloat16])
def test_dtypes_and_first_nan(dtype: Any) -> None:
    x = (np.arange(24) % 5 > 2).reshape(2, 12).astype(dtype)
    if dtype is jnp.bfloat16:
        x[1, 3:6] = np.nan
    samples = np.array([[0.25], [0.75]])
    values, indices = fractional_max_pool_with_indices(x, (4,), (5,), samples=samples)
    expected, _, positions = fractional(x, (4,), (5,), samples=samples)
    assert values.dtype == dtype
    assert indices.dtype == np.int32
    np.testing.assert_array_equal(values.astype(np.float64), expected)
    np.testing.assert_array_equal(indices, positions)


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_transformations(rule: Any) -> None:
    x, samples = distinct((2, 6, 7), "transformations"), np.array([[0.2, 0.7], [0.5, 0.9]])
    weights = distinct((2, 3, 4), "weights")

    def pool(x: jax.Array, samples: Any) -> jax.Array:
        return fractional_max_pool(x, (3, 2), (3, 4), samples=samples, rule=rule)

    def objective(x: jax.Array, samples: jax.Array) -> jax.Array:
        return (pool(x, samples) ** 3 * weights[: x.shape[0]]).sum()

    @compiled_fast
    def everything(x: jax.Array, samples: jax.Array) -> Any:
        gradient = jax.grad(objective)
        product = jax.jvp(lambda x: gradient(x, samples), (x,), (x,))[1]
        again = jax.grad(lambda x: (jax.checkpoint(gradient)(x, samples) * jax.lax.stop_gradient(x)).sum())(x)
        last = jax.vmap(pool, (2, 0), 2)(jnp.moveaxis(x, 0, 2), samples)
        _, scanned = jax.lax.scan(lambda _, both: (None, pool(*both)), None, (x, samples))
        return gradient(x, samples), product, again, pool(x, samples), last, scanned, jax.grad(objective, 1)(x, samples)

    gradient, product, again, values, last, scanned, to_samples = everything(x, samples)
    expected, entries, _ = fractional(x, (3, 2), (3, 4), samples=samples)
    true_gradient, true_product = np.zeros(x.shape), np.zeros(x.shape)
    for output, cell, _ in entries:
        true_gradient[cell] += 3 * weights[output] * x[cell] ** 2
        true_product[cell] += 6 * weights[output] * x[cell] ** 2
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(last, np.moveaxis(expected, 0, 2))
    np.testing.assert_array_equal(scanned, expected)
    np.testing.assert_allclose(gradient, true_gradient, rtol=1e-12)
    np.testing.assert_allclose(product, true_product, rtol=1e-12)
    np.testing.assert_allclose(again, true_product, rtol=1e-12)
    assert not to_samples.any()
    if rule == "vjp":
        with pytest.raises(TypeError, match="forward-mode"):
            jax.jvp(partial(pool, samples=samples), (x,), (x,))


def test_a_long_axis_and_its_gradient() -> None:
    # More windows than the comparison with every cell handles.
    x, samples = distinct((400,), "long"), np.array([0.4])
    gradient = jax.grad(lambda x: fractional_max_pool(x, (3,), (190,), samples=samples).sum())(x)
    expected = np.zeros(400)
    np.add.at(expected, fractional(x, (3,), (190,), samples=samples)[2], 1)
    np.testing.assert_array_equal(gradient, expected)


@pytest.mark.every_platform
def test_export_and_empty_batches() -> None:
    @jax.jit
    def both(x: jax.Array) -> Any:
        pool = partial(fractional_max_pool, kernel_size=(2, 3), output_ratio=(0.5, 0.6), key=jax.random.key(1))
        return jax.value_and_grad(lambda x: (pool(x) ** 2).sum())(x)

    (batch,) = jax.export.symbolic_shape("b")
    shape = jax.ShapeDtypeStruct((batch, 2, 7, 6), jnp.float32)
    exported = jax.export.export(both, platforms=("cpu", "cuda", "rocm", "tpu"))(shape)
    x = jnp.asarray(distinct((3, 2, 7, 6), "export"), jnp.float32)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), exported.call(x), both(x))
    assert jax.eval_shape(both, x[:0])[1].shape == (0, 2, 7, 6)
    assert fractional_max_pool(x, (2,), output_ratio=0.5, key=jax.random.key(0)).shape == (3, 2, 7, 3)
