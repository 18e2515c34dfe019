"""Positions that are data: boxes by torchvision's formulas, PyTorch's fractional windows, and indices to unpool to."""

from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool import adaptive_max_pool, fractional_max_pool, max_pool_with_indices, max_unpool, roi_align, roi_pool
from tests.harness.checks import ROUNDING_OF_QUOTIENTS
from tests.harness.compilation import compiled_fast
from tests.reference.positions import starts
from tests.registry.calls import Call, check
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

slow = pytest.mark.slow
each_pool = pytest.mark.parametrize("pool", [roi_align, roi_pool])
some_pools = pytest.mark.parametrize("pool", [roi_align, pytest.param(roi_pool, marks=slow)])
BOXES = np.array([[0.3, 0.8, 2.1, 3.3], [-1.4, 1.1, 1.9, 4.6]])


def test_kinks_take_the_derivative_of_larger_positions() -> None:
    x = np.array([1.0, 3.0, 4.0, 8.0])

    def pool(corner: Any) -> jax.Array:
        # A bin of one cell, whose only sample is in its middle.
        box = jnp.stack([corner, corner + 1.0]).reshape(1, 2)
        return roi_align(x, box, (1,), sampling_ratio=1).sum()

    # The sample is at the corner: on cells, before the first, on the last, and beyond both ends.
    slopes = jax.vmap(jax.grad(pool))(np.array([0, 1, 2, -0.5, 3, 3.5, -1.5, 4.5]))
    assert slopes.tolist() == [2, 1, 4, 0, 0, 0, 0, 0]
    assert jax.vmap(pool)(np.array([-1, -1.25, 4, 4.25])).tolist() == [1, 0, 8, 0]


@pytest.mark.parametrize("bins", [*(pytest.param(one, marks=slow) for one in ((3, 2), (4, 5))), (9, 1)])
def test_a_box_of_the_whole_array_has_adaptive_bins(bins: tuple[int, int]) -> None:
    x = distinct((2, 7, 5), "adaptive")
    found = roi_pool(x, np.array([[0, 0, 6, 4.0]]), bins)
    np.testing.assert_array_equal(found[0], adaptive_max_pool(x, bins))


