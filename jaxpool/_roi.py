"""Pools of boxes: regions of interest of an array, all with the same number of bins.

A box is given by its low and high corners, in cells. It is data: it may be traced and learnt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._checks import as_array, check_array, check_flag
from jaxpool._sharding import evaluate_sharded
from jaxpool._sizes import Axes, Sizes, axes_and_sizes, sizes
from jaxpool._window import make_bins
from jaxpool._windows.operations import accumulation_dtype, encode

# So that products of their numbers are within int32.
_MOST_BINS = 46340

# Cells beyond every array. A box from one to the other has no sample at 0: that needs (k + 1/2)/N = 1/3 with integers.
_FAR_BELOW, _FAR_ABOVE = -1e18, 2e18


def roi_align(
    x: ArrayLike,
    boxes: ArrayLike,
    output_size: Sizes,
    *,
    sampling_ratio: int = 2,
    aligned: bool = True,
    axis: Axes | None = None,
) -> jax.Array:
    """Region-of-interest align (RoIAlign): the average of interpolated samples in every bin of every box.

    Formula along an axis, for a box from a to b, in m bins with S samples each: y[o] = 1/S·Σ_s x(p(o, s)), with
    p(o, s) = a - 1/2 + (o + (s + 1/2)/S)·(b - a)/m and x(p) = (1 - t)·x[i] + t·x[i + 1], i = ⌊p⌋, t = p - i, the linear
    interpolation. p is clamped to the centres of the first and last cell, 0 and n - 1; samples with p < -1 or p > n add
    0. With several axes samples and interpolation are products. This is torchvision's and Detectron2's.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64. All boxes refer to this one array:
            for a batch of images, each with its own boxes, write
            jax.vmap(lambda x, boxes: jaxpool.roi_align(x, boxes, (7, 7)))(images, boxes).
        boxes: Floats of shape (count, 2·D) for D pooled axes, in cells of x: the low corner, then the high corner, each
            in the order of the pooled axes. Torchvision's (x1, y1, x2, y2) on the axes (height, width) becomes
            boxes[:, jnp.array([1, 0, 3, 2])] * spatial_scale. A box may extend beyond x.
        output_size: Number of bins, one int per pooled axis: (7, 7) pools two axes. A single int applies to every axis
            in `axis`.
        sampling_ratio: Samples per bin along each axis, an int of at least 1.
        aligned: Whether cell i of an axis spans i to i + 1, with centre i + 1/2. If not, its centre is i, p has no
            term - 1/2, and boxes shorter than a cell are taken to be one cell long, as in the first version of the
            method.
        axis: The pooled axes, in the order of `output_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).

    Returns:
        Array of x's dtype (integers and bool: float32) and of shape (count, …): the boxes, then the axes of x, the
        pooled ones with the sizes in `output_size`. Sums are in float32 or wider and rounded once. Positions are
        computed in the wider of that dtype and the boxes' dtype.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, or `sampling_ratio` is less than 1.

    Derivative:
        With respect to x, the weights of the interpolation, divided by S per axis; with respect to the boxes, the
        derivative of p times x[i + 1] - x[i]; exact in every mode and order. At the kinks, which are integer p and
        boxes of one cell without `aligned`, it is the one-sided derivative towards larger p and longer boxes; where p
        is clamped, or a sample adds 0, the derivative with respect to the boxes is 0. For 16-bit floats, the cotangents
        of a cell are summed in float32; a GPU may add them in any order. A NaN or infinity reaches the bins that have a
        sample between that cell and its neighbours, even at weight 0. A box with a NaN has NaN in all of its bins and
        passes no derivative, to x or itself; an infinite corner counts as one far away, so that samples are beyond x
        and add 0. Ties and zeros are ordinary. No bin is empty.

    Example:
        >>> x = jnp.arange(16.0).reshape(4, 4)
        >>> jaxpool.roi_align(x, jnp.array([[0.0, 0.0, 4.0, 4.0], [1.0, 0.5, 2.0, 2.5]]), (2, 1)).tolist()
        [[[3.5], [11.5]], [[4.0], [6.0]]]

    Source: He, Gkioxari, Dollár and Girshick, "Mask R-CNN", ICCV 2017.
    """
    function = "roi_align"
    (ratio,) = sizes(function, "sampling_ratio", sampling_ratio, 1, least=1)
    aligned = check_flag(function, "aligned", aligned)
    return _pool(function, x, boxes, output_size, axis, _align, ratio, aligned)


def roi_pool(x: ArrayLike, boxes: ArrayLike, output_size: Sizes, *, axis: Axes | None = None) -> jax.Array:
    """Region-of-interest max pooling (RoIPool): the largest cell in every bin of every box.

    Formula along an axis, for a box from a to b, rounded to integers, halves away from 0: with l = max(b - a + 1, 1)
    and m bins, y[o] = max of x[a + i], ⌊o·l/m⌋ ≤ i < ⌈(o+1)·l/m⌉, cells beyond the ends of the axis left out. The high
    corner is in the box: a box from 0 to n - 1 is the whole axis, in the bins of `adaptive_max_pool`.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64. All boxes refer to this one array:
            for a batch of images, each with its own boxes, write
            jax.vmap(lambda x, boxes: jaxpool.roi_pool(x, boxes, (7, 7)))(images, boxes).
        boxes, output_size, axis: As in `roi_align`.

    Returns:
        Array of x's dtype and of shape (count, …): the boxes, then the axes of x, the pooled ones with the sizes in
        `output_size`. Bins that hold no cell are 0. Bins are exact; torchvision's, in float32, may hold one more cell.

    Raises:
        TypeError: x is complex or not an array, a size is not an int, or another argument has the wrong type.
        ValueError: arguments do not fit x, or there are too many cells or bins for int32.

    Derivative:
        ∂y[o]/∂x[i] = 1 if i is the winner of bin o, else 0; higher derivatives are 0, and there is none for the boxes,
        which are rounded. Ties: the first winner in row-major order takes all. NaN wins over numbers; NaNs tie, as +0
        and -0 do. A box with a NaN has NaN in all of its bins, if x has floats, and passes no derivative; an infinite
        corner counts as one far away. Empty bins pass no derivative. For 16-bit floats, the cotangents of a cell are
        summed in float32; a GPU may add them in any order.

    Example:
        >>> x = jnp.arange(16.0).reshape(4, 4)
        >>> jaxpool.roi_pool(x, jnp.array([[0.0, 0.0, 3.0, 3.0], [1.0, 1.0, 1.0, 9.0]]), (2, 1)).tolist()
        [[[7.0], [15.0]], [[7.0], [7.0]]]

    Source: Girshick, "Fast R-CNN", ICCV 2015.
    """
    return _pool("roi_pool", x, boxes, output_size, axis, _largest)


def _check_boxes(function: str, boxes: Any, axes: int) -> jax.Array:
    """Return the boxes, at least in float32, or raise if they are not boxes along this many axes."""
    boxes = as_array(function, "boxes", boxes)
    if not jnp.issubdtype(boxes.dtype, jnp.floating):
        raise TypeError(f"{function}: boxes must be floats, got dtype {boxes.dtype}; write boxes.astype('float32')")
    if boxes.ndim != 2 or boxes.shape[1] != 2 * axes:
        fix = f"give the shape (count, {2 * axes}), the low corner and the high corner of each box"
        if boxes.ndim == 3:
            fix = (
                f"for boxes of each image write jax.vmap(lambda x, boxes: jaxpool.{function}(x, boxes, ...))(x, boxes)"
            )
        raise ValueError(f"{function}: boxes of shape {boxes.shape} do not match {axes} pooled axes; {fix}")
    boxes = jnp.asarray(boxes)
    return boxes.astype(accumulation_dtype(boxes.dtype))


def _pool(
    function: str, x: Any, boxes: Any, output_size: Sizes, axis: Axes | None, core: Callable[..., Any], *options: Any
) -> jax.Array:
    array = check_array(function, x)
    axes, counts = axes_and_sizes(function, array.shape, "output_size", output_size, axis)
    window = make_bins(function, array.shape, counts, axes)
    if core is _largest:
        window.check_positions_fit(function)
        if max(counts) > _MOST_BINS:
            raise ValueError(f"{function}: output_size {max(counts)} is too large; give at most {_MOST_BINS} bins")
    boxes = _check_boxes(function, boxes, len(axes))
    # The pooled axes in the order of x, each with its number of bins and the columns of its corners in the boxes.
    plan = tuple(sorted((a, count, n, n + len(axes)) for n, (a, count) in enumerate(zip(axes, counts, strict=True))))
    arrays, shape = (array, boxes), window.output_shape(array.shape)
    evaluate = partial(_evaluate, plan=plan, core=core, options=options)
    return evaluate_sharded(evaluate, arrays, range(array.ndim), shape, leading=1)


@partial(jax.jit, static_argnames=("plan", "core", "options"))
def _evaluate(
    x: jax.Array, boxes: jax.Array, plan: Sequence[Any], core: Callable[..., Any], options: Sequence[Any]
) -> jax.Array:
    """Evaluate a core, which takes and returns the pooled axes before the others; NaN for boxes that have one."""
    # So that one read takes all entries of the others.
    axes = [axis for axis, *_ in plan]
    values = core(jnp.moveaxis(x, axes, range(len(axes))), boxes, [along for _, *along in plan], *options)
    values = jnp.moveaxis(values, range(1, len(axes) + 1), [axis + 1 for axis in axes])
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return values
    values = values.astype(x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else np.float32)
    return jnp.where(_unknown(boxes, x.ndim), jnp.full_like(values, jnp.nan), values)


# Notation: bin o of a box reads the cells c(o, s), the neighbours of its samples, with weights w(o, s), products of
# shares along the axes; a dot marks a tangent, a bar a cotangent.
#
#     y(o) = Σ_s w(o, s) x(c(o, s))        ẏ(o) = Σ_s w(o, s) ẋ(c(o, s)) + ẇ(o, s) x(c(o, s))
#     x̄(i) = Σ_{o, s : c(o, s) = i} w(o, s) ȳ(o)        w̄(o, s) = ȳ(o) x(c(o, s))
#
# Between kinks the weights are differentiable functions of the box and the cells are constant, so JAX derives these. No
# other cell affects a bin: a product with a matrix of weights, or taking one axis after the other, would spread a NaN
# to distant bins, or to corners of distant boxes.


def _align(cells: jax.Array, boxes: jax.Array, along: Sequence[Any], ratio: int, aligned: bool) -> jax.Array:
    pooled = len(along)
    array = cells.astype(accumulation_dtype(cells.dtype) if jnp.issubdtype(cells.dtype, jnp.floating) else np.float32)
    boxes = _finite(boxes.astype(np.promote_types(boxes.dtype, array.dtype)))
    weights, is_inside, indices = jnp.ones((), array.dtype), jnp.ones((), bool), []
    for axis, (count, low, high) in enumerate(along):
        positions = _sample_positions(boxes[:, low], boxes[:, high], count, ratio, aligned)
        below, share, inside = _neighbours(positions, array.shape[axis])
        # An interpreter may lack the mode of a read that keeps indices in the array.
        above = lax.min(below + 1, np.int32(array.shape[axis] - 1))
        shape = [boxes.shape[0], *[1] * 2 * pooled, *[1] * (array.ndim - pooled)]
        shape[2 * axis + 1 : 2 * axis + 3] = count, 2 * ratio
        of_neighbours = ((below, above), (1 - share, share), (inside, inside))
        numbers, shares, on_axis = (jnp.concatenate(pair, 2).reshape(shape) for pair in of_neighbours)
        indices.append(numbers.squeeze(range(2 * pooled + 1, len(shape))))
        weights = weights * shares.astype(array.dtype)
        is_inside = is_inside & on_axis
    read = array.at[tuple(indices)].get(mode="clip")
    # Samples that add 0 must not read NaN either.
    samples = jnp.where(is_inside, read, jnp.zeros_like(read)) * weights
    return samples.sum(range(2, 2 * pooled + 1, 2)) / ratio**pooled


def _largest(cells: jax.Array, boxes: jax.Array, along: Sequence[Any]) -> jax.Array:
    boxes = lax.stop_gradient(boxes)
    ends = ((count, boxes[:, low], boxes[:, high]) for count, low, high in along)
    bounds = [_bin_bounds(low, high, count, cells.shape[axis]) for axis, (count, low, high) in enumerate(ends)]
    positions = _first_largest(lax.stop_gradient(cells), bounds)
    # A gather that JAX differentiates; in float32, so that cotangents of several bins are rounded once.
    lines = lax.collapse(cells.astype(accumulation_dtype(cells.dtype)), 0, len(along))
    flat = lax.collapse(positions, 1, 1 + len(along))
    read = jax.vmap(lambda positions: jnp.take_along_axis(lines, positions, 0, mode="clip"))(flat)
    read = read.reshape(positions.shape)
    return jnp.where(positions < 0, jnp.zeros_like(read), read)


def _unknown(boxes: jax.Array, rank: int) -> jax.Array:
    """Which boxes have a NaN, broadcastable against their pools of an array of that rank."""
    return jnp.isnan(lax.stop_gradient(boxes)).any(1).reshape(-1, *[1] * rank)


def _finite(boxes: jax.Array) -> jax.Array:
    """The boxes, with 0 for those that have a NaN and corners clipped so that their difference does not overflow."""
    # Not clipped by `lax.clamp`, whose Taylor rule in JAX fails for bounds that are scalars.
    for beyond, limit in ((boxes < _FAR_BELOW, _FAR_BELOW), (boxes > _FAR_ABOVE, _FAR_ABOVE)):
        boxes = jnp.where(beyond, jnp.full_like(boxes, limit), boxes)
    return jnp.where(_unknown(boxes, 1), jnp.zeros_like(boxes), boxes)


def _sample_positions(low: jax.Array, high: jax.Array, bins: int, ratio: int, aligned: bool) -> jax.Array:
    """Positions of `ratio` samples in each bin, of shape (count, bins, ratio); cell centres are the integers."""
    if aligned:
        low, high = low - 0.5, high - 0.5
    length = high - low
    if not aligned:
        length = jnp.where(length < 1, jnp.ones_like(length), length)
    low, bin_length = low[:, None, None], (length / bins)[:, None, None]
    numbers = np.arange(bins).reshape(1, bins, 1).astype(low.dtype)
    within = ((np.arange(ratio).reshape(1, 1, ratio) + 0.5) / ratio).astype(low.dtype)
    return low + numbers * bin_length + within * bin_length


def _neighbours(positions: jax.Array, cells: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The cell at or below each position, the share of the next one, and which positions are on the axis.

    Up to one cell beyond the centre of the first or last cell, only that cell counts. A NaN counts as on the axis, and
    its share is NaN.
    """
    inside = ~((positions < -1) | (positions > cells))
    clamped = jnp.where(inside, positions, jnp.zeros_like(positions))
    clamped = jnp.where(clamped < 0, jnp.zeros_like(clamped), clamped)
    below = jnp.floor(clamped)
    last = clamped >= cells - 1
    share = jnp.where(last, jnp.zeros_like(clamped), clamped - below)
    return jnp.where(last, cells - 1, below.astype(np.int32)), share, inside


def _bin_bounds(low: jax.Array, high: jax.Array, bins: int, cells: int) -> tuple[jax.Array, jax.Array]:
    """The first cell of each bin and the first cell after it: two arrays of shape (count, bins).

    Of a box of l cells, bin o of m holds the cells u with ⌊o·l/m⌋ ≤ u < ⌈(o+1)·l/m⌉. With l = q·m + r these are
    o·q + ⌊o·r/m⌋ and (o+1)·q + ⌈(o+1)·r/m⌉. All arithmetic is on integers and stays within int32, for up to
    `_MOST_BINS` bins and however far away the corners are.
    """
    first, last = _rounded(low)[:, None], _rounded(high)[:, None]
    share, rest = jnp.divmod(jnp.maximum(last - first + 1, 1), bins)
    numbers = np.arange(bins + 1, dtype=np.int32)[None]
    low_edges, high_edges = numbers * rest // bins, -(-numbers * rest // bins)
    start, end = first + (numbers * share + low_edges)[:, :-1], first + (numbers * share + high_edges)[:, 1:]
    return jnp.clip(start, 0, cells), jnp.clip(end, 0, cells)


def _rounded(corner: jax.Array) -> jax.Array:
    """The nearest integer, with halves rounded away from 0, and at most 2^29 in magnitude; 0 for NaN."""
    limit = 2**29
    whole = jnp.trunc(corner)
    whole += jnp.where(jnp.abs(corner - whole) >= 0.5, jnp.sign(corner), jnp.zeros_like(corner))
    return jnp.nan_to_num(jnp.clip(whole, -limit, limit)).astype(np.int32)


def _first_largest(cells: jax.Array, bounds: Sequence[tuple[jax.Array, jax.Array]]) -> jax.Array:
    """Row-major positions, along the leading axes of the cells, of the first largest cell of every range; -1 for none.

    `bounds` gives, for each leading axis, the first cell of each range and the first cell after it, one row per box.
    The axes of the result are the boxes, the ranges along each axis, and the other axes of the cells.

    A loop reads one cell of every bin of all boxes at a time, in row-major order, for as many steps as the largest bin
    has cells. It carries only the values and positions of the results. One axis after the other would take fewer steps,
    but carry the bins along the first axis times all cells along the others: eight times the cells for a hundred boxes
    or so.
    """
    count = len(bounds)
    # Each axis of ranges separately, so that they broadcast against each other: (boxes, 1, …, ranges, …, 1).
    spread = [
        tuple(jnp.expand_dims(bound, [1 + other for other in range(count) if other != axis]) for bound in ends)
        for axis, ends in enumerate(bounds)
    ]
    lengths = [lax.max(np.int32(0), lax.reduce_max(stop - first, range(stop.ndim))) for first, stop in spread]

    # Of an array of the ranges, behind these: the other axes of the cells.
    others = range(1 + count, 1 + cells.ndim)

    def step(number: Any, best: jax.Array, best_positions: jax.Array) -> tuple[jax.Array, jax.Array]:
        indices, is_inside = [], jnp.ones((), bool)
        for (first, stop), length in zip(reversed(spread), reversed(lengths), strict=True):
            number, offset = number // length, number % length
            indices.insert(0, first + offset)
            is_inside = is_inside & (indices[0] < stop)
        values = cells.at[tuple(indices)].get(mode="clip")
        positions = jnp.expand_dims(encode(indices, cells.shape[1:count]), others)
        # The best cell so far wins ties, and NaN wins over numbers.
        larger = values > best
        if jnp.issubdtype(values.dtype, jnp.floating):
            larger = larger | ((values != values) & (best == best))
        wins = jnp.expand_dims(is_inside, others) & ((best_positions < 0) | larger)
        return jnp.where(wins, values, best), jnp.where(wins, positions, best_positions)

    # A range starts without a winner, so its first value is never used.
    start = cells.at[tuple(first for first, _ in spread)].get(mode="clip")
    # The counter has the type of its limit, which includes the batch axis.
    steps = math.prod(lengths[1:], start=lengths[0])
    first = jnp.zeros_like(steps), (start, jnp.full_like(start, -1, np.int32))
    # Not `fori_loop`, whose limits exporters take for numbers.
    _, (_, positions) = lax.while_loop(
        lambda state: state[0] < steps, lambda state: (state[0] + 1, step(state[0], *state[1])), first
    )
    return positions
