"""Which lowering evaluates which window: the only place with numbers that come from measurements."""

from typing import Any

from jax import lax

from jaxpool._window import Window


def reduction_order(window: Window) -> tuple[Window, ...]:
    return window.split()


def reduction(part: Window, op: Any) -> str:
    overlaps = all(axis.extent > axis.stride for axis in part.axes)
    if op is not lax.add and not overlaps:
        return "slices"
    return "reduce_window"


def selection_order(window: Window) -> tuple[Window, ...]:
    return (window,) if window.cells <= 4 else window.split()


def doubles(part: Window) -> bool:
    return len(part.axes) == 1 and part.cells > 7
