"""Maps from windows back to cells: for every cell, a sum over the windows that hold it. Nothing is scattered.

Notation, for one axis: window o holds the real cell i at offset j if i + low = o·stride + j·dilation. Cut the axis into
rows of one stride each, the first of which has `before` places before the first real cell: i + before = q·stride + r
with 0 ≤ r < stride. Write low - before = first·stride + shift with 0 ≤ shift < stride. The windows that hold a cell are
among o = first + q - t, each with j = (t·stride + r + shift)/dilation if that is a whole number from 0 to kernel - 1.
So the map is a sum over t of shifted slices of the outputs, broadcast along r: as many terms as windows overlap,
whatever their size.

For TPUs, and for footprints, there is a term for every offset instead, with the shape of the cells: stride - 1 fills
follow each output, and these are the outputs of windows with a stride of 1. An axis broadcast next to another and
merged with it makes a TPU move the rows one by one: gradients of 3×3/2 norms took three times the cycles.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpool._jax.platforms import known_platform
from jaxpool._jax.stages import materialize
from jaxpool._window import BinAxis, Window, WindowAxis, numbers
from jaxpool._windows.cells import as_tiles, combine_copies, copy_to_tiles, take
from jaxpool._windows.operations import Arrays, Filled, merge_axis, pad, split_axis

Covered = jax.Array | bool
Contribution = Callable[[jax.Array | int, Covered, Arrays, Arrays], jax.Array]


def where_covered(covered: Covered, array: jax.Array, outside: Any) -> jax.Array:
    """The array where windows hold the cells, and what it is outside where they do not."""
    return array if covered is True else jnp.where(covered, array, outside)


def gather_windows(contribution: Contribution, outputs: Filled, window: Window, inputs: Filled = ()) -> jax.Array:
    """Add up, for every input cell, the contributions of the windows that hold it; 0 where none does.

    `outputs` are arrays of the output's shape, or of size 1 along the pooled axes; `inputs` are arrays of the input's
    shape. `contribution(number, covered, windows, cells)` gets the row-major
    numbers of the cells in their windows; which of the cells the windows hold at all (the others must get 0); the
    entries of `outputs` at the windows; and those of `inputs` at the cells. All broadcast against each other.
    """
    if window.has_bins:
        (axis, *others) = window.axes
        if known_platform() == "cpu" and isinstance(axis, BinAxis) and axis.output <= axis.size and not others:
            # 0.2 to 0.7 of the time of copies. Kernels of a GPU would move 11 times the bytes.
            return _gather_from_bins(contribution, outputs, axis, inputs)
        copies = [(copy_to_tiles(array, window, fill), fill) for array, fill in inputs]
        return combine_copies(gather_windows(contribution, outputs, as_tiles(window), copies), window)
    held = set(window.numbers) if window.has_footprint else None
    axes = _rows_of(window, _dilates_outputs(window))
    rank = outputs[0][0].ndim + sum(axis.along.stride > 1 for axis in axes)
    windows_at = [_outputs_at(array, fill, axes) for array, fill in outputs]
    cells = tuple(_split(array, fill, axes) for array, fill in inputs)
    added: list[jax.Array] = []
    for terms in itertools.product(*(axis.terms for axis in axes)):
        number: Any = 0
        covered: Any = True
        for axis, term in zip(axes, terms, strict=True):
            along, here = axis.offsets_at(term, rank)
            number = number * axis.along.kernel + along
            covered = here if covered is True else covered if here is True else covered & here
        if held is None or number in held:
            added.append(contribution(number, covered, tuple(at(terms) for at in windows_at), cells))
    return _merge(reduce(lax.add, added), axes)


def _gather_from_bins(contribution: Contribution, outputs: Filled, axis: BinAxis, inputs: Filled) -> jax.Array:
    """The same for bins along one axis: a term for each of those that may hold a cell."""
    period = replace(axis.period(), axis=axis.axis + 1)

    def split(array: jax.Array, size: int) -> jax.Array:
        constant = array.shape[axis.axis] == 1
        return lax.expand_dims(array, [axis.axis]) if constant else split_axis(array, axis.axis, size)

    bins = [split(materialize(array), period.output) for array, _ in outputs]
    cells = tuple(split(array, period.size) for array, _ in inputs)
    added: list[jax.Array] = []
    for bin, held, places in zip(*map(materialize, period.holders()), strict=True):
        windows = tuple(
            array if array.shape[period.axis] == 1 else take(array, bin, period.axis, 0, inside=True) for array in bins
        )
        rank = windows[0].ndim
        added.append(contribution(period.along(places, rank), period.along(held, rank), windows, cells))
    return merge_axis(reduce(lax.add, added), axis.axis)


@dataclass(frozen=True)
class _Rows:
    """One pooled axis as `count` rows of cells, in the notation above; `terms` are the values of t.

    Attributes:
        outputs: How many windows have an entry in arrays of outputs: each but the first follows `spacing` - 1 fills.
        row_axis: The axis of r in arrays of rows, if a row has more than one cell.
    """

    along: WindowAxis
    outputs: int
    spacing: int
    before: int
    first: int
    shift: int
    count: int
    terms: Sequence[int]
    row_axis: int

    def padding(self) -> tuple[int, int, int]:
        """The padding below, above and between outputs: for the last term t, entry q is the output first + q - t."""
        high = self.count + self.first - self.terms[0] - self.along.output
        return self.terms[-1] - self.first, high, self.spacing - 1

    def offsets_at(self, term: int, rank: int) -> tuple[Any, Covered]:
        """The offset j of every r for t = term, and whether it exists."""
        along = self.along
        start = term * along.stride + self.shift
        if along.stride == 1:
            return start // along.dilation, True
        shape = [along.stride if axis == self.row_axis else 1 for axis in range(rank)]
        # On GPUs an iota, with everything computed from it, becomes a separate kernel.
        count = partial(lax.broadcasted_iota, np.int32) if known_platform() == "cpu" else numbers
        distances = start + count(shape, self.row_axis)
        covered: Covered = distances < along.extent if start + along.stride > along.extent else True
        if start < 0:
            covered = covered & (distances >= 0)
        if along.dilation == 1:
            return distances, covered
        return distances // along.dilation, covered & (distances % along.dilation == 0)


def _rows_of(window: Window, dilates: bool) -> list[_Rows]:
    made: list[_Rows] = []
    row_axis = 1
    for along in window.axes:
        # Along a sharded axis the compiler misplaces a single output that has interior padding.
        outputs, spacing = along.output, along.stride if dilates and along.output > 1 else 1
        if dilates:
            along = replace(along, stride=1, output=(outputs - 1) * spacing + 1)
        # Starting at the first real cell keeps a sharded axis cut at the same cells; in the padding may save a term.
        starts = 0, along.low % along.stride
        before = min(starts, key=lambda before, along=along: len(_terms(along, (along.low - before) % along.stride)))
        first, shift = divmod(along.low - before, along.stride)
        count = -(-(before + along.size) // along.stride)
        terms = _terms(along, shift)
        made.append(_Rows(along, outputs, spacing, before, first, shift, count, terms, along.axis + row_axis))
        row_axis += along.stride > 1
    return made


def _terms(axis: WindowAxis, shift: int) -> Sequence[int]:
    """The values of t for which some row has a cell in a window, in ascending order."""
    if axis.dilation <= axis.stride:
        # Every row between that of the first offset and that of the last one has a cell.
        return range(-shift // axis.stride, (axis.extent - 1 - shift) // axis.stride + 1)
    return sorted({(offset * axis.dilation - shift) // axis.stride for offset in range(axis.kernel)})


def _dilates_outputs(window: Window) -> bool:
    """Whether there is a term for each cell of a window: up to 16 on a TPU, and all of a footprint."""
    return window.has_footprint or (known_platform() == "tpu" and window.cells <= 16)


def _outputs_at(array: jax.Array, fill: Any, axes: Sequence[_Rows]) -> Callable[[tuple[int, ...]], jax.Array]:
    """A function from t along every axis to the outputs at the windows of all rows; outside they are `fill`."""
    # An array that is constant along an axis has size 1 there.
    varying = [axis for axis in axes if array.shape[axis.along.axis] == axis.outputs]
    padded = _pad(array, {axis.along.axis: axis.padding() for axis in varying}, fill)

    def at(terms: tuple[int, ...]) -> jax.Array:
        windows = padded
        for axis, term in zip(axes, terms, strict=True):
            if axis in varying:
                start = axis.terms[-1] - term
                windows = lax.slice_in_dim(windows, start, start + axis.count, 1, axis.along.axis)
        return lax.expand_dims(windows, [axis.row_axis for axis in axes if axis.along.stride > 1])

    return at


def _split(array: jax.Array, fill: Any, axes: Sequence[_Rows]) -> jax.Array:
    """Cells in whole rows; places without a cell are `fill`."""
    ends = {
        axis.along.axis: (axis.before, axis.count * axis.along.stride - axis.before - axis.along.size) for axis in axes
    }
    array = _pad(array, ends, fill)
    for axis in reversed(axes):
        if axis.along.stride > 1:
            array = split_axis(array, axis.along.axis, axis.along.stride)
    return array


def _merge(array: jax.Array, axes: Sequence[_Rows]) -> jax.Array:
    """Undo `_split`, for an array that may be constant along rows."""
    shape = list(array.shape)
    split = [axis for axis in axes if axis.along.stride > 1]
    for axis in split:
        shape[axis.row_axis] = axis.along.stride
    array = jnp.broadcast_to(array, shape)
    for axis in reversed(split):
        array = merge_axis(array, axis.row_axis - 1)
    for axis in split:
        array = lax.slice_in_dim(array, axis.before, axis.before + axis.along.size, 1, axis.along.axis)
    return array


def _pad(array: jax.Array, widths: dict[int, tuple[int, ...]], fill: Any) -> jax.Array:
    """Pad the array, followed by a barrier on the CPU."""
    return materialize(pad(array, widths, fill)) if any(map(any, widths.values())) else array
