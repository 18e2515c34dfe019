"""What all pools have in common: arguments and their documentation, compilation, and copies for words of padding.

A public function consists of a prologue, which checks the common arguments and determines the windows, and a core,
which is compiled once for every window and every other static argument. Where a word asks for copies of cells, the core
first extends its array and mask. The copies are real cells, so the axis becomes one without padding. Copying is linear:
JAX derives the transpose of its tangent map, which adds up the cotangents of the copies of each cell.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._checks import check_array, check_flag, check_mask, check_rule
from jaxpool._jax.linear_map import custom_rule
from jaxpool._jax.primitives import by_platform
from jaxpool._jax.stages import materialize
from jaxpool._kernels import VALUES, Whole, make_windows
from jaxpool._sharding import shardable
from jaxpool._sizes import Axes, OutputSizes, pooled_axes
from jaxpool._window import Window, WindowAxis, make_bins, make_window
from jaxpool._windows.cells import take
from jaxpool._windows.operations import accumulation_dtype

# The array, the mask and the windows.
Call = tuple[jax.Array, jax.Array | None, Window]

# The advice for a window that holds only padding, if no other argument helps.
LESS_PADDING = "use less padding, a smaller stride or a larger kernel_size"


def complete_docstrings(module: str) -> None:
    """In place of "stride, axis: As in `max_pool`." put the entries of `max_pool`, so that help() shows all of them."""
    names = vars(sys.modules[module])

    def completed(name: str) -> str:
        def entries(found: re.Match[str]) -> str:
            indent, arguments, source = found[1], found[2].split(", "), completed(found[3])
            texts = (re.search(rf"^{indent}{one}: .*(\n{indent} .*)*", source, re.MULTILINE) for one in arguments)
            return "\n".join(text[0] for text in texts if text)

        names[name].__doc__ = re.sub(r"^( +)(\w.*): As in `(\w+)`\.$", entries, names[name].__doc__, flags=re.MULTILINE)
        return names[name].__doc__

    for name, one in [*names.items()]:
        if inspect.isfunction(one) and one.__doc__:
            completed(name)


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
    values: tuple[type, ...] = VALUES,
    name: str = "kernel_size",
) -> Call:
    """Parse the call of a sliding-window pool, as `make_window` does, or with one of `values` in place of sizes.

    `only_padding` is the advice for a window that holds only padding; None if such a window is allowed.
    """
    array = check_array(function, x, complex_allowed=complex_allowed)
    make = make_windows if isinstance(sizes[0], values) else partial(make_window, crops=True)
    window = make(function, array.shape, sizes, name, remedies)
    if only_padding is not None:
        window.after_padding(copies=True).check_no_window_of_padding(function, only_padding)
    return _with_mask(function, array, window, where, rule)


def binned(
    function: str,
    x: ArrayLike,
    output_size: OutputSizes | Whole,
    axis: Axes | None,
    where: ArrayLike | None,
    rule: str,
    *,
    complex_allowed: bool = False,
) -> Call:
    """Parse the call of a pool with a given number of bins along each axis, or one that holds all cells of an axis."""
    array = check_array(function, x, complex_allowed=complex_allowed)
    if isinstance(output_size, Whole):
        output_size, axis = 1, pooled_axes(function, array.shape, cast(Axes, axis))
    return _with_mask(function, array, make_bins(function, array.shape, output_size, axis), where, rule)


def keep_axes(function: str, values: jax.Array, window: Window, keepdims: bool) -> jax.Array:
    """The values with the pooled axes of size 1, or with these axes removed."""
    return values if check_flag(function, "keepdims", keepdims) else lax.squeeze(values, window.pooled_axes)


def _with_mask(function: str, array: jax.Array, window: Window, where: ArrayLike | None, rule: str) -> Call:
    check_rule(function, rule)
    if where is not None:
        window.check_counts_fit(function)
    return array, check_mask(function, where, array.shape, window.pooled_axes), window


def padding_counts(function: str, count_include_pad: Any) -> tuple[bool, str | None]:
    """Check and return whether padding counts, and the advice for a window that then holds only padding."""
    include_pad = check_flag(function, "count_include_pad", count_include_pad)
    return include_pad, None if include_pad else "use less padding or count_include_pad=True"


def core(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function(x, mask, *parameters, window, *static)` for each window; x may be sharded along any axes."""
    names = list(inspect.signature(function).parameters)
    return shardable(jax.jit(function, static_argnums=tuple(range(names.index("window"), len(names)))))


