"""Common mistakes of newcomers: each is refused with a message that names it and says what to write, which works.

The mistakes are common in the issue trackers of pooling libraries: windows and layouts of Flax, Haiku, Keras and
PyTorch, sizes that result from a division, arrays in place of numbers. Wrong values of a single argument, with what to
write in their place, are in `test_errors_sizes` and `test_errors_values`.
"""

import ast
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool

_IMAGES = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
NAMES: dict[str, Any] = {
    "jax": jax,
    "jnp": jnp,
    "np": np,
    "jaxpool": jaxpool,
    "x": _IMAGES,  # channels first
    "pictures": np.moveaxis(_IMAGES, 1, -1),  # channels last
    "line": _IMAGES[0, 0, 0],
    "series": np.ones((2, 9, 3), np.float32),  # batch, time, channels
    "logits": np.ones((2, 9, 1), np.float32),
    "footprint": np.ones((3, 3)),
    "boxes": np.ones((1, 4), np.float32),
    "num_heads": 3,
    "lengths": np.array([9, 4]),
    "key_padding_mask": np.arange(9) >= np.array([[9], [4]]),
    "values": np.ones((2, 3, 4, 4), np.float32),
    "indices": np.zeros((2, 3, 4, 4), np.int32),
}

# The wrong call; what its message repeats, and says to do, in code if that can be pasted; the right call and its shape.
MISTAKES = """
jaxpool.max_pool(x, 2)  # an int as window, as in PyTorch
    kernel_size 2 does not say how many axes … `kernel_size=(2, 2)`
    jaxpool.max_pool(x, kernel_size=(2, 2)) -> (2, 3, 4, 4)
jaxpool.avg_pool(pictures, 2)  # an int as window, channels last
    kernel_size 2 does not say how many axes … `axis='NHWC'`
    jaxpool.avg_pool(pictures, 2, axis='NHWC') -> (2, 4, 4, 3)
jaxpool.max_pool(pictures, (4, 4))  # channels last without saying so: the channels are too few for the window
    kernel_size 4 along axis 3 spans 4 cells but the input has 3 … `axis='NHWC'`
    jaxpool.max_pool(pictures, (4, 4), axis='NHWC') -> (2, 2, 2, 3)
jaxpool.max_pool(x, (9, 9))  # a window larger than the input
    kernel_size 9 along axis 2 spans 9 cells but the input has 8 … `ceil_mode=True`
    jaxpool.max_pool(x, (9, 9), ceil_mode=True) -> (2, 3, 1, 1)
jaxpool.avg_pool(x, (x.shape[2] / 2, x.shape[3] / 2))  # the half of an axis as a float
    kernel_size must be an int, got 4.0 of type float … `//`
    jaxpool.avg_pool(x, (x.shape[2] // 2, x.shape[3] // 2)) -> (2, 3, 2, 2)
jax.jit(jaxpool.max_pool)(x, (2, 2))  # a traced window
    kernel_size must be a Python int, got a traced value … `static_argnames='kernel_size'`
    jax.jit(jaxpool.max_pool, static_argnames='kernel_size')(x, (2, 2)) -> (2, 3, 4, 4)
jaxpool.max_pool(x, x)  # an array in the place of the window
    kernel_size must be an int or a sequence of ints, got an array of shape (2, 3, 8, 8) … `kernel_size=(2, 2)`
    jaxpool.max_pool(x, kernel_size=(2, 2)) -> (2, 3, 4, 4)
jaxpool.max_pool(x, np.ones((3, 3), bool))  # the cells of a window in the place of its sizes
    kernel_size must be an int or a sequence of ints, got an array of shape (3, 3) … `kernel_size=jaxpool.footprint(`
    jaxpool.max_pool(x, kernel_size=jaxpool.footprint(np.ones((3, 3), bool))) -> (2, 3, 2, 2)
jaxpool.max_pool(x, 'whole', axis='NCHW')
    kernel_size must be an int or a sequence of ints, got 'whole' … `jaxpool.whole`
    jaxpool.max_pool(x, jaxpool.whole, axis='NCHW') -> (2, 3, 1, 1)
jaxpool.max_pool((2, 2), x)  # the window first
    x comes first … `max_pool(x, (2, 2))`
    jaxpool.max_pool(x, (2, 2)) -> (2, 3, 4, 4)
jaxpool.lp_pool(2, x, (2, 2))
    x comes first … `lp_pool(x, 2, `
    jaxpool.lp_pool(x, 2, (2, 2)) -> (2, 3, 4, 4)
jaxpool.max_pool(x, (2, 2), 'SAME')  # the padding in the place of the stride
    stride must be an int or a sequence of ints, got 'SAME' … `padding='SAME'`
    jaxpool.max_pool(x, (2, 2), padding='SAME') -> (2, 3, 4, 4)
jaxpool.max_pool(x, (3, 3), 2, padding='circular')  # a mode of PyTorch's padding
    padding 'circular' is unknown … `padding='WRAP'`
    jaxpool.max_pool(x, (3, 3), 2, padding='WRAP') -> (2, 3, 4, 4)
jaxpool.max_pool(line, (3,), 1, padding=('REFLECT', (2, 0)))  # a word with its amounts, for the only axis
    padding ('REFLECT', (2, 0)) has 2 entries but 1 axis is pooled … `padding=(('REFLECT', (2, 0)),)`
    jaxpool.max_pool(line, (3,), 1, padding=(('REFLECT', (2, 0)),)) -> (8,)
jaxpool.max_pool(x[0], 2, axis='NCHW')  # the layout of a batch, for one image
    axis 'NCHW' has 4 letters for x with 3 axes (3, 8, 8) … `'CHW'`
    jaxpool.max_pool(x[0], 2, axis='CHW') -> (3, 4, 4)
jaxpool.global_avg_pool(x, axis=None)  # None for all axes, as in NumPy
    axis must be an int or a sequence of ints, got None … `axis=(-2, -1)`
    jaxpool.global_avg_pool(x, axis=(-2, -1)) -> (2, 3, 1, 1)
jaxpool.stochastic_pool(x, (2, 2), jax.random.key(0))  # a key in the place of the stride
    stride must be an int, got a key of jax.random … `key=`
    jaxpool.stochastic_pool(x, (2, 2), key=jax.random.key(0)) -> (2, 3, 4, 4)
jaxpool.max_pool(x.astype(np.complex64), (2, 2))  # the maximum of complex numbers
    x is complex64, and complex numbers are not supported … `abs(x)`
    jaxpool.max_pool(abs(x), (2, 2)) -> (2, 3, 4, 4)
(lambda x: jaxpool.max_pool(x, (2, 2)))(jnp.asarray(x, jnp.uint4))  # integers of four bits
    x has dtype uint4, which cannot be pooled … `x.astype(jnp.uint8)`
    (lambda x: jaxpool.max_pool(x.astype(jnp.uint8), (2, 2)))(jnp.asarray(x, jnp.uint4)) -> (2, 3, 4, 4)
(lambda x: jaxpool.avg_pool(x, (2, 2)))(jnp.asarray(x, jnp.float8_e4m3fn))  # floats of eight bits
    x has dtype float8_e4m3fn, which cannot be pooled … `x.astype(jnp.bfloat16)`
    (lambda x: jaxpool.avg_pool(x.astype(jnp.bfloat16), (2, 2)))(jnp.asarray(x, jnp.float8_e4m3fn)) -> (2, 3, 4, 4)
(lambda where: jaxpool.avg_pool(x, (2, 2), where=where))(np.array([True, False]))  # a bool for each sample
    where of shape (2,) does not broadcast to x (2, 3, 8, 8) … `where.reshape(2, 1, 1, 1)`
    (lambda where: jaxpool.avg_pool(x, (2, 2), where=where.reshape(2, 1, 1, 1)))(np.arange(2) > 0) -> (2, 3, 4, 4)
jaxpool.max_unpool(values, indices, (2, 2))  # the window as third argument of unpooling, as in PyTorch
    output_size (2, 2) is smaller than values (2, 3, 4, 4) … give the size before pooling
    jaxpool.max_unpool(values, indices, (8, 8)) -> (2, 3, 8, 8)
jaxpool.max_unpool(values.swapaxes(1, 3), indices.swapaxes(1, 3), pictures.shape)
    output_size (2, 8, 8, 3) has an entry for every axis of values (2, 4, 4, 3) … give those of the pooled axes alone
    jaxpool.max_unpool(values.swapaxes(1, 3), indices.swapaxes(1, 3), pictures.shape[1:3], axis='NHWC') -> (2, 8, 8, 3)
jaxpool.global_avg_pool(pictures, (1, 2))  # the axes of a global pool in the second place
    axis is given by its name … `axis=(1, 2)`
    jaxpool.global_avg_pool(pictures, axis=(1, 2)) -> (2, 1, 1, 3)
jaxpool.global_max_pool(pictures)  # a global pool without axes
    the first arguments are x, axis … `axis='NHWC'`
    jaxpool.global_max_pool(pictures, axis='NHWC') -> (2, 1, 1, 3)
jaxpool.global_max_pool(x)
    the first arguments are x, axis … `axis='NCHW'`
    jaxpool.global_max_pool(x, axis='NCHW') -> (2, 3, 1, 1)
jaxpool.global_max_pool(x=series)
    the first arguments are x, axis … `axis='NTC')`
    jaxpool.global_max_pool(series, axis='NTC') -> (2, 1, 3)
jaxpool.max_pool(series, 2)  # an int as window, for a batch of sequences
    kernel_size 2 does not say how many axes … `axis='NTC'`
    jaxpool.max_pool(series, 2, axis='NTC') -> (2, 4, 3)
jaxpool.global_avg_pool(series, axis='BTD')  # the layout of transformers, whose last axis holds features
    axis 'BTD' would pool axis 0, B, of x with 3 axes (2, 9, 3) … `'NTC'`
    jaxpool.global_avg_pool(series, axis='NTC') -> (2, 1, 3)
jaxpool.var_pool(x.astype(np.complex64), (2, 2))  # a variance of complex numbers
    x is complex64, and complex numbers are not supported … `x.real`
    jaxpool.var_pool(x.real, (2, 2)) + jaxpool.var_pool(x.imag, (2, 2)) -> (2, 3, 4, 4)
(lambda x: jaxpool.avg_pool(x, (2, 2)))(np.ma.masked_invalid(x))  # a masked array
    x is a masked array, whose mask would be lost … `where=~np.ma.getmaskarray(x)`
    (lambda x: jaxpool.avg_pool(x.data, (2, 2), where=~np.ma.getmaskarray(x)))(np.ma.masked_invalid(x)) -> (2, 3, 4, 4)
jaxpool.smooth_max_pool(x, 0.0, (2, 2))  # a smooth maximum that is a mean
    beta must be finite and not 0, got 0.0 … `avg_pool`
    jaxpool.avg_pool(x, (2, 2)) -> (2, 3, 4, 4)
jaxpool.max_pool(x, window_shape=(2, 2), strides=(2, 2))  # arguments of Flax
    in place of window_shape, strides … `kernel_size=(2, 2), stride=(2, 2)`
    jaxpool.max_pool(x, kernel_size=(2, 2), stride=(2, 2)) -> (2, 3, 4, 4)
jaxpool.max_pool(inputs=pictures, pool_size=2, strides=1, data_format='channels_last')  # all the words at once
    in place of inputs, pool_size, strides, data_format … `kernel_size=2, stride=1, axis='NHWC'`
    jaxpool.max_pool(pictures, kernel_size=2, stride=1, axis='NHWC') -> (2, 7, 7, 3)
jaxpool.max_pool(pictures, 2, data_format=None)
    give each axis of x a letter … `axis='NHWC'`
    jaxpool.max_pool(pictures, 2, axis='NHWC') -> (2, 4, 4, 3)
jaxpool.max_pool(pictures, 2, channel_axis=-1)
    give each axis of x a letter … `axis='NHWC'`
    jaxpool.max_pool(pictures, 2, axis='NHWC') -> (2, 4, 4, 3)
jaxpool.max_pool(x, (2, 2), return_indices=True)
    which returns (values, indices) … `max_pool_with_indices`
    jaxpool.max_pool_with_indices(x, (2, 2))[0] -> (2, 3, 4, 4)
(lambda mask: jaxpool.max_pool(x, (2, 2), mask=mask))(x > 0)
    in place of mask … `where=mask`
    (lambda mask: jaxpool.max_pool(x, (2, 2), where=mask))(x > 0) -> (2, 3, 4, 4)
jaxpool.median_pool(x, jaxpool.whole, axis='NCHW', keepdims=False)
    the pooled axes remain … `jnp.squeeze`
    jnp.squeeze(jaxpool.median_pool(x, jaxpool.whole, axis='NCHW'), (2, 3)) -> (2, 3)
jaxpool.global_avg_pool(pictures, 'NHWC')
    axis is given by its name … `axis='NHWC'`
    jaxpool.global_avg_pool(pictures, axis='NHWC') -> (2, 1, 1, 3)
jaxpool.global_avg_pool(pictures, dim=(1, 2), keepdim=False)  # arguments of PyTorch
    in place of dim, keepdim … `axis=(1, 2), keepdims=False`
    jaxpool.global_avg_pool(pictures, axis=(1, 2), keepdims=False) -> (2, 3)
jaxpool.soft_pool(x, (2, 2))  # β is 1 in the paper
    the first arguments are x, beta, kernel_size … `soft_pool(x, 1.0, (2, 2))`
    jaxpool.soft_pool(x, 1.0, (2, 2)) -> (2, 3, 4, 4)
jaxpool.global_gem_pool(x, axis='NCHW')
    the first arguments are x, norm_type, axis … `global_gem_pool(x, 3, axis='NCHW')`
    jaxpool.global_gem_pool(x, 3, axis='NCHW') -> (2, 3, 1, 1)
(lambda w: jaxpool.attention_pool(x, weights=w, kernel_size=(2, 2)))(x * x)
    for weights that are not logits … `weighted_pool`
    (lambda w: jaxpool.weighted_pool(x, weights=w, kernel_size=(2, 2)))(x * x) -> (2, 3, 4, 4)
jaxpool.lp_pool(x, (2, 2), norm_type=2)
    the first arguments are x, norm_type, kernel_size … `lp_pool(x, 2, (2, 2))`
    jaxpool.lp_pool(x, 2, (2, 2)) -> (2, 3, 4, 4)
jaxpool.lp_pool(x, (2, 2), 2)  # the window first, as in all other pools
    norm_type comes before kernel_size … `lp_pool(x, 2, (2, 2))`
    jaxpool.lp_pool(x, 2, (2, 2)) -> (2, 3, 4, 4)
jaxpool.mixed_pool(pictures, 2, 0.5, axis='NHWC')
    alpha comes before kernel_size … `0.5, 2`
    jaxpool.mixed_pool(pictures, 0.5, 2, axis='NHWC') -> (2, 4, 4, 3)
jaxpool.attention_pool(series, logits=logits, axis='NTC')
    the first arguments are x, logits, kernel_size … `logits, jaxpool.whole, axis='NTC')`
    jaxpool.attention_pool(series, logits, jaxpool.whole, axis='NTC') -> (2, 1, 3)
jaxpool.attention_pool(series, jaxpool.whole, logits, axis='NTC')
    logits come before kernel_size … `logits, jaxpool.whole, axis='NTC')`
    jaxpool.attention_pool(series, logits, jaxpool.whole, axis='NTC') -> (2, 1, 3)
jaxpool.lp_pool(pictures, axis='NHWC')
    the first arguments are x, norm_type, kernel_size … `3, 2, axis='NHWC'`
    jaxpool.lp_pool(pictures, 3, 2, axis='NHWC') -> (2, 4, 4, 3)
(lambda p: jaxpool.gem_pool(x, (2, 2), p))(jnp.full((3, 1, 1), 3.0))
    norm_type comes before kernel_size … `norm_type, (2, 2)`
    (lambda norm_type: jaxpool.gem_pool(x, norm_type, (2, 2)))(jnp.full((3, 1, 1), 3.0)) -> (2, 3, 4, 4)
jaxpool.std_pool(x, (2, 2), unbiased=True)
    for unbiased=True … `correction=1`
    jaxpool.std_pool(x, (2, 2), correction=1) -> (2, 3, 4, 4)
(lambda boxes: jaxpool.roi_align(x[0], boxes, (2, 2), spatial_scale=0.5))(jnp.ones((1, 4)))
    boxes are in cells of x … `boxes * 0.5`
    (lambda boxes: jaxpool.roi_align(x[0], boxes * 0.5, (2, 2)))(jnp.ones((1, 4))) -> (1, 3, 2, 2)
jaxpool.roi_align(x[0], boxes, (2, 2), 0.5, 2)  # all arguments by place, as in Torchvision
    boxes are in cells of x … `boxes * 0.5, sampling_ratio=2`
    jaxpool.roi_align(x[0], output_size=(2, 2), boxes=boxes * 0.5, sampling_ratio=2) -> (1, 3, 2, 2)
jaxpool.max_pool(pictures, 2, 2, 'SAME', 'NHWC')  # all arguments by place, as in TensorFlow
    axis is given by its name … `axis='NHWC'`
    jaxpool.max_pool(pictures, 2, 2, 'SAME', axis='NHWC') -> (2, 4, 4, 3)
jaxpool.max_pool(x, footprint=footprint)  # cells of windows as numbers
    in place of footprint … `kernel_size=jaxpool.footprint(footprint != 0)`
    jaxpool.max_pool(x, kernel_size=jaxpool.footprint(footprint != 0)) -> (2, 3, 2, 2)
jaxpool.morphology.dilation(x, footprint=footprint)
    in place of footprint … `element=footprint != 0`
    jaxpool.morphology.dilation(x, element=footprint != 0) -> (2, 3, 8, 8)
jaxpool.max_pool(series, 3, axis='NTC', lengths=lengths)
    where=jnp.arange(x.shape[1])[None, … `:, None] < lengths[:, None, None]`
    jaxpool.max_pool(series, 3, axis=1, where=jnp.arange(9)[None, :, None] < lengths[:, None, None]) -> (2, 3, 3)
jaxpool.attention_pool(series, logits, jaxpool.whole, axis='NTC', key_padding_mask=key_padding_mask)
    for the layout 'NTC' … `where=~key_padding_mask[..., None]`
    jaxpool.attention_pool(series, logits, jaxpool.whole, axis=1, where=~key_padding_mask[..., None]) -> (2, 1, 3)
jaxpool.attention_pool(series, logits, jaxpool.whole, axis=1, num_heads=3)
    jaxpool.whole, axis=1) for the layout 'NTC' … `num_heads, -1), logits`
    jaxpool.attention_pool(series.reshape(2, 9, num_heads, -1), logits[..., None], (9,), axis=1) -> (2, 1, 3, 1)
jaxpool.max_pool(x, (3, 3), 2, padding=1, padding_mode='circular')
    padding takes words … `padding=(('WRAP', 1), ('WRAP', 1))`
    jaxpool.max_pool(x, (3, 3), 2, padding=(('WRAP', 1), ('WRAP', 1))) -> (2, 3, 4, 4)
jaxpool.median_pool(x, (3, 3), 1, mode='reflect')  # a mode of SciPy
    for SciPy's reflect … `padding='SYMMETRIC'`
    jaxpool.median_pool(x, (3, 3), 1, padding='SYMMETRIC') -> (2, 3, 8, 8)
jaxpool.stochastic_pool(x, (2, 2), deterministic=True)
    give a key to draw cells … `key=None`
    jaxpool.stochastic_pool(x, (2, 2), key=None) -> (2, 3, 4, 4)
jaxpool.max_pool(x, (3, 3), 2, 1, 1, True)  # all arguments by place, as in PyTorch
    dilation is given by its name … `dilation=1, ceil_mode=True`
    jaxpool.max_pool(x, (3, 3), 2, 1, dilation=1, ceil_mode=True) -> (2, 3, 5, 5)
jaxpool.avg_pool(x, (3, 3), 2, 1, True, False)
    ceil_mode is given by its name … `ceil_mode=True, count_include_pad=False`
    jaxpool.avg_pool(x, (3, 3), 2, 1, ceil_mode=True, count_include_pad=False) -> (2, 3, 5, 5)
jaxpool.max_unpool(values, indices, kernel_size=2)
    give the size before pooling, not the window … `max_unpool(values, indices, x.shape[-2:])`
    jaxpool.max_unpool(values, indices, x.shape[-2:]) -> (2, 3, 8, 8)
jaxpool.max_unpool(values, indices, 2, 2, 0)
    give the size before pooling, not the window … `max_unpool(values, indices, x.shape[-2:])`
    jaxpool.max_unpool(values, indices, x.shape[-2:]) -> (2, 3, 8, 8)
"""

