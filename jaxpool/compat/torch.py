"""The pooling of `torch.nn.functional` on JAX arrays, evaluated by jaxpool; PyTorch is not imported.

Names, the order of arguments, defaults, arrays with a batch, (N, C, …), and without, (C, …), output shapes, values,
indices and gradients are PyTorch's, to rounding: `import jaxpool.compat.torch as F` is the line that changes. What
differs:

- Indices are int32, and int64 under `jax_enable_x64`.
- NaN wins in its window in both. If there are several, the first wins here, as in NumPy, and the last in PyTorch.
- `lp_pool` uses magnitudes, as a norm does. PyTorch uses powers of the signed number: for p = 3 the norm of -3 and 2 is
  NaN there and 3.27 here; for p = 1 it is -1 there and 5 here. A cell of 0 has derivative 0 for every p; in PyTorch it
  is 1 for p = 1, and NaN or infinite for p < 1. A norm overflows or vanishes only if it is itself too large or small.
  An infinite norm passes no gradient, and in a window with NaN all cells have the gradient NaN; in PyTorch both depend
  on p.
- Averages of integers are float32. PyTorch truncates those of int64, and rejects other integers.
- `max_unpool` leaves out values whose index is out of range, which PyTorch rejects. Without `output_size` an index past
  the end, as after an axis of odd size, is an error here, too, unless it is traced. If several values have the same
  index, the last is written and only it gets a gradient; PyTorch writes any of them, and all get one.
- `fractional_max_pool` needs `_random_samples`, of any float dtype, since JAX draws no numbers without a key: floats in
  [0, 1) of shape (N, C, number of pooled axes), with N = 1 where input has none, as drawn by `jax.random.uniform`.
  PyTorch places windows in the dtype of the samples, which moves some by a cell if that has 16 bits.
- Some arguments are not accepted: windows that hold only padding, which dilation makes possible and which are -inf in
  PyTorch, `output_size=0`, `output_ratio=1`, and norms of p ≤ 0.
- Errors are TypeError and ValueError. Every function accepts bool, integers, 16-bit floats and, for averages, complex
  numbers; C may be 0; `output_ratio` may be a single float; `norm_type` may be a learnable array.

As in PyTorch, the norm of a window that `ceil_mode` cuts short is scaled to a whole window, and padding by more than
half of `kernel_size` is an error. The functions that PyTorch has for `return_indices=True`, such as
`max_pool2d_with_indices`, are left out. What depends on `return_indices` is of type Any, as it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.typing import ArrayLike

from jaxpool._sizes import OutputSizes, Ratios, Sizes
from jaxpool._words import answer_names
from jaxpool.compat._torch import averages, bins, maxima, maxima_at_random, norms, unpooled, windows

answer_names(__name__)


def max_pool1d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """As `torch.nn.functional.max_pool1d`; see `max_pool2d`. Differs in the same ways."""
    return maxima(windows("max_pool1d", input, (kernel_size, stride, padding, ceil_mode), dilation), return_indices)


def max_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """As `torch.nn.functional.max_pool2d`; see `jaxpool.max_pool`.

    Differs in indices (int32 unless `jax_enable_x64`), NaN (the first of several wins), windows of only padding
    (refused), dtypes (any real one), channels (may be 0) and errors.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.max_pool2d(jnp.arange(16.0).reshape(1, 1, 4, 4), 3, 2, 1)[0, 0]
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
    return maxima(windows("max_pool2d", input, (kernel_size, stride, padding, ceil_mode), dilation), return_indices)


def max_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """As `torch.nn.functional.max_pool3d`; see `max_pool2d`. Differs in the same ways."""
    return maxima(windows("max_pool3d", input, (kernel_size, stride, padding, ceil_mode), dilation), return_indices)


def avg_pool1d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> jax.Array:
    """As `torch.nn.functional.avg_pool1d`; see `avg_pool2d`. Differs in the same ways."""
    call = windows("avg_pool1d", input, (kernel_size, stride, padding, ceil_mode), complex_allowed=True)
    return averages(call, count_include_pad, None)


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
    call = windows("avg_pool2d", input, (kernel_size, stride, padding, ceil_mode), complex_allowed=True)
    return averages(call, count_include_pad, divisor_override)


def avg_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: float | None = None,
) -> jax.Array:
    """As `torch.nn.functional.avg_pool3d`; see `avg_pool2d`. Differs in the same ways."""
    call = windows("avg_pool3d", input, (kernel_size, stride, padding, ceil_mode), complex_allowed=True)
    return averages(call, count_include_pad, divisor_override)


