"""Every variant in NumPy and float64, window by window from its definition: what the results are checked against.

A variant is two things here: where its windows lie along an axis (`Bins`) and what it makes of the cells of one
window (a `CellRule`: the value, and the weight of each cell in the derivative of that value). `windowed` puts the
two together to values, winners' positions and gradient. Nothing of JAX or of jaxpool is used.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from jaxpool._demo.request import Size

Bins = Callable[[int, Size], tuple[np.ndarray, np.ndarray]]
CellRule = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
Evaluation = tuple[tuple[np.ndarray, ...], np.ndarray]
Exact = Callable[[np.ndarray, np.ndarray, Size], Evaluation]

_CELLS_AT_ONCE = 2**22  # keeps the windows of a large picture within some hundred megabytes


def sliding(length: int, size: Size) -> tuple[np.ndarray, np.ndarray]:
    """First cell and number of cells of each window that slides along an axis, without padding."""
    starts = np.arange(0, length - size.kernel + 1, size.stride)
    return starts, np.full_like(starts, size.kernel)


def uneven(length: int, size: Size) -> tuple[np.ndarray, np.ndarray]:
    """First cell and number of cells of each bin: of m along n cells, the i-th one ends at ceil((i+1)·n/m)."""
    count = size.bins(length)
    numbers = np.arange(count)
    starts = numbers * length // count
    return starts, ((numbers + 1) * length + count - 1) // count - starts


def whole(length: int, size: Size) -> tuple[np.ndarray, np.ndarray]:
    """First cell and number of cells of the one window that holds the axis."""
    return np.array([0]), np.array([length])


def fractional(length: int, size: Size) -> tuple[np.ndarray, np.ndarray]:
    """First cell and number of cells of each window that starts at a random place, for the sample 1/2 in float32."""
    kernel, count = min(size.kernel, length - 1), size.bins(length)
    alpha = np.float32(length - kernel) / np.float32(max(count - 1, 1))
    steps = (np.arange(count, dtype=np.float32) + np.float32(0.5)) * alpha
    starts = np.append((steps.astype(int) - int(np.float32(0.5) * alpha))[:-1], length - kernel)
    return starts, np.full_like(starts, kernel)


def largest(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The maximum; all weight on the first cell that holds it."""
    winners = cells.argmax(-1, keepdims=True)
    return cells.max(-1), (np.arange(cells.shape[-1]) == winners).astype(cells.dtype)