# Calls that look like mistakes, and equivalent calls.
NO_MISTAKES = """
jaxpool.max_pool(x[0], (2, 2)) == jaxpool.max_pool(x, (2, 2))[0]
jaxpool.max_pool(pictures, (1, 2, 2, 1)) == jaxpool.max_pool(pictures, 2, axis=(1, 2))
jaxpool.max_pool(np.full((4, 4), -7), (3, 3), 2, padding='SAME') == jnp.full((2, 2), -7)
jaxpool.max_pool(x, (3, 3), 2, padding='same') == jaxpool.max_pool(x, (3, 3), 2, padding='SAME')
jaxpool.max_pool(pictures, 2, axis='NHWC') == jaxpool.max_pool(pictures, 2, axis=(-3, -2))
jaxpool.max_pool(x, (4, 2), axis='nchw') == jaxpool.max_pool(x, (4, 2))
jaxpool.adaptive_avg_pool(x, (2, 3, 4, 4)) == jaxpool.adaptive_avg_pool(x, (4, 4))
"""

# Names of other libraries, and the call that the message says to write.
NAMES_ELSEWHERE = """
jaxpool.max_pool2d: jaxpool.max_pool(x, (2, 2))
jaxpool.MaxPool1d: jaxpool.max_pool(x, (2,))
jaxpool.AdaptiveAvgPool2d: jaxpool.adaptive_avg_pool(x, (7, 7))
jaxpool.GlobalAveragePooling2D: jaxpool.global_avg_pool(x, axis='NHWC', keepdims=False)
jaxpool.global_mean_pool: jaxpool.global_avg_pool(x, axis='NHWC')
jaxpool.compat.keras.GlobalMaxPooling1D: jaxpool.global_max_pool(x[0], axis='NTC', keepdims=False)
jaxpool.LPPool3d: jaxpool.lp_pool(x, 3, (2, 2, 2))
jaxpool.MaxUnpool2d: jaxpool.max_unpool(values, indices, x.shape[-2:])
jaxpool.max_unpool1d: jaxpool.max_unpool(values, indices, x.shape[-1:])
jaxpool.mean_pool: jaxpool.avg_pool(x, (2, 2))
jaxpool.avgpool: jaxpool.avg_pool(x, (2, 2))
jaxpool.average_pool: jaxpool.avg_pool(x, (2, 2))
jaxpool.GeM: jaxpool.gem_pool(x, 3, (2, 2))
jaxpool.upsample: jax.image.resize
jaxpool.UpSampling2D: jax.image.resize
jaxpool.unpool: jax.image.resize
jaxpool.lse_pool: jaxpool.smooth_max_pool(x, 1.0, (2, 2))
jaxpool.kmax_pool: jaxpool.top_k_pool(x, 2, (2, 2))
jaxpool.nn: jaxpool.max_pool(x, (2, 2))
jaxpool.generalized_mean_pool: jaxpool.gem_pool(x, 3, (2, 2))
jaxpool.logsumexp_pool: jaxpool.smooth_max_pool(x, 1.0, (2, 2))
jaxpool.max_pool_with_argmax: jaxpool.max_pool_with_indices(x, (2, 2))
jaxpool.median_filter: jaxpool.median_pool(x, (3, 3), 1, 'SYMMETRIC')
jaxpool.maximum_filter1d: jaxpool.max_pool(x, (3,), 1, 'SYMMETRIC')
jaxpool.minimum_filter: jaxpool.min_pool(x, (3, 3), 1, 'SYMMETRIC')
jaxpool.uniform_filter: jaxpool.avg_pool(x, (3, 3), 1, 'SYMMETRIC')
jaxpool.percentile_filter: jaxpool.quantile_pool(x, 0.5, (2, 2))
jaxpool.block_reduce: jaxpool.max_pool(x, (2, 2))
jaxpool.dilation: jaxpool.morphology.dilation(x, (3, 3))
jaxpool.erode: jaxpool.morphology.erosion(x, (3, 3))
jaxpool.grey_opening: jaxpool.morphology.opening(x, (3, 3))
jaxpool.morphology.binary_dilation: jaxpool.morphology.dilation(x, (3, 3))
jaxpool.compat.max_pool: jaxpool.max_pool(x, (2, 2))
jaxpool.compat.torch.MaxPool2d: jaxpool.compat.torch.max_pool2d(x, (2, 2))
jaxpool.compat.torch.AdaptiveAvgPool1d: jaxpool.compat.torch.adaptive_avg_pool1d(x[0], (7,))
jaxpool.compat.keras.MaxPooling2D: jaxpool.compat.keras.max_pool(x, (2, 2))
jaxpool.compat.flax.MaxPool: jaxpool.compat.flax.max_pool(x, (2, 2))
jaxpool.compat.equinox.max_pool2d: jaxpool.compat.equinox.MaxPool2d((2, 2))
"""
# Arguments, a function that has each, and what other libraries call them.
WORDS_ELSEWHERE = """
x of max_pool: input inputs array image images
where of max_pool: mask
key of stochastic_pool: rng seed
axis of max_pool: dim dims axes
keepdims of global_max_pool: keepdim
correction of var_pool: ddof
norm_type of lp_pool: p
beta of soft_pool: temperature
logits of attention_pool: scores
q of quantile_pool: quantile percentile
boxes of roi_align: rois
element of morphology.dilation: size footprint structure kernel selem
output_size of adaptive_max_pool: size target_shape
blur_size of max_blur_pool: filt_size
kernel_size of max_pool: window_shape pool_size window kernel ksize size filt_size footprint window_dimensions
stride of max_pool: strides window_strides
padding of max_pool: pad
dilation of max_pool: dilations window_dilation
ceil_mode of max_pool: use_ceil
"""
# Wrong calls that Python itself explains, and answers of its own.
LEFT_TO_PYTHON = """
jaxpool.max_pool(x, (2, 2), colour=1): unexpected keyword argument 'colour'
jaxpool.avg_pool(x, (2, 2), return_indices=True): unexpected keyword argument 'return_indices'
jaxpool.max_pool(x, (2, 2), 2, stride=1): multiple values for argument 'stride'
jaxpool.max_pool(x, (2, 2), *range(9)): takes from 2 to 4 positional arguments
jaxpool.bins(size=7): unexpected keyword argument 'size'
"""