def extended(x: jax.Array, mask: jax.Array | None, window: Window) -> Call:
    """The array and the mask with their copied cells, and the window on them; unchanged without a word for copies."""
    axes = [axis for axis in window.axes if axis.extension]
    if not axes:
        return x, mask, window
    # The cotangents of the copies of a cell are added in this dtype and rounded once.
    x = reduce(_copy, axes, x.astype(accumulation_dtype(x.dtype)))
    return x, None if mask is None else reduce(_copy, axes, mask), window.after_padding(copies=True)


def in_floats(x: jax.Array, mask: jax.Array | None, window: Window) -> tuple[*Call, np.dtype]:
    """The results of `extended` for floats, integers as float32, and the dtype to which callers round at the end."""
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else np.dtype(np.float32)
    return *extended(x.astype(dtype), mask, window), dtype


def widened(x: jax.Array, mask: jax.Array | None, window: Window) -> tuple[*Call, np.dtype]:
    """The results of `in_floats`, with the array in the dtype of its sums."""
    x, mask, window, dtype = in_floats(x, mask, window)
    return x.astype(accumulation_dtype(dtype)), mask, window, dtype


@custom_rule((1,))
def _copy(array: jax.Array, axis: WindowAxis) -> jax.Array:
    """Extend the array along one axis; on GPUs by reading it cell by cell, which fuses with the consumer."""
    return by_platform(array, cpu=partial(_concatenate, axis=axis), gpu=partial(_read, axis=axis))


@_copy.defjvp
def _copy_jvp(axis: WindowAxis, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    # In stretches, whose transpose adds slices; the transpose of a gather would scatter.
    return _copy(*primals, axis), _concatenate(*tangents, axis=axis)


def _read(array: jax.Array, *, axis: WindowAxis) -> jax.Array:
    places = lax.iota(np.int32, axis.low + axis.size + axis.high) - axis.low
    return take(array, axis.copied(places), axis.axis, 0, inside=True)


def _concatenate(array: jax.Array, *, axis: WindowAxis) -> jax.Array:
    ends = np.arange(-axis.low, 0), np.arange(axis.size, axis.size + axis.high)
    # The array is one operand: the transpose then adds narrow slices to a wide one, and pads no wide ones.
    before, after = (_stretches(array, axis.axis, axis.copied(each)) for each in ends)
    array = lax.concatenate([*before, array, *after], axis.axis)
    # Otherwise every cell of every window would be looked up in the stretches again.
    return materialize(array) if jnp.issubdtype(array.dtype, jnp.inexact) else array


def _stretches(array: jax.Array, axis: int, cells: np.ndarray) -> Iterator[jax.Array]:
    """The cells with these numbers, in parts along which the number rises by 1, falls by 1 or stays."""
    while cells.size:
        steps = np.diff(cells)
        steady = (steps == steps[:1]) & (abs(steps) <= 1)
        length = 1 + int(np.argmin(np.append(steady, False)))
        first, last = int(cells[0]), int(cells[length - 1])
        part = lax.slice_in_dim(array, min(first, last), max(first, last) + 1, 1, axis)
        if first > last:
            part = lax.rev(part, (axis,))
        elif first == last:
            shape = list(array.shape)
            shape[axis] = length
            part = jnp.broadcast_to(part, shape)
        yield part
        cells = cells[length:]
