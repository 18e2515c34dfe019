"""Pools of boxes: regions of interest of an array, all with the same number of bins."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxpool._arrays import as_array
from jaxpool._boxes import MOST_BINS, bin_bounds, finite, first_largest, neighbours, sample_positions, unknown
from jaxpool._call import check_array
from jaxpool._engine.operations import accumulation_dtype
from jaxpool._geometry.bins import make_bins
from jaxpool._geometry.sizes import Axes, Sizes, axes_and_sizes, check_flag, sizes
from jaxpool._sharding import evaluate_sharded

# The pooled axes in the order of x, each with its number of bins and the columns of its corners in the boxes.
Plan = tuple[tuple[int, int, int, int], ...]


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
        output_size: Number of bins, one int per pooled axis: (7, 7) pools two axes. An int is for every axis in `axis`.
        sampling_ratio: Samples per bin along each axis, an int of at least 1.
        aligned: Whether cell i of an axis spans i to i + 1, with centre i + 1/2. If not, its centre is i, p has no -
            1/2, and boxes shorter than a cell are taken to be one cell long, as in the first version of the method.
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
    return _pool(function, x, boxes, output_size, axis, partial(_align, ratio=ratio, aligned=aligned))


def roi_pool(x: ArrayLike, boxes: ArrayLike, output_size: Sizes, *, axis: Axes | None = None) -> jax.Array:
    """Region-of-interest max pooling (RoIPool): the largest cell in every bin of every box.

    Formula along an axis, for a box from a to b, rounded to integers, halves away from 0: with l = max(b - a + 1, 1)
    and m bins, y[o] = max of x[a + i], ⌊o·l/m⌋ ≤ i < ⌈(o+1)·l/m⌉, cells beyond the ends of the axis left out. The high
    corner is in the box: from 0 to n - 1 it is all of the axis, in the bins of `adaptive_max_pool`.

    Args:
        x: Array of any shape; bool, integers, float16, bfloat16, float32 or float64. All boxes refer to this one array:
            for a batch of images, each with its own boxes, write
            jax.vmap(lambda x, boxes: jaxpool.roi_pool(x, boxes, (7, 7)))(images, boxes).
        boxes: Floats of shape (count, 2·D) for D pooled axes, in cells of x: the low corner, then the high corner, each
            in the order of the pooled axes. Torchvision's (x1, y1, x2, y2) on the axes (height, width) becomes
            boxes[:, jnp.array([1, 0, 3, 2])] * spatial_scale. A box may extend beyond x.
        output_size: Number of bins, one int per pooled axis: (7, 7) pools two axes. An int is for every axis in `axis`.
        axis: The pooled axes, in the order of `output_size`; the last ones if None. Channels last: "NHWC" or (-3, -2).

    Returns:
        Array of x's dtype and of shape (count, …): the boxes, then the axes of x, the pooled ones with the sizes in
        `output_size`. Bins that hold no cell are 0. Bins are exact; torchvision's, in float32, may hold one more.

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
    function: str, x: Any, boxes: Any, output_size: Sizes, axis: Axes | None, core: Callable[..., jax.Array]
) -> jax.Array:
    array = check_array(function, x)
    axes, counts = axes_and_sizes(function, array.shape, "output_size", output_size, axis)
    window = make_bins(function, array.shape, counts, axes)
    if core is _largest:
        window.check_positions_fit(function)
        if max(counts) > MOST_BINS:
            raise ValueError(f"{function}: output_size {max(counts)} is too large; give at most {MOST_BINS} bins")
    boxes = _check_boxes(function, boxes, len(axes))
    plan = tuple(sorted((a, count, n, n + len(axes)) for n, (a, count) in enumerate(zip(axes, counts, strict=True))))
    arrays, shape = (array, boxes), window.output_shape(array.shape)
    return evaluate_sharded(lambda *arrays: core(*arrays, plan=plan), arrays, range(array.ndim), shape, leading=1)


