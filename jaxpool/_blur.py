"""Pools that blur before subsampling: binomial low-pass filters, by themselves or after a maximum."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._average import divide
from jaxpool._call import core, in_floats, sliding
from jaxpool._checks import Rule, check_array
from jaxpool._extremes import extremes
from jaxpool._jax.linear_map import LinearMap, apply_linear_map, with_rule
from jaxpool._jax.platforms import known_platform
from jaxpool._jax.stages import materialize
from jaxpool._sizes import Axes, Padding, Sizes, pooled_axes, sizes
from jaxpool._window import Window, make_window
from jaxpool._windows.cells import cells_at_offsets, pad_real
from jaxpool._windows.choices import MOST_READS, on_every_platform
from jaxpool._windows.operations import accumulation_dtype
from jaxpool._windows.reduce import spread_by_windows


def blur_pool(
    x: ArrayLike,
    kernel_size: Sizes = (3, 3),
    stride: Sizes | None = 2,
    padding: Padding = "REFLECT",
    *,
    dilation: Sizes = 1,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Blur pooling, or anti-aliased downsampling: the binomially weighted average of every window.

    Formula along an axis: y[o] = Σ_j c[j]·x[o·stride - low + j·dilation], 0 ≤ j < k = kernel_size, with the weights
    c[j] = binomial(k-1, j)/2^(k-1): (1, 1)/2, (1, 2, 1)/4, (1, 3, 3, 1)/8 and so on. With several axes the weight of a
    cell is the product of its axes' weights; axes are filtered in turn, at the outputs that are kept. Padded cells are
    0 and keep their weight. With a mask, y[o] is the sum over the cells left, divided by the sum of their weights and
    those of padded cells: a constant array stays constant.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32, float64, complex64 or complex128.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. A single int applies to every axis in
            `axis`. The default is for two axes; for one, write (3,), or 3 and an axis.
        stride, padding, dilation, axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 (n/stride,
        rounded up, where cells are copied), and x's dtype (integers and bool: float32). Sums are in float32 or wider
        and rounded once.

    Raises:
        TypeError: x is not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, or `rule` is unknown.

    Derivative:
        ∂y[o]/∂x[i] = c[j] if window o holds cell i at its offset j (with a mask, over the sum of weights), else 0;
        higher derivatives are 0. Ties and zeros are ordinary. NaN and infinities stay in their windows and reach no
        derivative. A window that holds only padding, or that `where` empties, is 0 with derivative 0.

    Example:
        >>> jaxpool.blur_pool(jnp.array([0.0, 4.0, 8.0, 8.0, 0.0]), (3,))
        Array([2., 7., 4.], dtype=float32)

    Source: Zhang, "Making convolutional networks shift-invariant again", ICML 2019.
    """
    x = check_array("blur_pool", x, complex_allowed=True)
    _check_two_axes("blur_pool", x.shape, kernel_size, axis)
    sizes = (kernel_size, stride, padding, dilation, False, axis)
    remedies = ("padding",)
    call = sliding("blur_pool", x, sizes, where, rule, complex_allowed=True, remedies=remedies, values=())
    return _blurred(*call, rule)


