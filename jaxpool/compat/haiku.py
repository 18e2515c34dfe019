"""`max_pool`, `avg_pool`, `MaxPool` and `AvgPool` of Haiku, evaluated by jaxpool; Haiku is not imported.

Arguments, defaults, the sizes that are inferred where fewer are given, output shapes and dtypes are Haiku's, and so are
values and gradients, to rounding. They differ where Haiku is wrong, on the CPU at least:

- Windows without overlap drop NaN on arrays of 4096 elements or more. Here NaN wins in its window.
- Padding of -inf ties with cells of -inf and can take their gradient, and forward mode disagrees with reverse mode.
  Here padding takes no part.
- float16 and bfloat16 are summed in their own dtype: the average of 961 ones is 0.27. Here they are summed in float32.
- Sums of small integers wrap: the average of uint8 200s is 8. Here it is 200.
- "SAME" counts cells in the dtype of the value: of 480 zeros and 480 ones in bfloat16 the average is 1. Here it is 0.5.
- Division multiplies by a rounded reciprocal: the average of seven 3s is 3.0000002. Here it is 3.

As in Haiku, a window larger than the array gives an empty output, and an int in place of sizes gives a warning: it
leaves out the first axis, usually the batch, which under `jax.vmap` is a different axis. Not accepted are complex
numbers under maxima, since they have no order, symbolic sizes along pooled axes, and empty sizes. The classes are not
Haiku modules: they also work outside `hk.transform`, and tables of modules do not list them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

import jaxpool
from jaxpool._call import check_array
from jaxpool._engine.operations import identity
from jaxpool._geometry.sizes import Sizes, sizes
from jaxpool.compat._windows import Along, along_axes, pool_along, quotient_dtype


def max_pool(
    value: ArrayLike, window_shape: Sizes, strides: Sizes, padding: str, channel_axis: int | None = -1
) -> jax.Array:
    """Max pooling: the largest cell of every window, as `hk.max_pool`.

    Formula, for one axis: y[o] = max over j of x[o·stride - low + j], 0 ≤ j < window, padded cells left out.

    Args:
        value: Array of any shape, or a list of numbers; bool, integers, float16, bfloat16, float32 or float64.
        window_shape: Window size, one int per axis; if there are fewer ints than axes, they are for the last ones. An
            int is for every axis but the first and `channel_axis`.
        strides: Cells from one window to the next, given like `window_shape`.
        padding: "VALID" (none) or "SAME" (n/stride windows, rounded up; an odd cell goes high).
        channel_axis: Axis that an int leaves unpooled, besides the first one; none if None.

    Returns:
        Array of the dtype of value. An axis of n cells becomes floor((n - window)/stride) + 1, or 0 if the window does
        not fit; with "SAME" it becomes n/stride, rounded up.

    Raises:
        TypeError: value is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: value, sizes and `channel_axis` do not match, or `padding` is unknown.

    Derivative:
        That of `jaxpool.max_pool`: ∂y[o]/∂x[i] = 1 where i is the first cell of window o to hold its maximum, or its
        first NaN, 0 elsewhere.

    Example:
        >>> from jaxpool.compat.haiku import max_pool
        >>> max_pool(jnp.arange(16.0).reshape(1, 4, 4, 1), (2, 2, 1), (2, 2, 1), "VALID")[0, :, :, 0]
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
    x = check_array("max_pool", jnp.asarray(value), "value")
    along = _along("max_pool", x, window_shape, strides, padding, channel_axis)
    return pool_along(jaxpool.max_pool, x, along, identity(lax.max, x.dtype))


def avg_pool(
    value: ArrayLike, window_shape: Sizes, strides: Sizes, padding: str, channel_axis: int | None = -1
) -> jax.Array:
    """Average pooling: the average of every window, as `hk.avg_pool`.

    Formula, for one axis: y[o] = Σ_j x[o·stride - low + j] / d[o], 0 ≤ j < window, padded cells adding 0. d[o] is the
    number of cells of window o that are not padding.

    Args:
        value: Array of any shape, or a list of numbers; bool, integers, float16, bfloat16, float32, float64, complex64
            or complex128.
        window_shape: Window size, one int per axis; if there are fewer ints than axes, they are for the last ones. An
            int is for every axis but the first and `channel_axis`.
        strides: Cells from one window to the next, given like `window_shape`.
        padding: "VALID" (none) or "SAME" (n/stride windows, rounded up; an odd cell goes high).
        channel_axis: Axis that an int leaves unpooled, besides the first one; none if None.

    Returns:
        Array of the dtype of value, or of a float dtype for integers and bool. An axis of n cells becomes
        floor((n - window)/stride) + 1, or 0 if the window does not fit; with "SAME" it becomes n/stride, rounded up.

    Raises:
        TypeError: value is not an array, a size is not an int, or another argument has the wrong type.
        ValueError: value, sizes and `channel_axis` do not match, or `padding` is unknown.

    Derivative:
        That of `jaxpool.avg_pool`: ∂y[o]/∂x[i] = 1/d[o] where window o holds cell i, 0 elsewhere.

    Example:
        >>> from jaxpool.compat.haiku import avg_pool
        >>> avg_pool(jnp.array([[1.0], [2.0], [3.0], [4.0]]), (3, 1), 1, "SAME")[:, 0]
        Array([1.5, 2. , 3. , 3.5], dtype=float32)
    """
    x = check_array("avg_pool", jnp.asarray(value), "value", complex_allowed=True)
    along = _along("avg_pool", x, window_shape, strides, padding, channel_axis)
    # Haiku divides by an integer or, under "SAME", by counts of the dtype of the value.
    x = x.astype(quotient_dtype(x, jnp.result_type(int) if padding == "VALID" else x.dtype))
    return pool_along(partial(jaxpool.avg_pool, count_include_pad=False), x, along, np.nan)


