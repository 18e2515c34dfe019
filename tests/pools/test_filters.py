"""Blurs, against the reference, and morphology, against SciPy and the reference: masks, ties, NaN, dtypes, errors."""

import math
import re
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
from tests.harness.checks import ROUNDING_OF_QUOTIENTS
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.reference.filters import extremes
from tests.registry.calls import Call, check
from tests.registry.cases import distinct, mask

pytestmark = pytest.mark.usefixtures("for_this_platform")

PLANE = np.random.default_rng(0).normal(size=(9, 7))


@pytest.mark.parametrize(
    ("kernels", "strides", "padding", "dilations"),
    [
        ((4, 2), (3, 1), "WRAP", (1, 3)),
        # Cells that no window holds, in and between windows and at the end; more than 25 cells.
        ((2, 1), (5, 3), ((1, 0), (0, 2)), (3, 1)),
        pytest.param((2, 5), (1, 2), "EDGE", (2, 2), marks=pytest.mark.slow),
        pytest.param((6, 5), (2, 1), ((3, 2), (2, 2)), (1, 1), marks=pytest.mark.slow),
    ],
)
def test_blurs(kernels: Any, strides: Any, padding: Any, dilations: Any) -> None:
    windows = {"kernel_size": kernels, "stride": strides, "padding": padding, "dilation": dilations}
    for rule in ("jvp", "vjp"):
        check(Call("blur_pool", (9, 7), {**windows, "rule": rule}, cells="distinct"))


def test_the_default_of_blurred_maxima_is_that_of_the_paper() -> None:
    # Maxima of two cells at a stride of 1 without padding, mirrored by a cell, (1, 2, 1)/4, every second one.
    maxima = np.pad(np.maximum(PLANE[:, 1:], PLANE[:, :-1]), ((0, 0), (1, 1)), mode="reflect")
    expected = ((maxima[:, :-2] + 2 * maxima[:, 1:-1] + maxima[:, 2:]) / 4)[:, ::2]
    np.testing.assert_allclose(jaxpool.max_blur_pool(PLANE, (2,)), expected, atol=1e-14)
    np.testing.assert_allclose(jaxpool.max_blur_pool(PLANE, (2,), None, blur_size=3), expected, atol=1e-14)


def test_an_array_of_one_number_stays_it() -> None:
    mask = np.random.default_rng(1).random((9, 8)) < 0.4
    mask[:6] = False
    for dtype in (jnp.float32, jnp.bfloat16):
        x = jnp.where(mask, jnp.asarray(3, dtype), math.nan)
        blurred = jaxpool.blur_pool(x, (5, 4), 1, "EDGE", where=mask)
        assert blurred.dtype == dtype
        assert set(np.unique(blurred.astype(jnp.bfloat16)).tolist()) == {0.0, 3.0}
        np.testing.assert_allclose(blurred[blurred != 0].astype(jnp.float32), 3, rtol=ROUNDING_OF_QUOTIENTS)


def test_cotangents_of_nan_reach_the_cells_of_their_window_only() -> None:
    for rule in ("jvp", "vjp"):
        pool = partial(jaxpool.blur_pool, kernel_size=(2,), stride=3, padding=0, rule=rule)
        values, pull_back = jax.vjp(pool, jnp.arange(9.0))
        (gradient,) = pull_back(jnp.full_like(values, jnp.nan).at[1].set(1.0))
        np.testing.assert_array_equal(gradient, [np.nan, np.nan, 0, 0.5, 0.5, 0, np.nan, np.nan, 0])


@pytest.mark.parametrize("function", ["blur_pool", "max_blur_pool"])
def test_halves_are_rounded_once(function: str) -> None:
    x = np.random.default_rng(2).normal(size=(2, 9)).astype(jnp.bfloat16)
    pool = partial(getattr(jaxpool, function), kernel_size=(3,), stride=1, padding="EDGE")
    values, pull_back = jax.vjp(pool, x)
    cotangent = jnp.cos(jnp.arange(values.size)).reshape(values.shape).astype(x.dtype)
    # Binomial weights are exact.
    wide, wide_pull_back = jax.vjp(pool, x.astype(np.float32))
    np.testing.assert_array_equal(values, wide.astype(x.dtype))
    found, expected = pull_back(cotangent)[0], wide_pull_back(cotangent.astype(np.float32))[0]
    np.testing.assert_array_equal(found, expected.astype(x.dtype))