def test_bins_of_long_boxes_are_exact() -> None:
    """Of numbers of cells whose products with those of bins are beyond int32, and of boxes far beyond the array."""
    for cells, low, high, bins in ((70_000, 0, 69_999, 40_000), (70_000, 69_000, 69_010, 46_340), (9, -2e8, 1e8, 999)):
        found = roi_pool(jnp.arange(cells), jnp.array([[low, high]], float), (bins,))[0]
        ends = [-(-(number + 1) * int(high - low + 1) // bins) for number in range(bins)]
        starts = [number * int(high - low + 1) // bins for number in range(bins)]
        held = [(low + start < cells and low + end > 0) for start, end in zip(starts, ends, strict=True)]
        expected = [min(low + end, cells) - 1 if inside else 0 for end, inside in zip(ends, held, strict=True)]
        np.testing.assert_array_equal(found, expected)


# Boxes around a cell, outside the array, and between cells; and a sample for each row.
_OF_BOXES = {"boxes": np.array([[0.0, 0, 7.5, 7.5], [-9, -9, -6, -6], [3.2, 0.6, 7, 3]]), "output_size": (2, 2)}
_RANDOM = {"kernel_size": (4,), "output_size": (5,), "samples": np.array([[0.25], [0.75]])}


@pytest.mark.parametrize(
    ("cells", "dtype"),
    [
        *(("nan", "float64"), ("ties", "int8")),
        *(pytest.param(*one, marks=slow) for one in (("mixed", "bfloat16"), ("distinct", "bool"))),
    ],
)
def test_hard_cells_and_other_dtypes(cells: str, dtype: str) -> None:
    check(Call("roi_pool", (2, 8, 8), _OF_BOXES, dtype=dtype, cells=cells))
    check(Call("fractional_max_pool_with_indices", (2, 12), _RANDOM, dtype=dtype, cells=cells))
    if cells != "mixed":
        check(Call("roi_align", (2, 8, 8), _OF_BOXES, dtype=dtype, cells=cells))


@each_pool
def test_boxes_beyond_the_array_and_no_boxes(pool: Any) -> None:
    x = jnp.asarray(distinct((5, 6), "beyond"), np.float32)
    boxes = jnp.array([[20, 20, 25, 25], [1e30, 0, 1e38, 3]])
    values, pull_back = jax.vjp(lambda x: pool(x, boxes, (2, 2)), x)
    assert not values.any()
    assert not pull_back(jnp.ones_like(values))[0].any()
    for shape, count in (((5, 6), 0), ((0, 5, 6), 2)):
        pooled = jax.eval_shape(partial(pool, output_size=(2, 2)), np.zeros(shape), np.zeros((count, 4)))
        assert pooled.shape == (count, *shape[:-2], 2, 2)


@some_pools
def test_boxes_without_numbers_and_infinite_corners_leave_the_others_alone(pool: Any) -> None:
    x = jnp.asarray(distinct((5, 6), "infinite"), np.float32)
    far, inf, nan = 3e38, np.inf, np.nan
    wrong = [[nan, 0, 3, 3], [0, 1, nan, inf], [0, 0, inf, 3], [-inf, 0, 3, 4], [0, -inf, 3, inf], [4, 1, -far, 3]]
    boxes, right = jnp.array([[0, 0, 3, 3], *wrong, [1, 0.5, 4, 3]], np.float32), jnp.array([0, -1])

    @compiled_fast
    def everything(x: jax.Array) -> Any:
        values, pull_back = jax.vjp(partial(pool, output_size=(2, 2)), x, boxes)
        expected, pull_right = jax.vjp(partial(pool, output_size=(2, 2)), x, boxes[right])
        ones = jnp.ones_like(values)
        return values, expected, pull_back(ones), pull_back(ones.at[1:-1].set(0))[0], pull_right(ones[right])

    values, expected, (x_bar, boxes_bar), masked, (x_right, boxes_right) = everything(x)
    np.testing.assert_array_equal(values[right], expected)
    assert np.isnan(values[1:3]).all()
    assert np.isfinite(values[3:]).all()
    assert np.isfinite(x_bar).all()
    assert not boxes_bar[1:7].any()
    if pool is roi_align:
        assert not values[3:7].any()
    np.testing.assert_allclose(boxes_bar[right], boxes_right, rtol=2 * ROUNDING_OF_QUOTIENTS)
    np.testing.assert_array_equal(masked, x_right)


@some_pools
def test_batches_of_boxes_and_numbers_of_boxes_to_come(pool: Any) -> None:
    images, boxes = distinct((3, 2, 5, 6), "images"), np.stack([BOXES, BOXES + 0.7, BOXES[::-1]])

    def one(x: jax.Array, boxes: jax.Array) -> Any:
        def values(x: jax.Array) -> jax.Array:
            return pool(x, boxes, (2, 3))

        return values(x), jax.grad(lambda x: (jax.checkpoint(values)(x) ** 2).sum())(x)

    close, batched = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-14), jax.vmap(one)
    found = compiled_fast(batched)(images, boxes)
    for number in range(3):
        expected = one(images[number], boxes[number])
        jax.tree.map(lambda one, other, n=number: close(one[n], other), found, expected)
    last = jax.vmap(lambda x: pool(x, boxes[0], (2, 3)), -1, -1)(jnp.moveaxis(images, 0, -1))
    close(last[..., 0], found[0][0])
    batch, count = jax.export.symbolic_shape("b, c")
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float64) for shape in ((batch, 2, 5, 6), (batch, count, 4))]
    exported = jax.export.export(jax.jit(batched), platforms=("cpu", "cuda", "tpu"))(*shapes)
    jax.tree.map(close, exported.call(images, boxes), found)


# Samples near 0 and 1, and two that give a product next to an integer.
SAMPLES = np.array([0, 1e-7, 0.25, 1 / 3, 0.5, 2 / 3, 0.9, 1 - 2**-10, 1 - 2**-23])


