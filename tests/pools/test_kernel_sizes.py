"""Windows given as values: bins, whole axes and footprints, in every pool, and beside the same pools by other means."""

import itertools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.registry.calls import Call, check
from tests.registry.cases import disk, distinct, mask
from tests.registry.records import RECORDS

pytestmark = pytest.mark.usefixtures("for_this_platform")

WINDOWED = [name for name, record in RECORDS.items() if record.windows == "fixed"]


def test_bins_are_exact() -> None:
    for size, bins in itertools.product((1, 2, 7, 13, 41), (1, 3, 5, 13, 60)):
        cells = np.arange(size)
        starts = [math.floor(Fraction(i * size, bins)) for i in range(bins)]
        ends = [math.ceil(Fraction((i + 1) * size, bins)) for i in range(bins)]
        np.testing.assert_array_equal(jaxpool.min_pool(cells, jaxpool.bins(bins)), starts)
        np.testing.assert_array_equal(jaxpool.max_pool(cells, jaxpool.bins(bins)), np.subtract(ends, 1))
        counts = jaxpool.sum_pool(np.ones_like(cells), jaxpool.bins(bins))
        np.testing.assert_array_equal(counts, np.subtract(ends, starts))


@pytest.mark.parametrize(
    "function", [*WINDOWED[::2], *(pytest.param(one, marks=pytest.mark.slow) for one in WINDOWED[1::2])]
)
def test_bins_of_special_cells(function: str) -> None:
    check(Call(function, (2, 7), {"kernel_size": jaxpool.bins(3), **RECORDS[function].options}, cells="mixed"))


@pytest.mark.slow
@pytest.mark.parametrize("function", WINDOWED)
def test_masked_bins_whole_axes_and_footprints(function: str) -> None:
    options = RECORDS[function].options
    masked = {"kernel_size": jaxpool.bins(4), "axis": 1, "where": mask(2, 11, 3)}
    check(Call(function, (2, 11, 3), {**masked, **options}, cells="distinct"))
    check(Call(function, (2, 5, 3), {"kernel_size": jaxpool.whole, "axis": (1, 2), **options}))
    apart = {"kernel_size": jaxpool.footprint(np.array([True, False, True])), "stride": 1, "padding": 1}
    check(Call(function, (2, 13), {**apart, **options}, cells="mixed"))


def test_adaptive_and_global_pools_are_names_for_them() -> None:
    x = distinct((2, 3, 7, 6), "names")
    for kind in ("max", "avg"):
        pool, adaptive, over_all = (getattr(jaxpool, f"{name}{kind}_pool") for name in ("", "adaptive_", "global_"))
        np.testing.assert_array_equal(pool(x, jaxpool.bins(3, 4)), adaptive(x, (3, 4)))
        np.testing.assert_array_equal(pool(x, jaxpool.bins(2), axis=(1, 3)), adaptive(x, 2, axis=(1, 3)))
        np.testing.assert_array_equal(pool(x, jaxpool.bins(None, 2), axis=(3, 1)), adaptive(x, (None, 2), axis=(3, 1)))
        np.testing.assert_array_equal(pool(x, jaxpool.whole, axis=(1, 3)), over_all(x, axis=(1, 3)))
        # One bin, one window, and bins that divide the axis are plain windows.
        expected = over_all(x, axis=(2, 3))
        np.testing.assert_array_equal(adaptive(x, 1, axis=(2, 3)), expected)
        np.testing.assert_array_equal(pool(x, (7, 6)), expected)
        np.testing.assert_array_equal(over_all(x, axis=(3, 2), keepdims=False), expected[..., 0, 0])
        np.testing.assert_array_equal(adaptive(x, 3, axis=3), pool(x, 2, axis=3))


def test_pyramids_of_any_pool() -> None:
    x, where = distinct((2, 7, 6, 3), "pyramid"), mask(2, 7, 6, 1)
    pyramid = partial(jaxpool.spatial_pyramid_pool, x, (1, (2, 3)), axis=(1, 2), where=where)
    for kind in ("max", "avg"):
        np.testing.assert_array_equal(pyramid(kind=getattr(jaxpool, f"{kind}_pool")), pyramid(kind=kind))
    medians = jaxpool.median_pool(x, jaxpool.bins(2, 3), axis=(1, 2), where=where).reshape(2, 6, 3)
    np.testing.assert_array_equal(pyramid(kind=jaxpool.median_pool)[:, 1:], medians)
    pairs: Any = jaxpool.max_pool_with_indices
    with pytest.raises(TypeError, match="spatial_pyramid_pool: kind returned tuple"):
        pyramid(kind=pairs)


