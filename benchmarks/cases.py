"""The cases to measure: pools over ordinary activations, in both layouts, one case per call.

Windows of 2 to 31 cells along one, two or three axes, strides of 1 to 7, with and without padding and dilation, over 1
to 512 channels; adaptive bins; whole axes. All axes of a case have the same sizes, so one number describes them all.
Inputs stay under 32 MiB in float32: larger buffers are mapped again on every call, and the page faults would dominate
the measurement.
"""

from collections.abc import Iterator
from dataclasses import dataclass

WINDOW_GROUPS = ("max", "min", "sum", "avg", "lp", "smooth")
BIN_GROUPS = ("adaptive max", "adaptive avg")
ZOO_GROUPS = (
    "gem",
    "mellowmax",
    "soft",
    "mixed",
    "stochastic",
    "blur",
    "median",
    "var",
    "std",
    "weighted",
    "attention",
    "top 3",
    "quartiles",
    "disk",
    "dilation",
)
LEARNT_GROUPS = ("learnt gem", "learnt smooth", "learnt mellowmax", "learnt soft", "learnt attention")
GLOBAL_GROUPS = ("global max", "global avg")
COMMON_GROUPS = ("max", "min", "sum", "avg", *BIN_GROUPS, *GLOBAL_GROUPS)


