"""`max_pool`, `avg_pool`, `MaxPool` and `AvgPool` of Haiku, evaluated by jaxpool; Haiku is not imported.

Arguments, defaults, the sizes that are inferred where fewer are given, output shapes and dtypes are Haiku's, and so are
values and gradients, to rounding. They differ where Haiku is wrong, as `jaxpool.compat` lists for all of them, and:

- "SAME" counts cells in the dtype of the value: of 480 zeros and 480 ones in bfloat16 the average is 1. Here it is 0.5.
- Empty sizes are not accepted.
- The classes are not Haiku modules: they also work outside `hk.transform`, and tables of modules do not list them.

As in Haiku, a window larger than the array gives an empty output, and an int in place of sizes gives a warning: it
leaves out the first axis, usually the batch, which under `jax.vmap` is a different axis.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxpool._checks import as_jax_takes, check_array
from jaxpool._sizes import Sizes, sizes
from jaxpool._words import answer_names
from jaxpool.compat._windows import Windows, averages, maxima

answer_names(__name__)


def max_pool(
    value: ArrayLike, window_shape: Sizes, strides: Sizes, padding: str, channel_axis: int | None = -1
) -> jax.Array:
    """As `haiku.max_pool`; see `jaxpool.max_pool`.

    Differs in NaN (always wins), padding (takes no part), complex numbers (refused), symbolic sizes of pooled axes
    (refused) and empty sizes (refused).

    Example:
        >>> from jaxpool.compat.haiku import max_pool
        >>> max_pool(jnp.arange(16.0).reshape(1, 4, 4, 1), (2, 2, 1), (2, 2, 1), "VALID")[0, :, :, 0]
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
    x = check_array("max_pool", jnp.asarray(as_jax_takes("max_pool", "value", value)), "value")
    return maxima(x, _windows("max_pool", x, window_shape, strides, padding, channel_axis))


def avg_pool(
    value: ArrayLike, window_shape: Sizes, strides: Sizes, padding: str, channel_axis: int | None = -1
) -> jax.Array:
    """As `haiku.avg_pool`; see `jaxpool.avg_pool`.

    Differs in 16-bit floats (summed in float32), integers (sums do not wrap), 16-bit counts (exact), quotients (rounded
    once), symbolic sizes of pooled axes (refused) and empty sizes (refused).

    Example:
        >>> from jaxpool.compat.haiku import avg_pool
        >>> avg_pool(jnp.array([[1.0], [2.0], [3.0], [4.0]]), (3, 1), 1, "SAME")[:, 0]
        Array([1.5, 2. , 3. , 3.5], dtype=float32)
    """
    x = check_array("avg_pool", jnp.asarray(as_jax_takes("avg_pool", "value", value)), "value", complex_allowed=True)
    windows = _windows("avg_pool", x, window_shape, strides, padding, channel_axis)
    # Haiku divides by an integer or, under "SAME", by counts of the dtype of the value.
    return averages(x, windows, jnp.result_type(int) if padding == "VALID" else x.dtype, include_pad=False)


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
    """As `haiku.MaxPool`; see `jaxpool.max_pool`.

    Differs in modules (a dataclass, also outside `hk.transform`), NaN (always wins), padding (takes no part), complex
    numbers (refused), symbolic sizes of pooled axes (refused) and empty sizes (refused).

    Example:
        >>> from jaxpool.compat.haiku import MaxPool
        >>> MaxPool((2, 1), (2, 1), "VALID")(jnp.arange(4.0)[:, None])[:, 0]
        Array([1., 3.], dtype=float32)
    """

    _function = staticmethod(max_pool)


class AvgPool(_Pool):
    """As `haiku.AvgPool`; see `jaxpool.avg_pool`.

    Differs in modules (a dataclass, also outside `hk.transform`), 16-bit floats (summed in float32), integers (sums do
    not wrap), 16-bit counts (exact), quotients (rounded once), symbolic sizes of pooled axes (refused) and empty sizes
    (refused).

    Example:
        >>> from jaxpool.compat.haiku import AvgPool
        >>> AvgPool((2, 1), (2, 1), "VALID")(jnp.arange(4.0)[:, None])[:, 0]
        Array([0.5, 2.5], dtype=float32)
    """

    _function = staticmethod(avg_pool)


def _windows(
    function: str, x: jax.Array, window_shape: Sizes, strides: Sizes, padding: str, channel_axis: int | None
) -> Windows:
    if padding not in ("SAME", "VALID"):
        raise ValueError(
            f"{function}: padding {padding!r} is unknown; use 'VALID' or 'SAME'; jaxpool.{function} takes numbers too"
        )
    window = _over_all_axes(function, "window_shape", window_shape, x, channel_axis)
    steps = _over_all_axes(function, "strides", strides, x, channel_axis)
    if any(not hasattr(given, "__len__") and given != 1 for given in (window_shape, strides)):
        # Raised from this module, like Haiku's, so that filters show or hide it as before.
        warnings.warn(
            f"{function}: under jax.vmap an int window_shape or strides does not see the axis of the batch and spares "
            f"the first other axis; give a size per axis instead, (3, 3, 1) for 3, say",
            DeprecationWarning,
            stacklevel=1,
        )
    return Windows(function, range(x.ndim), window, steps, padding)


def _over_all_axes(function: str, name: str, given: Sizes, x: jax.Array, channel_axis: int | None) -> tuple[int, ...]:
    if not hasattr(given, "__len__"):
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
