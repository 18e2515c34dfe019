"""What all pools have in common: how a call is understood, and how what it asks for is compiled.

A public function is a prologue, which checks the arguments that are the same for all and says where the windows are,
and a core, which is compiled once for every window and whatever else is static.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxpool._arguments import check_array, check_mask, check_rule
from jaxpool._engine.copies import extended
from jaxpool._engine.operations import accumulation_dtype
from jaxpool._geometry.bins import make_bins
from jaxpool._geometry.sizes import OutputSizes, Sizes, check_flag, pooled_axes
from jaxpool._geometry.window import Window, WindowAxis, check_pooled_axis, make_window
from jaxpool._sharding import shardable

# The array, the mask and the windows.
Call = tuple[jax.Array, jax.Array | None, Window]

# What helps against a window that holds only padding, where no other argument does.
LESS_PADDING = "use less padding, a smaller stride or a larger kernel_size"


def sliding(
    function: str,
    x: ArrayLike,
    sizes: Sequence[Any],
    where: ArrayLike | None,
    rule: str,
    *,
    only_padding: str | None = None,
    complex_allowed: bool = False,
    remedies: Sequence[str] = ("padding", "ceil_mode"),
) -> Call:
    """The call of a pool of sliding windows, whose `sizes` are those of `make_window`.

    `only_padding` is what helps against a window that holds nothing else; None where such a window is no mistake.
    """
    array = check_array(function, x, complex_allowed=complex_allowed)
    window = make_window(function, array.shape, *sizes, remedies=remedies)
    if only_padding is not None:
        window.check_no_window_of_padding(function, only_padding)
    return _with_mask(function, array, window, where, rule)


def binned(
    function: str,
    x: ArrayLike,
    output_size: OutputSizes,
    axis: Sizes | None,
    where: ArrayLike | None,
    rule: str,
    *,
    complex_allowed: bool = False,
) -> Call:
    """The call of a pool of so many bins along each axis."""
    array = check_array(function, x, complex_allowed=complex_allowed)
    return _with_mask(function, array, make_bins(function, array.shape, output_size, axis), where, rule)


def over_whole_axes(
    function: str, x: ArrayLike, axis: Sizes, where: ArrayLike | None, rule: str, *, complex_allowed: bool = False
) -> Call:
    """The call of a pool of one window that holds all cells along some axes."""
    array = check_array(function, x, complex_allowed=complex_allowed)
    axes = sorted(pooled_axes(function, array.shape, axis))
    for a in axes:
        check_pooled_axis(function, a, array.shape[a])
    window = Window(tuple(WindowAxis(a, array.shape[a], array.shape[a], array.shape[a], 1, 0, 0, 1) for a in axes))
    return _with_mask(function, array, window, where, rule)


def _with_mask(function: str, array: jax.Array, window: Window, where: ArrayLike | None, rule: str) -> Call:
    check_rule(function, rule)
    return array, check_mask(function, where, array.shape, window.pooled_axes), window


def padding_counts(function: str, count_include_pad: Any) -> tuple[bool, str | None]:
    """Whether padding takes part, checked, and what then helps against a window that holds only padding."""
    include_pad = check_flag(function, "count_include_pad", count_include_pad)
    return include_pad, None if include_pad else "use less padding or count_include_pad=True"


def core(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function(x, *arrays, window, *static)` for each window; x may be sharded along any axes."""
    names = list(inspect.signature(function).parameters)
    return shardable(jax.jit(function, static_argnums=tuple(range(names.index("window"), len(names)))))


def widened(
    x: jax.Array, mask: jax.Array | None, window: Window
) -> tuple[jax.Array, jax.Array | None, Window, np.dtype]:
    """The array in the dtype of its sums, extended by copies if its padding asks for them; mask; windows; and a dtype.

    That is the dtype of the result: that of x, float32 for integers. Callers round to it once, at the end.
    """
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else np.dtype(np.float32)
    return *extended(x.astype(accumulation_dtype(dtype)), mask, window), dtype
