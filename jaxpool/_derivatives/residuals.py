"""In which order weighted pools take the axes, and whether they take long windows in pieces.

Both are chosen while tracing, for the named platform or JAX's default one. They are a contract between the forward and
the backward pass that every platform can evaluate. The thresholds are in each platform's `choose`.
"""

from collections.abc import Sequence

from jaxpool._engine.cpu import choose as cpu_choose
from jaxpool._engine.platforms import default_platform
from jaxpool._engine.xla import choose as xla_choose
from jaxpool._geometry.window import Window


def terms_order(window: Window) -> tuple[Window, ...]:
    """The format of a norm: the windows that it is taken over in turn, the last one first."""
    return (cpu_choose.terms_order if default_platform() == "cpu" else xla_choose.terms_order)(window)


def exponentials_order(window: Window) -> tuple[Window, ...]:
    """The format of a mean or sum of exponentials: the windows that it is taken over in turn, the last one first."""
    return (cpu_choose.exponentials_order if default_platform() == "cpu" else xla_choose.terms_order)(window)


def is_in_pieces(part: Window) -> bool:
    """The format of a long window along one axis: whether weighted pools are taken over pieces of it."""
    return (cpu_choose.terms_in_pieces if default_platform() == "cpu" else xla_choose.terms_in_pieces)(part)


def extends_by_zeros(window: Window, shape: Sequence[int]) -> bool:
    """Whether zeros in the padding become real cells: on a CPU, if windows run along the innermost axis.

    There the branches at its ends, and at those of arrays padded for the backward pass, take up to twice as long.
    """
    return default_platform() == "cpu" and window.axes[-1].axis == len(shape) - 1
