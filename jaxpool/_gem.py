"""Power means of windows and of whole axes: norms divided by a power of the number of cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxpool._adaptive import keep_axes
from jaxpool._arguments import Rule, check_least, check_parameter
from jaxpool._average import cells_counted, divide
from jaxpool._call import Call, axis_by_name, core, in_floats, over_whole_axes, padding_counts, sliding
from jaxpool._derivatives.in_turn import exponentials_order, in_slabs_of, with_zeros, without_uncovered
from jaxpool._derivatives.moderate_sums import Terms, pool_by_sums_of_cells
from jaxpool._derivatives.parametric import Cells, Multiplicities, Parameter, Shift, parametric_pool
from jaxpool._derivatives.powers import exponent_in_range, takes_powers
from jaxpool._derivatives.sums_of_powers import SumsOfPowers
from jaxpool._engine.operations import accumulation_dtype, in_range
from jaxpool._engine.stages import materialize
from jaxpool._engine.window_offsets import present_cells
from jaxpool._geometry.sizes import Axes, Padding, Sizes
from jaxpool._geometry.window import Window
from jaxpool._kernels import KernelSize
from jaxpool._lp import Norm, norms, scaled_norm


def gem_pool(
    x: ArrayLike,
    norm_type: float | ArrayLike,
    kernel_size: KernelSize,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    axis: Axes | None = None,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Generalized-mean pooling (GeM): the power mean of the magnitudes in every window.

    Formula along an axis: y[o] = (Σ_j |x[o·stride - low + j·dilation]|^p/n[o])^(1/p), 0 ≤ j < kernel_size, with n[o]
    the cells taking part: mean magnitude for p = 1, largest for p = inf. It is `lp_pool`/n^(1/p).

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        norm_type: Exponent p > 0: a Python number, inf included, or an array of finite numbers that broadcasts to the
            output (one per channel, say) and may be learnt. A traced p of 0 or less gives NaN, so train raw in 1 +
            jax.nn.softplus(raw).
        kernel_size: Window size, one int per pooled axis: (3, 3) pools two axes. An int is for every axis in `axis`. Or
            `bins`, `whole` or a `footprint`.
        stride: Cells from one window to the next: an int, or one int per axis; `kernel_size` if None.
        padding: Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.
        dilation: Cells from one cell of a window to the next: an int, or one int per axis.
        ceil_mode: Whether a last window that starts before the high padding may end past it; nothing there counts.
        count_include_pad: Whether padded cells take part, as zeros.
        axis: The pooled axes, in the order of `kernel_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `norm_type` is not positive, `rule` is unknown, or a window holds only
            padding, without `count_include_pad`.

    Derivative:
        ∂y/∂x[i] = sign(x[i])·(|x[i]|/y)^(p-1)/n and ∂y/∂p = y/p·Σ (|x[i]|/y)^p·log(|x[i]|/y)/n, of every order. A cell
        of 0 has derivative 0, also for p < 1, where it would be infinite. A window that is all zeros, all padding or
        emptied by `where` is 0; it and, for finite p, an infinite mean have derivative 0 at every order. Ties: for
        p = inf, the first of the largest magnitudes in row-major order takes all. NaN stays in its windows. Beyond 10⁴,
        learnt exponents leave float32 at most three digits of ∂y/∂x.

    Example:
        >>> x = jnp.array([1.0, 2.0, 3.0, 4.0])
        >>> [jaxpool.gem_pool(x, p, (4,)).round(3).item() for p in (1, 3, float("inf"))]
        [2.5, 2.924, 4.0]

    Source: Radenović, Tolias and Chum, "Fine-tuning CNN image retrieval with no human annotation", TPAMI 2018.
    """
    include_pad, only_padding = padding_counts("gem_pool", count_include_pad)
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    call = sliding("gem_pool", x, sizes, where, rule, only_padding=only_padding)
    return _pool("gem_pool", call, norm_type, include_pad, None, rule)


@axis_by_name
def global_gem_pool(
    x: ArrayLike,
    norm_type: float | ArrayLike,
    *,
    axis: Axes,
    eps: float | None = 1e-6,
    keepdims: bool = True,
    where: ArrayLike | None = None,
    rule: Rule = "jvp",
) -> jax.Array:
    """Global generalized-mean pooling (GeM): the power mean of whole axes, a descriptor used in image retrieval.

    Formula: y = (Σ max(x[i], ε)^p/n)^(1/p) over all i along `axis`, n of them: the mean for p = 1, the largest for
    p = inf. Without ε it is that of the magnitudes, as in `gem_pool`.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        norm_type: Exponent p > 0: a Python number, inf included, or an array of finite numbers that broadcasts to the
            output with `keepdims` (one per channel, say) and may be learnt. A traced p of 0 or less gives NaN, so train
            raw in 1 + jax.nn.softplus(raw).
        axis: The pooled axes, an int or several, or letters for all axes: "NHWC" pools those but N and C.
        eps: ε, in units of x: smaller cells count as ε. A finite Python number of at least 0, or None.
        keepdims: Whether the pooled axes remain, with size 1: (N, 1, 1, C); if not, they are dropped: (N, C).
        where: Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent.
        rule: "jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.

    Returns:
        Array of x's dtype (integers and bool: float32); the pooled axes have size 1, or are dropped without `keepdims`.
        16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, an axis is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `norm_type` is not positive, `eps` is negative or not finite, a pooled axis
            has no cells, or `rule` is unknown.

    Derivative:
        That of `gem_pool` for cells above ε, else 0. Ties: for p = inf, the first of the largest cells in row-major
        order takes all. Zeros are below ε. NaN makes y NaN. Where `where` leaves no cell, y is 0 with derivative 0.

    Example:
        >>> x = jnp.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 8.0]])
        >>> jaxpool.global_gem_pool(x, 3, axis=-1, keepdims=False).tolist()
        [2.28943, 5.54689]

    Source: Radenović, Tolias and Chum, "Fine-tuning CNN image retrieval with no human annotation", TPAMI 2018.
    """
    call = over_whole_axes("global_gem_pool", x, axis, where, rule)
    least = check_least("global_gem_pool", "eps", eps)
    means = _pool("global_gem_pool", call, norm_type, True, least, rule)
    return keep_axes("global_gem_pool", means, call[2], keepdims)


