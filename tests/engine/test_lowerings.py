"""The lowerings of the engine against each other: every one gives the same results as the reference lowering.

A pool chooses among them only for speed, so each is called here even on windows for which another is faster.
"""

from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxpool
from jaxpool._engine import cpu, gather, gpu, pieces, reductions, slices, window_offsets
from jaxpool._engine.operations import identity
from jaxpool._geometry.window import Window, make_window
from tests.harness.compilation import compiled_as_usual
from tests.harness.parts import case_row, crossed
from tests.reference import oracle
from tests.registry.cases import distinct


def along(
    size: int, kernel: int, stride: int = 1, padding: Any = 0, dilation: int = 1, ceil_mode: bool = False
) -> Window:
    return make_window("test", (2, size), (kernel,), stride, padding, dilation, ceil_mode, None)


LINES = {
    "2": along(9, 2),
    "3 lopsided": along(12, 3, 1, ((3, 1),), 2),
    "4 alone": along(13, 4, 10, ((3, 0),)),
    "3 stride 2": along(10, 3, 2, ((1, 2),)),
    "8 blocks": along(24, 8, 8),
    "9 padded": along(20, 9, 1, 4),
    "13 ceil": along(31, 13, 3, ((5, 0),), 1, True),
    "10 dilated": along(33, 10, 4, 6, 2),
    "31": along(40, 31, 5, 15),
    "31 stride 1": along(90, 31, 1, 15),
    "45 dilated": along(100, 45, 1, 20, 2),
    "70": along(150, 70, 3, ((10, 0),), 1, True),
    "70 dilated": along(190, 70, 4, ((20, 0),), 2),
    "70 apart": along(230, 70, 80, 5),
    "90 few": along(300, 90, 60, 5, 2),
    "270": along(310, 270, 1, 3),
}
PLANE = make_window("test", (2, 9, 8), (3, 2), (2, 1), ((1, 0), (0, 1)), (2, 3), False, None)


def reduce_padded_slices(x: jax.Array, window: Window, op: Any) -> jax.Array:
    return reduce(op, window_offsets.slices_at_offsets(x, window, identity(op, x.dtype)))


@pytest.mark.parametrize(
    ("window", "op"),
    [
        case_row(window, op, id=f"{name}-{op.__name__}", kept=op is not lax.min or name in ("3 stride 2", "70"))
        for name, window in {**LINES, "plane": PLANE}.items()
        for op in (lax.max, lax.min, lax.add)
    ],
)
def test_lowerings_of_reductions_agree(window: Window, op: Any) -> None:
    x = distinct((2, *(axis.size for axis in window.axes)), "reductions")
    overlaps = all(axis.extent > axis.stride for axis in window.axes)
    if op is not lax.add and overlaps:
        x.flat[[3, 17]] = np.nan
    lowerings = [cpu.reduce_windows, gpu.reduce_windows, reduce_padded_slices]
    lowerings += [reductions.reduce_by_reduce_window, reductions.reduce_by_slices]
    if len(window.axes) == 1:
        lowerings.append(pieces.reduce_in_pieces)
    results = [jax.jit(lowering, static_argnums=(1, 2))(x, window, op) for lowering in lowerings]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-13, atol=1e-13)


def spread_by_padded_terms(cotangent: Any, window: Window) -> jax.Array:
    def contribution(_: Any, covered: Any, windows: Any, cells: Any) -> jax.Array:
        return jnp.where(covered, windows[0], 0)

    return gather.gather_windows(contribution, [(cotangent, 0)], window, pads_terms=True)


@pytest.mark.parametrize(
    "name",
    "2, 3 lopsided, 3 stride 2, 8 blocks, 9 padded, 13 ceil, 45 dilated, 70, 70 dilated, 70 apart, 90 few".split(", "),
)
def test_lowerings_of_spreading_agree(name: str) -> None:
    window = LINES[name]
    (axis,) = window.axes
    cotangent = np.random.default_rng(0).normal(size=(2, axis.output))
    lowerings = [
        cpu.spread,
        gpu.spread,
        reductions.spread_by_windows,
        pieces.spread_in_pieces,
        spread_by_padded_terms,
        reductions.spread_by_reduce_window,
    ]
    results = [jax.jit(lowering, static_argnums=1)(cotangent, window) for lowering in lowerings]
    (expected,) = jax.linear_transpose(
        lambda x: reductions.reduce_by_reduce_window(x, window, lax.add), jnp.zeros((2, axis.size))
    )(cotangent)
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-13)


