"""What is measured: ordinary windows over ordinary activations, each in both layouts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A square window over (batch, channels, size, size), or the same with the channels last."""

    batch: int
    channels: int
    size: int
    kernel: int
    stride: int
    padding: int
    channels_last: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the input."""
        if self.channels_last:
            return (self.batch, self.size, self.size, self.channels)
        return (self.batch, self.channels, self.size, self.size)

    @property
    def axis(self) -> tuple[int, int]:
        """The pooled axes."""
        return (1, 2) if self.channels_last else (2, 3)

    @property
    def name(self) -> str:
        """A short description for tables."""
        layout = "channels last" if self.channels_last else "channels first"
        shape = "×".join(map(str, self.shape))
        return f"{self.kernel}×{self.kernel} / {self.stride} + {self.padding}, {shape}, {layout}"


_GEOMETRIES = (
    (8, 64, 56, 2, 2, 0),
    (8, 64, 56, 3, 2, 1),
    (8, 64, 56, 3, 1, 1),
    (8, 64, 56, 5, 1, 2),
    (8, 64, 28, 13, 1, 6),
    (2, 64, 112, 3, 2, 1),
    (1, 16, 192, 31, 1, 15),
)

CASES = tuple(Case(*geometry, channels_last) for geometry in _GEOMETRIES for channels_last in (False, True))
