"""Norms and power means of windows and of whole axes, with a number or a learnt array as exponent."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._average import cells_counted, divide
from jaxpool._call import Call, binned, core, keep_axes, padding_counts, sliding, widened
from jaxpool._checks import Rule, check_not_negative, check_parameter
from jaxpool._extremes import extremes
from jaxpool._jax.linear_map import custom_rule, is_symbolic_zero, with_rule
from jaxpool._kernels import KernelSize, whole
from jaxpool._sizes import Axes, Padding, Sizes
from jaxpool._window import Window
from jaxpool._windows.choices import reduce_windows
from jaxpool._windows.operations import Arrays, in_range
from jaxpool._windows.pairs import Product, Term, finite, in_turn, sum_over_cells


def lp_pool(
    x: ArrayLike,
    norm_type: float | ArrayLike,
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
    """Lp pooling: the Lp norm of the cells of every window.

    Formula along an axis: y[o] = (Σ_j |x[o·stride - low + j·dilation]|^p)^(1/p), 0 ≤ j < kernel_size, padded and masked
    cells adding 0. p = 1 sums magnitudes, p = 2 is the Euclidean norm, p = inf the largest magnitude.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        norm_type: Exponent p > 0: a Python number, inf included, or a learnable array of finite numbers that broadcasts
            to the output (one per channel, say). Under `jax.jit` a p of 0 or less gives NaN: to keep it positive, train
            raw in p = 1 + jax.nn.softplus(raw).
        kernel_size, stride, padding, dilation, ceil_mode, axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `norm_type` is not positive, or `rule` is unknown.

    Derivative:
        ∂y/∂x[i] = sign(x[i])·(|x[i]|/y)^(p-1) and ∂y/∂p = y/p·Σ (|x[i]|/y)^p·log(|x[i]|/y), exact at every order. A
        cell of 0 has derivative 0, also for p < 1, where it would be infinite. A window that is all zeros, all padding
        or emptied by `where` is 0, with derivative 0 at every order; for finite p, an infinite norm has derivative 0,
        too. Ties: for p = inf, the first of the largest magnitudes in row-major order takes all. NaN stays in its
        windows.

    Example:
        >>> jaxpool.lp_pool(jnp.array([3.0, -4.0, 0.0, 0.0]), 2, (2,))
        Array([5., 0.], dtype=float32)

    Source: Sermanet, Chintala and LeCun, "Convolutional neural networks applied to house numbers digit classification",
    ICPR 2012; trained exponents: the source of `gem_pool`.
    """
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("lp_pool", x, sizes, where, rule)
    fix = "use 1 for the sum of magnitudes, 2 for the Euclidean norm, float('inf') for the largest magnitude"
    shape = window.output_shape(array.shape)
    p, number = check_parameter("lp_pool", "norm_type", norm_type, shape, lambda p: p > 0, "positive", fix)
    return norms(array, mask, p, window, number, rule)


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
    the cells taking part: the mean magnitude for p = 1, the largest for p = inf. It is `lp_pool`/n^(1/p).

    Args:
        x, norm_type, kernel_size, stride, padding, dilation, ceil_mode: As in `lp_pool`.
        count_include_pad: Whether padded cells take part, as zeros.
        axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `norm_type` is not positive, `rule` is unknown, or a window holds only
            padding, without `count_include_pad`.

    Derivative:
        ∂y/∂x[i] = sign(x[i])·(|x[i]|/y)^(p-1)/n and ∂y/∂p = y/p·Σ (|x[i]|/y)^p·log(|x[i]|/y)/n, exact at every order. A
        cell of 0 has derivative 0, also for p < 1, where it would be infinite. A window that is all zeros, all padding
        or emptied by `where` is 0, with derivative 0 at every order; for finite p, an infinite mean has derivative 0,
        too. Ties: for p = inf, the first of the largest magnitudes in row-major order takes all. NaN stays in its
        windows.

    Example:
        >>> x = jnp.array([1.0, 2.0, 3.0, 4.0])
        >>> [jaxpool.gem_pool(x, p, (4,)).round(3).item() for p in (1, 3, float("inf"))]
        [2.5, 2.924, 4.0]

    Source: Radenović, Tolias and Chum, "Fine-tuning CNN image retrieval with no human annotation", TPAMI 2018.
    """
    include_pad, only_padding = padding_counts("gem_pool", count_include_pad)
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    call = sliding("gem_pool", x, sizes, where, rule, only_padding=only_padding)
    return _means("gem_pool", call, norm_type, include_pad, None, rule)


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
    p = inf. Without ε it is the power mean of the magnitudes, as in `gem_pool`.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        norm_type: Exponent p > 0: a Python number, inf included, or a learnable array of finite numbers that broadcasts
            to the output with `keepdims` (one per channel, say). Under `jax.jit` a p of 0 or less gives NaN: to keep it
            positive, train raw in p = 1 + jax.nn.softplus(raw).
        axis: The pooled axes, an int or several, or letters for all axes: "NHWC" pools all but N and C.
        eps: ε, in units of x: smaller cells count as ε. A finite Python number of at least 0, or None.
        keepdims, where, rule: As in `global_max_pool`.

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
    function = "global_gem_pool"
    call = binned(function, x, whole, axis, where, rule)
    fix, kind = "use None for no bound", "a Python number or None"
    least = None if eps is None else check_not_negative(function, "eps", eps, fix, kind)
    means = _means(function, call, norm_type, True, least, rule)
    return keep_axes(function, means, call[2], keepdims)


