"""The blend of the maximum and the average of every window, with a number or a learnt array for the share."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._average import averages
from jaxpool._call import core, sliding, widened
from jaxpool._checks import Rule, check_flag, check_parameter
from jaxpool._extremes import extremes
from jaxpool._jax.stages import separate_term
from jaxpool._kernels import KernelSize
from jaxpool._sizes import Axes, Padding, Sizes
from jaxpool._window import Window


def mixed_pool(
    x: ArrayLike,
    alpha: float | ArrayLike,
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
    """Mixed pooling: a blend of the maximum and the average of every window.

    Formula: y[o] = α·max_pool(x)[o] + (1 - α)·avg_pool(x)[o], with the same windows in both.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64.
        alpha: Share α of the maximum, dimensionless: 1 for the maximum, 0 for the average. A finite number, or a
            learnable array that broadcasts to the output (one per channel, say). Traced values are not checked.
        kernel_size, stride, padding, dilation, ceil_mode: As in `max_pool`.
        count_include_pad: Whether padded cells count in the divisor of the average; they are never the maximum.
        axis, where, rule: As in `max_pool`.

    Returns:
        Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + 1 without
        `ceil_mode`, and x's dtype (integers and bool: float32). 16-bit floats are computed in float32 and rounded once.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, `alpha` is not finite, `rule` is unknown, or a window holds only padding.

    Derivative:
        ∂y[o]/∂x[i] = α·[i is the winner of window o] + (1 - α)/d[o] with the divisor d[o] of the average, and
        ∂y/∂α = max - average. Ties: the first winner in row-major order takes the share of the maximum. Zeros are
        ordinary. For α = 0 an infinite maximum takes no part, nor does an infinite average for α = 1. NaN stays in its
        windows. A window that `where` empties is 0 with derivative 0.

    Example:
        >>> x = jnp.array([1.0, 2.0, 3.0, 6.0])
        >>> [jaxpool.mixed_pool(x, alpha, (4,)).item() for alpha in (0, 0.5, 1)]
        [3.0, 4.5, 6.0]

    Source: Lee, Gallagher and Tu, "Generalizing pooling functions in convolutional neural networks: mixed, gated, and
    tree", AISTATS 2016.
    """
    include_pad = check_flag("mixed_pool", "count_include_pad", count_include_pad)
    sizes = (kernel_size, stride, padding, dilation, ceil_mode, axis)
    array, mask, window = sliding("mixed_pool", x, sizes, where, rule, only_padding="use less padding")
    shape = window.output_shape(array.shape)
    fix = "use 1 for the maximum, 0 for the average"
    shares, number = check_parameter("mixed_pool", "alpha", alpha, shape, np.isfinite, "finite", fix)
    return _blends(array, mask, shares, window, number, include_pad, rule)


# y is linear in α, in the maxima and in the averages: ∂y/∂α = max - avg, and the rest follows from the rules of the
# two. An infinite one with the share 0 would add 0·inf. So if α is the number 0 or 1, the other term is left out, and
# where an array is 0 or 1, the other term is set to 0 if it is not finite.


@core
def _blends(
    x: jax.Array,
    mask: jax.Array | None,
    alpha: jax.Array | None,
    window: Window,
    number: float | None,
    include_pad: bool,
    rule: str,
) -> jax.Array:
    x, mask, window, dtype = widened(x, mask, window)
    alpha = None if alpha is None else lax.expand_dims(alpha.astype(x.dtype), range(x.ndim - alpha.ndim))

    def weigh(share: float | jax.Array, values: jax.Array) -> jax.Array:
        if alpha is not None:
            values = jnp.where((share == 0) & ~jnp.isfinite(values), 0, values)
        return share * values

    of_maximum = number if alpha is None else alpha
    assert of_maximum is not None
    terms = []
    if number != 0:
        terms.append(separate_term(weigh(of_maximum, extremes(x, mask, window, lax.max, rule, dtype))))
    if number != 1:
        terms.append(weigh(1 - of_maximum, averages(x, mask, window, include_pad, None, rule)))
    return sum(terms[1:], terms[0]).astype(dtype)
