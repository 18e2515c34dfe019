"""What all pools have in common: how a call is parsed and compiled.

A public function consists of a prologue, which checks the common arguments and determines the windows, and a core,
which is compiled once for every window and every other static argument.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import combinations
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxpool._arrays import as_array, as_jax_takes
from jaxpool._copies import extend
from jaxpool._engine.operations import accumulation_dtype
from jaxpool._kernels import VALUES, make_windows
from jaxpool._sharding import shardable
from jaxpool._sizes import Axes, OutputSizes, check_flag, pooled_axes
from jaxpool._window import Window, make_bins, make_window, within_reach

P = ParamSpec("P")
R = TypeVar("R")

# The array, the mask and the windows.
Call = tuple[jax.Array, jax.Array | None, Window]

# The advice for a window that holds only padding, if no other argument helps.
LESS_PADDING = "use less padding, a smaller stride or a larger kernel_size"

_ORDERED = "bool, integers of 8 to 64 bits, float16, bfloat16, float32, float64"
_ORDERED_DTYPES = (
    {np.dtype(np.bool_), np.dtype(jnp.bfloat16)}
    | {np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}
    | {np.dtype(f"float{bits}") for bits in (16, 32, 64)}
)
_COMPLEX_DTYPES = {np.dtype(np.complex64), np.dtype(np.complex128)}


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
    """Parse the call of a sliding-window pool; `sizes` are those of `make_window`, or of `make_windows`.

    `only_padding` is the advice for a window that holds only padding; None if such a window is allowed. `values` are
    the kinds of values in place of sizes, and `name` is the caller's name for the sizes.
    """
    array = check_array(function, x, complex_allowed=complex_allowed)
    if isinstance(sizes[0], values):
        window = make_windows(function, array.shape, *sizes, name=name, remedies=remedies)
    else:
        window = within_reach(make_window(function, array.shape, *sizes, name=name, remedies=remedies))
    if only_padding is not None:
        window.check_no_window_of_padding(function, only_padding)
    return _with_mask(function, array, window, where, rule)


def binned(
    function: str,
    x: ArrayLike,
    output_size: OutputSizes,
    axis: Axes | None,
    where: ArrayLike | None,
    rule: str,
    *,
    complex_allowed: bool = False,
) -> Call:
    """Parse the call of a pool with a given number of bins along each axis."""
    array = check_array(function, x, complex_allowed=complex_allowed)
    return _with_mask(function, array, make_bins(function, array.shape, output_size, axis), where, rule)


def over_whole_axes(
    function: str, x: ArrayLike, axis: Axes, where: ArrayLike | None, rule: str, *, complex_allowed: bool = False
) -> Call:
    """Parse the call of a pool with a single window, or bin, that holds all cells along some axes."""
    array = check_array(function, x, complex_allowed=complex_allowed)
    axes = pooled_axes(function, array.shape, axis)
    return binned(function, array, 1, axes, where, rule, complex_allowed=complex_allowed)


def _with_mask(function: str, array: jax.Array, window: Window, where: ArrayLike | None, rule: str) -> Call:
    check_rule(function, rule)
    if where is not None:
        window.check_counts_fit(function)
    return array, check_mask(function, where, array.shape, window.pooled_axes), window


def axis_by_name(function: Callable[P, R]) -> Callable[P, R]:
    """Say how to write `axis`, which the function takes by its name alone, in place of Python's count of arguments."""
    names = [*inspect.signature(function).parameters]
    count = names.index("axis")

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        name = function.__name__
        if len(args) > count:
            raise TypeError(f"{name}: axis is given by its name; write axis={args[count]!r}")
        if "axis" not in kwargs and kwargs.keys() <= set(names):
            raise TypeError(
                f"{name}: axis is missing; write axis=(-2, -1), or axis='NHWC', a letter for each axis of x"
            )
        return function(*args, **kwargs)

    return call


def check_array(function: str, x: Any, name: str = "x", *, complex_allowed: bool = False) -> jax.Array:
    """Return x as a JAX array, or raise if it is not an array or its dtype cannot be pooled."""
    x = as_array(function, name, x)
    if x.dtype in _COMPLEX_DTYPES and not complex_allowed:
        raise TypeError(
            f"{function}: {name} is {x.dtype}, and complex numbers are not supported; pool {name}.real, {name}.imag or "
            f"abs({name})"
        )
    if x.dtype not in _ORDERED_DTYPES | _COMPLEX_DTYPES:
        allowed = _ORDERED + (", complex64, complex128" if complex_allowed else "")
        raise TypeError(
            f"{function}: {name} has dtype {x.dtype}, which cannot be pooled; allowed are {allowed}"
            f"{_conversion(name, x.dtype)}"
        )
    return jnp.asarray(x)


