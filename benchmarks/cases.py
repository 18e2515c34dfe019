"""The calls to measure: pools over ordinary activations, in both layouts and two dtypes.

All axes of a case have the same sizes. Buffers of a CPU stay under 32 MiB: larger ones are mapped anew in every call,
and page faults would be most of what is measured.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

# Pools by what a mean of speeds is taken over.
FAMILIES = {
    "max and min": ("max", "min"),
    "sum and avg": ("sum", "avg"),
    "norms": ("lp", "gem"),
    "soft maxima and means": ("smooth", "mellowmax", "soft", "stochastic"),
    "var and std": ("var", "std"),
    "median": ("median",),
    "global": ("global max", "global avg"),
    "adaptive": ("adaptive max", "adaptive avg"),
    "other pools": ("mixed", "blur", "weighted", "attention", "top 3", "quartiles", "disk"),
    "trained numbers": ("learnt gem", "learnt smooth", "learnt mellowmax", "learnt soft", "learnt attention"),
}
POOLS = tuple(itertools.chain.from_iterable(FAMILIES.values()))


@dataclass(frozen=True)
class Case:
    """One call. `kernel` is 0 for bins and whole axes, `bins` is 0 for all but bins."""

    pool: str
    kernel: int = 0
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    bins: int = 0
    batch: int = 8
    channels: int = 64
    size: int = 56
    rank: int = 2
    channels_last: bool = True
    dtype: str = "float32"

    @property
    def axes(self) -> tuple[int, ...]:
        """The pooled axes."""
        first = 1 if self.channels_last else 2
        return tuple(range(first, first + self.rank))

    @property
    def x(self) -> jax.ShapeDtypeStruct:
        """Shape and dtype of the input."""
        sizes = (self.size,) * self.rank
        shape = (self.batch, *sizes, self.channels) if self.channels_last else (self.batch, self.channels, *sizes)
        return jax.ShapeDtypeStruct(shape, jnp.dtype(self.dtype))

    @property
    def cells(self) -> int:
        """The cells of a window, or of the whole axes."""
        return (self.kernel or self.size) ** self.rank

    @property
    def tile(self) -> int | None:
        """The side of the tiles that windows or bins cut the array into; None if they do not."""
        side = self.size // self.bins if self.bins else self.kernel
        apart = bool(self.bins) or (self.stride == side and not self.padding and self.dilation == 1)
        return side if side and apart and side * (self.bins or self.size // side) == self.size else None

    @property
    def name(self) -> str:
        """The pool, its windows or bins, shape, layout and dtype."""
        axes = "DHW"[3 - self.rank :]
        layout = f"N{axes}C" if self.channels_last else f"NC{axes}"
        return f"{self.pool} {self._window}, {'×'.join(map(str, self.x.shape))} {layout} {self.dtype}"

    @property
    def _window(self) -> str:
        if not self.kernel:
            return "×".join([str(self.bins)] * self.rank) + " bins" if self.bins else "whole"
        padding = f" + {self.padding}" if self.padding else ""
        dilation = f" dilated {self.dilation}" if self.dilation > 1 else ""
        return f"{'×'.join([str(self.kernel)] * self.rank)}/{self.stride}{padding}{dilation}"


def cases(batch: int = 1) -> Iterator[Case]:
    """The pools that people run, with `batch` times the number of pictures."""
    last: dict[str, Any] = {}
    first: dict[str, Any] = {"channels_last": False}
    half: dict[str, Any] = {"dtype": "bfloat16"}
    sizes: dict[str, Any] = {"batch": 8 * batch}
    small: dict[str, Any] = {"batch": 2 * batch, "size": 28}
    for pool in ("max", "avg"):
        for layout in (last, first):
            yield Case(pool, 2, 2, **sizes, **layout)
            yield Case(pool, 3, 2, 1, **sizes, **layout)
            yield Case(pool, 3, 1, 1, **sizes, **layout)
            yield Case(pool, 7, 1, 3, **small, **layout)
            yield Case(pool, 3, 2, 1, **sizes, **layout, **half)
        yield Case(pool, 7, 7, **sizes, **first)
    # Without padding, which the formulas of plain JAX would have to leave out of their counts.
    for pool in ("lp", "smooth", "soft", "var", "median"):
        yield Case(pool, 2, 2, **sizes, **first)
        yield Case(pool, 3, 2, **sizes)
        yield Case(pool, 3, 1, **sizes, **first)
        yield Case(pool, 7, 1, **small)
        yield Case(pool, 3, 2, **sizes, **half)
    for pool in ("global max", "global avg"):
        for layout in (last, first):
            yield Case(pool, batch=32 * batch, **layout)
    for pool in ("adaptive max", "adaptive avg"):
        for layout in (last, first):
            yield Case(pool, bins=7, **sizes, **layout)
        yield Case(pool, bins=7, batch=8 * batch, size=57)
    yield Case("learnt gem", batch=16 * batch, channels=256, size=14)
    for pool in ("min", "sum"):
        yield Case(pool, 3, 2, 1, **sizes)
    others = ("gem", "mellowmax", "stochastic", "std", "mixed", "blur", "weighted", "attention")
    for pool in (*others, "learnt soft"):
        yield Case(pool, 3, 2, **sizes)


# Kernel, stride, padding, dilation; rank, batch, channels, size.
_WINDOWS = (
    ((2, 2), (2, 8, 64, 56)),
    ((3, 2), (2, 8, 64, 56)),
    ((3, 1), (2, 8, 64, 56)),
    ((7, 1), (2, 2, 64, 28)),
    ((7, 7), (2, 8, 64, 56)),
)
_MORE_WINDOWS = (
    ((2, 1), (2, 8, 64, 56)),
    ((5, 1, 2), (2, 8, 64, 56)),
    ((5, 2, 2), (2, 8, 64, 56)),
    ((13, 1, 6), (2, 8, 64, 28)),
    ((31, 1, 15), (2, 1, 16, 192)),
    ((3, 1, 1), (2, 8, 512, 14)),
    ((2, 2), (2, 8, 512, 14)),
    ((3, 2, 1), (2, 4, 3, 224)),
    ((11, 4, 5), (2, 2, 32, 96)),
    ((3, 1, 2, 2), (2, 4, 64, 56)),
    ((3, 2, 1), (1, 8, 64, 4096)),
    ((16, 7), (1, 8, 64, 4096)),
    ((31, 1, 15), (1, 8, 64, 4096)),
    ((5, 1, 2), (1, 32, 1, 16384)),
    ((2, 2), (3, 2, 16, 32)),
    ((3, 1, 1), (3, 2, 16, 32)),
    ((3, 2, 1), (3, 2, 16, 32)),
)
_WHOLE = ((2, 32, 64, 56), (2, 8, 512, 7), (2, 64, 256, 14))
_BINS = ((7, (2, 8, 64, 56)), (7, (2, 8, 64, 57)), (50, (2, 2, 64, 112)), (28, (2, 8, 64, 14)), (24, (1, 8, 64, 1000)))


def all_cases(batch: int = 1) -> Iterator[Case]:
    """Every pool over many windows, in both layouts and dtypes."""
    for pool, channels_last, dtype in itertools.product(POOLS, (True, False), ("float32", "bfloat16")):
        for number, sizes, window in _places(pool):
            rank, pictures, channels, size = sizes
            array = {"rank": rank, "batch": batch * pictures, "channels": channels, "size": size}
            yield Case(pool, *window, bins=number, **array, channels_last=channels_last, dtype=dtype)


def _places(pool: str) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """The number of bins, the sizes of the array and the window."""
    if pool.startswith("adaptive"):
        yield from ((bins, sizes, ()) for bins, sizes in _BINS)
        return
    if pool.startswith(("global", "learnt")):
        yield from ((0, sizes, ()) for sizes in _WHOLE)
    if not pool.startswith("global"):
        more = _MORE_WINDOWS if pool in ("max", "min", "sum", "avg") else ()
        yield from ((0, sizes, window) for window, sizes in (*_WINDOWS, *more))


def growth() -> Iterator[tuple[str, dict[str, Case]]]:
    """By name, cases whose windows, or arrays, grow."""
    for pool in ("max", "avg", "lp", "smooth", "median"):
        kernels = (3, 5, 9, 15, 31) if pool == "median" else (3, 7, 15, 31, 63)
        size: dict[str, Any] = (
            {"batch": 2, "channels": 8} if pool == "median" else {"batch": 1, "channels": 16, "size": 192}
        )
        yield f"window, {pool}", {f"{k}×{k}": Case(pool, k, 1, **size) for k in kernels}
    for pool in ("max", "smooth", "std"):
        line: dict[str, Any] = {"batch": 1, "channels": 1, "size": 20_000, "rank": 1, "channels_last": False}
        yield f"one axis, {pool}", {str(k): Case(pool, k, 1, **line) for k in (33, 129, 513, 2049)}
    for pool in ("max", "avg"):
        yield f"pictures, {pool} 3×3/2", {str(n): Case(pool, 3, 2, 1, batch=n) for n in (1, 2, 4, 8, 16)}