def lines(table: str) -> list[str]:
    return table.strip().splitlines()


def evaluate(call: str, **names: Any) -> Any:
    return eval(call.strip(), {**NAMES, **names})


def check(wrong: str, says: str, right: str, **names: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        evaluate(wrong, **names)
    message = str(raised.value)
    assert raised.type in (TypeError, ValueError)  # JAX's own errors are subclasses
    assert message.startswith(
        tuple(f"{function}: " for function in re.findall(r"jaxpool\.(?:morphology\.)?(\w+)", wrong))
    )
    given, advice = says.strip().split(" … ")
    written = advice.strip("`")
    assert given in message
    assert written in message
    assert "\n" not in message
    assert len(message) < 300
    call, _, shape = right.rpartition(" -> ")
    assert advice == written or written in call
    assert evaluate(call, **names).shape == ast.literal_eval(shape)


@pytest.mark.parametrize("row", range(0, len(lines(MISTAKES)), 3), ids=lambda row: lines(MISTAKES)[row])
def test_mistake(row: int) -> None:
    check(*lines(MISTAKES)[row : row + 3])


def test_tensor_of_pytorch() -> None:
    says = "x must be a JAX or NumPy array, got Tensor … `jnp.asarray(x)`"
    right = "jaxpool.max_pool(jnp.asarray(x), (2, 2)) -> (3, 2, 4)"
    check("jaxpool.max_pool(x, (2, 2))", says, right, x=pytest.importorskip("torch").ones(3, 4, 8))


@pytest.mark.parametrize("row", lines(NO_MISTAKES))
def test_no_mistake(row: str) -> None:
    call, same = row.split(" == ")
    np.testing.assert_array_equal(evaluate(call), evaluate(same))


@pytest.mark.parametrize("row", lines(NAMES_ELSEWHERE))
def test_names_of_other_libraries(row: str) -> None:
    name, call = row.split(": ")
    with pytest.raises(AttributeError) as raised:
        evaluate(name)
    module, _, attribute = name.rpartition(".")
    assert str(raised.value).startswith(f"module '{module}' has no attribute '{attribute}'; ")
    # The array of a stand-in has that library's name.
    assert call.replace("(x[0]", "(x") in re.sub(r"\(inputs?,", "(x,", str(raised.value))
    assert evaluate(call) is not None


@pytest.mark.parametrize("row", lines(WORDS_ELSEWHERE))
def test_words_of_other_libraries(row: str) -> None:
    argument, function, words = re.split(" of |: ", row)
    for word in words.split():
        with pytest.raises(TypeError, match=f"^{function.rpartition('.')[2]}: write {argument}=3 in place of {word}$"):
            evaluate(f"jaxpool.{function}({word}=3)")


@pytest.mark.parametrize("row", lines(LEFT_TO_PYTHON))
def test_calls_that_python_explains(row: str) -> None:
    call, message = row.split(": ")
    with pytest.raises(TypeError, match=message):
        evaluate(call)
