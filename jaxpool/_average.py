"""Linear pools: sums and averages of every window, of bins and of whole axes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._call import binned, core, extended, in_floats, keep_axes, padding_counts, sliding
from jaxpool._checks import Rule, check_divisor
from jaxpool._jax.linear_map import LinearMap, apply_linear_map, with_rule
from jaxpool._jax.stages import materialize
from jaxpool._kernels import KernelSize, whole
from jaxpool._sizes import Axes, OutputSizes, Padding, Sizes
from jaxpool._window import Window
from jaxpool._windows.choices import reduce_windows, spread
from jaxpool._windows.operations import accumulation_dtype, in_range


def sum_pool(
    x: ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Sum pooling: the sum of the cells of every window.

    Formula along an axis: y[o] = Σ_j x[o·stride - low + j·dilation], 0 ≤ j < kernel_size; padded or masked cells add 0.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32, float64, complex64 or complex128.
        kernel_size, stride, padding, dilation, ceil_mode, axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (int32 for bool, which is counted). 16-bit floats are summed in float32 and rounded
        once. Integers wrap as they do everywhere in JAX.

    Raises:
        TypeError: x is not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, or `rule` is unknown.

    Derivative:
        ∂y[o]/∂x[i] = 1 for i in window o, else 0; higher derivatives are 0. Ties and zeros are ordinary. NaN and
        infinities stay in their windows and reach no derivative. A window that holds only padding, or that `where`
        empties, is 0 with derivative 0.

    Example:
        >>> jaxpool.sum_pool(jnp.array([1.0, 2.0, 3.0, 4.0]), (3,), stride=1, padding=1)
        Array([3., 6., 9., 7.], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("sum_pool", x, sizes, where, rule, complex_allowed=True)
    if jnp.issubdtype(array.dtype, jnp.inexact):
        return averages(array, mask, window, True, 1.0, rule)
    return _integer_sums(array, mask, window)


def avg_pool(
    x: ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: float | None = None,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Average pooling, or mean pooling: the average of the cells of every window.

    By default the last axes are pooled, one for each entry of `kernel_size`. If channels come last, write axis="NHWC",
    a letter for each axis of x: every axis except N and C is pooled.

    Formula along an axis: y[o] = Σ_j x[o·stride - low + j·dilation] / d[o], 0 ≤ j < kernel_size, padded and masked
    cells adding 0. d[o] is `divisor_override` if given, else the number of unmasked cells of window o in the input and,
    with `count_include_pad`, in the declared padding.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32, float64, complex64 or complex128.
        kernel_size, stride, padding, dilation, ceil_mode: As in `max_pool`.
        count_include_pad: Whether padded cells count in the divisor.
        divisor_override: Number that divides every sum in place of the count; finite and not 0.
        axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). Sums are in float32 or wider and rounded once.

    Raises:
        TypeError: x is not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `divisor_override` is 0 or not finite, `rule` is unknown, or a window holds
            only padding, with neither `count_include_pad` nor `divisor_override`.

    Derivative:
        ∂y[o]/∂x[i] = 1/d[o] for i in window o, else 0; higher derivatives are 0. Ties and zeros are ordinary. NaN and
        infinities stay in their windows and reach no derivative. A window that `where` empties is 0 with derivative 0.

    Example:
        >>> x = jnp.array([1.0, 2.0, 3.0, 4.0])
        >>> jaxpool.avg_pool(x, (3,), stride=1, padding=1).round(2)
        Array([1.  , 2.  , 3.  , 2.33], dtype=float32)
        >>> jaxpool.avg_pool(x, (3,), stride=1, padding=1, count_include_pad=False)
        Array([1.5, 2. , 3. , 3.5], dtype=float32)
    """
    include_pad, only_padding = padding_counts("avg_pool", count_include_pad)
    divisor = check_divisor("avg_pool", divisor_override)
    if only_padding is not None:
        only_padding = "use less padding, count_include_pad=True or divisor_override" if divisor is None else None
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    call = sliding("avg_pool", x, sizes, where, rule, only_padding=only_padding, complex_allowed=True)
    return averages(*call, include_pad, divisor, rule)


