"""Where windows are, in integers: closed forms against windows that are written out cell by cell."""

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._geometry import window as geometry
from jaxpool._geometry.bins import BinAxis
from jaxpool._geometry.window import Window, WindowAxis, divmod_of_product, make_window


def windows(count: int) -> Iterator[Window]:
    """Windows along one axis of random sizes."""
    random = np.random.default_rng(0)
    for _ in range(count):
        size, kernel, stride, dilation = (int(random.integers(1, most)) for most in (30, 8, 7, 6))
        padding = tuple(random.integers(0, 9, 2).tolist())
        try:
            yield make_window(
                "f", (size,), (kernel,), (stride,), (padding,), (dilation,), bool(random.integers(2)), None
            )
        except ValueError:
            continue


def cells_of(axis: WindowAxis) -> list[list[int]]:
    """The cells of every window, those in the padding included."""
    return [[o * axis.stride - axis.low + j * axis.dilation for j in range(axis.kernel)] for o in range(axis.output)]


def test_closed_forms() -> None:
    for window in windows(600):
        (axis,) = window.axes
        cells, every = cells_of(axis), np.arange(axis.output)
        covered = np.isin(np.arange(axis.size), np.concatenate([np.array(each) for each in cells]))
        np.testing.assert_array_equal(axis.is_covered(np.arange(axis.size)), covered, str(axis))
        assert axis.is_all_covered == covered.all(), axis
        for padding in (False, True):
            low, high = (axis.low, axis.high) if padding else (0, 0)
            held = np.array([sum(-low <= cell < axis.size + high for cell in each) for each in cells])
            np.testing.assert_array_equal(axis.held_by(every, padding=padding), held, str(axis))
            np.testing.assert_array_equal(np.broadcast_to(axis.counts(1, padding=padding), held.shape), held)
        held = np.broadcast_to(axis.held_by(every, padding=False), every.shape)
        assert axis.is_full == (held == axis.kernel).all()
        assert window.possible_counts() == tuple(np.unique(held).tolist())
        np.testing.assert_array_equal(held[axis.kinds()][axis.kind(1)], held, str(axis))
        for cell in range(-3, axis.size + 3):
            assert axis.first_from(cell) == np.searchsorted(axis.start(every), cell)
        try:
            window.check_no_window_of_padding("f", "fix")
        except ValueError as error:
            assert f"window {np.argmin(held)} " in str(error)  # noqa: PT017
            assert not held.all()
        else:
            assert held.all(), axis


def test_the_device_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "MOST_IN_TABLE", 0)
    for window in windows(25):
        (axis,) = window.axes
        every = np.arange(axis.output)
        np.testing.assert_array_equal(axis.covered(1), axis.is_covered(np.arange(axis.size)))
        held = np.broadcast_to(axis.counts(1, padding=False), every.shape)
        np.testing.assert_array_equal(held, axis.held_by(every, padding=False))
        np.testing.assert_array_equal(held[axis.kinds()][np.asarray(axis.kind(1))], held)
        first = np.maximum(0, -(axis.start(every) // axis.dilation))
        np.testing.assert_array_equal(axis.first_real_offsets(1), first)


def test_windows_far_apart_cover_the_same_on_the_device() -> None:
    axis = WindowAxis(0, 400_000, 3, 100_003, 2, 0, 0, 4)
    covered = np.isin(np.arange(axis.size), np.ravel(cells_of(axis)))
    np.testing.assert_array_equal(axis.covered(1), covered)


@pytest.mark.parametrize("divisor", [10**8 + 1, 800_000_001, 2**31 - 1])
def test_products_beyond_32_bits(divisor: int) -> None:
    cells = np.random.default_rng(1).integers(0, divisor, 100).astype(np.int32)
    for factor in (7, 99_999_989, divisor - 2, 3 * divisor + 5 if divisor < 2**29 else 1):
        expected = np.array([divmod(int(cell) * factor, divisor) for cell in cells])
        for found in (
            divmod_of_product(jnp.asarray(cells), factor, divisor),
            divmod_of_product(cells, factor, divisor),
        ):
            np.testing.assert_array_equal(np.stack(found, -1), expected)


@pytest.mark.parametrize("most", [1024, 0], ids=["tables", "device"])
def test_bins_that_hold_a_cell(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "MOST_IN_TABLE", most)
    for size, bins in ((7, 4), (30, 21), (5, 13), (9, 40)):
        starts = [number * size // bins for number in range(bins)]
        ends = [-(-(number + 1) * size // bins) for number in range(bins)]
        kernel = max(np.subtract(ends, starts).tolist())
        axis = BinAxis(0, size, kernel, kernel, 1, 0, 0, bins)
        holders, held, places = map(np.asarray, axis.holders())
        for cell in range(size):
            expected = [(o, cell - starts[o]) for o in range(bins) if starts[o] <= cell < ends[o]]
            found = [(holders[n, cell], places[n, cell]) for n in range(len(holders)) if held[n, cell]]
            assert found == expected
        filled = np.array(
            [
                [start + j if start + j < end else size for j in range(kernel)]
                for start, end in zip(starts, ends, strict=True)
            ]
        )
        np.testing.assert_array_equal(axis.cells(), filled)


@pytest.mark.parametrize("pool", ["avg_pool", "gem_pool", "smooth_max_pool", "mellowmax_pool", "soft_pool", "lp_pool"])
def test_footprints_beyond_the_padding_are_empty(pool: str) -> None:
    # The only cell of the only window is beyond the end.
    beyond = jaxpool.footprint(np.array([False, False, True]))
    number = () if pool == "avg_pool" else (2.0,)
    assert getattr(jaxpool, pool)(jnp.array([1.0, 2.0]), *number, beyond, ceil_mode=True).tolist() == [0]
