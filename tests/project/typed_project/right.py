"""Pools and every stand-in, called as users call them: the type checker reports nothing and knows the types of results.

Only the type checker checks `assert_type`; at run time it returns its first argument.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, assert_type

import jax
import numpy as np
from jax.typing import ArrayLike

import jaxpool
from jaxpool.compat import equinox, flax, haiku, keras, torch

Values = jax.Array
ValuesAndIndices = tuple[jax.Array, jax.Array]


def windows(x: jax.Array) -> list[jax.Array]:
    """Fixed windows over images, channels first."""
    return [
        assert_type(jaxpool.max_pool(x, [3, 3], 2, 1), Values),
        assert_type(jaxpool.max_pool(x, x.shape[-2:]), Values),
        assert_type(jaxpool.max_pool(x, 2, axis="NHWC"), Values),
        assert_type(jaxpool.min_pool(x, (3, 3), stride=(1, 2), padding="SAME"), Values),
        assert_type(jaxpool.min_pool(x, 2, axis=-1, rule="vjp"), Values),
        assert_type(jaxpool.sum_pool(x, (2, 2), padding=((0, 1), (1, 0)), dilation=2), Values),
        assert_type(jaxpool.avg_pool(x, (2, 2), padding=[1, 0], count_include_pad=False, ceil_mode=True), Values),
        assert_type(jaxpool.avg_pool(x, (2, 2), divisor_override=3), Values),
        assert_type(jaxpool.lp_pool(x, np.full((3, 1, 1), 1.5), (2, 2)), Values),
        assert_type(jaxpool.smooth_max_pool(x, beta=2.0, kernel_size=(2, 2)), Values),
        assert_type(jaxpool.mellowmax_pool(x, 0, (2, 2), rule="vjp"), Values),
        assert_type(jaxpool.soft_pool(x, np.ones((3, 1, 1)), (2, 2)), Values),
        assert_type(jaxpool.stochastic_pool(x, (2, 2), key=jax.random.key(0)), Values),
        assert_type(jaxpool.blur_pool(x, (3, 3), padding="WRAP"), Values),
        assert_type(jaxpool.sum_pool(x, (3, 3), 1, padding=("causal", ("REFLECT", (2, 1)))), Values),
        assert_type(jaxpool.max_pool(x, (3, 3), 1, ["SAME", (0, 1)]), Values),
        assert_type(jaxpool.max_blur_pool(x, 2, blur_size=(3, 4), axis=(-3, -2)), Values),
        assert_type(jaxpool.quantile_pool(x, 0.9, (3, 3), method="lower"), Values),
        assert_type(jaxpool.quantile_pool(x, (0.1, 0.9), (3, 3), method="hazen"), Values),
        assert_type(jaxpool.var_pool(x, jaxpool.bins(2, 3), correction=1), Values),
        assert_type(jaxpool.std_pool(x, jaxpool.whole, axis="NCHW"), Values),
        assert_type(jaxpool.weighted_pool(x, abs(x), jaxpool.footprint(np.eye(2) > 0)), Values),
    ]


def indices(x: jax.Array) -> list[jax.Array]:
    """Maxima with their indices, and unpooling."""
    values, places = assert_type(jaxpool.max_pool_with_indices(x, (2, 2)), ValuesAndIndices)
    assert_type(jaxpool.min_pool_with_indices(x, (2, 2), padding="EDGE"), ValuesAndIndices)
    assert_type(jaxpool.min_pool_with_indices(x, jaxpool.bins(2, 2)), ValuesAndIndices)
    binned, cells = assert_type(jaxpool.adaptive_max_pool_with_indices(x, (3, None)), ValuesAndIndices)
    return [
        assert_type(jaxpool.max_unpool(values, places, x.shape[-2:]), Values),
        assert_type(jaxpool.max_unpool(binned, cells, output_size=[8, 8], axis=(2, 3)), Values),
    ]


def bins_and_axes(x: jax.Array, present: np.ndarray) -> list[jax.Array]:
    """Adaptive and global pools, under masks."""
    return [
        assert_type(jaxpool.adaptive_max_pool(x, (3, 3), where=present), Values),
        assert_type(jaxpool.adaptive_avg_pool(x, 3, axis=(-2, -1), where=x > 0), Values),
        assert_type(jaxpool.spatial_pyramid_pool(x, (1, 2, (3, 4)), kind="avg", axis=(2, 3)), Values),
        assert_type(jaxpool.global_max_pool(x, axis="NCHW", keepdims=False), Values),
        assert_type(jaxpool.global_gem_pool(x, 3.0, axis=(2, 3), eps=None), Values),
        assert_type(jaxpool.global_avg_pool(x, axis=-1, where=present, rule="vjp"), Values),
    ]


def placed(x: jax.Array, boxes: jax.Array) -> list[jax.Array]:
    """Windows at random positions, and boxes."""
    drawn = jaxpool.fractional_max_pool_with_indices(x, (2, 2), output_ratio=(0.5, 0.6), key=jax.random.key(0))
    values, _ = assert_type(drawn, ValuesAndIndices)
    return [
        values,
        assert_type(jaxpool.fractional_max_pool(x, 2, 3, samples=np.zeros((2, 3, 2)), axis=(2, 3)), Values),
        assert_type(jaxpool.roi_align(x, boxes, (2, 2), sampling_ratio=1, aligned=False), Values),
        assert_type(jaxpool.roi_pool(x, boxes, 2, axis=(-2, -1)), Values),
    ]


def frameworks(x: jax.Array) -> list[jax.Array]:
    """The stand-ins for Flax, Haiku and Keras."""
    return [
        assert_type(flax.max_pool(x, (2, 2), strides=(2, 2)), Values),
        assert_type(flax.min_pool(x, (2, 2), padding=[(0, 1), (0, 1)]), Values),
        assert_type(flax.avg_pool(x, (2, 2), (2, 2), "SAME", count_include_pad=False), Values),
        assert_type(haiku.max_pool(x, (2, 2, 1), (2, 2, 1), "VALID"), Values),
        assert_type(haiku.avg_pool(x, (2, 2, 1), strides=(2, 2, 1), padding="SAME", channel_axis=None), Values),
        assert_type(haiku.MaxPool((2, 2, 1), (2, 2, 1), "VALID")(x), Values),
        assert_type(haiku.AvgPool((2, 2, 1), (2, 2, 1), "SAME", name="pool")(x), Values),
        assert_type(keras.max_pool(x, 2), Values),
        assert_type(keras.average_pool(x, (2, 3), 1, padding="same", data_format="channels_first"), Values),
        assert_type(keras.adaptive_max_pool(x, [2, 3]), Values),
        assert_type(keras.adaptive_average_pool(x, 2, data_format="channels_last"), Values),
    ]


def layers_of_equinox(x: jax.Array) -> list[jax.Array]:
    """The stand-ins for `equinox.nn`, without a batch."""
    line, image, cube = x[0, 0], x[0], x
    model: Callable[[jax.Array], jax.Array] = equinox.MaxPool2d(2, 2)
    return [
        model(image),
        assert_type(equinox.MaxPool1d(2)(line), Values),
        assert_type(equinox.MaxPool2d((3, 2), [2, 1], ((1, 1), (0, 1)), use_ceil=True)(image), Values),
        assert_type(equinox.MaxPool3d((2, 2, 1), padding=1)(cube), Values),
        assert_type(equinox.AvgPool1d((2,), stride=2)(line, key=None), Values),
        assert_type(equinox.AvgPool2d(2, padding=(1, 0))(image, key=jax.random.key(0)), Values),
        assert_type(equinox.AvgPool3d(2)(cube), Values),
        assert_type(equinox.AdaptiveMaxPool1d(3)(line), Values),
        assert_type(equinox.AdaptiveMaxPool2d((3, 2))(image), Values),
        assert_type(equinox.AdaptiveMaxPool3d(1)(cube), Values),
        assert_type(equinox.AdaptiveAvgPool1d(3)(line), Values),
        assert_type(equinox.AdaptiveAvgPool2d([3, 2])(image), Values),
        assert_type(equinox.AdaptiveAvgPool3d(1)(cube), Values),
    ]


def functions_of_pytorch(x: jax.Array) -> list[jax.Array]:
    """The stand-ins for `torch.nn.functional`, with indices and without, where the type is PyTorch's: any."""
    lines, cubes = x[..., 0], x[..., None]
    samples = jax.random.uniform(jax.random.key(0), (2, 3, 3))
    values: ValuesAndIndices = assert_type(torch.max_pool2d(x, 2, return_indices=True), Any)
    of_lines: ValuesAndIndices = assert_type(torch.max_pool1d(lines, 2, return_indices=True), Any)
    of_cubes: ValuesAndIndices = assert_type(torch.max_pool3d(cubes, (2, 2, 1), return_indices=True), Any)
    return [
        assert_type(torch.adaptive_max_pool1d(lines, 2, True), Any)[0],
        assert_type(torch.adaptive_max_pool2d(x, (2, None), return_indices=True), Any)[0],
        assert_type(torch.adaptive_max_pool3d(cubes, 1, return_indices=True), Any)[0],
        assert_type(torch.fractional_max_pool2d(x, 2, 3, None, True, samples[..., :2]), Any)[0],
        assert_type(torch.fractional_max_pool3d(cubes, 1, (4, 4, 1), _random_samples=samples), Any),
        assert_type(torch.max_pool1d(lines, 3, 2, 1), Any),
        assert_type(jaxpool.compat.torch.max_pool1d(lines, 3, 2, 1), Any),
        assert_type(torch.max_pool2d(x, (3, 2), 2, (1, 0), 1, True), Any),
        assert_type(torch.max_pool3d(cubes, (2, 2, 1), ceil_mode=True, return_indices=False), Any),
        assert_type(torch.avg_pool1d(lines, 2, count_include_pad=False), Values),
        assert_type(torch.avg_pool2d(x, 3, 2, 1, divisor_override=2), Values),
        assert_type(torch.avg_pool3d(cubes, [2, 2, 1]), Values),
        assert_type(torch.lp_pool1d(lines, 2, 2), Values),
        assert_type(torch.lp_pool2d(x, np.full((3, 1, 1), 1.5), 2), Values),
        assert_type(torch.lp_pool3d(cubes, float("inf"), (2, 2, 1), ceil_mode=True), Values),
        assert_type(torch.adaptive_avg_pool1d(lines, 2), Values),
        assert_type(torch.adaptive_avg_pool2d(x, (None, 2)), Values),
        assert_type(torch.adaptive_avg_pool3d(cubes, 1), Values),
        assert_type(torch.max_unpool1d(*of_lines, 2, output_size=(8,)), Values),
        assert_type(torch.max_unpool2d(*values, 2, output_size=x.shape), Values),
        assert_type(torch.max_unpool3d(*of_cubes, (2, 2, 1)), Values),
    ]


def pooled_by(pool: Callable[[ArrayLike], jax.Array], arrays: Sequence[np.ndarray]) -> list[jax.Array]:
    """Any pool of one argument, over NumPy arrays."""
    return [pool(array) for array in arrays]


def partial_calls(x: np.ndarray) -> list[jax.Array]:
    """Pools with all arguments given but the array."""
    return pooled_by(partial(jaxpool.max_pool, kernel_size=(2, 2)), [x, x]) + pooled_by(
        lambda x: jaxpool.global_avg_pool(x, axis=(-2, -1)), [x]
    )


VERSION: str = jaxpool.__version__