# Notation: bin o of a box reads the cells c(o, s), the neighbours of its samples, with weights w(o, s), products of
# shares along the axes; a dot marks a tangent, a bar a cotangent.
#
#     y(o) = Σ_s w(o, s) x(c(o, s))        ẏ(o) = Σ_s w(o, s) ẋ(c(o, s)) + ẇ(o, s) x(c(o, s))
#     x̄(i) = Σ_{o, s : c(o, s) = i} w(o, s) ȳ(o)        w̄(o, s) = ȳ(o) x(c(o, s))
#
# Between kinks the weights are differentiable functions of the box and the cells are constant, so JAX derives these. No
# other cell affects a bin: a product with a matrix of weights, or taking one axis after the other, would spread a NaN
# to distant bins, or to corners of distant boxes.


@partial(jax.jit, static_argnames=("plan", "ratio", "aligned"))
def _align(x: jax.Array, boxes: jax.Array, plan: Plan, ratio: int, aligned: bool) -> jax.Array:
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else np.dtype(np.float32)
    # The pooled axes first, so that one read takes all entries of the others.
    axes = [axis for axis, *_ in plan]
    array = jnp.moveaxis(x.astype(accumulation_dtype(dtype)), axes, range(len(axes)))
    boxes = boxes.astype(np.promote_types(boxes.dtype, array.dtype))
    boxes, without_number = finite(boxes), unknown(boxes, x.ndim)
    weights, is_inside, indices = jnp.ones((), array.dtype), jnp.ones((), bool), []
    for number, (axis, count, low, high) in enumerate(plan):
        positions = sample_positions(boxes[:, low], boxes[:, high], count, ratio, aligned)
        below, share, inside = neighbours(positions, x.shape[axis])
        # An interpreter may lack the mode of a read that keeps indices in the array.
        above = lax.min(below + 1, np.int32(x.shape[axis] - 1))
        shape = [boxes.shape[0], *[1] * 2 * len(axes), *[1] * (x.ndim - len(axes))]
        shape[2 * number + 1 : 2 * number + 3] = count, 2 * ratio
        of_neighbours = ((below, above), (1 - share, share), (inside, inside))
        cells, shares, on_axis = (jnp.concatenate(pair, 2).reshape(shape) for pair in of_neighbours)
        indices.append(cells.squeeze(range(2 * len(axes) + 1, len(shape))))
        weights = weights * shares.astype(array.dtype)
        is_inside = is_inside & on_axis
    cells = array.at[tuple(indices)].get(mode="clip")
    # Samples that add 0 must not read NaN either.
    samples = jnp.where(is_inside, cells, jnp.zeros_like(cells)) * weights
    values = samples.sum(range(2, 2 * len(axes) + 1, 2)) / ratio ** len(axes)
    values = jnp.moveaxis(values, range(1, len(axes) + 1), [axis + 1 for axis in axes]).astype(dtype)
    return jnp.where(without_number, jnp.full_like(values, jnp.nan), values)


@partial(jax.jit, static_argnames=("plan",))
def _largest(x: jax.Array, boxes: jax.Array, plan: Plan) -> jax.Array:
    axes = [axis for axis, *_ in plan]
    boxes = lax.stop_gradient(boxes)
    bounds = [bin_bounds(boxes[:, low], boxes[:, high], count, x.shape[axis]) for axis, count, low, high in plan]
    # The pooled axes first, so that one read takes all entries of the others.
    cells = jnp.moveaxis(x, axes, range(len(axes)))
    positions = first_largest(lax.stop_gradient(cells), bounds)
    # A gather that JAX differentiates; in float32, so that cotangents of several bins are rounded once.
    lines = lax.collapse(cells.astype(accumulation_dtype(x.dtype)), 0, len(axes))
    flat = lax.collapse(positions, 1, 1 + len(axes))
    read = jax.vmap(lambda positions: jnp.take_along_axis(lines, positions, 0, mode="clip"))(flat)
    read = read.reshape(positions.shape)
    values = jnp.where(positions < 0, jnp.zeros_like(read), read)
    values = jnp.moveaxis(values, range(1, len(axes) + 1), [axis + 1 for axis in axes]).astype(x.dtype)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return values
    return jnp.where(unknown(boxes, x.ndim), jnp.full_like(values, jnp.nan), values)
