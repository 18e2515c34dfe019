"""In which order weighted pools take the axes, and whether they take long windows in pieces.

Both are chosen while tracing, for the named platform or JAX's default one. They are a contract between the forward and
the backward pass that every platform can evaluate. Thresholds for CPUs are from measurements.
"""

import math
from collections.abc import Sequence

from jaxpool._engine import gpu
from jaxpool._engine.platforms import default_platform
from jaxpool._geometry.bins import has_bins
from jaxpool._geometry.window import Window


def terms_order(window: Window) -> tuple[Window, ...]:
    """The format of a norm: the windows that it is taken over in turn, the last one first.

    On a CPU, up to 9 cells with little overlap, all axes at once are 2 to 4 times faster, as every further axis needs
    logarithms.
    """
    if default_platform() != "cpu":
        return exponentials_order(window)
    overlaps = window.cells / math.prod(axis.stride for axis in window.axes)
    return (window,) if window.cells <= 9 and overlaps <= 4 else window.split()


def exponentials_order(window: Window) -> tuple[Window, ...]:
    """The format of a mean or sum of exponentials: the windows that it is taken over in turn, the last one first.

    Up to 16 cells all axes are taken at once: on a CPU gradients take 0.4 to 1 times as long, as every axis needs its
    own sums.
    """
    return (window,) if window.cells <= gpu.MOST_TERMS else window.split()


def is_in_pieces(part: Window) -> bool:
    """The format of a long window along one axis: whether weighted pools are taken over pieces of it.

    Up to 32 cells that is no faster on a CPU; beyond 64 the program would be long and slow to compile.
    """
    (axis, *others) = part.axes
    on_cpu = default_platform() == "cpu"
    long = axis.kernel > 64 or (on_cpu and axis.kernel > max(32, 8 * axis.stride))
    return long and not (others or part.tiles or has_bins(part))


def extends_by_zeros(window: Window, shape: Sequence[int]) -> bool:
    """Whether zeros in the padding become real cells: on a CPU, if windows run along the innermost axis.

    There the branches at its ends, and at those of arrays padded for the backward pass, take up to twice as long.
    """
    return default_platform() == "cpu" and window.axes[-1].axis == len(shape) - 1