@dataclass(eq=False)
class _Pool:
    """What a class keeps of the arguments of its function."""

    _function: ClassVar[Callable[..., jax.Array]]

    window_shape: Sizes
    strides: Sizes
    padding: str
    channel_axis: int | None = -1
    name: str | None = None

    def __post_init__(self) -> None:
        self.name = self.name or self._function.__name__

    def __call__(self, value: ArrayLike) -> jax.Array:
        """Pool one array."""
        return self._function(value, self.window_shape, self.strides, self.padding, self.channel_axis)


class MaxPool(_Pool):
    """`max_pool` with all arguments but the array, as `hk.MaxPool`; it may be made and called anywhere.

    Args:
        window_shape: Window size, as for `max_pool`.
        strides: Cells from one window to the next, given like `window_shape`.
        padding: "VALID" or "SAME".
        channel_axis: Axis that an int leaves unpooled, besides the first one; none if None.
        name: Name of the layer; "max_pool" if None.

    Example:
        >>> from jaxpool.compat.haiku import MaxPool
        >>> MaxPool((2, 1), (2, 1), "VALID")(jnp.arange(4.0)[:, None])[:, 0]
        Array([1., 3.], dtype=float32)
    """

    _function = staticmethod(max_pool)


class AvgPool(_Pool):
    """`avg_pool` with all arguments but the array, as `hk.AvgPool`; it may be made and called anywhere.

    Args:
        window_shape: Window size, as for `avg_pool`.
        strides: Cells from one window to the next, given like `window_shape`.
        padding: "VALID" or "SAME".
        channel_axis: Axis that an int leaves unpooled, besides the first one; none if None.
        name: Name of the layer; "avg_pool" if None.

    Example:
        >>> from jaxpool.compat.haiku import AvgPool
        >>> AvgPool((2, 1), (2, 1), "VALID")(jnp.arange(4.0)[:, None])[:, 0]
        Array([0.5, 2.5], dtype=float32)
    """

    _function = staticmethod(avg_pool)


def _along(
    function: str, x: jax.Array, window_shape: Sizes, strides: Sizes, padding: str, channel_axis: int | None
) -> list[Along]:
    if padding not in ("SAME", "VALID"):
        raise ValueError(
            f"{function}: padding {padding!r} is unknown; use 'VALID' or 'SAME'; jaxpool.{function} takes numbers too"
        )
    window = _over_all_axes(function, "window_shape", window_shape, x, channel_axis)
    steps = _over_all_axes(function, "strides", strides, x, channel_axis)
    if any(_is_number(given) and given != 1 for given in (window_shape, strides)):
        # Raised from this module, like Haiku's, so that filters show or hide it as before.
        warnings.warn(
            f"{function}: under jax.vmap an int window_shape or strides does not see the axis of the batch and spares "
            f"the first other axis; give a size per axis instead, (3, 3, 1) for 3, say",
            DeprecationWarning,
            stacklevel=1,
        )
    return along_axes(function, x.shape, range(x.ndim), window, steps, padding)


def _is_number(given: Sizes) -> bool:
    return not hasattr(given, "__len__")


def _over_all_axes(function: str, name: str, given: Sizes, x: jax.Array, channel_axis: int | None) -> tuple[int, ...]:
    if _is_number(given):
        (size,) = sizes(function, name, given, 1, least=1)
        left = {0}
        if channel_axis is not None:
            (channel,) = sizes(function, "channel_axis", channel_axis, 1, least=None)
            if channel != 0 and not abs(channel) < x.ndim:
                raise ValueError(
                    f"{function}: channel_axis {channel} is out of range for value with {x.ndim} axes {x.shape}; give "
                    f"None if there are no channels, or sizes for all axes"
                )
            left.add(channel % x.ndim if x.ndim else 0)
        return tuple(1 if axis in left else size for axis in range(x.ndim))
    entries = sizes(function, name, given, None, least=1)
    if len(entries) > x.ndim:
        raise ValueError(
            f"{function}: {name} {entries} has {len(entries)} entries but value has {x.ndim} axes {x.shape}; give at "
            f"most one per axis"
        )
    return (1,) * (x.ndim - len(entries)) + entries
