"""The pooling of `torch.nn.functional` on JAX arrays, evaluated by jaxpool; PyTorch is not imported.

Names, the order of arguments, defaults, arrays with a batch, (N, C, …), and without, (C, …), output shapes, values,
indices and gradients are PyTorch's, to rounding: `import jaxpool.compat.torch as F` is the line that changes. What
differs:

- Indices are int32, and int64 under `jax_enable_x64`.
- NaN wins in its window in both. If there are several, the first wins here, as in NumPy, and the last in PyTorch.
- `lp_pool` uses magnitudes, as a norm does. PyTorch uses powers of the signed number: for p = 3 the norm of -3 and 2 is
  NaN there and 3.27 here; for p = 1 it is -1 there and 5 here. A cell of 0 has derivative 0 for every p; in PyTorch it
  is 1 for p = 1, and NaN or infinite for p < 1. A norm overflows or vanishes only if it is itself too large or small.
  An infinite norm passes no gradient, and NaN is that of all cells of its window; in PyTorch both depend on p.
- Averages of integers are float32. PyTorch truncates those of int64, and rejects other integers.
- `max_unpool` leaves out values whose index is out of range, which PyTorch rejects. Without `output_size` an index past
  the end, as after an axis of odd size, is an error here, too, unless it is traced. If several values have the same
  index, the last is written and only it gets a gradient; PyTorch writes any of them, and all get one.
- `fractional_max_pool` needs `_random_samples`, of any float dtype, since JAX draws no numbers without a key: floats in
  [0, 1) of shape (N, C, number of pooled axes), with N = 1 where input has none, as drawn by `jax.random.uniform`.
  PyTorch places windows in the dtype of the samples, which moves some by a cell if that has 16 bits.
- Not accepted are windows that hold only padding, which dilation makes possible and which are -inf in PyTorch,
  `output_size=0`, `output_ratio=1`, and norms of p ≤ 0.
- Errors are TypeError and ValueError. Every function accepts bool, integers, 16-bit floats and, for averages, complex
  numbers; C may be 0; `output_ratio` may be a single float; `norm_type` may be an array, which can be learnt.

As in PyTorch, the norm of a window that `ceil_mode` cuts short is scaled to a whole window, and padding by more than
half of `kernel_size` is an error. The functions that PyTorch has for `return_indices=True`, such as
`max_pool2d_with_indices`, are left out.
"""

from jaxpool.compat.torch._adaptive import adaptive_avg_pool1d as adaptive_avg_pool1d
from jaxpool.compat.torch._adaptive import adaptive_avg_pool2d as adaptive_avg_pool2d
from jaxpool.compat.torch._adaptive import adaptive_avg_pool3d as adaptive_avg_pool3d
from jaxpool.compat.torch._adaptive import adaptive_max_pool1d as adaptive_max_pool1d
from jaxpool.compat.torch._adaptive import adaptive_max_pool2d as adaptive_max_pool2d
from jaxpool.compat.torch._adaptive import adaptive_max_pool3d as adaptive_max_pool3d
from jaxpool.compat.torch._average import avg_pool1d as avg_pool1d
from jaxpool.compat.torch._average import avg_pool2d as avg_pool2d
from jaxpool.compat.torch._average import avg_pool3d as avg_pool3d
from jaxpool.compat.torch._fractional import fractional_max_pool2d as fractional_max_pool2d
from jaxpool.compat.torch._fractional import fractional_max_pool3d as fractional_max_pool3d
from jaxpool.compat.torch._lp import lp_pool1d as lp_pool1d
from jaxpool.compat.torch._lp import lp_pool2d as lp_pool2d
from jaxpool.compat.torch._lp import lp_pool3d as lp_pool3d
from jaxpool.compat.torch._max import max_pool1d as max_pool1d
from jaxpool.compat.torch._max import max_pool2d as max_pool2d
from jaxpool.compat.torch._max import max_pool3d as max_pool3d
from jaxpool.compat.torch._unpool import max_unpool1d as max_unpool1d
from jaxpool.compat.torch._unpool import max_unpool2d as max_unpool2d
from jaxpool.compat.torch._unpool import max_unpool3d as max_unpool3d