def test_scipy_has_the_same_filters() -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    x, cells = distinct((17, 15), "scipy"), disk(5)
    cells[1, 0] = False
    pools: dict[str, Any] = {"kernel_size": jaxpool.footprint(cells), "stride": 1, "padding": "REFLECT"}
    arguments: dict[str, Any] = {"footprint": cells, "mode": "mirror"}
    rank = partial(jaxpool.quantile_pool, q=7 / (cells.sum() - 1), method="lower")
    for found, expected in (
        (jaxpool.max_pool(x, **pools), ndimage.maximum_filter(x, **arguments)),
        (jaxpool.min_pool(x, **pools), ndimage.minimum_filter(x, **arguments)),
        (rank(x, **pools), ndimage.rank_filter(x, 7, **arguments)),
        (jaxpool.median_pool(x, **pools), ndimage.generic_filter(x, np.median, **arguments)),
        (jaxpool.lp_pool(x, 3, **pools), ndimage.generic_filter(x, partial(np.linalg.norm, ord=3), **arguments)),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_values_are_equal_if_made_of_the_same() -> None:
    cells = disk(4)
    assert jaxpool.bins(7, None) == jaxpool.bins(7, None) != jaxpool.bins(7, 7)
    assert jaxpool.footprint(cells) == jaxpool.footprint(jnp.asarray(cells)) != jaxpool.footprint(~cells)
    assert len({jaxpool.footprint(cells), jaxpool.footprint(cells.tolist()), jaxpool.whole, jaxpool.bins(2)}) == 3
    assert str(jaxpool.footprint(cells)) == f"footprint(4×4, {cells.sum()} cells)"
    assert f"{jaxpool.bins(7, None)} {jaxpool.whole}" == "bins(7, None) whole"


X: Any = np.zeros((4, 6, 6), np.float32)
_BINS: Any = jaxpool.bins(2, 2)
_TUPLE: Any = (7, 7)
_CORNERS, _RAGGED = jaxpool.footprint(np.eye(2, dtype=bool)[::-1]), [[True], [True, False]]
WRONG: list[tuple[type[Exception], str, Callable[..., Any]]] = [
    (ValueError, r"max_pool: stride 2 .* but kernel_size bins\(2, 2\)", lambda: jaxpool.max_pool(X, _BINS, 2)),
    (ValueError, "min_pool: padding 'SAME' .* leave padding out", lambda: jaxpool.min_pool(X, _BINS, None, "SAME")),
    (ValueError, "avg_pool: dilation 2 ", lambda: jaxpool.avg_pool(X, _BINS, dilation=2)),
    (ValueError, "sum_pool: ceil_mode True ", lambda: jaxpool.sum_pool(X, jaxpool.whole, ceil_mode=True, axis=0)),
    (ValueError, r"median_pool: .*whole needs axis; .* axis=\(-2, -1\)", lambda: jaxpool.median_pool(X, jaxpool.whole)),
    (ValueError, r"max_pool: .* \(2, 2\) has 2 entries but 3", lambda: jaxpool.max_pool(X, _BINS, axis=(0, 1, 2))),
    (ValueError, r"max_pool: .* \(2, 2\) has 2 entries but 1 axis is", lambda: jaxpool.max_pool(X, _CORNERS, axis=1)),
    (ValueError, r"min_pool: window \(0, 0\) .* only padding", lambda: jaxpool.min_pool(X, _CORNERS, 1, ((1, 0),) * 2)),
    (ValueError, "footprint: cells of shape .* all False", lambda: jaxpool.footprint(np.zeros((2, 2), bool))),
    (ValueError, "footprint: cells has rows of different lengths", lambda: jaxpool.footprint(_RAGGED)),
    (ValueError, "footprint: cells has no axes", lambda: jaxpool.footprint(np.array(True))),
    (TypeError, "footprint: cells must be bool, got dtype int", lambda: jaxpool.footprint(np.ones((2, 2), int))),
    (TypeError, "footprint: cells must be known while tracing", lambda: jax.jit(jaxpool.footprint)(np.ones(2, bool))),
    (ValueError, "bins: no size is given", jaxpool.bins),
    (TypeError, r"bins: size must be an int, got \(7, 7\); write bins\(7, 7\)", lambda: jaxpool.bins(_TUPLE)),
    (ValueError, "bins: size must be at least 1, got 0", lambda: jaxpool.bins(0)),
    (TypeError, "blur_pool: kernel_size must be an int or a sequence", lambda: jaxpool.blur_pool(X, _BINS)),
]


@pytest.mark.parametrize(("exception", "message", "wrong"), WRONG, ids=[message[:30] for _, message, _ in WRONG])
def test_wrong_windows(exception: type[Exception], message: str, wrong: Callable[..., Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        wrong()
    assert re.match(message, str(raised.value)), str(raised.value)
    assert raised.type is exception
