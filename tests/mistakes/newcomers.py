"""Common mistakes of newcomers: calls as they would write them, what the message must say, and the correct call.

The mistakes are common in the issue trackers of pooling libraries: windows and layouts of Flax, Haiku, Keras and
PyTorch, sizes that result from a division, arrays in place of numbers. Calls are texts, so that the advice of a message
can be found verbatim in the correct call. `NAMES` are the variables that they use. Mistakes with sizes are in a
separate file. Two more tables hold calls that only look like mistakes, and other libraries' names for arguments, which
Python itself rejects.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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
    "values": np.ones((2, 3, 4, 4), np.float32),
    "indices": np.zeros((2, 3, 4, 4), np.int32),
}


@dataclass(frozen=True)
class Mistake:
    """A wrong call, what its message repeats, what it says to write (if it can), the correct call and its result."""

    words: str
    wrong: str
    given: str
    write: str
    right: str
    shape: tuple[int, ...]


POOLED, LAST = (2, 3, 4, 4), (2, 4, 4, 3)

MISTAKES = [
    # Arrays
    Mistake(
        "a list as array",
        "(lambda x: jaxpool.max_pool(x, (2, 2)))([[1.0, 2.0], [3.0, 4.0]])",
        "x must be a JAX or NumPy array, got list",
        "jnp.asarray(x)",
        "(lambda x: jaxpool.max_pool(jnp.asarray(x), (2, 2)))([[1.0, 2.0], [3.0, 4.0]])",
        (1, 1),
    ),
    Mistake(
        "values and indices together as array",
        "(lambda x: jaxpool.max_pool(x, (2, 2)))(jaxpool.max_pool_with_indices(x, (2, 2)))",
        "x must be a JAX or NumPy array, got tuple",
        "x[0]",
        "(lambda x: jaxpool.max_pool(x[0], (2, 2)))(jaxpool.max_pool_with_indices(x, (2, 2)))",
        (2, 3, 2, 2),
    ),
    Mistake(
        "a key in the place of the stride",
        "jaxpool.stochastic_pool(x, (2, 2), jax.random.key(0))",
        "stride must be an int, got a key of jax.random",
        "key=",
        "jaxpool.stochastic_pool(x, (2, 2), key=jax.random.key(0))",
        POOLED,
    ),
    Mistake(
        "the maximum of complex numbers",
        "jaxpool.max_pool(x.astype(np.complex64), (2, 2))",
        "x is complex64, and complex numbers are not supported",
        "abs(x)",
        "jaxpool.max_pool(abs(x), (2, 2))",
        POOLED,
    ),
    Mistake(
        "integers of four bits",
        "(lambda x: jaxpool.max_pool(x, (2, 2)))(jnp.asarray(x, jnp.uint4))",
        "x has dtype uint4, which cannot be pooled",
        "x.astype(jnp.uint8)",
        "(lambda x: jaxpool.max_pool(x.astype(jnp.uint8), (2, 2)))(jnp.asarray(x, jnp.uint4))",
        POOLED,
    ),
    Mistake(
        "floats of eight bits",
        "(lambda x: jaxpool.avg_pool(x, (2, 2)))(jnp.asarray(x, jnp.float8_e4m3fn))",
        "x has dtype float8_e4m3fn, which cannot be pooled",
        "x.astype(jnp.bfloat16)",
        "(lambda x: jaxpool.avg_pool(x.astype(jnp.bfloat16), (2, 2)))(jnp.asarray(x, jnp.float8_e4m3fn))",
        POOLED,
    ),
    # Masks
    Mistake(
        "a mask of floats",
        "(lambda where: jaxpool.avg_pool(x, (2, 2), where=where))(jnp.ones((8, 8), jnp.float32))",
        "where must be bool, got dtype float32",
        "where != 0",
        "(lambda where: jaxpool.avg_pool(x, (2, 2), where=where != 0))(jnp.ones((8, 8), jnp.float32))",
        POOLED,
    ),
    Mistake(
        "a bool for each sample",
        "(lambda where: jaxpool.avg_pool(x, (2, 2), where=where))(np.array([True, False]))",
        "where of shape (2,) does not broadcast to x (2, 3, 8, 8)",
        "where.reshape(2, 1, 1, 1)",
        "(lambda where: jaxpool.avg_pool(x, (2, 2), where=where.reshape(2, 1, 1, 1)))(np.array([True, False]))",
        POOLED,
    ),
    # Bins and unpooling
    Mistake(
        "an output size for the channels too",
        "jaxpool.adaptive_avg_pool(x[0, 0], (1, 7, 7))",
        "output_size (1, 7, 7) has 3 entries but x has 2 axes (8, 8)",
        "give one entry for each axis to pool",
        "jaxpool.adaptive_avg_pool(x[0, 0], (7, 7))  # give one entry for each axis to pool",
        (7, 7),
    ),
    Mistake(
        "an int as output size of unpooling",
        "jaxpool.max_unpool(values, indices, 8)",
        "output_size 8 does not say how many axes",
        "output_size=(8, 8)",
        "jaxpool.max_unpool(values, indices, output_size=(8, 8))",
        (2, 3, 8, 8),
    ),
    Mistake(
        "the window as third argument of unpooling, as in PyTorch",
        "jaxpool.max_unpool(values, indices, (2, 2))",
        "output_size (2, 2) is smaller than values (2, 3, 4, 4)",
        "give the size before pooling",
        "jaxpool.max_unpool(values, indices, (8, 8))  # give the size before pooling",
        (2, 3, 8, 8),
    ),
    Mistake(
        "the shape of x as output size of unpooling",
        "jaxpool.max_unpool(values.swapaxes(1, 3), indices.swapaxes(1, 3), pictures.shape)",
        "output_size (2, 8, 8, 3) has an entry for every axis of values (2, 4, 4, 3)",
        "give those of the pooled axes alone",
        "jaxpool.max_unpool(values.swapaxes(1, 3), indices.swapaxes(1, 3), pictures.shape[1:3], axis='NHWC')"
        "  # give those of the pooled axes alone",
        (2, 8, 8, 3),
    ),
    Mistake(
        "the axes of a global pool in the second place",
        "jaxpool.global_avg_pool(pictures, (1, 2))",
        "axis is given by its name",
        "axis=(1, 2)",
        "jaxpool.global_avg_pool(pictures, axis=(1, 2))",
        (2, 1, 1, 3),
    ),
    Mistake(
        "a global pool without axes",
        "jaxpool.global_max_pool(pictures)",
        "axis is missing",
        "axis='NHWC'",
        "jaxpool.global_max_pool(pictures, axis='NHWC')",
        (2, 1, 1, 3),
    ),
    Mistake(
        "the layout in the words of Keras",
        "jaxpool.max_pool(pictures, 2, axis='channels_last')",
        "axis 'channels_last'",
        "axis='NHWC'",
        "jaxpool.max_pool(pictures, 2, axis='NHWC')",
        LAST,
    ),
    Mistake(
        "the layout in the words of einops",
        "jaxpool.max_pool(x, 2, axis='b c h w')",
        "axis 'b c h w'",
        "axis='NCHW'",
        "jaxpool.max_pool(x, 2, axis='NCHW')",
        POOLED,
    ),
    Mistake(
        "a variance of complex numbers",
        "jaxpool.var_pool(x.astype(np.complex64), (2, 2))",
        "x is complex64, and complex numbers are not supported",
        "x.real",
        "jaxpool.var_pool(x.real, (2, 2)) + jaxpool.var_pool(x.imag, (2, 2))",
        POOLED,
    ),
    Mistake(
        "a masked array",
        "(lambda x: jaxpool.avg_pool(x, (2, 2)))(np.ma.masked_invalid(x))",
        "x is a masked array, whose mask would be lost",
        "where=~np.ma.getmaskarray(x)",
        "(lambda x: jaxpool.avg_pool(x.data, (2, 2), where=~np.ma.getmaskarray(x)))(np.ma.masked_invalid(x))",
        POOLED,
    ),
    Mistake(
        "indices that went through arithmetic in floats",
        "jaxpool.max_unpool(values, indices * 1.0, (8, 8))",
        "indices must be integers, got dtype float64",
        "give those of the max pool",
        "jaxpool.max_unpool(values, indices, (8, 8))  # give those of the max pool",
        (2, 3, 8, 8),
    ),
    Mistake(
        "indices of another pool",
        "jaxpool.max_unpool(values, indices[:, :, :2], (8, 8))",
        "indices of shape (2, 3, 2, 4) do not match values of shape (2, 3, 4, 4)",
        "give one per value",
        "jaxpool.max_unpool(values, indices, (8, 8))  # give one per value",
        (2, 3, 8, 8),
    ),
    # Numbers, flags and rules
    Mistake(
        "a norm of 0",
        "jaxpool.lp_pool(x, 0, (2, 2))",
        "norm_type must be positive, got 0.0",
        "float('inf')",
        "jaxpool.lp_pool(x, float('inf'), (2, 2))",
        POOLED,
    ),
    Mistake(
        "a norm for each channel, channels first",
        "(lambda norm_type: jaxpool.lp_pool(x, norm_type, (2, 2)))(jnp.ones(3))",
        "norm_type of shape (3,) does not broadcast to the output (2, 3, 4, 4)",
        "norm_type.reshape(3, 1, 1)",
        "(lambda norm_type: jaxpool.lp_pool(x, norm_type.reshape(3, 1, 1), (2, 2)))(jnp.ones(3))",
        POOLED,
    ),
    Mistake(
        "a list of norms",
        "(lambda norm_type: jaxpool.lp_pool(pictures, norm_type, 2, axis=(1, 2)))([1.0, 2.0, 3.0])",
        "norm_type must be a number or an array, got list",
        "jnp.asarray(norm_type)",
        "(lambda norm_type: jaxpool.lp_pool(pictures, jnp.asarray(norm_type), 2, axis=(1, 2)))([1.0, 2.0, 3.0])",
        LAST,
    ),
    Mistake(
        "a smooth maximum that is a mean",
        "jaxpool.smooth_max_pool(x, 0.0, (2, 2))",
        "beta must be finite and not 0, got 0.0",
        "avg_pool",
        "jaxpool.avg_pool(x, (2, 2))",
        POOLED,
    ),
    Mistake(
        "an array of divisors",
        "jaxpool.avg_pool(x, (2, 2), divisor_override=jnp.full((4, 4), 3.0))",
        "divisor_override must be a Python number, got an array",
        "sum_pool",
        "jaxpool.sum_pool(x, (2, 2)) / jnp.full((2, 3, 4, 4), 3.0, x.dtype)",
        POOLED,
    ),
    Mistake(
        "a word as flag",
        "jaxpool.max_pool(x, (2, 2), ceil_mode='ceil')",
        "ceil_mode must be True or False, got 'ceil'",
        "True",
        "jaxpool.max_pool(x, (2, 2), ceil_mode=True)",
        POOLED,
    ),
    Mistake(
        "a rule that there is not",
        "jaxpool.max_pool(x, (2, 2), rule='reverse')",
        "rule 'reverse' is unknown",
        "'vjp'",
        "jaxpool.max_pool(x, (2, 2), rule='vjp')",
        POOLED,
    ),
]

# Calls that look like mistakes, and equivalent calls.
NO_MISTAKES = {
    "jaxpool.max_pool(x[0], (2, 2))": "jaxpool.max_pool(x, (2, 2))[0]",
    "jaxpool.max_pool(pictures, (1, 2, 2, 1))": "jaxpool.max_pool(pictures, 2, axis=(1, 2))",
    "jaxpool.max_pool(x, [2, 2])": "jaxpool.max_pool(x, (2, 2))",
    "jaxpool.max_pool(x, np.array([2, 2]))": "jaxpool.max_pool(x, (2, 2))",
    "jaxpool.avg_pool(x, x.shape[2:])": "jaxpool.global_avg_pool(x, axis=(2, 3))",
    "jaxpool.avg_pool(np.full((8, 8), 200, np.uint8), (2, 2))": "jnp.full((4, 4), 200.0)",
    "jaxpool.max_pool(np.full((4, 4), -7), (3, 3), 2, padding='SAME')": "jnp.full((2, 2), -7)",
    "jaxpool.max_pool(x, (3, 3), 2, padding='same')": "jaxpool.max_pool(x, (3, 3), 2, padding='SAME')",
    "jaxpool.max_pool(pictures, 2, axis='NHWC')": "jaxpool.max_pool(pictures, 2, axis=(-3, -2))",
    "jaxpool.max_pool(x, (4, 2), axis='nchw')": "jaxpool.max_pool(x, (4, 2))",
    "jaxpool.max_unpool(values, np.asarray(indices, np.int64), (8, 8))": "jaxpool.max_unpool(values, indices, (8, 8))",
    "jaxpool.adaptive_avg_pool(x, (2, 3, 4, 4))": "jaxpool.adaptive_avg_pool(x, (4, 4))",
}

# Names from other libraries: the wrong name, a call with it, and the correct call.
NAMES_ELSEWHERE = [
    ("window_shape", "jaxpool.max_pool(x, window_shape=(2, 2))", "jaxpool.max_pool(x, kernel_size=(2, 2))"),
    ("pool_size", "jaxpool.max_pool(x, pool_size=(2, 2))", "jaxpool.max_pool(x, kernel_size=(2, 2))"),
    ("strides", "jaxpool.max_pool(x, (2, 2), strides=2)", "jaxpool.max_pool(x, (2, 2), stride=2)"),
    ("data_format", "jaxpool.max_pool(x, 2, data_format='NCHW')", "jaxpool.max_pool(x, 2, axis=(-2, -1))"),
    (
        "return_indices",
        "jaxpool.max_pool(x, (2, 2), return_indices=True)",
        "jaxpool.max_pool_with_indices(x, (2, 2))[0]",
    ),
    ("dim", "jaxpool.global_avg_pool(x, dim=(2, 3))", "jaxpool.global_avg_pool(x, axis=(2, 3))"),
    (
        "keepdim",
        "jaxpool.global_max_pool(x, axis=(2, 3), keepdim=True)",
        "jaxpool.global_max_pool(x, axis=(2, 3), keepdims=True)",
    ),
]
