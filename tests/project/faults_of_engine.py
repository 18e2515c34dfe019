"""Faults to plant in what all pools share: winners, maps back to cells, where windows are."""

from tests.project.fault import Fault

FAULTS = (
    # Winners: ties, NaN, padding, masks, offsets, and routing.
    Fault(
        "the last of ties wins",
        "lax.le if op is lax.max else lax.ge",
        "lax.lt if op is lax.max else lax.gt",
        "test_conventions test_hypothesis -k ties or max_pool",
    ),
    Fault(
        "the last of equal integers wins",
        "lax.gt if op is lax.max else lax.lt",
        "lax.ge if op is lax.max else lax.le",
        "test_integers test_platforms -k extremes or integers or winners",
    ),
    Fault(
        "offsets beyond 256 do not fit",
        "return np.min_scalar_type(part.cells - 1) if numbers is None else numbers.dtype",
        "return np.dtype(np.uint8) if numbers is None else numbers.dtype",
        "test_lowerings",
    ),
    Fault(
        "slices that start in the padding one window late",
        "first = min(max(-(start // axis.stride), 0), axis.output)",
        "first = min(max(1 - start // axis.stride, 0), axis.output)",
        "test_lowerings -k reductions",
    ),
    Fault(
        "rows of one column are not compared by offset",
        "is_better |= is_equal(first[0], later[0]) & (later[1] < first[1])",
        "pass",
        "test_lowerings -k either_order",
    ),
    Fault(
        "rows are routed as columns",
        "before, own = decode(offsets, (part.cells,))",
        "own, before = decode(offsets, (part.cells,))",
        "test_lowerings -k either_order",
    ),
    Fault("any cell replaces NaN", " & (first == first)", "", "test_nan -k max_pool"),
    Fault(
        "blocks lose the winner NaN", "found = (cells == best) | (cells != cells)", "found = cells == best", "test_nan"
    ),
    Fault(
        "a stretch of long rows is left out",
        "keepdims=False) for number in range(count)]",
        "keepdims=False) for number in range(count - 1)]",
        "test_blocks",
    ),
    Fault(
        "padding wins over -inf",
        "-np.inf if lowest else np.inf, dtype",
        "np.finfo(np.float16).min if lowest else np.inf, dtype",
        "test_platforms test_conventions -k infinit or winners",
    ),
    Fault("False wins over True", "np.bool_(not lowest)", "np.bool_(lowest)", "test_values test_integers -k bool"),
    Fault(
        "winners in low padding",
        "offsets = jnp.maximum(offsets, first_real_offsets(x.ndim, window, offsets.dtype))",
        "pass",
        "test_conventions test_platforms -k padding or winners or infinit",
    ),
    Fault(
        "first real cell off by one",
        "_steps(-self.starts(rank), self.dilation)",
        "_steps(-self.starts(rank) - 1, self.dilation)",
        "test_conventions test_platforms -k padding or winners or infinit",
    ),
    Fault(
        "a slice of cells left out",
        "combine(op, _slices(array, axis, width, op))",
        "combine(op, _slices(array, axis, width, op)[1:])",
        "test_lowerings -k whole_long_axes",
    ),
    Fault(
        "cells beyond a smaller bin",
        "where(places < counts, starts + places, np.int32(self.size))",
        "minimum(starts + places, np.int32(self.size - 1))",
        "test_bins test_values -k adaptive",
    ),
    Fault(
        "cotangents of bins that do not hold the cell",
        "covered = along.along(held, rank) if number else True",
        "covered = True",
        "test_bins test_derivatives -k adaptive",
    ),
    Fault(
        "cotangents padded on the wrong side",
        "low, high = high_term - self.first,",
        "low, high = high_term + self.first,",
        "test_lowerings -k spreading",
    ),
    Fault(
        "offsets of 8 bits",
        "np.min_scalar_type(part.cells - 1) if numbers is None",
        "np.dtype(np.uint8) if numbers is None",
        "test_kernel_sizes -k beyond",
    ),
    Fault(
        "offset without its piece",
        "within + np.array(start, within.dtype)[()]",
        "within",
        "test_lowerings test_derivatives -k selection or line-31",
    ),
    Fault(
        "pieces beyond the window",
        "min(start, kernel - width)",
        "start",
        "test_winners -k many_sizes",
    ),
    Fault(
        "a piece takes the next one's",
        "chosen &= offset < number(low + width)",
        "pass",
        "test_lowerings -k selection",
    ),
    Fault(
        "offsets keep their start",
        "entry[0] if entry else offset - number(start)",
        "entry[0] if entry else offset",
        "test_lowerings -k selection",
    ),
    Fault(
        "offsets added on the way back",
        "(before, lax.max)",
        "(before, lax.add)",
        "test_derivatives -k max_pool",
    ),
    Fault(
        "indices in the output",
        "encode(positions, [axis.size for axis in window.axes[1:]])",
        "encode(positions, [axis.output for axis in window.axes[1:]])",
        "test_values -k indices",
    ),
    Fault(
        "indices of copies",
        "position = copied_cells(position, axis.size, axis.extension)",
        "pass",
        "test_extension",
    ),
    Fault(
        "no index of -1",
        "positions if present is None else jnp.where(present[0], positions, np.int32(-1))",
        "positions",
        "test_values -k indices",
    ),
    Fault(
        "a mask that does nothing",
        "values = reduce_windows(jnp.where(mask, x, identity(self.op, x.dtype)), window, self.op)",
        "values = reduce_windows(x, window, self.op)",
        "test_derivatives test_masks -k max_pool or win",
    ),
    Fault(
        "rule vjp with the cotangents of another",
        "reverse_only.defvjp(lambda *arguments: jax.vjp(function, *arguments), _pull_back)",
        "reverse_only.defvjp(lambda x, *rest: jax.vjp(lambda x, *rest: 2 * function(x, *rest), x, *rest), _pull_back)",
        "test_derivatives -k max_pool",
    ),
    Fault(
        "transposes of the map itself",
        "transposed=_Direction(linear_map, True)",
        "transposed=_Direction(linear_map, False)",
        "test_derivatives test_linear -k max_pool or sum_pool",
    ),
    Fault(
        "residuals that vary taken for constants",
        "dots = list(map(lax.add, linear, dots)) if dots else linear",
        "dots = linear",
        "test_derivatives -k lp_pool",
    ),
    Fault(
        "tangents of another cell",
        "jnp.where(offsets == np.array(number, offsets.dtype)[()], cells",
        "jnp.where(offsets == np.array(window.cells - 1 - number, offsets.dtype)[()], cells",
        "test_derivatives -k max_pool",
    ),
    # The gather form.
    Fault(
        "one cell too many",
        "distances < along.extent if",
        "distances <= along.extent if",
        "test_derivatives -k line or plane",
    ),
    Fault(
        "the cell at offset 0 lost",
        "covered = covered & (distances >= 0)",
        "covered = covered & (distances > 0)",
        "test_derivatives -k line or plane",
    ),
    Fault(
        "gaps of dilation filled",
        "covered & (distances % along.dilation == 0)",
        "covered",
        "test_derivatives -k dilated",
    ),
    Fault(
        "gaps of dilation filled, stride 1",
        "(offset * axis.dilation - shift) // axis.stride",
        "(offset - shift) // axis.stride",
        "test_derivatives -k dilated or odd-axes or copies",
    ),
    Fault(
        "zeros between, and twice the rest",
        "(array.shape[axis] - 1) * stride + 1, 1, axis)",
        "(array.shape[axis] - 1) * stride + 1, 1, axis) * 2",
        "test_lowerings test_derivatives -k selection or line-13",
    ),
    # Where windows are.
    Fault(
        "a last window in the padding",
        "(output - 1) * step >= low + size +",
        "(output - 1) * step > low + size +",
        "test_derivatives -k ceil",
    ),
    Fault(
        "SAME as SAME_LOWER",
        '(total - half, half) if self.word == "SAME_LOWER"',
        '(half, total - half) if self.word == "SAME_LOWER"',
        "test_derivatives -k last or same",
    ),
    Fault(
        "copies the other way round",
        "return (extent - 1) // 2, extent // 2",
        "return extent // 2, (extent - 1) // 2",
        "test_extension test_derivatives -k copies or test_",
    ),
    Fault(
        "reflection with the edge",
        "positions % max(1, 2 * last)",
        "positions % (2 * last + 1)",
        "test_extension test_derivatives -k copies or test_",
    ),
    Fault(
        "bins too short",
        "-(-(window + 1) * self.size // self.output)",
        "(window + 1) * self.size // self.output",
        "test_derivatives -k bins",
    ),
)