def test_dtypes_of_blurs() -> None:
    assert jaxpool.blur_pool(np.full(4, 200, np.uint8), (3,)).tolist() == [200, 200]
    mixed = jaxpool.blur_pool(np.array([1 + 1j, math.inf, 2]), (3,), 1, 0)
    assert mixed.tolist() == [complex(math.inf, 0.25)]


# Messages must not advise what these pools lack: padding of the maximum, and a ceil mode.
WRONG_BLURS: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("max_blur_pool", "blur_size 9 .* spans 9 cells but the input has 7", (2,), {"padding": 0, "blur_size": 9}),
    ("max_blur_pool", "blur_size must be at least 1, got 0$", (2,), {"blur_size": 0}),
    ("max_blur_pool", r"blur_size \(3, 3\) has 2 entries but 1 axis is pooled", (2,), {"blur_size": (3, 3)}),
    ("max_blur_pool", "kernel_size 5 .* the input has 4; use a smaller window$", (5, 2), {}),
    ("blur_pool", "kernel_size 5 .* use a smaller window or more padding$", 5, {"padding": "VALID", "axis": (0, 1)}),
    ("blur_pool", "kernel_size 3 does not say how many axes", 3, {}),
]


@pytest.mark.parametrize(("function", "message", "size", "options"), WRONG_BLURS)
def test_wrong_arguments_of_blurs(function: str, message: str, size: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{function}: {message}"):
        getattr(jaxpool, function)(jnp.zeros((4, 8)), size, **options)


@pytest.mark.parametrize(
    ("axis", "axes", "fix"),
    [(None, "1 axis is", (3,)), (-1, "1 axis is", 3), ((0, 1, 2), "3 axes are", 3)],
)
def test_the_default_kernel_size_is_for_two_axes(axis: Any, axes: str, fix: Any) -> None:
    x = jnp.zeros((8,) if axis is None else (4, 8, 8))
    message = f"blur_pool: kernel_size (3, 3), the default, is for two axes, but {axes} pooled; write kernel_size={fix}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        jaxpool.blur_pool(x, axis=axis)
    assert jax.eval_shape(partial(jaxpool.blur_pool, kernel_size=fix, axis=axis), x).shape[-1] == 4
    # Any other size was given by the caller, and then the axes are wrong, as in other functions.
    with pytest.raises(ValueError, match=r"^blur_pool: kernel_size \(2, 3\) has 2 entries but"):
        jaxpool.blur_pool(x, (2, 3), axis=axis)


X = distinct((9, 11), "morphology")
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


@pytest.mark.parametrize("size", [(2, 4), *(pytest.param(one, marks=pytest.mark.slow) for one in ((3, 3), (1, 5)))])
def test_morphology_is_that_of_scipy(size: tuple[int, int]) -> None:
    cells = np.random.default_rng(1).random(size) < 0.6
    cells[size[0] // 2, size[1] // 2] = True
    heights = np.random.default_rng(2).normal(size=size)
    flat = jaxpool.footprint(cells)
    elements = [(size, {"size": size}), (flat, {"footprint": cells}), (heights, {"structure": heights})]

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
def test_masks_ties_and_special_values_of_dilations(function: Any, rule: Any) -> None:
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


def test_steps_are_compiled_once() -> None:
    x, heights = jnp.linspace(-1, 1, 40).astype(jnp.bfloat16), jnp.linspace(0, 1, 14)
    rectified = compiled_as_usual(
        lambda x: jax.jvp(lambda x: jax.nn.relu(morphology.dilation(x, heights)), (x,), (jnp.ones_like(x),))
    )
    start = time.process_time()
    values, _ = rectified(x)
    # Each step again for every result would take a minute, and four times as long for another cell.
    assert time.process_time() - start < 10
    wide = morphology.dilation(x.astype(np.float32), heights.astype(x.dtype).astype(np.float32))
    np.testing.assert_array_equal(values, jax.nn.relu(wide).astype(x.dtype))


def test_batches_of_elements() -> None:
    xs, heights = distinct((3, 4, 5), "xs"), distinct((3, 2, 3), "each")
    found = jax.vmap(morphology.dilation)(xs, heights)
    np.testing.assert_array_equal(found, [morphology.dilation(x, b) for x, b in zip(xs, heights, strict=True)])

    def slopes(x: jax.Array, b: jax.Array) -> Any:
        return jax.grad(lambda x, b: (morphology.erosion(x, b) ** 2).sum(), (0, 1))(x, b)

    expected = slopes(xs[0], heights[0])
    for context in (jax.disable_jit(), jaxpool.portable()):
        with context:
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
