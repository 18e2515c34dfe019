"""Stand-ins for the pooling of frameworks: a module for each, with its functions, their arguments and their defaults.

None of them imports its framework, and `import jaxpool` imports each of them when it is first used. A model takes its
pools from here, and nothing else in it changes: from `jaxpool.compat.flax` for `flax.nnx` and `flax.linen`, from
`jaxpool.compat.haiku` for `haiku`, from `jaxpool.compat.equinox` for `equinox.nn`, from `jaxpool.compat.keras` for
`keras.ops`, from `jaxpool.compat.torch` for `torch.nn.functional`. Functions that accept an arbitrary reduction, such
as Flax's `pool`, are left out on purpose: no derivative rule could be given for them.

Flax, Haiku, Equinox and Keras have faults, on the CPU at least, that these do not have:

- Windows without overlap drop NaN on arrays of 4096 elements or more. Here NaN wins in its window.
- Padding of -inf ties with cells of -inf (under minima +inf does) and can take their gradient, and forward mode
  disagrees with reverse mode. Here padding takes no part.
- float16 and bfloat16 are summed in their own dtype: the average of 961 ones is 0.27. Here they are summed in float32.
- Sums of integers wrap: the average of uint8 200s is 8. Here it is 200, as cells become floats before they are added,
  which rounds integers beyond 2²⁴. bool has averages too.
- Division multiplies by a rounded reciprocal: the average of seven 3s is 3.0000002. Here it is 3.

Complex numbers under maxima are not accepted, since they have no order, nor are 8-bit floats, 4-bit integers and
symbolic sizes along pooled axes.
"""

import typing as _typing

from jaxpool._words import answer_names as _answer_names

if _typing.TYPE_CHECKING:
    from jaxpool.compat import equinox as equinox
    from jaxpool.compat import flax as flax
    from jaxpool.compat import haiku as haiku
    from jaxpool.compat import keras as keras
    from jaxpool.compat import torch as torch

_answer_names(__name__, "equinox", "flax", "haiku", "keras", "torch")
