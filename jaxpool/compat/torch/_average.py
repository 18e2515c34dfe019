"""`avg_pool1d`, `avg_pool2d` and `avg_pool3d` of `torch.nn.functional`: the average of every window."""

from __future__ import annotations

import jax
from jax.typing import ArrayLike

from jaxpool._average import averages
from jaxpool._checks import check_divisor, check_flag
from jaxpool._sizes import Sizes
from jaxpool.compat.torch._arguments import window_call


def avg_pool1d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> jax.Array:
    """As `torch.nn.functional.avg_pool1d`; see `avg_pool2d`. Differs in the same ways.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.avg_pool1d(jnp.array([[1.0, 2.0, 3.0, 4.0]]), 3, 1, 1, count_include_pad=False)
        Array([[1.5, 2. , 3. , 3.5]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, 1, ceil_mode)
    return _averages("avg_pool1d", 1, input, sizes, count_include_pad, None)


def avg_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: float | None = None,
) -> jax.Array:
    """As `torch.nn.functional.avg_pool2d`; see `jaxpool.avg_pool`.

    Differs in averages of integers (float32), dtypes (any), channels (may be 0) and errors.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.avg_pool2d(jnp.arange(16.0).reshape(1, 1, 4, 4), 2)[0, 0]
        Array([[ 2.5,  4.5],
               [10.5, 12.5]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, 1, ceil_mode)
    return _averages("avg_pool2d", 2, input, sizes, count_include_pad, divisor_override)


def avg_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: float | None = None,
) -> jax.Array:
    """As `torch.nn.functional.avg_pool3d`; see `avg_pool2d`. Differs in the same ways.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.avg_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 2, divisor_override=4)
        Array([[[[7.]]]], dtype=float32)
    """
    sizes = (kernel_size, stride, padding, 1, ceil_mode)
    return _averages("avg_pool3d", 3, input, sizes, count_include_pad, divisor_override)


def _averages(
    function: str,
    rank: int,
    input: ArrayLike,
    sizes: tuple[Sizes, Sizes | None, Sizes, Sizes, bool],
    count_include_pad: bool,
    divisor_override: float | None,
) -> jax.Array:
    include_pad = check_flag(function, "count_include_pad", count_include_pad)
    divisor = check_divisor(function, divisor_override)
    return averages(*window_call(function, input, rank, *sizes, complex_allowed=True), include_pad, divisor, "jvp")
