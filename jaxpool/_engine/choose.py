"""Which lowering evaluates which window: the only place with numbers that come from measurements."""

import math

from jax import lax

from jaxpool._engine.operations import Operation
from jaxpool._window import Window


def reduction_order(window: Window) -> tuple[Window, ...]:
    """The windows that a reduction applies one after the other: one axis at a time, the last one first."""
    return window.split()


def reduces_by_slices(part: Window, op: Operation) -> bool:
    """Whether shifted slices reduce this window, instead of `lax.reduce_window`.

    Not a matter of speed: where maxima or minima of windows that do not overlap come from `lax.reduce_window`, the
    CPU may drop NaN from 4096 elements on.
    """
    return op is not lax.add and all(axis.extent <= axis.stride for axis in part.axes)


def selection_order(window: Window) -> tuple[Window, ...]:
    """The windows that a selection applies one after the other: all axes at once up to 9 cells, else one by one."""
    return (window,) if window.cells <= 9 else window.split()


def selects_by_doubling(part: Window) -> bool:
    """Whether winners come from log2(kernel) comparisons of halves, instead of one comparison per cell."""
    return len(part.axes) == 1 and all(
        axis.kernel > max(7, 2 * math.log2(axis.kernel) * axis.stride) for axis in part.axes
    )


def routes_by_doubling(part: Window) -> bool:
    """Whether cotangents are routed back through log2(kernel) halvings, instead of one comparison per overlap."""
    return len(part.axes) == 1 and all(axis.extent > 7 * axis.stride for axis in part.axes)
