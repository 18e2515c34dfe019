"""Pools of boxes: derivatives with respect to boxes, adaptive bins as a special case, NaN, transformations.

The tests over the registry compare values and Jacobians with respect to the array with the reference.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool import adaptive_max_pool, roi_align, roi_pool
from tests.harness.checks import ROUNDING_OF_QUOTIENTS, check_gradient_and_hessian, cubed
from tests.harness.compilation import compiled_fast
from tests.reference import boxes as reference
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

BOXES = np.array([[0.3, 0.8, 2.1, 3.3], [-1.4, 1.1, 1.9, 4.6]])


@pytest.mark.parametrize("aligned", [True, False])
def test_derivatives_with_respect_to_array_and_boxes(aligned: bool) -> None:
    # Columns of the boxes in the given order, and no sample within a step of a kink.
    def pool(x: jax.Array, boxes: jax.Array) -> jax.Array:
        return roi_align(x, boxes, (2, 1), aligned=aligned)

    check_gradient_and_hessian({"jvp": cubed(pool)}, distinct((3, 4), "roi"), BOXES)


def test_gradients_of_boxes_are_those_of_the_reference() -> None:
    x, step = distinct((2, 5, 6), "reference"), 1e-6

    def value(boxes: np.ndarray) -> np.ndarray:
        return reference.align(x, boxes, (2, 2))[0].ravel()

    apart = step * np.eye(BOXES.size).reshape(-1, *BOXES.shape)
    differences = np.array([(value(BOXES + one) - value(BOXES - one)) / (2 * step) for one in apart])
    jacobian = jax.jacfwd(lambda boxes: roi_align(x, boxes, (2, 2)).ravel())(BOXES)
    np.testing.assert_allclose(jacobian.reshape(len(differences[0]), -1).T, differences, atol=1e-8)


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


@pytest.mark.parametrize("bins", [(3, 2), (4, 5), (9, 1)])
def test_a_box_of_the_whole_array_has_adaptive_bins(bins: Any) -> None:
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


def test_averages_of_a_slope_are_its_values_at_the_centres() -> None:
    x = np.add.outer(2.0 * np.arange(8), -np.arange(9.0))
    found = roi_align(x, np.array([[1.5, 2, 5.5, 6.0]]), (2, 4), sampling_ratio=4)
    centres = np.add.outer(2 * (np.array([2.5, 4.5]) - 0.5), -(np.array([2.5, 3.5, 4.5, 5.5]) - 0.5))
    np.testing.assert_allclose(found[0], centres, rtol=1e-13)


@pytest.mark.parametrize("special", [np.nan, np.inf])
@pytest.mark.parametrize("pool", [roi_align, roi_pool])
def test_special_cells_stay_in_the_bins_that_touch_them(pool: Any, special: float) -> None:
    x = distinct((2, 8, 8), "special")
    x[0, 1, 1] = special
    # The second box is outside the array; the third and fourth do not reach the cell.
    boxes = np.array([[0.0, 0, 7.5, 7.5], [-9, -9, -6, -6], [3.2, 0.6, 7, 3], [0.1, 2.6, 3, 6]])

    @compiled_fast
    def everything(x: jax.Array, boxes: jax.Array) -> Any:
        values, pull_back = jax.vjp(partial(pool, output_size=(2, 2)), x, boxes)
        ones = jnp.ones_like(values).at[0, 0, 0, 0].set(0)
        return values, pull_back(ones)

    values, (x_bar, boxes_bar) = everything(x, boxes)
    reached = ~np.isfinite(values)
    assert reached[0, 0, 0, 0]
    assert reached.sum() == 1
    assert np.isfinite(x_bar).all()
    assert np.isfinite(boxes_bar[1:]).all()


def test_unknown_boxes_and_empty_bins() -> None:
    x = jnp.asarray(distinct((5, 6), "unknown"), np.float32)
    boxes = jnp.array([[np.nan, 0, 3, 3], [1, 1, 3, np.nan], [0, 0, 3, 3], [20, 20, 25, 25], [1e30, 0, 1e38, 3]])

    @compiled_fast
    def everything(x: jax.Array) -> Any:
        pools = [partial(pool, output_size=(2, 2)) for pool in (roi_align, roi_pool)]
        return [(pool(x, boxes), jax.grad(lambda x: pool(x, boxes[3:]).sum())(x)) for pool in pools]  # noqa: B023

    for values, gradient in everything(x):
        assert np.isnan(values[:2]).all()
        assert np.isfinite(values[2]).all()
        assert not values[3:].any()
        assert not gradient.any()
    for shape, count in (((5, 6), 0), ((0, 5, 6), 2)):
        for pool in (roi_align, roi_pool):
            pooled = jax.eval_shape(partial(pool, output_size=(2, 2)), np.zeros(shape), np.zeros((count, 4)))
            assert pooled.shape == (count, *shape[:-2], 2, 2)


@pytest.mark.parametrize("pool", [roi_align, roi_pool])
def test_boxes_without_numbers_and_infinite_corners_leave_the_others_alone(pool: Any) -> None:
    x = jnp.asarray(distinct((5, 6), "infinite"), np.float32)
    far, inf = 3e38, np.inf
    wrong = [
        [np.nan, 0, 3, 3],
        [0, 1, np.nan, inf],
        [0, 0, inf, 3],
        [-inf, 0, 3, 4],
        [0, -inf, 3, inf],
        [4, 1, -far, 3],
    ]
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


def test_ties_and_the_lowest_numbers() -> None:
    # Of equal cells the first one in row-major order, though columns hold others before it; the first NaN.
    planes = [np.full((3, 3), -np.inf), [[0, 0, 5], [0, 5, 0], [5, 0, 0]], [[1, 2, np.nan], [np.nan, 3, 4], [0, 0, 0]]]
    x = np.array(planes)
    gradients = compiled_fast(jax.grad(lambda x: roi_pool(x, np.array([[0, 0, 2, 2.0]]), (1, 1)).sum()))(x)
    np.testing.assert_array_equal(np.argwhere(gradients), [[0, 0, 0], [1, 0, 2], [2, 0, 2]])


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, jnp.bfloat16, jnp.float16])
def test_dtypes(dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 9, (6, 7)).astype(dtype)
    boxes = np.array([[0.5, 1, 4, 6], [1, 1, 3.7, 2]]).astype(np.float32)
    values, mean = roi_pool(x, boxes, (2, 2)), roi_align(x, boxes, (2, 2))
    assert values.dtype == dtype
    assert mean.dtype == (dtype if jnp.issubdtype(dtype, jnp.floating) else np.float32)
    np.testing.assert_array_equal(values.astype(np.float64), reference.pool(x, boxes, (2, 2))[0])
    expected = reference.align(x.astype(np.float64), boxes, (2, 2))[0]
    np.testing.assert_allclose(
        mean.astype(np.float64), expected, rtol=0.6 * max(float(jnp.finfo(mean.dtype).eps), 2e-6)
    )


@pytest.mark.parametrize("pool", [roi_align, roi_pool])
@pytest.mark.every_platform
def test_transformations(pool: Any) -> None:
    images = distinct((3, 2, 5, 6), "images")
    boxes = np.stack([BOXES, BOXES + 0.7, BOXES[::-1]])

    def one(x: jax.Array, boxes: jax.Array) -> jax.Array:
        return pool(x, boxes, (2, 3))

    def gradient(x: jax.Array, boxes: jax.Array) -> jax.Array:
        return jax.grad(lambda x: (jax.checkpoint(one)(x, boxes) ** 2).sum())(x)

    def export(x: jax.Array, boxes: jax.Array) -> Any:
        return jax.vmap(one)(x, boxes), jax.vmap(gradient)(x, boxes)

    @compiled_fast
    def everything(x: jax.Array, boxes: jax.Array) -> Any:
        scanned = jax.lax.scan(lambda _, both: (None, (one(*both), gradient(*both))), None, (x, boxes))[1]
        last = jax.vmap(one, (-1, None), -1)(jnp.moveaxis(x, 0, -1), boxes[0])
        return export(x, boxes), scanned, last

    (values, gradients), scanned, last = everything(images, boxes)
    for number in range(3):
        expected, entries = (reference.align if pool is roi_align else reference.pool)(
            images[number], boxes[number], (2, 3)
        )
        slopes = np.zeros(images[number].shape)
        for output, cell, slope in entries:
            slopes[cell] += 2 * expected[output] * slope
        np.testing.assert_allclose(values[number], expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(gradients[number], slopes, rtol=1e-12, atol=1e-14)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-14), scanned, (values, gradients))
    np.testing.assert_allclose(last[..., 0], values[0], rtol=1e-12, atol=1e-14)
    batch, count = jax.export.symbolic_shape("b, c")
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float64) for shape in ((batch, 2, 5, 6), (batch, count, 4))]
    exported = jax.export.export(jax.jit(export), platforms=("cpu", "cuda", "tpu"))(*shapes)
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-14), exported.call(images, boxes), (values, gradients)
    )
