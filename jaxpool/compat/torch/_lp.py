"""`lp_pool1d`, `lp_pool2d` and `lp_pool3d` of `torch.nn.functional`: the norm of every window."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxpool._checks import check_parameter
from jaxpool._engine.operations import accumulation_dtype
from jaxpool._norms import norms
from jaxpool._sizes import Sizes
from jaxpool.compat.torch._arguments import per_axis, window_call


def lp_pool1d(
    input: ArrayLike,
    norm_type: float | ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> jax.Array:
    """As `torch.nn.functional.lp_pool1d`; see `lp_pool2d`. Differs in the same ways.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.lp_pool1d(jnp.array([[3.0, -4.0, 0.0, 2.0]]), 2, 2)
        Array([[5., 2.]], dtype=float32)
    """
    return _norms("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: ArrayLike,
    norm_type: float | ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> jax.Array:
    """As `torch.nn.functional.lp_pool2d`; see `jaxpool.lp_pool`.

    Differs in signs (norms are of magnitudes), cells of 0 (derivative 0 for every p), `norm_type` (may be a learnt
    array; p ≤ 0 is refused), dtypes (any real one), channels (may be 0) and errors.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.lp_pool2d(jnp.ones((1, 4, 4)), 2, 2)
        Array([[[2., 2.],
                [2., 2.]]], dtype=float32)
    """
    return _norms("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: ArrayLike,
    norm_type: float | ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> jax.Array:
    """As `torch.nn.functional.lp_pool3d`; see `lp_pool2d`. Differs in the same ways.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.lp_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 1, 2)
        Array([[[[28.]]]], dtype=float32)
    """
    return _norms("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


def _norms(
    function: str,
    rank: int,
    input: ArrayLike,
    norm_type: float | ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None,
    ceil_mode: bool,
) -> jax.Array:
    array, _, window = window_call(function, input, rank, kernel_size, stride, 0, 1, ceil_mode)
    fix = "use 1 for the sum of magnitudes, 2 for the Euclidean norm, float('inf') for the largest magnitude"
    shape = window.output_shape(array.shape)
    p, number = check_parameter(function, "norm_type", norm_type, shape, lambda p: p > 0, "positive", fix)
    cells = math.prod(per_axis(function, "kernel_size", kernel_size, rank))
    if window.is_full and window.cells == cells:
        return norms(array, None, p, window, number, "jvp")
    # PyTorch treats the average of the powers present as that of a whole window.
    dtype = array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else np.dtype(np.float32)
    values = norms(array.astype(accumulation_dtype(dtype)), None, p, window, number, "jvp")
    exponent = 1 / jnp.asarray(number if p is None else p, values.dtype)
    scale = cells / jnp.asarray(window.counts(array.ndim, padding=False), values.dtype)
    return (values * scale**exponent).astype(dtype)