def _conversion(name: str, dtype: Any) -> str:
    """How to convert an array of a narrower dtype to an allowed one without loss; empty if there is no way."""
    wider = {jnp.signedinteger: "int8", jnp.unsignedinteger: "uint8", jnp.floating: "bfloat16"}
    fits = [word for kind, word in wider.items() if dtype.itemsize == 1 and jnp.issubdtype(dtype, kind)]
    return f"; convert it with {name}.astype(jnp.{fits[0]})" if fits else ""


def check_mask(function: str, where: Any, shape: tuple[int, ...], pooled: Sequence[int]) -> jax.Array | None:
    """Return a mask of the rank of x, of full size along the `pooled` axes, or raise if it is not a mask of x.

    The other axes keep their given sizes, so that what they share is evaluated once.
    """
    if where is None:
        return None
    where = as_jax_takes(function, "where", where)
    if not isinstance(where, (bool, np.bool_, jax.Array, np.ndarray)):
        raise TypeError(
            f"{function}: where must be a bool array, got {type(where).__name__}; convert it with jnp.asarray(where)"
        )
    if not isinstance(where, bool) and where.dtype != np.bool_:
        raise TypeError(f"{function}: where must be bool, got dtype {where.dtype}; compare it first, as in where != 0")
    return fit_to_cells(function, "where", jnp.asarray(where), shape, pooled, "a bool")


def fit_to_cells(
    function: str, name: str, array: jax.Array, shape: tuple[int, ...], pooled: Sequence[int], each: str
) -> jax.Array:
    """Return an array of the rank of x, of full size along the pooled axes, or raise if it does not broadcast to x."""
    if not broadcasts_to(array.shape, shape):
        raise ValueError(
            f"{function}: {name} of shape {array.shape} does not broadcast to x {shape}; give {each} for every cell, "
            f"or an array with 1 along the axes that share them{reshaped(name, array.shape, shape)}"
        )
    full = (1,) * (len(shape) - array.ndim) + array.shape
    return jnp.broadcast_to(array.reshape(full), [shape[a] if a in pooled else size for a, size in enumerate(full)])


def check_rule(function: str, rule: Any) -> str:
    """Return the rule, or raise if it is unknown."""
    if not isinstance(rule, str) or rule not in ("jvp", "vjp"):
        raise ValueError(f"{function}: rule {rule!r} is unknown; use 'jvp' (every mode and order) or 'vjp' (reverse)")
    return rule


def broadcasts_to(shape: tuple[int, ...], output_shape: tuple[int, ...]) -> bool:
    # Not with NumPy, which does not support symbolic sizes.
    pairs = zip(reversed(shape), reversed(output_shape), strict=False)
    return len(shape) <= len(output_shape) and all(size in (1, output) for size, output in pairs)


def reshaped(name: str, shape: tuple[int, ...], full: tuple[int, ...]) -> str:
    """How to reshape an array so that it broadcasts to `full`; empty if its axes cannot be matched uniquely."""
    choices = [axes for axes in combinations(range(len(full)), len(shape)) if tuple(full[a] for a in axes) == shape]
    if len(choices) != 1 or not shape:
        return ""
    aligned = tuple(size if axis in choices[0] else 1 for axis, size in enumerate(full))[choices[0][0] :]
    return f", as in {name}.reshape{aligned}"


def padding_counts(function: str, count_include_pad: Any) -> tuple[bool, str | None]:
    """Check and return whether padding counts, and the advice for a window that then holds only padding."""
    include_pad = check_flag(function, "count_include_pad", count_include_pad)
    return include_pad, None if include_pad else "use less padding or count_include_pad=True"


def core(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function(x, mask, *parameters, window, *static)` for each window; x may be sharded along any axes."""
    names = list(inspect.signature(function).parameters)
    return shardable(jax.jit(function, static_argnums=tuple(range(names.index("window"), len(names)))))


def extended(x: jax.Array, mask: jax.Array | None, window: Window) -> tuple[jax.Array, jax.Array | None, Window]:
    """The array and the mask with their copied cells, and the window on them; unchanged without a word for copies.

    16-bit floats become float32, so that the cotangents of the copies of a cell are added in float32 and rounded once.
    """
    if not window.is_extended:
        return x, mask, window
    x = extend(x.astype(accumulation_dtype(x.dtype)), window)
    return x, None if mask is None else extend(mask, window), window.after_copies()


def in_floats(
    x: jax.Array, mask: jax.Array | None, window: Window
) -> tuple[jax.Array, jax.Array | None, Window, np.dtype]:
    """The array with its copied cells, as floats, for maps that widen it; the mask; the windows; the result's dtype.

    That dtype is x's own, or float32 for integers. Callers round to it once, at the end.
    """
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else np.dtype(np.float32)
    return *extended(x.astype(dtype), mask, window), dtype


def widened(
    x: jax.Array, mask: jax.Array | None, window: Window
) -> tuple[jax.Array, jax.Array | None, Window, np.dtype]:
    """The results of `in_floats`, with the array in the dtype of its sums."""
    x, mask, window, dtype = in_floats(x, mask, window)
    return x.astype(accumulation_dtype(dtype)), mask, window, dtype