def adaptive_avg_pool(
    x: ArrayLike,
    output_size: OutputSizes,
    *,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Adaptive average pooling: the average of the cells of every bin.

    Formula along an axis of n cells in m bins: y[o] = Σ x[i] / d[o], floor(o·n/m) ≤ i < ceil((o+1)·n/m), masked cells
    adding 0. d[o] is the number of unmasked cells in bin o. The bins are PyTorch's.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32, float64, complex64 or complex128.
        output_size, axis, where, rule: As in `adaptive_max_pool`.

    Returns:
        Array of x's dtype (integers and bool: float32); the pooled axes have the sizes in `output_size`. Sums are in
        float32 or wider and rounded once.

    Raises:
        TypeError: x is not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, or `rule` is unknown.

    Derivative:
        ∂y[o]/∂x[i] = 1/d[o] for i in bin o, else 0; higher derivatives are 0. Ties and zeros are ordinary. NaN and
        infinities stay in their bins and reach no derivative. A bin that `where` empties is 0 with derivative 0.

    Example:
        >>> jaxpool.adaptive_avg_pool(jnp.array([1.0, 2.0, 5.0, 4.0, 3.0]), (3,)).tolist()
        [1.5, 3.66667, 3.5]
    """
    array, mask, window = binned("adaptive_avg_pool", x, output_size, axis, where, rule, complex_allowed=True)
    return averages(array, mask, window, True, None, rule)


def global_avg_pool(
    x: ArrayLike, *, axis: Axes, keepdims: bool = True, where: ArrayLike | None = None, rule: Rule = "jvp"
) -> jax.Array:
    """Global average pooling: the average of the cells of whole axes.

    Formula: y = Σ x[i] / d over all i along `axis`, masked cells adding 0; d is the number of unmasked cells.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32, float64, complex64 or complex128.
        axis, keepdims, where, rule: As in `global_max_pool`.

    Returns:
        Array of x's dtype (integers and bool: float32); the pooled axes have size 1, or are dropped without `keepdims`.
        Sums are in float32 or wider and rounded once.

    Raises:
        TypeError: x is not an array, an axis is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, a pooled axis has no cells, or `rule` is unknown.

    Derivative:
        ∂y/∂x[i] = 1/d, or 0 for masked cells; higher derivatives are 0. Ties and zeros are ordinary. NaN and infinities
        reach no derivative. Where `where` leaves no cell, y is 0 with derivative 0.

    Example:
        >>> lengths = jnp.array([2, 3])
        >>> x = jnp.array([[1.0, 2.0, jnp.nan], [1.0, 2.0, 6.0]])
        >>> jaxpool.global_avg_pool(x, axis=-1, keepdims=False, where=jnp.arange(3) < lengths[:, None])
        Array([1.5, 3. ], dtype=float32)
    """
    array, mask, window = binned("global_avg_pool", x, whole, axis, where, rule, complex_allowed=True)
    values = averages(array, mask, window, True, None, rule)
    return keep_axes("global_avg_pool", values, window, keepdims)


@core
def _integer_sums(x: jax.Array, mask: jax.Array | None, window: Window) -> jax.Array:
    if x.dtype == np.bool_:
        x = x.astype(jnp.int32)
    x, mask, window = extended(x, mask, window)
    return reduce_windows(x if mask is None else jnp.where(mask, x, jnp.zeros_like(x)), window, lax.add)


@core
def averages(
    x: jax.Array, mask: jax.Array | None, window: Window, include_pad: bool, divisor: float | None, rule: str
) -> jax.Array:
    """The sum of every window over its divisor: the given number, or the number of cells counted."""
    x, mask, window, dtype = in_floats(x, mask, window)
    if mask is not None:
        x = jnp.where(mask, x, jnp.zeros_like(x))
    wide = accumulation_dtype(dtype)
    divisor = None if divisor is None else in_range(divisor, wide)
    counts = cells_counted(mask, window, include_pad, x.ndim) if divisor is None else divisor
    is_one_number = isinstance(counts, (int, float))
    quotients = _Quotients(window, x.dtype, float(counts) if is_one_number else 1.0)
    like = jax.ShapeDtypeStruct(window.output_shape(x.shape), wide)
    values = with_rule(rule, partial(apply_linear_map, quotients, like=like))(x)
    if not is_one_number:
        values = divide(values, jnp.asarray(counts, jnp.finfo(wide).dtype))
    return values.astype(dtype)


def cells_counted(mask: jax.Array | None, window: Window, include_pad: bool, rank: int) -> Any:
    """The number of unmasked cells in every window and, with `include_pad`, of padded ones; 1 if there are none."""
    counts, real = (window.counts(rank, padding=padding) for padding in (include_pad, False))
    if mask is None:
        # A footprint may have none in a window that ends beyond the padding.
        if isinstance(counts, int):
            return max(counts, 1)
        return jnp.maximum(counts, 1) if window.has_footprint else materialize(counts)
    unmasked = reduce_windows(mask.astype(np.int32), window, lax.add)
    return jnp.maximum(unmasked + (materialize(counts - real) if include_pad else 0), 1)


# Notation: window o holds the cells W(o) and has the divisor d(o), of a sum 1; a dot marks a tangent, a bar a
# cotangent.
#
#     y(o) = Σ_{i ∈ W(o)} x(i)/d(o)        ẏ(o) = Σ_{i ∈ W(o)} ẋ(i)/d(o)        x̄(i) = Σ_{o : i ∈ W(o)} ȳ(o)/d(o)
#
# The map is linear, so it is its own derivative, and x is not kept. It is a `LinearMap`, as JAX's own transpose of a
# windowed sum would put zeros between the cotangents and sum those as well. If the divisors of windows differ, the
# division is a separate map. Quotients are correctly rounded. A compiler may turn a division by constants into a
# multiplication by their reciprocals, which is not: 21/7 would be 3.0000002. So the divisor is made to depend on the
# data, for NaN, where it does not matter. Cotangents are divided by the constants.


@dataclass(frozen=True)
class _Quotients(LinearMap):
    window: Window
    dtype: np.dtype  # of the cells
    divisor: float

    def forward(self, x: jax.Array, /) -> jax.Array:
        sums = reduce_windows(x, self.window, lax.add)
        return sums if self.divisor == 1 else _quotient(sums, np.asarray(self.divisor, jnp.finfo(sums.dtype).dtype))

    def transpose(self, quotients_bar: jax.Array, /) -> jax.Array:
        return spread(quotients_bar, self.window, self.divisor).astype(self.dtype)


@dataclass(frozen=True)
class _Division(LinearMap):
    def forward(self, sums: jax.Array, divisors: jax.Array, /) -> jax.Array:
        return _quotient(sums, divisors)

    def transpose(self, quotients_bar: jax.Array, divisors: jax.Array, /) -> jax.Array:
        return quotients_bar / divisors.astype(quotients_bar.dtype)


def divide(sums: jax.Array, divisors: jax.Array) -> jax.Array:
    """The quotients, rounded once; the divisors have no derivative."""
    return apply_linear_map(_Division(), sums, divisors, like=sums)


def _quotient(sums: jax.Array, divisors: Any) -> jax.Array:
    if jnp.iscomplexobj(sums):
        return lax.complex(_quotient(sums.real, divisors), _quotient(sums.imag, divisors))
    return sums / jnp.where(jnp.isnan(sums), sums, divisors)