def _means(
    function: str, call: Call, norm_type: float | ArrayLike, include_pad: bool, least: float | None, rule: Rule
) -> jax.Array:
    x, mask, window = call
    shape = window.output_shape(x.shape)
    fix = "use 1 for the mean magnitude, float('inf') for the largest magnitude"
    p, number = check_parameter(function, "norm_type", norm_type, shape, lambda p: p > 0, "positive", fix)
    return norms(x, mask, p, window, number, rule, include_pad, least)


# Notation: x(i) the cells of one window, n = 1 for norms and the number of cells for means, y = (Σ |x(i)|^p/n)^(1/p),
# r(i) = x(i)/y, so that Σ |r(i)|^p = n. A dot marks a tangent. From log y = log(Σ |x(i)|^p/n)/p,
#
#     ẏ = Σ sign(x(i))·|r(i)|^(p-1)·ẋ(i)/n + ṗ·y/p·Σ |r(i)|^p·log|r(i)|/n
#
# which are sums over pairs, whose derivatives are those of x, p and y: only these are kept. A y of 0 is a corner, where
# 0 is a subgradient for p ≥ 1; there, and where y is infinite, 1/y counts as 0, so that every derivative is 0.
#
# If p is one number along the pooled axes, |r|^(p-1) is a product of |x|^(p-1) and y^(1-p), and other powers are too:
# for a number p ≤ 3 always, for others where no factor is large or small. Else powers are of ratios, to y or to the
# largest magnitude of the window. A norm of norms is a norm, so then axes may be taken in turn; means are over whole
# boxes of cells first, and over n in the end.


@core
def norms(
    x: jax.Array,
    mask: jax.Array | None,
    p: jax.Array | None,
    window: Window,
    number: float | None,
    rule: str,
    include_pad: bool | None = None,
    least: float | None = None,
) -> jax.Array:
    """The norm of every window for the exponent `number`, or for the array `p` if `number` is None.

    It is a mean if `include_pad` tells whether padding counts. Cells below `least`, if given, count as that.
    """
    x, mask, window, dtype = widened(x, mask, window)
    if least is not None:
        # ε need not be a number of the dtype.
        least = in_range(least, x.dtype)
        x = jnp.where(x <= least, np.array(least, x.dtype), x)
    # A cell in no window has the cotangent 0, whose product with NaN is NaN.
    for present in (*window.covered(x.ndim), *([] if mask is None else [mask])):
        x = jnp.where(present, x, 0)
    if number is not None and number > float(jnp.finfo(x.dtype).max):
        # Not jnp.abs, whose derivative at 0 is 1. Windows of padding are below 0.
        return jnp.maximum(extremes(x * jnp.sign(x), None, window, lax.max, rule), 0).astype(dtype)
    # Exponents are in the range of the dtype, and so are their reciprocals.
    number = None if number is None else in_range(number, x.dtype)
    if p is not None:
        # NaN where it is not positive, by a product, whose derivative is NaN too.
        p, least = lax.expand_dims(p, range(x.ndim - p.ndim)), float(jnp.finfo(x.dtype).tiny)
        p = jnp.clip(p.astype(x.dtype) * jnp.where(p > 0, 1, jnp.nan).astype(x.dtype), least, 1 / least)
    n = None if include_pad is None else jnp.asarray(cells_counted(mask, window, include_pad, x.ndim), x.dtype)
    return with_rule(rule, partial(_values, window=window, number=number))(x, p, n).astype(dtype)