def lp_pool1d(
    input: ArrayLike, norm_type: ArrayLike, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> jax.Array:
    """As `torch.nn.functional.lp_pool1d`; see `lp_pool2d`. Differs in the same ways."""
    return norms(windows("lp_pool1d", input, (kernel_size, stride, 0, ceil_mode)), norm_type, kernel_size)


def lp_pool2d(
    input: ArrayLike, norm_type: ArrayLike, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> jax.Array:
    """As `torch.nn.functional.lp_pool2d`; see `jaxpool.lp_pool`.

    Differs in signs (norms are of magnitudes), cells of 0 (derivative 0 for every p), `norm_type` (may be a learnable
    array; p ≤ 0 is refused), dtypes (any real one), channels (may be 0) and errors.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.lp_pool2d(jnp.ones((1, 4, 4)), 2, 2)
        Array([[[2., 2.],
                [2., 2.]]], dtype=float32)
    """
    return norms(windows("lp_pool2d", input, (kernel_size, stride, 0, ceil_mode)), norm_type, kernel_size)


def lp_pool3d(
    input: ArrayLike, norm_type: ArrayLike, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> jax.Array:
    """As `torch.nn.functional.lp_pool3d`; see `lp_pool2d`. Differs in the same ways."""
    return norms(windows("lp_pool3d", input, (kernel_size, stride, 0, ceil_mode)), norm_type, kernel_size)


def adaptive_max_pool1d(input: ArrayLike, output_size: OutputSizes, return_indices: bool = False) -> Any:
    """As `torch.nn.functional.adaptive_max_pool1d`; see `adaptive_max_pool2d`. Differs in the same ways."""
    return maxima(bins("adaptive_max_pool1d", input, output_size), return_indices)


def adaptive_max_pool2d(input: ArrayLike, output_size: OutputSizes, return_indices: bool = False) -> Any:
    """As `torch.nn.functional.adaptive_max_pool2d`; see `jaxpool.adaptive_max_pool`.

    Differs in indices (int32 unless `jax_enable_x64`), NaN (the first of several wins), `output_size=0` (refused),
    dtypes (any real one), channels (may be 0) and errors.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.adaptive_max_pool2d(jnp.arange(16.0).reshape(1, 1, 4, 4), (2, None))[0, 0]
        Array([[ 4.,  5.,  6.,  7.],
               [12., 13., 14., 15.]], dtype=float32)
    """
    return maxima(bins("adaptive_max_pool2d", input, output_size), return_indices)


def adaptive_max_pool3d(input: ArrayLike, output_size: OutputSizes, return_indices: bool = False) -> Any:
    """As `torch.nn.functional.adaptive_max_pool3d`; see `adaptive_max_pool2d`. Differs in the same ways."""
    return maxima(bins("adaptive_max_pool3d", input, output_size), return_indices)


def adaptive_avg_pool1d(input: ArrayLike, output_size: OutputSizes) -> jax.Array:
    """As `torch.nn.functional.adaptive_avg_pool1d`; see `adaptive_avg_pool2d`. Differs in the same ways."""
    return averages(bins("adaptive_avg_pool1d", input, output_size, complex_allowed=True), True, None)


def adaptive_avg_pool2d(input: ArrayLike, output_size: OutputSizes) -> jax.Array:
    """As `torch.nn.functional.adaptive_avg_pool2d`; see `jaxpool.adaptive_avg_pool`.

    Differs in averages of integers (float32), `output_size=0` (refused), dtypes (any), channels (may be 0) and errors.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> F.adaptive_avg_pool2d(jnp.arange(16.0).reshape(1, 1, 4, 4), (2, 1))[0, 0]
        Array([[ 3.5],
               [11.5]], dtype=float32)
    """
    return averages(bins("adaptive_avg_pool2d", input, output_size, complex_allowed=True), True, None)


def adaptive_avg_pool3d(input: ArrayLike, output_size: OutputSizes) -> jax.Array:
    """As `torch.nn.functional.adaptive_avg_pool3d`; see `adaptive_avg_pool2d`. Differs in the same ways."""
    return averages(bins("adaptive_avg_pool3d", input, output_size, complex_allowed=True), True, None)


def max_unpool1d(
    input: ArrayLike,
    indices: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> jax.Array:
    """As `torch.nn.functional.max_unpool1d`; see `max_unpool2d`. Differs in the same ways."""
    return unpooled("max_unpool1d", input, indices, (kernel_size, stride, padding), output_size)


def max_unpool2d(
    input: ArrayLike,
    indices: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> jax.Array:
    """As `torch.nn.functional.max_unpool2d`; see `jaxpool.max_unpool`.

    Differs in indices out of range (write nothing if traced, negative or beyond `output_size`), repeated indices (the
    last value is written, and alone has a gradient), dtypes (any), channels (may be 0) and errors.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> x = jnp.arange(9.0).reshape(1, 3, 3)
        >>> values, indices = F.max_pool2d(x, 2, return_indices=True)
        >>> F.max_unpool2d(values, indices, 2, output_size=(3, 3))
        Array([[[0., 0., 0.],
                [0., 4., 0.],
                [0., 0., 0.]]], dtype=float32)
    """
    return unpooled("max_unpool2d", input, indices, (kernel_size, stride, padding), output_size)


def max_unpool3d(
    input: ArrayLike,
    indices: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> jax.Array:
    """As `torch.nn.functional.max_unpool3d`; see `max_unpool2d`. Differs in the same ways."""
    return unpooled("max_unpool3d", input, indices, (kernel_size, stride, padding), output_size)


def fractional_max_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: ArrayLike | None = None,
) -> Any:
    """As `torch.nn.functional.fractional_max_pool2d`; see `jaxpool.fractional_max_pool`.

    Differs in indices (int32 unless `jax_enable_x64`), NaN (the first of several wins), `_random_samples` (required:
    (N, C, pooled axes) floats in [0, 1)), `output_ratio` (may be one float), dtypes (any real one), channels (may be 0)
    and errors.

    Example:
        >>> import jaxpool.compat.torch as F
        >>> x, samples = jnp.arange(16.0).reshape(1, 1, 4, 4), jnp.full((1, 1, 2), 0.5)
        >>> F.fractional_max_pool2d(x, 2, (2, 3), _random_samples=samples)[0, 0]
        Array([[ 5.,  6.,  7.],
               [13., 14., 15.]], dtype=float32)
    """
    given = (kernel_size, output_size, output_ratio)
    return maxima_at_random("fractional_max_pool2d", input, given, return_indices, _random_samples)


def fractional_max_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: ArrayLike | None = None,
) -> Any:
    """As `torch.nn.functional.fractional_max_pool3d`; see `fractional_max_pool2d`. Differs in the same ways."""
    given = (kernel_size, output_size, output_ratio)
    return maxima_at_random("fractional_max_pool3d", input, given, return_indices, _random_samples)
