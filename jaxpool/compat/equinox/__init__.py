"""The pooling layers of `equinox.nn`, evaluated by jaxpool; Equinox is not imported.

Arguments, defaults (a stride of 1 among them), layouts, bins, output shapes and dtypes are Equinox's, and so are values
and gradients, to rounding. They differ mostly where Equinox is wrong or fails, on the CPU at least:

- Windows without overlap drop NaN on arrays of 4096 elements or more, and adaptive maxima may. Here NaN wins.
- Padding of -inf ties with cells of -inf and can take their gradient, and forward mode disagrees with reverse mode.
  Here padding takes no part.
- Adaptive maxima share the gradient among ties. Here the first cell in row-major order gets it, as in other maxima.
- float16 and bfloat16 are summed in their own dtype: the average of 961 ones is 0.27. Here they are summed in float32.
- Sums of integers wrap: the average of uint8 200s is 8. Here it is 200, as cells become floats before they are added,
  which rounds integers beyond 2²⁴. bool has averages too.
- Division multiplies by a rounded reciprocal: the average of seven 3s is 3.0000002. Here it is 3.
- `use_ceil` fails where it enlarges padding beyond the kernel. Here it works.
- Not accepted are complex numbers under maxima, since they have no order, floats of 8 bits and integers of 4, and
  symbolic sizes along pooled axes.
- Errors are TypeError and ValueError, and a layer that fits no array raises when it is created.
- The layers are dataclasses, not Equinox modules, but can be used wherever those can: in a model, in
  `eqx.nn.Sequential`, under `eqx.filter_jit`, in `eqx.tree_deserialise_leaves` of a file that Equinox's have written.
  To JAX they are pytrees, equal if their sizes are equal, and the only leaf is `init`, a number that nothing reads;
  Equinox's have a function, too.

As in Equinox, averages count zeros under `use_ceil`. A window that holds only padding is -inf under maxima and 0 under
averages, and passes no gradient. A window larger than the array gives an empty output. `Pool` and `AdaptivePool` are
left out: they accept any reduction, so no derivative rule could be given.
"""

from jaxpool.compat.equinox._adaptive import AdaptiveAvgPool1d as AdaptiveAvgPool1d
from jaxpool.compat.equinox._adaptive import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from jaxpool.compat.equinox._adaptive import AdaptiveAvgPool3d as AdaptiveAvgPool3d
from jaxpool.compat.equinox._adaptive import AdaptiveMaxPool1d as AdaptiveMaxPool1d
from jaxpool.compat.equinox._adaptive import AdaptiveMaxPool2d as AdaptiveMaxPool2d
from jaxpool.compat.equinox._adaptive import AdaptiveMaxPool3d as AdaptiveMaxPool3d
from jaxpool.compat.equinox._windows import AvgPool1d as AvgPool1d
from jaxpool.compat.equinox._windows import AvgPool2d as AvgPool2d
from jaxpool.compat.equinox._windows import AvgPool3d as AvgPool3d
from jaxpool.compat.equinox._windows import MaxPool1d as MaxPool1d
from jaxpool.compat.equinox._windows import MaxPool2d as MaxPool2d
from jaxpool.compat.equinox._windows import MaxPool3d as MaxPool3d
