"""Stand-ins for the pooling of frameworks: a module for each, with its functions, their arguments and their defaults.

None of them imports its framework, and `import jaxpool` imports each of them when it is first used. A model takes its
pools from here, and nothing else in it changes: from `jaxpool.compat.flax` for `flax.nnx` and `flax.linen`, from
`jaxpool.compat.haiku` for `haiku`, from `jaxpool.compat.equinox` for `equinox.nn`, from `jaxpool.compat.keras` for
`keras.ops`, from `jaxpool.compat.torch` for `torch.nn.functional`. Functions that accept an arbitrary reduction, such
as Flax's `pool`, are left out on purpose: no derivative rule could be given for them.
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