def route_by_comparison(array: jax.Array, offsets: jax.Array, window: Window, op: Any) -> jax.Array:
    return slices.route_by_comparison([array], [offsets], window, op)


# Minima are the same as maxima with the comparison reversed.
@pytest.mark.parametrize(
    ("window", "op"),
    [
        case_row(window, op, id=f"{name}-{op.__name__}", kept=op is lax.max or name in ("3 stride 2", "13 ceil", "31"))
        for name, window in LINES.items()
        for op in (lax.max, lax.min)
    ],
)
def test_lowerings_of_selection_and_routing_agree(window: Window, op: Any) -> None:
    (axis,) = window.axes
    random = np.random.default_rng(0)
    # Few distinct numbers make ties, also between pieces. Others have better cells beyond the end of a window.
    ramp = np.arange(axis.size, dtype=np.float64)
    x = np.stack([*random.integers(0, 3, (2, axis.size)), random.permutation(ramp), ramp, -ramp])
    x[1, 5] = np.nan
    # What a selection along the axis before would record, with room for the offsets along this one.
    cells = np.array(window.cells, np.min_scalar_type(4 * window.cells - 1))[()]
    numbers = random.integers(0, 4, x.shape).astype(cells.dtype) * cells
    cotangent = random.normal(size=(5, axis.output))

    @jax.jit
    def everything(x: jax.Array, numbers: jax.Array, cotangent: jax.Array) -> Any:
        results = []
        for select_cells, route_back in [
            (slices.select_by_slices, route_by_comparison),
            (pieces.select_in_pieces, pieces.route_in_pieces),
        ]:
            values, offsets = select_cells(x, None, window, op)
            routed = route_back(cotangent, offsets, window, lax.add)
            numbered, found = select_cells(x, numbers, window, op)
            carried = route_back(found // cells, found % cells, window, lax.max)
            results.append((values, offsets, routed, numbered, found, carried))
        return results

    by_taps, *others = everything(x, numbers, cotangent)
    for other in others:
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-13, atol=1e-13), other, by_taps)
    np.testing.assert_array_equal(by_taps[3], by_taps[0])
    rule = oracle.largest if op is lax.max else oracle.smallest
    padding = ((axis.low, axis.high),)
    ceil_mode = axis.overhang > axis.high
    expected = oracle.pool(rule, x, (axis.kernel,), axis.stride, padding, dilation=axis.dilation, ceil_mode=ceil_mode)
    np.testing.assert_array_equal(by_taps[0], expected.values)
    np.testing.assert_allclose(by_taps[2], expected.backward(cotangent), rtol=1e-13, atol=1e-13)


FEW_ROWS: dict[str, tuple[Any, dict[str, Any]]] = {
    "9 by 9": (jaxpool.max_pool, {"kernel_size": (9, 9), "stride": 4, "padding": 2}),
    "70 by 5": (jaxpool.max_pool, {"kernel_size": (70, 5), "stride": (6, 3), "padding": ((20, 34), (2, 0))}),
    "blocks": (jaxpool.min_pool, {"kernel_size": (10, 8), "stride": (10, 8)}),
    "volumes": (jaxpool.min_pool, {"kernel_size": (3, 3, 3), "stride": 2, "padding": 1}),
    "bins": (jaxpool.adaptive_max_pool, {"output_size": (5, 7)}),
}


