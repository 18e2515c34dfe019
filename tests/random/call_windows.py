"""Random positions of windows: shapes, axes, and the arguments that cut them into windows, bins or boxes.

Windows that do not fit, or that hold only padding where that is an error, are repaired, except for a few, which the
function has to refuse. If rounding may decide which cell is read, the outcome depends on precision: boxes are drawn so
that every sample is well away from all centres of cells, or is computed without rounding. Samples of fractional pools
may be anywhere, as the reference rounds them in the same way. Boxes with NaN or infinities, or far outside the array,
are left to separate tests.
"""

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

import jaxpool
from tests.random.call_checks import is_defined, windows_of
from tests.registry.calls import BLURS, Call

Draw = st.DrawFn
Parameters = dict[str, Any]
Shape = tuple[int, ...]

# The reference is evaluated in Python, for every cell of every window.
MOST_CELLS_IN_WINDOWS = 12000
# Cells of a window along one, two or three axes.
WIDEST = (45, 18, 4)
# Words for padding, and those for copies.
PLAIN_WORDS = ("SAME", "SAME_LOWER", "CAUSAL", "SEMICAUSAL", "VALID", "same")
COPIES = ("WRAP", "REFLECT", "SYMMETRIC", "EDGE")
# Below this, float16 represents every 64th of a cell.
LARGEST_IN_FLOAT16 = 16


def some(draw: Draw, **strategies: st.SearchStrategy[Any]) -> Parameters:
    """Any subset of these arguments."""
    return {name: draw(strategy) for name, strategy in strategies.items() if draw(st.booleans())}


