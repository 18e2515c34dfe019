"""Every variant in NumPy and float64, window by window from its definition: the reference for all results.

A variant consists of two parts: where its windows are along an axis (`Bins`), and a rule of `window` for the cells of
one window. `windowed` combines them into values, winners' positions and gradient; variants that are no such pair come
after it. Neither JAX nor jaxpool is used.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from examples.demonstration.size import Size
from examples.demonstration.window import CellRule, binomial, largest

StartsAndCounts = tuple[np.ndarray, np.ndarray]
Bins = Callable[[int, Size], StartsAndCounts]
Evaluation = tuple[tuple[np.ndarray, ...], np.ndarray]
Exact = Callable[[np.ndarray, np.ndarray, Size], Evaluation]

_CELLS_AT_ONCE = 2**18  # keeps the windows of a block in the cache


def sliding(length: int, size: Size) -> StartsAndCounts:
    """The first cell and the number of cells of each window that slides along an axis, without padding."""
    starts = np.arange(0, length - size.kernel + 1, size.stride)
    return starts, np.full_like(starts, size.kernel)


def cut(length: int, count: int) -> StartsAndCounts:
    """The first cell and the number of cells of each bin: bin i of m along n cells ends at ceil((i+1)·n/m)."""
    numbers = np.arange(count)
    starts = numbers * length // count
    return starts, ((numbers + 1) * length + count - 1) // count - starts


def uneven(length: int, size: Size) -> StartsAndCounts:
    """The same for bins about as wide as a stride."""
    return cut(length, size.bins(length))


def whole(length: int, size: Size) -> StartsAndCounts:
    """The same for the single window that holds the axis."""
    return cut(length, 1)


def fractional(length: int, size: Size) -> StartsAndCounts:
    """The same for windows that start at random positions, for the sample 1/2 in float32."""
    kernel, count = min(size.kernel, length - 1), size.bins(length)
    alpha = np.float32(length - kernel) / np.float32(max(count - 1, 1))
    steps = (np.arange(count, dtype=np.float32) + np.float32(0.5)) * alpha
    starts = np.append((steps.astype(int) - int(np.float32(0.5) * alpha))[:-1], length - kernel)
    return starts, np.full_like(starts, kernel)


def windowed(bins: Bins, rule: CellRule, *numbers: float, indices: bool = False) -> Exact:
    """Pool every window of a picture of shape (height, width, channels) by `rule`, which also gets `numbers`.

    The resulting function takes picture, cotangent and size, and returns the values (with `indices` also the row-major
    position of each window's winner) and the gradient of Σ cotangent·values with respect to the picture.
    """

    def evaluate(picture: np.ndarray, cotangent: np.ndarray, size: Size) -> Evaluation:
        picture, cotangent = picture.astype(np.float64), cotangent.astype(np.float64)
        cell_numbers = np.arange(picture.size).reshape(picture.shape)
        values, positions = np.empty(cotangent.shape), np.zeros(cotangent.shape, np.int32)
        gradient = np.zeros(picture.size)
        for outputs, starts, sides in _blocks(picture.shape, size, bins):
            cells, places = (_windows(array, starts, sides) for array in (picture, cell_numbers))
            values[outputs], weights = rule(cells, *numbers)
            contributions = weights * cotangent[outputs][..., None]
            gradient += np.bincount(places.ravel(), contributions.ravel(), minlength=picture.size)
            if indices:
                # One weight is 1 and the others 0; a cell's number over the channels is its position in the plane.
                positions[outputs] = (weights * (places // picture.shape[2])).sum(-1)
        return (values, positions) if indices else (values,), gradient.reshape(picture.shape)

    return evaluate


def blurred_maxima(picture: np.ndarray, cotangent: np.ndarray, size: Size) -> Evaluation:
    """The binomial sums of the maxima of 2×2 cells at a stride of 1."""
    largest_of_4, (height, width, channels) = windowed(sliding, largest), picture.shape
    (maxima,), _ = largest_of_4(picture, np.zeros((height - 1, width - 1, channels)), Size(2, 1))
    values, to_maxima = windowed(sliding, binomial)(maxima, cotangent, size)
    _, gradient = largest_of_4(picture, to_maxima, Size(2, 1))
    return values, gradient


def put_back(picture: np.ndarray, cotangent: np.ndarray, size: Size) -> Evaluation:
    """The picture at winners of windows, and 0 elsewhere: max pooling followed by unpooling.

    Windows that share a winner write the same value to one cell, so the derivative of a winner is still 1.
    """
    rows, columns = (len(sliding(length, size)[0]) for length in picture.shape[:2])
    _, wins = windowed(sliding, largest)(picture, np.ones((rows, columns, picture.shape[2])), size)
    return (np.where(wins > 0, picture, 0),), np.where(wins > 0, cotangent, 0)


def pyramid(levels: Sequence[int]) -> Exact:
    """Maxima of several grids of bins, one below the other in a single column, and the sum of their gradients."""

    def evaluate(picture: np.ndarray, cotangent: np.ndarray, size: Size) -> Evaluation:
        values, gradient = [], np.zeros(picture.shape)
        sent = np.split(cotangent, np.cumsum(np.square(levels))[:-1])
        for level, sent_to_level in zip(levels, sent, strict=True):
            of_level = windowed(lambda length, _, level=level: cut(length, level), largest)
            (pooled,), landed = of_level(picture, sent_to_level.reshape(level, level, -1), size)
            values.append(pooled.reshape(sent_to_level.shape))
            gradient += landed
        return (np.concatenate(values),), gradient

    return evaluate


def interpolated(picture: np.ndarray, cotangent: np.ndarray, size: Size) -> Evaluation:
    """Averages of 2×2 interpolated samples in each bin of the box that is the middle half of the picture."""
    rows, columns = (_weights(length, size.bins(length)) for length in picture.shape[:2])
    values = np.einsum("oi,pj,ijc->opc", rows, columns, picture.astype(np.float64), optimize=True)
    gradient = np.einsum("oi,pj,opc->ijc", rows, columns, cotangent.astype(np.float64), optimize=True)
    return (values,), gradient


def middle(length: int, bins: int) -> tuple[float, float]:
    """Corners around the middle half of an axis, chosen so that no sample position is rounded in float32."""
    low = length // 4 + 0.25
    return low, low + bins * max(1, 2 * length // bins) / 4


def _weights(length: int, bins: int) -> np.ndarray:
    """The weight of each cell along an axis in each bin of its middle."""
    low, high = middle(length, bins)
    positions = low - 0.5 + (np.arange(2 * bins) + 0.5) * (high - low) / (2 * bins)
    distances = np.abs(np.clip(positions, 0, length - 1)[:, None] - np.arange(length))
    return np.maximum(0, 1 - distances).reshape(bins, 2, length).mean(1)


def _windows(array: np.ndarray, starts: tuple[np.ndarray, ...], sides: tuple[int, int]) -> np.ndarray:
    windows = sliding_window_view(array, sides, axis=(0, 1))[starts]
    return windows.reshape(*windows.shape[:3], -1)


def _blocks(
    shape: tuple[int, ...], size: Size, bins: Bins
) -> Iterator[tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...], tuple[int, int]]]:
    """Rectangles of outputs whose windows share height and width: the outputs, their first cells, the two sides."""
    (rows, heights), (columns, widths) = bins(shape[0], size), bins(shape[1], size)
    for height in map(int, np.unique(heights)):
        for width in map(int, np.unique(widths)):
            of_height, of_width = np.flatnonzero(heights == height), np.flatnonzero(widths == width)
            step = max(1, _CELLS_AT_ONCE // (len(of_width) * shape[2] * height * width))
            for first in range(0, len(of_height), step):
                some = of_height[first : first + step]
                yield np.ix_(some, of_width), np.ix_(rows[some], columns[of_width]), (height, width)
