"""What a pool keeps for its derivatives, and in which order it takes the axes.

Both are chosen while tracing, for the named platform or JAX's default one. They are a contract between the forward and
the backward pass that every platform can evaluate. The thresholds are in each platform's `choose`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxpool._engine.cpu import choose as cpu_choose
from jaxpool._engine.cpu.choose_selection import winner_groups
from jaxpool._engine.platforms import default_platform
from jaxpool._engine.xla import choose as xla_choose
from jaxpool._geometry.window import Window


@dataclass(frozen=True)
class Format:
    """What a selection keeps for its backward pass: the winners' offsets in groups of axes, or the cells themselves.

    Attributes:
        groups: Groups of axes, the last axes first, each with separate offsets.
        keeps_cells: Whether the cells are kept and the winners found again. Then there is one group.
    """

    groups: tuple[Window, ...]
    keeps_cells: bool = False


def selection_format(window: Window, dtype: Any, masked: bool) -> Format:
    """The format in which the winners of windows are kept, for the named platform or JAX's default one."""
    platform = default_platform()
    if platform == "cpu":
        return Format(winner_groups(window))
    if platform == "tpu" and not masked and xla_choose.keeps_cells(window, dtype):
        return Format((window,), keeps_cells=True)
    return Format(xla_choose.order(window))


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