def _values(
    x: jax.Array, p: jax.Array | None, n: jax.Array | None, *, window: Window, number: float | None
) -> jax.Array:
    parts = in_turn(window) if _is_shared(p, window) and not _is_of_cells(number) else (window,)
    if len(parts) == 1:
        return _norm(window, number, x, p, n)
    for part in parts:
        x = _norm(part, number, x, p, None if n is None else jnp.asarray(part.cells, x.dtype))
    if n is None:
        return x
    share = jnp.where(x == 0, 1, window.cells / n)
    exponent: Any = number if p is None else p
    return x * jnp.exp(jnp.log(share) / exponent)


def _is_shared(p: jax.Array | None, window: Window) -> bool:
    """Whether the exponent is one number along the pooled axes."""
    return p is None or all(p.shape[axis] == 1 for axis in window.pooled_axes)


def _is_of_cells(number: float | None) -> bool:
    """Whether powers of cells are representable."""
    return number is not None and number <= 3


@custom_rule((0, 1))
def _norm(window: Window, number: float | None, x: jax.Array, p: jax.Array | None, n: jax.Array | None) -> jax.Array:
    """The norm, or the mean, of every window."""
    scale = None
    if number is not None and _is_of_cells(number):
        total = reduce_windows(_power(x, number), window, lax.add)
    else:
        scale = finite(reduce_windows(lax.stop_gradient(jnp.abs(x)), window, lax.max))
        scale = jnp.where(scale == 0, 1, scale)
        (total,) = sum_over_cells(_terms(number, _is_shared(p, window)).powers, (x,), (scale, *_given(p)), window)
    if n is not None:
        total = divide(total, jnp.broadcast_to(n, total.shape))
    is_zero = total == 0
    total = jnp.where(is_zero, 1, total)
    root = _power(total, 1 / number) if number is not None else jnp.exp(jnp.log(total) / cast(jax.Array, p))
    # A product, for an exponent of NaN.
    root *= jnp.where(is_zero, 0, 1)
    return root if scale is None else scale * root