@dataclass(frozen=True)
class Case:
    """One call: its group in the summary, the input, and the sizes of its windows or bins.

    `kernel` is 0 for bins and whole axes, `bins` is 0 for all but bins; `number` is the exponent of an Lp pool.
    """

    group: str
    batch: int
    channels: int
    size: int
    channels_last: bool
    rank: int = 2
    kernel: int = 0
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    bins: int = 0
    number: int = 0

    @property
    def axes(self) -> tuple[int, ...]:
        """The pooled axes."""
        first = 1 if self.channels_last else 2
        return tuple(range(first, first + self.rank))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the input."""
        sizes = (self.size,) * self.rank
        return (self.batch, *sizes, self.channels) if self.channels_last else (self.batch, self.channels, *sizes)

    @property
    def tile(self) -> int | None:
        """The side of the tiles that windows or bins cut the array into; None if they do not."""
        side = self.size // self.bins if self.bins else self.kernel
        apart = bool(self.bins) or (self.stride == side and not self.padding and self.dilation == 1)
        return side if side and apart and side * (self.bins or self.size // side) == self.size else None

    @property
    def is_common(self) -> bool:
        """Whether networks often have such a pool: windows up to 7×7 at usual strides, bins, and whole axes."""
        if self.group not in COMMON_GROUPS or self.channels < 16:
            return False
        is_usual = self.rank == 2 and self.dilation == 1 and self.stride in (1, 2, 3, self.kernel)
        return not self.kernel or (self.kernel <= 7 and is_usual)

    @property
    def layout(self) -> str:
        """Whether channels are first or last."""
        return "channels last" if self.channels_last else "channels first"

    @property
    def name(self) -> str:
        """Windows or bins, shape and layout, in words."""
        return f"{self._pooled}, {'×'.join(map(str, self.shape))}, {self.layout}"

    @property
    def _pooled(self) -> str:
        if self.bins:
            return "×".join([str(self.bins)] * self.rank) + " bins"
        if not self.kernel:
            return "whole"
        norm = f"norm {self.number}, " if self.number else ""
        dilation = f", dilation {self.dilation}" if self.dilation > 1 else ""
        return f"{norm}{'×'.join([str(self.kernel)] * self.rank)} / {self.stride} + {self.padding}{dilation}"


# Axes, batch, channels, size of an axis; kernel, stride, padding, dilation.
_WINDOWS = (
    (2, 8, 64, 56, 2, 2, 0, 1),
    (2, 8, 64, 56, 3, 2, 1, 1),
    (2, 8, 64, 56, 3, 1, 1, 1),
    (2, 8, 64, 56, 5, 1, 2, 1),
    (2, 8, 64, 28, 13, 1, 6, 1),
    (2, 2, 64, 112, 3, 2, 1, 1),
    (2, 1, 16, 192, 31, 1, 15, 1),
    (2, 8, 64, 56, 2, 1, 0, 1),
    (2, 8, 64, 56, 5, 2, 2, 1),
    (2, 8, 64, 56, 7, 7, 0, 1),
    (2, 4, 64, 56, 7, 2, 3, 1),
    (2, 8, 512, 14, 3, 1, 1, 1),
    (2, 8, 512, 14, 2, 2, 0, 1),
    (2, 1, 1, 512, 3, 2, 1, 1),
    (2, 1, 1, 1024, 9, 1, 4, 1),
    (2, 4, 3, 224, 3, 2, 1, 1),
    (2, 2, 32, 96, 11, 4, 5, 1),
    (2, 2, 32, 96, 21, 7, 10, 1),
    (2, 4, 64, 56, 3, 1, 2, 2),
    (2, 2, 32, 96, 7, 1, 9, 3),
    (2, 1, 16, 192, 15, 3, 7, 1),
    (1, 8, 64, 4096, 3, 2, 1, 1),
    (1, 8, 64, 4096, 16, 7, 0, 1),
    (1, 8, 64, 4096, 31, 1, 15, 1),
    (1, 32, 1, 16384, 5, 1, 2, 1),
    (1, 16, 128, 1024, 2, 2, 0, 1),
    (3, 2, 16, 32, 2, 2, 0, 1),
    (3, 2, 16, 32, 3, 1, 1, 1),
    (3, 2, 16, 32, 3, 2, 1, 1),
    (3, 1, 32, 24, 5, 1, 2, 1),
    (3, 1, 1, 96, 7, 2, 3, 1),
)
# About a third of them, for groups that share most of their code with another group.
_FEWER = (
    (2, 8, 64, 56, 2, 2, 0, 1),
    (2, 8, 64, 56, 3, 2, 1, 1),
    (2, 8, 64, 56, 3, 1, 1, 1),
    (2, 8, 64, 28, 13, 1, 6, 1),
    (2, 8, 64, 56, 7, 7, 0, 1),
    (2, 8, 512, 14, 2, 2, 0, 1),
    (2, 1, 1, 512, 3, 2, 1, 1),
    (2, 2, 32, 96, 21, 7, 10, 1),
    (1, 8, 64, 4096, 3, 2, 1, 1),
    (1, 8, 64, 4096, 16, 7, 0, 1),
    (3, 2, 16, 32, 2, 2, 0, 1),
    (3, 2, 16, 32, 3, 1, 1, 1),
)
# The same with less padding, as PyTorch's Lp pools have none.
_NORMS = (
    (2, 8, 64, 56, 2, 2, 0, 1),
    (2, 8, 64, 56, 3, 2, 1, 1),
    (2, 8, 64, 56, 3, 1, 0, 1),
    (2, 8, 64, 28, 13, 1, 0, 1),
    (2, 8, 64, 56, 7, 7, 0, 1),
    (2, 8, 512, 14, 2, 2, 0, 1),
    (2, 1, 1, 512, 3, 2, 0, 1),
    (2, 2, 32, 96, 21, 7, 0, 1),
    (1, 8, 64, 4096, 3, 2, 1, 1),
    (1, 8, 64, 4096, 16, 7, 0, 1),
    (3, 2, 16, 32, 2, 2, 0, 1),
    (3, 2, 16, 32, 3, 1, 0, 1),
)
# Windows without padding, for pools that few other libraries have.
_OTHERS = (
    (2, 8, 64, 56, 2, 2, 0, 1),
    (2, 8, 64, 56, 3, 2, 0, 1),
    (2, 8, 64, 56, 3, 1, 0, 1),
    (2, 2, 64, 28, 7, 1, 0, 1),
)
_LARGE_MEDIANS = ((2, 2, 8, 56, 9, 1, 0, 1), (2, 2, 8, 56, 15, 1, 0, 1))
# At stride 1, as filters are.
_DISKS = ((2, 8, 64, 56, 3, 1, 0, 1), (2, 2, 64, 28, 7, 1, 0, 1), (2, 2, 8, 56, 15, 1, 0, 1))
_DILATIONS = ((2, 8, 64, 56, 3, 1, 1, 1), (2, 2, 64, 28, 7, 1, 3, 1))
# Whole axes, where the kernel is 0, and one window.
_LEARNT = (
    (2, 8, 64, 56, 3, 2, 0, 1),
    (2, 8, 512, 7, 0, 1, 0, 1),
    (2, 16, 256, 14, 0, 1, 0, 1),
    (2, 8, 64, 56, 0, 1, 0, 1),
)
_WINDOWS_OF_GROUPS = {
    "max": _WINDOWS,
    "min": _FEWER,
    "sum": _FEWER,
    "avg": _WINDOWS,
    "lp": _NORMS,
    "smooth": _FEWER,
    **dict.fromkeys(ZOO_GROUPS, _OTHERS),
    "median": _OTHERS + _LARGE_MEDIANS,
    "disk": _DISKS,
    "dilation": _DILATIONS,
    **dict.fromkeys(LEARNT_GROUPS, _LEARNT),
}
# Axes, batch, channels, size of an axis; bins along each axis.
_BINS = ((2, 8, 64, 56, 7), (2, 8, 64, 57, 7), (2, 2, 64, 112, 50), (2, 8, 64, 14, 28), (1, 8, 64, 1000, 24))
# Axes, batch, channels, size of an axis.
_WHOLE = ((2, 32, 64, 56), (2, 8, 512, 7), (2, 64, 256, 14))


def cases(batch: int = 1) -> Iterator[Case]:
    """Every case, windows first, with `batch` times the number of pictures."""
    for group, windows in _WINDOWS_OF_GROUPS.items():
        for channels_last in (False, True):
            for position, (rank, pictures, channels, size, *sizes) in enumerate(windows):
                # Norms 2 and 3 alternate, and swap from one layout to the other.
                number = 2 + (position + channels_last) % 2 if group == "lp" else 0
                yield Case(group, batch * pictures, channels, size, channels_last, rank, *sizes, number=number)
    for group in BIN_GROUPS:
        for channels_last in (False, True):
            for rank, pictures, channels, size, bins in _BINS:
                yield Case(group, batch * pictures, channels, size, channels_last, rank, bins=bins)
    for group in GLOBAL_GROUPS:
        for channels_last in (False, True):
            for rank, pictures, channels, size in _WHOLE:
                yield Case(group, batch * pictures, channels, size, channels_last, rank)
