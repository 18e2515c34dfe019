"""What all parts share: the window that slides over the picture, rules of derivatives, and mistakes of users."""

from dataclasses import dataclass
from typing import Literal

Rule = Literal["jvp", "vjp"]


class Mistake(Exception):
    """Something the user can fix, in one line that says how."""


@dataclass(frozen=True)
class Size:
    """The square window that slides over the picture: `kernel` cells a side, moved by `stride` cells."""

    kernel: int
    stride: int

    def bins(self, length: int) -> int:
        """The number of bins along an axis: one less than its windows, which rarely divides the axis."""
        return max(1, (length - self.kernel) // self.stride)
