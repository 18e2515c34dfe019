"""What a pool keeps for its derivatives, and in which order it goes through the axes.

Both are chosen while tracing, for the platform that is named or that JAX runs on by default: a contract between the
values and the way back, which every platform can evaluate. The thresholds are in `choose` of each platform.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxpool._engine.cpu import choose as cpu_choose
from jaxpool._engine.platforms import default_platform
from jaxpool._engine.xla import choose as xla_choose
from jaxpool._geometry.window import Window


@dataclass(frozen=True)
class Format:
    """What a selection keeps for the way back: the offsets of the winners in groups of axes, or the cells themselves.

    Attributes:
        groups: Groups of axes, the last axes first, each with offsets of its own.
        keeps_cells: Whether the cells are kept and the winners found anew. Then there is one group.
    """

    groups: tuple[Window, ...]
    keeps_cells: bool = False


def selection_format(window: Window, dtype: Any, masked: bool) -> Format:
    """The format in which the winners of windows are kept, for the platform that is JAX's default."""
    platform = default_platform()
    if platform == "cpu":
        return Format(cpu_choose.winner_groups(window))
    if platform == "tpu" and not masked and xla_choose.keeps_cells(window, dtype):
        return Format((window,), keeps_cells=True)
    return Format(xla_choose.order(window))


def terms_order(window: Window) -> tuple[Window, ...]:
    """The windows that a norm is taken over in turn, the last one first: its format."""
    return (cpu_choose.terms_order if default_platform() == "cpu" else xla_choose.terms_order)(window)


def exponentials_order(window: Window) -> tuple[Window, ...]:
    """The windows that a mean or sum of exponentials is taken over in turn, the last one first: its format."""
    return (cpu_choose.exponentials_order if default_platform() == "cpu" else xla_choose.terms_order)(window)


def extends_by_zeros(window: Window, shape: Sequence[int]) -> bool:
    """Whether zeros in the padding that count are made real cells: on a CPU where windows run along the innermost axis.

    Branches at its ends, and those of what is padded for the way back, take up to twice the time there.
    """
    return default_platform() == "cpu" and window.axes[-1].axis == len(shape) - 1