@pytest.mark.parametrize(("size", "cells", "count"), [(9, 2, 7), (30, 3, 17), (12, 5, 1), (1000, 1, 999)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_windows_start_where_they_should(size: int, cells: int, count: int, dtype: Any) -> None:
    samples = SAMPLES.astype(dtype)
    # Of falling numbers the first cell of a window is the largest one.
    falling = np.tile(-np.arange(float(size)).astype(dtype), (len(samples), 1))
    found = -np.asarray(fractional_max_pool(falling, (cells,), (count,), samples=samples[:, None])).astype(int)
    for row, sample in zip(found, samples, strict=True):
        assert row.tolist() == starts(size, cells, count, sample)
    if dtype is np.float64 and size < 100:
        # None of these products is next to an integer, so rounding changes nothing.
        for row, sample in zip(found[2::4], samples[2::4], strict=True):
            u, alpha = Fraction(float(sample)), Fraction(size - cells, max(count - 1, 1))
            assert row[:-1].tolist() == [int((o + u) * alpha) - int(u * alpha) for o in range(count - 1)]


def test_no_sample_moves_a_window_off_the_axis() -> None:
    samples = jnp.array([-5.0, 1.0, 2.5, 1e30, np.nan, np.inf])[:, None]
    found = -fractional_max_pool(-jnp.tile(jnp.arange(9.0), (6, 1)), (2,), (4,), samples=samples)
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


@pytest.mark.parametrize(("dtype", "rule"), [(jnp.bfloat16, "jvp"), (jnp.float16, "vjp")])
def test_cotangents_of_fractional_windows_are_summed_in_float32(dtype: Any, rule: Any) -> None:
    # The peak wins every window; 2048 + 1 is 2048 in either dtype.
    x, cotangent = jnp.zeros(40, dtype).at[20].set(1), jnp.ones(19, dtype).at[9].set(2048)
    pool = partial(fractional_max_pool, kernel_size=(20,), output_size=(19,), samples=jnp.array([0.5]), rule=rule)
    values, pull_back = jax.vjp(pool, x)
    (gradient,), wins = pull_back(cotangent), np.asarray(values) == 1
    assert wins.sum() > 15
    assert gradient.dtype == dtype
    np.testing.assert_array_equal(gradient[20], np.asarray(cotangent).astype(np.float32)[wins].sum().astype(dtype))


def test_batches_of_samples() -> None:
    x, samples = distinct((2, 6, 7), "transformations"), np.array([[0.2, 0.7], [0.5, 0.9]])

    pool = jax.checkpoint(partial(fractional_max_pool, kernel_size=(3, 2), output_size=(3, 4)))

    def total(x: jax.Array, samples: jax.Array) -> jax.Array:
        return (pool(x, samples=samples) ** 2).sum()

    expected, (gradient, to_samples) = compiled_fast(jax.value_and_grad(total, (0, 1)))(x, samples)
    both = jax.vmap(jax.value_and_grad(total), (2, 0), (0, 2))
    values, gradients = compiled_fast(both)(jnp.moveaxis(x, 0, 2), samples)
    np.testing.assert_allclose(values.sum(), expected, rtol=1e-12)
    np.testing.assert_array_equal(jnp.moveaxis(gradients, 2, 0), gradient)
    assert not to_samples.any()


def test_a_long_axis() -> None:
    # More windows than are compared with every cell.
    sizes = {"kernel_size": (3,), "output_size": (190,), "samples": np.array([0.4])}
    check(Call("fractional_max_pool", (400,), sizes, cells="distinct"))


UNPOOLED: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "channels last": ((2, 6, 8, 3), {"kernel_size": 2, "axis": (-3, -2)}),
    "volume": ((4, 2, 6, 2), {"kernel_size": 2, "axis": (0, 2, 3)}),
    "left over": ((2, 7, 9), {"kernel_size": (2, 4), "axis": (1, 2)}),
}


@pytest.mark.parametrize(
    ("name", "rule"),
    [("left over", "vjp"), *(pytest.param(one, "jvp", marks=slow) for one in ("channels last", "volume"))],
)
def test_unpooling_undoes_pooling_of_windows_that_share_no_cells(name: str, rule: Any) -> None:
    shape, parameters = UNPOOLED[name]
    x, axes = distinct(shape, name), parameters["axis"]
    pool = jax.jit(partial(max_pool_with_indices, **parameters, rule=rule))

    def there_and_back(x: Any) -> jax.Array:
        values, indices = pool(x)
        return max_unpool(values, indices, [shape[a] for a in axes], axis=axes)

    pooled, back = pool(x), there_and_back(x)
    jax.tree.map(np.testing.assert_array_equal, pool(jnp.where(back == 0, -9, back)), pooled)
    np.testing.assert_array_equal(back, np.where(back != 0, x, 0))
    assert (back != 0).sum() == pooled[0].size
    # Only the winners have a gradient, here that of half their square.
    gradient = jax.grad(lambda x: (there_and_back(x) ** 2 / 2).sum())(x)
    np.testing.assert_array_equal(gradient, back)


def test_the_last_of_many_writers_has_the_cell() -> None:
    indices = np.random.default_rng(0).integers(-3, 60, (5, 3, 40)).astype(np.int32)
    written = {"indices": indices, "output_size": (50,)}
    check(Call("max_unpool", indices.shape, written, dtype="float32", cells="distinct"))


@pytest.mark.parametrize("index_dtype", ["uint8", "int16", "int64"])
def test_dtypes_of_values_and_indices(index_dtype: str) -> None:
    indices = np.array([[4, 1, 0], [2, 2, 200]]).astype(index_dtype)
    for dtype in ("bool", "uint8", "int64", "bfloat16", "complex64"):
        check(Call("max_unpool", (2, 3), {"indices": indices, "output_size": (5,)}, dtype=dtype))


def test_batches_and_sizes_of_unpooled_arrays() -> None:
    x = distinct((3, 4, 6), "transformations")
    values, indices = max_pool_with_indices(x, (2, 3))
    expected = max_unpool(values, indices, (4, 6))
    one = jax.vmap(lambda v, i: max_unpool(v, i, (4, 6)))(values, indices)
    np.testing.assert_array_equal(one, expected)
    shared = jax.vmap(lambda v: max_unpool(v, indices[0], (4, 6)))(values)
    np.testing.assert_array_equal(shared[0], expected[0])
    assert max_unpool(values[:0], indices[:0], (4, 6)).shape == (0, 4, 6)
    # An output larger than the pooled array: positions are numbers in the output.
    assert max_unpool(values, indices, (5, 6)).shape == (3, 5, 6)
    with jax.enable_x64(False):
        found = max_unpool(jnp.asarray(values, jnp.float32), jnp.asarray(indices), (4, 6))
        np.testing.assert_allclose(found, expected, rtol=1e-6)
