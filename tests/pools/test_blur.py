"""Blurring, compared with NumPy's convolutions: its weights, masks, stages and arguments."""

import math
import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.checks import ROUNDING_OF_QUOTIENTS
from tests.harness.compilation import compiled_fast

pytestmark = pytest.mark.usefixtures("for_this_platform")

X = np.random.default_rng(0).normal(size=(9, 7))
MODES: dict[str, Any] = {"WRAP": "wrap", "REFLECT": "reflect", "EDGE": "edge"}


def convolved(x: np.ndarray, kernel: int, stride: int, padding: Any, dilation: int, axis: int) -> np.ndarray:
    """One axis filtered by a power of (1, 1)/2, every `stride`-th output."""
    weights = np.ones(1)
    for _ in range(kernel - 1):
        weights = np.convolve(weights, [0.5, 0.5])
    spaced = np.zeros(dilation * (kernel - 1) + 1)
    spaced[::dilation] = weights
    widths = [(0, 0)] * x.ndim
    widths[axis] = ((len(spaced) - 1) // 2, len(spaced) // 2) if isinstance(padding, str) else padding
    padded = np.pad(x, widths, mode=MODES[padding]) if isinstance(padding, str) else np.pad(x, widths)
    filtered = np.apply_along_axis(lambda line: np.convolve(line, spaced, "valid"), axis, padded)
    return np.take(filtered, np.arange(0, filtered.shape[axis], stride), axis)


@pytest.mark.parametrize(
    ("kernels", "strides", "padding", "dilations"),
    [
        ((3, 3), (2, 2), "REFLECT", (1, 1)),
        ((4, 2), (3, 1), "WRAP", (1, 3)),
        ((2, 5), (1, 2), "EDGE", (2, 2)),
        # Cells that no window holds, in and between windows and at the end; more than 25 cells.
        ((2, 1), (5, 3), ((1, 0), (0, 2)), (3, 1)),
        ((6, 5), (2, 1), ((3, 2), (2, 2)), (1, 1)),
    ],
)
def test_values_and_transpose_are_those_of_convolutions(
    kernels: Any, strides: Any, padding: Any, dilations: Any
) -> None:
    def reference(x: np.ndarray) -> np.ndarray:
        for axis in range(2):
            here = padding if isinstance(padding, str) else padding[axis]
            x = convolved(x, kernels[axis], strides[axis], here, dilations[axis], axis)
        return x

    @compiled_fast
    def everything(x: jax.Array, tangent: jax.Array, cotangent: jax.Array) -> Any:
        pools = [
            partial(
                jaxpool.blur_pool, kernel_size=kernels, stride=strides, padding=padding, dilation=dilations, rule=rule
            )
            for rule in ("jvp", "vjp")
        ]
        backward = [jax.vjp(pool, x)[1](cotangent)[0] for pool in pools]
        return pools[0](x), jax.jvp(pools[0], (x,), (tangent,))[1], backward

    tangent, expected = np.cos(X), reference(X)
    cotangent = np.sin(np.arange(expected.size)).reshape(expected.shape)
    values, moved, gradients = everything(X, tangent, cotangent)
    np.testing.assert_allclose(values, expected, atol=1e-14)
    np.testing.assert_allclose(moved, reference(tangent), atol=1e-14)
    units = np.eye(X.size).reshape(-1, *X.shape)
    transpose = np.array([np.vdot(reference(unit), cotangent) for unit in units]).reshape(X.shape)
    for gradient in gradients:
        np.testing.assert_allclose(gradient, transpose, atol=1e-14)


def test_default_is_that_of_the_paper() -> None:
    # Maxima of two cells at a stride of 1 without padding, mirrored by a cell, (1, 2, 1)/4, every second one.
    maxima = np.maximum(X[:, 1:], X[:, :-1])
    expected = convolved(maxima, 3, 2, "REFLECT", 1, 1)
    np.testing.assert_allclose(jaxpool.max_blur_pool(X, (2,)), expected, atol=1e-14)
    np.testing.assert_allclose(jaxpool.max_blur_pool(X, (2,), None, blur_size=3), expected, atol=1e-14)


def test_dilated_maxima_and_partial_windows_of_them() -> None:
    x = jnp.array([5.0, 0.0, 4.0, 8.0, 1.0, 2.0])
    maxima = jnp.array([5.0, 8.0, 4.0, 8.0])
    blurred = partial(jaxpool.max_blur_pool, x, (2,), 2, 0, blur_size=3, dilation=2)
    np.testing.assert_array_equal(blurred(), jaxpool.blur_pool(maxima, (3,), 2, 0))
    # The last window, (4, 8, –), is without its last weight: (1·4 + 2·8)/3.
    np.testing.assert_allclose(blurred(ceil_mode=True), [6.25, 20 / 3], rtol=1e-6)
    # (8, 0, –): padding keeps its weight.
    padded = jaxpool.max_blur_pool(x, (2,), 3, ((0, 1),), dilation=2, ceil_mode=True)
    np.testing.assert_allclose(padded, [6.25, 8 / 3], rtol=1e-6)


def test_an_array_of_one_number_stays_it() -> None:
    mask = np.random.default_rng(1).random((9, 8)) < 0.4
    mask[:6] = False
    for dtype in (jnp.float32, jnp.bfloat16):
        x = jnp.where(mask, jnp.asarray(3, dtype), math.nan)
        blurred = jaxpool.blur_pool(x, (5, 4), 1, "EDGE", where=mask)
        assert blurred.dtype == dtype
        assert set(np.unique(blurred.astype(jnp.bfloat16)).tolist()) == {0.0, 3.0}
        np.testing.assert_allclose(blurred[blurred != 0].astype(jnp.float32), 3, rtol=ROUNDING_OF_QUOTIENTS)


def test_padding_keeps_its_weight_under_a_mask() -> None:
    x, mask = jnp.array([4.0, jnp.nan, 8.0]), np.array([True, False, True])
    # (0, 4)·(1, 2) over weights of 3; the windows of copies count what they copy.
    np.testing.assert_allclose(jaxpool.blur_pool(x, (3,), 2, 1, where=mask), [8 / 3, 16 / 3], rtol=1e-6)
    assert jaxpool.blur_pool(x, (3,), 2, where=mask).tolist() == [4, 8]
    assert jaxpool.blur_pool(x, (2,), 2, ((1, 0),), where=np.array([False, True, True])).tolist()[0] == 0


def test_cotangents_of_nan_reach_the_cells_of_their_window_only() -> None:
    for rule in ("jvp", "vjp"):
        pool = partial(jaxpool.blur_pool, kernel_size=(2,), stride=3, padding=0, rule=rule)
        values, pull_back = jax.vjp(pool, jnp.arange(9.0))
        (gradient,) = pull_back(jnp.full_like(values, jnp.nan).at[1].set(1.0))
        np.testing.assert_array_equal(gradient, [np.nan, np.nan, 0, 0.5, 0.5, 0, np.nan, np.nan, 0])


@pytest.mark.parametrize("function", ["blur_pool", "max_blur_pool"])
def test_halves_are_rounded_once(function: str) -> None:
    x = jnp.asarray(np.random.default_rng(2).normal(size=(2, 9)), jnp.bfloat16)
    pool = partial(getattr(jaxpool, function), kernel_size=(3,), stride=1, padding="EDGE")

    def both(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        values, pull_back = jax.vjp(pool, x)
        return values, pull_back(jnp.cos(jnp.arange(values.size)).reshape(values.shape).astype(values.dtype))[0]

    weights_are_exact = both(x.astype(jnp.float32))[0]
    values, gradient = both(x)
    np.testing.assert_array_equal(values, weights_are_exact.astype(x.dtype))
    pull_back = jax.vjp(pool, x.astype(jnp.float32))[1]
    rounded = jnp.cos(jnp.arange(values.size)).reshape(values.shape).astype(x.dtype).astype(jnp.float32)
    np.testing.assert_array_equal(gradient, pull_back(rounded)[0].astype(x.dtype))


def test_dtypes() -> None:
    assert jaxpool.blur_pool(np.full(4, 200, np.uint8), (3,)).tolist() == [200, 200]
    assert jaxpool.blur_pool(np.array([True, False, True]), (2,), 1, 0).dtype == jnp.float32
    assert jaxpool.max_blur_pool(np.arange(6), (2,), 1, "EDGE").dtype == jnp.float32
    mixed = jaxpool.blur_pool(np.array([1 + 1j, math.inf, 2]), (3,), 1, 0)
    assert mixed.tolist() == [complex(math.inf, 0.25)]


def test_wrong_arguments() -> None:
    x = jnp.zeros((4, 8))
    with pytest.raises(ValueError, match=r"^max_blur_pool: blur_size 9 along axis 1 spans 9 cells but the input has 7"):
        jaxpool.max_blur_pool(x, (2,), padding=0, blur_size=9)
    with pytest.raises(ValueError, match=r"^max_blur_pool: blur_size must be at least 1, got 0$"):
        jaxpool.max_blur_pool(x, (2,), blur_size=0)
    with pytest.raises(ValueError, match=r"^max_blur_pool: blur_size \(3, 3\) has 2 entries but 1 axis is pooled"):
        jaxpool.max_blur_pool(x, (2,), blur_size=(3, 3))
    # Messages must not advise what these pools lack: padding of the maximum, and a ceil mode.
    with pytest.raises(ValueError, match=r"^max_blur_pool: kernel_size 5 .* the input has 4; use a smaller window$"):
        jaxpool.max_blur_pool(x, (5, 2))
    message = r"^blur_pool: kernel_size 5 .* the input has 4 and 0 of padding; use a smaller window or more padding$"
    with pytest.raises(ValueError, match=message):
        jaxpool.blur_pool(x, 5, padding="VALID", axis=(0, 1))
    with pytest.raises(ValueError, match=r"^blur_pool: kernel_size 3 does not say how many axes"):
        jaxpool.blur_pool(x, 3)


@pytest.mark.parametrize(
    ("shape", "axis", "pooled", "fix"),
    [
        ((8,), None, "1 axis is", "kernel_size=(3,)"),
        ((4, 8), -1, "1 axis is", "kernel_size=3"),
        ((4, 8, 8), (0, 1, 2), "3 axes are", "kernel_size=3"),
    ],
)
def test_the_default_kernel_size_is_for_two_axes(shape: tuple[int, ...], axis: Any, pooled: str, fix: str) -> None:
    x = jnp.zeros(shape)
    message = f"blur_pool: kernel_size (3, 3), the default, is for two axes, but {pooled} pooled; write {fix}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        jaxpool.blur_pool(x, axis=axis)
    written = (3,) if axis is None else 3
    assert jax.eval_shape(partial(jaxpool.blur_pool, kernel_size=written, axis=axis), x).shape[-1] == 4
    # Any other size was given by the caller, and then the axes are wrong, as in other functions.
    with pytest.raises(ValueError, match=r"^blur_pool: kernel_size \(2, 3\) has 2 entries but"):
        jaxpool.blur_pool(x, (2, 3), axis=axis)


def test_the_rule_vjp_has_no_forward_mode() -> None:
    x = jnp.zeros((4, 8))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(partial(jaxpool.blur_pool, kernel_size=(3,), rule="vjp"), (x,), (x,))