def draw_axes(draw: Draw, most_cells: int) -> tuple[Shape, Shape, Any]:
    """A shape, its pooled axes, and the `axis` argument for them; None if they are the last ones."""
    longest = draw(st.sampled_from([4, 6, 6, 9, 9, 20, 60]))
    sizes: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        sizes.append(draw(st.integers(1, max(1, min(longest, most_cells // math.prod(sizes))))))
    shape = tuple(draw(st.permutations(sizes)))
    rank, count = len(shape), draw(st.integers(1, min(3, len(shape))))
    if draw(st.booleans()):
        return shape, tuple(range(rank - count, rank)), None
    axes = tuple(draw(st.permutations(range(rank)))[:count])
    if rank - count <= 2 and draw(st.integers(0, 3)) == 3:
        names, others = iter(draw(st.sampled_from(["THW", "zyx"]))), iter(draw(st.sampled_from(["NC", "CN"])))
        return shape, tuple(sorted(axes)), "".join(next(names if a in axes else others) for a in range(rank))
    axis = tuple(a - rank if draw(st.booleans()) else a for a in axes)
    return shape, axes, draw(st.sampled_from([axis, list(axis), axis[0] if count == 1 else axis]))


def draw_windows(draw: Draw, function: str, shape: Shape, axes: Shape, named: Parameters) -> Parameters:
    """The arguments for windows along the axes."""
    kind = 0 if function in BLURS else draw(st.integers(0, 11))
    if kind == 11:
        sizes = draw(_levels(shape, axes, named))
        return {**named, "kernel_size": jaxpool.bins(*([sizes] if isinstance(sizes, int) else sizes))}
    if kind == 10:
        return {"axis": axes, **named, "kernel_size": jaxpool.whole}
    count, blurs = len(axes), function in BLURS
    widest = WIDEST[count - 1]
    beyond = draw(st.sampled_from([0, 0, 0, 2]))
    if function == "max_blur_pool":
        # Its maxima are taken at every cell, and few of them are repaired.
        widest = _widest(shape, axes)
        beyond = beyond and draw(st.sampled_from([0, 2]))
    kernels = draw(st.tuples(*[st.integers(1, min(shape[a] + beyond, widest)) for a in axes]))
    extra = draw(st.integers(0, 3))
    footprint = _draw_footprint(draw, kernels) if kind >= 8 else None

    def each(strategy: st.SearchStrategy[Any]) -> Any:
        return draw(
            st.one_of(strategy, st.tuples(*[strategy] * count), st.lists(strategy, min_size=count, max_size=count))
        )

    parameters: Parameters = {**named, "kernel_size": kernels if footprint is None else footprint}
    if named and footprint is None and draw(st.integers(0, 3)) == 3:
        parameters["kernel_size"] = min(kernels)
    if draw(st.booleans()):
        parameters["stride"] = draw(st.none()) if extra == 3 else each(st.integers(1, max(kernels) + extra))
    if draw(st.booleans()):
        number = st.integers(0, min(3, max(min(kernels) - 1, extra)))
        entry = number | st.tuples(number, number) | st.lists(number, min_size=2, max_size=2)
        words = st.sampled_from([*PLAIN_WORDS, *PLAIN_WORDS[:2], *COPIES])
        copies = st.tuples(st.sampled_from(COPIES), number | st.tuples(number, number))
        entries = st.one_of(entry, entry, words, copies)
        parameters["padding"] = draw(st.one_of(number, st.tuples(*[entries] * count), words))
    if function == "max_blur_pool":
        if draw(st.booleans()):
            parameters["blur_size"] = each(st.integers(1, min(5, widest + 1)))
        parameters |= some(draw, dilation=st.integers(1, 2))
    elif draw(st.booleans()):
        parameters["dilation"] = each(st.integers(1, 3))
    if function != "blur_pool":
        parameters |= some(draw, ceil_mode=st.booleans())
    closer: Parameters = {"dilation": 1, **({"blur_size": 1} if function == "max_blur_pool" else {})}
    partial: Parameters = {"stride": None, "padding": "EDGE"} if blurs else {"stride": None, "ceil_mode": True}
    repairs: list[Parameters] = [{}, closer, partial, {**closer, **partial}]
    for repaired in (parameters | repair for repair in repairs):
        call = Call(function, shape, repaired)
        along = windows_of(call)
        outputs = math.prod(len(along.get(a, range(size))) for a, size in enumerate(shape))
        if outputs * math.prod(kernels) <= MOST_CELLS_IN_WINDOWS and (is_defined(call) or draw(st.integers(0, 9)) == 9):
            return repaired
    return parameters | closer | {"padding": 0, "kernel_size": kernels} | partial


def _draw_footprint(draw: Draw, kernels: Shape) -> Any:
    """A disk, or some of the cells of the box at random."""
    kept = draw(st.sampled_from([0.7, 0.3, None]))
    if kept is None:
        squares = [((2 * np.arange(size) + 1 - size) / size) ** 2 for size in kernels]
        return jaxpool.footprint(sum(np.ix_(*squares)) <= 1)
    held = np.random.default_rng(draw(st.integers(0, 99))).random(kernels)
    return jaxpool.footprint(held <= max(kept, held.min()))


def _widest(shape: Shape, axes: Shape) -> int:
    """The cells of a window along each axis if one may start at every cell."""
    most = (MOST_CELLS_IN_WINDOWS / math.prod(shape)) ** (1 / len(axes))
    return max(1, min(WIDEST[len(axes) - 1], int(most)))


def draw_bins(draw: Draw, shape: Shape, axes: Shape, named: Parameters) -> Parameters:
    """The bins along the axes."""
    return {"output_size": draw(_levels(shape, axes, named)), **named}


def draw_levels(draw: Draw, shape: Shape, axes: Shape, named: Parameters) -> Parameters:
    """The bins along the axes, several times over."""
    levels = draw(st.lists(_levels(shape, axes, named), min_size=1, max_size=3))
    return {"levels": draw(st.sampled_from([levels, tuple(levels)])), **named}


def _levels(shape: Shape, axes: Shape, named: Parameters) -> st.SearchStrategy[Any]:
    bins = st.tuples(*[st.none() | st.integers(1, shape[a] + 3) for a in axes])
    return st.one_of(bins, bins, st.integers(1, 5)) if named else bins


def draw_fractions(draw: Draw, function: str, shape: Shape, axes: Shape, named: Parameters) -> Parameters:
    """Windows at random positions, by their number or ratio, with the key or the samples that determine them."""
    # No wider than half an axis and a cell, so that there is room to draw from.
    widest = _widest(shape, axes)
    kernels = draw(st.tuples(*[st.integers(1, min(shape[a] // 2 + 1, widest)) for a in axes]))
    parameters: Parameters = {**named, "kernel_size": kernels}
    if named and draw(st.integers(0, 3)) == 3:
        parameters["kernel_size"] = min(kernels)
    ratio = st.sampled_from([0.5, 0.75, 0.3, 0.9, np.float32(0.6)])
    parameters["output_ratio"] = draw(ratio | st.tuples(*[ratio] * len(axes)))
    if draw(st.booleans()) or not (is_defined(Call(function, shape, parameters)) or draw(st.integers(0, 9)) == 9):
        del parameters["output_ratio"]
        most = [shape[a] - kernel + 1 for a, kernel in zip(axes, kernels, strict=True)]
        beyond = int(draw(st.integers(0, 19)) == 19)
        counts = draw(st.tuples(*[st.integers(1, one + beyond) for one in most]))
        parameters["output_size"] = min(counts) if draw(st.integers(0, 3)) == 3 else counts
    random = np.random.default_rng(draw(st.integers(0, 99)))
    if draw(st.booleans()):
        return parameters | {"key": random.integers(0, 2**32, 2, np.uint32)}
    dtype = draw(st.sampled_from(["float64", "float32", "float16"]))
    others = [size for a, size in enumerate(shape) if a not in axes]
    below_one = float(np.nextafter(np.dtype(dtype).type(1), 0))
    drawn = random.choice([0, 0.25, 0.5, below_one, *random.random(9)], (*others, len(axes)))
    return parameters | {"samples": np.minimum(drawn.astype(dtype), np.dtype(dtype).type(below_one))}


def draw_boxes(draw: Draw, function: str, shape: Shape, axes: Shape, named: Parameters) -> Parameters:
    """Boxes inside the array, across its ends and beyond, of any length, and with swapped corners."""
    bins = draw(st.tuples(*[st.integers(1, 5)] * len(axes)))
    parameters: Parameters = {**named, "output_size": bins}
    if named and draw(st.integers(0, 3)) == 3:
        parameters["output_size"] = min(bins)
    ratio = 1
    if function == "roi_align":
        parameters |= some(draw, sampling_ratio=st.sampled_from([1, 2, 3]), aligned=st.booleans())
        ratio = parameters.get("sampling_ratio", 2)
    others = math.prod(size for a, size in enumerate(shape) if a not in axes)
    cells = others * math.prod(2 * ratio * one for one in bins)
    count = draw(st.integers(0, max(1, min(4, MOST_CELLS_IN_WINDOWS // max(1, cells)))))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    sizes = np.array([shape[a] for a in axes])
    low = random.integers(-12, 4 * sizes + 9, (count, len(axes))) / 4
    length = random.choice([1, 1, 1, -0.3, 0.2], low.shape) * random.random(low.shape) * (sizes + 4)
    boxes = np.concatenate([low, low + (length * 4).round() / 4], 1)
    # Quarters of cells, divided by powers of two, are exact.
    is_exact = all(one in (1, 2, 4) for one in (*bins, ratio))
    if function == "roi_align" and not (is_exact and draw(st.booleans())):
        boxes = beside_centres(boxes)
    dtypes = ["float64", "float32", "float16"]
    dtype = draw(st.sampled_from(dtypes if np.abs(boxes).max(initial=0) < LARGEST_IN_FLOAT16 else dtypes[:2]))
    return {"boxes": boxes.astype(dtype), **parameters}


def beside_centres(boxes: np.ndarray) -> np.ndarray:
    """Boxes with a length of whole cells, and corners 1/64 of a cell beyond whole numbers.

    Samples, at low + (2k + 1)·length/(2·bins·samples), are then never at a whole number unless bins·samples is a
    multiple of 32, and rounding to float32 moves none there.
    """
    return (np.floor(boxes) + 1 / 64).astype(boxes.dtype)
