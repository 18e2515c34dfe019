"""Morphology: against SciPy, and against the definition for masks, ties, NaN and derivatives of cells and heights."""

import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

import jaxpool
from jaxpool import morphology
from tests.harness.checks import check_gradient_and_hessian, cubed
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.reference.morphology import extremes
from tests.registry.cases import distinct, mask

pytestmark = pytest.mark.usefixtures("for_this_platform")

X = distinct((9, 11), "morphology")
SIZES = [(3, 3), (2, 4), (1, 5)]
PAIRS = {
    morphology.dilation: ndimage.grey_dilation,
    morphology.erosion: ndimage.grey_erosion,
    morphology.opening: ndimage.grey_opening,
    morphology.closing: ndimage.grey_closing,
    morphology.white_top_hat: ndimage.white_tophat,
    morphology.black_top_hat: ndimage.black_tophat,
    morphology.gradient: ndimage.morphological_gradient,
}
SIGNS = {morphology.dilation: 1, morphology.erosion: -1}


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_values_are_those_of_scipy(size: tuple[int, int]) -> None:
    cells = np.random.default_rng(1).random(size) < 0.6
    cells[size[0] // 2, size[1] // 2] = True
    heights = np.random.default_rng(2).normal(size=size)
    elements = [
        (size, {"size": size}),
        (jaxpool.footprint(cells), {"footprint": cells}),
        (heights, {"structure": heights}),
    ]

    @compiled_fast
    def everything(x: jax.Array) -> list[list[jax.Array]]:
        return [[function(x, element) for function in PAIRS] for element, _ in elements]

    for results, (_, given) in zip(everything(X), elements, strict=True):
        for found, (ours, theirs) in zip(results, PAIRS.items(), strict=True):
            # SciPy repeats cells beyond the borders: with these of other values, a pass of the next one reads them.
            away = np.s_[4:-4, 4:-4]
            np.testing.assert_allclose(found[away], theirs(X, **given)[away], atol=1e-12, err_msg=ours.__name__)
        for found, ours in zip(results, SIGNS, strict=False):
            outside = -SIGNS[ours] * np.inf
            expected = PAIRS[ours](X, **given, mode="constant", cval=outside)
            np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
@pytest.mark.parametrize("function", SIGNS, ids=lambda function: function.__name__)
def test_masks_ties_and_special_values(function: Any, rule: Any) -> None:
    x = np.random.default_rng(3).integers(0, 3, (6, 7)).astype(float)
    x[1, 2], x[4, 5], x[5, 0] = np.nan, -np.inf, np.inf
    heights = np.array([[0.0, -np.inf, 1.0], [1.0, 0.0, -1.0], [-np.inf, 0.0, 0.0]])
    weights = np.arange(1.0, 43).reshape(6, 7)
    for where in (None, mask(6, 7), np.zeros((6, 7), bool)):
        expected = extremes(x, heights, SIGNS[function], where)
        values, pull_back = jax.vjp(lambda x, b: function(x, b, where=where, rule=rule), x, heights)  # noqa: B023
        np.testing.assert_array_equal(values, expected.values)
        for found, wanted in zip(pull_back(weights), expected.backward(weights, (3, 3), SIGNS[function]), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_learnt_elements_of_every_channel() -> None:
    x, heights = distinct((2, 5, 6, 3), "images"), distinct((1, 3, 2, 3), "heights")

    @compiled_fast
    def everything(x: jax.Array, heights: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
        turned = jnp.moveaxis(heights, (2, 1), (0, 1))[:, :, 0, 0]
        return [(function(x, heights, axis="NHWC"), function(x, turned, axis=(2, 1))) for function in SIGNS]

    for (found, alone), sign in zip(everything(x, heights), SIGNS.values(), strict=True):
        for n, c in np.ndindex(2, 3):
            for result, b in ((found, heights[0, :, :, c]), (alone, heights[0, :, :, 0])):
                np.testing.assert_array_equal(result[n, :, :, c], extremes(x[n, :, :, c], b, sign).values)


# Sums of an opening tie wherever a winner of the erosion wins again.
@pytest.mark.parametrize("function", SIGNS, ids=lambda function: function.__name__)
def test_derivatives_of_every_order(function: Any) -> None:
    x, heights = distinct((4, 5), "x"), distinct((2, 3), "b")
    objectives = {rule: cubed(partial(function, rule=rule)) for rule in ("jvp", "vjp")}
    check_gradient_and_hessian(objectives, x, heights)


@pytest.mark.parametrize("function", SIGNS, ids=lambda function: function.__name__)
def test_heights_are_in_the_order_of_the_axes(function: Any) -> None:
    x, heights = distinct((4, 5), "x"), distinct((2, 3), "b")
    # Whether all axes are pooled or not.
    np.testing.assert_array_equal(function(x, heights, axis=(1, 0)), function(x.T, heights).T)
    np.testing.assert_array_equal(function(x[None], heights, axis=(2, 1))[0], function(x.T, heights).T)


def test_chains_of_flat_elements() -> None:
    disk = np.hypot(*np.mgrid[-3:4, -3:4]) <= 3
    x = np.random.default_rng(0).integers(0, 255, (20, 21)).astype(np.uint8)
    opened, closed, white = (
        compiled_fast(partial(function, element=disk))(x)
        for function in (morphology.opening, morphology.closing, morphology.white_top_hat)
    )
    assert opened.dtype == np.uint8
    assert (opened <= x).all()
    assert (closed >= x).all()
    np.testing.assert_array_equal(morphology.opening(opened, disk), opened)
    np.testing.assert_array_equal(white, x - opened)
    bits = x > 128
    np.testing.assert_array_equal(morphology.white_top_hat(bits, (3, 3)), bits & ~morphology.opening(bits, (3, 3)))


def test_large_elements_and_small_floats() -> None:
    x = np.random.default_rng(4).normal(size=(24, 25))
    heights = np.random.default_rng(5).normal(size=(11, 9))

    @compiled_fast
    def values_and_gradients(x: jax.Array, heights: jax.Array) -> tuple[jax.Array, Any]:
        values, pull_back = jax.vjp(morphology.dilation, x, heights)
        return values, pull_back(values)

    values, gradients = values_and_gradients(x, heights)
    expected = extremes(x, heights, 1)
    np.testing.assert_array_equal(values, expected.values)
    for found, wanted in zip(gradients, expected.backward(np.asarray(values), heights.shape, 1), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    halves = [array.astype(jnp.bfloat16) for array in (x, heights)]
    found = morphology.dilation(*halves)
    exact = morphology.dilation(*(array.astype(np.float32) for array in halves))
    np.testing.assert_array_equal(found, exact.astype(jnp.bfloat16))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_steps_are_compiled_once(dtype: Any) -> None:
    x, heights = jnp.linspace(-1, 1, 40).astype(dtype), jnp.linspace(0, 1, 14)
    with_tangent = compiled_as_usual(
        lambda x: jax.jvp(lambda x: jax.nn.relu(morphology.dilation(x, heights)), (x,), (jnp.ones_like(x),))
    )
    start = time.process_time()
    values, _ = with_tangent(x)
    # Each step again for every result would take a minute, and four times as long for another cell.
    assert time.process_time() - start < 10
    wide = morphology.dilation(x.astype(np.float32), heights.astype(dtype).astype(np.float32))
    np.testing.assert_array_equal(values, jax.nn.relu(wide).astype(dtype))


def test_batches_programs_and_portable_ones() -> None:
    xs, heights = distinct((3, 4, 5), "xs"), distinct((3, 2, 3), "each")
    found = jax.vmap(morphology.dilation)(xs, heights)
    one_by_one = [morphology.dilation(x, b) for x, b in zip(xs, heights, strict=True)]
    np.testing.assert_array_equal(found, one_by_one)

    def slopes(x: jax.Array, b: jax.Array) -> Any:
        return jax.grad(lambda x, b: (morphology.erosion(x, b) ** 2).sum(), (0, 1))(x, b)

    expected = slopes(xs[0], heights[0])
    with jax.disable_jit():
        jax.tree.map(np.testing.assert_allclose, slopes(xs[0], heights[0]), expected)
    with jaxpool.portable():
        jax.tree.map(np.testing.assert_allclose, slopes(xs[0], heights[0]), expected)


@pytest.mark.parametrize(
    ("element", "axis", "error", "words"),
    [
        (np.ones((3, 3), int), None, TypeError, "give floats for heights"),
        (np.ones((3, 3, 3)), "NHWC", ValueError, "does not fit x"),
        (np.ones((2, 3, 3, 3)), "NHWC", ValueError, "does not fit x"),
        (np.array([[True, False, False]]), (1, 2), ValueError, "give the element its centre"),
        (3, None, ValueError, r"element 3 does not say how many axes to pool; write element=\(3, 3\)"),
        ((3,), (1, 2), ValueError, r"element \(3,\) has 1 entry but 2 axes"),
        (jaxpool.bins(2, 2), (1, 2), TypeError, r"element must be an int or a sequence of ints, got bins\(2, 2\)"),
        (np.zeros((2, 2), bool), (1, 2), ValueError, "element of shape .* all False"),
    ],
)
def test_wrong_elements(element: Any, axis: Any, error: type[Exception], words: str) -> None:
    x = np.ones((4, 5, 6, 3))
    with pytest.raises(error, match=words) as caught:
        morphology.dilation(x, element, axis=axis)
    assert str(caught.value).startswith("dilation: ")
