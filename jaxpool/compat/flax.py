"""`max_pool`, `min_pool` and `avg_pool` of `flax.nnx`, evaluated by jaxpool; Flax is not imported.

The functions of `flax.linen.pooling` are the same.

Arguments, defaults (including a stride of 1), layouts, output shapes and dtypes are Flax's, and so are values and
gradients, to rounding. They differ where Flax is wrong or fails, as `jaxpool.compat` lists for all of them, and:

- (low, high) pairs fail with two batch axes and more, negative ones have no gradient of `max_pool`, and a window that
  is a list fails. All work here.
- An empty `window_shape` is not accepted.

As in Flax, a window that holds only padding is -inf under `max_pool`, +inf under `min_pool`, and 0 under `avg_pool`
(NaN without `count_include_pad`), and passes no gradient. A window larger than the array gives an empty output, and
`avg_pool` without `count_include_pad` turns bfloat16 into float32.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

import jaxpool
from jaxpool._checks import check_array, check_flag
from jaxpool._sizes import sizes
from jaxpool._windows.operations import identity
from jaxpool._words import answer_names
from jaxpool.compat._windows import Windows, averages, maxima, pool_windows

answer_names(__name__)

Padding = str | Sequence[Sequence[int]]


def max_pool(
    inputs: ArrayLike, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Padding = "VALID"
) -> jax.Array:
    """As `flax.nnx.max_pool`; see `jaxpool.max_pool`.

    Differs in NaN (always wins), padding (takes no part), pairs and lists (always work), complex numbers (refused),
    symbolic sizes of pooled axes (refused) and an empty `window_shape` (refused).

    Example:
        >>> from jaxpool.compat.flax import max_pool
        >>> max_pool(jnp.arange(16.0).reshape(1, 4, 4, 1), (2, 2), strides=(2, 2))[0, :, :, 0]
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
    x = check_array("max_pool", inputs, "inputs")
    return maxima(x, _windows("max_pool", x, window_shape, strides, padding))


def min_pool(
    inputs: ArrayLike, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Padding = "VALID"
) -> jax.Array:
    """As `flax.nnx.min_pool`; see `jaxpool.min_pool`.

    Differs in NaN (always wins), padding (takes no part), pairs and lists (always work), complex numbers (refused),
    symbolic sizes of pooled axes (refused) and an empty `window_shape` (refused).

    Example:
        >>> from jaxpool.compat.flax import min_pool
        >>> min_pool(jnp.arange(16.0).reshape(1, 4, 4, 1), (3, 3))[0, :, :, 0]
        Array([[0., 1.],
               [4., 5.]], dtype=float32)
    """
    x = check_array("min_pool", inputs, "inputs")
    windows = _windows("min_pool", x, window_shape, strides, padding)
    return pool_windows(jaxpool.min_pool, x, windows, identity(lax.min, x.dtype))


def avg_pool(
    inputs: ArrayLike,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    count_include_pad: bool = True,
) -> jax.Array:
    """As `flax.nnx.avg_pool`; see `jaxpool.avg_pool`.

    Differs in 16-bit floats (summed in float32), integers (sums do not wrap), quotients (rounded once), pairs and lists
    (always work), symbolic sizes of pooled axes (refused) and an empty `window_shape` (refused).

    Example:
        >>> from jaxpool.compat.flax import avg_pool
        >>> x = jnp.array([1.0, 2.0, 3.0, 4.0])[:, None]
        >>> avg_pool(x, (3,), padding="SAME")[:, 0].round(2)
        Array([1.  , 2.  , 3.  , 2.33], dtype=float32)
        >>> avg_pool(x, (3,), padding="SAME", count_include_pad=False)[:, 0]
        Array([1.5, 2. , 3. , 3.5], dtype=float32)
    """
    x = check_array("avg_pool", inputs, "inputs", complex_allowed=True)
    include_pad = check_flag("avg_pool", "count_include_pad", count_include_pad)
    windows = _windows("avg_pool", x, window_shape, strides, padding)
    # Flax divides by an integer, or by counts of the default float dtype.
    return averages(x, windows, jnp.result_type(int if include_pad else float), include_pad=include_pad)


def _windows(
    function: str, x: jax.Array, window_shape: Sequence[int], strides: Sequence[int] | None, padding: Padding
) -> Windows:
    if hasattr(window_shape, "__index__") and not hasattr(window_shape, "__len__"):
        raise ValueError(
            f"{function}: window_shape {window_shape} does not say how many axes to pool; write window_shape "
            f"({window_shape}, {window_shape}) for two spatial axes"
        )
    window = sizes(function, "window_shape", window_shape, None, least=1)
    count = len(window)
    if x.ndim <= count:
        raise ValueError(
            f"{function}: window_shape {window} has {count} entries but inputs has {x.ndim} axes {x.shape}; give an "
            f"array of the {count} spatial axes and one of features at the end, after any batch axes"
        )
    steps = (1,) * count if strides is None else sizes(function, "strides", strides, count, least=1)
    axes = range(x.ndim - 1 - count, x.ndim - 1)
    allowed = f"use 'VALID', 'SAME', 'SAME_LOWER' or a (low, high) pair per spatial axis, as in {[(1, 1)] * count}"
    if isinstance(padding, str):
        if padding.upper() not in ("VALID", "SAME", "SAME_LOWER"):
            raise ValueError(f"{function}: padding {padding!r} is unknown; {allowed}")
        return Windows(function, axes, window, steps, padding.upper())
    try:
        pairs = [tuple(operator.index(number) for number in pair) for pair in padding]
    except TypeError:
        raise TypeError(f"{function}: padding {padding!r} does not hold pairs of ints; {allowed}") from None
    if [len(pair) for pair in pairs] != [2] * count:
        raise ValueError(f"{function}: padding {padding!r} must be a pair for each of {count} axes; {allowed}")
    return Windows(function, axes, window, steps, [(low, high) for low, high in pairs])