def _pool(
    function: str, call: Call, norm_type: float | ArrayLike, include_pad: bool, least: float | None, rule: Rule
) -> jax.Array:
    x, mask, window = call
    shape = window.output_shape(x.shape)
    fix = "use 1 for the mean magnitude, float('inf') for the largest magnitude"
    p, number = check_parameter(function, "norm_type", norm_type, shape, lambda p: p > 0, "positive", fix)
    return _power_means(x, mask, p, window, number, include_pad, least, rule)


# With n cells the norm is N = (Σ |x(i)|^p)^(1/p), and y = N·n^(-1/p). So
#
#     ∂y/∂x(i) = n^(-1/p)·sign(x(i))·(|x(i)|/N)^(p-1) = sign(x(i))·(|x(i)|/y)^(p-1)/n
#     ∂y/∂p = n^(-1/p)·∂N/∂p + y·log(n)/p² = y/p·Σ (|x(i)|/y)^p·log(|x(i)|/y)/n
#
# by the rules of the norm and the chain rule. An infinite norm has derivative 0, which the factor must keep. An array p
# may be so small that N overflows, so there the second forms are the rules, of means in which each cell has a share.


@core
def _power_means(
    x: jax.Array,
    mask: jax.Array | None,
    p: jax.Array | None,
    window: Window,
    number: float | None,
    include_pad: bool,
    least: float | None,
    rule: str,
) -> jax.Array:
    x, mask, window, dtype = in_floats(x, mask, window)
    wide = accumulation_dtype(dtype)
    if least is not None:
        # ε need not be a number of the dtype.
        x, least = x.astype(wide), in_range(least, wide)
        x = jnp.where(x <= least, np.array(least, wide), x)
    largest = float(jnp.finfo(wide).max)
    if number is not None and math.log(window.held) / number < math.log(largest) / 4:
        if mask is None and takes_powers(x, None, window, number):
            return pool_by_sums_of_cells(_MeanBySums(window, number, include_pad), rule, x).astype(dtype)
        values = norms(x.astype(wide), mask, None, window, number, rule)
        if number <= largest:
            counts = jnp.asarray(cells_counted(mask, window, include_pad, x.ndim), wide)
            values = _divided(values, counts ** (1 / number))
        return values.astype(dtype)
    p, number = exponent_in_range(p, number, x.ndim, wide)
    if include_pad and window.has_padding:
        x, mask, window = with_zeros(x, mask, window)
    if mask is None and takes_powers(x, p, window, number):
        pool = _MeanBySums(window, number, include_pad)
        return pool_by_sums_of_cells(pool, rule, x, *in_slabs_of(x, p, window)).astype(dtype)
    x = x.astype(wide) if mask is None else jnp.where(mask, x.astype(wide), 0)
    x = without_uncovered(x, window, learnt=p is not None)
    return _parametric_means(x, mask, p, window, number, rule).astype(dtype)


def _parametric_means(
    x: jax.Array, mask: jax.Array | None, p: jax.Array | None, window: Window, number: float | None, rule: str
) -> jax.Array:
    """The means for an array, and for an exponent so small that n^(1/p) may overflow; masked cells are 0."""
    present = present_cells(mask, window, x.ndim)
    counted = None if present is None else present.astype(x.dtype)
    return parametric_pool(x, p, _PowerMean(window, number), rule, counted)


def _divided(norms: jax.Array, counts: jax.Array) -> jax.Array:
    """The norms over n^(1/p). Infinite ones stay infinite, and their windows pass no derivative on anyway."""
    # Cotangents divided before the norms exist would fill memory while these are computed.
    return materialize(divide(norms, counts), norms)


@dataclass(frozen=True)
class _MeanBySums(SumsOfPowers):
    """The mean with or without zeros in the padding."""

    include_pad: bool

    def exact(self, x: jax.Array, *p: jax.Array) -> jax.Array:
        if p:
            return _parametric_means(x, None, p[0], self.window, None, "jvp")
        assert self.number is not None
        norms = parametric_pool(x, None, Norm(self.window, self.number), "jvp")
        return _divided(norms, self.counts((norms,)) ** (1 / self.number))

    def counts(self, sums: Terms, *_: jax.Array) -> jax.Array:
        return jnp.asarray(cells_counted(None, self.window, self.include_pad, sums[0].ndim), sums[0].dtype)

    def value_of_sums(self, sums: Terms, counts: ArrayLike, *p: jax.Array) -> jax.Array:
        return super().value_of_sums((divide(sums[0], jnp.asarray(counts)),), counts, *p)


@dataclass(frozen=True)
class _PowerMean(Norm):
    is_mean = True

    @property
    def in_turn(self) -> tuple[Window, ...]:
        return exponentials_order(self.window)

    def value(
        self, cells: Cells, parameter: Parameter, part: Window, multiplicities: Multiplicities, shift: Shift
    ) -> jax.Array:
        multiplicity, total = multiplicities or (None, float(part.held))
        return scaled_norm(cells[0], parameter, part, multiplicity, jnp.maximum(total, 1))
