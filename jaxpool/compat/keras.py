"""The pooling of `keras.ops`, evaluated by jaxpool; Keras is not imported.

Arguments, defaults, layouts, output shapes and dtypes are those of Keras on the JAX backend, and so are values and
gradients, to rounding. The default of `data_format` is that of `keras.config` if Keras has been imported, and channels
last otherwise. They differ where Keras is wrong or fails, as `jaxpool.compat` lists for all of them, and:

- `strides=None` and lists fail in Keras 3.15. Here `strides=None` means `pool_size`, as its documentation says.
- "same" counts cells in the dtype of the inputs: of 480 zeros and 480 ones in bfloat16 the average is 1. Here it is
  0.5.
- Adaptive maxima resolve a tie by the first column of a bin. Here the first cell in row-major order wins.
- Edges of adaptive bins are computed in float32: for 14 cells in 7 bins the last average is NaN. Here it is right.
- Arrays without axes to pool are not accepted, nor the tensors of a functional model that is being built: there, put
  the pool into a `keras.layers.Lambda` or the `call` of a layer.
- Errors are TypeError and ValueError.

As in Keras, a window larger than the array gives an empty output under "valid", and the default is no padding.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
from jax.typing import ArrayLike

import jaxpool
from jaxpool._checks import check_array
from jaxpool._sizes import Sizes, sizes
from jaxpool._words import answer_names
from jaxpool.compat._windows import Windows, averages, maxima, quotient_dtype

answer_names(__name__)


def max_pool(
    inputs: ArrayLike,
    pool_size: Sizes,
    strides: Sizes | None = None,
    padding: str = "valid",
    data_format: str | None = None,
) -> jax.Array:
    """As `keras.ops.max_pool`; see `jaxpool.max_pool`.

    Differs in `strides=None` and lists (always work), NaN (always wins), padding (takes no part), complex numbers
    (refused), symbolic sizes of pooled axes (refused), tensors of a model that is being built (refused) and errors.

    Example:
        >>> from jaxpool.compat.keras import max_pool
        >>> max_pool(jnp.arange(16.0).reshape(1, 4, 4, 1), 2)[0, :, :, 0]
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
    x = check_array("max_pool", inputs, "inputs")
    return maxima(x, _windows("max_pool", x, pool_size, strides, padding, data_format))


def average_pool(
    inputs: ArrayLike,
    pool_size: Sizes,
    strides: Sizes | None = None,
    padding: str = "valid",
    data_format: str | None = None,
) -> jax.Array:
    """As `keras.ops.average_pool`; see `jaxpool.avg_pool`.

    Differs in `strides=None` and lists (always work), 16-bit floats (summed in float32), 16-bit counts (exact),
    integers (sums do not wrap), quotients (rounded once), symbolic sizes of pooled axes (refused), tensors of a model
    that is being built (refused) and errors.

    Example:
        >>> from jaxpool.compat.keras import average_pool
        >>> average_pool(jnp.array([1.0, 2.0, 3.0, 4.0])[None, :, None], 3, 1, "same")[0, :, 0]
        Array([1.5, 2. , 3. , 3.5], dtype=float32)
    """
    x = check_array("average_pool", inputs, "inputs", complex_allowed=True)
    windows = _windows("average_pool", x, pool_size, strides, padding, data_format)
    return averages(x, windows, x.dtype, include_pad=False)


def adaptive_max_pool(inputs: ArrayLike, output_size: Sizes, data_format: str | None = None) -> jax.Array:
    """As `keras.ops.adaptive_max_pool`; see `jaxpool.adaptive_max_pool`.

    Differs in ties (the first cell wins), edges of bins (exact), complex numbers (refused), symbolic sizes of pooled
    axes (refused), tensors of a model that is being built (refused) and errors.

    Example:
        >>> from jaxpool.compat.keras import adaptive_max_pool
        >>> adaptive_max_pool(jnp.array([1.0, 2.0, 5.0, 4.0, 3.0])[None, :, None], 3)[0, :, 0]
        Array([2., 5., 4.], dtype=float32)
    """
    function = "adaptive_max_pool"
    x = check_array(function, inputs, "inputs")
    axes = _spatial(function, x, data_format)
    return jaxpool.adaptive_max_pool(x, sizes(function, "output_size", output_size, len(axes), least=1), axis=axes)


def adaptive_average_pool(inputs: ArrayLike, output_size: Sizes, data_format: str | None = None) -> jax.Array:
    """As `keras.ops.adaptive_average_pool`; see `jaxpool.adaptive_avg_pool`.

    Differs in 16-bit floats (summed in float32), integers (sums do not wrap), quotients (rounded once), edges of bins
    (exact), symbolic sizes of pooled axes (refused), tensors of a model that is being built (refused) and errors.

    Example:
        >>> from jaxpool.compat.keras import adaptive_average_pool
        >>> adaptive_average_pool(jnp.array([1.0, 2.0, 5.0, 4.0, 3.0])[None, :, None], 3)[0, :, 0].round(2)
        Array([1.5 , 3.67, 3.5 ], dtype=float32)
    """
    function = "adaptive_average_pool"
    x = check_array(function, inputs, "inputs", complex_allowed=True)
    axes = _spatial(function, x, data_format)
    bins = sizes(function, "output_size", output_size, len(axes), least=1)
    return jaxpool.adaptive_avg_pool(x.astype(quotient_dtype(x, x.dtype)), bins, axis=axes)


def _windows(
    function: str, x: jax.Array, pool_size: Sizes, strides: Sizes | None, padding: str, data_format: str | None
) -> Windows:
    axes = _spatial(function, x, data_format)
    window = sizes(function, "pool_size", pool_size, len(axes), least=1)
    steps = window if strides is None else sizes(function, "strides", strides, len(axes), least=1)
    if not isinstance(padding, str) or padding.lower() not in ("valid", "same"):
        raise ValueError(
            f"{function}: padding {padding!r} is unknown; use 'valid' or 'same', or a pool of jaxpool, which takes "
            f"numbers too"
        )
    return Windows(function, axes, window, steps, padding.upper())


def _spatial(function: str, x: jax.Array, data_format: str | None) -> tuple[int, ...]:
    """The axes between or behind those of batch and channels."""
    if data_format is None:
        keras: Any = sys.modules.get("keras")
        data_format = "channels_last" if keras is None else keras.config.image_data_format()
    word = str(data_format).lower()
    if word not in ("channels_last", "channels_first"):
        raise ValueError(
            f"{function}: data_format {data_format!r} is unknown; use 'channels_last', 'channels_first' or None"
        )
    if x.ndim < 3:
        raise ValueError(
            f"{function}: inputs must have an axis of batch, one of channels and at least one to pool, got {x.shape}; "
            f"add what is missing, as in inputs[None]"
        )
    return tuple(range(1, x.ndim - 1) if word == "channels_last" else range(2, x.ndim))
