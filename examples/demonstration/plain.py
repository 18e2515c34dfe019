"""Pools as written without jaxpool: `lax.reduce_window`, `reshape`, indexing, and textbook formulas.

jaxpool is timed against these; those of one line are in their row of the table. They pool the first two axes of an
array of shape (height, width, channels), without padding. JAX differentiates them. They guarantee nothing about
overflow, ties or NaN.
"""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from examples.demonstration import exact
from examples.demonstration.size import Size

Pair = tuple[jax.Array, jax.Array]


def largest(x: jax.Array, size: Size) -> jax.Array:
    """The largest cell of each window."""
    return _reduce(x, x.dtype.type(-np.inf), lax.max, size)


def smallest(x: jax.Array, size: Size) -> jax.Array:
    """The smallest cell of each window."""
    return _reduce(x, x.dtype.type(np.inf), lax.min, size)


def total(x: jax.Array, size: Size) -> jax.Array:
    """The sum of each window."""
    return _reduce(x, x.dtype.type(0), lax.add, size)


def average(x: jax.Array, size: Size) -> jax.Array:
    """The mean of each window."""
    return total(x, size) / size.kernel**2


def tiles(x: jax.Array, size: Size) -> jax.Array:
    """Windows that lie side by side, the cells of each along two axes of their own, the second and the fourth."""
    rows, columns = (length // size.kernel for length in x.shape[:2])
    whole = x[: rows * size.kernel, : columns * size.kernel]
    return whole.reshape(rows, size.kernel, columns, size.kernel, x.shape[2])


def mean_of_present(x: jax.Array, size: Size) -> jax.Array:
    """The mean of the cells of each window that are not NaN; 0 if all are."""
    present = ~jnp.isnan(x)
    return total(jnp.where(present, x, 0), size) / jnp.maximum(total(present.astype(x.dtype), size), 1)


def norm(x: jax.Array, size: Size, p: float, mean: bool = False) -> jax.Array:
    """(Σ|x|^p)^(1/p), or the same with a mean in place of the sum."""
    return (average if mean else total)(jnp.abs(x) ** p, size) ** (1 / p)


def smooth_largest(x: jax.Array, size: Size, beta: float, mean: bool = False) -> jax.Array:
    """log(Σ exp(β·x))/β, or the same with a mean in place of the sum."""
    return jnp.log((average if mean else total)(jnp.exp(beta * x), size)) / beta


def weighted_mean(x: jax.Array, weights: jax.Array, size: Size) -> jax.Array:
    """The weighted mean of each window."""
    return total(weights * x, size) / total(weights, size)


def global_power_mean(x: jax.Array, size: Size, p: float) -> jax.Array:
    """The power mean of all cells, with low ones raised to a bound."""
    return (jnp.maximum(x, 1e-6) ** p).mean((0, 1), keepdims=True) ** (1 / p)


def largest_with_indices(x: jax.Array, size: Size) -> Pair:
    """The largest cell of each window and its row-major position; JAX cannot differentiate this one."""
    height, width = x.shape[:2]
    positions = jnp.arange(height * width, dtype=np.int32).reshape(height, width, 1)

    def first_largest(left: Pair, right: Pair) -> Pair:
        keep = (left[0] > right[0]) | ((left[0] == right[0]) & (left[1] < right[1]))
        return lax.select(keep, left[0], right[0]), lax.select(keep, left[1], right[1])

    start = x.dtype.type(-np.inf), np.int32(np.iinfo(np.int32).max)
    return _reduce((x, jnp.broadcast_to(positions, x.shape)), start, first_largest, size)


def smallest_with_indices(x: jax.Array, size: Size) -> Pair:
    """The smallest cell of each window and its row-major position."""
    negative, positions = largest_with_indices(-x, size)
    return -negative, positions


def put_back(x: jax.Array, size: Size) -> jax.Array:
    """The largest cell of each window, put back in its place, with zeros around it."""
    # JAX differentiates the values read at the positions, though not the positions themselves.
    _, indices = largest_with_indices(lax.stop_gradient(x), size)
    positions = indices.reshape(-1, x.shape[2]), np.arange(x.shape[2])
    cells = x.reshape(-1, x.shape[2])
    return jnp.zeros_like(cells).at[positions].set(cells[positions]).reshape(x.shape)


def binomial(x: jax.Array, size: Size) -> jax.Array:
    """The sum of each window, its cells weighted by products of binomial coefficients; one axis after the other."""
    weights = [math.comb(size.kernel - 1, cell) / 2 ** (size.kernel - 1) for cell in range(size.kernel)]
    for axis in range(2):
        weighted = (weight * cells for weight, cells in zip(weights, _slices(x, axis, size), strict=True))
        x = sum(weighted, jnp.zeros((), x.dtype))
    return x


def quantile(x: jax.Array, size: Size, q: float) -> jax.Array:
    """The quantile of each window, over a stack of its cells."""
    return jnp.quantile(_cells(x, size), q, axis=0)


def second_largest(x: jax.Array, size: Size) -> jax.Array:
    """The second of the two largest cells of each window, over a stack of its cells."""
    return lax.top_k(jnp.moveaxis(_cells(x, size), 0, -1), 2)[0][..., 1]


def _cells(x: jax.Array, size: Size) -> jax.Array:
    """The cells of each window along a new first axis."""
    return jnp.stack([cell for row in _slices(x, 0, size) for cell in _slices(row, 1, size)])


def largest_of_bins(x: jax.Array, size: Size) -> jax.Array:
    """The largest cell of each bin, one axis after the other."""
    (rows, _), (columns, _) = _bins(x.shape[0], size), _bins(x.shape[1], size)
    return x[rows].max(1)[:, columns].max(2)


def largest_of_bins_with_indices(x: jax.Array, size: Size) -> Pair:
    """The largest cell of each bin and its row-major position, from an array that holds every bin's cells."""
    (rows, _), (columns, _) = _bins(x.shape[0], size), _bins(x.shape[1], size)
    positions = rows[:, None, :, None] * x.shape[1] + columns[None, :, None, :]
    positions = positions.reshape(*positions.shape[:2], -1, 1).astype(np.int32)
    cells = x.reshape(-1, x.shape[2])[positions[..., 0]]
    winners = cells.argmax(2, keepdims=True)
    return jnp.take_along_axis(cells, winners, 2)[:, :, 0], jnp.take_along_axis(positions, winners, 2)[:, :, 0]


def mean_of_bins(x: jax.Array, size: Size) -> jax.Array:
    """The mean of each bin, one axis after the other."""
    (rows, heights), (columns, widths) = _bins(x.shape[0], size), _bins(x.shape[1], size)
    of_rows = jnp.einsum("bkwc,bk->bwc", x[rows], heights)
    return jnp.einsum("hbkc,bk->hbc", of_rows[:, columns], widths)


def pyramid(x: jax.Array, levels: Sequence[int]) -> jax.Array:
    """The maximum of every bin of every grid, one by one."""
    cells: list[jax.Array] = []
    for level in levels:
        rows, columns = (zip(*exact.cut(length, level), strict=True) for length in x.shape[:2])
        for (top, tall), (left, wide) in product(rows, columns):
            cells.append(x[top : top + tall, left : left + wide].max((0, 1)))
    return jnp.stack(cells)[:, None]


def _bins(length: int, size: Size) -> tuple[np.ndarray, np.ndarray]:
    """The cells of each bin, with the last repeated up to the size of the largest bin, and the weights of a mean."""
    starts, counts = (numbers[:, None] for numbers in exact.uneven(length, size))
    cells = np.arange(counts.max())
    return starts + np.minimum(cells, counts - 1), ((cells < counts) / counts).astype(np.float32)


def _slices(x: jax.Array, axis: int, size: Size) -> list[jax.Array]:
    """The first cell of every window along an axis, the second one, and so on."""
    past_last = (x.shape[axis] - size.kernel) // size.stride * size.stride + 1
    return [lax.slice_in_dim(x, cell, cell + past_last, size.stride, axis) for cell in range(size.kernel)]


def _reduce(x: Any, start: Any, operation: Callable[..., Any], size: Size) -> Any:
    return lax.reduce_window(x, start, operation, (size.kernel, size.kernel, 1), (size.stride, size.stride, 1), "VALID")
