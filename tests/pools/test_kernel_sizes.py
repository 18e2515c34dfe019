"""Windows given as values: bins, whole axes and footprints, beside the same pools by other means.

The registry has rows of each pool with one of them, against the reference.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_fast
from tests.reference import oracle
from tests.registry.cases import distinct, mask
from tests.registry.records import RECORDS

pytestmark = pytest.mark.usefixtures("for_this_platform")

WINDOWED = [name for name, record in RECORDS.items() if record.windows == "fixed"]

# Arguments of wrong types.
_PAIRS: Any = jaxpool.max_pool_with_indices
_TUPLE: Any = (7, 7)
_BINS: Any = jaxpool.bins(2, 2)


def disk(size: int) -> np.ndarray:
    """The cells of a square whose centres are at most size/2 from its own."""
    along = np.arange(size) - (size - 1) / 2
    return np.hypot(along[:, None], along) <= size / 2


def call(function: str, x: Any, kernel_size: Any, **others: Any) -> Any:
    return getattr(jaxpool, function)(x, kernel_size=kernel_size, **RECORDS[function].options, **others)


def values_and_gradient(pool: Callable[[Any], Any], x: Any) -> Any:
    """The outputs of a pool, and its gradient with the cotangents of `cotangent_of`."""

    def total(x: jax.Array) -> tuple[jax.Array, Any]:
        outputs = pool(x)
        values = outputs[0] if isinstance(outputs, tuple) else outputs
        return (values * jnp.arange(1.0, values.size + 1).reshape(values.shape)).sum(), outputs

    (_, outputs), gradient = jax.value_and_grad(total, has_aux=True)(x)
    return outputs, gradient


def check_outputs(outputs: Any, gradient: Any, expected: oracle.Pooled, *, atol: float) -> None:
    """Compare what `values_and_gradient` returns with the reference: gradients up to this error."""
    values, *indices = outputs if isinstance(outputs, tuple) else (outputs,)
    np.testing.assert_allclose(values, expected.values, atol=1e-10)
    if indices:
        np.testing.assert_array_equal(indices[0], expected.indices)
    np.testing.assert_allclose(gradient, expected.backward(cotangent_of(expected)), atol=atol)


def cotangent_of(expected: oracle.Pooled) -> np.ndarray:
    """Different numbers for all values."""
    return np.arange(1.0, expected.values.size + 1).reshape(expected.values.shape)


@pytest.mark.parametrize("function", WINDOWED)
def test_bins_and_whole_axes(function: str) -> None:
    x, options = distinct((2, 11, 3), function), RECORDS[function].options
    calls = [
        {"kernel_size": jaxpool.bins(4), "axis": 1, "where": mask(2, 11, 3)},
        {"kernel_size": jaxpool.bins(5)},
        {"kernel_size": jaxpool.whole, "axis": (1, 2)},
    ]
    everything = compiled_fast(lambda x: [values_and_gradient(partial(call, function, **each), x) for each in calls])
    for each, (outputs, gradient) in zip(calls, everything(x), strict=True):
        check_outputs(outputs, gradient, oracle.evaluate(function, x, **each, **options), atol=1e-9)


@pytest.mark.parametrize("function", WINDOWED)
def test_special_cells_stay_in_their_bins_and_footprints(function: str) -> None:
    x = np.array([[3.0, np.nan, 1, 2, -np.inf, -np.inf, -np.inf, 5, np.inf, np.inf, 0, -0.0, 0]])
    calls = {
        "bins": {"kernel_size": jaxpool.bins(5)},
        "footprint": {"kernel_size": jaxpool.footprint(np.array([True, False, True])), "stride": 1, "padding": 1},
    }
    for arguments in calls.values():
        with np.errstate(invalid="ignore"):
            expected = oracle.evaluate(function, x, **arguments, **RECORDS[function].options)
        outputs = call(function, x, **arguments)
        values, *indices = outputs if isinstance(outputs, tuple) else (outputs,)
        np.testing.assert_allclose(values, expected.values, rtol=1e-12)
        if indices:
            np.testing.assert_array_equal(indices[0], expected.indices)


def test_adaptive_and_global_pools_are_names_for_them() -> None:
    x = distinct((2, 3, 7, 6), "names")
    for kind in ("max", "avg"):
        pool, adaptive, over_all = (getattr(jaxpool, f"{name}{kind}_pool") for name in ("", "adaptive_", "global_"))
        np.testing.assert_array_equal(pool(x, jaxpool.bins(3, 4)), adaptive(x, (3, 4)))
        np.testing.assert_array_equal(pool(x, jaxpool.bins(2), axis=(1, 3)), adaptive(x, 2, axis=(1, 3)))
        np.testing.assert_array_equal(pool(x, jaxpool.bins(None, 2), axis=(3, 1)), adaptive(x, (None, 2), axis=(3, 1)))
        np.testing.assert_array_equal(pool(x, jaxpool.whole, axis=(1, 3)), over_all(x, axis=(1, 3)))


def test_pyramids_of_any_pool() -> None:
    x, where = distinct((2, 7, 6, 3), "pyramid"), mask(2, 7, 6, 1)
    pyramid = partial(jaxpool.spatial_pyramid_pool, x, (1, (2, 3)), axis=(1, 2), where=where)
    for kind in ("max", "avg"):
        np.testing.assert_array_equal(pyramid(kind=getattr(jaxpool, f"{kind}_pool")), pyramid(kind=kind))
    medians = pyramid(kind=jaxpool.median_pool)
    np.testing.assert_array_equal(
        medians[:, 1:], jaxpool.median_pool(x, jaxpool.bins(2, 3), axis=(1, 2), where=where).reshape(2, 6, 3)
    )
    with pytest.raises(TypeError, match="spatial_pyramid_pool: kind returned tuple"):
        pyramid(kind=_PAIRS)


def test_scipy_has_the_same_filters() -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    x, cells = distinct((17, 15), "scipy"), disk(5)
    cells[1, 0] = False
    pools = {"kernel_size": jaxpool.footprint(cells), "stride": 1, "padding": "REFLECT"}
    arguments = {"footprint": cells, "mode": "mirror"}
    for found, expected in (
        (jaxpool.max_pool(x, **pools), ndimage.maximum_filter(x, **arguments)),
        (jaxpool.min_pool(x, **pools), ndimage.minimum_filter(x, **arguments)),
        (
            jaxpool.quantile_pool(x, 7 / (cells.sum() - 1), method="lower", **pools),
            ndimage.rank_filter(x, 7, **arguments),
        ),
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


def test_a_full_footprint_is_the_plain_window() -> None:
    x = jnp.zeros((8, 8))
    plain, full = (
        jax.make_jaxpr(lambda x, given=given: jaxpool.lp_pool(x, 2, given, 1))(x)
        for given in ((3, 2), jaxpool.footprint(np.ones((3, 2), bool)))
    )
    assert str(plain) == str(full)


X = np.zeros((4, 6, 6), np.float32)
WRONG: list[tuple[type[Exception], str, Callable[[], Any]]] = [
    (
        ValueError,
        r"max_pool: stride 2 places windows of one size, but kernel_size bins\(2, 2\)",
        partial(jaxpool.max_pool, X, jaxpool.bins(2, 2), 2),
    ),
    (
        ValueError,
        "lp_pool: padding 'SAME' .* leave padding out",
        partial(jaxpool.lp_pool, X, 2, jaxpool.whole, None, "SAME", axis=0),
    ),
    (ValueError, "avg_pool: dilation 2 ", partial(jaxpool.avg_pool, X, jaxpool.bins(2), dilation=2)),
    (ValueError, "sum_pool: ceil_mode True ", partial(jaxpool.sum_pool, X, jaxpool.bins(2), ceil_mode=True)),
    (
        ValueError,
        r"median_pool: kernel_size whole needs axis; .* axis=\(-2, -1\)",
        partial(jaxpool.median_pool, X, jaxpool.whole),
    ),
    (
        ValueError,
        r"max_pool: kernel_size \(2, 2\) has 2 entries but 3 axes",
        partial(jaxpool.max_pool, X, jaxpool.bins(2, 2), axis=(0, 1, 2)),
    ),
    (
        ValueError,
        r"max_pool: kernel_size \(3, 3\) has 2 entries but 1 axis is",
        partial(jaxpool.max_pool, X, jaxpool.footprint(disk(3)), axis=1),
    ),
    (
        ValueError,
        r"min_pool: window \(0, 0\) along axes \(1, 2\) holds only padding",
        partial(jaxpool.min_pool, X, jaxpool.footprint(np.eye(2, dtype=bool)[::-1]), 1, ((1, 0), (1, 0))),
    ),
    (ValueError, "footprint: cells of shape .* all False", partial(jaxpool.footprint, np.zeros((2, 2), bool))),
    (ValueError, "footprint: cells has rows of different lengths", partial(jaxpool.footprint, [[True], [True, False]])),
    (ValueError, "footprint: cells has no axes", partial(jaxpool.footprint, np.array(True))),
    (TypeError, "footprint: cells must be bool, got dtype int", partial(jaxpool.footprint, np.ones((2, 2), int))),
    (TypeError, "footprint: cells must be known while tracing", partial(jax.jit(jaxpool.footprint), np.ones(2, bool))),
    (ValueError, "bins: no size is given", jaxpool.bins),
    (TypeError, r"bins: size must be an int, got \(7, 7\); write bins\(7, 7\)", partial(jaxpool.bins, _TUPLE)),
    (ValueError, "bins: size must be at least 1, got 0", partial(jaxpool.bins, 0)),
    (
        TypeError,
        "blur_pool: kernel_size must be an int or a sequence",
        partial(jaxpool.blur_pool, X, _BINS),
    ),
]


@pytest.mark.parametrize(("exception", "message", "wrong"), WRONG, ids=[message[:30] for _, message, _ in WRONG])
def test_wrong_windows(exception: type[Exception], message: str, wrong: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        wrong()
    assert re.match(message, str(raised.value)), str(raised.value)
    assert raised.type is exception