@pytest.mark.parametrize(
    ("name", "masked"),
    [
        case_row(name, masked, id=f"{name}-{'masked' if masked else 'plain'}", kept=kept)
        for name, masked, kept in crossed([*FEW_ROWS], (False, True), 2)
    ],
)
def test_selections_in_either_order_of_axes(name: str, masked: bool) -> None:
    pool, sizes = FEW_ROWS[name]
    shape = (2, 16, 4, 6, 8) if name == "volumes" else (2, 16, 30, 24)
    random = np.random.default_rng(0)
    x = random.integers(0, 3, shape).astype(np.float64)
    x[0, :, :, 5:7] = np.nan
    x[1, :2] = -np.inf if pool is jaxpool.max_pool else np.inf
    mask = random.random(shape) < 0.2 if masked else None
    if mask is not None:
        mask[1, 1:3] = False
    spatial = tuple(range(1, len(shape) - 1))

    @compiled_as_usual
    def both(x: jax.Array, x_last: jax.Array) -> Any:
        mask_last = None if mask is None else np.moveaxis(mask, 1, -1)
        first, back = jax.vjp(partial(pool, where=mask, **sizes), x)
        last, back_last = jax.vjp(partial(pool, where=mask_last, axis=spatial, **sizes), x_last)
        numbers = jnp.arange(first.size, dtype=x.dtype).reshape(first.shape)
        return (first, *back(numbers)), (last, *back_last(jnp.moveaxis(numbers, 1, -1)))

    for first, last in zip(*both(x, np.moveaxis(x, 1, -1)), strict=True):
        np.testing.assert_array_equal(np.moveaxis(last, -1, 1), first)


def test_orders_of_axes_depend_on_the_layout() -> None:
    # A control: the test above compares different programs.
    def first_axes(shape: tuple[int, ...], axis: tuple[int, ...], kernel_size: tuple[int, ...]) -> list[int]:
        window = make_window("test", shape, kernel_size, 4, 1, 1, False, axis)
        return [part.axes[0].axis for part in cpu.selection_order(window, shape)]

    assert first_axes((2, 16, 30, 24), (2, 3), (9, 9)) == [2, 3]
    assert first_axes((2, 30, 24, 16), (1, 2), (9, 9)) == [2, 1]
    assert first_axes((2, 30, 24, 16), (1, 2), (9, 3)) == [1]


@pytest.mark.parametrize(("channels", "stride"), [(3, 2), (6, 2), (12, 1), (16, 2)])
def test_volumes_with_channels_last(channels: int, stride: int) -> None:
    x = np.random.default_rng(channels).integers(0, 4, (2, channels, 5, 6, 7)).astype(np.float64)
    x[0, 1, 2, 3, 4:] = np.nan
    x_last = np.moveaxis(x, 1, -1)
    pool = partial(jaxpool.max_pool, kernel_size=(3, 3, 3), stride=stride, padding=1)
    window = make_window("test", x_last.shape, (3, 3, 3), stride, 1, 1, False, (1, 2, 3))
    at_once = len(cpu.selection_order(window, x_last.shape)) == 1
    assert at_once == (channels >= 6 and stride == 2)

    @compiled_as_usual
    def both(x: jax.Array, x_last: jax.Array) -> Any:
        first, back = jax.vjp(pool, x)
        last, back_last = jax.vjp(partial(pool, axis=(1, 2, 3)), x_last)
        numbers = jnp.arange(first.size, dtype=x.dtype).reshape(first.shape)
        return (first, *back(numbers)), (last, *back_last(jnp.moveaxis(numbers, 1, -1)))

    for first, last in zip(*both(x, x_last), strict=True):
        np.testing.assert_array_equal(np.moveaxis(last, -1, 1), first)


@pytest.mark.parametrize("cells", [256, 783, 1024, 3136])
def test_whole_long_axes(cells: int) -> None:
    x = np.random.default_rng(cells).normal(size=(3, 2, cells)).astype(np.float32)
    x[1, 0, [cells // 3, cells // 2]] = np.nan
    x[2, 1, [1, cells - 2]] = 100

    @compiled_as_usual
    def everything(x: jax.Array) -> Any:
        largest = jaxpool.global_max_pool(x, axis=-1, keepdims=False)
        winners = jax.grad(lambda x: jaxpool.global_max_pool(x, axis=-1).sum())(x)
        return largest, winners, jaxpool.global_avg_pool(x, axis=-1, keepdims=False)

    largest, winners, means = everything(x)
    np.testing.assert_array_equal(largest, x.max(-1))
    # NumPy and jaxpool both take the first of equal cells, and the first NaN.
    np.testing.assert_array_equal(winners, np.arange(cells) == x.argmax(-1)[..., None])
    np.testing.assert_allclose(means, x.astype(np.float64).mean(-1), rtol=0, atol=1e-6)
