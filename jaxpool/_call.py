"""What all pools have in common: how a call is parsed and compiled.

A public function consists of a prologue, which checks the common arguments and determines the windows, and a core,
which is compiled once for every window and every other static argument.
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

# The advice for a window that holds only padding, if no other argument helps.
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
    """Parse the call of a sliding-window pool; `sizes` are those of `make_window`.

    `only_padding` is the advice for a window that holds only padding; None if such a window is allowed.
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
    """Parse the call of a pool with a given number of bins along each axis."""
    array = check_array(function, x, complex_allowed=complex_allowed)
    return _with_mask(function, array, make_bins(function, array.shape, output_size, axis), where, rule)


def over_whole_axes(
    function: str, x: ArrayLike, axis: Sizes, where: ArrayLike | None, rule: str, *, complex_allowed: bool = False
) -> Call:
    """Parse the call of a pool with a single window that holds all cells along some axes."""
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
    """Check and return whether padding counts, and the advice for a window that then holds only padding."""
    include_pad = check_flag(function, "count_include_pad", count_include_pad)
    return include_pad, None if include_pad else "use less padding or count_include_pad=True"


def core(function: Callable[..., Any], by_parts: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Compile `function(x, mask, *parameters, window, *static)` for each window; x may be sharded along any axes.

    `by_parts` is explained in `_sharding.shardable`.
    """
    names = list(inspect.signature(function).parameters)
    return shardable(jax.jit(function, static_argnums=tuple(range(names.index("window"), len(names)))), by_parts)


def widened(
    x: jax.Array, mask: jax.Array | None, window: Window
) -> tuple[jax.Array, jax.Array | None, Window, np.dtype]:
    """The array in the dtype of its sums, extended by copies if its padding is a word for them; mask; windows; a dtype.

    The dtype is that of the result: x's own, or float32 for integers. Callers round to it once, at the end.
    """
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else np.dtype(np.float32)
    return *extended(x.astype(accumulation_dtype(dtype)), mask, window), dtype