@partial(_norm.defjvp, symbolic_zeros=True)
def _norm_jvp(window: Window, number: float | None, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (x, p, n), (x_dot, p_dot, _) = primals, tangents
    y = _norm(window, number, *primals)
    passes = (y != 0) & ~jnp.isinf(y)
    alive = jnp.where(passes, y, 1)
    inverse, dots = jnp.where(passes, 1 / alive, 0), []
    terms = _terms(number, _is_shared(p, window))
    if not is_symbolic_zero(x_dot):
        dots += sum_over_cells(terms.of_cells, (x, x_dot), (inverse, *_given(p)), window)
    if p is not None and not is_symbolic_zero(p_dot):
        (slopes,) = sum_over_cells(terms.of_exponents, (x,), (inverse, p), window)
        dots.append(alive / p * slopes * p_dot)
    y_dot = sum(dots[1:], dots[0])
    return y, y_dot if n is None else y_dot / n


def _given(p: jax.Array | None) -> Arrays:
    return () if p is None else (p,)


class _Terms(NamedTuple):
    """The terms of Σ |x|^p, and of what ẋ and ṗ add to ẏ."""

    powers: Term
    of_cells: Term
    of_exponents: Term


@cache
def _terms(number: float | None, is_shared: bool) -> _Terms:
    """The terms for an exponent; products, if it is one number along the pooled axes."""

    def exponent(p: Arrays) -> Any:
        return p[0] if number is None else number

    def powers(x: jax.Array, scale: jax.Array, *p: jax.Array) -> Arrays:
        return (_power(x / scale, exponent(p)),)

    def of_ratios(x: jax.Array, x_dot: jax.Array, inverse: jax.Array, *p: jax.Array) -> Arrays:
        return (_signed_power(_ratio(x, inverse), exponent(p) - 1) * x_dot,)

    def of_exponents(x: jax.Array, inverse: jax.Array, p: jax.Array) -> Arrays:
        ratio = _ratio(x, inverse)
        return (_power(ratio, p) * _log(ratio),)

    def slope(x: jax.Array, x_dot: jax.Array, _: jax.Array, *p: jax.Array) -> Arrays:
        return (_signed_power(jnp.where(jnp.isinf(x), 0, x), exponent(p) - 1) * x_dot,)

    def of_inverse(inverse: jax.Array, power: Any) -> jax.Array:
        return jnp.where(inverse == 0, 0, _power(inverse, power))

    def is_moderate(scale: jax.Array, *p: jax.Array) -> jax.Array:
        return jnp.abs(exponent(p) * _log(scale)) <= 40

    if not is_shared:
        return _Terms(powers, of_ratios, of_exponents)
    return _Terms(
        Product(
            powers,
            lambda x, scale, *p: (_power(x, exponent(p)),),
            lambda sums, x, scale, *p: (_power(scale, -exponent(p)) * sums[0],),
            lambda x, *windows: is_moderate(*windows),
        ),
        Product(
            of_ratios,
            slope,
            lambda sums, x, x_dot, inverse, *p: (of_inverse(inverse, exponent(p) - 1) * sums[0],),
            None if _is_of_cells(number) else lambda x, x_dot, *windows: is_moderate(*windows),
        ),
        Product(
            of_exponents,
            lambda x, inverse, p: (_power(x, p), _power(x, p) * _log(x)),
            lambda sums, x, inverse, p: (of_inverse(inverse, p) * (sums[1] + _log(inverse) * sums[0]),),
            # A difference of terms of order log y.
            lambda x, inverse, p: (jnp.abs(_log(inverse)) <= 4) & is_moderate(inverse, p),
        ),
    )


def _ratio(x: jax.Array, inverse: jax.Array) -> jax.Array:
    """The product; 0 where the inverse is, whatever x."""
    return jnp.where(inverse == 0, 0, x) * inverse


def _power(x: jax.Array, exponent: float | jax.Array) -> jax.Array:
    """|x|^exponent, and 0 with derivatives 0 at 0, unless they are finite."""
    if not isinstance(exponent, float):
        return _real_power(x, exponent, False)
    if exponent in range(65):
        return lax.integer_pow(x if exponent % 2 == 0 else jnp.abs(x), int(exponent))
    magnitude = jnp.where(x == 0, 1, jnp.abs(x))
    if exponent % 1 == 0.5 and abs(exponent) < 65:
        power = lax.integer_pow(magnitude, int(exponent // 1)) * jnp.sqrt(magnitude)
    else:
        power = jnp.exp(exponent * jnp.log(magnitude))
    return jnp.where(x == 0, 0, power)


def _signed_power(x: jax.Array, exponent: float | jax.Array) -> jax.Array:
    """sign(x)·|x|^exponent."""
    if not isinstance(exponent, float):
        return _real_power(x, exponent, True)
    if exponent % 2 == 1 and exponent <= 64:
        return lax.integer_pow(x, int(exponent))
    return jnp.sign(x) * _power(x, exponent)


@custom_rule((2,))
def _real_power(x: jax.Array, exponent: jax.Array, signed: bool) -> jax.Array:
    """|x|^q, or sign(x)·|x|^q, whose derivatives are q times the other of them; where they are infinite, they are 0."""
    power = jnp.exp(exponent * _log(x))
    return jnp.sign(x) * power if signed else jnp.where((x == 0) & (exponent != 0), 0, power)


@_real_power.defjvp
def _real_power_jvp(signed: bool, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (x, exponent), (x_dot, exponent_dot) = primals, tangents
    power = _real_power(x, exponent, signed)
    power_dot = exponent * _real_power(x, exponent - 1, not signed) * x_dot
    return power, power_dot + _log(x) * power * exponent_dot


def _log(x: jax.Array) -> jax.Array:
    return jnp.log(jnp.where(x == 0, 1, jnp.abs(x)))