def smallest(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The minimum; all weight on the first cell that holds it."""
    values, weights = largest(-cells)
    return -values, weights


def total(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum; every weight is 1."""
    return cells.sum(-1), np.ones_like(cells)


def mean(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean; every weight is one over the number of cells."""
    return cells.mean(-1), np.full_like(cells, 1 / cells.shape[-1])


def mean_of_present(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the cells that are not NaN, 0 where all are; every weight is one over their number, or 0 at NaN."""
    present = ~np.isnan(cells)
    weights = present / np.maximum(present.sum(-1, keepdims=True), 1)
    return (weights * np.where(present, cells, 0)).sum(-1), weights


def norm(norm_type: float) -> CellRule:
    """(Σ|x|^p)^(1/p); weights sign(x)·(|x|/y)^(p-1), and 0 in a window of zeros."""

    def rule(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values = (np.abs(cells) ** norm_type).sum(-1) ** (1 / norm_type)
        safe = np.where(values == 0, 1, values)[..., None]
        return values, np.sign(cells) * (np.abs(cells) / safe) ** (norm_type - 1)

    return rule


def smooth_largest(beta: float) -> CellRule:
    """log(Σ exp(β·x))/β; the weights are the softmax of β·x."""

    def rule(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        peaks = (beta * cells).max(-1, keepdims=True)
        powers = np.exp(beta * cells - peaks)
        sums = powers.sum(-1, keepdims=True)
        return ((peaks + np.log(sums)) / beta)[..., 0], powers / sums

    return rule


def binomial(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum with weights that are products of binomial coefficients along both sides of a square window."""
    last = math.isqrt(cells.shape[-1]) - 1
    side = np.array([math.comb(last, cell) / 2**last for cell in range(last + 1)])
    weights = np.outer(side, side).ravel()
    return cells @ weights, np.broadcast_to(weights, cells.shape)


def quantile(q: float) -> CellRule:
    """Between the two cells around rank q·(n-1) of n, by how near each is; equal cells are ranked in their order."""

    def rule(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = q * (cells.shape[-1] - 1)
        ranks = cells.argsort(-1, kind="stable").argsort(-1)
        weights = np.maximum(0, 1 - abs(ranks - place))
        return (weights * cells).sum(-1), weights

    return rule


def windowed(bins: Bins, rule: CellRule, *, indices: bool = False) -> Exact:
    """Pool every window of a picture of (height, width, channels) by `rule`.

    The function made here takes picture, cotangent and size, and returns the values (with `indices` also the row-major
    position of each window's winner) and the gradient of Σ cotangent·values with respect to the picture.
    """

    def evaluate(picture: np.ndarray, cotangent: np.ndarray, size: Size) -> Evaluation:
        picture, cotangent = picture.astype(np.float64), cotangent.astype(np.float64)
        numbers = np.arange(picture.size).reshape(picture.shape)
        values, positions = np.empty(cotangent.shape), np.zeros(cotangent.shape)
        gradient = np.zeros(picture.size)
        for outputs, starts, sides in _blocks(picture.shape, size, bins):
            cells, cell_numbers = (_windows(array, starts, sides) for array in (picture, numbers))
            values[outputs], weights = rule(cells)
            contributions = weights * cotangent[outputs][..., None]
            gradient += np.bincount(cell_numbers.ravel(), contributions.ravel(), minlength=picture.size)
            if indices:
                # One weight is 1 and the others 0; a cell's number over the channels is its position in the plane.
                positions[outputs] = (weights * (cell_numbers // picture.shape[2])).sum(-1)
        pooled = (values, positions.astype(np.int32)) if indices else (values,)
        return pooled, gradient.reshape(picture.shape)

    return evaluate


def after_largest(exact: Exact) -> Exact:
    """What `exact` makes of the maxima of 2×2 cells at a stride of 1."""

    def evaluate(picture: np.ndarray, cotangent: np.ndarray, size: Size) -> Evaluation:
        largest_of_4 = windowed(sliding, largest)
        height, width, channels = picture.shape
        (maxima,), _ = largest_of_4(picture, np.zeros((height - 1, width - 1, channels)), Size(2, 1))
        values, to_maxima = exact(maxima, cotangent, size)
        _, gradient = largest_of_4(picture, to_maxima, Size(2, 1))
        return values, gradient

    return evaluate


def put_back(bins: Bins) -> Exact:
    """The picture where it is the winner of a window, and 0 elsewhere: max pooling and the way back.

    Windows that share a winner write the same value to one cell, so that a winner's derivative is 1 all the same.
    """

    def evaluate(picture: np.ndarray, cotangent: np.ndarray, size: Size) -> Evaluation:
        rows, columns = (len(bins(length, size)[0]) for length in picture.shape[:2])
        _, wins = windowed(bins, largest)(picture, np.ones((rows, columns, picture.shape[2])), size)
        return (np.where(wins > 0, picture, 0),), np.where(wins > 0, cotangent, 0)

    return evaluate


def interpolated(picture: np.ndarray, cotangent: np.ndarray, size: Size) -> Evaluation:
    """Averages of 2×2 interpolated samples in each bin of the box that is the middle half of the picture."""
    rows, columns = (_weights(length, size.bins(length)) for length in picture.shape[:2])
    values = np.einsum("oi,pj,ijc->opc", rows, columns, picture.astype(np.float64), optimize=True)
    gradient = np.einsum("oi,pj,opc->ijc", rows, columns, cotangent.astype(np.float64), optimize=True)
    return (values,), gradient


def middle(length: int, bins: int) -> tuple[float, float]:
    """The corners along an axis of about its middle half, such that no position of a sample is rounded in float32."""
    low = length // 4 + 0.25
    return low, low + bins * max(1, 2 * length // bins) / 4


def _weights(length: int, bins: int) -> np.ndarray:
    """How much of each cell along an axis is in each bin of its middle."""
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
    for height in np.unique(heights):
        for width in np.unique(widths):
            of_height, of_width = np.flatnonzero(heights == height), np.flatnonzero(widths == width)
            cells_per_row = len(of_width) * shape[2] * int(height) * int(width)
            step = max(1, _CELLS_AT_ONCE // cells_per_row)
            for first in range(0, len(of_height), step):
                some = of_height[first : first + step]
                yield np.ix_(some, of_width), np.ix_(rows[some], columns[of_width]), (int(height), int(width))