def max_blur_pool(
    x: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = 2,
    padding: Padding = "REFLECT",
    *,
    blur_size: Sizes = 3,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> jax.Array:
    """Anti-aliased max pooling (MaxBlurPool): max pooling at a stride of 1, followed by `blur_pool`.

    Formula: y = blur_pool(m, blur_size, stride, padding) of the maxima m = max_pool(x, kernel_size, stride=1,
    dilation=dilation), without padding. It acts as a max pool with that stride, but its output changes little when x is
    shifted by a cell. With `ceil_mode`, maxima that a last window lacks past the padding count as masked.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. A single int applies to every axis in
            `axis`.
        stride: Maxima from one output to the next: an int, or one int per axis; `kernel_size` if None.
        padding: How the maxima are padded before they are blurred, as in `blur_pool`: with copies of them ("REFLECT"
            and similar words) or with zeros (an int, an int per axis, a (low, high) pair per axis, "SAME" and similar
            words). The cells themselves are not padded.
        blur_size: Maxima averaged with binomial weights along each pooled axis: an int, or one int per axis.
        axis, where, rule, dilation, ceil_mode: As in `max_pool`.

    Returns:
        Array of x's dtype (integers and bool: float32). A pooled axis of n cells has m = n - dilation·(kernel_size - 1)
        maxima and becomes floor((m + low + high - blur_size)/stride) + 1, or as in `max_pool` with `ceil_mode`. Sums
        are in float32 or wider and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, or `rule` is unknown.

    Derivative:
        ∂y[o]/∂x[i] is the sum of the weights, in output o, of the maxima that cell i wins; higher derivatives are 0.
        Ties: the first winner in row-major order takes all. NaN wins over numbers and reaches the outputs that hold it;
        NaNs tie, as +0 and -0 do. Maxima of windows that `where` empties are absent, as in `blur_pool`; an output with
        no others is 0 with derivative 0.

    Example:
        >>> jaxpool.max_blur_pool(jnp.array([0.0, 4.0, 8.0, 8.0, 0.0]), (2,))
        Array([6., 8.], dtype=float32)

    Source: Zhang, "Making convolutional networks shift-invariant again", ICML 2019.
    """
    function = "max_blur_pool"
    placed = (kernel_size, 1, 0, dilation, False, axis)
    array, mask, maxima = sliding(function, x, placed, where, rule, remedies=(), values=())
    blurs = sizes(function, "blur_size", blur_size, len(maxima.axes), least=1)
    shape = maxima.output_shape(array.shape)
    strides = kernel_size if stride is None else stride
    window = make_window(function, shape, (blurs, strides, padding, 1, ceil_mode, axis), "blur_size")
    return _max_blurred(array, mask, window, maxima, rule)


def _check_two_axes(function: str, shape: Sequence[int], kernel_size: Sizes, axis: Axes | None) -> None:
    """Raise if the default kernel size, which the caller may not have given, meets one axis or more than two."""
    if not (isinstance(kernel_size, tuple) and all(type(size) is int for size in kernel_size)):
        return
    count = min(len(shape), 2) if axis is None else len(pooled_axes(function, shape, axis))
    if kernel_size == (3, 3) and count not in (0, 2):
        pooled = "axis is" if count == 1 else "axes are"
        fix = "kernel_size=(3,)" if axis is None else "kernel_size=3"
        raise ValueError(
            f"{function}: kernel_size (3, 3), the default, is for two axes, but {count} {pooled} pooled; write {fix}"
        )


@partial(jax.jit, static_argnums=(2, 3, 4))
def _max_blurred(x: jax.Array, mask: jax.Array | None, window: Window, maxima: Window, rule: str) -> jax.Array:
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.float32
    # In float32 from here on, so that cotangents are not rounded between the two.
    largest = extremes(x.astype(accumulation_dtype(x.dtype)), mask, maxima, lax.max, rule, x.dtype)
    nonempty = None if mask is None else extremes(mask, None, maxima, lax.max, rule)
    return _blurred(largest, nonempty, window, rule).astype(dtype)


@core
def _blurred(x: jax.Array, mask: jax.Array | None, window: Window, rule: str) -> jax.Array:
    x, mask, window, dtype = in_floats(x, mask, window)
    if mask is None and any(axis.overhang > axis.high for axis in window.axes):
        # No cell is masked, but windows end beyond the padding.
        mask = jnp.ones([size if axis in window.pooled_axes else 1 for axis, size in enumerate(x.shape)], bool)
    if mask is not None:
        x = jnp.where(mask, x, jnp.zeros_like(x))
    averages = _linear(x, window, rule)
    if mask is not None:
        kept = pad_real(mask, window, True).astype(jnp.finfo(averages.dtype).dtype)
        weights = on_every_platform(partial(_correlate, window=window.after_padding(), weights=_weights(window)), kept)
        averages = divide(averages, jnp.where(weights == 0, 1, weights))
    return averages.astype(dtype)


def _linear(x: jax.Array, window: Window, rule: str) -> jax.Array:
    if jnp.iscomplexobj(x):
        # An infinite complex number times a real one is not the product of two complex numbers.
        return lax.complex(_linear(x.real, window, rule), _linear(x.imag, window, rule))
    like = jax.ShapeDtypeStruct(window.output_shape(x.shape), accumulation_dtype(x.dtype))
    return with_rule(rule, partial(apply_linear_map, _WeightedSums(window, x.dtype), like=like))(x)


def _weights(window: Window) -> list[list[float]]:
    counts = (axis.kernel - 1 for axis in window.axes)
    return [[math.comb(count, offset) / 2**count for offset in range(count + 1)] for count in counts]


# Notation: window o holds cell i at offset j(i, o), with weight c(j), a product over the axes; a dot marks a tangent, a
# bar a cotangent. The weighted sum is linear, so
#
#     y(o) = Σ_i c(j(i, o)) x(i)        ẏ(o) = Σ_i c(j(i, o)) ẋ(i)        x̄(i) = Σ_o c(j(i, o)) ȳ(o)
#
# and x is not kept. Sums run over the cells of a window and over the windows that hold a cell, so NaN stays in these.
# Padded and masked cells, which are 0, and empty windows, divided by 1, contribute nothing.


@dataclass(frozen=True)
class _WeightedSums(LinearMap):
    window: Window
    dtype: np.dtype  # of the cells

    def forward(self, x: jax.Array, /) -> jax.Array:
        return on_every_platform(partial(_correlate, window=self.window, weights=_weights(self.window)), x)

    def transpose(self, sums_bar: jax.Array, /) -> jax.Array:
        sent = partial(_transpose_correlation, window=self.window, weights=_weights(self.window))
        return on_every_platform(sent, sums_bar).astype(self.dtype)


def _correlate(x: jax.Array, window: Window, weights: Sequence[Sequence[float]]) -> jax.Array:
    """Sum every window with a weight for each offset, 16-bit floats in float32; padded cells are 0."""
    for number, (part, of_cells) in enumerate(_parts(window, weights)):
        x = materialize(x) if number and _sums_in_stages(window) else x
        # Widened after it is sliced: a wider array would be in memory.
        dtype = accumulation_dtype(x.dtype)
        table = of_cells.astype(dtype)
        cells = (each.astype(dtype) for each in cells_at_offsets(x, part, 0))
        terms = [each * weight for each, weight in zip(cells, table, strict=True)]
        x = reduce(lax.add, terms)
    return x


def _transpose_correlation(cotangent: jax.Array, window: Window, weights: Sequence[Sequence[float]]) -> jax.Array:
    """The transpose of `correlate`."""
    for number, (part, of_cells) in enumerate(reversed([*_parts(window, weights)])):
        cotangent = materialize(cotangent) if number and _sums_in_stages(window) else cotangent
        cotangent = spread_by_windows(cotangent, part, of_cells.astype(cotangent.dtype))
    return cotangent


def _sums_in_stages(window: Window) -> bool:
    """Whether weighted sums along different axes are separate stages on a CPU.

    Otherwise all cells of a window are summed at once, which is up to twice as fast for up to 25 cells.
    """
    return window.cells > 25


def _parts(window: Window, weights: Sequence[Sequence[float]]) -> Iterator[tuple[Window, np.ndarray]]:
    """The windows in order, each with the weights of its cells in row-major order."""
    along = {axis.axis: np.asarray(each) for axis, each in zip(window.axes, weights, strict=True)}
    # One axis after the other takes fewer cycles on TPUs, and less time on CPUs.
    at_once = known_platform() == "gpu" and window.cells <= MOST_READS
    for part in (window,) if at_once else window.split():
        table = np.ones(1)
        for axis in part.axes:
            table = np.multiply.outer(table, along[axis.axis]).ravel()
        yield part, table
